// The plan of a network on the device: blocks of memory that values share, and each node's call.
#include <algorithm>

#include "engine/core/threads.h"
#include "engine/ops/control.h"
#include "kernels/backends/cuda/executor_state.h"
#include "kernels/backends/cuda/pool.h"

namespace etalon::cuda {

std::unique_ptr<DevicePlan> DeviceExecutor::State::make_plan(const NamedTensors& given,
                                                             Trace& trace, bool time_nodes) {
  auto made = std::make_unique<DevicePlan>();
  DevicePlan& p = *made;
  p.values.resize(graph->value_names.size());
  p.counts = std::make_unique<DeviceBuffer>(std::max<std::size_t>(1, graph->nodes.size()) *
                                            sizeof(std::int64_t));
  clear_counts(p);
  for (const auto& [v, tensor] : graph->initializers) {
    DeviceValue& value = p.values[static_cast<std::size_t>(v)];
    value.type = tensor.type();
    value.host = tensor.share();
    value.constant = true;
  }
  for (const Declaration& d : graph->inputs) {
    const auto& [input, tensor] = *given.find(graph->value_name(d.value));
    DeviceValue& value = p.values[static_cast<std::size_t>(d.value)];
    p.input_types[input] = value.type = tensor.type();
    if (is_floating(tensor.dtype())) {
      p.fixed.push_back(buffer_for(value.type));
      value.device = view_of(p.fixed.back(), value.type);
      send(tensor, value.device);
    } else {
      value.host = tensor.clone();
      p.integers.emplace(input, value.host.share());
    }
  }
  Memory memory;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    check_interrupt();
    const Node& node = graph->nodes[i];
    const ErrorScope where("node " + node.name);
    DeviceStep& step = *p.steps.emplace_back(std::make_unique<DeviceStep>());
    step.node = i;
    step.work.count_at(static_cast<std::int64_t*>(p.counts->get()) + i);
    const bool of_types = node.op->name == "shape" || node.op->name == "size";
    if (of_types || is_planned(p, step, node)) {
      if (is_control(*node.op))
        run_control_on_host(p, step, node);
      else
        run_on_host(p, step, node, of_types);
    } else if (belongs_to_host(node)) {
      run_nodes(p, trace, time_nodes, i);
      p.once = true;
      if (is_control(*node.op))
        run_control_on_host(p, step, node);
      else
        run_on_host(p, step, node, false);
    } else {
      plan_step(p, step, node, memory);
    }
    read_by(p, node, memory);
  }
  synchronize();  // constants have arrived: their host memory may go
  return made;
}

bool DeviceExecutor::State::is_planned(const DevicePlan& p, DeviceStep& step,
                                       const Node& node) const {
  bool known = true, constant = true;
  for (const ValueId v : node.inputs) {
    if (v == kAbsent) continue;
    const DeviceValue& value = p.values[static_cast<std::size_t>(v)];
    known = known && value.host;
    constant = constant && value.constant;
  }
  if (!known || constant || is_control(*node.op) || !has_kernels(node)) return known;
  infer_step(p, step, node);
  return std::ranges::none_of(step.types, [](const TensorType& t) { return is_floating(t.dtype); });
}

void DeviceExecutor::State::infer_step(const DevicePlan& p, DeviceStep& step, const Node& node) {
  step.inputs.clear();
  for (const ValueId v : node.inputs) {
    if (v == kAbsent) {
      step.inputs.emplace_back();
      continue;
    }
    const DeviceValue& value = p.values[static_cast<std::size_t>(v)];
    step.inputs.push_back({value.type, value.host ? &value.host : nullptr, true});
  }
  step.types = infer(*node.op, node.params, InferInputs(step.inputs));
}

void DeviceExecutor::State::plan_step(DevicePlan& p, DeviceStep& step, const Node& node,
                                      Memory& memory) const {
  infer_step(p, step, node);
  step.problem = {.op = node.op,
                  .params = &node.params,
                  .inputs = step.inputs,
                  .outputs = step.types,
                  .contract = &options.contract,
                  .device = Device::cuda,
                  .isa = options.isa};
  step.row = &registry.require(step.problem, options.kernels);
  step.device = find_device_row(*step.row);
  if (step.device == nullptr)
    throw internal_error("the row {} cannot be put on a stream", step.row->name);
  for (const ValueId v : node.inputs)
    step.call_inputs.push_back(v == kAbsent ? nullptr : device_input(p, v));
  step.alias = step.device->alias;
  std::vector<int> unread;
  for (std::size_t o = 0; o < step.types.size(); ++o) {
    const TensorType& type = step.types[o];
    DeviceValue unwanted;
    const bool wanted = o < node.outputs.size() && node.outputs[o] != kAbsent;
    DeviceValue& value = wanted ? p.values[static_cast<std::size_t>(node.outputs[o])] : unwanted;
    value.type = type;
    if (step.alias) {
      const DeviceValue& of = p.values[static_cast<std::size_t>(node.inputs[0])];
      value.block = of.block;
      value.device = Tensor::owned(type.dtype, type.shape,
                                   const_cast<std::byte*>(of.device.bytes().data()), nullptr);
      if (value.block >= 0 && wanted)
        memory.left[static_cast<std::size_t>(value.block)] +=
            uses[static_cast<std::size_t>(node.outputs[o])];
      continue;
    }
    const auto bytes =
        static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)));
    const std::size_t size = BlockPool::block_size(std::max<std::size_t>(1, bytes));
    const auto at =
        std::ranges::find(memory.free_blocks, size, [](const auto& f) { return f.first; });
    if (at != memory.free_blocks.end()) {
      value.block = at->second;
      memory.free_blocks.erase(at);
    } else {
      memory.live = checked_add(memory.live, static_cast<std::int64_t>(size));
      if (memory.live > options.memory_limit_bytes)
        throw bad_input(
            "an output {} would bring memory to {} bytes, beyond the limit of {}; take a smaller "
            "batch, or 'etalon run' with a higher --memory-limit",
            to_string(type), memory.live, options.memory_limit_bytes);
      value.block = static_cast<int>(p.blocks.size());
      p.blocks.emplace_back(size);
      memory.left.push_back(0);
    }
    const auto block = static_cast<std::size_t>(value.block);
    memory.left[block] = wanted ? uses[static_cast<std::size_t>(node.outputs[o])] : 0;
    value.device = view_of(p.blocks[block], type);
    step.call_outputs.push_back(Tensor::owned(
        type.dtype, type.shape, static_cast<std::byte*>(p.blocks[block].get()), nullptr));
    if (memory.left[block] == 0) unread.push_back(value.block);
  }
  step.problem.inputs = step.inputs;
  step.problem.outputs = step.types;
  // Not before: outputs of one kernel never share memory.
  for (const int block : unread)
    memory.free_blocks.emplace_back(p.blocks[static_cast<std::size_t>(block)].size_bytes(), block);
}

void DeviceExecutor::State::read_by(const DevicePlan& p, const Node& node, Memory& memory) const {
  for (const ValueId v : reads_of(node)) {
    const int block = p.values[static_cast<std::size_t>(v)].block;
    if (block >= 0 && --memory.left[static_cast<std::size_t>(block)] == 0)
      memory.free_blocks.emplace_back(p.blocks[static_cast<std::size_t>(block)].size_bytes(),
                                      block);
  }
}

const Tensor* DeviceExecutor::State::device_input(DevicePlan& p, ValueId v) const {
  DeviceValue& value = p.values[static_cast<std::size_t>(v)];
  if (!value.device && value.host && is_floating(value.type.dtype)) {
    p.fixed.push_back(buffer_for(value.type));
    value.device = view_of(p.fixed.back(), value.type);
    send(value.host, value.device);
  }
  return value.device ? &value.device : &value.host;
}

Tensor DeviceExecutor::State::view_of(const DeviceBuffer& buffer, const TensorType& type) {
  return Tensor::owned(type.dtype, type.shape, static_cast<std::byte*>(buffer.get()), nullptr);
}

DeviceBuffer DeviceExecutor::State::buffer_for(const TensorType& type) {
  return DeviceBuffer(std::max<std::size_t>(
      1, static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)))));
}

void DeviceExecutor::State::clear_counts(const DevicePlan& p) {
  check(api().clear(p.counts->get(), p.counts->size_bytes(), stream()), "cudaMemsetAsync");
}

}  // namespace etalon::cuda
