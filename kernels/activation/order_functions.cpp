#include "kernels/activation/order_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/numerics/contract_arithmetic.h"
#include "engine/numerics/power.h"
#include "kernels/activation/lanes.h"
#include "kernels/activation/lanes_f64.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {
namespace {

using Arithmetic = ContractArithmetic<SoftOps>;
constexpr int kBlock = kFunctionBlock;

std::optional<LaneFunction> lane_function(Function f) {
  switch (f) {
    case Function::exp:
      return LaneFunction::exp;
    case Function::log:
      return LaneFunction::log;
    case Function::log1p:
      return LaneFunction::log1p;
    case Function::tanh:
      return LaneFunction::tanh;
    case Function::sigmoid:
      return LaneFunction::sigmoid;
    case Function::softplus:
      return LaneFunction::softplus;
    default:
      return std::nullopt;
  }
}

std::optional<F64Function> f64_function(Function f) {
  switch (f) {
    case Function::exp:
      return F64Function::exp;
    case Function::log:
      return F64Function::log;
    case Function::log1p:
      return F64Function::log1p;
    case Function::tanh:
      return F64Function::tanh;
    case Function::sigmoid:
      return F64Function::sigmoid;
    case Function::softplus:
      return F64Function::softplus;
    default:
      return std::nullopt;
  }
}

}  // namespace

// The real value lies within half an ulp of y, so that it rounds to f16 or bf16 as y does unless y
// is a midpoint of two of them or its neighbour; or within margin - 1/2, and y no further than
// `margin` from one.
void round_from_f32(const Contract& c, const OrderTiles<float>& tiles, const float* y, float* x,
                    std::int64_t count, FunctionRef<float(std::int64_t)> scalar,
                    std::uint32_t margin) {
  const bool flush = c.subnormals == Subnormals::flush;
  // Loops of a constant length, which compilers turn into vectors.
  std::uint32_t bits[kBlock], open[kBlock];
  float rounded[kBlock];
  std::copy_n(y, count, rounded);
  std::fill(rounded + count, rounded + kBlock, 1.0F);
  for (int i = 0; i < kBlock; ++i) bits[i] = bits_of(rounded[i]);
  const auto is_subnormal = [](std::uint32_t b) {
    const auto size = static_cast<std::int32_t>(b & 0x7fffffffU);
    return size > 0 && size < 0x800000;
  };
  if (c.acc == DType::f32) {
    if (flush)
      for (int i = 0; i < kBlock; ++i)
        rounded[i] = float_of(is_subnormal(bits[i]) ? bits[i] & 0x80000000U : bits[i]);
    std::copy_n(rounded, count, x);
    return;
  }
  const bool half = c.acc == DType::f16;
  const std::uint32_t low = half ? 0x1fffU : 0xffffU, middle = (low + 1) / 2;
  std::uint32_t any = 0, small = 0;
  for (int i = 0; i < kBlock; ++i) {
    const auto beside = static_cast<std::int32_t>((bits[i] + margin - middle) & low);
    open[i] = beside <= static_cast<std::int32_t>(2 * margin) ? 1 : 0;
    any |= open[i];
    small |= static_cast<std::int32_t>(bits[i] & 0x7fffffffU) < 0x38800000 ? 1U : 0U;
  }
  if (half && small != 0) {
    // Subnormal numbers of f16 are multiples of 2^-24.
    for (std::int64_t i = 0; i < count; ++i)
      if (const float size = std::fabs(y[i]); size < 0x1p-14F) {
        const float units = size * 0x1p24F;
        const float beside = units - std::floor(units) - 0.5F;
        open[i] = size >= 0x1p-26F && std::fabs(beside) < 0x1p-11F ? 1 : 0;
        any |= open[i];
      }
  } else if (!half && flush) {
    // What is subnormal in f32 may be the smallest normal number of bf16.
    for (int i = 0; i < kBlock; ++i) {
      open[i] |= is_subnormal(bits[i]) ? 1U : 0U;
      any |= open[i];
    }
  }
  {
    const RoundingScope scope(tiles.others);
    tiles.settle(rounded, count);
  }
  if (any == 0) {
    std::copy_n(rounded, count, x);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) x[i] = open[i] != 0 ? scalar(i) : rounded[i];
}

// f16 and bf16 are values of f32, so that rounding to f32 first, the same way, changes nothing.
void round_directed(const Contract& c, Isa isa, const OrderTiles<float>& tiles,
                    const DirectedValues& values, float* x, std::int64_t count,
                    FunctionRef<float(std::int64_t)> scalar) {
  const bool flush = c.subnormals == Subnormals::flush;
  float y[kBlock];
  std::uint16_t open[2 * kBlock];
  // At infinities functions reach what they are below everywhere else.
  for (std::int64_t i = 0; i < count; ++i)
    if (!(std::fabs(x[i]) < std::numeric_limits<float>::infinity())) values.v[i] = kNan;
  int opened = 0;
  {
    const RoundingScope scope(tiles.others);
    opened = lane_ends(isa)(values.v, values.error, values.limit, y, static_cast<int>(count), open);
  }
  if (flush && c.acc != DType::f16)
    for (std::int64_t i = 0; i < count; ++i)
      if (y[i] != 0 && std::fabs(y[i]) < 0x1p-126F) {
        // What is subnormal in f32 may be the smallest normal number of bf16.
        if (c.acc == DType::bf16) open[opened++] = static_cast<std::uint16_t>(i);
        y[i] = std::copysign(0.0F, y[i]);
      }
  if (c.acc != DType::f32) {
    const RoundingScope scope(tiles.others);
    tiles.settle(y, count);
  }
  for (int k = 0; k < opened; ++k) y[open[k]] = scalar(open[k]);
  std::copy_n(y, count, x);
}

template <>
void call_order_function(const Contract& c, Isa isa, const OrderTiles<float>& tiles, Function f,
                         float* values, std::int64_t count) {
  const Arithmetic a(c);
  const auto scalar = [&](float x) {
    return static_cast<float>(a.call(f, static_cast<double>(x)));
  };
  const std::optional<LaneFunction> lane = lane_function(f);
  if (!lane) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = scalar(values[i]);
    return;
  }
  if (c.round != Round::nearest_even) {
    const bool below_one = f == Function::tanh || f == Function::sigmoid;
    for (std::int64_t at = 0; at < count; at += kBlock) {
      double v[kBlock];
      float* x = values + at;
      const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
      const double error = lane_values(isa)(*lane, {}, x, v, n);
      round_directed(c, isa, tiles, {v, error, below_one ? next_down(1.0) : kInfinity}, x, n,
                     [&](std::int64_t i) { return scalar(x[i]); });
    }
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
    round_from_f32(c, tiles, y, x, n, [&](std::int64_t i) { return scalar(x[i]); });
  }
}

template <>
void call_order_function(const Contract& c, Isa isa, const OrderTiles<double>& /*tiles*/,
                         Function f, double* values, std::int64_t count) {
  const Arithmetic a(c);
  const std::optional<F64Function> vectors = f64_function(f);
  if (!vectors) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = a.call(f, values[i]);
    return;
  }
  struct Context {
    const Arithmetic& a;
    Function f;
  } const context{a, f};
  const auto scalar = [](const void* of, double x) {
    const auto* to = static_cast<const Context*>(of);
    // No number, and no rarity where arguments are random.
    if ((to->f == Function::log && x < 0) || (to->f == Function::log1p && x < -1)) return kNan;
    return to->a.call(to->f, x);
  };
  f64_kernel(isa)(*vectors, c.round, {}, values, count, {scalar, &context});
}

namespace {

// x^(3/4), the power of every published LRN, as root(x) root(root(x)) in f32: with u = 2^-24 the
// roots err by u and (1/2 + 1) u, their product by one u more, 3.5 u or as many places at most.
// False if some x is not in [2^-96, 2^96], where no root nor product is subnormal.
constexpr std::uint32_t kRootsMargin = 4;
bool by_roots(const float* x, float* y, std::int64_t count) {
  constexpr auto kLeast = std::bit_cast<std::int32_t>(0x1p-96F);
  constexpr auto kMost = std::bit_cast<std::int32_t>(0x1p96F);
  float of[kBlock];
  std::copy_n(x, count, of);
  std::fill(of + count, of + kBlock, 1.0F);
  int outside = 0;
  for (int i = 0; i < kBlock; ++i) {
    const auto bits = static_cast<std::int32_t>(bits_of(of[i]));
    outside |= (bits < kLeast ? 1 : 0) | (bits > kMost ? 1 : 0);
  }
  if (outside != 0) return false;
  for (int i = 0; i < kBlock; ++i) {
    const float root = __builtin_sqrtf(of[i]);
    of[i] = root * __builtin_sqrtf(root);
  }
  std::copy_n(of, count, y);
  return true;
}

}  // namespace

template <>
void call_order_power(const Contract& c, Isa isa, const OrderTiles<float>& tiles, double exponent,
                      float* values, std::int64_t count) {
  const Arithmetic a(c);
  // An exact case that is no rarity: the bias of LRN.
  const auto scalar = [&](float x) {
    return x == 1 ? 1 : static_cast<float>(a.pow(static_cast<double>(x), exponent));
  };
  const auto power = static_cast<float>(exponent);
  if (c.round != Round::nearest_even) {
    for (std::int64_t at = 0; at < count; at += kBlock) {
      double v[kBlock];
      float* x = values + at;
      const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
      // A bias of LRN that nothing of a narrow accumulator's last place is added to.
      if (std::all_of(x, x + n, [](float one) { return one == 1; })) continue;
      const double error = pow_values(isa)(x, &power, false, v, n);
      round_directed(c, isa, tiles, {v, error}, x, n, [&](std::int64_t i) { return scalar(x[i]); });
    }
    return;
  }
  const auto fallback = [](float x, float y) {
    return static_cast<float>(
        correctly_rounded_power(static_cast<double>(x), static_cast<double>(y), DType::f32));
  };
  const PowKernel kernel = pow_kernel(isa);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    float y[kBlock];
    float* x = values + at;
    const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
    const auto of = [&](std::int64_t i) { return scalar(x[i]); };
    if (exponent == 0.75 && c.acc != DType::f32 && by_roots(x, y, n)) {
      round_from_f32(c, tiles, y, x, n, of, kRootsMargin);
    } else {
      kernel(x, &power, false, y, n, {fallback});
      round_from_f32(c, tiles, y, x, n, of);
    }
  }
}

template <>
void call_order_power(const Contract& c, Isa isa, const OrderTiles<double>& /*tiles*/,
                      double exponent, double* values, std::int64_t count) {
  const Arithmetic a(c);
  if (std::fabs(exponent) >= 0x1p10) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = a.pow(values[i], exponent);
    return;
  }
  struct Context {
    const Arithmetic& a;
    double exponent;
  } const context{a, exponent};
  const auto scalar = [](const void* of, double x) {
    const auto* to = static_cast<const Context*>(of);
    return x == 1 ? 1 : to->a.pow(x, to->exponent);
  };
  f64_kernel(isa)(F64Function::pow, c.round, {.alpha = exponent}, values, count,
                  {scalar, &context});
}

}  // namespace etalon
