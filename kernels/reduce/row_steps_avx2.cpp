// row_steps.h for avx2.
#include "kernels/reduce/row_steps_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon {
namespace avx2 {
namespace {

struct Rows : F32 {
  struct Divisor {
    Reg s;
    explicit Divisor(float divisor) : s(set1(divisor)) {}
    ETALON_INLINE Reg divide(Reg a) const { return div(a, s); }
  };
};

}  // namespace
}  // namespace avx2

const RowSteps& row_steps_avx2() {
  static constexpr RowSteps kSteps = simd::make_row_steps<avx2::Rows>();
  return kSteps;
}

}  // namespace etalon
