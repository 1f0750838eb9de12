#include "kernels/recurrent/order_cell_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/activation/lanes.h"
#include "kernels/activation/lanes_f64.h"
#include "kernels/activation/order_functions.h"
#include "kernels/recurrent/definition.h"

namespace etalon {
namespace {

constexpr int kBlock = kFunctionBlock;

std::optional<Function> elementary(CellFunction f) {
  switch (f) {
    case CellFunction::sigmoid:
      return Function::sigmoid;
    case CellFunction::tanh:
      return Function::tanh;
    case CellFunction::softplus:
      return Function::softplus;
    default:
      return std::nullopt;
  }
}

std::optional<LaneFunction> lane_function(CellFunction f) {
  switch (f) {
    case CellFunction::elu:
      return LaneFunction::elu;
    case CellFunction::hard_sigmoid:
      return LaneFunction::hard_sigmoid;
    case CellFunction::leaky_relu:
      return LaneFunction::leaky_relu;
    case CellFunction::softsign:
      return LaneFunction::softsign;
    default:
      return std::nullopt;
  }
}

struct Definition {
  const CellActivation& f;
  double operator()(double x, DType to, Round round, Subnormals subnormals) const {
    return correctly_rounded([&](auto& a) { return cell_function(a, f, x); }, to, round,
                             subnormals);
  }
  double operator()(double x, const Contract& c) const {
    return (*this)(x, c.acc, c.round, c.subnormals);
  }
  float f32(float x) const {
    return static_cast<float>(
        (*this)(static_cast<double>(x), DType::f32, Round::nearest_even, Subnormals::keep));
  }
};

float f32_of(const void* definition, float x) {
  return static_cast<const Definition*>(definition)->f32(x);
}

// alpha tanh(beta x): beta x is exact in f64, its tanh and the product err by 2^-52 of them.
void scaled_tanh(Isa isa, const Definition& definition, const float* x, float* y, std::int64_t n) {
  const auto alpha = static_cast<double>(definition.f.alpha),
             beta = static_cast<double>(definition.f.beta);
  double t[kBlock];
  for (std::int64_t i = 0; i < n; ++i) t[i] = beta * static_cast<double>(x[i]);
  const auto scalar = [](const void*, double z) {
    return correctly_rounded_function(Function::tanh, z, DType::f64);
  };
  f64_kernel(isa)(F64Function::tanh, {}, t, n, {scalar});
  for (std::int64_t i = 0; i < n; ++i) {
    const double r = alpha * t[i];
    const auto low = static_cast<float>(r * (1 - 0x1p-50)),
               high = static_cast<float>(r * (1 + 0x1p-50));
    y[i] = low == high && r != 0 ? low : definition.f32(x[i]);
  }
}

// What takes one operation of f32 at most. A zero that is none of the argument's is left to the
// definition, which knows its sign.
void simple(const Definition& definition, const float* x, float* y, std::int64_t n) {
  const float alpha = definition.f.alpha, beta = definition.f.beta;
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    float r = v;
    if (definition.f.function == CellFunction::relu) r = v > 0 ? v : 0.0F;
    if (definition.f.function == CellFunction::thresholded_relu) r = v > alpha ? v : 0.0F;
    if (definition.f.function == CellFunction::affine) {
      r = fma_f32(alpha, v, beta);
      if (r == 0) r = definition.f32(v);
    }
    y[i] = canonical(v == v ? r : v);
  }
}

// x / (1 + |x|): 1 + |x| is high + low, the quotient q and what is left over high; the sum of both
// errs by less than 2^-100 of it.
bool softsign(double x, double& y) {
  const double size = abs_of(x);
  if (!(size > 0x1p-500 && size < 0x1p500)) return false;
  const TwoDoubles s = two_sum(1.0, size);
  const double q = size / s.value;
  const TwoDoubles p = two_prod(q, s.value);
  const double rest = (((size - p.value) - p.error) - q * s.error) / s.value;
  const double low = q + rest * (1 - 0x1p-40), high = q + rest * (1 + 0x1p-40);
  y = with_sign(low, x < 0);
  return low == high && rest != 0;
}

}  // namespace

template <>
void call_cell_function(const Contract& c, Isa isa, const OrderTiles<float>& tiles,
                        const CellActivation& f, float* values, std::int64_t count) {
  if (const auto function = elementary(f.function))
    return call_order_function(c, isa, tiles, *function, values, count);
  const Definition definition{f};
  if (c.round != Round::nearest_even) {
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(definition(static_cast<double>(values[i]), c));
    return;
  }
  const auto lane = lane_function(f.function);
  const LaneParams params{.alpha = static_cast<double>(f.alpha),
                          .beta = static_cast<double>(f.beta)};
  const LaneKernel kernel = lane_kernel(isa);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    float y[kBlock];
    float* x = values + at;
    const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
    if (lane)
      kernel(*lane, params, x, y, n, {f32_of, &definition});
    else if (f.function == CellFunction::scaled_tanh)
      scaled_tanh(isa, definition, x, y, n);
    else
      simple(definition, x, y, n);
    round_from_f32(c, tiles, y, x, n, [&](std::int64_t i) {
      return static_cast<float>(definition(static_cast<double>(x[i]), c));
    });
  }
}

template <>
void call_cell_function(const Contract& c, Isa isa, const OrderTiles<double>& tiles,
                        const CellActivation& f, double* values, std::int64_t count) {
  if (const auto function = elementary(f.function))
    return call_order_function(c, isa, tiles, *function, values, count);
  const Definition definition{f};
  const auto alpha = static_cast<double>(f.alpha), beta = static_cast<double>(f.beta);
  const bool elu = f.function == CellFunction::elu;
  const bool in_pairs = elu || f.function == CellFunction::scaled_tanh;
  if (c.round == Round::nearest_even && in_pairs && alpha != 0) {
    struct Context {
      const Definition& definition;
      const Contract& contract;
    } const context{definition, c};
    const auto scalar = [](const void* of, double x) {
      const auto* to = static_cast<const Context*>(of);
      return to->definition(x, to->contract);
    };
    f64_kernel(isa)(elu ? F64Function::elu : F64Function::scaled_tanh,
                    {.alpha = alpha, .beta = beta}, values, count, {scalar, &context});
    return;
  }
  const auto nearest = [&](double x, double& y) {
    switch (f.function) {
      case CellFunction::identity:
        y = x;
        return true;
      case CellFunction::relu:
        y = x > 0 ? x : 0;
        return true;
      case CellFunction::thresholded_relu:
        y = x > alpha ? x : 0;
        return true;
      case CellFunction::leaky_relu:
        y = x >= 0 ? x : alpha * x;
        return true;
      case CellFunction::affine:
        y = fma_f64(alpha, x, beta);
        return y != 0;
      case CellFunction::hard_sigmoid:
        y = fma_f64(alpha, x, beta);
        if (y == 0) return false;
        y = y < 0 ? 0 : y > 1 ? 1 : y;
        return true;
      case CellFunction::softsign:
        return softsign(x, y);
      default:
        return false;
    }
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = values[i];
    double y = 0;
    const bool found = c.round == Round::nearest_even && x == x && nearest(x, y) && y == y;
    values[i] = found ? round_to(y, DType::f64, c.round, c.subnormals) : definition(x, c);
  }
}

}  // namespace etalon
