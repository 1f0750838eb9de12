// Runs a graph, node by node, under one contract, and keeps a trace.
//
// Shapes are inferred when a node's inputs are known, so that shapes which depend on data need no
// second mechanism; what can be planned once (kernel, packed weights, output types) is kept between
// runs for as long as the input types stay the same. A kernel that nobody promises stops the run
// before it starts computing that node; it is never replaced in silence.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/registry.h"
#include "engine/core/hash.h"
#include "engine/graph/graph.h"

namespace etalon {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

struct NodeRecord {
  std::string name;
  std::string_view op;
  std::string_view kernel;
  std::vector<Hash128> hashes;  // of each output, when RunOptions::hash_nodes
  double seconds = 0;  // of a fused node: 0, its time is in that of the node it was fused into
  // The node whose kernel ran this one's on its output while that was in cache; empty otherwise.
  std::string fused_into;
};

struct RunOptions {
  Contract contract;
  Device device = Device::cpu;
  Isa isa = detect_isa();
  int threads = 1;
  std::string
      kernels;  // a row's name or prefix that every node must use; empty: the fastest defined
  // Largest sum of live tensors; an op that would go beyond it (Expand, Tile of a hostile file) is
  // refused before memory is taken.
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30;
  bool hash_nodes = false;
  bool keep_values = false;  // Trace::values holds every value by name
  // Pointwise ops run on the output of the node before them while it is in cache, with the same
  // kernels, and images lie with their channels last where that is faster; the bits are the same.
  // Not where a value between nodes is wanted (the two options above).
  bool fuse = true;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

struct Trace {
  std::vector<NodeRecord> nodes;                        // in the graph's sequence
  std::vector<std::pair<std::string, Tensor>> outputs;  // in the graph's sequence
  NamedTensors values;
  double seconds = 0;
};

class Executor {
 public:
  // Keeps the graph and refers to the registry for as long as it lives.
  Executor(std::shared_ptr<const Graph> graph, const Registry& registry, RunOptions options);
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  // Inputs by name; a missing, unknown or ill-typed one is a bad-input Error that names it.
  Trace run(const NamedTensors& inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One op without a graph: for tests, `etalon judge` and the comparison of single layers.
struct OpRun {
  std::vector<Tensor> outputs;
  std::vector<Tensor> truth;  // f64, one for each floating output, when asked for
  const KernelRow* kernel = nullptr;
};
OpRun run_op(const OpRow& op, const Params& params, std::span<const Tensor* const> inputs,
             const Registry& registry, const RunOptions& options, bool with_truth = false);

}  // namespace etalon
