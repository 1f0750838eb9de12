// Reductions: one output from the elements k = 0..K-1 of the reduced axes, row-major.
#pragma once

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/reduce.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// F is a struct with `op`, `rounded_once` and value(a, terms): terms.count() of them, terms.each(f)
// calls f(V) on each, k ascending.
template <class F>
struct ReduceDefinition {
  static constexpr std::string_view op = F::op;
  static constexpr bool rounded_once = F::rounded_once;

  struct Plan {
    ReduceGeometry g;
    Source x;
  };
  static Plan plan(const KernelCall& call) {
    const std::vector<InferInput> known = known_inputs(call);
    return {reduce_geometry(call.params<ReduceParams>(), InferInputs(known)), Source(call, 0)};
  }
  static std::int64_t slices(const Plan& p) { return p.g.kept.numel(); }

  template <class A>
  struct Terms {
    A& a;
    const Plan& p;
    std::int64_t first;
    std::int64_t count() const { return p.g.reduced.numel(); }
    template <class Each>
    void each(Each&& f) const {
      for (std::int64_t k = 0; k < count(); ++k)
        f(a.input(p.x[first + strided_offset(k, p.g.reduced, p.g.reduced_strides)]));
    }
  };
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    out(0, i, F::value(a, Terms<A>{a, p, strided_offset(i, p.g.kept, p.g.kept_strides)}));
  }
};

struct ReduceSum {
  static constexpr std::string_view op = "reduce_sum";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::Sum sum(a, x.count());
    x.each([&](const typename A::V& v) { sum.add(v); });
    return sum.result();
  }
};

struct ReduceMean {
  static constexpr std::string_view op = "reduce_mean";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    return a.div(ReduceSum::value(a, x), a.constant(static_cast<double>(x.count())));
  }
};

struct ReduceL1 {
  static constexpr std::string_view op = "reduce_l1";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::Sum sum(a, x.count());
    x.each([&](const typename A::V& v) { sum.add(a.abs(v)); });
    return sum.result();
  }
};

struct ReduceSumSquare {
  static constexpr std::string_view op = "reduce_sum_square";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::Sum sum(a, x.count());
    x.each([&](const typename A::V& v) { sum.add_product(v, v); });
    return sum.result();
  }
};

struct ReduceL2 {
  static constexpr std::string_view op = "reduce_l2";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    return a.sqrt(ReduceSumSquare::value(a, x));
  }
};

// 1 * x is x itself, so the first factor costs no rounding.
struct ReduceProd {
  static constexpr std::string_view op = "reduce_prod";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::V product = a.constant(1.0);
    x.each([&](const typename A::V& v) { product = a.mul(product, v); });
    return product;
  }
};

struct ReduceMax {
  static constexpr std::string_view op = "reduce_max";
  static constexpr bool rounded_once = true;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::V m = a.constant(-kInfinity);
    x.each([&](const typename A::V& v) { m = a.max(m, v); });
    return m;
  }
};

struct ReduceMin {
  static constexpr std::string_view op = "reduce_min";
  static constexpr bool rounded_once = true;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    typename A::V m = a.constant(kInfinity);
    x.each([&](const typename A::V& v) { m = a.min(m, v); });
    return m;
  }
};

#ifdef ETALON_HAVE_REAL
struct ReduceLogSum {
  static constexpr std::string_view op = "reduce_log_sum";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    return a.call(Function::log, ReduceSum::value(a, x));
  }
};

// The maximum is subtracted so that exp cannot overflow; in the reals it cancels.
struct ReduceLogSumExp {
  static constexpr std::string_view op = "reduce_log_sum_exp";
  static constexpr bool rounded_once = false;
  template <class A, class Terms>
  static typename A::V value(A& a, const Terms& x) {
    const typename A::V m = ReduceMax::value(a, x);
    const bool finite = a.less(a.constant(-kInfinity), m) && a.less(m, a.constant(kInfinity));
    if (!finite) return m;
    typename A::Sum sum(a, x.count());
    x.each([&](const typename A::V& v) { sum.add(a.call(Function::exp, a.sub(v, m))); });
    return a.add(m, a.call(Function::log, sum.result()));
  }
};
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
