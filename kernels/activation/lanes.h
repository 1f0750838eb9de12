// Activations over f32 arrays by vectors of f64 lanes, correctly rounded: the same bits as the
// definitions, lane by lane.
//
// A lane evaluates the function in f64 with a proven relative error and rounds both ends of the
// interval to f32. Where they differ (once in 2^17 to 2^19), and for NaN and whatever lies outside
// the formula's domain, `scalar` computes that element. So each element's bits depend on its value
// alone, never on its position, the vector length or the instruction set.
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

enum class LaneFunction : std::uint8_t {
  leaky_relu,  // x >= 0 ? x : alpha x, with alpha an f32
  exp,
  expm1,
  log,
  tanh,
  sigmoid,
  softplus,
  log_sigmoid,
  erf,
  erfc,
  silu,       // x sigmoid(x)
  gelu,       // x erfc(-x / sqrt(2)) / 2
  gelu_tanh,  // x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
  mish,       // x tanh(log(1 + e^x))
  softsign,   // x / (1 + |x|)
  elu,        // x > 0 ? x : alpha (e^x - 1)
  selu        // gamma elu(x)
};

struct LaneParams {
  double alpha = 1, gamma = 1;
};

// The element's correctly rounded value, by the definition.
struct LaneFallback {
  float (*scalar)(const void* context, float x);
  const void* context = nullptr;
};

// y[i] = f(x[i]); x and y may be the same array. Returns how many elements `scalar` computed.
using LaneKernel = std::int64_t (*)(LaneFunction f, const LaneParams& params, const float* x,
                                    float* y, std::int64_t count, const LaneFallback& fallback);

// Steps of sums of exponentials (softmax), in f64 with relative errors.
struct ExpLanes {
  // e[i] = exp(x[i] - m), relative error below 2^-45; at least e^-200, and e^-200 below that.
  void (*exp)(const float* x, float m, double* e, std::int64_t count);
  // y[i] = e[i] / s to nearest; false if some quotient's rounding is not decided, given that its
  // relative error is below `error`.
  bool (*divide)(const double* e, double s, double error, float* y, std::int64_t count);
  // The same for y[i] = (x[i] - m) - log_sum, where x[i] <= m, 0 <= log_sum.
  bool (*subtract)(const float* x, float m, double log_sum, double error, float* y,
                   std::int64_t count);
};
const ExpLanes* exp_lanes(Isa isa);

// For an instruction set that has vectors for it (avx2 and up on x86-64), else nullptr.
LaneKernel lane_kernel(Isa isa);

namespace avx2 {
extern const ExpLanes exp_lanes;
std::int64_t run_lanes(LaneFunction f, const LaneParams& params, const float* x, float* y,
                       std::int64_t count, const LaneFallback& fallback);
// As run_lanes without the rounding test, for the test that shows it is needed.
std::int64_t run_lanes_untested(LaneFunction f, const LaneParams& params, const float* x, float* y,
                                std::int64_t count, const LaneFallback& fallback);
}  // namespace avx2
namespace avx512 {
extern const ExpLanes exp_lanes;
std::int64_t run_lanes(LaneFunction f, const LaneParams& params, const float* x, float* y,
                       std::int64_t count, const LaneFallback& fallback);
std::int64_t run_lanes_untested(LaneFunction f, const LaneParams& params, const float* x, float* y,
                                std::int64_t count, const LaneFallback& fallback);
}  // namespace avx512

}  // namespace etalon
