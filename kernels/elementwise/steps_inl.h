// The loops of steps.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include <algorithm>

#include "kernels/elementwise/steps.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// The other operand of an addition comes from far, row by row: what the next part of a row will
// read is asked for now, and arrives while the head computes that part.
inline constexpr int kAheadVectors = 8;

// N vectors of channel c that begin at element `at`; only with N = 1 may the mask leave lanes out.
template <class V, int N, bool kMasked>
ETALON_INLINE void steps_on(const PointwiseStep* step, const PointwiseStep* end, float* y,
                            std::int64_t at, std::int64_t c, typename V::Mask m) {
  using Reg = typename V::Reg;
  const auto load = [&](const float* from, int i) ETALON_INLINE_LAMBDA {
    if constexpr (kMasked)
      return V::load(from + i * V::lanes, m);
    else
      return V::load(from + i * V::lanes);
  };
  Reg v[N];
  unroll<N>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = load(y + at, i); });
  for (; step != end; ++step) {
    if (step->kind == PointwiseStep::Kind::affine) {
      const Reg mean = V::set1(step->mean[c]), factor = V::set1(step->factor[c]);
      const Reg bias = V::set1(step->bias[c]);
      if (step->fused)
        unroll<N>([&](auto i)
                      ETALON_INLINE_LAMBDA { v[i] = V::fma(V::sub(v[i], mean), factor, bias); });
      else
        unroll<N>([&](auto i) ETALON_INLINE_LAMBDA {
          v[i] = V::add(V::mul(V::sub(v[i], mean), factor), bias);
        });
    } else if (step->kind == PointwiseStep::Kind::add) {
      const float* other = step->other + at;
      unroll<N>([&](auto i) ETALON_INLINE_LAMBDA {
        __builtin_prefetch(other + (i + kAheadVectors) * V::lanes);
        v[i] = V::add(v[i], load(other, i));
      });
    } else {
      unroll<N>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = V::clear_negative(V::canonical(v[i])); });
    }
  }
  if (end[-1].kind != PointwiseStep::Kind::relu)
    unroll<N>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = V::canonical(v[i]); });
  unroll<N>([&](auto i) ETALON_INLINE_LAMBDA {
    if constexpr (kMasked)
      V::store(y + at + i * V::lanes, v[i], m);
    else
      V::store(y + at + i * V::lanes, v[i]);
  });
}

template <class V>
void steps_of_channel(const PointwiseStep* step, const PointwiseStep* end, float* y,
                      std::int64_t at, std::int64_t count, std::int64_t c) {
  constexpr int kVectors = 4;
  const std::int64_t stop = at + count;
  const typename V::Mask none = V::first(0);
  for (; at + kVectors * V::lanes <= stop; at += kVectors * V::lanes)
    steps_on<V, kVectors, false>(step, end, y, at, c, none);
  for (; at + V::lanes <= stop; at += V::lanes) steps_on<V, 1, false>(step, end, y, at, c, none);
  if (at < stop) steps_on<V, 1, true>(step, end, y, at, c, V::first(static_cast<int>(stop - at)));
}

template <class V>
void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part) {
  const PointwiseStep *first = steps.data(), *end = first + steps.size();
  const auto affine = std::find_if(
      first, end, [](const PointwiseStep& s) { return s.kind == PointwiseStep::Kind::affine; });
  if (affine == end) {
    for (std::int64_t r = 0; r < part.rows; ++r)
      steps_of_channel<V>(first, end, y, part.begin + r * part.stride, part.count, 0);
    return;
  }
  const std::int64_t inner = affine->inner, channels = affine->channels;
  for (std::int64_t r = 0; r < part.rows; ++r) {
    std::int64_t at = part.begin + r * part.stride, rest = part.count;
    std::int64_t c = at / inner;
    std::int64_t left = (c + 1) * inner - at;  // of this channel
    for (c %= channels; rest > 0; left = inner) {
      const std::int64_t n = std::min(rest, left);
      steps_of_channel<V>(first, end, y, at, n, c);
      at += n;
      rest -= n;
      c = c + 1 == channels ? 0 : c + 1;
    }
  }
}

}  // namespace etalon::simd
