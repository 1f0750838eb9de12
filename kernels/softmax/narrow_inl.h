// narrow.h over a vector type V; included only by the files of one instruction set each.
#pragma once

#include "kernels/simd/unroll.h"
#include "kernels/softmax/narrow.h"

namespace etalon::simd {

// t[j], j < N: lane j's sum, t[j] += t[j + h] by halving distance; the lanes from `count` on are
// +0.
template <class V>
ETALON_INLINE typename V::Reg narrow_sum(const float* e, int n, std::int64_t lanes) {
  using Reg = typename V::Reg;
  Reg t[kNarrow];
  std::int64_t count = lanes == 0 ? 1 : lanes < n ? lanes : n;
  for (std::int64_t j = 0; j < count; ++j) t[j] = V::load(e + j * V::lanes);
  for (std::int64_t k = count; k < n; ++k)
    t[k % count] = V::add(t[k % count], V::load(e + k * V::lanes));
  for (std::int64_t m = lanes; m > 1;) {
    const std::int64_t h = (m + 1) / 2;
    for (std::int64_t j = h; j < count; ++j) t[j - h] = V::add(t[j - h], t[j]);
    count = count < h ? count : h;
    m = h;
  }
  return t[0];
}

template <class V>
bool narrow_run(const NarrowCall& call) {
  using Reg = typename V::Reg;
  const int n = call.n;
  // Element k of row r at [k][r]: distances from the largest, then their exponentials.
  alignas(64) float d[kNarrow * V::lanes], e[kNarrow * V::lanes];
  Reg square[V::lanes];
  for (int first = 0; first < n; first += V::lanes) {
    const typename V::Mask m = V::first(n - first < V::lanes ? n - first : V::lanes);
    unroll<V::lanes>([&](auto r) ETALON_INLINE_LAMBDA {  // spare lanes repeat the last row
      const int row = r < call.rows ? static_cast<int>(r) : call.rows - 1;
      square[r] = V::load(call.x + row * n + first, m);
    });
    V::transpose(square);
    unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA {
      if (first + i < n) V::store(d + (first + i) * V::lanes, square[i]);
    });
  }
  Reg largest = V::load(d);
  std::uint32_t nan = V::to_bits(V::is_nan(largest));
  for (int k = 1; k < n; ++k) {
    const Reg v = V::load(d + k * V::lanes);
    nan |= V::to_bits(V::is_nan(v));
    largest = V::larger(v, largest);
  }
  if ((nan | V::to_bits(V::is_nan(V::sub(largest, largest)))) != 0) return false;
  for (int k = 0; k < n; ++k)
    V::store(d + k * V::lanes, V::sub(V::load(d + k * V::lanes), largest));
  call.functions(LaneFunction::exp, {}, d, e, std::int64_t{n} * V::lanes, call.exp);

  Reg sum = narrow_sum<V>(e, n, call.lanes);
  if (call.log) {
    alignas(64) float s[V::lanes];
    V::store(s, sum);
    call.functions(LaneFunction::log, {}, s, s, V::lanes, call.logarithm);
    sum = V::load(s);
  }
  for (int first = 0; first < n; first += V::lanes) {
    unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA {
      const std::int64_t at = (first + i < n ? first + i : first) * V::lanes;
      square[i] = call.log ? V::sub(V::load(d + at), sum) : V::div(V::load(e + at), sum);
    });
    V::transpose(square);
    const typename V::Mask m = V::first(n - first < V::lanes ? n - first : V::lanes);
    unroll<V::lanes>([&](auto r) ETALON_INLINE_LAMBDA {
      if (r < call.rows) V::store(call.y + r * n + first, square[r], m);
    });
  }
  return true;
}

}  // namespace etalon::simd
