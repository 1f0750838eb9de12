// Runs a network on the device: its values stay there from node to node, and from the second run on
// the whole network is one CUDA graph.
//
// As engine/graph/executor.h (same inputs, same trace, same errors), with these differences.
// - A node whose inputs are all known on the host (integers, shapes, constants) is computed there
//   once, by the CPU's kernel, when the network is planned; a plan is made anew when input types
//   change or the elements of an integer input do.
// - An op that has no kernel of the device at all (top_k, comparisons, losses; if, loop and scan
//   with the graphs they own) is computed by the CPU's kernel, which the trace names; what it reads
//   is copied to the host, what it makes is known there. Since types and kernels behind it may
//   depend on that, such a network is planned anew, node by node, in each run.
// - Every other node needs a kernel of the device; where none offers its contract the run stops
//   with the refusals. Nothing falls back to the CPU but slices whose rounding the device left
//   undecided (device_definition.h), which are part of its kernel.
// - A first run, and one that hashes, keeps or times nodes, goes node by node. A later one launches
//   the graph and looks at one count for each node after it: where a slice was left undecided, the
//   network runs again node by node, and does so from then on.
// After an error the host's tensors are as they were, device memory is given back, and the next run
// plans anew.
#pragma once

#include <memory>

#include "engine/graph/executor.h"

namespace etalon::cuda {

class DeviceExecutor {
 public:
  DeviceExecutor(std::shared_ptr<const Graph> graph, const Registry& registry, RunOptions options);
  ~DeviceExecutor();
  DeviceExecutor(DeviceExecutor&&) noexcept;
  DeviceExecutor& operator=(DeviceExecutor&&) noexcept;

  // With `time_nodes`, node by node, each with its time on the device.
  Trace run(const NamedTensors& inputs, bool time_nodes = false);

  // Did the last run launch the graph?
  bool launched_graph() const;
  // That graph once more, on the inputs that lie on the device: seconds until it is done, nothing
  // copied from or to the host.
  double launch_again();
  // Device memory that values of the network share among them, constants left out.
  std::size_t value_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etalon::cuda
