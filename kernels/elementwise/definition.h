// Elementwise arithmetic on floating types: each output is one real function of the operands that
// broadcast onto it, rounded once (sum and mean: a sum in the contract's order).
#pragma once

#include <vector>

#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/elementwise.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The remainder of x / y with the sign of x, which is exact: long division of the significands, 11
// bits a step. NaN for x infinite or y zero.
inline double exact_fmod(double x, double y) {
  if (is_nan(x) || is_nan(y) || !is_finite(x) || y == 0) return kNan;
  const double ay = abs_of(y);
  if (abs_of(x) < ay) return x;
  const auto split = [](double v, std::uint64_t& m) {
    const std::uint64_t b = bits_of(abs_of(v));
    int e = static_cast<int>(b >> 52);
    m = b & 0x000fffffffffffffU;
    if (e == 0) return 1;
    m |= std::uint64_t{1} << 52;
    return e;
  };
  std::uint64_t r = 0, d = 0;
  const int ex = split(x, r), ey = split(y, d);
  r %= d;
  for (int left = ex - ey; left > 0 && r != 0;) {
    const int step = left < 11 ? left : 11;
    r = (r << step) % d;
    left -= step;
  }
  if (r == 0) return with_sign(0.0, sign_bit(x));
  // r has at most 53 bits and the scale of y: exact.
  const int top = 63 - __builtin_clzll(r);
  return round_scaled(sign_bit(x), r << (63 - top), std::int64_t{ey} - 1075 + top - 63, false,
                      DType::f64, Round::nearest_even, Subnormals::keep);
}

// F is a struct with `op`, `rounded_once` and value(a, params, args): args(i) is operand i in the
// number system, args.raw(i) as a double, args.has(i) whether it is given, args.count() how many.
template <class F>
struct ElementwiseDefinition {
  static constexpr std::string_view op = F::op;
  static constexpr bool rounded_once = F::rounded_once;

  struct Operand {
    Source source;
    std::array<std::int64_t, kMaxRank> strides;
  };
  struct Plan {
    std::vector<Operand> operands;
    Shape shape;
    const Params* params;
  };
  static Plan plan(const KernelCall& call) {
    Plan p{{}, call.output(0).shape(), call.problem->params};
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      p.operands.push_back({Source(call, i), call.has(i)
                                                 ? broadcast_strides(call.input(i).shape(), p.shape)
                                                 : std::array<std::int64_t, kMaxRank>{}});
    return p;
  }
  static std::int64_t slices(const Plan& p) { return p.shape.numel(); }

  template <class A>
  struct Args {
    A& a;
    const Plan& p;
    std::int64_t i;
    std::size_t count() const { return p.operands.size(); }
    bool has(std::size_t k) const { return k < count() && p.operands[k].source; }
    double raw(std::size_t k) const {
      const Operand& o = p.operands[k];
      return o.source[strided_offset(i, p.shape, o.strides)];
    }
    typename A::V operator()(std::size_t k) const { return a.input(raw(k)); }
  };
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    out(0, i, F::value(a, *p.params, Args<A>{a, p, i}));
  }
};

struct Add {
  static constexpr std::string_view op = "add";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    return a.add(x(0), x(1));
  }
};
struct Sub {
  static constexpr std::string_view op = "sub";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    return a.sub(x(0), x(1));
  }
};
struct Mul {
  static constexpr std::string_view op = "mul";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    return a.mul(x(0), x(1));
  }
};
struct Div {
  static constexpr std::string_view op = "div";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    return a.div(x(0), x(1));
  }
};
struct Pow {
  static constexpr std::string_view op = "pow";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    return a.pow(x(0), x(1));
  }
};

struct Mod {
  static constexpr std::string_view op = "mod";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params& params, const Args& x) {
    const double dividend = x.raw(0), divisor = x.raw(1);
    const double r = exact_fmod(dividend, divisor);
    if (params.as<ModParams>().fmod || is_nan(r)) return a.input(r);
    if (r == 0) return a.input(with_sign(0.0, sign_bit(divisor)));
    if (sign_bit(r) == sign_bit(divisor)) return a.input(r);
    return a.add(a.input(r), a.input(divisor));
  }
};

struct Max {
  static constexpr std::string_view op = "max";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    typename A::V m = x(0);
    for (std::size_t i = 1; i < x.count(); ++i) m = a.max(m, x(i));
    return m;
  }
};
struct Min {
  static constexpr std::string_view op = "min";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    typename A::V m = x(0);
    for (std::size_t i = 1; i < x.count(); ++i) m = a.min(m, x(i));
    return m;
  }
};

struct SumOfOperands {
  static constexpr std::string_view op = "sum";
  static constexpr bool rounded_once = false;
  template <class A, class Args>
  static typename A::V value(A& a, const Params&, const Args& x) {
    typename A::Sum sum(a, static_cast<std::int64_t>(x.count()));
    for (std::size_t i = 0; i < x.count(); ++i) sum.add(x(i));
    return sum.result();
  }
};
struct MeanOfOperands {
  static constexpr std::string_view op = "mean";
  static constexpr bool rounded_once = false;
  template <class A, class Args>
  static typename A::V value(A& a, const Params& params, const Args& x) {
    return a.div(SumOfOperands::value(a, params, x), a.constant(static_cast<double>(x.count())));
  }
};

struct Clip {
  static constexpr std::string_view op = "clip";
  static constexpr bool rounded_once = true;
  template <class A, class Args>
  static typename A::V value(A& a, const Params& params, const Args& x) {
    const auto& p = params.as<ClipParams>();
    typename A::V y = x(0);
    // An infinite bound may still meet a NaN, which comes through either way.
    y = a.max(y, x.has(1) ? x(1) : a.constant(static_cast<double>(p.low)));
    return a.min(y, x.has(2) ? x(2) : a.constant(static_cast<double>(p.high)));
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
