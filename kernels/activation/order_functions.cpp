#include "kernels/activation/order_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/numerics/contract_arithmetic.h"
#include "engine/numerics/real.h"
#include "kernels/activation/lanes.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {
namespace {

using Arithmetic = ContractArithmetic<SoftOps>;
constexpr int kBlock = 256;

std::optional<LaneFunction> lane_function(Function f) {
  switch (f) {
    case Function::exp:
      return LaneFunction::exp;
    case Function::log:
      return LaneFunction::log;
    case Function::tanh:
      return LaneFunction::tanh;
    case Function::sigmoid:
      return LaneFunction::sigmoid;
    default:
      return std::nullopt;
  }
}

// Correctly rounded f32 in y, of values x: what the contract makes of them, in place of x.
// scalar(i) computes element i.
template <class Scalar>
void round_again(const Contract& c, const OrderTiles<float>& tiles, const float* y, float* x,
                 std::int64_t count, const Scalar& scalar) {
  const bool flush = c.subnormals == Subnormals::flush;
  const auto is_subnormal = [](float v) { return v != 0 && std::fabs(v) < 0x1p-126F; };
  if (c.acc == DType::f32) {
    for (std::int64_t i = 0; i < count; ++i)
      x[i] = flush && is_subnormal(y[i]) ? std::copysign(0.0F, y[i]) : y[i];
    return;
  }
  float rounded[3][kBlock];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t b = bits_of(y[i]), size = b & 0x7fffffffU;
    const bool finite = size < 0x7f800000U;
    rounded[0][i] = y[i];
    rounded[1][i] = finite ? float_of(b + 1) : y[i];
    rounded[2][i] = finite && size != 0 ? float_of(b - 1) : y[i];
  }
  {
    const RoundingScope scope(tiles.others);
    for (float* r : rounded) tiles.settle(r, count);
  }
  // What is subnormal in f32 may be the smallest normal number of bf16: settle() flushes first.
  for (std::int64_t i = 0; i < count; ++i) {
    const bool decided = !(rounded[1][i] < rounded[2][i]) && !(rounded[2][i] < rounded[1][i]) &&
                         !(flush && is_subnormal(y[i]));
    x[i] = decided ? rounded[0][i] : scalar(i);
  }
}

}  // namespace

template <>
void call_order_function(const Contract& c, Isa isa, const OrderTiles<float>& tiles, Function f,
                         float* values, std::int64_t count) {
  const Arithmetic a(c);
  const auto scalar = [&](float x) {
    return static_cast<float>(a.call(f, static_cast<double>(x)));
  };
  const std::optional<LaneFunction> lane = lane_function(f);
  if (c.round != Round::nearest_even || !lane) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = scalar(values[i]);
    return;
  }
  const auto fallback = [](const void* of, float x) {
    return correctly_rounded_f32(*static_cast<const Function*>(of), x);
  };
  const LaneKernel kernel = lane_kernel(isa);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    float y[kBlock];
    float* x = values + at;
    const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
    kernel(*lane, {}, x, y, n, {fallback, &f});
    round_again(c, tiles, y, x, n, [&](std::int64_t i) { return scalar(x[i]); });
  }
}

template <>
void call_order_function(const Contract& c, Isa /*isa*/, const OrderTiles<double>& /*tiles*/,
                         Function f, double* values, std::int64_t count) {
  const Arithmetic a(c);
  for (std::int64_t i = 0; i < count; ++i) values[i] = a.call(f, values[i]);
}

template <>
void call_order_power(const Contract& c, Isa isa, const OrderTiles<float>& tiles, double exponent,
                      float* values, std::int64_t count) {
  const Arithmetic a(c);
  const auto scalar = [&](float x) {
    return static_cast<float>(a.pow(static_cast<double>(x), exponent));
  };
  if (c.round != Round::nearest_even) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = scalar(values[i]);
    return;
  }
  const auto fallback = [](float x, float y) {
    return static_cast<float>(correctly_rounded(
        [&](auto& real) {
          return real.pow(real.input(static_cast<double>(x)), real.input(static_cast<double>(y)));
        },
        DType::f32));
  };
  const PowKernel kernel = pow_kernel(isa);
  const auto power = static_cast<float>(exponent);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    float y[kBlock];
    float* x = values + at;
    const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
    kernel(x, &power, false, y, n, {fallback});
    round_again(c, tiles, y, x, n, [&](std::int64_t i) { return scalar(x[i]); });
  }
}

template <>
void call_order_power(const Contract& c, Isa /*isa*/, const OrderTiles<double>& /*tiles*/,
                      double exponent, double* values, std::int64_t count) {
  const Arithmetic a(c);
  for (std::int64_t i = 0; i < count; ++i) values[i] = a.pow(values[i], exponent);
}

}  // namespace etalon
