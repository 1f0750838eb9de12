// Activations: each output is one rounding of a real function of one input.
//
// An activation is a struct F with `op` and `template <class A> static A::V value(A&, const P&,
// double x)` for the P it names Parameters; x is never NaN there. An F that takes integers has
// `static std::int64_t integer(std::int64_t x, bool is_signed)`.
#pragma once

#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/activation.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// A real number of (0, 2^-200]: stands for anything positive that is too small to matter but for
// its side of a rounding boundary, where 2304 bits would not hold it beside a number of size 1.
template <class A>
ETALON_HD typename A::V speck(A& a) {
  return a.constant(0x1p-200);
}
// Below half the smallest subnormal of every format.
template <class A>
ETALON_HD typename A::V below_all(A& a) {
  return a.mul(a.constant(0x1p-1000), a.constant(0x1p-1000));
}
// x times a number of (1 - 2^-200, 1).
template <class A>
ETALON_HD typename A::V just_under(A& a, double x) {
  return a.mul(a.input(x), a.sub(a.constant(1), speck(a)));
}

// e^x - 1 for a real x that is v, and x as a double: near enough to tell how far down it lies. The
// ball of Function::expm1 is open at -1; a product with it would not be, so that a directed
// rounding of alpha*(e^x - 1) could not be decided.
template <class A>
ETALON_HD typename A::V expm1_of(A& a, double x, const typename A::V& v) {
  if (x < -1400) return is_finite(x) ? a.sub(speck(a), a.constant(1)) : a.constant(-1);
  return a.call(Function::expm1, v);
}

struct Relu {
  static constexpr std::string_view op = "relu";
  using Parameters = NoParams;
  // A tie takes the zero of the definition: relu(-0) = +0.
  template <class A>
  ETALON_HD static typename A::V value(A& a, const NoParams&, double x) {
    return x > 0 ? a.input(x) : a.constant(0);
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool is_signed) {
    return is_signed && x < 0 ? 0 : x;
  }
};

template <class A>
ETALON_HD typename A::V leaky_value(A& a, double slope, double x) {
  return x >= 0 ? a.input(x) : a.mul(a.constant(slope), a.input(x));
}

struct LeakyRelu {
  static constexpr std::string_view op = "leaky_relu";
  using Parameters = LeakyReluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    return leaky_value(a, static_cast<double>(p.alpha), x);
  }
};

struct PreluDefinition {
  static constexpr std::string_view op = "prelu";
  static constexpr bool rounded_once = true;
  struct Plan {
    Source x, slope;
    Shape shape;
    std::array<std::int64_t, kMaxRank> strides;
  };
  static Plan plan(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    return {Source(call, 0), Source(call, 1), x, broadcast_strides(call.input(1).shape(), x)};
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.shape.numel(); }
  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const double x = p.x[i];
    out(0, i,
        is_nan(x) ? a.input(x) : leaky_value(a, p.slope[strided_offset(i, p.shape, p.strides)], x));
  }
};

struct ThresholdedRelu {
  static constexpr std::string_view op = "thresholded_relu";
  using Parameters = ThresholdedReluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    return x > static_cast<double>(p.alpha) ? a.input(x) : a.constant(0);
  }
};

struct Elu {
  static constexpr std::string_view op = "elu";
  using Parameters = EluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    if (x > 0) return a.input(x);
    return a.mul(a.constant(static_cast<double>(p.alpha)), expm1_of(a, x, a.input(x)));
  }
};

struct Selu {
  static constexpr std::string_view op = "selu";
  using Parameters = SeluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    return a.mul(a.constant(static_cast<double>(p.gamma)),
                 Elu::value(a, EluParams{.alpha = p.alpha}, x));
  }
};

struct Celu {
  static constexpr std::string_view op = "celu";
  using Parameters = CeluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    if (x > 0) return a.input(x);
    const auto alpha = a.constant(static_cast<double>(p.alpha));
    return a.mul(alpha, expm1_of(a, x / static_cast<double>(p.alpha), a.div(a.input(x), alpha)));
  }
};

struct HardSigmoid {
  static constexpr std::string_view op = "hard_sigmoid";
  using Parameters = HardSigmoidParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto y = a.fma(a.constant(static_cast<double>(p.alpha)), a.input(x),
                         a.constant(static_cast<double>(p.beta)));
    return a.min(a.max(y, a.constant(0)), a.constant(1));
  }
};

struct HardSwish {
  static constexpr std::string_view op = "hard_swish";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    const auto v = a.input(x);
    if constexpr (std::is_same_v<A, AnyOrder>)
      if (is_finite(x)) return any_order(a, x);
    if (x <= -3) return a.mul(v, a.constant(0));
    if (x >= 3) return v;
    return a.div(a.mul(v, a.add(v, a.constant(3))), a.constant(6));
  }
  // ONNX writes x * clip(x/6 + 1/2, 0, 1), PyTorch x * clip(x + 3, 0, 6) / 6; neither has a branch
  // for x >= 3, and the first cancels near -3. x * clip(x/6 + 1/2) * 6 / 6 has the roundings of
  // both, and may overflow where the second does.
  static AnyOrder::V any_order(AnyOrder& a, double x) {
    const auto v = a.input(x), six = a.constant(6);
    if (x > 0x1p125) return {x, kInfinity};
    const auto ramp = a.fma(a.ratio(1, 6), v, a.constant(0.5));
    auto y = a.div(a.mul(v, a.mul(a.min(a.max(ramp, a.constant(0)), a.constant(1)), six)), six);
    if (x >= 3) y = {x, y.err + abs_of(y.mid - x)};
    return y;
  }
};

struct HardTanh {
  static constexpr std::string_view op = "hard_tanh";
  using Parameters = HardTanhParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto low = static_cast<double>(p.min), high = static_cast<double>(p.max);
    return a.input(x < low ? low : x > high ? high : x);
  }
};

struct Softplus {
  static constexpr std::string_view op = "softplus";
  using Parameters = SoftplusParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto beta = static_cast<double>(p.beta);
    if constexpr (std::is_same_v<A, AnyOrder>)
      if ((x * beta > static_cast<double>(p.threshold) || (x * beta > 88 && p.beta != 1)) &&
          x * beta < 0x1p127) {
        // A program without the threshold rounds beta * x, the function and the quotient; what it
        // leaves out, log(1 + e^(-beta x)) / beta, is counted as an error.
        const auto y = a.div(a.add(a.mul(a.constant(beta), a.input(x)),
                                   a.call(Function::softplus, a.constant(-x * beta))),
                             a.constant(beta));
        return {x, y.err + abs_of(y.mid - x)};
      }
    if (x * beta > static_cast<double>(p.threshold)) return a.input(x);
    if (p.beta == 1) return a.call(Function::softplus, a.input(x));
    // log(1 + e^z) = z + a speck.
    if (x * beta > 1400) return a.add(a.input(x), speck(a));
    return a.div(a.call(Function::softplus, a.mul(a.constant(beta), a.input(x))), a.constant(beta));
  }
};

struct Softsign {
  static constexpr std::string_view op = "softsign";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    const auto v = a.input(x);
    return a.div(v, a.add(a.constant(1), a.abs(v)));
  }
};

template <class A>
ETALON_HD typename A::V shrink_value(A& a, double lambd, double bias, double x) {
  if (x < -lambd) return a.add(a.input(x), a.constant(bias));
  if (x > lambd) return a.sub(a.input(x), a.constant(bias));
  return a.constant(0);
}

struct Softshrink {
  static constexpr std::string_view op = "softshrink";
  using Parameters = SoftshrinkParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto l = static_cast<double>(p.lambd);
    return shrink_value(a, l, l, x);
  }
};

struct Shrink {
  static constexpr std::string_view op = "shrink";
  using Parameters = ShrinkParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    return shrink_value(a, static_cast<double>(p.lambd), static_cast<double>(p.bias), x);
  }
};

// By erfc and the logistic function, which keep their relative precision where 1 + erf and 1 + tanh
// cancel. Beyond +-40 (erf) and +-25 (tanh form) the factor is 1 or 0 but for less than 2^-1150.
struct Gelu {
  static constexpr std::string_view op = "gelu";
  using Parameters = GeluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto v = a.input(x);
    const double end = p.approximate == GeluForm::none ? 40 : 25;
    if (!is_finite(x)) return x > 0 ? v : a.input(kNan);
    if (x > end) return just_under(a, x);
    if (x < -end) return a.neg(below_all(a));
    if (x == 0) return v;
    if (p.approximate == GeluForm::none) {
      const auto z = a.neg(a.div(v, a.sqrt(a.constant(2))));
      return a.mul(a.mul(v, a.constant(0.5)), a.call(Function::erfc, z));
    }
    const auto pi = a.mul(a.constant(4), a.call(Function::atan, a.constant(1)));
    const auto cubic = a.add(v, a.mul(a.ratio(44715, 1000000), a.mul(v, a.mul(v, v))));
    const auto z = a.mul(a.mul(a.constant(2), a.sqrt(a.div(a.constant(2), pi))), cubic);
    return a.mul(v, a.call(Function::sigmoid, z));
  }
};

struct Silu {
  static constexpr std::string_view op = "silu";
  using Parameters = SiluParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters& p, double x) {
    const auto v = a.input(x);
    const auto alpha = static_cast<double>(p.alpha);
    const double z = alpha * x;
    if (!is_finite(x) || x == 0) return a.mul(v, a.input(z > 0 ? 1.0 : z < 0 ? 0.0 : z + 0.5));
    if (z > 1400) return just_under(a, x);
    if (z < -3000) return x < 0 ? a.neg(below_all(a)) : below_all(a);
    return a.mul(v, a.call(Function::sigmoid, a.mul(a.constant(alpha), v)));
  }
};

// tanh(log(1 + e)) = e(e + 2) / (e(e + 2) + 2) with e = e^x.
struct Mish {
  static constexpr std::string_view op = "mish";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    const auto v = a.input(x);
    if (!is_finite(x)) return x > 0 ? v : a.input(kNan);
    if (x > 700) return just_under(a, x);
    if (x < -3000) return a.neg(below_all(a));
    const auto e = a.call(Function::exp, v);
    const auto t = a.mul(e, a.add(e, a.constant(2)));
    return a.div(a.mul(v, t), a.add(t, a.constant(2)));
  }
};

constexpr std::string_view op_name(Function f) { return name(f); }

template <Function F>
struct Elementary {
  static constexpr std::string_view op = op_name(F);
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.call(F, a.input(x));
  }
};

struct Abs {
  static constexpr std::string_view op = "abs";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.input(abs_of(x));
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool is_signed) {
    return is_signed && x < 0 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x;
  }
};

struct Neg {
  static constexpr std::string_view op = "neg";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.input(-x);
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool) {
    return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
  }
};

struct Sign {
  static constexpr std::string_view op = "sign";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.input(x == 0 ? x : with_sign(1, x < 0));
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool is_signed) {
    return x == 0 ? 0 : is_signed && x < 0 ? -1 : 1;
  }
};

struct Floor {
  static constexpr std::string_view op = "floor";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.input(floor_f64(x));
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool) { return x; }
};

struct Ceil {
  static constexpr std::string_view op = "ceil";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    return a.input(-floor_f64(-x));
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool) { return x; }
};

struct RoundHalfEven {
  static constexpr std::string_view op = "round";
  using Parameters = NoParams;
  template <class A>
  ETALON_HD static typename A::V value(A& a, const Parameters&, double x) {
    const double low = floor_f64(x), rest = x - low;  // exact; NaN for an infinite x
    const bool up = rest > 0.5 || (rest == 0.5 && floor_f64(low / 2) * 2 != low);
    return a.input(with_sign(abs_of(up ? low + 1 : low), sign_bit(x)));
  }
  ETALON_HD static std::int64_t integer(std::int64_t x, bool) { return x; }
};

// A list of activations, of which one is met by its place when the program runs.
template <class... F>
struct Activations {
  static std::vector<std::string_view> ops() { return {F::op...}; }
  static std::size_t find(std::string_view op) {
    std::size_t i = 0;
    (void)((F::op == op || (++i, false)) || ...);
    if (i == sizeof...(F)) throw internal_error("{} is no activation", op);
    return i;
  }
  // f.template operator()<F>() for the F of that place.
  template <class Visitor>
  ETALON_HD static void visit(std::size_t place, Visitor&& f) {
    std::size_t i = 0;
    (void)((i++ == place && (f.template operator()<F>(), true)) || ...);
  }
};

using AllActivations = Activations<
    Relu, LeakyRelu, ThresholdedRelu, Elu, Selu, Celu, HardSigmoid, HardSwish, HardTanh, Softplus,
    Softsign, Softshrink, Shrink, Gelu, Silu, Mish, Elementary<Function::sigmoid>,
    Elementary<Function::log_sigmoid>, Elementary<Function::exp>, Elementary<Function::log>,
    Elementary<Function::sqrt>, Elementary<Function::reciprocal>, Elementary<Function::rsqrt>,
    Elementary<Function::sin>, Elementary<Function::cos>, Elementary<Function::tan>,
    Elementary<Function::asin>, Elementary<Function::acos>, Elementary<Function::atan>,
    Elementary<Function::sinh>, Elementary<Function::cosh>, Elementary<Function::tanh>,
    Elementary<Function::asinh>, Elementary<Function::acosh>, Elementary<Function::atanh>,
    Elementary<Function::erf>, Elementary<Function::exp2>, Elementary<Function::expm1>,
    Elementary<Function::log2>, Elementary<Function::log10>, Elementary<Function::log1p>,
    Elementary<Function::cbrt>, Elementary<Function::erfc>, Abs, Neg, Sign, Floor, Ceil,
    RoundHalfEven>;

// One definition for all, as for elementwise arithmetic: a copy for each op over each number system
// would cost minutes of compilation and gain nothing here.
struct ActivationDefinition {
  static constexpr std::string_view op = "activation";
  static constexpr bool rounded_once = true;

  struct Plan {
    std::size_t place;  // in AllActivations
    Source x;
    const Params* params;
    std::int64_t count;
    const Tensor* integers = nullptr;
    template <class P>
    const P& as() const {
      return params->as<P>();
    }
  };
  static Plan plan(const KernelCall& call) {
    const Tensor& x = call.input(0);
    return {AllActivations::find(call.problem->op->name), Source(call, 0), call.problem->params,
            x.numel(), is_floating(x.dtype()) ? nullptr : &x};
  }
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.count; }
  // P is Plan, or what a GPU has in its place (kernels/backends/cuda/device_plans.h).
  template <class A, class P, class Out>
  ETALON_HD static void slice(A& a, const P& p, std::int64_t i, Out& out) {
    if constexpr (requires { p.integers; }) {
      if (p.integers != nullptr) {
        integer_slice(p, i, out);
        return;
      }
    }
    const double x = p.x[i];
    if (is_nan(x)) {
      out(0, i, a.input(x));
      return;
    }
    AllActivations::visit(p.place, [&]<class F>() {
      out(0, i, F::value(a, p.template as<typename F::Parameters>(), x));
    });
  }

 private:
  template <class Out>
  static void integer_slice(const Plan& p, std::int64_t i, Out& out) {
    visit_dtype(p.integers->dtype(), [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        const T x = reinterpret_cast<const T*>(p.integers->bytes().data())[i];
        AllActivations::visit(p.place, [&]<class F>() {
          if constexpr (requires { F::integer(std::int64_t{0}, true); })
            out.integer(0, i, F::integer(static_cast<std::int64_t>(x), std::is_signed_v<T>));
        });
      }
    });
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
