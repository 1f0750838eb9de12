// Tiles and packing over a vector type V (kernels/simd); included only by the files of one
// instruction set each. See tile.h for what they compute.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/tile.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// unasked: rows apart, without asking for cache lines ahead of their use; copying: rows apart, b
// left packed for the tiles to come.
enum class TileForm {
  plain,
  unasked,
  masked,
  rows_apart,
  copying,
  gathering_whole,
  gathering,
  reading_whole,
  reading
};
constexpr bool gathers(TileForm f) {
  return f == TileForm::gathering || f == TileForm::gathering_whole;
}
constexpr bool apart(TileForm f) {
  return f == TileForm::rows_apart || f == TileForm::copying || f == TileForm::unasked;
}
constexpr bool reads(TileForm f) { return f == TileForm::reading || f == TileForm::reading_whole; }
// What a form is asked for beside sums (TileCall): nobody compiles the rest.
constexpr bool resumes(TileForm f) { return f != TileForm::masked; }
constexpr bool reports_zero(TileForm f) { return f == TileForm::plain || gathers(f) || reads(f); }
constexpr bool adds_by_row(TileForm f) { return !apart(f); }
constexpr bool adds_by_lane(TileForm f) { return !gathers(f) && !reads(f); }
constexpr bool ends_by_lane(TileForm f) {
  return f == TileForm::rows_apart || f == TileForm::copying;
}
constexpr bool ends_sums(TileForm f) {
  return f == TileForm::plain || gathers(f) || ends_by_lane(f);
}

template <class V>
inline constexpr bool kBroadcasts = sizeof(typename V::Reg) == 64;
// Vectors of half a cache line, of which there are sixteen registers.
template <class V>
inline constexpr bool kHalfLines = sizeof(typename V::Reg) == 32;

// Taps of a convolution in one packed element, and that element from them.
template <class V>
inline constexpr int kTaps = 1;
template <class V>
  requires requires { V::taps; }
inline constexpr int kTaps<V> = V::taps;
template <class V, class Tap>
ETALON_INLINE typename V::Reg joined(Tap tap) {
  if constexpr (kTaps<V> == 1)
    return tap(0);
  else
    return V::join(tap(0), tap(1));
}

// Whether a tile asks for lines on behalf of one to come. Rows apart leave no register for it where
// there are sixteen.
template <class V, TileForm form>
inline constexpr bool kAsksNext =
    form == TileForm::plain ||
    ((form == TileForm::rows_apart || form == TileForm::copying) && !kHalfLines<V>);

// Row r of a tile of W vectors: every second row of two vectors broadcasts in its fma instead of
// apart. That is an instruction less and a load more; a core has loads to spare here, and where
// another program runs on it, instructions are what is short.
template <class V, int R, int W, int r>
ETALON_INLINE void fma_row(typename V::Reg (&acc)[R][W], const typename V::Scalar* a,
                           const typename V::Reg (&b)[W]) {
  if constexpr (kBroadcasts<V> && W == 2 && r % 2 == 1) {
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_broadcast(acc[r][w], a, b[w]); });
  } else {
    const typename V::Reg av = V::set1(*a);
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::fma(av, b[w], acc[r][w]); });
  }
}

// Steps of k, four at a time, for vectors of half a cache line: addresses are constants or sums of
// two registers. A tile of sixteen registers has twelve fma a step, so instructions beside them
// weigh; no line of b is asked for ahead. Beside: b as a matrix has it, else both are packed.
// Returns the steps made.
template <class V, int R, int W, bool kBeside>
ETALON_INLINE std::int64_t quick_steps(typename V::Reg (&acc)[R][W], std::int64_t terms,
                                       const float*& a, const float*& b, std::int64_t b_strip,
                                       std::int64_t b_step, const float*& next,
                                       std::int64_t next_step) {
  using Reg = typename V::Reg;
  constexpr int kSteps = 4;
  std::int64_t k = 0;
  for (; k + kSteps <= terms; k += kSteps) {
    unroll<kSteps>([&](auto i) ETALON_INLINE_LAMBDA {
      Reg bv[W];
      if constexpr (!kBeside && i % 2 == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
        next += next_step;
      }
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        bv[w] = V::load(kBeside ? b + i * b_step + w * V::lanes : b + w * b_strip + i * V::lanes);
      });
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg av = V::set1(a[i * R + r]);
        unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_onto(acc[r][w], av, bv[w]); });
      });
    });
    a += kSteps * R;
    b += kBeside ? kSteps * b_step : kSteps * V::lanes;
  }
  return k;
}

// Asks for the cache lines of a tile's outputs, to be written, and for what is added to them: in a
// network both come from far, and they arrive while the sums are made.
template <class V, int R, int W>
ETALON_INLINE void ask_outputs(const float* c, const float* other, std::int64_t c_row) {
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { f(r * c_row + w * V::lanes); });
    });
  };
  each([&](std::int64_t at) ETALON_INLINE_LAMBDA { asm volatile("prefetchw %0" : : "m"(c[at])); });
  if (other != nullptr && other != c)
    each([&](std::int64_t at) ETALON_INLINE_LAMBDA {
      _mm_prefetch(reinterpret_cast<const char*>(other + at), _MM_HINT_T0);
    });
}

// Steps on the sums of a tile, in registers, but for a ReLU: that is the caller's.
template <class V, int R, int W, bool kByLane>
ETALON_INLINE void end_sums(const TileEnding& e, typename V::Reg (&acc)[R][W], std::int64_t c_row,
                            typename V::Mask last) {
  using Reg = typename V::Reg;
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { f(acc[r][w], r, w); });
    });
  };
  const auto affine = [&](auto fused) ETALON_INLINE_LAMBDA {
    const auto on = [&](Reg& sum, Reg mean, Reg factor, Reg bias) ETALON_INLINE_LAMBDA {
      const Reg centered = V::sub(sum, mean);
      sum = fused ? V::fma(centered, factor, bias) : V::add(V::mul(centered, factor), bias);
    };
    if constexpr (kByLane)
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        const auto load = [&](const float* p) ETALON_INLINE_LAMBDA {
          return w == W - 1 ? V::load(p + w * V::lanes, last) : V::load(p + w * V::lanes);
        };
        const Reg mean = load(e.mean), factor = load(e.factor), bias = load(e.bias);
        unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { on(acc[r][w], mean, factor, bias); });
      });
    else
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg mean = V::set1(e.mean[r]), factor = V::set1(e.factor[r]);
        const Reg bias = V::set1(e.bias[r]);
        unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { on(acc[r][w], mean, factor, bias); });
      });
  };
  if (e.mean != nullptr) e.fused ? affine(std::true_type{}) : affine(std::false_type{});
  if (e.other != nullptr)
    each([&](Reg& sum, auto r, auto w) ETALON_INLINE_LAMBDA {
      const float* other = e.other + r * c_row + w * V::lanes;
      if constexpr (w == W - 1)
        sum = V::add(sum, V::load(other, last));
      else
        sum = V::add(sum, V::load(other));
    });
}

template <class V, int R, int W, TileForm form>
std::uint32_t tile(const TileCall& t) {
  using Reg = typename V::Reg;
  Reg acc[R][W];
  const typename V::Mask last = V::first(t.last_lanes);
  const auto begin_at_zero = [&]() ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::zero(); });
    });
  };
  if constexpr (resumes(form)) {
    if (t.resume)
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
          const float* from = t.c + r * t.c_row + w * V::lanes;
          if constexpr (w == W - 1)
            acc[r][w] = V::load(from, last);
          else
            acc[r][w] = V::load(from);
        });
      });
    else
      begin_at_zero();
  } else {
    begin_at_zero();
  }
  const float* a = t.a;
  const float* b = t.b;
  // Rows that are not packed: four to a pointer, so that the addresses fit the registers.
  constexpr int kGroups = (R + 3) / 4;
  const float* group[kGroups];
  const std::int64_t a_row = apart(form) ? t.a_row : 0;
  const std::int64_t within[4] = {0, a_row, 2 * a_row, 3 * a_row};
  if constexpr (apart(form))
    unroll<kGroups>([&](auto i) ETALON_INLINE_LAMBDA { group[i] = a + 4 * i * a_row; });
  const std::int64_t b_strip = t.b_strip;
  const std::int64_t b_step = t.b_step;
  const std::int64_t a_step = t.a_step;
  // Of gathering tiles; four masks, two vectors of inputs and 28 accumulators are all there is.
  [[maybe_unused]] const float* source[W][kGatherRuns];
  [[maybe_unused]] typename V::Mask run[W][kGatherRuns];
  [[maybe_unused]] const std::int64_t* offset = nullptr;
  [[maybe_unused]] float* packed = nullptr;
  if constexpr (form == TileForm::copying) packed = t.copy;
  if constexpr (reads(form) || gathers(form)) {
    offset = t.gather->offset;
    packed = t.gather->to;
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      unroll<kGatherRuns>([&](auto i) ETALON_INLINE_LAMBDA {
        source[w][i] = t.gather->source[w][i];
        run[w][i] = V::from_bits(t.gather->lanes[w][i]);
      });
    });
  }
  if constexpr (ends_sums(form)) {
    if (t.ending != nullptr) ask_outputs<V, R, W>(t.c, t.ending->other, t.c_row);
  }
  const float* next = t.next_step == 0 ? t.a : t.next;
  const std::int64_t next_step = t.next_step;
  std::int64_t k = 0;
  if constexpr (kHalfLines<V> && form == TileForm::plain) {
    if (a_step == R && b_step == V::lanes)
      k = quick_steps<V, R, W, false>(acc, t.k, a, b, b_strip, b_step, next, next_step);
    else if (a_step == R && b_strip == V::lanes)
      k = quick_steps<V, R, W, true>(acc, t.k, a, b, b_strip, b_step, next, next_step);
  }
  for (; k < t.k; ++k) {
    Reg bv[W];
    if constexpr (kAsksNext<V, form>) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
      next += next_step;
    }
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      if constexpr (gathers(form)) {
        _mm_prefetch(reinterpret_cast<const char*>(source[w][0] + offset[kAheadSteps]),
                     _MM_HINT_T0);
        bv[w] = joined<V>([&](int tap) ETALON_INLINE_LAMBDA {
          const std::int64_t at = offset[tap];
          if constexpr (form == TileForm::gathering_whole)
            return V::load(source[w][0] + at);
          else
            return V::load_into(V::load(source[w][0] + at, run[w][0]), source[w][1] + at,
                                run[w][1]);
        });
        V::store(packed + w * b_strip, bv[w]);
      } else if constexpr (form == TileForm::reading_whole) {
        bv[w] = V::load(source[w][0] + *offset);
      } else if constexpr (form == TileForm::reading) {
        bv[w] = V::load_into(V::load(source[w][0] + *offset, run[w][0]), source[w][1] + *offset,
                             run[w][1]);
      } else {
        if constexpr (form != TileForm::unasked)
          _mm_prefetch(reinterpret_cast<const char*>(b + w * b_strip + kAheadSteps * b_step),
                       _MM_HINT_T0);
        bv[w] = V::load(b + w * b_strip);
        if constexpr (form == TileForm::copying) V::store(packed + w * t.copy_strip, bv[w]);
      }
    });
    if constexpr (form == TileForm::masked) {
      typename V::Mask m[W];
      unroll<W>([&](auto w)
                    ETALON_INLINE_LAMBDA { m[w] = V::from_bits(t.mask[w * t.mask_strip + k]); });
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg av = V::set1(a[r]);
        unroll<W>([&](auto w)
                      ETALON_INLINE_LAMBDA { acc[r][w] = V::fma(m[w], av, bv[w], acc[r][w]); });
      });
    } else if constexpr (apart(form)) {
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        fma_row<V, R, W, r>(acc, group[r / 4] + within[r % 4], bv);
      });
      unroll<kGroups>([&](auto i) ETALON_INLINE_LAMBDA { ++group[i]; });
    } else {
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { fma_row<V, R, W, r>(acc, a + r, bv); });
    }
    a += a_step;
    b += b_step;
    if constexpr (gathers(form)) packed += b_step;
    if constexpr (form == TileForm::copying) packed += V::lanes;
    if constexpr (reads(form) || gathers(form)) offset += kTaps<V>;
  }
  std::uint32_t zero_rows = 0;
  if constexpr (reports_zero(form)) {
    if (t.report_zero)
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        std::uint32_t zero = 0;
        unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
          std::uint32_t z = V::to_bits(V::is_zero(acc[r][w]));
          if constexpr (w == W - 1) z &= V::to_bits(last);
          zero |= z;
        });
        if (zero != 0) zero_rows |= 1U << r;
      });
  }
  if constexpr (adds_by_row(form)) {
    if (t.row_bias != nullptr)
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg bias = V::set1(t.row_bias[r]);
        unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::add(acc[r][w], bias); });
      });
  }
  if constexpr (adds_by_lane(form)) {
    if (t.lane_bias != nullptr)
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        Reg bias;
        if constexpr (w == W - 1)
          bias = V::load(t.lane_bias + w * V::lanes, last);
        else
          bias = V::load(t.lane_bias + w * V::lanes);
        unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { acc[r][w] = V::add(acc[r][w], bias); });
      });
  }
  const auto store = [&](auto value) ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        float* to = t.c + r * t.c_row + w * V::lanes;
        if constexpr (w == W - 1)
          V::store(to, value(acc[r][w]), last);
        else
          V::store(to, value(acc[r][w]));
      });
    });
  };
  if constexpr (ends_sums(form)) {
    if (t.ending != nullptr && zero_rows == 0) {
      end_sums<V, R, W, ends_by_lane(form)>(*t.ending, acc, t.c_row, last);
      if (t.ending->relu) {  // NaN is canonical then
        store([](Reg v) ETALON_INLINE_LAMBDA { return V::relu(v); });
        return 0;
      }
    }
  }
  store([](Reg v) ETALON_INLINE_LAMBDA { return V::canonical(v); });
  return zero_rows;
}

// One vector of f32 as V's type, lanes outside the mask zero.
template <class V>
ETALON_INLINE typename V::Reg load_f32(const float* p, typename V::Mask m) {
  if constexpr (sizeof(typename V::Scalar) == sizeof(float))
    return V::load(p, m);
  else
    return V::widen(p, m);
}
template <class V>
ETALON_INLINE typename V::Reg load_f32(const float* p) {
  if constexpr (sizeof(typename V::Scalar) == sizeof(float))
    return V::load(p);
  else
    return V::widen(p);
}

template <class V>
void pack_contiguous(const float* src, std::int64_t stride, int count, int fill, std::int64_t k,
                     typename V::Scalar* dst, std::int64_t step) {
  const typename V::Mask in = V::first(count), out = V::first(fill);
  if (count == V::lanes) {
    for (std::int64_t i = 0; i < k; ++i) V::store(dst + i * step, load_f32<V>(src + i * stride));
    return;
  }
  for (std::int64_t i = 0; i < k; ++i)
    V::store(dst + i * step, load_f32<V>(src + i * stride, in), out);
}

template <class V>
constexpr int max_rows(int vectors) {
  // One register is kept for the broadcast value, `vectors` for the other operand.
  const int fit = (V::registers - 1 - vectors) / vectors;
  const int most = V::registers == 32 ? 14 : 6;
  return fit < most ? fit : most;
}

template <class V>
void pack_strided(const float* src, std::int64_t stride, int count, int fill, std::int64_t k,
                  typename V::Scalar* dst, std::int64_t step) {
  std::int64_t done = 0;
  if constexpr (sizeof(typename V::Scalar) == sizeof(float)) {
    const typename V::Mask out = V::first(fill);
    for (; count == V::lanes && done + V::lanes <= k; done += V::lanes) {
      typename V::Reg square[V::lanes];
      V::load_turned([&](int i) ETALON_INLINE_LAMBDA { return src + i * stride + done; }, square);
      for (int i = 0; i < V::lanes; ++i) V::store(dst + (done + i) * step, square[i]);
    }
    for (; done + V::lanes <= k; done += V::lanes) {
      typename V::Reg square[V::lanes];
      for (int i = 0; i < V::lanes; ++i)
        square[i] = i < count ? V::load(src + i * stride + done) : V::zero();
      V::transpose(square);
      for (int i = 0; i < V::lanes; ++i) V::store(dst + (done + i) * step, square[i], out);
    }
  } else {
    // Turned as f32: a vector of it has a lane for every row of a tile of f64.
    using S = typename V::Single;
    static_assert(S::lanes >= max_rows<V>(2));
    for (; done + S::lanes <= k; done += S::lanes) {
      typename S::Reg square[S::lanes];
      for (int i = 0; i < S::lanes; ++i)
        square[i] = i < count ? S::load(src + i * stride + done) : S::zero();
      S::transpose(square);
      for (int i = 0; i < S::lanes; ++i) V::store_widened(dst + (done + i) * step, square[i], fill);
    }
  }
  for (; done < k; ++done)
    for (int i = 0; i < fill; ++i) dst[done * step + i] = i < count ? src[i * stride + done] : 0;
}

// Runs are few: the count is a template argument so that the inner loop holds no branch.
template <class V, int P>
void pack_pieces(const TapPiece* pieces, const std::int64_t* offset, std::int64_t k, int fill,
                 float* dst, std::int64_t step) {
  using Reg = typename V::Reg;
  typename V::Mask masks[P];
  const float* sources[P];
  for (int p = 0; p < P; ++p) {
    masks[p] = V::from_bits(((1U << pieces[p].size) - 1U) << pieces[p].lane);
    sources[p] = pieces[p].source - pieces[p].lane;
  }
  const bool whole = P == 1 && pieces[0].lane == 0 && pieces[0].size == V::lanes;
  const typename V::Mask out = V::first(fill);
  for (std::int64_t i = 0; i < k; ++i) {
    Reg v;
    if (whole) {
      v = V::load(sources[0] + offset[i]);
    } else {
      v = V::load(sources[0] + offset[i], masks[0]);
      unroll<P - 1>([&](auto p) ETALON_INLINE_LAMBDA {
        v = V::load_into(v, sources[p + 1] + offset[i], masks[p + 1]);
      });
    }
    if (fill == V::lanes)
      V::store(dst + i * step, v);
    else
      V::store(dst + i * step, v, out);
  }
}

template <class V>
void pack_taps(const TapPiece* pieces, int count, const std::int64_t* offset, std::int64_t k,
               int fill, float* dst, std::int64_t step) {
  switch (count) {
    case 1:
      return pack_pieces<V, 1>(pieces, offset, k, fill, dst, step);
    case 2:
      return pack_pieces<V, 2>(pieces, offset, k, fill, dst, step);
    case 3:
      return pack_pieces<V, 3>(pieces, offset, k, fill, dst, step);
    case 4:
      return pack_pieces<V, 4>(pieces, offset, k, fill, dst, step);
    default:
      break;
  }
  for (std::int64_t i = 0; i < k; ++i) {
    float* to = dst + i * step;
    for (int lane = 0; lane < fill; ++lane) to[lane] = 0;
    for (int p = 0; p < count; ++p)
      for (int lane = 0; lane < pieces[p].size; ++lane)
        to[pieces[p].lane + lane] = pieces[p].source[offset[i] + lane];
  }
}

template <class V, int S, class Source>
ETALON_INLINE void copy_strips(Source source, std::int64_t k, float* dst, std::int64_t dst_strip) {
  // Each step lies in another page: asked for some steps ahead, the loads do not wait for it.
  constexpr std::int64_t kAhead = 6;
  const std::int64_t safe = k - kAhead;
  for (std::int64_t i = 0; i < k; ++i, dst += V::lanes)
    unroll<S>([&](auto s) ETALON_INLINE_LAMBDA {
      if (i < safe) _mm_prefetch(reinterpret_cast<const char*>(source(s, i + kAhead)), _MM_HINT_T0);
      V::store(dst + s * dst_strip, V::load(source(s, i)));
    });
}

// Calls f(first strip, number of strips) in fixed numbers, so that the copy above is unrolled.
template <class F>
ETALON_INLINE void in_fours(int strips, F f) {
  int s = 0;
  for (; s + 8 <= strips; s += 8) f(s, std::integral_constant<int, 8>{});
  for (; s + 4 <= strips; s += 4) f(s, std::integral_constant<int, 4>{});
  for (; s + 2 <= strips; s += 2) f(s, std::integral_constant<int, 2>{});
  for (; s < strips; ++s) f(s, std::integral_constant<int, 1>{});
}

template <class V>
void pack_wide(const float* src, std::int64_t stride, int strips, std::int64_t k, float* dst,
               std::int64_t dst_strip) {
  in_fours(strips, [&](int first, auto count) ETALON_INLINE_LAMBDA {
    const float* from = src + first * V::lanes;
    copy_strips<V, count>([&](int s, std::int64_t i)
                              ETALON_INLINE_LAMBDA { return from + i * stride + s * V::lanes; },
                          k, dst + first * dst_strip, dst_strip);
  });
}

template <class V>
void pack_taps_wide(const float* const* sources, int strips, const std::int64_t* offset,
                    std::int64_t k, float* dst, std::int64_t dst_strip) {
  in_fours(strips, [&](int first, auto count) ETALON_INLINE_LAMBDA {
    const float* from[count];
    for (int s = 0; s < count; ++s) from[s] = sources[first + s];
    copy_strips<V, count>([&](int s, std::int64_t i)
                              ETALON_INLINE_LAMBDA { return from[s] + offset[i]; },
                          k, dst + first * dst_strip, dst_strip);
  });
}

template <class V>
void scale_add(float* y, std::int64_t count, float alpha, float beta, const float* c,
               std::int64_t c_step) {
  const typename V::Reg alphas = V::set1(alpha), betas = V::set1(beta);
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    const typename V::Mask m =
        V::first(count - i < V::lanes ? static_cast<int>(count - i) : V::lanes);
    typename V::Reg t = V::mul(alphas, V::load(y + i, m));
    if (c != nullptr) {
      const typename V::Reg cs = c_step == 0 ? V::set1(*c) : V::load(c + i, m);
      t = V::fma(betas, cs, t);
    }
    V::store(y + i, V::canonical(t), m);
  }
}

template <class V>
void store_transposed(const float* c, std::int64_t c_row, int rows, int count, float* y,
                      std::int64_t y_stride) {
  const typename V::Mask out = V::first(rows);
  typename V::Reg square[V::lanes];
  for (int i = 0; i < V::lanes; ++i) square[i] = i < rows ? V::load(c + i * c_row) : V::zero();
  V::transpose(square);
  for (int i = 0; i < count; ++i) V::store(y + i * y_stride, square[i], out);
}

// The tiles that only sum.
template <class V>
TileSet make_sum_tiles(Isa isa) {
  TileSet set;
  set.isa = isa;
  set.lanes = V::lanes;
  set.rows = max_rows<V>(2);
  unroll<kMaxTileVectors>([&](auto w0) {
    constexpr int w = w0 + 1;
    set.max_rows[w] = max_rows<V>(w);
    unroll<max_rows<V>(w)>([&](auto r0) {
      constexpr int r = r0 + 1;
      set.plain[w][r] = tile<V, r, w, TileForm::plain>;
      if constexpr (w <= kApartVectors && r > 1)
        set.rows_apart[w][r] = tile<V, r, w, TileForm::rows_apart>;
      if constexpr (w <= kApartVectors && r > max_rows<V>(kMaxTileVectors))
        set.copying[w][r] = tile<V, r, w, TileForm::copying>;
      if constexpr (w <= kGatherVectors && r > max_rows<V>(kGatherVectors + 1)) {
        set.gathering[2][w][r] = tile<V, r, w, TileForm::gathering>;
        // Masks take registers where there are few.
        if constexpr (kHalfLines<V>)
          set.gathering[1][w][r] = tile<V, r, w, TileForm::gathering_whole>;
        else
          set.gathering[1][w][r] = set.gathering[2][w][r];
      }
    });
    unroll<kUnaskedRows>([&](auto r0) {
      constexpr int r = r0 + 1;
      if constexpr (r <= max_rows<V>(w)) set.unasked[w][r] = tile<V, r, w, TileForm::unasked>;
    });
  });
  return set;
}

template <class V>
TileSet make_tile_set(Isa isa) {
  TileSet set = make_sum_tiles<V>(isa);
  unroll<kMaxTileVectors>([&](auto w0) {
    constexpr int w = w0 + 1;
    unroll<max_rows<V>(w)>([&](auto r0) {
      constexpr int r = r0 + 1;
      if constexpr (w == 1 || (w <= 3 && r == 1))
        set.masked[w][r] = tile<V, r, w, TileForm::masked>;
      if constexpr (kBroadcasts<V> && r <= kReadingRows) {
        set.reading[1][w][r] = tile<V, r, w, TileForm::reading_whole>;
        set.reading[2][w][r] = tile<V, r, w, TileForm::reading>;
      }
    });
  });
  set.pack_contiguous = pack_contiguous<V>;
  set.pack_strided = pack_strided<V>;
  set.pack_taps = pack_taps<V>;
  set.pack_wide = pack_wide<V>;
  set.pack_taps_wide = pack_taps_wide<V>;
  set.scale_add = scale_add<V>;
  set.store_transposed = store_transposed<V>;
  return set;
}

}  // namespace etalon::simd
