#include "kernels/backends/cuda/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/core/threads.h"
#include "engine/graph/control_flow.h"
#include "engine/ops/control.h"
#include "kernels/backends/cuda/executor_state.h"

namespace etalon::cuda {
namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Tensor fetch(const Tensor& device) {
  Tensor host = Tensor::uninitialized(device.dtype(), device.shape());
  if (host.size_bytes() == 0) return host;
  check(api().to_host(host.mutable_bytes().data(), device.bytes().data(), host.size_bytes(),
                      stream()),
        "cudaMemcpyAsync from the device");
  synchronize();
  return host;
}

void send(const Tensor& host, const Tensor& device) {
  if (host.size_bytes() == 0) return;
  check(api().to_device(const_cast<std::byte*>(device.bytes().data()), host.bytes().data(),
                        host.size_bytes(), stream()),
        "cudaMemcpyAsync to the device");
}

DeviceExecutor::State::State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o)
    : graph(std::move(g)), registry(r), options(std::move(o)) {
  options.device = Device::cuda;
  uses.assign(graph->value_names.size(), 0);
  for (const Node& node : graph->nodes)
    for (const ValueId v : reads_of(node)) ++uses[static_cast<std::size_t>(v)];
  for (const Declaration& d : graph->outputs) ++uses[static_cast<std::size_t>(d.value)];
}

std::vector<ValueId> DeviceExecutor::State::reads_of(const Node& node) const {
  std::vector<ValueId> reads;
  for (const ValueId v : node.inputs)
    if (v != kAbsent) reads.push_back(v);
  for (const auto& inner : node.subgraphs)
    for (const std::string& name : captured_names(*inner))
      if (const ValueId v = graph->find_value(name); v != kAbsent) reads.push_back(v);
  return reads;
}

bool DeviceExecutor::State::has_kernels(const Node& node) const {
  return std::ranges::any_of(registry.rows_of(node.op->name), [](const KernelRow* row) {
    return row->device == Device::cuda && row->promise == Promise::defined;
  });
}

bool DeviceExecutor::State::belongs_to_host(const Node& node) const {
  return is_control(*node.op) || (options.kernels.empty() && !has_kernels(node));
}

void DeviceExecutor::State::check_inputs(const NamedTensors& given) const {
  std::string names;
  for (const Declaration& d : graph->inputs) {
    const std::string& input = graph->value_name(d.value);
    names += (names.empty() ? "" : ", ") + input;
    const auto at = given.find(input);
    if (at == given.end()) throw bad_input("input {} is not given; name it in --input", input);
    check_input(*graph, d, at->second.type());
  }
  for (const auto& [input, tensor] : given)
    if (std::ranges::none_of(graph->inputs, [&](const Declaration& d) {
          return graph->value_name(d.value) == input;
        }))
      throw bad_input("the graph has no input '{}'; its inputs are {}", input, names);
}

bool DeviceExecutor::State::plan_serves(const NamedTensors& given) const {
  if (plan == nullptr || plan->once) return false;
  for (const auto& [input, tensor] : given) {
    if (!(plan->input_types.at(input) == tensor.type())) return false;
    if (const auto at = plan->integers.find(input);
        at != plan->integers.end() && !same_bytes(at->second, tensor))
      return false;
  }
  return true;
}

void DeviceExecutor::State::enqueue(DeviceStep& step) {
  step.work.begin();
  if (!step.alias) step.device->enqueue(step.call(), step.work);
}

void DeviceExecutor::State::settle(DeviceStep& step) {
  if (!step.work.listed()) return;
  const std::vector<std::int64_t> undecided = step.work.fetch_undecided();
  if (undecided.empty()) return;
  std::vector<Tensor> own, outputs;
  own.reserve(step.call_inputs.size());
  std::vector<const Tensor*> inputs;
  for (const Tensor* in : step.call_inputs) {
    if (in == nullptr || !is_floating(in->dtype())) {
      inputs.push_back(in);
      continue;
    }
    inputs.push_back(&own.emplace_back(fetch(*in)));
  }
  for (const Tensor& y : step.call_outputs) outputs.push_back(fetch(y));
  Problem problem = step.problem;
  problem.device = Device::cpu;
  settle_on_host({.problem = &problem, .inputs = inputs, .outputs = outputs}, undecided);
  for (std::size_t o = 0; o < outputs.size(); ++o) send(outputs[o], step.call_outputs[o]);
  synchronize();
}

void DeviceExecutor::State::run_nodes(DevicePlan& p, Trace& trace, bool time_nodes,
                                      std::size_t end) {
  std::unique_ptr<DeviceTimer> timer;
  if (time_nodes) timer = std::make_unique<DeviceTimer>();
  for (; p.done < end; ++p.done) {
    const std::size_t i = p.done;
    check_interrupt();
    DeviceStep& step = *p.steps[i];
    const Node& node = graph->nodes[i];
    const ErrorScope where("node " + node.name);
    if (step.device != nullptr) {
      if (timer) timer->start();
      enqueue(step);
      if (timer) trace.nodes[i].seconds = timer->stop_s();
      settle(step);
    } else if (time_nodes) {
      trace.nodes[i].seconds = step.host_seconds;
    }
    if (options.hash_nodes || options.keep_values)
      for (const ValueId v : node.outputs) {
        if (v == kAbsent) continue;
        const DeviceValue& value = p.values[static_cast<std::size_t>(v)];
        const Tensor host = value.host ? value.host.share() : fetch(value.device);
        if (options.hash_nodes) trace.nodes[i].hashes.push_back(hash_tensor(host));
        if (options.keep_values) trace.values.emplace(graph->value_name(v), host.share());
      }
    if (options.progress) options.progress(i + 1, p.steps.size());
  }
}

bool DeviceExecutor::State::run_graph(DevicePlan& p) {
  if (p.graph.graph == nullptr) {
    check(api().begin_capture(stream()), "cudaStreamBeginCapture");
    try {
      clear_counts(p);
      for (const auto& step : p.steps)
        if (step->device != nullptr) enqueue(*step);
    } catch (...) {
      // Ends the capture; what was written down is dropped.
      GraphHandle dropped;
      static_cast<void>(api().end_capture(stream(), &dropped.graph));
      throw;
    }
    check(api().end_capture(stream(), &p.graph.graph), "cudaGraphInstantiate");
  }
  check(api().launch_graph(p.graph.graph, stream()), "cudaGraphLaunch");
  std::vector<std::int64_t> counts(p.counts->size_bytes() / sizeof(std::int64_t));
  p.counts->download(std::as_writable_bytes(std::span(counts)));
  return std::ranges::all_of(counts, [](std::int64_t n) { return n == 0; });
}

Trace DeviceExecutor::State::run(const NamedTensors& given, bool time_nodes) {
  Trace trace;
  check_inputs(given);
  const double start = now_seconds();
  trace.nodes.resize(graph->nodes.size());
  if (!plan_serves(given)) {
    plan.reset();
    plan = make_plan(given, trace, time_nodes);
  } else {
    for (const Declaration& d : graph->inputs) {
      const DeviceValue& value = plan->values[static_cast<std::size_t>(d.value)];
      if (value.device && !value.host)
        send(given.find(graph->value_name(d.value))->second, value.device);
    }
  }
  DevicePlan& p = *plan;
  const bool observed = options.hash_nodes || options.keep_values || time_nodes;
  launched = false;
  if (p.ran && !observed && !p.node_by_node) {
    launched = run_graph(p);
    p.node_by_node = !launched;
  }
  if (!launched) {
    if (p.ran) p.done = 0;
    run_nodes(p, trace, time_nodes, p.steps.size());
  }
  p.ran = true;
  for (std::size_t i = graph->nodes.size(); i-- > 0;) {
    const DeviceStep& step = *p.steps[i];
    trace.nodes[i].name = graph->nodes[i].name;
    trace.nodes[i].op = graph->nodes[i].op->name;
    trace.nodes[i].kernel = step.row == nullptr ? "executor" : step.row->name;
    trace.nodes.insert(trace.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       step.inside.begin(), step.inside.end());
  }
  for (const Declaration& d : graph->outputs) {
    const DeviceValue& value = p.values[static_cast<std::size_t>(d.value)];
    trace.outputs.emplace_back(graph->value_name(d.value),
                               value.host ? value.host.share() : fetch(value.device));
  }
  synchronize();
  if (launched && options.progress) options.progress(p.steps.size(), p.steps.size());
  trace.seconds = now_seconds() - start;
  return trace;
}

DeviceExecutor::DeviceExecutor(std::shared_ptr<const Graph> graph, const Registry& registry,
                               RunOptions options)
    : state_(std::make_unique<State>(std::move(graph), registry, std::move(options))) {}
DeviceExecutor::~DeviceExecutor() = default;
DeviceExecutor::DeviceExecutor(DeviceExecutor&&) noexcept = default;
DeviceExecutor& DeviceExecutor::operator=(DeviceExecutor&&) noexcept = default;

Trace DeviceExecutor::run(const NamedTensors& inputs, bool time_nodes) {
  if (const Refusal none = refuse_without_device()) throw missing("{}", *none);
  const DefaultFpEnvironment fp;
  try {
    return state_->run(inputs, time_nodes);
  } catch (...) {
    // Copies from the host's tensors may be under way; a device that is lost has none.
    static_cast<void>(api().wait_for_stream(stream()));
    state_->plan.reset();
    throw;
  }
}

bool DeviceExecutor::launched_graph() const { return state_->launched; }

double DeviceExecutor::launch_again() {
  if (!state_->launched) throw internal_error("launch_again: the last run launched no graph");
  const double start = now_seconds();
  check(api().launch_graph(state_->plan->graph.graph, stream()), "cudaGraphLaunch");
  synchronize();
  return now_seconds() - start;
}

std::size_t DeviceExecutor::value_bytes() const {
  std::size_t bytes = 0;
  if (state_->plan != nullptr)
    for (const DeviceBuffer& b : state_->plan->blocks) bytes += b.size_bytes();
  return bytes;
}

}  // namespace etalon::cuda
