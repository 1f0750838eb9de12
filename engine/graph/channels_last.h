// Where the values between convolutions lie: [N,C,H,W] as a graph says, or with channels last in
// memory, [N,H,W,C]. No sum knows where its terms lie, so the bits are the same; the time is not.
//
// Nodes that have a form for either layout may go over: convolutions, batch normalisation,
// functions of one element, sums and products of elements, the mean over an image. In the other
// layout such a node is another row of the table of ops (conv_channels_last) or the same with
// another axis, and a value that crosses over is turned by a node of its own. Those go over whose
// depthwise layers and products of one tap gain more than the turned values cost.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/graph/graph.h"

namespace etalon {

struct ChannelsLast {
  std::shared_ptr<const Graph> graph;  // same inputs, outputs, names
  // By node of it: the node of the given graph that it is, or for which it turns a value.
  std::vector<std::size_t> node_of;
  std::vector<bool> turns;
};

// nullopt where nothing gains. `types`: of each value, as far as they are known. `lanes`: of a
// vector.
std::optional<ChannelsLast> channels_last(const Graph& graph,
                                          const std::vector<std::optional<TensorType>>& types,
                                          int lanes);

}  // namespace etalon
