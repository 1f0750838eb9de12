// Elementary functions and activations on a GPU, an element a thread, in steps that each compute
// what the one before leaves open: the first pass (device_quick.h), the CPU's fine formulas over
// one double, the definition over balls in f64 (device_definition.h), and the host for what is
// *undecided* then. Host and device.
//
// Same bits: a value that passes the rounding test is the correctly rounded one, whichever formula
// gave it. Limit: memory, 8 bytes an element.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/numerics/fp.h"
#include "kernels/activation/device_quick.h"
#include "kernels/activation/lane_params.h"
#include "kernels/activation/lanes_inl.h"
#include "kernels/backends/cuda/api.h"
#include "kernels/backends/cuda/device_definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// One double as LaneMath wants it.
struct DeviceLane {
  using Reg = double;
  using Test = bool;
  using Int = std::uint64_t;
  static constexpr bool quick = false;
  ETALON_HD static double set1(double x) { return x; }
  ETALON_HD static double add(double a, double b) { return a + b; }
  ETALON_HD static double sub(double a, double b) { return a - b; }
  ETALON_HD static double mul(double a, double b) { return a * b; }
  ETALON_HD static double div(double a, double b) { return a / b; }
  ETALON_HD static double fma(double a, double b, double c) { return fma_f64(a, b, c); }
  ETALON_HD static double fnma(double a, double b, double c) { return fma_f64(-a, b, c); }
  ETALON_HD static double sqrt(double a) { return sqrt_f64(a); }
  ETALON_HD static double min(double a, double b) { return a < b ? a : b; }  // b if one is NaN
  ETALON_HD static double max(double a, double b) { return a > b ? a : b; }
  // The compiler takes away the rounding of a number that was widened: two operations in f32.
  ETALON_HD static double clamp_widened(double x, float low, float high) {
    const auto f = static_cast<float>(x);
#if defined(__CUDA_ARCH__)
    float held;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(held) : "f"(f), "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(held) : "f"(high));
    return static_cast<double>(held);
#else
    return static_cast<double>(f < low ? low : f > high ? high : f);
#endif
  }
  ETALON_HD static double abs(double a) { return abs_of(a); }
  ETALON_HD static double neg(double a) { return -a; }
  ETALON_HD static double copy_sign(double magnitude, double sign) {
    return double_of((bits_of(magnitude) & ~kTop) | (bits_of(sign) & kTop));
  }
  ETALON_HD static bool less(double a, double b) { return a < b; }
  ETALON_HD static bool not_less(double a, double b) { return !(a < b); }
  ETALON_HD static bool not_inside(double x, double low, double high) {
    return !(low < x && x < high);
  }
  ETALON_HD static std::uint32_t to_bits(bool m) { return m ? 1 : 0; }
  ETALON_HD static double select(bool m, double yes, double no) { return m ? yes : no; }
  ETALON_HD static Int bits64(double a) { return bits_of(a); }
  ETALON_HD static double from_bits64(Int a) { return double_of(a); }
  ETALON_HD static Int set64(std::int64_t a) { return static_cast<Int>(a); }
  ETALON_HD static Int add64(Int a, Int b) { return a + b; }
  ETALON_HD static Int sub64(Int a, Int b) { return a - b; }
  ETALON_HD static Int and64(Int a, Int b) { return a & b; }
  ETALON_HD static Int or64(Int a, Int b) { return a | b; }
  ETALON_HD static double flip(double a, Int sign) { return double_of(bits_of(a) ^ sign); }
  ETALON_HD static bool top_bit(Int a) { return (a & kTop) != 0; }
  ETALON_HD static double gather(const double* table, Int index) { return table[index]; }
  template <int N>
  ETALON_HD static Int shift_left(Int a) {
    return a << N;
  }
  template <int N>
  ETALON_HD static Int shift_right(Int a) {
    return a >> N;
  }

 private:
  static constexpr Int kTop = std::uint64_t{1} << 63;
};

// The functions of lanes.h, and relu.
inline constexpr int kDeviceRelu = kLaneFunctionCount;
inline constexpr int kDeviceFunctions = kLaneFunctionCount + 1;

// One f32 operation, which rounds once: nothing is left open, no list is needed.
constexpr bool device_function_decides(int code) {
  if (code == kDeviceRelu) return true;
  const auto f = static_cast<LaneFunction>(code);
  return f == LaneFunction::leaky_relu || f == LaneFunction::sqrt ||
         f == LaneFunction::reciprocal || f == LaneFunction::hard_tanh;
}

// One f32 operation.
template <int Code>
ETALON_HD float device_operation(const LaneParams& p, float x) {
  constexpr auto f = static_cast<LaneFunction>(Code);
  if constexpr (Code == kDeviceRelu)
    return x != x ? canonical(x) : x > 0 ? x : 0.0F;
  else if constexpr (f == LaneFunction::leaky_relu)
    return canonical(x < 0 ? x * static_cast<float>(p.alpha) : x);
  else if constexpr (f == LaneFunction::sqrt)
    return canonical(sqrt_f32(x));
  else if constexpr (f == LaneFunction::reciprocal)
    return canonical(1.0F / x);
  else
    return canonical(x < static_cast<float>(p.low)    ? static_cast<float>(p.low)
                     : x > static_cast<float>(p.high) ? static_cast<float>(p.high)
                                                      : x);
}

// The second pass, where the first (device_quick.h) decides nothing: the CPU's formulas with every
// step fine, which leave one element in a million open, and error functions by the first one's
// rows. Relative errors, a third more and above of what is derived.
template <LaneFunction F>
struct DeviceFine {
  using L = LaneFunction;
  using Quick = DeviceQuick<F>;
  static constexpr double error() {
    switch (F) {
      // e^x by 5 u (its polynomial counts a tenth of 2^-48) and what is made of it in a few steps;
      // logarithms by 9 u, those of another base by 11; roots.
      case L::exp:
      case L::exp2:
      case L::cosh:
      case L::sigmoid:
      case L::silu:
      case L::mish:
      case L::log:
      case L::log2:
      case L::log10:
      case L::rsqrt:
      case L::cbrt:
        return 0x1p-49;
      // e^x - 1: a fifth of 2^-48 and 2.2 u, at most 2.4 times, is 21 u. Error functions' sums: 12
      // u.
      case L::erf:
      case L::erfc:
      case L::gelu:
      case L::expm1:
      case L::sinh:
      case L::tanh:
      case L::softplus:
      case L::log_sigmoid:
      case L::elu:
      case L::selu:
        return 0x1p-48;
      case L::gelu_tanh:
        return 0x1p-43;
      case L::celu:
        return 0x1p-44;
      default:
        return 0x1.5p-47;
    }
  }
  // h(c) d E as in the first pass, with E by Gauss's six points, |v| < 0.33: it errs by 2^-70, and
  // e^-v by fourteen terms, by 2^-58.
  ETALON_HD static typename Quick::Rest rest(double b) {
    constexpr double kMagic = 0x1.8p52 * static_cast<double>(Quick::kRowStep);
    constexpr double kUnit = F == L::gelu ? 1 : 2;
    constexpr double kPoint[] = {0x1.149ad8bfaff12p-5, 0x1.5aebed3546d43p-3, 0x1.85d3b4bf2628fp-2};
    constexpr double kWeight[] = {0x1.5edf601e2dbf8p-4, 0x1.716b7b5794c1cp-3, 0x1.df24d499545e8p-3};
    const double shifted = b + kMagic, c = shifted - kMagic, d = b - c;
    const auto row = RowsInPlace<F>::template pair<0>(DeviceUnit::low(shifted));
    const auto at = [&](double part) {
      const double s = part * d, v = kUnit * s * fma_f64(s, 0.5, c);
      double r = 1;
      for (int i = 13; i > 0; --i) r = fma_f64(r * v, -1.0 / i, 1);
      return r;
    };
    double mean = 0;
    for (int i = 0; i < 3; ++i) mean = fma_f64(kWeight[i], at(kPoint[i]) + at(1 - kPoint[i]), mean);
    return {row.a, row.b * d * mean};
  }
  ETALON_HD static double value(const LaneParams& p, float x) {
    if constexpr (F == L::erf || F == L::erfc || F == L::gelu) {
      if (x != x || (F == L::gelu && DeviceUnit::size(x) > 0x1.fffffep127F)) return kInfinity;
      constexpr auto kEnd = static_cast<double>(Quick::kRowEnd);
      const double a = abs_of(static_cast<double>(x)), held = a < kEnd ? a : kEnd;
      const typename Quick::Rest t = rest(held);
      if constexpr (F == L::erf)
        return with_sign(t.value + t.part, sign_bit(static_cast<double>(x)));
      const double y = t.value - t.part;
      if constexpr (F == L::erfc) return x < 0 ? 2 - y : y;
      return with_sign(fma_f64(-held, y, x > 0 ? a : 0), sign_bit(static_cast<double>(x)));
    } else {
      return LaneMath<DeviceLane>::template evaluate<F>(static_cast<double>(x), p);
    }
  }
  // Where v (1 - error) and v (1 + error) round alike (docs/rounding-test.md).
  ETALON_HD static bool function(const LaneParams& p, float x, float& y) {
    if (Quick::kHalf && DeviceUnit::size(x) < 0x1p-125F) {
      y = half_upward(x);
      return true;
    }
    const double v = value(p, x);
    const float low = static_cast<float>(fma_f64(-v, error(), v)),
                high = static_cast<float>(fma_f64(v, error(), v));
    y = v != v ? float_of(kNanF32) : high;
    return low == high || v != v;
  }

 private:
  // LaneMath::half_upward
  ETALON_HD static float half_upward(float x) {
    const std::uint32_t sign = bits_of(x) & 0x80000000U, size = bits_of(x) & 0x7fffffffU;
    return float_of(sign | ((size + (sign == 0 ? 1U : 0U)) >> 1));
  }
};

// False: not decided, y means nothing.
template <int Code>
ETALON_HD bool device_function(const LaneParams& p, float x, float& y) {
  if constexpr (device_function_decides(Code)) {
    y = device_operation<Code>(p, x);
    return true;
  } else {
    constexpr auto f = static_cast<LaneFunction>(Code);
    return DeviceQuick<f>::function(p, x, y) || DeviceFine<f>::function(p, x, y);
  }
}

// f.template operator()<Code>() for the function of that number.
template <class F, int... Code>
void with_device_function(int code, F& f, std::integer_sequence<int, Code...>) {
  static_cast<void>(((Code == code && (f.template operator()<Code>(), true)) || ...));
}
template <class F>
void with_device_function(int code, F f) {
  with_device_function(code, f, std::make_integer_sequence<int, kDeviceFunctions>{});
}

// -1: there is no formula of this op.
inline int device_function_code(std::string_view op) {
  constexpr std::string_view kNames[] = {
      "exp",        "exp2",       "expm1",    "log",         "log2",      "log10", "log1p",
      "rsqrt",      "cbrt",       "sin",      "cos",         "tan",       "asin",  "acos",
      "atan",       "sinh",       "cosh",     "tanh",        "asinh",     "acosh", "atanh",
      "erf",        "erfc",       "sigmoid",  "log_sigmoid", "softplus",  "silu",  "gelu",
      "gelu_tanh",  "mish",       "softsign", "elu",         "selu",      "celu",  "hard_sigmoid",
      "hard_swish", "leaky_relu", "sqrt",     "reciprocal",  "hard_tanh", "relu"};
  static_assert(std::size(kNames) == kDeviceFunctions);
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == op) return static_cast<int>(i);
  return -1;
}

struct DeviceFunctionTask {
  int code = -1;
  LaneParams params;
  DeviceContract contract;  // of the definition behind it
  DevicePlan<ActivationDefinition>::Plan plan;
  const float* x = nullptr;
  DeviceOutputs to;
  std::int64_t count = 0;
};

inline DeviceFunctionTask device_function_task(const KernelCall& call) {
  DeviceFunctionTask t;
  t.code = device_function_code(call.problem->op->name);
  t.plan = DevicePlan<ActivationDefinition>::of(call);
  AllActivations::visit(t.plan.place, [&]<class F>() {
    t.params = lane_params(call.params<typename F::Parameters>());
  });
  // From 17 on e^-x takes nothing from x.
  if (t.params.threshold >= 17) t.params.threshold = std::numeric_limits<double>::infinity();
  if (call.problem->op->name == "gelu" && call.params<GeluParams>().approximate != GeluForm::none)
    t.code = static_cast<int>(LaneFunction::gelu_tanh);
  t.contract = device_contract<ActivationDefinition>(call);
  t.x = reinterpret_cast<const float*>(call.input(0).bytes().data());
  t.to = device_outputs(call);
  t.count = call.input(0).numel();
  return t;
}

inline Refusal refuse_device_function(const Problem& problem) {
  if (Refusal r = refuse_device_definition<ActivationDefinition>(problem)) return r;
  const Contract& c = *problem.contract;
  if (c.round != Round::nearest_even || c.subnormals != Subnormals::keep ||
      stored_format(DType::f32, c) != DType::f32)
    return "promises store=f32 or wider, round=rn, subnormals=keep";
  Refusal r;
  AllActivations::visit(AllActivations::find(problem.op->name), [&]<class F>() {
    r = refuse_lane_params(problem.params->as<typename F::Parameters>());
  });
  return r;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
