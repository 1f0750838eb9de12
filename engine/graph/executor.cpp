#include "engine/graph/executor.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "engine/core/threads.h"
#include "engine/graph/control_flow.h"
#include "engine/graph/executor_state.h"
#include "engine/ops/control.h"

namespace etalon {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Executor::State::State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o)
    : graph(std::move(g)), registry(r), options(std::move(o)) {
  const std::size_t values = graph->value_names.size();
  plans.resize(graph->nodes.size());
  bodies.resize(graph->nodes.size());
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    reads.push_back(node.inputs);
    for (const auto& inner : node.subgraphs) {
      bodies[i].emplace_back();
      bodies[i].back().captured = captured_names(*inner);
      for (const std::string& name : bodies[i].back().captured)
        reads[i].push_back(graph->find_value(name));
    }
  }
  uses.assign(values, 0);
  follower.assign(values, -1);
  constant.assign(values, false);
  counted.assign(values, false);
  for (const Node& node : graph->nodes)
    for (const ValueId v : node.outputs)
      if (v != kAbsent) counted[static_cast<std::size_t>(v)] = true;
  for (const auto& [v, tensor] : graph->initializers) constant[static_cast<std::size_t>(v)] = true;
  for (const auto& list : reads)
    for (const ValueId v : list)
      if (v != kAbsent) ++uses[static_cast<std::size_t>(v)];
  for (const Declaration& d : graph->outputs) ++uses[static_cast<std::size_t>(d.value)];
  find_followers();
}

void Executor::State::bind_inputs(const NamedTensors& given, std::vector<Tensor>& values) const {
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

std::string Executor::State::input_names() const {
  std::string names;
  for (const Declaration& d : graph->inputs)
    names += (names.empty() ? "" : ", ") + graph->value_name(d.value);
  return names;
}

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
  s.check_extents(values);
  if (s.laid_out) return s.run_laid_out(*s.laid_out, inputs);
  trace.nodes.resize(graph.nodes.size());
  std::vector<bool> ran(graph.nodes.size(), false);
  std::vector<int> uses = s.uses;
  std::size_t done = 0;
  std::int64_t live_bytes = s.around_bytes;
  const double start = now_seconds();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (ran[i]) continue;
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
    const auto count_bytes = [&](const TensorType& type) {
      const std::int64_t bytes = checked_mul(type.shape.numel(), size_bytes(type.dtype));
      live_bytes = checked_add(live_bytes, bytes);
      check_memory(type, live_bytes, s.options);
    };
    std::vector<Tensor> out;
    if (is_control(*node.op)) {
      std::int64_t held = 0;
      const RunBody body = [&](std::size_t which, std::vector<Tensor> given) {
        return s.run_body(i, which, std::move(given), values, live_bytes + held);
      };
      out = run_control(node, in, body, [&](const TensorType& last, std::int64_t bytes) {
        held = bytes;
        check_memory(last, checked_add(live_bytes, held), s.options);
      });
      if (out.size() < node.outputs.size())
        throw bad_input("its body gives {} values, the node has {} outputs", out.size(),
                        node.outputs.size());
      for (const Tensor& t : out) count_bytes(t.type());
    } else {
      make_plan(plan, *node.op, node.params, in, constant, s.registry, s.options);
      for (const TensorType& type : plan.outputs) {
        count_bytes(type);
        out.push_back(s.pool.take(type.dtype, type.shape));
      }
    }
    std::vector<Follower> chain;
    if (plan.row != nullptr && out.size() == 1 && node.outputs.size() == 1 &&
        node.outputs[0] != kAbsent && (plan.row->announces || plan.row->run_piece != nullptr))
      chain = s.followers_of(node.outputs[0], out[0], values);
    if (chain.empty() || !s.run_fused(i, in, out, chain, values, uses)) {
      chain.clear();
      if (plan.row != nullptr) run_plan(plan, *node.op, node.params, in, out, {}, s.options);
    }
    const double seconds = now_seconds() - began;

    const auto finish_node = [&](std::size_t n) {
      const Node& finished = graph.nodes[n];
      const KernelRow* row = s.plans[n].row;
      trace.nodes[n] = {.name = finished.name,
                        .op = finished.op->name,
                        .kernel = row == nullptr ? "executor" : row->name};
      ran[n] = true;
      ++done;
      for (const ValueId v : s.reads[n]) {
        if (v == kAbsent || --uses[static_cast<std::size_t>(v)] > 0) continue;
        Tensor& dead = values[static_cast<std::size_t>(v)];
        if (dead && s.counted[static_cast<std::size_t>(v)])
          live_bytes -= static_cast<std::int64_t>(dead.size_bytes());
        dead = Tensor();
      }
    };
    finish_node(i);
    trace.nodes[i].seconds = seconds;
    for (const Follower& f : chain) {
      finish_node(f.node);
      trace.nodes[f.node].fused_into = node.name;
    }
    const Node& last = chain.empty() ? node : graph.nodes[chain.back().node];
    for (std::size_t o = 0; o < last.outputs.size(); ++o) {
      if (s.options.hash_nodes) trace.nodes[i].hashes.push_back(hash_tensor(out[o]));
      if (last.outputs[o] == kAbsent) continue;
      if (s.options.keep_values)
        trace.values.emplace(graph.value_name(last.outputs[o]), out[o].share());
      values[static_cast<std::size_t>(last.outputs[o])] = std::move(out[o]);
    }
    if (s.options.progress) s.options.progress(done, graph.nodes.size());
  }
  trace.seconds = now_seconds() - start;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (s.bodies[i].empty()) continue;
    std::vector<NodeRecord> inner = s.take_records(i);
    trace.nodes.insert(trace.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       std::make_move_iterator(inner.begin()),
                       std::make_move_iterator(inner.end()));
  }
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
