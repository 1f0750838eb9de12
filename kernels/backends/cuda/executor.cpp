#include "kernels/backends/cuda/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/core/threads.h"
#include "engine/graph/control_flow.h"
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
  double host_seconds = 0;            // then
  std::vector<NodeRecord> inside;     // the nodes of graphs that this node owns
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
  std::size_t done = 0;  // steps that ran while it was made
  bool ran = false;
  bool node_by_node = false;  // a slice was left undecided once
  bool once = false;          // the host computed a node from what the device had made: for one run
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
    for (const Node& node : graph->nodes)
      for (const ValueId v : reads_of(node)) ++uses[static_cast<std::size_t>(v)];
    for (const Declaration& d : graph->outputs) ++uses[static_cast<std::size_t>(d.value)];
  }

  // The inputs of a node, and what the graphs that it owns take from around them.
  std::vector<ValueId> reads_of(const Node& node) const {
    std::vector<ValueId> reads;
    for (const ValueId v : node.inputs)
      if (v != kAbsent) reads.push_back(v);
    for (const auto& inner : node.subgraphs)
      for (const std::string& name : captured_names(*inner))
        if (const ValueId v = graph->find_value(name); v != kAbsent) reads.push_back(v);
    return reads;
  }

  // Has the device no kernel for this op at all? One that refuses a contract is another matter.
  bool belongs_to_host(const Node& node) const {
    if (is_control(*node.op)) return true;
    if (!options.kernels.empty()) return false;
    return std::ranges::none_of(registry.rows_of(node.op->name), [](const KernelRow* row) {
      return row->device == Device::cuda && row->promise == Promise::defined;
    });
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
    if (plan == nullptr || plan->once) return false;
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

  // The value on the host; one that stands on the device alone is copied, into `own`.
  static const Tensor* host_input(const Plan& p, ValueId v, std::vector<Tensor>& own) {
    const Value& value = p.values[static_cast<std::size_t>(v)];
    return value.host ? &value.host : &own.emplace_back(fetch(value.device));
  }

  // By the CPU's kernel. Of a node that asks for types alone no value is fetched.
  void run_on_host(Plan& p, Step& step, const Node& node, bool types_alone) const {
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
  static const Tensor* type_of(const Value& value) {
    return value.host ? &value.host : &value.device;
  }

  // A node that owns graphs: a graph of this node alone, by the CPU's executor.
  void run_control_on_host(Plan& p, Step& step, const Node& node) const {
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

  static void keep_on_host(Plan& p, const Node& node, std::vector<Tensor>& outputs) {
    for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o)
      if (node.outputs[o] != kAbsent) {
        Value& value = p.values[static_cast<std::size_t>(node.outputs[o])];
        value.type = outputs[o].type();
        value.host = std::move(outputs[o]);
      }
  }

  // Which of the plan's blocks are in use while it is made.
  struct Memory {
    std::vector<int> left;                                 // readers to come, by block
    std::vector<std::pair<std::size_t, int>> free_blocks;  // size, number
    std::int64_t live = 0;
  };
  // A block goes back when its last reader is planned.
  void read_by(const Plan& p, const Node& node, Memory& memory) const {
    for (const ValueId v : reads_of(node)) {
      const int block = p.values[static_cast<std::size_t>(v)].block;
      if (block >= 0 && --memory.left[static_cast<std::size_t>(block)] == 0)
        memory.free_blocks.emplace_back(p.blocks[static_cast<std::size_t>(block)].size_bytes(),
                                        block);
    }
  }

  void plan_step(Plan& p, Step& step, const Node& node, Memory& memory) const {
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
    std::vector<int> unread;
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
              "an output {} would bring memory to {} bytes, beyond the limit of {}; raise "
              "--memory-limit if this is wanted",
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
      memory.free_blocks.emplace_back(p.blocks[static_cast<std::size_t>(block)].size_bytes(),
                                      block);
  }

  // Where a node belongs to the host, what it reads is computed first: the steps before it run
  // while the plan is made, and the plan serves this run alone.
  std::unique_ptr<Plan> make_plan(const NamedTensors& given, Trace& trace, bool time_nodes) {
    auto made = std::make_unique<Plan>();
    Plan& p = *made;
    p.values.resize(graph->value_names.size());
    p.counts = std::make_unique<DeviceBuffer>(std::max<std::size_t>(1, graph->nodes.size()) *
                                              sizeof(std::int64_t));
    clear_counts(p);
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
      Step& step = *p.steps.emplace_back(std::make_unique<Step>());
      step.node = i;
      step.work.count_at(static_cast<std::int64_t*>(p.counts->get()) + i);
      const bool of_types = node.op->name == "shape" || node.op->name == "size";
      const bool known = std::ranges::all_of(node.inputs, [&](ValueId v) {
        return v == kAbsent || p.values[static_cast<std::size_t>(v)].host;
      });
      if (known || of_types) {
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

  // Those from p.done to `end`.
  void run_nodes(Plan& p, Trace& trace, bool time_nodes, std::size_t end) {
    std::unique_ptr<DeviceTimer> timer;
    if (time_nodes) timer = std::make_unique<DeviceTimer>();
    for (; p.done < end; ++p.done) {
      const std::size_t i = p.done;
      check_interrupt();
      Step& step = *p.steps[i];
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
    trace.nodes.resize(graph->nodes.size());
    if (!plan_serves(given)) {
      plan.reset();
      plan = make_plan(given, trace, time_nodes);
    } else {
      for (const Declaration& d : graph->inputs) {
        const Value& value = plan->values[static_cast<std::size_t>(d.value)];
        if (value.device && !value.host)
          send(given.find(graph->value_name(d.value))->second, value.device);
      }
    }
    Plan& p = *plan;
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
      const Step& step = *p.steps[i];
      trace.nodes[i].name = graph->nodes[i].name;
      trace.nodes[i].op = graph->nodes[i].op->name;
      trace.nodes[i].kernel = step.row == nullptr ? "executor" : step.row->name;
      trace.nodes.insert(trace.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                         step.inside.begin(), step.inside.end());
    }
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
