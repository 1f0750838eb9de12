// Plans of nodes: output types, the kernel, what it prepares; kept while input types stay the same.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/graph/executor_state.h"
#include "engine/ops/control.h"

namespace etalon {
namespace {

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

}  // namespace

void check_memory(const TensorType& type, std::int64_t live_bytes, const RunOptions& options) {
  if (live_bytes > options.memory_limit_bytes)
    throw bad_input(
        "an output {} would bring memory to {} bytes, beyond the limit of {}; take a smaller "
        "batch, or 'etalon run' with a higher --memory-limit",
        to_string(type), live_bytes, options.memory_limit_bytes);
}

void Executor::State::check_extents(const std::vector<Tensor>& values) {
  std::vector<TensorType> given;
  for (const Declaration& d : graph->inputs)
    given.push_back(values[static_cast<std::size_t>(d.value)].type());
  if (checked == given) return;
  std::vector<std::optional<TensorType>> types(values.size());
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v]) types[v] = values[v].type();
  for (const Node& node : graph->nodes) {
    std::vector<InferInput> in;
    bool known = !is_control(*node.op);
    for (const ValueId v : node.inputs) {
      in.emplace_back();
      if (v == kAbsent) continue;
      const auto at = static_cast<std::size_t>(v);
      if (const auto& type = types[at])
        in.back() = {*type, constant[at] ? &values[at] : nullptr, true};
      else
        known = false;
    }
    if (!known) continue;
    const ErrorScope where("node " + node.name);
    std::vector<TensorType> out;
    try {
      out = infer(*node.op, node.params, InferInputs(in));
    } catch (const NotConstant&) {
      continue;
    } catch (const Error&) {
      continue;  // what does not fit is said where the node runs, behind what is wrong before it
    }
    for (std::size_t i = 0; i < out.size() && i < node.outputs.size(); ++i) {
      const std::int64_t bytes = checked_mul(out[i].shape.numel(), size_bytes(out[i].dtype));
      check_memory(out[i], checked_add(around_bytes, bytes), options);
      if (node.outputs[i] != kAbsent) types[static_cast<std::size_t>(node.outputs[i])] = out[i];
    }
  }
  checked = std::move(given);
  choose_layout(types);
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

// No output has an element. Integers among the inputs may yet be indices of nothing, which their
// kernels refuse; of other inputs no value is wrong.
bool computes_nothing(const NodePlan& plan) {
  return std::ranges::all_of(plan.outputs,
                             [](const TensorType& t) { return t.shape.numel() == 0; }) &&
         std::ranges::all_of(plan.inputs, [](const InferInput& i) {
           return !i.given || is_floating(i.type.dtype);
         });
}

void make_plan(NodePlan& plan, const OpRow& op, const Params& params,
               std::span<const Tensor* const> inputs, const std::vector<bool>& constant,
               const Registry& registry, const RunOptions& options) {
  const bool fresh = !same_types(plan, inputs);
  if (!fresh && !plan.types_need_values) return;
  const DefaultFpEnvironment fp;  // rows compute when they prepare
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
  plan.prepared = plan.row->prepare == nullptr || computes_nothing(plan)
                      ? nullptr
                      : plan.row->prepare(problem, options.threads);
}

void run_plan(const NodePlan& plan, const OpRow& op, const Params& params,
              std::span<const Tensor* const> inputs, std::span<Tensor> outputs,
              std::span<Tensor> truth, const RunOptions& options, const Finished* finished,
              std::span<const PointwiseStep> steps) {
  if (computes_nothing(plan)) return;
  const Problem problem = make_problem(op, params, plan, options);
  const DefaultFpEnvironment fp;
  plan.row->run({.problem = &problem,
                 .inputs = inputs,
                 .outputs = outputs,
                 .truth = truth,
                 .threads = options.threads,
                 .prepared = plan.prepared.get(),
                 .finished = finished,
                 .steps = steps});
}

}  // namespace etalon
