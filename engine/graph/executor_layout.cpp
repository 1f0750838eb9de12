// Graphs that run with some of their values in another layout (channels_last.h), in the place of
// the graph that was given.
#include <map>

#include "engine/graph/executor_state.h"

namespace etalon {

void Executor::State::choose_layout(const std::vector<std::optional<TensorType>>& types) {
  laid_out.reset();
  // Measured is seq, on vectors.
  if (!options.fuse || options.hash_nodes || options.keep_values || !options.kernels.empty() ||
      options.device != Device::cpu || options.isa < Isa::avx2 || !options.contract.is_seq())
    return;
  constexpr int kLanes = 8, kWideLanes = 16;
  std::optional<ChannelsLast> layout =
      channels_last(*graph, types, options.isa >= Isa::avx512 ? kWideLanes : kLanes);
  if (!layout) return;
  RunOptions inner = options;
  inner.progress = nullptr;  // counts other nodes
  if (options.progress)
    inner.progress = [this](std::size_t done, std::size_t total) {
      options.progress(done * graph->nodes.size() / total, graph->nodes.size());
    };
  auto executor = std::make_unique<Executor>(layout->graph, registry, std::move(inner));
  laid_out = LaidOut{std::move(*layout), std::move(executor)};
}

Trace Executor::State::run_laid_out(const LaidOut& other, const NamedTensors& inputs) const {
  other.executor->state_->around_bytes = around_bytes;
  Trace trace = other.executor->run(inputs);
  std::vector<NodeRecord> made = std::move(trace.nodes);
  trace.nodes.clear();
  trace.nodes.resize(graph->nodes.size());
  std::map<std::string_view, std::size_t> named;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (other.layout.turns[i]) continue;
    const std::size_t node = other.layout.node_of[i];
    trace.nodes[node] = std::move(made[i]);
    trace.nodes[node].op = graph->nodes[node].op->name;
    named.emplace(graph->nodes[node].name, node);
  }
  // Turning a value counts where it was wanted.
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!other.layout.turns[i]) continue;
    NodeRecord* record = &trace.nodes[other.layout.node_of[i]];
    if (!record->fused_into.empty()) record = &trace.nodes[named.at(record->fused_into)];
    record->seconds += made[i].seconds;
  }
  return trace;
}

}  // namespace etalon
