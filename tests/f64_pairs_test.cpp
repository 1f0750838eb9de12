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

using namespace etalon;

namespace {

std::vector<double> arguments() {
  std::vector<double> x = {
      0.0,       -0.0,       1.0,          -1.0,           2.0,       0.5,        4.0,
      kInfinity, -kInfinity, kNan,         0x1p-1074,      0x1p-1022, -0x1p-1060, 709.0,
      709.8,     -745.2,     -746.5,       -660.5,         -700.0,    1e300,      -1e300,
      0x1p-60,   -0x1p-30,   next_up(1.0), next_down(1.0), 16.0};
  const Philox random{77, 0};
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double u = static_cast<double>(random.uniform(i)) +
                     static_cast<double>(random.uniform(i + 100000)) * 0x1p-26;
    constexpr double kScales[] = {1, 8, 40, 0x1p-3, 0x1p-9, 0x1p-25, 0x1p-40, 600};
    x.push_back(u * kScales[i % 8]);
    x.push_back(1 + u * kScales[i % 8] * 0.5);
    x.push_back(std::fabs(u) * std::pow(2.0, static_cast<double>(i % 2000) - 1000));
  }
  return x;
}

double ladder(Function f, double x) {
  return correctly_rounded([&](auto& a) { return a.call(f, a.input(x)); }, DType::f64);
}

// Both instruction sets' vectors, and the scalar; the ladder takes most of the time and runs once.
template <class Expected, class Scalar>
void check(F64Function f, const F64Params& params, const std::vector<double>& x,
           const Expected& expected, const Scalar& scalar) {
  std::vector<double> truth;
  for (const double v : x) truth.push_back(canonical(expected(v)));
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK_MESSAGE(bits_of(canonical(scalar(x[i]))) == bits_of(truth[i]), x[i]);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    std::vector<double> y = x;
    f64_kernel(isa)(
        f, params, y.data(), static_cast<std::int64_t>(y.size()),
        {[](const void* of, double v) { return (*static_cast<const Expected*>(of))(v); },
         &expected});
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK_MESSAGE(bits_of(canonical(y[i])) == bits_of(truth[i]), x[i]);
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
        both.first, {}, x, [f](double v) { return ladder(f, v); },
        [f](double v) { return correctly_rounded_function(f, v, DType::f64); });
  }
}

TEST_CASE("f64 pairs: powers are the ladder's") {
  const std::vector<double> x = arguments();
  for (const double exponent : {0.75, 0.5, -1.25, 3.0, 1.0 / 3, 200.0}) {
    const auto power = [&](double v) {
      return correctly_rounded([&](auto& a) { return a.pow(a.input(v), a.input(exponent)); },
                               DType::f64);
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
    static std::int64_t open = 0;
    open = 0;
    if (detect_isa() < Isa::avx2) return;
    f64_kernel(Isa::avx2)(f, {.alpha = exponent}, x.data(), 65536, {[](const void*, double v) {
                            ++open;
                            return v;
                          }});
    CHECK(open < 100);
  }
}
