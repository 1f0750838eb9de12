#include "tests/prove/input_prover.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/core/error.h"
#include "engine/ops/activation.h"
#include "tests/function_oracle.h"
#include "tests/mpfr_number.h"
#include "tests/prove/lemmas.h"

namespace etalon {
namespace {

// Compositions at 3000 bits, the others by MPFR's own functions. What is smaller than MPFR's
// numbers or than the last of the 3000 bits beside a 1 still decides the directed modes:
// strictly_within puts a value that came out as v back below it, and one that came out as 0 back on
// v's side.
Number strictly_within(const Number& v, const Number& y) {
  if (!v.is_finite() || v.is_zero()) return y;
  if (Number(0) < v) return y < v ? y : Number::next_toward_zero(v);
  return y.is_zero() ? Number(-0x1p-1000) : y;
}
Number composed(std::string_view name, double x) {
  const Number v(x), one(1), two(2);
  if (name == "silu") return strictly_within(v, v / (one + exp(-v)));
  if (name == "gelu") return strictly_within(v, v * Number::unary(mpfr_erfc, -v / sqrt(two)) / two);
  if (name == "gelu_tanh") {
    const Number c = Number(44715) / Number(1000000);
    const Number z = sqrt(two / Number::pi()) * (v + c * v * v * v);
    return strictly_within(v, v / (one + exp(-two * z)));
  }
  if (name == "mish") return strictly_within(v, v * tanh(Number::unary(mpfr_log1p, exp(v))));
  if (name == "softsign") return v / (one + abs(v));
  Number negative = Number::unary(mpfr_expm1, v);
  if (v.is_finite() && !(-one < negative)) negative = Number::next_toward_zero(-one);
  if (name == "elu" || name == "celu") return x > 0 ? v : negative;
  if (name == "selu") {
    const SeluParams p;
    const Number gamma(static_cast<double>(p.gamma));
    return x > 0 ? gamma * v : gamma * (Number(static_cast<double>(p.alpha)) * negative);
  }
  if (name == "hard_sigmoid") {
    const HardSigmoidParams p;
    const Number y = Number(static_cast<double>(p.alpha)) * v + Number(static_cast<double>(p.beta));
    return y < Number(0) ? Number(0) : one < y ? one : y;
  }
  if (name == "hard_swish")
    return x <= -3 ? v * Number(0) : x >= 3 ? v : v * (v + Number(3)) / Number(6);
  if (name == "hard_tanh") return x < -1 ? Number(-1) : x > 1 ? one : v;
  if (name == "leaky_relu")
    return x >= 0 ? v : Number(static_cast<double>(LeakyReluParams{}.alpha)) * v;
  throw internal_error("no formula of {} for MPFR", name);
}
double by_mpfr(const SurveyedFunction& f, double x, Round mode) {
  for (int i = 0; i < kFunctionCount; ++i)
    if (name(static_cast<Function>(i)) == f.name)
      return mpfr_function(static_cast<Function>(i), x, DType::f32, mode);
  return composed(f.name, x).rounded(DType::f32, mode);
}

float next(float x, bool up) { return std::nextafterf(x, up ? HUGE_VALF : -HUGE_VALF); }
float rounded(double v, Round mode) {
  const auto y = static_cast<float>(v);
  switch (mode) {
    case Round::upward:
      return static_cast<double>(y) < v ? next(y, true) : y;
    case Round::downward:
      return static_cast<double>(y) > v ? next(y, false) : y;
    case Round::toward_zero:
      return rounded(v, std::signbit(v) ? Round::upward : Round::downward);
    default:
      return y;
  }
}
std::uint32_t stored(float y) { return y != y ? kNanF32 : bits_of(y); }

int mode_index(Round mode) {
  for (int i = 0; i < 4; ++i)
    if (kRounds[i] == mode) return i;
  return 0;
}
// Beyond the clamps of the vector kernel both stand for overflow or underflow, far apart.
bool outside(double v) { return std::fabs(v) > 0x1p128 || std::fabs(v) < 0x1p-151; }
bool clamped(double lane, double mid) { return outside(lane) && outside(mid); }

}  // namespace

void InputProver::prove(std::uint32_t bits, float served, double lane, double lane_error) {
  const auto x = static_cast<double>(float_of(bits));
  if (!std::isfinite(lane)) ++n_.refused;
  bool no_ball = false;
  RealF64::V ball = f_.ball(x, no_ball);
  const bool sampled = bits % kSample == 0;
  if (sampled) ++n_.sampled;
  if (!no_ball && ball.rad == 0) {
    ++n_.exact;
    for (const Round mode : kRounds) {
      const float expected = rounded(ball.mid, mode);
      if (mode == Round::nearest_even) compare(bits, served, expected, mode, "served");
      if (sampled) check_sample(bits, x, expected, mode);
    }
    return;
  }
  // The doubles around the ball: the real value lies between them, so that what both round to is
  // its rounding. (The outermost doubles inside would not do: where one of them is a midpoint, the
  // value may lie beyond it. softsign(0x1.17022cp-7) does, by 2^-61 of itself.)
  const TwoDoubles below = two_sum(ball.mid, -ball.rad), above = two_sum(ball.mid, ball.rad);
  double low = below.error < 0 ? next_down(below.value) : below.value;
  double high = above.error > 0 ? next_up(above.value) : above.value;
  Near lemma = near(f_, x);
  if (f_.lane == LaneFunction::mish && lemma.slack != 0) {
    const double g = 3 * x / 5;
    lemma = std::fma(g, 5, -3 * x) == 0 ? Near{.constant = g, .away = lemma.away} : Near{};
  }
  if (lemma.exact || (lemma.slack != 0 && std::fabs(x) < 1)) lemma = {};  // the ball knows
  if (lemma.away != 0) {
    lemma.interval(x, low, high);
    if (lemma.slack == 0) {
      low = next_up(low);
      high = next_down(high);
    }
    no_ball = false;
  }
  const bool lanes = std::isfinite(lane);
  const double slack = lane_error * std::fabs(lane);
  if (!no_ball) {
    if (lemma.away == 0) note_distance(bits, ball.mid);
    // The common case: one float y is nearest to both ends, and all of both intervals lies on one
    // side of it. Then the four modes are decided, and alike.
    const auto y = static_cast<float>(low);
    const auto d = static_cast<double>(y);
    if (y == static_cast<float>(high) && (d < low || d > high) && !sampled && lanes &&
        stored(served) == bits_of(y) && std::fabs(d) < 0x1p128 && std::fabs(d) >= 0x1p-126) {
      const double from = lane - slack, to = lane + slack;
      if (lemma.away != 0 || (static_cast<float>(from) == y && static_cast<float>(to) == y &&
                              (d < low ? d < from : d > to)))
        return;
    }
  }
  if (!no_ball && lemma.away == 0 && lanes && std::fabs(lane) < 0x1p200 &&
      std::fabs(ball.mid) < 0x1p200 && !outside(lane) &&
      std::fabs(lane - ball.mid) > (ball.rad + slack) * (1 + 0x1p-20) + 0x1p-400)
    if (!clamped(lane, ball.mid)) {
      ++n_.apart;
      witness(bits, fmt::format("intervals apart: {:a} and {:a}", lane, ball.mid));
    }
  for (const Round mode : kRounds) {
    const float a = rounded(low, mode), b = rounded(high, mode);
    if (!no_ball && bits_of(a) == bits_of(b)) {
      if (mode == Round::nearest_even)
        compare(bits, served, a, mode, "served");
      else if (lanes && lemma.away == 0 && !clamped(lane, ball.mid))
        between(bits, a, rounded(lane - slack, mode), rounded(lane + slack, mode), mode);
      if (sampled) check_sample(bits, x, a, mode);
    } else {
      ++n_.undecided[static_cast<std::size_t>(mode_index(mode))];
      const auto expected = static_cast<float>(by_mpfr(f_, x, mode));
      if (mode == Round::nearest_even) compare(bits, served, expected, mode, "served");
      compare(bits, static_cast<float>(f_.value(x, DType::f32, mode)), expected, mode,
              "definition");
    }
  }
}

void InputProver::check_sample(std::uint32_t bits, double x, float expected, Round mode) {
  compare(bits, expected, static_cast<float>(by_mpfr(f_, x, mode)), mode, "interval");
  compare(bits, static_cast<float>(f_.value(x, DType::f32, mode)), expected, mode, "definition");
}

void InputProver::compare(std::uint32_t bits, float got, float expected, Round mode,
                          const char* what) {
  if (stored(got) == stored(expected)) return;
  ++n_.wrong;
  witness(bits,
          fmt::format("{} {:a}, expected {:a}, round {}", what, got, expected, to_string(mode)));
}

void InputProver::between(std::uint32_t bits, float y, float a, float b, Round mode) {
  if ((y >= a && y <= b) || a != a || b != b) return;
  ++n_.apart;
  witness(bits, fmt::format("{:a} is not in {:a} .. {:a}, round {}", y, a, b, to_string(mode)));
}

// The last 29 bits of a double are what a float has no room for: a midpoint is 2^28 of them.
void InputProver::note_distance(std::uint32_t bits, double v) {
  const std::uint64_t b = bits_of(v);
  const auto exponent = static_cast<int>(b >> 52 & 0x7ff) - 1023;
  const auto rest = static_cast<std::int64_t>(b & 0x1fffffffU) - (std::int64_t{1} << 28);
  const std::int64_t d = rest < 0 ? -rest : rest;
  if (d < nearest_ && exponent >= -126 && exponent <= 127) {
    nearest_ = d;
    n_.nearest_midpoint = std::ldexp(static_cast<double>(d), -29);
    n_.hardest = bits;
  }
}

void InputProver::witness(std::uint32_t bits, std::string text) {
  if (n_.witnesses.size() < 10)
    n_.witnesses.push_back(
        fmt::format("{}({:a}, bits {:08x}): {}", f_.name, float_of(bits), bits, std::move(text)));
}

}  // namespace etalon
