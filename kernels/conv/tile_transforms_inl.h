// tile_transforms.h over vector types; included only by the files of one instruction set each.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/conv/fourier.h"
#include "kernels/conv/tile_transforms.h"
#include "kernels/simd/unroll.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

#if defined(__AVX512F__)
ETALON_INLINE __m512 load_as(const float* p, __m512) { return _mm512_loadu_ps(p); }
ETALON_INLINE __m512d load_as(const float* p, __m512d) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}
ETALON_INLINE void store_f32(float* p, __m512 v, int count) {
  if (count >= 16)
    _mm512_storeu_ps(p, v);
  else if (count > 0)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << count) - 1U), v);
}
ETALON_INLINE void store_f32(float* p, __m512d v, int count) {
  if (count >= 8)
    _mm256_storeu_ps(p, _mm512_cvtpd_ps(v));
  else if (count > 0)
    _mm256_mask_storeu_ps(p, static_cast<__mmask8>((1U << count) - 1U), _mm512_cvtpd_ps(v));
}
#else
ETALON_INLINE __m256 load_as(const float* p, __m256) { return _mm256_loadu_ps(p); }
ETALON_INLINE __m256d load_as(const float* p, __m256d) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
ETALON_INLINE void store_f32(float* p, __m256 v, int count) {
  if (count >= 8) {
    _mm256_storeu_ps(p, v);
    return;
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, v);
  for (int i = 0; i < count; ++i) p[i] = lanes[i];
}
ETALON_INLINE void store_f32(float* p, __m256d v, int count) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, _mm256_cvtpd_ps(v));
  for (int i = 0; i < 4 && i < count; ++i) p[i] = lanes[i];
}
#endif

ETALON_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ETALON_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// V: the vector type of the transform; kHalves of them make a vector of tiles.
template <class V, int S, int kHalves>
void winograd_input(const WinogradInput<typename V::Scalar>& in) {
  using T = typename V::Scalar;
  using Reg = typename V::Reg;
  alignas(64) T t[S * S * V::lanes];
  for (int half = 0; half < kHalves; ++half) {
    const int first = half * V::lanes, count = in.count - first;
    if (count <= 0) return;
    const auto& m = *in.b_t;
    for (int i = 0; i < S; ++i) {
      Reg acc[S];
      simd::unroll<S>([&](auto j) ETALON_INLINE_LAMBDA { acc[j] = V::zero(); });
      for (int e = m.start[i]; e < m.start[i + 1]; ++e) {
        const Reg c = V::set1(m.value[e]);
        const float* x = in.x + m.column[e] * in.row + first;
        simd::unroll<S>([&](auto j) ETALON_INLINE_LAMBDA {
          acc[j] = V::fma(c, load_as(x + in.column[j], acc[j]), acc[j]);
        });
      }
      simd::unroll<S>([&](auto j)
                          ETALON_INLINE_LAMBDA { V::store(t + (i * S + j) * V::lanes, acc[j]); });
    }
    for (int j = 0; j < S; ++j) {
      Reg acc[S];
      simd::unroll<S>([&](auto i) ETALON_INLINE_LAMBDA { acc[i] = V::zero(); });
      for (int e = m.start[j]; e < m.start[j + 1]; ++e) {
        const Reg c = V::set1(m.value[e]);
        const T* from = t + m.column[e] * V::lanes;
        simd::unroll<S>([&](auto i) ETALON_INLINE_LAMBDA {
          acc[i] = V::fma(c, V::load(from + i * S * V::lanes), acc[i]);
        });
      }
      simd::unroll<S>([&](auto i) ETALON_INLINE_LAMBDA {
        store_f32(in.v + (i * S + j) * in.position + first, acc[i], count);
      });
    }
  }
}

// F: the type of the vector of tiles, in which the bias is added.
template <class F, class V, int S, int M, int kHalves>
void winograd_output(const WinogradOutput<typename V::Scalar>& out) {
  using T = typename V::Scalar;
  using Reg = typename V::Reg;
  alignas(64) T t[M * S * V::lanes];
  for (int half = 0; half < kHalves; ++half) {
    const int first = half * V::lanes;
    const auto& m = *out.a_t;
    for (int p = 0; p < M; ++p) {
      Reg acc[S];
      simd::unroll<S>([&](auto j) ETALON_INLINE_LAMBDA { acc[j] = V::zero(); });
      for (int e = m.start[p]; e < m.start[p + 1]; ++e) {
        const Reg c = V::set1(m.value[e]);
        const float* s = out.s + m.column[e] * S * out.position + first;
        simd::unroll<S>([&](auto j) ETALON_INLINE_LAMBDA {
          acc[j] = V::fma(c, load_as(s + j * out.position, acc[j]), acc[j]);
        });
      }
      simd::unroll<S>([&](auto j)
                          ETALON_INLINE_LAMBDA { V::store(t + (p * S + j) * V::lanes, acc[j]); });
    }
    for (int q = 0; q < M; ++q) {
      Reg acc[M];
      simd::unroll<M>([&](auto p) ETALON_INLINE_LAMBDA { acc[p] = V::zero(); });
      for (int e = m.start[q]; e < m.start[q + 1]; ++e) {
        const Reg c = V::set1(m.value[e]);
        const T* from = t + m.column[e] * V::lanes;
        simd::unroll<M>([&](auto p) ETALON_INLINE_LAMBDA {
          acc[p] = V::fma(c, V::load(from + p * S * V::lanes), acc[p]);
        });
      }
      simd::unroll<M>([&](auto p) ETALON_INLINE_LAMBDA {
        float* to = out.y + (p * M + q) * F::lanes;
        store_f32(to + first, acc[p], V::lanes);
      });
    }
  }
  const typename F::Reg bias = F::set1(out.bias);
  for (int i = 0; i < M * M; ++i) {
    typename F::Reg y = F::load(out.y + i * F::lanes);
    if (out.has_bias) y = F::add(y, bias);
    F::store(out.y + i * F::lanes, F::canonical(y));
  }
}

// S x S from r x r, as winograd_transform.h has it.
template <class T, int S>
void winograd_weights_of(const Coefficients<T>& g, int r, const float* w, float* u) {
  T half[S * S];
  for (int j = 0; j < r; ++j)
    for (int i = 0; i < S; ++i) {
      T s = 0;
      for (int e = g.start[i]; e < g.start[i + 1]; ++e)
        s = fused(g.value[e], static_cast<T>(w[g.column[e] * r + j]), s);
      half[i * r + j] = s;
    }
  for (int i = 0; i < S; ++i)
    for (int j = 0; j < S; ++j) {
      T s = 0;
      for (int e = g.start[j]; e < g.start[j + 1]; ++e)
        s = fused(g.value[e], half[i * r + g.column[e]], s);
      u[i * S + j] = static_cast<float>(s);
    }
}
template <class T>
void winograd_weights(const Coefficients<T>& g, int r, const float* w, float* u) {
  if (g.rows == 4) return winograd_weights_of<T, 4>(g, r, w, u);
  if (g.rows == 6) return winograd_weights_of<T, 6>(g, r, w, u);
  winograd_weights_of<T, 8>(g, r, w, u);
}

// A number is a register.
template <class F>
struct LaneSystem {
  using V = typename F::Reg;
  ETALON_INLINE V input(double x) const { return F::set1(static_cast<float>(x)); }
  ETALON_INLINE V constant(double x) const { return input(x); }
  ETALON_INLINE V add(V a, V b) const { return F::add(a, b); }
  ETALON_INLINE V sub(V a, V b) const { return F::sub(a, b); }
  ETALON_INLINE V mul(V a, V b) const { return F::mul(a, b); }
  ETALON_INLINE V fma(V a, V b, V c) const { return F::fma(a, b, c); }
  // The sign bit alone: 0 - x would make +0 of -0's place.
  ETALON_INLINE V neg(V a) const { return F::mul(a, F::set1(-1.0F)); }
};

template <class F>
void fft_input(const FftInput& in) {
  using System = LaneSystem<F>;
  using C = ComplexOf<System>;
  using Reg = typename F::Reg;
  constexpr int kSquare = F::lanes;
  System a;
  const Roots roots{in.roots.cosine, in.roots.sine, in.roots.n, true};
  const Fourier<System> fourier(a, roots);
  Reg* data = reinterpret_cast<Reg*>(in.work);
  C* spectrum = reinterpret_cast<C*>(data + in.ny * ((in.nx + 15) / 16 * 16));
  const std::int64_t count = in.ny * (in.nx / 2 + 1);
  for (std::int64_t y = 0; y < in.ny; ++y)
    for (std::int64_t x = 0; x < in.nx; x += kSquare) {
      Reg square[kSquare];
      for (int i = 0; i < kSquare; ++i) square[i] = F::load(in.tile[i] + y * in.row + x);
      F::transpose(square);
      const int kept = static_cast<int>(in.nx - x < kSquare ? in.nx - x : kSquare);
      for (int i = 0; i < kept; ++i) data[y * in.nx + x + i] = square[i];
    }
  fourier.forward(in.ny, in.nx, data, spectrum, spectrum + count);
  for (std::int64_t p = 0; p < count; ++p) {
    F::store(in.v + p * in.position, spectrum[p].re);
    F::store(in.v + p * in.position + in.part, spectrum[p].im);
  }
}

template <class F>
void fft_output(const FftOutput& out) {
  using System = LaneSystem<F>;
  using C = ComplexOf<System>;
  using Reg = typename F::Reg;
  constexpr int kSquare = F::lanes;
  System a;
  const Roots roots{out.roots.cosine, out.roots.sine, out.roots.n, true};
  const Fourier<System> fourier(a, roots);
  Reg* data = reinterpret_cast<Reg*>(out.work);
  C* spectrum = reinterpret_cast<C*>(data + out.ny * ((out.nx + 15) / 16 * 16));
  const std::int64_t count = out.ny * (out.nx / 2 + 1);
  for (std::int64_t p = 0; p < count; ++p)
    spectrum[p] = {F::load(out.s + p * out.position), F::load(out.s + p * out.position + out.part)};
  fourier.inverse(out.ny, out.nx, spectrum, data, spectrum + count);
  const Reg scale = F::set1(out.scale), bias = F::set1(out.bias);
  for (std::int64_t y = 0; y < out.step_y; ++y)
    for (std::int64_t x = 0; x < out.step_x; x += kSquare) {
      const int kept = static_cast<int>(out.step_x - x < kSquare ? out.step_x - x : kSquare);
      Reg square[kSquare];
      for (int i = 0; i < kSquare; ++i) {
        Reg v = i < kept ? F::mul(data[y * out.nx + x + i], scale) : F::zero();
        if (out.has_bias) v = F::add(v, bias);
        square[i] = F::canonical(v);
      }
      F::transpose(square);
      for (int lane = 0; lane < kSquare; ++lane) {
        if (y >= out.rows[lane]) continue;
        const std::int64_t left = out.columns[lane] - x;
        store_f32(out.y[lane] + y * out.y_row + x, square[lane],
                  static_cast<int>(left < kept ? left : kept));
      }
    }
}

struct ScalarSystem {
  using V = float;
  ETALON_INLINE float input(double x) const { return static_cast<float>(x); }
  ETALON_INLINE float add(float a, float b) const { return a + b; }
  ETALON_INLINE float mul(float a, float b) const { return a * b; }
  ETALON_INLINE float fma(float a, float b, float c) const { return fused(a, b, c); }
  ETALON_INLINE float constant(double x) const { return static_cast<float>(x); }
  ETALON_INLINE float sub(float a, float b) const { return a - b; }
  ETALON_INLINE float neg(float a) const { return -a; }
};

inline void fft_weights(const FftTwiddles& t, std::int64_t ny, std::int64_t nx, const float* w,
                        std::int64_t kh, std::int64_t kw, float* u, float* work) {
  using C = ComplexOf<ScalarSystem>;
  static_assert(sizeof(C) == 2 * sizeof(float));
  ScalarSystem a;
  const Roots roots{t.cosine, t.sine, t.n, true};
  const Fourier<ScalarSystem> fourier(a, roots);
  std::memset(work, 0, static_cast<std::size_t>(ny * nx) * sizeof(float));
  for (std::int64_t i = 0; i < kh; ++i)
    for (std::int64_t j = 0; j < kw; ++j) work[i * nx + j] = w[i * kw + j];
  fourier.forward(ny, nx, work, reinterpret_cast<C*>(u), reinterpret_cast<C*>(work + ny * nx));
}

template <class F>
void add_to(float* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += F::lanes)
    F::store(to + i, F::add(F::load(to + i), F::load(from + i)));
}

template <class F, class D, int S, int M>
void set_output(TileTransforms& t) {
  t.output_f32[S][M] = winograd_output<F, F, S, M, 1>;
  t.output_f64[S][M] = winograd_output<F, D, S, M, 2>;
}

template <class F, class D>
TileTransforms make_transforms() {
  TileTransforms t;
  t.lanes = F::lanes;
  t.input_f32[4] = winograd_input<F, 4, 1>;
  t.input_f32[6] = winograd_input<F, 6, 1>;
  t.input_f32[8] = winograd_input<F, 8, 1>;
  t.input_f64[4] = winograd_input<D, 4, 2>;
  t.input_f64[6] = winograd_input<D, 6, 2>;
  t.input_f64[8] = winograd_input<D, 8, 2>;
  set_output<F, D, 4, 2>(t);
  set_output<F, D, 6, 4>(t);
  set_output<F, D, 6, 2>(t);
  set_output<F, D, 8, 6>(t);
  set_output<F, D, 8, 4>(t);
  t.weights_f32 = winograd_weights<float>;
  t.weights_f64 = winograd_weights<double>;
  t.fft_input = fft_input<F>;
  t.fft_output = fft_output<F>;
  t.fft_weights = fft_weights;
  t.add = add_to<F>;
  return t;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
