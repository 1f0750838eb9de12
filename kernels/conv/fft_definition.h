// conv by the fast Fourier transform, contract algo=fft:N,radix=2: what its bits are.
//
//   for each tile, output channel o and channel c:
//     V = F(d)      d: the N x N inputs of the tile, zeros outside the image
//     U = F(g)      g: the kernel w[o,c] at the corner of N x N zeros
//   S = sum over c of V * conj(U), element by element
//   Y = F^-1(S),  the first N - R + 1 rows and columns;  y = Y + b[o]
//
// A product of spectra is a correlation with wrap-around; the outputs kept are those whose windows
// do not wrap (overlap-save). fft:full takes for each axis the smallest N that holds all outputs.
// On an axis where the kernel has extent 1, N is 1 and there is no transform.
//
// Order, over real numbers re and im, t = cmul(w, z):
//   t.re = fma(w.re, z.re, -(w.im * z.im)),  t.im = fma(w.re, z.im, w.im * z.re)
// Complex transform of n, radix 2, decimation in time: transforms E of the even and O of the odd
// elements, then for k = 0 .. n/2-1: t = w^k O_k, X_k = E_k + t, X_(k+n/2) = E_k - t; w = exp(-2 pi
// i / n). For k = 0 and k = n/4 there is no multiplication: w^k is 1 and -i.
// Real transform of n: only X_0 .. X_(n/2), the others are their conjugates. For k = 0 .. n/4:
// t = w^k O_k, X_k = E_k + t, X_(n/2-k) = conj(E_k - t). X_0 and X_(n/2) are real.
// Two axes: real transforms of the rows (horizontal), then complex ones of the N/2 + 1 columns.
// Inverses run the same graphs backwards with conj(w), unscaled: complex transform of the columns
// (as above with conj(w)), then for each row E_k = X_k + conj(X_(n/2-k)), O_k = conj(w^k) (X_k -
// conj(X_(n/2-k))), k = 0 .. n/4, whose inverses are the even and the odd elements; imaginary parts
// of X_0 and X_(n/2), which are zero but for rounding, are not read. Last, y = Y * 2^-s once, N N =
// 2^s.
// Twiddles: cos and sin rounded once, correctly, to the accumulator's format (twiddles.h).
// Sum over channels: c ascending, each from +0, re = fma(V.re, U.re, re) then fma(V.im, U.im, re);
// im = fma(V.re, -U.im, im) then fma(V.im, U.re, im).
//
// Special values. Padding is a zero of the tile. NaN or an infinity in d or g reaches every output
// of its tile. A zero of the exact result is a rounding error as large as those of its neighbours:
// errors are relative to the tile's norm, not to the output.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/backend/definition.h"
#include "kernels/conv/fourier.h"
#include "kernels/conv/tiles.h"
#include "kernels/conv/twiddles.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class A>
inline constexpr bool kIsContract = false;
template <class Ops>
inline constexpr bool kIsContract<ContractArithmetic<Ops>> = true;

struct FftDefinition {
  static constexpr std::string_view op = "conv";
  static constexpr bool rounded_once = false;

  struct Plan {
    ConvTiles t;
    std::shared_ptr<const Twiddles> rounded, precise;  // of the accumulator, of f64
    Source x, w, b;
    std::int64_t spectrum() const { return t.y.size * (t.x.size / 2 + 1); }
  };

  static Plan plan(const KernelCall& call) {
    Plan p;
    p.t = conv_tiles(
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
        Algorithm::parse(call.contract().algo));
    const std::int64_t n = std::max({p.t.y.size, p.t.x.size, std::int64_t{4}});
    p.rounded = twiddles(n, call.contract().acc);
    p.precise = twiddles(n, DType::f64);
    p.x = Source(call, 0);
    p.w = Source(call, 1);
    p.b = Source(call, 2);
    return p;
  }

  // A slice is one tile of one output channel.
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.t.count() * p.t.g.out_channels; }

  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    using C = ComplexOf<A>;
    const Twiddles& table = kIsContract<A> ? *p.rounded : *p.precise;
    const Roots roots{table.cosine.data(), table.sine.data(), table.n, kIsContract<A>};
    const std::int64_t cells = p.t.y.size * p.t.x.size;
    std::vector<typename A::V> data(static_cast<std::size_t>(cells));
    std::vector<C> work(
        static_cast<std::size_t>(3 * p.spectrum() + Fourier<A>::room(p.t.y.size, p.t.x.size)));
    tile(a, roots, p, i, data.data(), work.data(), out);
  }

  // The transform of w[o,c]. data: a tile; work: Fourier::room.
  template <class A>
  ETALON_HD static void weights(A& a, const Fourier<A>& f, const Plan& p, std::int64_t o,
                                std::int64_t c, typename A::V* data, ComplexOf<A>* u,
                                ComplexOf<A>* work) {
    const std::int64_t kh = p.t.axis_y().kernel, kw = p.t.axis_x().kernel;
    for (std::int64_t i = 0; i < p.t.y.size; ++i)
      for (std::int64_t j = 0; j < p.t.x.size; ++j)
        data[i * p.t.x.size + j] =
            a.input(i < kh && j < kw ? p.w[((o * p.t.g.group_in() + c) * kh + i) * kw + j] : 0);
    f.forward(p.t.y.size, p.t.x.size, data, u, work);
  }

  // data: a tile; work: three spectra and Fourier::room.
  template <class A, class Out>
  ETALON_HD static void tile(A& a, const Roots& roots, const Plan& p, std::int64_t i,
                             typename A::V* data, ComplexOf<A>* work, Out& out) {
    const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
    const std::int64_t ny = p.t.y.size, nx = p.t.x.size, count = ny * (nx / 2 + 1);
    const std::int64_t tx = i % p.t.x.count, ty = i / p.t.x.count % p.t.y.count;
    const std::int64_t o = i / p.t.per_image() % p.t.g.out_channels;
    const std::int64_t n = i / (p.t.per_image() * p.t.g.out_channels);
    const std::int64_t first = o / p.t.g.group_out() * p.t.g.group_in();
    const Fourier<A> f(a, roots);
    ComplexOf<A>*s = work, *u = s + count, *v = u + count, *rest = v + count;
    for (std::int64_t k = 0; k < count; ++k) s[k] = {a.input(0), a.input(0)};
    for (std::int64_t c = 0; c < p.t.g.group_in(); ++c) {
      weights(a, f, p, o, c, data, u, rest);
      for (std::int64_t y = 0; y < ny; ++y)
        for (std::int64_t x = 0; x < nx; ++x) {
          const std::int64_t iy = ay.at(ty * p.t.y.step, y), ix = ax.at(tx * p.t.x.step, x);
          const bool inside = iy >= 0 && iy < ay.in && ix >= 0 && ix < ax.in;
          data[y * nx + x] = a.input(
              inside ? p.x[((n * p.t.g.in_channels + first + c) * ay.in + iy) * ax.in + ix] : 0);
        }
      f.forward(ny, nx, data, v, rest);
      for (std::int64_t k = 0; k < count; ++k) {
        s[k].re = a.fma(v[k].im, u[k].im, a.fma(v[k].re, u[k].re, s[k].re));
        s[k].im = a.fma(v[k].im, u[k].re, a.fma(v[k].re, a.neg(u[k].im), s[k].im));
      }
    }
    f.inverse(ny, nx, s, data, rest);
    const typename A::V scale = a.ratio(1, ny * nx);
    for (std::int64_t py = 0; py < p.t.y.step; ++py)
      for (std::int64_t px = 0; px < p.t.x.step; ++px) {
        const std::int64_t oy = ty * p.t.y.step + py, ox = tx * p.t.x.step + px;
        if (oy >= ay.out || ox >= ax.out) continue;
        typename A::V y = a.mul(data[py * nx + px], scale);
        if (p.b) y = a.add(y, a.input(p.b[o]));
        out(0, ((n * p.t.g.out_channels + o) * ay.out + oy) * ax.out + ox, y);
      }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
