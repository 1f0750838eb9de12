// Elementary functions and activations on a GPU, an element a thread: the formulas of the CPU's
// vectors (lanes_inl.h) over one double, and the same rounding test. Two lists: what the test does
// not decide is left *open*, and a second kernel computes it by the definition over balls in f64
// (device_definition.h); what those do not decide is *undecided*, and the host settles it. Where
// more was left open than that list has places, the second kernel computes all elements, which
// changes no bit. Host and device.
//
// Same bits: a value that passes the test is the correctly rounded one, whichever formula gave it.
// Limit: memory, 8 bytes an element. Formulas take the short forms of AVX-512 (a table of sixteen
// powers, the unit's reciprocal and one step of Newton): exp is 8 operations in f64 for an element,
// of which an SM does 64 a cycle, two conversions (16 a cycle) and 30 instructions in all; tanh 15
// and 41. erf, with 37 in f64, is bound by those.
#pragma once

#include <algorithm>
#include <utility>

#include "engine/numerics/fp.h"
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
  static constexpr bool quick = true;
  ETALON_HD static double set1(double x) { return x; }
  ETALON_HD static double add(double a, double b) { return a + b; }
  ETALON_HD static double sub(double a, double b) { return a - b; }
  ETALON_HD static double mul(double a, double b) { return a * b; }
  ETALON_HD static double div(double a, double b) { return a / b; }
  ETALON_HD static double fma(double a, double b, double c) { return fma_f64(a, b, c); }
  ETALON_HD static double fnma(double a, double b, double c) { return fma_f64(-a, b, c); }
  // Of the upper word's 20 bits of significand, to as many: it errs by less than 2^-18. Infinity
  // gives 0 and 0 infinity, from which the formulas make NaN where they do not refuse them.
  ETALON_HD static double reciprocal14(double a) {
#if defined(__CUDA_ARCH__)
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a));
    return r;
#else
    constexpr Int kUpper = ~Int{0} << 32;
    return double_of(bits_of(1 / double_of(bits_of(a) & kUpper)) & kUpper);
#endif
  }
  // 2^(n/16). All sixteen lie in one line of the cache.
  ETALON_HD static double power_sixteenth(Int n) {
    // The power lies in the upper word alone.
    const Int table = polynomials::kPowerSixteenth[static_cast<std::uint32_t>(n) & 15U];
    const auto upper =
        static_cast<std::uint32_t>(table >> 32) + (static_cast<std::uint32_t>(n) << 16);
    return double_of((Int{upper} << 32) | static_cast<std::uint32_t>(table));
  }
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

// The rounding test of a value v whose relative error is below `error`, by its bits: the 29 that
// f32 lacks say how far from a midpoint it lies, in units of v's last place, of which the error is
// 2^53 `error` at most. True: y is decided; above f32's largest number it is infinity. Below its
// smallest normal one a midpoint is other bits, and an infinite v and NaN have none: of those this
// says nothing.
template <int Code>
ETALON_HD bool device_rounds(double v, float& y) {
  constexpr double kError = LaneMath<DeviceLane>::error_of(static_cast<LaneFunction>(Code));
  constexpr auto kEdge = static_cast<std::uint32_t>(kError * 0x1p53) + 1;
  constexpr std::uint32_t kMidpoint = 1U << 28, kLacking = (1U << 29) - 1;
  y = static_cast<float>(v);
  const std::uint64_t bits = bits_of(v);
  const auto upper = static_cast<std::uint32_t>(bits >> 32);
  const std::uint32_t from_edge =
      (static_cast<std::uint32_t>(bits) - (kMidpoint - kEdge)) & kLacking;
  constexpr std::uint32_t kNormal = 2 * 0x38100000U, kAbove = 2 * 0x7ff00000U;  // 2^-126
  return from_edge > 2 * kEdge && 2 * upper - kNormal < kAbove - kNormal;
}
// The same of any v: where v (1 - error) and v (1 + error) round alike.
template <int Code>
ETALON_HD bool device_rounds_anywhere(double v, float& y) {
  constexpr double kError = LaneMath<DeviceLane>::error_of(static_cast<LaneFunction>(Code));
  const float low = static_cast<float>(DeviceLane::fnma(v, kError, v)),
              high = static_cast<float>(DeviceLane::fma(v, kError, v));
  y = v != v ? float_of(kNanF32) : high;
  return low == high || v != v;
}
template <int Code>
ETALON_HD double device_value(const LaneParams& p, float x) {
  return LaneMath<DeviceLane>::template evaluate<static_cast<LaneFunction>(Code)>(
      static_cast<double>(x), p);
}

// False: not decided, y means nothing.
template <int Code>
ETALON_HD bool device_function(const LaneParams& p, float x, float& y) {
  if constexpr (device_function_decides(Code)) {
    y = device_operation<Code>(p, x);
    return true;
  } else {
    const double v = device_value<Code>(p, x);
    return device_rounds<Code>(v, y) || device_rounds_anywhere<Code>(v, y);
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
  if (call.problem->op->name == "gelu" && call.params<GeluParams>().approximate != GeluForm::none)
    t.code = static_cast<int>(LaneFunction::gelu_tanh);
  t.contract = device_contract<ActivationDefinition>(call);
  t.x = reinterpret_cast<const float*>(call.input(0).bytes().data());
  t.to = device_outputs(call);
  t.count = call.input(0).numel();
  return t;
}

// Places for what the formulas leave open: of usual data 2^-12 of the elements at most (the errors
// of lanes_inl.h are below 2^-37, a midpoint of f32 lies every 2^-24).
inline std::int64_t open_places(std::int64_t count) {
  return std::min(count, std::max<std::int64_t>(1024, count / 256));
}
// How many elements the second kernel computes, and the k-th of them.
ETALON_HD inline std::int64_t open_count(const DeviceFunctionTask& t,
                                         const cuda::UndecidedList& open) {
  return *open.count > open.capacity ? t.count : *open.count;
}
ETALON_HD inline std::int64_t open_element(const cuda::UndecidedList& open, std::int64_t k) {
  return *open.count > open.capacity ? k : open.places[k];
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
