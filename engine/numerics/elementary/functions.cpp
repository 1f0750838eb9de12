// The entry to correctly rounded values; the functions over f64 balls are functions_f64_inl.h.
#include "engine/core/error.h"
#include "engine/numerics/elementary/f64_pairs.h"
#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/function.h"
#include "engine/numerics/power.h"
#include "engine/numerics/real.h"

namespace etalon {

Function parse_function(std::string_view text) {
  std::string all;
  for (int i = 0; i < kFunctionCount; ++i) {
    const std::string_view n = kFunctionNames[static_cast<std::size_t>(i)];
    if (n == text) return static_cast<Function>(i);
    all += (i == 0 ? "" : ", ");
    all += n;
  }
  throw usage_error("unknown function '{}'; the functions are {}", text, all);
}

inline namespace ETALON_ISA_NAMESPACE {

void throw_undecided() {
  throw internal_error(
      "a value lies so close to a rounding boundary that 2304 bits do not decide it; its formula "
      "must "
      "be exact there: report the op and its inputs");
}

}  // namespace ETALON_ISA_NAMESPACE

namespace {

using Pairs = F64Pairs<OneDouble>;

// By pairs of doubles, to nearest f64; false where these do not decide. Results are normal numbers,
// or what a flush leaves as it is.
bool by_pairs(Function f, double x, double& y) {
  Pairs::Result r{0, true};
  switch (f) {
    case Function::exp:
      r = Pairs::exp_result(x);
      break;
    case Function::log:
      r = Pairs::log_result(x);
      break;
    case Function::log1p:
      r = Pairs::log1p_result(x);
      break;
    case Function::sigmoid:
      r = Pairs::sigmoid_result(x);
      break;
    case Function::tanh:
      r = Pairs::tanh_result(x);
      break;
    default:
      break;
  }
  y = r.value;
  return !r.open;
}

}  // namespace

double correctly_rounded_function(Function f, double x, DType to, Round mode, Subnormals subnormals,
                                  ExactStats* stats) {
  if (double y = 0;
      to == DType::f64 && mode == Round::nearest_even && stats == nullptr && by_pairs(f, x, y))
    return y;
  return correctly_rounded([&](auto& a) { return a.call(f, a.input(x)); }, to, mode, subnormals,
                           nullptr, stats);
}

double correctly_rounded_power(double x, double y, DType to, Round mode, Subnormals subnormals) {
  if (to == DType::f64 && mode == Round::nearest_even && x > 0 && is_finite(x) &&
      abs_of(y) < 0x1p10) {
    const Pairs::Result r = Pairs::pow_result(x, y);
    if (!r.open) return r.value;
  }
  return correctly_rounded([&](auto& real) { return real.pow(real.input(x), real.input(y)); }, to,
                           mode, subnormals);
}

float correctly_rounded_f32(Function f, float x) {
  RealF64 a;
  const Rounded r = a.round(a.call(f, {static_cast<double>(x), 0}), DType::f32);
  if (r.decided) return canonical(static_cast<float>(r.value));
  return canonical(
      static_cast<float>(correctly_rounded_function(f, static_cast<double>(x), DType::f32)));
}

}  // namespace etalon
