// Claim: functions and powers by pairs of doubles (f64_pairs.h), scalar and by vectors, are the
// ladder's correctly rounded f64, for arguments of all sizes, near 0 and 1, subnormal, infinite and
// NaN; and few arguments of an ordinary size are left to the ladder.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/philox.h"
#include "engine/numerics/function.h"
#include "engine/numerics/power.h"
#include "engine/numerics/real.h"
#include "kernels/activation/lanes_f64.h"
#include "tests/mpfr_oracle.h"
#include "tests/peak_memory.h"

using namespace etalon;

namespace {

std::vector<double> arguments() {
  std::vector<double> x = {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           2.0,
                           0.5,
                           4.0,
                           kInfinity,
                           -kInfinity,
                           kNan,
                           0x1p-1074,
                           0x1p-1022,
                           -0x1p-1060,
                           709.0,
                           709.8,
                           -745.2,
                           -746.5,
                           -660.5,
                           -700.0,
                           1e300,
                           -1e300,
                           0x1p-60,
                           -0x1p-30,
                           next_up(1.0),
                           next_down(1.0),
                           16.0,
                           0x1.fffffffffffffp1023,
                           1.3e308};
  const Philox random{77, 0};
  // A sanitizer takes twenty times as long.
  for (std::uint64_t i = 0; i < (test::kKeepsFreed ? 500 : 4000); ++i) {
    const double u = static_cast<double>(random.uniform(i)) +
                     static_cast<double>(random.uniform(i + 100000)) * 0x1p-26;
    constexpr double kScales[] = {1, 8, 40, 0x1p-3, 0x1p-9, 0x1p-25, 0x1p-40, 600};
    x.push_back(u * kScales[i % 8]);
    x.push_back(1 + u * kScales[i % 8] * 0.5);
    x.push_back(std::fabs(u) * std::pow(2.0, static_cast<double>(i % 2000) - 1000));
  }
  return x;
}

double ladder(Function f, double x, Round round) {
  return correctly_rounded([&](auto& a) { return a.call(f, a.input(x)); }, DType::f64, round);
}

// Both instruction sets' vectors, and the scalar; the ladder takes most of the time and runs once.
// expected(x, round)
template <class Expected, class Scalar>
void check(F64Function f, const F64Params& params, const std::vector<double>& x,
           const Expected& expected, const Scalar& scalar) {
  std::vector<double> nearest;
  for (const Round round : kRounds) {
    CAPTURE(to_string(round));
    std::vector<double> truth;
    for (const double v : x) truth.push_back(canonical(expected(v, round)));
    if (round == Round::nearest_even) {
      nearest = truth;
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK_MESSAGE(bits_of(canonical(scalar(x[i]))) == bits_of(truth[i]), x[i]);
    } else {
      std::size_t differ = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        differ += bits_of(truth[i]) != bits_of(nearest[i]) ? 1U : 0U;
      CHECK(differ > x.size() / 10);
    }
    struct Context {
      const Expected& expected;
      Round round;
    } const context{expected, round};
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > detect_isa()) continue;
      std::vector<double> y = x;
      f64_kernel(isa)(f, round, params, y.data(), static_cast<std::int64_t>(y.size()),
                      {[](const void* of, double v) {
                         const auto* to = static_cast<const Context*>(of);
                         return to->expected(v, to->round);
                       },
                       &context});
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK_MESSAGE(bits_of(canonical(y[i])) == bits_of(truth[i]), x[i]);
    }
  }
}

}  // namespace

TEST_CASE("f64 pairs: functions are the ladder's") {
  const std::vector<double> x = arguments();
  constexpr std::pair<F64Function, Function> kBoth[] = {
      {F64Function::exp, Function::exp},     {F64Function::log, Function::log},
      {F64Function::log1p, Function::log1p}, {F64Function::sigmoid, Function::sigmoid},
      {F64Function::tanh, Function::tanh},   {F64Function::softplus, Function::softplus}};
  for (const auto& both : kBoth) {
    const Function f = both.second;
    CAPTURE(name(f));
    check(
        both.first, {}, x, [f](double v, Round round) { return ladder(f, v, round); },
        [f](double v) { return correctly_rounded_function(f, v, DType::f64); });
  }
}

TEST_CASE("the ladder's logarithms and powers of the largest f64 are MPFR's") {
  Mpfr x(53), y(53);
  for (const double v : {0x1.fffffffffffffp1023, 1.3e308, 1.2e308, 8e307}) {
    mpfr_set_d(x.v, v, MPFR_RNDN);
    mpfr_set_d(y.v, 1.0 / 2048, MPFR_RNDN);
    for (const Round round : kRounds)
      for (const DType to : {DType::f64, DType::f32}) {
        CHECK(correctly_rounded([&](auto& a) { return a.call(Function::log, a.input(v)); }, to,
                                round) ==
              mpfr_rounded(to, round, [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_log(r, x.v, m); }));
        CHECK(correctly_rounded([&](auto& a) { return a.pow(a.input(v), a.input(1.0 / 2048)); }, to,
                                round) == mpfr_rounded(to, round, [&](mpfr_t r, mpfr_rnd_t m) {
                return mpfr_pow(r, x.v, y.v, m);
              }));
      }
  }
}

TEST_CASE("f64 pairs: powers are the ladder's") {
  const std::vector<double> x = arguments();
  for (const double exponent : {0.75, 0.5, -1.25, 3.0, 1.0 / 3, 200.0}) {
    const auto power = [&](double v, Round round) {
      return correctly_rounded([&](auto& a) { return a.pow(a.input(v), a.input(exponent)); },
                               DType::f64, round);
    };
    check(F64Function::pow, {.alpha = exponent}, x, power,
          [exponent](double v) { return correctly_rounded_power(v, exponent, DType::f64); });
  }
}

TEST_CASE("f64 pairs: few ordinary arguments are left open") {
  const Philox random{78, 0};
  constexpr std::pair<F64Function, double> kAll[] = {
      {F64Function::exp, 0},      {F64Function::log, 0},           {F64Function::sigmoid, 0},
      {F64Function::softplus, 0}, {F64Function::scaled_tanh, 0.3}, {F64Function::tanh, 0},
      {F64Function::pow, 0.7},    {F64Function::pow, 0.75}};
  for (const auto& [f, exponent] : kAll) {
    std::vector<double> x;
    for (std::uint64_t i = 0; i < 65536; ++i)
      x.push_back(0.01 + std::fabs(static_cast<double>(random.uniform(i))) * 3 +
                  static_cast<double>(random.uniform(i + 100000)) * 0x1p-30);
    if (detect_isa() < Isa::avx2) return;
    for (const Round round : kRounds) {
      static std::int64_t open = 0;
      open = 0;
      std::vector<double> y = x;
      f64_kernel(Isa::avx2)(f, round, {.alpha = exponent}, y.data(), 65536,
                            {[](const void*, double v) {
                              ++open;
                              return v;
                            }});
      CHECK(open < 130);
    }
  }
}
