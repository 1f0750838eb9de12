// scatter_elements, scatter_nd: where each update goes, and the floating reductions.
//
// Updates of one element form a sequence: x's element, then the updates row-major. A slice is one
// element that some update names.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/indexing.h"
#include "kernels/indexing/indices.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// For each element of updates, row-major, the element of x that it changes.
inline std::vector<std::int64_t> scatter_targets(const KernelCall& call, bool nd) {
  const Shape &x = call.input(0).shape(), &indices = call.input(1).shape();
  const auto strides = strides_of(x);
  const Indices index(call.input(1));
  std::vector<std::int64_t> targets(static_cast<std::size_t>(call.input(2).numel()));
  if (targets.empty()) return targets;
  if (nd) {
    const NdGeometry g = nd_geometry(x, indices, 0);
    for (std::int64_t i = 0; i < g.count; ++i) {
      std::int64_t at = 0;
      for (int d = 0; d < g.depth; ++d)
        at += index.at(i * g.depth + d, x[d]) * strides[static_cast<std::size_t>(d)];
      for (std::int64_t b = 0; b < g.block; ++b)
        targets[static_cast<std::size_t>(i * g.block + b)] = at + b;
    }
    return targets;
  }
  const int axis = normalize_axis(call.params<ScatterElementsParams>().axis, x.rank());
  auto others = strides;
  const std::int64_t along = others[static_cast<std::size_t>(axis)];
  others[static_cast<std::size_t>(axis)] = 0;
  for (std::int64_t i = 0; i < index.count(); ++i)
    targets[static_cast<std::size_t>(i)] =
        strided_offset(i, indices, others) + index.at(i, x[axis]) * along;
  return targets;
}

// Both ops, told apart when it runs.
inline bool is_scatter_nd(const OpRow& op) { return op.name == "scatter_nd"; }
inline ScatterReduction scatter_reduction(const OpRow& op, const Params& params) {
  return is_scatter_nd(op) ? params.as<ScatterNdParams>().reduction
                           : params.as<ScatterElementsParams>().reduction;
}

struct ScatterDefinition {
  static constexpr std::string_view op = "scatter";
  static constexpr bool rounded_once = false;

  struct Plan {
    ScatterReduction reduction;
    Source x, updates;
    std::vector<std::int64_t> sequence;  // updates, sorted by target, then by place
    std::vector<std::int64_t> targets;   // of each update
    std::vector<std::size_t> begins;     // of each target's run in `sequence`, and the end
  };
  static Plan plan(const KernelCall& call) {
    Plan p;
    p.reduction = scatter_reduction(*call.problem->op, *call.problem->params);
    p.x = Source(call, 0);
    p.updates = Source(call, 2);
    p.targets = scatter_targets(call, is_scatter_nd(*call.problem->op));
    const auto target = [&](std::int64_t i) { return p.targets[static_cast<std::size_t>(i)]; };
    p.sequence.resize(p.targets.size());
    for (std::size_t i = 0; i < p.sequence.size(); ++i)
      p.sequence[i] = static_cast<std::int64_t>(i);
    std::ranges::stable_sort(p.sequence, {}, target);
    for (std::size_t i = 0; i < p.sequence.size(); ++i)
      if (i == 0 || target(p.sequence[i]) != target(p.sequence[i - 1])) p.begins.push_back(i);
    p.begins.push_back(p.sequence.size());
    return p;
  }
  static std::int64_t slices(const Plan& p) {
    return static_cast<std::int64_t>(p.begins.size()) - 1;
  }
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const std::size_t begin = p.begins[static_cast<std::size_t>(i)];
    const std::size_t end = p.begins[static_cast<std::size_t>(i) + 1];
    const std::int64_t at = p.targets[static_cast<std::size_t>(p.sequence[begin])];
    const typename A::V x = a.input(p.x[at]);
    const auto update = [&](std::size_t k) { return a.input(p.updates[p.sequence[k]]); };
    if (p.reduction == ScatterReduction::add) {
      typename A::Sum sum(a, static_cast<std::int64_t>(end - begin) + 1);
      sum.add(x);
      for (std::size_t k = begin; k < end; ++k) sum.add(update(k));
      out(0, at, sum.result());
      return;
    }
    typename A::V y = x;
    for (std::size_t k = begin; k < end; ++k)
      y = p.reduction == ScatterReduction::mul   ? a.mul(y, update(k))
          : p.reduction == ScatterReduction::max ? a.max(y, update(k))
                                                 : a.min(y, update(k));
    out(0, at, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
