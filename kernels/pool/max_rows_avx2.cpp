#include "kernels/pool/max_rows_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct MaxVectors : F32 {
  template <int kFirst>
  ETALON_INLINE static Reg third(Reg a, Reg b) {
    constexpr auto at = [](int lane) { return (kFirst + 3 * lane) % 8; };
    const __m256i index = _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
    constexpr int kFromB = kFirst == 2 ? 0x1c : 0x18;  // lanes 2 or 3 to 4
    return _mm256_blend_ps(_mm256_permutevar8x32_ps(a, index), _mm256_permutevar8x32_ps(b, index),
                           kFromB);
  }
};

}  // namespace

bool max_rows(const MaxRowsCall& call) { return simd::max_rows<MaxVectors>(call); }
bool max_rows_pair(const MaxRowsCall& call) { return simd::max_rows_pair<MaxVectors>(call); }

}  // namespace etalon::avx2
