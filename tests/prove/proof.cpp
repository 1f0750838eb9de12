#include "tests/prove/proof.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/core/error.h"
#include "engine/ops/activation.h"
#include "tests/function_oracle.h"
#include "tests/mpfr_number.h"

namespace etalon {
namespace {

// Compositions, as in a textbook, at 3000 bits; the others by MPFR's own functions.
Number composed(std::string_view name, double x) {
  const Number v(x), one(1);
  if (name == "silu") return v / (one + exp(-v));
  if (name == "gelu") return v * (one + erf(v / sqrt(Number(2)))) / Number(2);
  if (name == "gelu_tanh") {
    const Number c = Number(44715) / Number(1000000);
    const Number z = sqrt(Number(2) / Number::pi()) * (v + c * v * v * v);
    return v * (one + tanh(z)) / Number(2);
  }
  if (name == "mish") return v * tanh(log(one + exp(v)));
  if (name == "softsign") return v / (one + abs(v));
  const Number negative = Number::unary(mpfr_expm1, v);
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

// Where f(x) differs from a simple g(x) by less than any f64 ball can tell, its side of g is known
// from the first term left out of a series whose terms shrink at once: the real value lies strictly
// between g and g (1 + away 2^-27). These lemmas decide the directed modes there; nearest does not
// need them. Near 0 (|x| < 2^-28, and 2^-14 where the first term left out is a square):
//   expm1, elu, celu = x + x^2/2 + ...     log1p = x - x^2/2 + ...
//   sin, atan, tanh, asinh, softsign: |f| < |x|     tan, asin, sinh, atanh: |f| > |x|
//   exp, exp2, sigmoid, erfc, cos, cosh, hard_sigmoid: 1 or 1/2 and the sign of the first term
//   silu, gelu (both), hard_swish = x/2 + c x^2 + ..., c > 0; mish = 3/5 x + 8/25 x^2 + ..., whose
//   first term is a float for one x in five
// and far from it, where what is left out is an exponential (e^-20 < 2^-28, erfc(5) < 2^-39) or
// 1/|x|.
struct Near {
  double g = 0;
  int away = 0;  // 0: no lemma
};
constexpr Near kTiny{-0x1p-300, 1};
Near near(LaneFunction f, double x) {
  using L = LaneFunction;
  const double size = std::fabs(x);
  const int right = x > 0 ? 1 : -1;
  const double one = right;
  if (size == 0 || !(size < 0x1p200)) return {};
  if (size < 0x1p-14) switch (f) {
      case L::sin:
      case L::atan:
      case L::tanh:
      case L::asinh:
        return {x, -1};
      case L::tan:
      case L::asin:
      case L::sinh:
      case L::atanh:
        return {x, 1};
      case L::cos:
        return {1, -1};
      case L::cosh:
        return {1, 1};
      default:
        break;
    }
  if (size < 0x1p-28) switch (f) {
      case L::expm1:
        return {x, right};
      case L::elu:
      case L::celu:
        return right < 0 ? Near{x, -1} : Near{};
      case L::log1p:
        return {x, -right};
      case L::softsign:
        return {x, -1};
      case L::exp:
      case L::exp2:
        return {1, right};
      case L::sigmoid:
      case L::hard_sigmoid:
        return {0.5, right};
      case L::erfc:
        return {1, -right};
      case L::silu:
      case L::gelu:
      case L::gelu_tanh:
      case L::hard_swish:
        return {0.5 * x, right};
      case L::mish: {
        const double g = 3 * x / 5;
        return std::fma(g, 5, -3 * x) == 0 ? Near{g, right} : Near{};
      }
      default:
        return {};
    }
  if (size <= 5) return {};
  switch (f) {
    // x times 1 - e^-x, 1 - erfc(x/sqrt 2)/2, 1 - 2 e^-2x. Far to the left the value lies between 0
    // and -2^-151: any number there rounds alike, in every mode.
    case L::silu:
      return x > 20 ? Near{x, -1} : x < -120 ? kTiny : Near{};
    case L::gelu:
    case L::gelu_tanh:
      return x > 6 ? Near{x, -1} : x < -15 ? kTiny : Near{};
    case L::mish:
      return x > 11 ? Near{x, -1} : x < -120 ? kTiny : Near{};
    case L::softplus:
      return x > 20 ? Near{x, 1} : Near{};
    case L::sigmoid:
      return x > 20 ? Near{1, -1} : Near{};
    case L::log_sigmoid:
      return x < -20 ? Near{x, 1} : Near{};
    case L::expm1:
    case L::elu:
    case L::celu:
      return x < -20 ? Near{-1, -1} : Near{};
    case L::tanh:
      return size > 12 ? Near{one, -1} : Near{};
    case L::erf:
      return {one, -1};
    case L::erfc:
      return x < -5 ? Near{2, -1} : Near{};
    case L::softsign:
      return size > 0x1p28 ? Near{one, -1} : Near{};
    default:
      return {};
  }
}

constexpr std::uint32_t kSample = 131101;  // prime: about 32 800 inputs of all

class Prover {
 public:
  Prover(const SurveyedFunction& f, ProofCounts& counts) : f_(f), n_(counts) {}

  void prove(std::uint32_t bits, float served, double lane, double lane_error) {
    const auto x = static_cast<double>(float_of(bits));
    ++n_.inputs;
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
    // The doubles strictly inside the ball reach from low to high.
    const TwoDoubles below = two_sum(ball.mid, -ball.rad), above = two_sum(ball.mid, ball.rad);
    double low = below.error < 0 ? below.value : next_up(below.value);
    double high = above.error > 0 ? above.value : next_down(above.value);
    const Near lemma = near(f_.lane, x);
    if (lemma.away != 0) {
      const double end = lemma.g * (1 + lemma.away * 0x1p-27);
      low = next_up(std::fmin(lemma.g, end));
      high = next_down(std::fmax(lemma.g, end));
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

 private:
  static int mode_index(Round mode) {
    for (int i = 0; i < 4; ++i)
      if (kRounds[i] == mode) return i;
    return 0;
  }
  // Beyond the clamps of the vector kernel both stand for overflow or underflow, far apart.
  static bool outside(double v) { return std::fabs(v) > 0x1p128 || std::fabs(v) < 0x1p-151; }
  static bool clamped(double lane, double mid) { return outside(lane) && outside(mid); }

  void check_sample(std::uint32_t bits, double x, float expected, Round mode) {
    compare(bits, expected, static_cast<float>(by_mpfr(f_, x, mode)), mode, "interval");
    compare(bits, static_cast<float>(f_.value(x, DType::f32, mode)), expected, mode, "definition");
  }
  void compare(std::uint32_t bits, float got, float expected, Round mode, const char* what) {
    if (stored(got) == stored(expected)) return;
    ++n_.wrong;
    witness(bits,
            fmt::format("{} {:a}, expected {:a}, round {}", what, got, expected, to_string(mode)));
  }
  void between(std::uint32_t bits, float y, float a, float b, Round mode) {
    if ((y >= a && y <= b) || a != a || b != b) return;
    ++n_.apart;
    witness(bits, fmt::format("{:a} is not in {:a} .. {:a}, round {}", y, a, b, to_string(mode)));
  }
  // The last 29 bits of a double are what a float has no room for: a midpoint is 2^28 of them.
  void note_distance(std::uint32_t bits, double v) {
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
  void witness(std::uint32_t bits, std::string text) {
    if (n_.witnesses.size() < 10)
      n_.witnesses.push_back(
          fmt::format("{}({:a}, bits {:08x}): {}", f_.name, float_of(bits), bits, std::move(text)));
  }

  const SurveyedFunction& f_;
  ProofCounts& n_;
  std::int64_t nearest_ = std::int64_t{1} << 29;
};

}  // namespace

void ProofCounts::add(const ProofCounts& o) {
  inputs += o.inputs;
  exact += o.exact;
  refused += o.refused;
  for (std::size_t i = 0; i < 4; ++i) undecided[i] += o.undecided[i];
  sampled += o.sampled;
  wrong += o.wrong;
  apart += o.apart;
  if (o.nearest_midpoint < nearest_midpoint) {
    nearest_midpoint = o.nearest_midpoint;
    hardest = o.hardest;
  }
  for (const std::string& w : o.witnesses)
    if (witnesses.size() < 10) witnesses.push_back(w);
}

ProofCounts prove_block(const SurveyedFunction& f, Isa isa, std::uint32_t first,
                        std::int64_t count) {
  constexpr std::int64_t kPiece = 4096;
  std::vector<float> x(kPiece), y(kPiece);
  std::vector<double> v(kPiece);
  ProofCounts counts;
  Prover prover(f, counts);
  HashStream served;
  const LaneValues values = f.lane < LaneFunction::leaky_relu ? lane_values(isa) : nullptr;
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::int64_t n = std::min(kPiece, count - at);
    const std::uint32_t start = first + static_cast<std::uint32_t>(at);
    fill_inputs(start, std::span(x).first(static_cast<std::size_t>(n)));
    correctly_rounded_block(f, isa, x.data(), y.data(), n);
    served.update(std::as_bytes(std::span(y).first(static_cast<std::size_t>(n))));
    double error = 0;
    if (values != nullptr)
      error = values(f.lane, f.params, x.data(), v.data(), n);
    else
      std::fill(v.begin(), v.end(), kNan);
    for (std::int64_t i = 0; i < n; ++i)
      prover.prove(start + static_cast<std::uint32_t>(i), y[static_cast<std::size_t>(i)],
                   v[static_cast<std::size_t>(i)], error);
  }
  counts.hash = served.digest();
  return counts;
}

}  // namespace etalon
