// The layers of a Caffe network in the words of V2, whatever version wrote them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "importers/containers/pbtree.h"

namespace etalon::caffe {

struct Layer {
  std::string name, type;
  std::vector<std::string> bottoms, tops, shared;  // shared: names of weights, "" where none
  PbMessage params;
  std::vector<PbMessage> blobs;
};
Shape shape_of(const PbMessage& blob);
Tensor tensor_of(const PbMessage& blob);

// Whether its tops come from outside of the network.
bool is_data(std::string_view type);

// `all`: also those that the rules of a network for inference leave out; `version`: V0, V1 or V2.
std::vector<Layer> layers_of(const PbMessage& net, std::string& version, bool all);

}  // namespace etalon::caffe
