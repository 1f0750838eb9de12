// What an Executor keeps between runs (executor.h): a plan for each node, who reads which value,
// and which nodes run on pieces of the output before them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/pointwise.h"
#include "engine/core/tensor_pool.h"
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
Problem make_problem(const OpRow& op, const Params& params, const NodePlan& plan,
                     const RunOptions& options);
// Makes or renews the plan. `constant[i]` says that input i is the same tensor in every run.
void make_plan(NodePlan& plan, const OpRow& op, const Params& params,
               std::span<const Tensor* const> inputs, const std::vector<bool>& constant,
               const Registry& registry, const RunOptions& options);
void run_plan(const NodePlan& plan, const OpRow& op, const Params& params,
              std::span<const Tensor* const> inputs, std::span<Tensor> outputs,
              std::span<Tensor> truth, const RunOptions& options,
              const Finished* finished = nullptr);

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
  std::vector<bool> constant;  // initializers
  std::vector<bool> counted;   // made by a node: its memory counts as live
  TensorPool pool;

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o);
  void bind_inputs(const NamedTensors& given, std::vector<Tensor>& values) const;
  std::string input_names() const;

  // executor_fusion.cpp
  // Which nodes might run on pieces of their input; whether one does, its kernel says.
  void find_followers();
  // The chain of nodes that will run on the output `y` of a node, value by value from `v` on.
  std::vector<Follower> followers_of(ValueId v, const Tensor& y, const std::vector<Tensor>& values);
  // The chain with steps that can stay in registers joined.
  std::vector<Link> links_of(const std::vector<Follower>& chain) const;
  // Runs node i and the chain behind it, all on out[0]. False when node i's kernel cannot.
  bool run_fused(std::size_t i, const std::vector<const Tensor*>& in, std::vector<Tensor>& out,
                 std::vector<Follower>& chain);

  // executor_bodies.cpp
  // Graph `which` of node i, on these inputs and on what it takes from `values`.
  std::vector<Tensor> run_body(std::size_t i, std::size_t which, std::vector<Tensor> inputs,
                               const std::vector<Tensor>& values, std::int64_t live_bytes);
  // The records of the nodes inside node i, which are then forgotten.
  std::vector<NodeRecord> take_records(std::size_t i);
};

}  // namespace etalon
