// The loops of steps.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/elementwise/steps.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// The other operand of an addition comes from far, row by row: what the next part of a row will
// read is asked for now, and arrives while the head computes that part.
inline constexpr int kAheadVectors = 8;

// N vectors of channel c that begin at element `at`, or by lanes: of channels from c on. Only with
// N = 1 may the mask leave lanes out.
template <class V, int N, bool kMasked, bool kByLanes>
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
      const auto of = [&](const float* p, int i) ETALON_INLINE_LAMBDA {
        if constexpr (kByLanes)
          return load(p + c, i);
        else
          return V::set1(p[c]);
      };
      unroll<N>([&](auto i) ETALON_INLINE_LAMBDA {
        const Reg centered = V::sub(v[i], of(step->mean, i)), factor = of(step->factor, i);
        const Reg bias = of(step->bias, i);
        v[i] =
            step->fused ? V::fma(centered, factor, bias) : V::add(V::mul(centered, factor), bias);
      });
    } else if (step->kind == PointwiseStep::Kind::add) {
      const float* other = step->other + at;
      unroll<N>([&](auto i) ETALON_INLINE_LAMBDA {
        __builtin_prefetch(other + (i + kAheadVectors) * V::lanes);
        v[i] = V::add(v[i], load(other, i));
      });
    } else {
      unroll<N>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = V::relu(v[i]); });
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

template <class V, bool kByLanes>
void steps_of_channel(const PointwiseStep* step, const PointwiseStep* end, float* y,
                      std::int64_t at, std::int64_t count, std::int64_t c) {
  constexpr int kVectors = 4;
  const std::int64_t stop = at + count;
  const typename V::Mask none = V::first(0);
  const auto advance = [&](std::int64_t n) ETALON_INLINE_LAMBDA {
    at += n;
    if constexpr (kByLanes) c += n;
  };
  for (; at + kVectors * V::lanes <= stop; advance(kVectors * V::lanes))
    steps_on<V, kVectors, false, kByLanes>(step, end, y, at, c, none);
  for (; at + V::lanes <= stop; advance(V::lanes))
    steps_on<V, 1, false, kByLanes>(step, end, y, at, c, none);
  if (at < stop)
    steps_on<V, 1, true, kByLanes>(step, end, y, at, c, V::first(static_cast<int>(stop - at)));
}

// UsualSteps known when this is compiled, so that no vector asks which step comes next.
enum class Affine { none, fused, apart };
template <Affine kAffine, bool kAdd, bool kRelu>
struct UsualChain {
  const PointwiseStep* affine = nullptr;
  const PointwiseStep* add = nullptr;

  template <class V, bool kByLanes>
  void on_channel(float* y, std::int64_t at, std::int64_t count, std::int64_t c) const {
    using Reg = typename V::Reg;
    Reg mean = V::zero(), factor = V::zero(), bias = V::zero();
    if constexpr (kAffine != Affine::none && !kByLanes) {
      mean = V::set1(affine->mean[c]);
      factor = V::set1(affine->factor[c]);
      bias = V::set1(affine->bias[c]);
    }
    y += at;
    const float* other = kAdd ? add->other + at : nullptr;
    const auto on = [&](auto vectors, auto masked, std::int64_t from,
                        typename V::Mask m) ETALON_INLINE_LAMBDA {
      const auto load = [&](const float* p) ETALON_INLINE_LAMBDA {
        if constexpr (masked)
          return V::load(p, m);
        else
          return V::load(p);
      };
      Reg v[vectors];
      unroll<vectors>([&](auto i) ETALON_INLINE_LAMBDA { v[i] = load(y + from + i * V::lanes); });
      unroll<vectors>([&](auto i) ETALON_INLINE_LAMBDA {
        if constexpr (kAffine != Affine::none && kByLanes) {
          mean = load(affine->mean + c + from + i * V::lanes);
          factor = load(affine->factor + c + from + i * V::lanes);
          bias = load(affine->bias + c + from + i * V::lanes);
        }
        if constexpr (kAffine == Affine::fused) v[i] = V::fma(V::sub(v[i], mean), factor, bias);
        if constexpr (kAffine == Affine::apart)
          v[i] = V::add(V::mul(V::sub(v[i], mean), factor), bias);
        if constexpr (kAdd) {
          const float* p = other + from + i * V::lanes;
          __builtin_prefetch(p + kAheadVectors * V::lanes);
          v[i] = V::add(v[i], load(p));
        }
        if constexpr (kRelu)
          v[i] = V::relu(v[i]);
        else
          v[i] = V::canonical(v[i]);
      });
      unroll<vectors>([&](auto i) ETALON_INLINE_LAMBDA {
        if constexpr (masked)
          V::store(y + from + i * V::lanes, v[i], m);
        else
          V::store(y + from + i * V::lanes, v[i]);
      });
    };
    constexpr int kVectors = 4;
    const typename V::Mask none = V::first(0);
    std::int64_t i = 0;
    for (; i + kVectors * V::lanes <= count; i += kVectors * V::lanes)
      on(std::integral_constant<int, kVectors>{}, std::false_type{}, i, none);
    for (; i + V::lanes <= count; i += V::lanes)
      on(std::integral_constant<int, 1>{}, std::false_type{}, i, none);
    if (i < count)
      on(std::integral_constant<int, 1>{}, std::true_type{}, i,
         V::first(static_cast<int>(count - i)));
  }

  // Channels [c, c + count), at most a vector of them, of every row.
  template <class V>
  void on_column(float* y, const OutputPart& part, std::int64_t count, std::int64_t c) const {
    using Reg = typename V::Reg;
    const typename V::Mask m = V::first(static_cast<int>(count));
    const Reg mean = V::load(affine->mean + c, m), factor = V::load(affine->factor + c, m);
    const Reg bias = V::load(affine->bias + c, m);
    std::int64_t at = part.begin;
    for (std::int64_t r = 0; r < part.rows; ++r, at += part.stride) {
      const Reg centered = V::sub(V::load(y + at, m), mean);
      Reg v = kAffine == Affine::fused ? V::fma(centered, factor, bias)
                                       : V::add(V::mul(centered, factor), bias);
      if constexpr (kAdd) v = V::add(v, V::load(add->other + at, m));
      V::store(y + at, kRelu ? V::relu(v) : V::canonical(v), m);
    }
  }
};

// Any chain.
struct AnyChain {
  const PointwiseStep *first = nullptr, *end = nullptr;
  template <class V, bool kByLanes>
  void on_channel(float* y, std::int64_t at, std::int64_t count, std::int64_t c) const {
    steps_of_channel<V, kByLanes>(first, end, y, at, count, c);
  }
};

// Channels of one element each, whose rows begin with one of them: narrow rows go down by columns,
// whose factors are then loaded once.
inline constexpr std::int64_t kNarrowVectors = 4;
template <class V, Affine kAffine, bool kAdd, bool kRelu>
bool by_columns(const UsualChain<kAffine, kAdd, kRelu>& chain, float* y, OutputPart part,
                std::int64_t channels) {
  const std::int64_t first = part.begin % channels;
  if (kAffine == Affine::none || part.count > kNarrowVectors * V::lanes ||
      part.stride % channels != 0 || first + part.count > channels)
    return false;
  for (std::int64_t done = 0; done < part.count; done += V::lanes, part.begin += V::lanes)
    chain.template on_column<V>(y, part, std::min<std::int64_t>(V::lanes, part.count - done),
                                first + done);
  return true;
}
template <class V>
bool by_columns(const AnyChain&, float*, const OutputPart&, std::int64_t) {
  return false;
}

// All of a part, channel by channel; without `affine` it knows no channels.
template <class V, class Chain>
void run_chain(const Chain& chain, const PointwiseStep* affine, float* y, const OutputPart& part) {
  if (affine == nullptr) {
    for (std::int64_t r = 0; r < part.rows; ++r)
      chain.template on_channel<V, false>(y, part.begin + r * part.stride, part.count, 0);
    return;
  }
  const std::int64_t inner = affine->inner, channels = affine->channels;
  if (inner == 1) {
    if (by_columns<V>(chain, y, part, channels)) return;
    const std::int64_t first = part.begin % channels, step = part.stride % channels;
    for (std::int64_t r = 0, of_row = first; r < part.rows; ++r) {
      std::int64_t at = part.begin + r * part.stride, c = of_row;
      of_row = of_row + step < channels ? of_row + step : of_row + step - channels;
      for (std::int64_t rest = part.count; rest > 0; c = 0) {
        const std::int64_t n = std::min(rest, channels - c);
        chain.template on_channel<V, true>(y, at, n, c);
        at += n;
        rest -= n;
      }
    }
    return;
  }
  const auto after = [&](std::int64_t c) { return c + 1 == channels ? 0 : c + 1; };
  std::int64_t at = part.begin, c = at / inner;
  std::int64_t left = (c + 1) * inner - at;  // of this channel
  c %= channels;
  if (part.stride == inner && part.count <= left) {
    // Rows are the same stretch of one channel after the other: no divisions, which are as long as
    // a row's work where a tile announces few vectors.
    for (std::int64_t r = 0; r < part.rows; ++r, at += inner, c = after(c))
      chain.template on_channel<V, false>(y, at, part.count, c);
    return;
  }
  for (std::int64_t r = 0; r < part.rows; ++r) {
    std::int64_t rest = part.count;
    if (r > 0) {
      at = part.begin + r * part.stride;
      c = at / inner;
      left = (c + 1) * inner - at;
      c %= channels;
    }
    for (; rest > 0; left = inner) {
      const std::int64_t n = std::min(rest, left);
      chain.template on_channel<V, false>(y, at, n, c);
      at += n;
      rest -= n;
      c = after(c);
    }
  }
}

template <class V>
void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part) {
  const std::optional<UsualSteps> usual = usual_steps(steps);
  if (!usual) {
    const auto any = std::ranges::find(steps, PointwiseStep::Kind::affine, &PointwiseStep::kind);
    return run_chain<V>(AnyChain{steps.data(), steps.data() + steps.size()},
                        any == steps.end() ? nullptr : &*any, y, part);
  }
  const PointwiseStep *affine = usual->affine, *add = usual->add;
  const auto with_relu = [&](auto kind, auto adds) {
    if (usual->relu)
      run_chain<V>(UsualChain<kind, adds, true>{affine, add}, affine, y, part);
    else
      run_chain<V>(UsualChain<kind, adds, false>{affine, add}, affine, y, part);
  };
  const auto with_add = [&](auto kind) {
    if (add != nullptr)
      with_relu(kind, std::true_type{});
    else
      with_relu(kind, std::false_type{});
  };
  if (affine == nullptr)
    with_add(std::integral_constant<Affine, Affine::none>{});
  else if (affine->fused)
    with_add(std::integral_constant<Affine, Affine::fused>{});
  else
    with_add(std::integral_constant<Affine, Affine::apart>{});
}

}  // namespace etalon::simd
