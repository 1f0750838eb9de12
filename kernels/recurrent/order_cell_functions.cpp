#include "kernels/recurrent/order_cell_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/numerics/contract_arithmetic.h"
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

// Those of one operation only where vectors round it.
std::optional<LaneFunction> lane_function(CellFunction f, Round round) {
  const bool nearest = round == Round::nearest_even;
  switch (f) {
    case CellFunction::elu:
      return LaneFunction::elu;
    case CellFunction::softsign:
      return LaneFunction::softsign;
    case CellFunction::hard_sigmoid:
      return nearest ? std::optional(LaneFunction::hard_sigmoid) : std::nullopt;
    case CellFunction::leaky_relu:
      return nearest ? std::optional(LaneFunction::leaky_relu) : std::nullopt;
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
void tanh_values(Isa isa, const Definition& definition, const float* x, double* t, std::int64_t n) {
  const auto alpha = static_cast<double>(definition.f.alpha),
             beta = static_cast<double>(definition.f.beta);
  for (std::int64_t i = 0; i < n; ++i) t[i] = beta * static_cast<double>(x[i]);
  const auto scalar = [](const void*, double z) {
    return correctly_rounded_function(Function::tanh, z, DType::f64);
  };
  f64_kernel(isa)(F64Function::tanh, Round::nearest_even, {}, t, n, {scalar});
  for (std::int64_t i = 0; i < n; ++i) t[i] *= alpha;
}
void scaled_tanh(Isa isa, const Definition& definition, const float* x, float* y, std::int64_t n) {
  double t[kBlock];
  tanh_values(isa, definition, x, t, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto low = static_cast<float>(t[i] * (1 - 0x1p-50)),
               high = static_cast<float>(t[i] * (1 + 0x1p-50));
    y[i] = low == high && t[i] != 0 ? low : definition.f32(x[i]);
  }
}

// What takes one operation at most, rounded as the contract says. False where the result is a zero
// that is none of the argument's, whose sign the definition knows, and for other functions.
bool simple(const ContractArithmetic<SoftOps>& a, const CellActivation& f, double x, double& y) {
  const auto alpha = static_cast<double>(f.alpha), beta = static_cast<double>(f.beta);
  switch (f.function) {
    case CellFunction::identity:
      y = a.input(x);
      return true;
    case CellFunction::relu:
      y = x > 0 ? a.input(x) : 0;
      return true;
    case CellFunction::thresholded_relu:
      y = x > alpha ? a.input(x) : 0;
      return true;
    case CellFunction::leaky_relu:
      y = x >= 0 ? a.input(x) : a.mul(alpha, x);
      return true;
    case CellFunction::affine:
    case CellFunction::hard_sigmoid:
      y = a.fma(alpha, x, beta);
      if (y == 0) return false;
      if (f.function == CellFunction::hard_sigmoid) y = y < 0 ? 0 : y > 1 ? 1 : y;
      return true;
    default:
      return false;
  }
}

// x / (1 + |x|): 1 + |x| is high + low, the quotient q and what is left over high; the sum of both
// errs by less than 2^-100 of it.
bool softsign(const ContractArithmetic<SoftOps>& a, double x, double& y) {
  const double size = abs_of(x);
  if (!(size > 0x1p-500 && size < 0x1p500)) return false;
  const TwoDoubles s = two_sum(1.0, size);
  const double q = size / s.value;
  const TwoDoubles p = two_prod(q, s.value);
  const double rest = (((size - p.value) - p.error) - q * s.error) / s.value;
  const double sign = x < 0 ? -1 : 1;
  y = a.add(sign * q, sign * rest * (1 - 0x1p-40));
  return y == a.add(sign * q, sign * rest * (1 + 0x1p-40)) && rest != 0;
}

}  // namespace

template <>
void call_cell_function(const Contract& c, Isa isa, const OrderTiles<float>& tiles,
                        const CellActivation& f, float* values, std::int64_t count) {
  if (const auto function = elementary(f.function))
    return call_order_function(c, isa, tiles, *function, values, count);
  const Definition definition{f};
  const auto scalar = [&](float x) {
    return static_cast<float>(definition(static_cast<double>(x), c));
  };
  const auto lane = lane_function(f.function, c.round);
  const LaneParams params{.alpha = static_cast<double>(f.alpha),
                          .beta = static_cast<double>(f.beta)};
  const bool nearest = c.round == Round::nearest_even;
  if (!lane && f.function != CellFunction::scaled_tanh) {
    Contract fused = c;
    fused.fma = true;
    const ContractArithmetic<SoftOps> a(fused);
    for (std::int64_t i = 0; i < count; ++i) {
      double y = 0;
      const bool found = values[i] == values[i] && simple(a, f, static_cast<double>(values[i]), y);
      values[i] = found && y == y ? static_cast<float>(y) : scalar(values[i]);
    }
    return;
  }
  for (std::int64_t at = 0; at < count; at += kBlock) {
    float* x = values + at;
    const std::int64_t n = std::min<std::int64_t>(kBlock, count - at);
    if (nearest) {
      float y[kBlock];
      if (lane)
        lane_kernel(isa)(*lane, params, x, y, n, {f32_of, &definition});
      else
        scaled_tanh(isa, definition, x, y, n);
      round_from_f32(c, tiles, y, x, n, [&](std::int64_t i) { return scalar(x[i]); });
      continue;
    }
    double v[kBlock];
    double error = 0x1p-50, limit = kInfinity;
    if (lane) {
      error = lane_values(isa)(*lane, params, x, v, n);
    } else {
      tanh_values(isa, definition, x, v, n);
      limit = abs_of(static_cast<double>(f.alpha));
    }
    // ELU leaves half of its arguments as they are.
    const bool elu = lane == LaneFunction::elu;
    round_directed(c, isa, tiles, {v, error, limit}, x, n, [&](std::int64_t i) {
      if (!elu || !(x[i] > 0)) return scalar(x[i]);
      return static_cast<float>(round_to(static_cast<double>(x[i]), c.acc, c.round, c.subnormals));
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
  if ((elu || f.function == CellFunction::scaled_tanh) && alpha != 0) {
    struct Context {
      const Definition& definition;
      const Contract& contract;
    } const context{definition, c};
    const auto scalar = [](const void* of, double x) {
      const auto* to = static_cast<const Context*>(of);
      return to->definition(x, to->contract);
    };
    f64_kernel(isa)(elu ? F64Function::elu : F64Function::scaled_tanh, c.round,
                    {.alpha = alpha, .beta = beta}, values, count, {scalar, &context});
    return;
  }
  Contract fused = c;
  fused.fma = true;
  const ContractArithmetic<SoftOps> a(fused);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = values[i];
    double y = 0;
    const bool found =
        x == x && (f.function == CellFunction::softsign ? softsign(a, x, y) : simple(a, f, x, y));
    values[i] = found && y == y ? y : definition(x, c);
  }
}

}  // namespace etalon
