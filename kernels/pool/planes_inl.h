// The loops of planes.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/pool/planes.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// NaN wins, a tie keeps the first: -inf is what a window without taps gives.
template <class V>
struct PlaneMaximum {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg start() { return V::set1(-__builtin_inff()); }
  ETALON_INLINE static Reg add(Reg acc, Reg x) { return V::max_keep(acc, x); }
  ETALON_INLINE static Reg result(Reg acc, const PlanesCall&, std::int64_t) { return acc; }
};

template <class V>
struct PlaneAverage {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg start() { return V::zero(); }
  ETALON_INLINE static Reg add(Reg acc, Reg x) { return V::add(acc, x); }
  ETALON_INLINE static Reg result(Reg acc, const PlanesCall& c, std::int64_t output) {
    return V::div(acc, V::set1(c.divisor[output]));
  }
};

template <class V, class Terms>
void pool_planes(const PlanesCall& call) {
  using Reg = typename V::Reg;
  const PlanesCall c = call;  // stores to y cannot change it
  for (std::int64_t p = 0; p < c.in_points; p += V::lanes) {
    const std::int64_t left = c.in_points - p;
    const typename V::Mask m = V::first(left >= V::lanes ? V::lanes : static_cast<int>(left));
    Reg square[V::lanes];
    for (int i = 0; i < V::lanes; ++i)
      square[i] = i < c.planes ? V::load(c.x + i * c.in_points + p, m) : V::zero();
    V::transpose(square);
    for (int i = 0; i < V::lanes; ++i) V::store(c.turned_in + (p + i) * V::lanes, square[i]);
  }
  for (std::int64_t o = 0; o < c.out_points; ++o) {
    Reg acc = Terms::start();
    for (std::int32_t t = c.first[o]; t < c.first[o + 1]; ++t)
      acc = Terms::add(acc, V::load(c.turned_in + std::int64_t{c.taps[t]} * V::lanes));
    V::store(c.turned_out + o * V::lanes, V::canonical(Terms::result(acc, c, o)));
  }
  for (std::int64_t o = 0; o < c.out_points; o += V::lanes) {
    const std::int64_t left = c.out_points - o;
    const typename V::Mask m = V::first(left >= V::lanes ? V::lanes : static_cast<int>(left));
    Reg square[V::lanes];
    for (int i = 0; i < V::lanes; ++i)
      square[i] = i < left ? V::load(c.turned_out + (o + i) * V::lanes) : V::zero();
    V::transpose(square);
    for (int i = 0; i < c.planes; ++i) V::store(c.y + i * c.out_points + o, square[i], m);
  }
}

}  // namespace etalon::simd
