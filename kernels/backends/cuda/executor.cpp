#include "kernels/backends/cuda/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/core/threads.h"
#include "engine/ops/control.h"
#include "kernels/backends/cuda/pool.h"
#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where a value of the network is.
struct Value {
  TensorType type;
  Tensor host;     // known when the network is planned, the same in every run
  Tensor device;   // a view of its memory there
  int block = -1;  // of Plan::blocks, where nodes share memory
  bool made() const { return host || device; }
};

struct Step {
  std::size_t node = 0;
  const KernelRow* row = nullptr;
  const DeviceRow* device = nullptr;  // nullptr: computed on the host when planned
  std::vector<InferInput> inputs;
  std::vector<TensorType> types;
  std::vector<const Tensor*> call_inputs;
  std::vector<Tensor> call_outputs;
  Problem problem;
  Work work;
  bool alias = false;

  KernelCall call() {
    return {.problem = &problem, .inputs = call_inputs, .outputs = call_outputs};
  }
};

struct Graphs {
  void* graph = nullptr;
  ~Graphs() {
    if (graph != nullptr) static_cast<void>(api().drop_graph(graph));
  }
};

struct Plan {
  std::map<std::string, TensorType, std::less<>> input_types;
  NamedTensors integers;  // the integer inputs it was made for
  std::vector<Value> values;
  std::vector<DeviceBuffer> blocks;  // memory of values, used again when the last reader is done
  std::vector<DeviceBuffer> fixed;   // inputs and constants
  std::vector<std::unique_ptr<Step>> steps;
  std::unique_ptr<DeviceBuffer> counts;  // of undecided slices, one for each step
  Graphs graph;
  bool ran = false;
  bool node_by_node = false;  // a slice was left undecided once
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.bytes(), b.bytes());
}

// The CPU's copy of a tensor on the device.
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

}  // namespace

struct DeviceExecutor::State {
  std::shared_ptr<const Graph> graph;
  const Registry& registry;
  RunOptions options;
  std::vector<int> uses;
  std::unique_ptr<Plan> plan;
  bool launched = false;

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o)
      : graph(std::move(g)), registry(r), options(std::move(o)) {
    options.device = Device::cuda;
    uses.assign(graph->value_names.size(), 0);
    for (const Node& node : graph->nodes) {
      if (is_control(*node.op))
        throw usage_error("node {}: {} owns graphs and runs on the CPU: use --device cpu",
                          node.name, node.op->name);
      for (const ValueId v : node.inputs)
        if (v != kAbsent) ++uses[static_cast<std::size_t>(v)];
    }
    for (const Declaration& d : graph->outputs) ++uses[static_cast<std::size_t>(d.value)];
  }

  void check_inputs(const NamedTensors& given) const {
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

  bool plan_serves(const NamedTensors& given) const {
    if (plan == nullptr) return false;
    for (const auto& [input, tensor] : given) {
      if (!(plan->input_types.at(input) == tensor.type())) return false;
      if (const auto at = plan->integers.find(input);
          at != plan->integers.end() && !same_bytes(at->second, tensor))
        return false;
    }
    return true;
  }

  static Tensor view_of(const DeviceBuffer& buffer, const TensorType& type) {
    return Tensor::owned(type.dtype, type.shape, static_cast<std::byte*>(buffer.get()), nullptr);
  }
  static DeviceBuffer buffer_for(const TensorType& type) {
    return DeviceBuffer(std::max<std::size_t>(
        1, static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)))));
  }

  // The value as a kernel of the device reads it: floats there, integers here.
  const Tensor* device_input(Plan& p, ValueId v) const {
    Value& value = p.values[static_cast<std::size_t>(v)];
    if (!value.device && value.host && is_floating(value.type.dtype)) {
      p.fixed.push_back(buffer_for(value.type));
      value.device = view_of(p.fixed.back(), value.type);
      send(value.host, value.device);
    }
    return value.device ? &value.device : &value.host;
  }

  // All inputs are known here: the CPU's kernel, once.
  void run_on_host(Plan& p, Step& step, const Node& node) const {
    std::vector<const Tensor*> in;
    for (const ValueId v : node.inputs) {
      const Value* value = v == kAbsent ? nullptr : &p.values[static_cast<std::size_t>(v)];
      in.push_back(value == nullptr ? nullptr : value->host ? &value->host : &value->device);
    }
    RunOptions here = options;
    here.device = Device::cpu;
    here.kernels.clear();
    OpRun run = run_op(*node.op, node.params, in, registry, here);
    step.row = run.kernel;
    for (std::size_t o = 0; o < node.outputs.size() && o < run.outputs.size(); ++o)
      if (node.outputs[o] != kAbsent) {
        Value& value = p.values[static_cast<std::size_t>(node.outputs[o])];
        value.type = run.outputs[o].type();
        value.host = std::move(run.outputs[o]);
      }
  }

  void plan_step(Plan& p, Step& step, const Node& node, std::vector<int>& left,
                 std::vector<std::pair<std::size_t, int>>& free_blocks, std::int64_t& live) const {
    for (const ValueId v : node.inputs) {
      if (v == kAbsent) {
        step.inputs.emplace_back();
        continue;
      }
      const Value& value = p.values[static_cast<std::size_t>(v)];
      step.inputs.push_back({value.type, value.host ? &value.host : nullptr, true});
    }
    step.types = infer(*node.op, node.params, InferInputs(step.inputs));
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
    for (std::size_t o = 0; o < step.types.size(); ++o) {
      const TensorType& type = step.types[o];
      Value unwanted;
      const bool wanted = o < node.outputs.size() && node.outputs[o] != kAbsent;
      Value& value = wanted ? p.values[static_cast<std::size_t>(node.outputs[o])] : unwanted;
      value.type = type;
      if (step.alias) {
        const Value& of = p.values[static_cast<std::size_t>(node.inputs[0])];
        value.block = of.block;
        value.device = Tensor::owned(type.dtype, type.shape,
                                     const_cast<std::byte*>(of.device.bytes().data()), nullptr);
        if (value.block >= 0 && wanted)
          left[static_cast<std::size_t>(value.block)] +=
              uses[static_cast<std::size_t>(node.outputs[o])];
        continue;
      }
      const auto bytes =
          static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)));
      const std::size_t size = BlockPool::block_size(std::max<std::size_t>(1, bytes));
      const auto at = std::ranges::find(free_blocks, size, [](const auto& f) { return f.first; });
      if (at != free_blocks.end()) {
        value.block = at->second;
        free_blocks.erase(at);
      } else {
        live = checked_add(live, static_cast<std::int64_t>(size));
        if (live > options.memory_limit_bytes)
          throw bad_input(
              "an output {} would bring memory to {} bytes, beyond the limit of {}; raise "
              "--memory-limit if this is wanted",
              to_string(type), live, options.memory_limit_bytes);
        value.block = static_cast<int>(p.blocks.size());
        p.blocks.emplace_back(size);
        left.push_back(0);
      }
      const auto block = static_cast<std::size_t>(value.block);
      left[block] = wanted ? uses[static_cast<std::size_t>(node.outputs[o])] : 0;
      value.device = view_of(p.blocks[block], type);
      step.call_outputs.push_back(Tensor::owned(
          type.dtype, type.shape, static_cast<std::byte*>(p.blocks[block].get()), nullptr));
      if (left[block] == 0) free_blocks.emplace_back(p.blocks[block].size_bytes(), value.block);
    }
    step.problem.inputs = step.inputs;
    step.problem.outputs = step.types;
    // Memory whose last reader this node is.
    for (const ValueId v : node.inputs) {
      if (v == kAbsent) continue;
      const int block = p.values[static_cast<std::size_t>(v)].block;
      if (block >= 0 && --left[static_cast<std::size_t>(block)] == 0)
        free_blocks.emplace_back(p.blocks[static_cast<std::size_t>(block)].size_bytes(), block);
    }
  }

  std::unique_ptr<Plan> make_plan(const NamedTensors& given) const {
    auto made = std::make_unique<Plan>();
    Plan& p = *made;
    p.values.resize(graph->value_names.size());
    for (const auto& [v, tensor] : graph->initializers) {
      Value& value = p.values[static_cast<std::size_t>(v)];
      value.type = tensor.type();
      value.host = tensor.share();
    }
    for (const Declaration& d : graph->inputs) {
      const auto& [input, tensor] = *given.find(graph->value_name(d.value));
      Value& value = p.values[static_cast<std::size_t>(d.value)];
      p.input_types[input] = value.type = tensor.type();
      if (is_floating(tensor.dtype())) {
        p.fixed.push_back(buffer_for(value.type));
        value.device = view_of(p.fixed.back(), value.type);
      } else {
        value.host = tensor.clone();
        p.integers.emplace(input, value.host.share());
      }
    }
    std::vector<int> left;  // readers to come, by block
    std::vector<std::pair<std::size_t, int>> free_blocks;
    std::int64_t live = 0;
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
      check_interrupt();
      const Node& node = graph->nodes[i];
      const ErrorScope where("node " + node.name);
      Step& step = *p.steps.emplace_back(std::make_unique<Step>());
      step.node = i;
      const bool of_types = node.op->name == "shape" || node.op->name == "size";
      const bool known = std::ranges::all_of(node.inputs, [&](ValueId v) {
        return v == kAbsent || p.values[static_cast<std::size_t>(v)].host;
      });
      if (known || of_types)
        run_on_host(p, step, node);
      else
        plan_step(p, step, node, left, free_blocks, live);
    }
    p.counts = std::make_unique<DeviceBuffer>(std::max<std::size_t>(1, p.steps.size()) *
                                              sizeof(std::int64_t));
    auto* const counts = static_cast<std::int64_t*>(p.counts->get());
    for (std::size_t i = 0; i < p.steps.size(); ++i) p.steps[i]->work.count_at(counts + i);
    clear_counts(p);
    synchronize();  // constants have arrived: their host memory may go
    return made;
  }

  static void clear_counts(const Plan& p) {
    check(api().clear(p.counts->get(), p.counts->size_bytes(), stream()), "cudaMemsetAsync");
  }

  static void enqueue(Step& step) {
    step.work.begin();
    if (!step.alias) step.device->enqueue(step.call(), step.work);
  }

  // The slices that the device left undecided, on the CPU, from and to the device's memory.
  static void settle(Step& step) {
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

  void run_nodes(Plan& p, Trace& trace, bool time_nodes) {
    std::unique_ptr<DeviceTimer> timer;
    if (time_nodes) timer = std::make_unique<DeviceTimer>();
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
      check_interrupt();
      Step& step = *p.steps[i];
      const Node& node = graph->nodes[i];
      const ErrorScope where("node " + node.name);
      if (step.device != nullptr) {
        if (timer) timer->start();
        enqueue(step);
        if (timer) trace.nodes[i].seconds = timer->stop_s();
        settle(step);
      }
      if (options.hash_nodes || options.keep_values)
        for (const ValueId v : node.outputs) {
          if (v == kAbsent) continue;
          const Value& value = p.values[static_cast<std::size_t>(v)];
          const Tensor host = value.host ? value.host.share() : fetch(value.device);
          if (options.hash_nodes) trace.nodes[i].hashes.push_back(hash_tensor(host));
          if (options.keep_values) trace.values.emplace(graph->value_name(v), host.share());
        }
      if (options.progress) options.progress(i + 1, p.steps.size());
    }
  }

  // False where a slice was left undecided: what stands on the device means nothing then.
  static bool run_graph(Plan& p) {
    if (p.graph.graph == nullptr) {
      check(api().begin_capture(stream()), "cudaStreamBeginCapture");
      try {
        clear_counts(p);
        for (const auto& step : p.steps)
          if (step->device != nullptr) enqueue(*step);
      } catch (...) {
        // Ends the capture; what was written down is dropped.
        Graphs dropped;
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

  Trace run(const NamedTensors& given, bool time_nodes) {
    Trace trace;
    check_inputs(given);
    const double start = now_seconds();
    if (!plan_serves(given)) {
      plan.reset();
      plan = make_plan(given);
    }
    Plan& p = *plan;
    for (const Declaration& d : graph->inputs) {
      const Value& value = p.values[static_cast<std::size_t>(d.value)];
      if (value.device && !value.host)
        send(given.find(graph->value_name(d.value))->second, value.device);
    }
    trace.nodes.resize(graph->nodes.size());
    for (std::size_t i = 0; i < graph->nodes.size(); ++i)
      trace.nodes[i] = {.name = graph->nodes[i].name,
                        .op = graph->nodes[i].op->name,
                        .kernel = p.steps[i]->row->name};
    const bool observed = options.hash_nodes || options.keep_values || time_nodes;
    launched = false;
    if (p.ran && !observed && !p.node_by_node) {
      launched = run_graph(p);
      p.node_by_node = !launched;
    }
    if (!launched) run_nodes(p, trace, time_nodes);
    p.ran = true;
    for (const Declaration& d : graph->outputs) {
      const Value& value = p.values[static_cast<std::size_t>(d.value)];
      trace.outputs.emplace_back(graph->value_name(d.value),
                                 value.host ? value.host.share() : fetch(value.device));
    }
    synchronize();
    if (launched && options.progress) options.progress(p.steps.size(), p.steps.size());
    trace.seconds = now_seconds() - start;
    return trace;
  }
};

DeviceExecutor::DeviceExecutor(std::shared_ptr<const Graph> graph, const Registry& registry,
                               RunOptions options)
    : state_(std::make_unique<State>(std::move(graph), registry, std::move(options))) {}
DeviceExecutor::~DeviceExecutor() = default;
DeviceExecutor::DeviceExecutor(DeviceExecutor&&) noexcept = default;
DeviceExecutor& DeviceExecutor::operator=(DeviceExecutor&&) noexcept = default;

Trace DeviceExecutor::run(const NamedTensors& inputs, bool time_nodes) {
  if (const Refusal none = refuse_without_device()) throw missing("{}", *none);
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

std::size_t DeviceExecutor::value_bytes() const {
  std::size_t bytes = 0;
  if (state_->plan != nullptr)
    for (const DeviceBuffer& b : state_->plan->blocks) bytes += b.size_bytes();
  return bytes;
}

}  // namespace etalon::cuda
