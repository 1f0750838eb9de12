#include "engine/graph/executor.h"

#include <algorithm>
#include <chrono>

#include "engine/core/tensor_pool.h"
#include "engine/core/threads.h"

namespace etalon {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What is decided about a node once, for given input types.
struct NodePlan {
  std::vector<InferInput> inputs;  // value set only for constants
  std::vector<TensorType> outputs;
  const KernelRow* row = nullptr;
  Prepared prepared;
  bool types_need_values = false;  // output types depend on values that change between runs
};

std::vector<InferInput> infer_inputs(std::span<const Tensor* const> inputs,
                                     const std::vector<bool>& constant) {
  std::vector<InferInput> in(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != nullptr)
      in[i] = {inputs[i]->type(), constant.empty() || constant[i] ? inputs[i] : nullptr, true};
  return in;
}

bool same_types(const NodePlan& plan, std::span<const Tensor* const> inputs) {
  if (plan.row == nullptr || plan.inputs.size() != inputs.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (plan.inputs[i].given != (inputs[i] != nullptr) ||
        (inputs[i] != nullptr && !(plan.inputs[i].type == inputs[i]->type())))
      return false;
  return true;
}

Problem make_problem(const OpRow& op, const Params& params, const NodePlan& plan,
                     const RunOptions& options) {
  return {.op = &op,
          .params = &params,
          .inputs = plan.inputs,
          .outputs = plan.outputs,
          .contract = &options.contract,
          .device = options.device,
          .isa = options.isa};
}

// Makes or renews the plan. `constant[i]` says that input i is the same tensor in every run.
void make_plan(NodePlan& plan, const OpRow& op, const Params& params,
               std::span<const Tensor* const> inputs, const std::vector<bool>& constant,
               const Registry& registry, const RunOptions& options) {
  const bool fresh = !same_types(plan, inputs);
  if (!fresh && !plan.types_need_values) return;
  std::vector<TensorType> outputs;
  std::vector<InferInput> known = infer_inputs(inputs, constant);
  bool need_values = plan.types_need_values && !fresh;
  if (!need_values) {
    try {
      outputs = infer(op, params, InferInputs(known));
    } catch (const NotConstant&) {
      need_values = true;
    }
  }
  if (need_values) {
    const std::vector<InferInput> all = infer_inputs(inputs, {});
    outputs = infer(op, params, InferInputs(all));
  }
  if (!fresh && outputs == plan.outputs) return;
  plan.inputs = std::move(known);
  plan.outputs = std::move(outputs);
  plan.types_need_values = need_values;
  const Problem problem = make_problem(op, params, plan, options);
  plan.row = &registry.require(problem, options.kernels);
  plan.prepared =
      plan.row->prepare == nullptr ? nullptr : plan.row->prepare(problem, options.threads);
}

void run_plan(const NodePlan& plan, const OpRow& op, const Params& params,
              std::span<const Tensor* const> inputs, std::span<Tensor> outputs,
              std::span<Tensor> truth, const RunOptions& options) {
  const Problem problem = make_problem(op, params, plan, options);
  const DefaultFpEnvironment fp;
  plan.row->run({.problem = &problem,
                 .inputs = inputs,
                 .outputs = outputs,
                 .truth = truth,
                 .threads = options.threads,
                 .prepared = plan.prepared.get()});
}

}  // namespace

struct Executor::State {
  std::shared_ptr<const Graph> graph;
  const Registry& registry;
  RunOptions options;
  std::vector<NodePlan> plans;
  std::vector<int>
      last_use;  // by value: index of the last node that reads it; nodes.size() for outputs
  std::vector<bool> constant;  // initializers
  std::vector<bool> counted;   // made by a node: its memory counts as live
  TensorPool pool;

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o)
      : graph(std::move(g)), registry(r), options(std::move(o)) {
    const std::size_t values = graph->value_names.size();
    plans.resize(graph->nodes.size());
    last_use.assign(values, -1);
    constant.assign(values, false);
    counted.assign(values, false);
    for (const Node& node : graph->nodes)
      for (const ValueId v : node.outputs)
        if (v != kAbsent) counted[static_cast<std::size_t>(v)] = true;
    for (const auto& [v, tensor] : graph->initializers)
      constant[static_cast<std::size_t>(v)] = true;
    for (std::size_t i = 0; i < graph->nodes.size(); ++i)
      for (const ValueId v : graph->nodes[i].inputs)
        if (v != kAbsent) last_use[static_cast<std::size_t>(v)] = static_cast<int>(i);
    for (const Declaration& d : graph->outputs)
      last_use[static_cast<std::size_t>(d.value)] = static_cast<int>(graph->nodes.size());
  }

  void bind_inputs(const NamedTensors& given, std::vector<Tensor>& values) const {
    for (const auto& [v, tensor] : graph->initializers)
      values[static_cast<std::size_t>(v)] = tensor.share();
    for (const Declaration& d : graph->inputs) {
      const std::string& input = graph->value_name(d.value);
      const auto at = given.find(input);
      if (at == given.end()) throw bad_input("input {} is not given; name it in --input", input);
      check_input(*graph, d, at->second.type());
      values[static_cast<std::size_t>(d.value)] = at->second.share();
    }
    for (const auto& [input, tensor] : given)
      if (std::ranges::none_of(graph->inputs, [&](const Declaration& d) {
            return graph->value_name(d.value) == input;
          }))
        throw bad_input("the graph has no input '{}'; its inputs are {}", input, input_names());
  }

  std::string input_names() const {
    std::string names;
    for (const Declaration& d : graph->inputs)
      names += (names.empty() ? "" : ", ") + graph->value_name(d.value);
    return names;
  }
};

Executor::Executor(std::shared_ptr<const Graph> graph, const Registry& registry, RunOptions options)
    : state_(std::make_unique<State>(std::move(graph), registry, std::move(options))) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

Trace Executor::run(const NamedTensors& inputs) {
  State& s = *state_;
  const Graph& graph = *s.graph;
  Trace trace;
  std::vector<Tensor> values(graph.value_names.size());
  s.bind_inputs(inputs, values);
  std::int64_t live_bytes = 0;
  const double start = now_seconds();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    check_interrupt();
    const Node& node = graph.nodes[i];
    const ErrorScope where("node " + node.name);
    std::vector<const Tensor*> in;
    std::vector<bool> constant;
    for (const ValueId v : node.inputs) {
      in.push_back(v == kAbsent ? nullptr : &values[static_cast<std::size_t>(v)]);
      constant.push_back(v != kAbsent && s.constant[static_cast<std::size_t>(v)]);
    }
    NodePlan& plan = s.plans[i];
    const double began = now_seconds();
    make_plan(plan, *node.op, node.params, in, constant, s.registry, s.options);

    std::vector<Tensor> out;
    for (const TensorType& type : plan.outputs) {
      const std::int64_t bytes = checked_mul(type.shape.numel(), size_bytes(type.dtype));
      live_bytes = checked_add(live_bytes, bytes);
      if (live_bytes > s.options.memory_limit_bytes)
        throw bad_input(
            "an output {} would bring memory to {} bytes, beyond the limit of {}; raise "
            "--memory-limit if this is wanted",
            to_string(type), live_bytes, s.options.memory_limit_bytes);
      out.push_back(s.pool.take(type.dtype, type.shape));
    }
    run_plan(plan, *node.op, node.params, in, out, {}, s.options);
    NodeRecord record{.name = node.name, .op = node.op->name, .kernel = plan.row->name};
    record.seconds = now_seconds() - began;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (s.options.hash_nodes) record.hashes.push_back(hash_tensor(out[o]));
      if (node.outputs[o] == kAbsent) continue;
      if (s.options.keep_values)
        trace.values.emplace(graph.value_name(node.outputs[o]), out[o].share());
      values[static_cast<std::size_t>(node.outputs[o])] = std::move(out[o]);
    }
    trace.nodes.push_back(std::move(record));
    for (const ValueId v : node.inputs)
      if (v != kAbsent && s.last_use[static_cast<std::size_t>(v)] == static_cast<int>(i)) {
        Tensor& dead = values[static_cast<std::size_t>(v)];
        if (dead && s.counted[static_cast<std::size_t>(v)])
          live_bytes -= static_cast<std::int64_t>(dead.size_bytes());
        dead = Tensor();
      }
    if (s.options.progress) s.options.progress(i + 1, graph.nodes.size());
  }
  trace.seconds = now_seconds() - start;
  for (const Declaration& d : graph.outputs)
    trace.outputs.emplace_back(graph.value_name(d.value),
                               values[static_cast<std::size_t>(d.value)].share());
  return trace;
}

OpRun run_op(const OpRow& op, const Params& params, std::span<const Tensor* const> inputs,
             const Registry& registry, const RunOptions& options, bool with_truth) {
  NodePlan plan;
  make_plan(plan, op, params, inputs, std::vector<bool>(inputs.size(), true), registry, options);
  OpRun result;
  for (const TensorType& type : plan.outputs) {
    result.outputs.push_back(Tensor::uninitialized(type.dtype, type.shape));
    if (with_truth)
      result.truth.push_back(is_floating(type.dtype) ? Tensor::uninitialized(DType::f64, type.shape)
                                                     : Tensor());
  }
  run_plan(plan, op, params, inputs, result.outputs, result.truth, options);
  result.kernel = plan.row;
  return result;
}

}  // namespace etalon
