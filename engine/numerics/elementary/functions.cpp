// The entry to correctly rounded values; the functions over f64 balls are functions_f64_inl.h.
#include "engine/core/error.h"
#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/function.h"
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

double correctly_rounded_function(Function f, double x, DType to, Round mode, Subnormals subnormals,
                                  ExactStats* stats) {
  return correctly_rounded([&](auto& a) { return a.call(f, a.input(x)); }, to, mode, subnormals,
                           nullptr, stats);
}

float correctly_rounded_f32(Function f, float x) {
  RealF64 a;
  const Rounded r = a.round(a.call(f, {static_cast<double>(x), 0}), DType::f32);
  if (r.decided) return canonical(static_cast<float>(r.value));
  return canonical(
      static_cast<float>(correctly_rounded_function(f, static_cast<double>(x), DType::f32)));
}

}  // namespace etalon
