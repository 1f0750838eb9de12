// Nodes of a network on the device that the host computes: with the CPU's kernel, from values that
// are known here or are fetched.
#include <algorithm>

#include "kernels/backends/cuda/executor_state.h"

namespace etalon::cuda {

void DeviceExecutor::State::run_on_host(DevicePlan& p, DeviceStep& step, const Node& node,
                                        bool types_alone) const {
  const double began = now_seconds();
  std::vector<Tensor> own;
  own.reserve(node.inputs.size());
  std::vector<const Tensor*> in;
  for (const ValueId v : node.inputs)
    in.push_back(v == kAbsent  ? nullptr
                 : types_alone ? type_of(p.values[static_cast<std::size_t>(v)])
                               : host_input(p, v, own));
  RunOptions here = options;
  here.device = Device::cpu;
  here.kernels.clear();
  OpRun run = run_op(*node.op, node.params, in, registry, here);
  step.row = run.kernel;
  keep_on_host(p, node, run.outputs);
  step.host_seconds = now_seconds() - began;
}

void DeviceExecutor::State::run_control_on_host(DevicePlan& p, DeviceStep& step,
                                                const Node& node) const {
  const double began = now_seconds();
  auto alone = std::make_shared<Graph>();
  alone->name = graph->name;
  for (const std::string& name : graph->value_names) alone->add_value(name);
  alone->nodes.push_back(node);
  NamedTensors in;
  for (const ValueId v : reads_of(node)) {
    std::vector<Tensor> own;
    own.reserve(1);
    const Tensor* const tensor = host_input(p, v, own);
    if (!in.emplace(graph->value_name(v), tensor->share()).second) continue;
    alone->inputs.push_back({.value = v, .dtype = tensor->dtype(), .ranked = false});
  }
  for (const ValueId v : node.outputs)
    if (v != kAbsent) alone->outputs.push_back({.value = v});
  RunOptions here = options;
  here.device = Device::cpu;
  here.keep_values = false;
  here.progress = nullptr;
  Trace trace = Executor(std::move(alone), registry, here).run(in);
  std::vector<Tensor> outputs;
  std::size_t next = 0;
  for (const ValueId v : node.outputs)
    outputs.push_back(v == kAbsent ? Tensor() : std::move(trace.outputs[next++].second));
  keep_on_host(p, node, outputs);
  step.inside.assign(std::make_move_iterator(trace.nodes.begin() + 1),
                     std::make_move_iterator(trace.nodes.end()));
  step.host_seconds = now_seconds() - began;
}

void DeviceExecutor::State::keep_on_host(DevicePlan& p, const Node& node,
                                         std::vector<Tensor>& outputs) {
  const bool constant = std::ranges::all_of(node.inputs, [&](ValueId v) {
    return v == kAbsent || p.values[static_cast<std::size_t>(v)].constant;
  });
  for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o)
    if (node.outputs[o] != kAbsent) {
      DeviceValue& value = p.values[static_cast<std::size_t>(node.outputs[o])];
      value.type = outputs[o].type();
      value.host = std::move(outputs[o]);
      value.constant = constant;
    }
}

const Tensor* DeviceExecutor::State::host_input(const DevicePlan& p, ValueId v,
                                                std::vector<Tensor>& own) {
  const DeviceValue& value = p.values[static_cast<std::size_t>(v)];
  return value.host ? &value.host : &own.emplace_back(fetch(value.device));
}

const Tensor* DeviceExecutor::State::type_of(const DeviceValue& value) {
  return value.host ? &value.host : &value.device;
}

}  // namespace etalon::cuda
