// cum_sum, cum_prod: an output is a slice, the sum or product of its own terms in the sequence in
// which they are met.
#pragma once

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/ops/ints_input.h"
#include "engine/ops/ordering.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Term j (0, 1, ...) in the sequence met lies at place(j) of the axis.
struct CumSumGeometry {
  AxisView view;
  bool exclusive, reverse;
  ETALON_HD std::int64_t place(std::int64_t j) const { return reverse ? view.extent - 1 - j : j; }
};
inline CumSumGeometry cum_sum_geometry(const KernelCall& call) {
  const auto& p = call.params<CumSumParams>();
  const std::vector<InferInput> known = known_inputs(call);
  const Shape& x = call.input(0).shape();
  const int axis = normalize_axis(int_or(InferInputs(known), 1, p.axis, "axis"), x.rank());
  return {axis_view(x, axis), p.exclusive, p.reverse};
}

struct CumSumDefinition {
  static constexpr std::string_view op = "cum_sum";
  static constexpr bool rounded_once = false;
  struct Plan {
    CumSumGeometry g;
    Source x;
  };
  static Plan plan(const KernelCall& call) { return {cum_sum_geometry(call), Source(call, 0)}; }
  ETALON_HD static std::int64_t slices(const Plan& p) {
    return p.g.view.outer * p.g.view.extent * p.g.view.inner;
  }
  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const AxisView& v = p.g.view;
    const std::int64_t first = i / (v.inner * v.extent) * (v.inner * v.extent) + i % v.inner;
    const std::int64_t j = p.g.place(i / v.inner % v.extent);
    const std::int64_t count = p.g.exclusive ? j : j + 1;
    typename A::Sum sum(a, count);
    for (std::int64_t k = 0; k < count; ++k) sum.add(a.input(p.x[first + p.g.place(k) * v.inner]));
    out(0, i, sum.result());
  }
};

struct CumProdDefinition {
  static constexpr std::string_view op = "cum_prod";
  static constexpr bool rounded_once = false;
  using Plan = CumSumDefinition::Plan;
  static Plan plan(const KernelCall& call) { return CumSumDefinition::plan(call); }
  ETALON_HD static std::int64_t slices(const Plan& p) { return CumSumDefinition::slices(p); }
  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const AxisView& v = p.g.view;
    const std::int64_t first = i / (v.inner * v.extent) * (v.inner * v.extent) + i % v.inner;
    const std::int64_t j = p.g.place(i / v.inner % v.extent);
    const std::int64_t count = p.g.exclusive ? j : j + 1;
    typename A::V product = a.constant(1.0);
    for (std::int64_t k = 0; k < count; ++k)
      product = a.mul(product, a.input(p.x[first + p.g.place(k) * v.inner]));
    out(0, i, product);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
