#include "kernels/gemm/exact_settle.h"

#include <cmath>

#include "kernels/gemm/digit_cut.h"
#include "kernels/gemm/exact_decide.h"

namespace etalon {

constexpr std::int64_t kSummedTerms = std::int64_t{1} << 28;

bool exact_settle(const ExactLanes& lanes, const ExactOutput& output, float& y, double* truth) {
  float rounded;
  if (truth == nullptr && output.k <= kSummedTerms) {
    const ExactSum quick = lanes.sum(output.a, output.b, output.k);
    if (output.cells != nullptr) {
      const double product = output.scale * quick.high,
                   t = output.adds ? product + output.added : product,
                   e = std::abs(output.scale) * quick.error * (1 + 0x1p-50) +
                       0x1p-52 * std::abs(product);
      if (exact_decide(t, e, y, nullptr, output.cells)) return true;
    }
    if (settle_sum({quick.high, quick.low, quick.error}, output.scale, output.added, output.adds,
                   rounded)) {
      y = rounded;
      return true;
    }
  }
  const ExactSum sum = lanes.dot(output.a, output.b, output.k);
  WideSum settled;
  if (!settle_sum({sum.high, sum.low, sum.error}, output.scale, output.added, output.adds, rounded,
                  &settled))
    return false;
  if (truth != nullptr) {
    const double unit = ulp_of(static_cast<double>(rounded), DType::f32);
    if (!is_finite(static_cast<double>(rounded)) || !(settled.error <= unit * 0x1p-12))
      return false;
    *truth = settled.high + settled.low;
  }
  y = rounded;
  return true;
}

}  // namespace etalon
