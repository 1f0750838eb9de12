// Nodes that run on pieces of the output of the node before them, while those are in cache
// (docs/adr/0006-fusion-by-pieces.md): which they are, and how they run.
#include <algorithm>
#include <map>

#include "engine/core/threads.h"
#include "engine/graph/executor_state.h"

namespace etalon {
namespace {

// Elements that all followers visit before the next ones: 16 KiB of f32, so that they stay in the
// first cache beside the operands that followers read.
constexpr std::int64_t kPiece = 4096;

}  // namespace

void Executor::State::find_followers() {
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

std::vector<Follower> Executor::State::followers_of(ValueId v, const Tensor& y,
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
    if (plan.outputs.size() != 1 || plan.outputs[0] != y.type() || plan.row->run_piece == nullptr ||
        (plan.row->refuse_piece != nullptr && plan.row->refuse_piece(next.problem, carried)))
      break;
    chain.push_back(std::move(next));
    v = node.outputs[0];
  }
  return chain;
}

std::vector<Link> Executor::State::links_of(const std::vector<Follower>& chain) const {
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

void Executor::State::take_place(const std::vector<Follower>& chain,
                                 std::span<const PointwiseStep> steps, Tensor& y,
                                 std::vector<Tensor>& values, const std::vector<int>& left) const {
  const auto add = std::ranges::find(steps, PointwiseStep::Kind::add, &PointwiseStep::kind);
  if (add == steps.end()) return;
  for (const Follower& f : chain)
    for (const ValueId v : graph->nodes[f.node].inputs) {
      if (v == kAbsent || !counted[static_cast<std::size_t>(v)]) continue;
      Tensor& other = values[static_cast<std::size_t>(v)];
      if (!other || other.type() != y.type() || other.data<float>().data() != add->other) continue;
      if (left[static_cast<std::size_t>(v)] == 1) std::swap(other, y);
      return;
    }
}

bool Executor::State::run_fused(std::size_t i, const std::vector<const Tensor*>& in,
                                std::vector<Tensor>& out, std::vector<Follower>& chain,
                                std::vector<Tensor>& values, const std::vector<int>& left) {
  const Node& node = graph->nodes[i];
  const NodePlan& plan = plans[i];
  for (Follower& f : chain)
    f.call = {.problem = &f.problem,
              .inputs = f.inputs,
              .outputs = out,
              .threads = options.threads,
              .prepared = plans[f.node].prepared.get()};
  const std::vector<Link> links = links_of(chain);
  std::span<const PointwiseStep> steps;
  if (links.size() == 1 && !links[0].steps.empty() && plan.row->ending != nullptr) {
    const Problem problem = make_problem(*node.op, node.params, plan, options);
    const Ending ending = plan.row->ending(problem, plan.prepared.get(), links[0].steps);
    if (ending == Ending::in_place) take_place(chain, links[0].steps, out[0], values, left);
    if (ending != Ending::announced) steps = links[0].steps;
  }
  const auto has_steps = [](const Link& link) { return !link.steps.empty(); };
  float* y = std::ranges::any_of(links, has_steps) ? out[0].mutable_data<float>().data() : nullptr;
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
    run_plan(plan, *node.op, node.params, in, out, {}, options, &finished, steps);
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

}  // namespace etalon
