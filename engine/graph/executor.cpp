#include "engine/graph/executor.h"

#include <algorithm>
#include <chrono>

#include "engine/backend/pointwise.h"
#include "engine/core/tensor_pool.h"
#include "engine/core/threads.h"
#include "engine/graph/control_flow.h"
#include "engine/ops/control.h"

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
              std::span<Tensor> truth, const RunOptions& options,
              const Finished* finished = nullptr) {
  const Problem problem = make_problem(op, params, plan, options);
  const DefaultFpEnvironment fp;
  plan.row->run({.problem = &problem,
                 .inputs = inputs,
                 .outputs = outputs,
                 .truth = truth,
                 .threads = options.threads,
                 .prepared = plan.prepared.get(),
                 .finished = finished});
}

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

// Elements that all followers visit before the next ones: 16 KiB of f32, so that they stay in the
// first cache beside the operands that followers read.
constexpr std::int64_t kPiece = 4096;

}  // namespace

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

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o)
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
    for (const auto& [v, tensor] : graph->initializers)
      constant[static_cast<std::size_t>(v)] = true;
    for (const auto& list : reads)
      for (const ValueId v : list)
        if (v != kAbsent) ++uses[static_cast<std::size_t>(v)];
    for (const Declaration& d : graph->outputs) ++uses[static_cast<std::size_t>(d.value)];
    find_followers();
  }

  // Which nodes might run on pieces of their input; whether one does, its kernel says.
  void find_followers() {
    if (!options.fuse || options.hash_nodes || options.keep_values) return;
    const auto read_inside = [](const Node& node) { return !node.subgraphs.empty(); };
    if (std::ranges::any_of(graph->nodes, read_inside)) return;
    std::map<const OpRow*, bool> by_pieces;
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
      const Node& node = graph->nodes[i];
      const auto [at, fresh] = by_pieces.emplace(node.op, false);
      if (fresh)
        at->second = std::ranges::any_of(registry.rows_of(node.op->name), [](const KernelRow* row) {
          return row->run_piece != nullptr;
        });
      if (!at->second || node.outputs.size() != 1 || node.outputs[0] == kAbsent) continue;
      for (const ValueId v : node.inputs)
        if (v != kAbsent && counted[static_cast<std::size_t>(v)] &&
            uses[static_cast<std::size_t>(v)] == 1)
          follower[static_cast<std::size_t>(v)] = static_cast<int>(i);
    }
    for (const Declaration& d : graph->outputs) follower[static_cast<std::size_t>(d.value)] = -1;
  }

  // The chain of nodes that will run on the output `y` of a node, value by value from `v` on.
  std::vector<Follower> followers_of(ValueId v, const Tensor& y,
                                     const std::vector<Tensor>& values) {
    std::vector<Follower> chain;
    while (follower[static_cast<std::size_t>(v)] >= 0) {
      Follower next;
      next.node = static_cast<std::size_t>(follower[static_cast<std::size_t>(v)]);
      const Node& node = graph->nodes[next.node];
      std::vector<bool> fixed;
      std::size_t carried = 0;
      bool ready = true;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId in = node.inputs[i];
        if (in == v) carried = i;
        next.inputs.push_back(in == v         ? &y
                              : in == kAbsent ? nullptr
                                              : &values[static_cast<std::size_t>(in)]);
        fixed.push_back(in != kAbsent && constant[static_cast<std::size_t>(in)]);
        ready = ready && (in == v || in == kAbsent || *next.inputs.back());
      }
      if (!ready) break;
      const ErrorScope where("node " + node.name);
      NodePlan& plan = plans[next.node];
      make_plan(plan, *node.op, node.params, next.inputs, fixed, registry, options);
      next.problem = make_problem(*node.op, node.params, plan, options);
      if (plan.outputs.size() != 1 || plan.outputs[0] != y.type() ||
          plan.row->run_piece == nullptr ||
          (plan.row->refuse_piece != nullptr && plan.row->refuse_piece(next.problem, carried)))
        break;
      chain.push_back(std::move(next));
      v = node.outputs[0];
    }
    return chain;
  }

  // The chain with steps that can stay in registers joined.
  std::vector<Link> links_of(const std::vector<Follower>& chain) const {
    std::vector<Link> links;
    for (const Follower& f : chain) {
      const KernelRow* row = plans[f.node].row;
      PointwiseStep step;
      if (row->step == nullptr || row->run_steps == nullptr || !row->step(f.call, step)) {
        links.push_back({.row = row, .call = &f.call});
        continue;
      }
      const bool joins = !links.empty() && !links.back().steps.empty() &&
                         links.back().row->run_steps == row->run_steps &&
                         std::ranges::all_of(links.back().steps, [&](const PointwiseStep& s) {
                           return walk_together(s, step);
                         });
      if (!joins) links.push_back({.row = row, .call = &f.call});
      links.back().steps.push_back(step);
    }
    return links;
  }

  // Runs node i and the chain behind it, all on out[0]. False when node i's kernel cannot.
  bool run_fused(std::size_t i, const std::vector<const Tensor*>& in, std::vector<Tensor>& out,
                 std::vector<Follower>& chain) {
    const Node& node = graph->nodes[i];
    const NodePlan& plan = plans[i];
    for (Follower& f : chain)
      f.call = {.problem = &f.problem,
                .inputs = f.inputs,
                .outputs = out,
                .threads = options.threads,
                .prepared = plans[f.node].prepared.get()};
    const std::vector<Link> links = links_of(chain);
    const auto has_steps = [](const Link& link) { return !link.steps.empty(); };
    float* y =
        std::ranges::any_of(links, has_steps) ? out[0].mutable_data<float>().data() : nullptr;
    const auto run_piece = [&](std::int64_t begin, std::int64_t count) {
      for (const Link& link : links)
        if (link.steps.empty())
          link.row->run_piece(*link.call, begin, count);
        else
          link.row->run_steps(link.steps, y, {.begin = begin, .count = count});
    };
    const auto run_chain = [&](const OutputPart& part) {
      if (links.size() == 1 && !links[0].steps.empty())
        return links[0].row->run_steps(links[0].steps, y, part);
      const bool joined = part.rows == 1 || part.count == part.stride;
      const std::int64_t rows = joined ? 1 : part.rows;
      for (std::int64_t r = 0; r < rows; ++r) {
        std::int64_t begin = part.begin + r * part.stride;
        const std::int64_t end = begin + (joined ? part.rows : 1) * part.count;
        for (; begin < end; begin += kPiece) run_piece(begin, std::min(kPiece, end - begin));
      }
    };
    if (plan.row->announces) {
      const Finished finished = run_chain;
      run_plan(plan, *node.op, node.params, in, out, {}, options, &finished);
      return true;
    }
    // A pointwise node goes through its output in pieces itself.
    const Problem problem = make_problem(*node.op, node.params, plan, options);
    if (plan.row->refuse_piece != nullptr && plan.row->refuse_piece(problem, 0)) return false;
    const KernelCall call{.problem = &problem,
                          .inputs = in,
                          .outputs = out,
                          .threads = options.threads,
                          .prepared = plan.prepared.get()};
    parallel_for(out[0].numel(), options.threads, 4 * kPiece,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (; begin < end; begin += kPiece) {
                     const std::int64_t count = std::min(kPiece, end - begin);
                     plan.row->run_piece(call, begin, count);
                     run_piece(begin, count);
                   }
                 });
    return true;
  }

  // Graph `which` of node i, on these inputs and on what it takes from `values`.
  std::vector<Tensor> run_body(std::size_t i, std::size_t which, std::vector<Tensor> inputs,
                               const std::vector<Tensor>& values, std::int64_t live_bytes) {
    const Node& node = graph->nodes[i];
    const Graph& inner = *node.subgraphs[which];
    Body& body = bodies[i][which];
    if (inputs.size() != inner.inputs.size())
      throw bad_input("its body takes {} inputs, {} are given", inner.inputs.size(), inputs.size());
    for (const std::string& name : body.captured) {
      const ValueId v = graph->find_value(name);
      if (v == kAbsent || !values[static_cast<std::size_t>(v)])
        throw bad_input("its body reads the value '{}', which nothing around it makes", name);
      inputs.push_back(values[static_cast<std::size_t>(v)].share());
    }
    std::vector<DType> dtypes;
    for (const Tensor& t : inputs) dtypes.push_back(t.dtype());
    if (body.executor == nullptr || dtypes != body.dtypes) {
      // The types of the tensors count, not those the file declares for them.
      auto own = std::make_shared<Graph>();
      own->name = inner.name;
      for (const std::string& name : inner.value_names) own->add_value(name);
      own->inputs = inner.inputs;
      own->outputs = inner.outputs;
      own->nodes = inner.nodes;
      for (const auto& [v, t] : inner.initializers) own->initializers.emplace(v, t.share());
      for (const std::string& name : body.captured) {
        const ValueId v = own->find_value(name);
        own->inputs.emplace_back().value = v == kAbsent ? own->add_value(name) : v;
      }
      for (std::size_t k = 0; k < own->inputs.size(); ++k) {
        own->inputs[k].dtype = dtypes[k];
        own->inputs[k].ranked = false;
      }
      RunOptions inside = options;
      inside.progress = nullptr;
      inside.keep_values = false;
      body.executor = std::make_unique<Executor>(std::move(own), registry, inside);
      body.dtypes = dtypes;
    }
    State& state = *body.executor->state_;
    state.options.memory_limit_bytes = options.memory_limit_bytes - live_bytes;
    NamedTensors named;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      named.emplace(state.graph->value_name(state.graph->inputs[k].value), std::move(inputs[k]));
    Trace trace = body.executor->run(named);
    if (body.records.empty()) {
      body.records = std::move(trace.nodes);
      for (NodeRecord& r : body.records) r.name = node.name + "/" + r.name;
    } else {
      for (std::size_t k = 0; k < trace.nodes.size() && k < body.records.size(); ++k)
        body.records[k].seconds += trace.nodes[k].seconds;
    }
    std::vector<Tensor> out;
    for (auto& [name, tensor] : trace.outputs) out.push_back(std::move(tensor));
    return out;
  }

  // The records of the nodes inside node i, which are then forgotten.
  std::vector<NodeRecord> take_records(std::size_t i) {
    std::vector<NodeRecord> all;
    for (Body& body : bodies[i]) {
      std::move(body.records.begin(), body.records.end(), std::back_inserter(all));
      body.records.clear();
    }
    return all;
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
  trace.nodes.resize(graph.nodes.size());
  std::vector<bool> ran(graph.nodes.size(), false);
  std::vector<int> uses = s.uses;
  std::size_t done = 0;
  std::int64_t live_bytes = 0;
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
      if (live_bytes > s.options.memory_limit_bytes)
        throw bad_input(
            "an output {} would bring memory to {} bytes, beyond the limit of {}; raise "
            "--memory-limit if this is wanted",
            to_string(type), live_bytes, s.options.memory_limit_bytes);
    };
    std::vector<Tensor> out;
    if (is_control(*node.op)) {
      const RunBody body = [&](std::size_t which, std::vector<Tensor> given) {
        return s.run_body(i, which, std::move(given), values, live_bytes);
      };
      out = run_control(node, in, body);
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
    if (chain.empty() || !s.run_fused(i, in, out, chain)) {
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
