// The nodes of a CNTK 1 network as its file holds them (network_file.cpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"
#include "importers/formats/cntk/ops.h"

namespace etalon::cntk {

struct NetworkItem {
  Function f;
  Ints shape;
  Tensor value;  // of a parameter, or of statistics
  bool is_input = false, is_sparse = false, inverse_deviation = false;
};

struct NetworkFile {
  std::uint64_t version = 1;
  std::map<std::string, NetworkItem> items;
  std::vector<std::string> order;  // of the file
  std::vector<std::string> outputs, evaluated;
};
NetworkFile read_network(const Blob& file);

}  // namespace etalon::cntk
