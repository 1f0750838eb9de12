// What if, loop and scan (engine/ops/control.h) do with the bodies they own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace etalon {

// Names that a graph reads and does not make: it takes them from the graphs around it. In the
// sequence of first use; bodies inside it are looked into.
std::vector<std::string> captured_names(const Graph& graph);

// Runs subgraph `which` of the node on these inputs: its outputs.
using RunBody = std::function<std::vector<Tensor>(std::size_t which, std::vector<Tensor> inputs)>;

// One loop or scan may run so many iterations: a file that never ends is refused.
inline constexpr std::int64_t kIterationLimit = 10'000'000;

// Told the bytes that a control node holds between runs of its body (what it carries, and what it
// collects), and the type that was added last: throws where they are too many.
using Holding = std::function<void(const TensorType& last, std::int64_t bytes)>;

// The outputs of a control node.
std::vector<Tensor> run_control(const Node& node, std::span<const Tensor* const> inputs,
                                const RunBody& body, const Holding& holding = {});

}  // namespace etalon
