#include "tests/prove/lemmas.h"

namespace etalon {
namespace {

constexpr Near constant(double c, int away) { return {.constant = c, .away = away}; }
constexpr Near multiple(double c, int away) { return {.slope = c, .away = away}; }
constexpr Near exactly(double constant, double slope) {
  return {.constant = constant, .slope = slope, .exact = true};
}
constexpr Near kTiny = constant(0x1p-300, 1), kMinusTiny = constant(-0x1p-300, 1),
               kHuge = constant(0x1p200, 1), kMinusHuge = constant(-0x1p200, 1);

Near near_zero(LaneFunction f, double size, int right) {
  using L = LaneFunction;
  if (size < 0x1p-14) switch (f) {
      case L::sin:
      case L::atan:
      case L::tanh:
      case L::asinh:
        return multiple(1, -1);
      case L::tan:
      case L::asin:
      case L::sinh:
      case L::atanh:
        return multiple(1, 1);
      case L::cos:
        return constant(1, -1);
      case L::cosh:
        return constant(1, 1);
      default:
        break;
    }
  if (size < 0x1p-28) switch (f) {
      case L::expm1:
        return multiple(1, right);
      case L::elu:
      case L::celu:
        return right < 0 ? multiple(1, -1) : exactly(0, 1);
      case L::log1p:
        return multiple(1, -right);
      case L::softsign:
        return multiple(1, -1);
      case L::exp:
      case L::exp2:
        return constant(1, right);
      case L::sigmoid:
      case L::hard_sigmoid:
        return constant(0.5, right);
      case L::erfc:
        return constant(1, -right);
      case L::acos:
        return {.constant = 0x1.921fb54442d18p+0, .away = -right, .slack = 0x1p-52};
      case L::softplus:
        return {.constant = 0x1.62e42fefa39efp-1, .away = right, .slack = 0x1p-52};
      case L::log_sigmoid:
        return {.constant = -0x1.62e42fefa39efp-1, .away = -right, .slack = 0x1p-52};
      case L::silu:
      case L::gelu:
      case L::gelu_tanh:
      case L::hard_swish:
        return multiple(0.5, right);
      case L::mish:
        return {.slope = 0.6, .away = right, .slack = 0x1p-51};
      default:
        break;
    }
  return {};
}
// x times 1 - e^-x, 1 - erfc(x/sqrt 2)/2, 1 - 2 e^-2x and the like, for |x| > 5.
Near far_out(LaneFunction f, double x) {
  using L = LaneFunction;
  const double size = std::fabs(x);
  const int right = x > 0 ? 1 : -1;
  switch (f) {
    case L::exp:
      return x > 89 ? kHuge : x < -105 ? kTiny : Near{};
    case L::exp2:
      return x > 128.5 ? kHuge : x < -151 ? kTiny : Near{};
    case L::expm1:
      return x > 89 ? kHuge : x < -20 ? constant(-1, -1) : Near{};
    case L::elu:
    case L::celu:
      return x < -20 ? constant(-1, -1) : Near{};
    case L::sinh:
      return size > 90 ? (x > 0 ? kHuge : kMinusHuge) : Near{};
    case L::cosh:
      return size > 90 ? kHuge : Near{};
    case L::silu:
      return x > 20 ? multiple(1, -1) : x < -120 ? kMinusTiny : Near{};
    case L::gelu:
    case L::gelu_tanh:
      return x > 6 ? multiple(1, -1) : x < -15 ? kMinusTiny : Near{};
    case L::mish:
      return x > 11 ? multiple(1, -1) : x < -120 ? kMinusTiny : Near{};
    case L::softplus:
      return x > 20 ? multiple(1, 1) : x < -105 ? kTiny : Near{};
    case L::sigmoid:
      return x > 20 ? constant(1, -1) : x < -105 ? kTiny : Near{};
    case L::log_sigmoid:
      return x < -20 ? multiple(1, 1) : x > 105 ? kMinusTiny : Near{};
    case L::tanh:
      return size > 12 ? constant(right, -1) : Near{};
    case L::erf:
      return constant(right, -1);
    case L::erfc:
      return x < -5 ? constant(2, -1) : x > 11 ? kTiny : Near{};
    case L::atan:
      return size > 0x1p28
                 ? Near{.constant = right * 0x1.921fb54442d18p+0, .away = -1, .slack = 0x1p-52}
                 : Near{};
    case L::softsign:
      return size > 0x1p28 ? constant(right, -1) : Near{};
    case L::hard_sigmoid:
      return exactly(x > 0 ? 1 : 0, 0);
    default:
      return {};
  }
}

}  // namespace

Near near(const SurveyedFunction& f, double x) {
  using L = LaneFunction;
  const double size = std::fabs(x);
  if (size == 0 || !(size < 0x1p200)) return {};
  // One product of two floats, which a double holds.
  if (f.lane == L::leaky_relu) return exactly(0, x > 0 ? 1 : f.params.alpha);
  if (f.lane == L::hard_tanh) return x < -1 || x > 1 ? exactly(x > 0 ? 1 : -1, 0) : exactly(0, 1);
  if (x > 0 && (f.lane == L::elu || f.lane == L::celu)) return exactly(0, 1);
  if (x > 0 && f.lane == L::selu) return exactly(0, f.params.gamma);
  if (size >= 3 && f.lane == L::hard_swish) return x > 0 ? exactly(0, 1) : exactly(-0.0, 0);
  if (x < -20 && f.lane == L::selu) return constant(-(f.params.gamma * f.params.alpha), -1);
  return size <= 5 ? near_zero(f.lane, size, x > 0 ? 1 : -1) : far_out(f.lane, x);
}
bool outside_domain(LaneFunction f, float x) {
  using L = LaneFunction;
  switch (f) {
    case L::log:
    case L::log2:
    case L::log10:
    case L::sqrt:
    case L::rsqrt:
      return x < 0;
    case L::log1p:
      return x < -1;
    case L::acosh:
      return x < 1;
    case L::asin:
    case L::acos:
    case L::atanh:
      return x < -1 || x > 1;
    default:
      return false;
  }
}

Scaling scaling(LaneFunction f) {
  using L = LaneFunction;
  return f == L::sqrt         ? Scaling{2, 1}
         : f == L::rsqrt      ? Scaling{2, -1}
         : f == L::cbrt       ? Scaling{3, 1}
         : f == L::reciprocal ? Scaling{1, -1}
                              : Scaling{};
}

}  // namespace etalon
