// Elementary functions and activations over f32 arrays by vectors of f64 lanes, correctly rounded:
// the same bits as the definitions, lane by lane.
//
// A lane evaluates the function in f64 with a proven relative error, and one rounding test for all
// functions rounds both ends of the interval to f32. Where they differ (once in some 2^14), and
// for NaN and whatever lies outside the formula's domain, `scalar` computes that element. So each
// element's bits depend on its value alone, never on its position, the vector length or the
// instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/cpu.h"

namespace etalon {

enum class LaneFunction : std::uint8_t {
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  rsqrt,
  cbrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  sigmoid,
  log_sigmoid,
  softplus,   // x where x > threshold
  silu,       // x sigmoid(x)
  gelu,       // x erfc(-x / sqrt(2)) / 2
  gelu_tanh,  // x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
  mish,       // x tanh(log(1 + e^x))
  softsign,   // x / (1 + |x|)
  elu,        // x > 0 ? x : alpha (e^x - 1)
  selu,       // gamma elu(x)
  celu,       // x > 0 ? x : alpha (e^(x/alpha) - 1), alpha > 0
  hard_sigmoid,
  hard_swish,
  // One f32 operation or a comparison: exact as it is, without a test.
  leaky_relu,  // x >= 0 ? x : alpha x, with alpha an f32
  sqrt,
  reciprocal,
  hard_tanh
};
inline constexpr int kLaneFunctionCount = 40;

struct LaneParams {
  double alpha = 1, gamma = 1, beta = 0;
  double threshold = __builtin_inf();
  double low = -1, high = 1;  // hard_tanh
};

// The element's correctly rounded value, by the definition.
struct LaneFallback {
  float (*scalar)(const void* context, float x);
  const void* context = nullptr;
};

// y[i] = f(x[i]); x and y may be the same array. Returns how many elements `scalar` computed.
using LaneKernel = std::int64_t (*)(LaneFunction f, const LaneParams& params, const float* x,
                                    float* y, std::int64_t count, const LaneFallback& fallback);
// The first pass alone, for functions before leaky_relu: y[i] has a relative error below the
// number returned, is infinite where the formula refuses, or NaN where the function is.
using LaneValues = double (*)(LaneFunction f, const LaneParams& params, const float* x, double* y,
                              std::int64_t count);

// The second pass, for orders that round another way, in the processor's mode of the moment: y[i]
// is v[i] as that mode rounds to f32, where both ends of v[i] (1 +- error) round alike, being cut
// to `limit` in size; else, and for NaN and infinite v[i], i is noted in `open`. Returns how many
// are. A function that reaches a limit at infinity alone is below it everywhere else.
using LaneEnds = int (*)(const double* v, double error, double limit, float* y, int count,
                         std::uint16_t* open);

// out[i] = base[i]^exponent[i], or with one exponent for all.
struct PowFallback {
  float (*scalar)(float base, float exponent);
};
using PowKernel = std::int64_t (*)(const float* base, const float* exponent, bool exponent_varies,
                                   float* out, std::int64_t count, const PowFallback& fallback);
// Its first pass, as LaneValues; infinite where the base is not above zero.
using PowValues = double (*)(const float* base, const float* exponent, bool exponent_varies,
                             double* y, std::int64_t count);

// Rows of ExpLanes, `stride` elements from one to the next.
struct ExpRows {
  const float* x = nullptr;
  const float* largest = nullptr;  // [rows], finite; a larger element's exponential is right, too
  float* y = nullptr;              // may be x
  std::int64_t stride = 0, n = 0;  // of x and y
  int rows = 0;
};
// Rows whose chains ExpLanes::summed keeps.
inline constexpr int kExpChains = 4;

// Steps of sums of exponentials (softmax), all but the last in f64 with relative errors.
struct ExpLanes {
  // e[i] = exp(x[i] - m), relative error below 2^-45; at least e^-200, and e^-200 below that.
  void (*exp)(const float* x, float m, double* e, std::int64_t count);
  // y[i] = e[i] / s to nearest; false if some quotient's rounding is not decided, given that its
  // relative error is below `error`.
  bool (*divide)(const double* e, double s, double error, float* y, std::int64_t count);
  // The same for y[i] = (x[i] - m) - log_sum, where x[i] <= m, 0 <= log_sum.
  bool (*subtract)(const float* x, float m, double log_sum, double error, float* y,
                   std::int64_t count);
  // y[i] = e^d correctly rounded, of d = x[i] - m rounded to f32. Returns how many elements
  // `scalar` computed.
  std::int64_t (*rounded)(const ExpRows& rows, const LaneFallback& fallback);
  // The same of at most kExpChains rows, and each one's sum in one chain, from +0.
  std::int64_t (*summed)(const ExpRows& rows, float* sums, const LaneFallback& fallback);
};
const ExpLanes* exp_lanes(Isa isa);

// For an instruction set that has vectors for it (avx2 and up on x86-64), else nullptr.
LaneKernel lane_kernel(Isa isa);
LaneValues lane_values(Isa isa);
LaneEnds lane_ends(Isa isa);
PowKernel pow_kernel(Isa isa);
PowValues pow_values(Isa isa);

namespace avx2 {
extern const ExpLanes exp_lanes;
std::int64_t run_lanes(LaneFunction f, const LaneParams& params, const float* x, float* y,
                       std::int64_t count, const LaneFallback& fallback);
// As run_lanes without the rounding test, for the test that shows it is needed.
std::int64_t run_lanes_untested(LaneFunction f, const LaneParams& params, const float* x, float* y,
                                std::int64_t count, const LaneFallback& fallback);
double run_values(LaneFunction f, const LaneParams& params, const float* x, double* y,
                  std::int64_t count);
int run_ends(const double* v, double error, double limit, float* y, int count, std::uint16_t* open);
std::int64_t run_pow(const float* base, const float* exponent, bool exponent_varies, float* out,
                     std::int64_t count, const PowFallback& fallback);
double run_pow_values(const float* base, const float* exponent, bool exponent_varies, double* y,
                      std::int64_t count);
}  // namespace avx2
namespace avx512 {
extern const ExpLanes exp_lanes;
std::int64_t run_lanes(LaneFunction f, const LaneParams& params, const float* x, float* y,
                       std::int64_t count, const LaneFallback& fallback);
std::int64_t run_lanes_untested(LaneFunction f, const LaneParams& params, const float* x, float* y,
                                std::int64_t count, const LaneFallback& fallback);
double run_values(LaneFunction f, const LaneParams& params, const float* x, double* y,
                  std::int64_t count);
int run_ends(const double* v, double error, double limit, float* y, int count, std::uint16_t* open);
std::int64_t run_pow(const float* base, const float* exponent, bool exponent_varies, float* out,
                     std::int64_t count, const PowFallback& fallback);
double run_pow_values(const float* base, const float* exponent, bool exponent_varies, double* y,
                      std::int64_t count);
}  // namespace avx512

}  // namespace etalon
