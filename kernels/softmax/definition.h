// softmax, log_softmax, hardmax: a slice is one row.
#pragma once

#include "engine/backend/definition.h"
#include "engine/backend/is_real.h"
#include "engine/numerics/exp_in_sum.h"
#include "engine/ops/softmax.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct SoftmaxPlan {
  SoftmaxGeometry g;
  Source x;
  ETALON_HD double at(std::int64_t first, std::int64_t k) const { return x[first + k * g.stride]; }
  // Of a row: the first largest element, or the first NaN.
  ETALON_HD std::int64_t argmax(std::int64_t first) const {
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < g.length; ++k) {
      const double b = at(first, best), v = at(first, k);
      if (!is_nan(b) && (is_nan(v) || v > b)) best = k;
    }
    return best;
  }
};

inline SoftmaxPlan softmax_plan(const KernelCall& call) {
  return {softmax_geometry(call.params<SoftmaxParams>(), call.input(0).shape()), Source(call, 0)};
}

template <bool Log>
struct SoftmaxDefinition {
  static constexpr std::string_view op = Log ? "log_softmax" : "softmax";
  static constexpr bool rounded_once = false;
  using Plan = SoftmaxPlan;
  static Plan plan(const KernelCall& call) { return softmax_plan(call); }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.length == 0 ? 0 : p.g.rows; }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t row, Out& out) {
    using V = typename A::V;
    const std::int64_t first = p.g.first(row), n = p.g.length, best = p.argmax(first);
    const double largest = p.at(first, best);
    const auto to = [&](std::int64_t k) { return first + k * p.g.stride; };
    if (!is_finite(largest)) {
      for (std::int64_t k = 0; k < n; ++k) out(0, to(k), a.input(kNan));
      return;
    }
    const V m = a.input(largest);
    const auto distance = [&](std::int64_t k) { return a.sub(a.input(p.at(first, k)), m); };
    const auto infinite = [&](std::int64_t k) { return !is_finite(p.at(first, k)); };  // -inf
    if constexpr (is_real<A> && Log) {
      // log1p keeps the relative precision of a sum of small terms beside the largest, 1.
      typename A::Sum rest(a, n);
      for (std::int64_t k = 0; k < n; ++k)
        if (k != best && !infinite(k)) rest.add(exp_in_sum(a, distance(k)));
      const V log_sum = a.call(Function::log1p, rest.result());
      for (std::int64_t k = 0; k < n; ++k)
        out(0, to(k), infinite(k) ? a.input(-kInfinity) : a.sub(distance(k), log_sum));
      return;
    }
    typename A::Sum sum(a, n);
    for (std::int64_t k = 0; k < n; ++k)
      sum.add(infinite(k) ? a.constant(0) : exp_in_sum(a, distance(k)));
    const V s = sum.result();
    const V log_sum = Log ? a.call(Function::log, s) : s;
    for (std::int64_t k = 0; k < n; ++k) {
      if (infinite(k))
        out(0, to(k), a.input(Log ? -kInfinity : 0.0));
      else if (Log)
        out(0, to(k), a.sub(distance(k), log_sum));
      else
        out(0, to(k), a.div(a.call(Function::exp, distance(k)), s));
    }
  }
};

struct HardmaxDefinition {
  static constexpr std::string_view op = "hardmax";
  static constexpr bool rounded_once = true;
  using Plan = SoftmaxPlan;
  static Plan plan(const KernelCall& call) { return softmax_plan(call); }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.length == 0 ? 0 : p.g.rows; }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t row, Out& out) {
    const std::int64_t first = p.g.first(row), best = p.argmax(first);
    for (std::int64_t k = 0; k < p.g.length; ++k)
      out(0, first + k * p.g.stride, a.constant(k == best ? 1 : 0));
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
