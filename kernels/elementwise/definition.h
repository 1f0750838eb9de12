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
ETALON_HD inline double exact_fmod(double x, double y) {
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

// All ops are one definition that looks at its kind when it runs: a copy for each op over each
// number system would cost minutes of compilation and gain nothing here.
enum class Elementwise { add, sub, mul, div, pow, mod, max, min, clip, sum, mean };

inline Elementwise elementwise_kind(std::string_view op) {
  constexpr std::string_view kNames[] = {"add", "sub", "mul",  "div", "pow", "mod",
                                         "max", "min", "clip", "sum", "mean"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == op) return static_cast<Elementwise>(i);
  throw internal_error("{} is no elementwise op", op);
}

// RoundedOnce: all but sum and mean.
template <bool RoundedOnce>
struct ElementwiseDefinition {
  static constexpr std::string_view op = "elementwise";
  static constexpr bool rounded_once = RoundedOnce;

  struct Operand {
    Source source;
    std::array<std::int64_t, kMaxRank> strides;
  };
  struct Plan {
    Elementwise kind;
    std::vector<Operand> operands;
    Shape shape;
    const Params* params;
    std::size_t count() const { return operands.size(); }
    bool has(std::size_t k) const { return k < operands.size() && operands[k].source; }
    template <class P>
    const P& as() const {
      return params->as<P>();
    }
    double raw(std::size_t k, std::int64_t i) const {
      return operands[k].source[strided_offset(i, shape, operands[k].strides)];
    }
  };
  static Plan plan(const KernelCall& call) {
    Plan p{
        elementwise_kind(call.problem->op->name), {}, call.output(0).shape(), call.problem->params};
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      p.operands.push_back({Source(call, i), call.has(i)
                                                 ? broadcast_strides(call.input(i).shape(), p.shape)
                                                 : std::array<std::int64_t, kMaxRank>{}});
    return p;
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.shape.numel(); }

  // P is Plan, or what a GPU has in its place (kernels/backends/cuda/device_plans.h).
  template <class A, class P>
  ETALON_HD static typename A::V mod(A& a, const P& p, std::int64_t i) {
    const double dividend = p.raw(0, i), divisor = p.raw(1, i);
    const double r = exact_fmod(dividend, divisor);
    if (p.template as<ModParams>().fmod || is_nan(r)) return a.input(r);
    if (r == 0) return a.input(with_sign(0.0, sign_bit(divisor)));
    if (sign_bit(r) == sign_bit(divisor)) return a.input(r);
    return a.add(a.input(r), a.input(divisor));
  }

  template <class A, class P, class Out>
  ETALON_HD static void slice(A& a, const P& p, std::int64_t i, Out& out) {
    const auto x = [&](std::size_t k) { return a.input(p.raw(k, i)); };
    const std::size_t count = p.count();
    if constexpr (!RoundedOnce) {
      typename A::Sum sum(a, static_cast<std::int64_t>(count));
      for (std::size_t k = 0; k < count; ++k) sum.add(x(k));
      const typename A::V s = sum.result();
      out(0, i, p.kind == Elementwise::mean ? a.div(s, a.constant(static_cast<double>(count))) : s);
      return;
    }
    typename A::V y = p.kind == Elementwise::mod ? mod(a, p, i) : x(0);
    switch (p.kind) {
      case Elementwise::add:
        y = a.add(y, x(1));
        break;
      case Elementwise::sub:
        y = a.sub(y, x(1));
        break;
      case Elementwise::mul:
        y = a.mul(y, x(1));
        break;
      case Elementwise::div:
        y = a.div(y, x(1));
        break;
      case Elementwise::pow:
        y = a.pow(y, x(1));
        break;
      case Elementwise::max:
        for (std::size_t k = 1; k < count; ++k) y = a.max(y, x(k));
        break;
      case Elementwise::min:
        for (std::size_t k = 1; k < count; ++k) y = a.min(y, x(k));
        break;
      case Elementwise::clip: {
        // An infinite bound binds nothing, but a NaN comes through either way.
        const auto& bounds = p.template as<ClipParams>();
        y = a.max(y, p.has(1) ? x(1) : a.constant(static_cast<double>(bounds.low)));
        y = a.min(y, p.has(2) ? x(2) : a.constant(static_cast<double>(bounds.high)));
        break;
      }
      default:
        break;
    }
    out(0, i, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
