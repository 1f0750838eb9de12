#include "kernels/recurrent/lstm.h"
#include "kernels/recurrent/lstm_cell_inl.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace etalon::avx512 {

void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n) {
  simd::lstm_cell<F32>(i, f, u, c, n);
}

void gates_and_ahead(const GateCall& call) {
  using V = F32;
  V::Reg gate[kGateVectors], ahead[kAheadRows][kAheadVectors];
  simd::unroll<kGateVectors>(
      [&](auto i) ETALON_INLINE_LAMBDA { gate[i] = V::load(call.gates + i * V::lanes); });
  simd::unroll<kAheadRows>([&](auto r) ETALON_INLINE_LAMBDA {
    simd::unroll<kAheadVectors>([&](auto v) ETALON_INLINE_LAMBDA { ahead[r][v] = V::zero(); });
  });
  const std::int64_t strip = call.k * V::lanes;
  const float *r_at = call.r, *w_at = call.w, *x = call.inputs;
  for (std::int64_t k = 0; k < call.k; ++k, r_at += V::lanes, w_at += V::lanes, x += kAheadRows) {
    const V::Reg h = V::set1(call.state[k]);
    V::Reg w[kAheadVectors];
    simd::unroll<kAheadVectors>([&](auto v)
                                    ETALON_INLINE_LAMBDA { w[v] = V::load(w_at + v * strip); });
    simd::unroll<kGateVectors>([&](auto i) ETALON_INLINE_LAMBDA {
      gate[i] = V::fma(h, V::load(r_at + i * strip), gate[i]);
      const V::Reg input = V::set1(x[i]);
      simd::unroll<kAheadVectors>(
          [&](auto v) ETALON_INLINE_LAMBDA { ahead[i][v] = V::fma(input, w[v], ahead[i][v]); });
    });
  }
  static_assert(kGateVectors == kAheadRows);
  simd::unroll<kGateVectors>([&](auto i) ETALON_INLINE_LAMBDA {
    if (call.bias != nullptr) gate[i] = V::add(gate[i], V::load(call.bias + i * V::lanes));
    V::store(call.gates + i * V::lanes, V::canonical(gate[i]));
    simd::unroll<kAheadVectors>([&](auto v) ETALON_INLINE_LAMBDA {
      V::store(call.ahead + i * call.ahead_row + v * V::lanes, V::canonical(ahead[i][v]));
    });
  });
}

}  // namespace etalon::avx512
