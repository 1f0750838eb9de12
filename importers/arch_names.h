// Names that published implementations give to the weights of a network that is built in.
//
// A naming counts only where the file has a tensor for every weight that is left to place: names
// then say it all, and also whose layout the weights have. Only implementations of the very same
// network are listed: weights of Caffe's ResNet-50, whose first 1x1 of a block has the stride, fit
// ours in every shape and are another network's.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace etalon {

struct WeightNaming {
  std::string_view network;                           // of engine/models
  std::string_view whose;                             // for the table of what went where
  std::string_view layout;                            // weight_layout.h
  std::string (*tensor_of)(std::string_view weight);  // "" for a weight that it has not
};

std::span<const WeightNaming> weight_namings();

}  // namespace etalon
