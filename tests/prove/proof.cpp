#include "tests/prove/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "engine/core/error.h"
#include "engine/ops/activation.h"
#include "tests/function_oracle.h"
#include "tests/mpfr_number.h"
#include "tests/prove/check.h"
#include "tests/prove/taylor.h"

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

// Where f(x) is a simple g(x), a constant or a multiple of x, or differs from it by less than any
// f64 ball can tell. Then its side of g is known from the first term left out of a series whose
// terms shrink at once: the real value lies strictly between g and g (1 + away 2^-27). These lemmas
// decide the directed modes too, where g is exact; a g that f64 rounds has a slack. Near 0 (|x| <
// 2^-28, and 2^-14 where the first term left out is a square):
//   expm1, elu, celu = x + x^2/2 + ...     log1p = x - x^2/2 + ...
//   sin, atan, tanh, asinh, softsign: |f| < |x|     tan, asin, sinh, atanh: |f| > |x|
//   exp, exp2, sigmoid, erfc, cos, cosh, hard_sigmoid: 1 or 1/2 and the sign of the first term
//   acos = pi/2 - x     softplus = log 2 + x/2 + ...     log_sigmoid = -log 2 + x/2 - ...
//   silu, gelu (both), hard_swish = x/2 + c x^2 + ..., c > 0; mish = 3/5 x + 8/25 x^2 + ..., whose
//   first term is a float for one x in five
// and far from it, where what is left out is an exponential (e^-20 < 2^-28, erfc(5) < 2^-39) or
// 1/|x|, or where the value is beyond all floats (kHuge: at least 2^128; kTiny: less than 2^-150;
// any number there rounds alike, in every mode).
struct Near {
  double constant = 0, slope = 0;
  int away = 0;
  double slack = 0;  // relative, of g as it is computed
  bool exact = false;
  bool known() const { return away != 0 || exact; }
  double g(double x) const { return slope != 0 ? slope * x : constant; }
  // The real value lies between; strictly, but for exact ones.
  void interval(double x, double& low, double& high) const {
    const double y = g(x), end = y * (1 + away * 0x1p-27), room = slack * std::fabs(y);
    low = exact ? y : (end < y ? end : y) - room;
    high = exact ? y : (end < y ? y : end) + room;
  }
  bool operator==(const Near&) const = default;
};
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

// f(2^(n d) x) = 2^(n shift) f(x) for whole n: the floats of one or a few binades stand for all, as
// long as results are normal.
struct Scaling {
  int step = 0, shift = 0;  // d and shift; 0: no such law
};
Scaling scaling(LaneFunction f) {
  using L = LaneFunction;
  return f == L::sqrt         ? Scaling{2, 1}
         : f == L::rsqrt      ? Scaling{2, -1}
         : f == L::cbrt       ? Scaling{3, 1}
         : f == L::reciprocal ? Scaling{1, -1}
                              : Scaling{};
}

constexpr std::uint32_t kSample = 131101;  // prime: about 32 800 inputs of all

class Prover {
 public:
  Prover(const SurveyedFunction& f, ProofCounts& counts) : f_(f), n_(counts) {}

  void prove(std::uint32_t bits, float served, double lane, double lane_error) {
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
    // The doubles strictly inside the ball reach from low to high.
    const TwoDoubles below = two_sum(ball.mid, -ball.rad), above = two_sum(ball.mid, ball.rad);
    double low = below.error < 0 ? below.value : next_up(below.value);
    double high = above.error > 0 ? above.value : next_down(above.value);
    Near lemma = near(f_, x);
    if (f_.lane == LaneFunction::mish && lemma.slack != 0) {
      const double g = 3 * x / 5;
      lemma = std::fma(g, 5, -3 * x) == 0 ? constant(g, lemma.away) : Near{};
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

// A chunk lies in one binade and has one sign.
constexpr std::int64_t kChunk = 4096;
struct Chunk {
  std::array<float, kChunk> x, y, other;
  std::array<double, kChunk> lanes;
  std::array<std::uint8_t, kChunk> open;  // 1: not proven yet
};

const ChunkChecks& checks_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::checks;
#endif
  return scalar::checks;
}

class BlockProver {
 public:
  BlockProver(const SurveyedFunction& f, Isa isa, ProofMethod method, ProofCounts& counts)
      : f_(f), isa_(isa), method_(method), checks_(checks_of(isa)), n_(counts), prover_(f, counts) {
    values_ = f.lane < LaneFunction::leaky_relu ? lane_values(isa) : nullptr;
  }

  void prove(std::uint32_t first, std::int64_t count) {
    n_count_ = static_cast<std::size_t>(count);
    fill_inputs(first, std::span(c_.x).first(n_count_));
    correctly_rounded_block(f_, isa_, c_.x.data(), c_.y.data(), count);
    served_.update(std::as_bytes(std::span(c_.y).first(n_count_)));
    lanes_known_ = false;
    std::memset(c_.open.data(), 1, n_count_);
    if (method_ == ProofMethod::laws) {
      // Whichever speaks; what they leave open is proven input by input.
      const bool whole = first % kChunk == 0 && count == kChunk;
      if (whole && !by_domain() && !by_lemma() && !by_symmetry(first) && !by_scaling(first))
        by_taylor(0, kChunk);
      for (std::int64_t i = (kSample - first % kSample) % kSample; i < count; i += kSample)
        open(static_cast<std::size_t>(i));
    }
    n_.inputs += count;
    if (std::memchr(c_.open.data(), 1, n_count_) == nullptr) return;
    know_lanes();
    for (std::size_t i = 0; i < n_count_; ++i)
      if (c_.open[i])
        prover_.prove(first + static_cast<std::uint32_t>(i), c_.y[i], c_.lanes[i], error_);
  }
  Hash128 hash() { return served_.digest(); }

 private:
  void open(std::size_t i) {
    if (c_.open[i]) return;
    c_.open[i] = 1;
    if (last_ != nullptr) --*last_;
  }
  void know_lanes() {
    if (lanes_known_) return;
    lanes_known_ = true;
    error_ = 0;
    if (values_ != nullptr)
      error_ = values_(f_.lane, f_.params, c_.x.data(), c_.lanes.data(),
                       static_cast<std::int64_t>(n_count_));
    else
      std::fill_n(c_.lanes.begin(), n_count_, kNan);
  }
  // Counts what a law has proven of c_.open[begin ..).
  void tally(std::int64_t& counter, std::size_t begin, std::size_t size) {
    last_ = &counter;
    std::int64_t left = 0;
    for (std::size_t i = begin; i < begin + size; i += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &c_.open[i], 8);
      left += static_cast<std::int64_t>((eight * 0x0101010101010101U) >> 56);
    }
    counter += static_cast<std::int64_t>(size) - left;
  }

  // Marks what holds as proven: by 64, and one by one where not all of them do.
  template <class Holds>
  void close_where(std::size_t begin, std::size_t size, Holds&& holds) {
    for (std::size_t i = begin; i < begin + size; i += 64)
      if (holds(i, 64))
        std::memset(&c_.open[i], 0, 64);
      else
        for (std::size_t k = i; k < i + 64; ++k) c_.open[k] = holds(k, 1) ? 0 : 1;
  }

  bool by_domain() {
    if (!(c_.x[0] != c_.x[0] && c_.x[kChunk - 1] != c_.x[kChunk - 1]) &&
        !(outside_domain(f_.lane, c_.x[0]) && outside_domain(f_.lane, c_.x[kChunk - 1])))
      return false;
    for (std::size_t i = 0; i < kChunk; ++i) c_.open[i] = bits_of(c_.y[i]) != kNanF32 ? 1 : 0;
    tally(n_.exact, 0, kChunk);
    return true;
  }
  bool by_lemma() {
    const Near lemma = near(f_, static_cast<double>(c_.x[0]));
    if (!lemma.known() || lemma != near(f_, static_cast<double>(c_.x[kChunk - 1]))) return false;
    const double end = lemma.exact ? 1 : 1 + lemma.away * 0x1p-27;
    close_where(0, kChunk, [&](std::size_t i, std::size_t n) {
      return checks_.lemma(lemma.constant, lemma.slope, end, lemma.slack, lemma.exact, &c_.x[i],
                           &c_.y[i], n);
    });
    tally(lemma.exact ? n_.exact : n_.by_lemma, 0, kChunk);
    return true;
  }
  // Negative x, given what is proven for -x.
  bool by_symmetry(std::uint32_t first) {
    if (f_.symmetry == Symmetry::none || (first & kSign) == 0) return false;
    fill_inputs(first ^ kSign, c_.other);
    correctly_rounded_block(f_, isa_, c_.other.data(), c_.other.data(), kChunk);
    const std::uint32_t flip = f_.symmetry == Symmetry::odd ? kSign : 0;
    close_where(0, kChunk, [&](std::size_t i, std::size_t n) {
      return checks_.mirrored(&c_.y[i], &c_.other[i], flip, n);
    });
    tally(n_.by_law, 0, kChunk);
    return true;
  }
  // Given what is proven for the binades from 1 to 2^step.
  bool by_scaling(std::uint32_t first) {
    const Scaling s = scaling(f_.lane);
    const int exponent = static_cast<int>(first >> 23) - 127;
    if (s.step == 0 || exponent > 125 || exponent < -126) return false;
    const int n = exponent < 0 ? (exponent - s.step + 1) / s.step : exponent / s.step;
    if (n == 0) return false;
    fill_inputs(first - static_cast<std::uint32_t>(n * s.step * (1 << 23)), c_.other);
    correctly_rounded_block(f_, isa_, c_.other.data(), c_.other.data(), kChunk);
    const double factor = std::ldexp(1.0, n * s.shift);
    close_where(0, kChunk, [&](std::size_t i, std::size_t size) {
      return checks_.scaled(&c_.y[i], &c_.other[i], factor, size);
    });
    tally(n_.by_law, 0, kChunk);
    return true;
  }
  // By polynomials over the whole, or halves, quarters ... of it.
  void by_taylor(std::size_t begin, std::size_t size) {
    const std::size_t middle = begin + size / 2;
    const auto centre = static_cast<double>(c_.x[middle]),
               r = std::fabs(centre - static_cast<double>(c_.x[begin]));
    Taylor p;
    if (!std::isfinite(centre + r) || !std::isfinite(static_cast<double>(c_.x[begin + size - 1])))
      return;
    if (!expand(f_, centre, r, p)) {
      if (size <= 256) return;
      for (std::size_t part = 0; part < 4; ++part) by_taylor(begin + part * size / 4, size / 4);
      return;
    }
    know_lanes();
    const double polynomial[] = {p.centre, p.a0, p.a1, p.a2, p.a3};
    close_where(begin, size, [&](std::size_t i, std::size_t n) {
      return checks_.taylor(polynomial, p.error, error_, &c_.x[i], &c_.y[i], &c_.lanes[i], n);
    });
    tally(n_.by_taylor, begin, size);
  }

  static constexpr std::uint32_t kSign = 0x80000000U;
  const SurveyedFunction& f_;
  Isa isa_;
  ProofMethod method_;
  const ChunkChecks& checks_;
  ProofCounts& n_;
  Prover prover_;
  LaneValues values_ = nullptr;
  HashStream served_;
  Chunk c_{};
  std::size_t n_count_ = 0;
  bool lanes_known_ = false;
  double error_ = 0;
  std::int64_t* last_ = nullptr;
};

}  // namespace

void ProofCounts::add(const ProofCounts& o) {
  inputs += o.inputs;
  exact += o.exact;
  by_lemma += o.by_lemma;
  by_law += o.by_law;
  by_taylor += o.by_taylor;
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

ProofCounts prove_block(const SurveyedFunction& f, Isa isa, std::uint32_t first, std::int64_t count,
                        ProofMethod method) {
  ProofCounts counts;
  const auto prover = std::make_unique<BlockProver>(f, isa, method, counts);
  for (std::int64_t at = 0; at < count; at += kChunk)
    prover->prove(first + static_cast<std::uint32_t>(at), std::min(kChunk, count - at));
  counts.hash = prover->hash();
  return counts;
}

}  // namespace etalon
