// What a graph reads: placeholders whose shape the file does not say, and nodes that bring data
// from elsewhere (decoded pictures, queues, iterators, parsed examples), whose results are its
// inputs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/ops/params.h"
#include "importers/formats/tf/body.h"

namespace etalon::tf {

// Nodes that outputs hang on, and which of their outputs are read; what stands before one of
// `known` or before data from elsewhere is not looked at.
std::map<std::string, std::set<std::size_t>> reached_from(const Body& main,
                                                          const std::vector<std::string>& wanted,
                                                          const std::set<std::string>& known);

// Extents as those who read the placeholder want them: channels of a convolution, rows of a matrix,
// none of a truth value or of what a dropout keeps. -1 is free. With
// `as_first` where it is the first operand of all on the way: an old graph says of a number, too,
// that it has no extents.
// Adds how many nodes were looked at to `looked_at`.
std::optional<Ints> dims_from_readers(const Body& main, const std::string& placeholder, bool truth,
                                      bool as_first, std::size_t& looked_at);

struct DataOutput {
  std::string name;       // of the input that it becomes
  std::int64_t type = 0;  // as TensorFlow numbers them
  Ints dims;
};
bool brings_data(const std::string& op);
// A bad-input Error where the node does not say what it brings.
std::vector<DataOutput> data_outputs(const Body& main, const PbMessage& node);

}  // namespace etalon::tf
