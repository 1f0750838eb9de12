// What an Executor keeps between runs (executor.h): a plan for each node, who reads which value,
// and which nodes run on pieces of the output before them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/pointwise.h"
#include "engine/core/tensor_pool.h"
#include "engine/graph/channels_last.h"
#include "engine/graph/executor.h"

namespace etalon {

// What is decided about a node once, for given input types.
struct NodePlan {
  std::vector<InferInput> inputs;  // value set only for constants
  std::vector<TensorType> outputs;
  const KernelRow* row = nullptr;
  Prepared prepared;
  bool types_need_values = false;  // output types depend on values that change between runs
};

// executor_plan.cpp
// Refuses `live_bytes`, the last of which are an output of this type.
void check_memory(const TensorType& type, std::int64_t live_bytes, const RunOptions& options);
Problem make_problem(const OpRow& op, const Params& params, const NodePlan& plan,
                     const RunOptions& options);
// Makes or renews the plan. `constant[i]` says that input i is the same tensor in every run.
void make_plan(NodePlan& plan, const OpRow& op, const Params& params,
               std::span<const Tensor* const> inputs, const std::vector<bool>& constant,
               const Registry& registry, const RunOptions& options);
void run_plan(const NodePlan& plan, const OpRow& op, const Params& params,
              std::span<const Tensor* const> inputs, std::span<Tensor> outputs,
              std::span<Tensor> truth, const RunOptions& options,
              const Finished* finished = nullptr, std::span<const PointwiseStep> steps = {});

// A node whose kernel runs on pieces of the output of the node before it, in place.
struct Follower {
  std::size_t node;
  std::vector<const Tensor*> inputs;
  Problem problem;
  KernelCall call;
};

// What runs on a part of an output at a time: a follower by pieces, or several as steps.
struct Link {
  const KernelRow* row = nullptr;
  const KernelCall* call = nullptr;
  std::vector<PointwiseStep> steps;
};

struct Executor::State {
  // A graph that a node owns, ready to run: what it takes from around it are inputs like its own.
  struct Body {
    std::vector<std::string> captured;
    std::vector<DType> dtypes;  // of all inputs; the executor is made for these
    std::unique_ptr<Executor> executor;
    std::vector<NodeRecord> records;
  };

  std::shared_ptr<const Graph> graph;
  const Registry& registry;
  RunOptions options;
  std::vector<NodePlan> plans;
  std::vector<std::vector<Body>> bodies;    // by node, for each graph it owns
  std::vector<std::vector<ValueId>> reads;  // by node: its inputs, and what its bodies take
  std::vector<int> uses;  // by value: how many inputs of nodes read it, plus one for an output
  // By value: the one node that reads it, once, where that node's op has kernels that run by
  // pieces; -1 otherwise.
  std::vector<int> follower;
  std::vector<bool> constant;     // initializers
  std::vector<bool> counted;      // made by a node: its memory counts as live
  std::int64_t around_bytes = 0;  // of a body: what lives in the graphs around it
  TensorPool pool;
  std::optional<std::vector<TensorType>> checked;  // the types of inputs that were let through
  // Where values lie in another layout than the graph has: what runs in its place, for inputs of
  // the types that were let through.
  struct LaidOut {
    ChannelsLast layout;
    std::unique_ptr<Executor> executor;
  };
  std::optional<LaidOut> laid_out;

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o);
  void bind_inputs(const NamedTensors& given, std::vector<Tensor>& values) const;
  // executor_plan.cpp
  // Before anything is computed: no output whose extents are known by now may be larger than the
  // memory that the run may take. With inputs of new types the layout is chosen anew.
  void check_extents(const std::vector<Tensor>& values);
  std::string input_names() const;

  // executor_layout.cpp
  void choose_layout(const std::vector<std::optional<TensorType>>& types);
  // The run of `other`, with the records of this graph's nodes.
  Trace run_laid_out(const LaidOut& other, const NamedTensors& inputs) const;

  // executor_fusion.cpp
  // Which nodes might run on pieces of their input; whether one does, its kernel says.
  void find_followers();
  // The chain of nodes that will run on the output `y` of a node, value by value from `v` on.
  std::vector<Follower> followers_of(ValueId v, const Tensor& y, const std::vector<Tensor>& values);
  // The chain with steps that can stay in registers joined.
  std::vector<Link> links_of(const std::vector<Follower>& chain) const;
  // What the steps add to y is read for the last time: y takes its memory, so that each cache line
  // of it is fetched once and not beside one of y's own.
  void take_place(const std::vector<Follower>& chain, std::span<const PointwiseStep> steps,
                  Tensor& y, std::vector<Tensor>& values, const std::vector<int>& left) const;
  // Runs node i and the chain behind it, all on out[0]. False when node i's kernel cannot. With
  // `left`, the reads that are to come of each value: out[0] may change places with one of `values`
  // that only the chain reads.
  bool run_fused(std::size_t i, const std::vector<const Tensor*>& in, std::vector<Tensor>& out,
                 std::vector<Follower>& chain, std::vector<Tensor>& values,
                 const std::vector<int>& left);

  // executor_bodies.cpp
  // Graph `which` of node i, on these inputs and on what it takes from `values`.
  std::vector<Tensor> run_body(std::size_t i, std::size_t which, std::vector<Tensor> inputs,
                               const std::vector<Tensor>& values, std::int64_t live_bytes);
  // The records of the nodes inside node i, which are then forgotten.
  std::vector<NodeRecord> take_records(std::size_t i);
};

}  // namespace etalon
