#include "kernels/pool/max_rows_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct MaxVectors : F32 {
  template <int kFirst>
  ETALON_INLINE static Reg third(Reg a, Reg b) {
    constexpr auto at = [](int lane) { return (kFirst + 3 * lane) % 32; };
    return _mm512_permutex2var_ps(
        a,
        _mm512_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                          at(10), at(11), at(12), at(13), at(14), at(15)),
        b);
  }
};

}  // namespace

bool max_rows(const MaxRowsCall& call) { return simd::max_rows<MaxVectors>(call); }
bool max_rows_pair(const MaxRowsCall& call) { return simd::max_rows_pair<MaxVectors>(call); }

}  // namespace etalon::avx512
