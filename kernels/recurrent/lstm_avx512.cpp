#include "kernels/recurrent/lstm.h"
#include "kernels/recurrent/lstm_cell_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n) {
  simd::lstm_cell<F32>(i, f, u, c, n);
}

}  // namespace etalon::avx512
