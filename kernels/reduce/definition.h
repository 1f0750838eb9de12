// Reductions: one output from the elements k = 0..K-1 of the reduced axes, row-major.
#pragma once

#include <type_traits>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/backend/is_real.h"
#include "engine/backend/strided.h"
#include "engine/numerics/exp_in_sum.h"
#include "engine/ops/reduce.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

enum class Reduction { sum, mean, l1, l2, sum_square, prod, log_sum, log_sum_exp, max, min };

inline Reduction reduction_kind(std::string_view op) {
  constexpr std::string_view kNames[] = {
      "reduce_sum",  "reduce_mean",    "reduce_l1",          "reduce_l2",  "reduce_sum_square",
      "reduce_prod", "reduce_log_sum", "reduce_log_sum_exp", "reduce_max", "reduce_min"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == op) return static_cast<Reduction>(i);
  throw internal_error("{} is no reduction", op);
}

// One definition for all, its kind looked at when it runs. RoundedOnce: max and min.
template <bool RoundedOnce>
struct ReduceDefinition {
  static constexpr std::string_view op = "reduce";
  static constexpr bool rounded_once = RoundedOnce;

  struct Plan {
    Reduction kind;
    ReduceGeometry g;
    Source x;
    ETALON_HD std::int64_t count() const { return g.reduced.numel(); }
  };
  static Plan plan(const KernelCall& call) {
    const std::vector<InferInput> known = known_inputs(call);
    return {reduction_kind(call.problem->op->name),
            reduce_geometry(call.params<ReduceParams>(), InferInputs(known)), Source(call, 0)};
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.kept.numel(); }

  // f(x_k), k ascending.
  template <class A, class F>
  ETALON_HD static void each(A& a, const Plan& p, std::int64_t first, F&& f) {
    for (std::int64_t k = 0; k < p.count(); ++k)
      f(a.input(p.x[first + strided_offset(k, p.g.reduced, p.g.reduced_strides)]));
  }

  template <class A>
  ETALON_HD static typename A::V extremum(A& a, const Plan& p, std::int64_t first, bool largest) {
    typename A::V m = a.constant(largest ? -kInfinity : kInfinity);
    each(a, p, first, [&](const typename A::V& v) { m = largest ? a.max(m, v) : a.min(m, v); });
    return m;
  }

  // The maximum is subtracted so that exp cannot overflow; in the reals it cancels.
  template <class A>
  ETALON_HD static typename A::V log_sum_exp(A& a, const Plan& p, std::int64_t first) {
    const typename A::V m = extremum(a, p, first, true);
    const bool finite = a.less(a.constant(-kInfinity), m) && a.less(m, a.constant(kInfinity));
    if (!finite) return m;
    if constexpr (is_real<A>) {
      // The largest term is 1: log1p of the others. That of one element alone is 0, exactly.
      typename A::Sum rest(a, p.count());
      bool largest_seen = false;
      each(a, p, first, [&](const typename A::V& v) {
        if (!largest_seen && a.equal(v, m))
          largest_seen = true;
        else if (a.less(a.constant(-kInfinity), v))
          rest.add(exp_in_sum(a, a.sub(v, m)));
      });
      return a.add(m, a.call(Function::log1p, rest.result()));
    }
    typename A::Sum sum(a, p.count());
    each(a, p, first, [&](const typename A::V& v) { sum.add(a.call(Function::exp, a.sub(v, m))); });
    return a.add(m, a.call(Function::log, sum.result()));
  }

  // What another order may do to a product besides its roundings, which are K - 1 in any tree.
  // Let g be the product of the factors above 1 in size: no partial product is larger, whatever its
  // factors, so none overflows if g does not. A result that underflows is off by at most eta and
  // meets factors of at most g afterwards; the K - 1 of them together, (1 + eta)^(K - 1) - 1 times
  // g. An infinite factor stays infinite where no partial product of the others becomes zero, and
  // with a zero among them it is NaN.
  static void spread_to_any_order(AnyOrder& a, const Plan& p, std::int64_t first,
                                  AnyOrder::V& product) {
    const AnyOrder::V one = a.constant(1), tiny = a.constant(0x1p-600);
    const double eta = a.mul(tiny, tiny).err;  // of a product that underflows
    AnyOrder::V grown = one, shrunk = one;
    bool nan = false, infinite = false, zero = false;
    each(a, p, first, [&](const AnyOrder::V& v) {
      nan |= is_nan(v.mid);
      zero |= v.mid == 0;
      if (!is_finite(v.mid)) {
        infinite = true;
        return;
      }
      grown = a.mul(grown, a.max(one, a.abs(v)));
      shrunk = a.mul(shrunk, a.min(one, a.abs(v)));
    });
    if (nan || (infinite && zero)) return;
    const double lost = static_cast<double>(p.count()) * eta, g = grown.mid + grown.err;
    const bool above_zero = shrunk.mid - shrunk.err > eta * 0x1p60;
    if (!(g < kInfinity) || !(lost < 0.5) || (infinite && !above_zero))
      product.err = kInfinity;
    else if (!infinite)
      product.err += lost * (1 + lost) * g;
  }

  template <class A>
  ETALON_HD static typename A::V value(A& a, const Plan& p, std::int64_t first) {
    if constexpr (RoundedOnce) {
      return extremum(a, p, first, p.kind == Reduction::max);
    } else if (p.kind == Reduction::prod) {
      // 1 * x is x itself: the first factor costs no rounding.
      typename A::V product = a.constant(1.0);
      each(a, p, first, [&](const typename A::V& v) { product = a.mul(product, v); });
      if constexpr (std::is_same_v<A, AnyOrder>) spread_to_any_order(a, p, first, product);
      return product;
    } else if (p.kind == Reduction::log_sum_exp) {
      return log_sum_exp(a, p, first);
    } else {
      const bool square = p.kind == Reduction::l2 || p.kind == Reduction::sum_square;
      typename A::Sum sum(a, p.count());
      each(a, p, first, [&](const typename A::V& v) {
        if (square)
          sum.add_product(v, v);
        else
          sum.add(p.kind == Reduction::l1 ? a.abs(v) : v);
      });
      const typename A::V s = sum.result();
      switch (p.kind) {
        case Reduction::mean:
          return a.div(s, a.constant(static_cast<double>(p.count())));
        case Reduction::l2:
          return a.sqrt(s);
        case Reduction::log_sum:
          return a.call(Function::log, s);
        default:
          return s;
      }
    }
  }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    out(0, i, value(a, p, strided_offset(i, p.g.kept, p.g.kept_strides)));
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
