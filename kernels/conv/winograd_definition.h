// conv by Winograd's minimal filtering, contract algo=winograd:M/R: what its bits are.
//
//   for each tile, output channel o and channel c:
//     V = B^T d B       d: the alpha x alpha inputs of the tile, zeros outside the image
//     U = G g G^T       g: the kernel w[o,c]
//   S = sum over c of U * V, element by element
//   Y = A^T S A,  y = Y + b[o]
//
// Order. A product of a matrix and a vector is, for each row, one chain of fused multiply-adds that
// starts at +0 and takes the row's coefficients that are not zero in ascending columns (a
// coefficient 1 is multiplied too: that is exact). Of two axes the vertical one goes first (the
// matrix times each column), then the horizontal. Coefficients are p / q rounded once to the
// transform's format (|p|, q below 2^24, which the row asks for). Sums over channels: a chain of
// fused multiply-adds from +0, c ascending (channels=seq); or the chains of spans of at most B
// channels, longer spans split at the largest power of two below them (channels=pairwise:B), U the
// first factor. transform=f64 computes V, U and Y in f64 and rounds V, U once each before the sum
// and Y once after it, before the bias is added. The bias is added last.
//
// Along an axis on which the kernel has extent 1 there is no transform.
//
// Special values. Padding is a zero of the tile, and a zero is a term. NaN or an infinity in d or g
// meets every product of its tile, and differences make NaN of infinities: one of them may spread
// over all outputs of its tile. That is this algorithm's definition, not a fault. Intermediate
// results may overflow where the sum would not. Signs of zero are those of the chains.
#pragma once

#include "engine/backend/definition.h"
#include "kernels/conv/tiles.h"
#include "kernels/conv/wide.h"
#include "kernels/conv/winograd_transform.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct WinogradDefinition {
  static constexpr std::string_view op = "conv";
  static constexpr bool rounded_once = false;

  struct Plan {
    ConvTiles t;
    SparseRows a_t, g, b_t;
    bool wide = false;
    std::int64_t run = 0;
    Source x, w, b;
    bool vertical = false, horizontal = false;  // axes that are transformed
  };

  static Plan plan(const ConvGeometry& geometry, const Algorithm& algorithm) {
    const WinogradMatrices m = winograd_matrices(algorithm);
    Plan p;
    p.t = conv_tiles(geometry, algorithm);
    p.a_t = SparseRows(m.a_t);
    p.g = SparseRows(m.g);
    p.b_t = SparseRows(m.b_t);
    p.wide = algorithm.transform == DType::f64;
    p.run = algorithm.run;
    p.vertical = p.t.axis_y().kernel > 1;
    p.horizontal = p.t.axis_x().kernel > 1;
    return p;
  }
  static Plan plan(const KernelCall& call) {
    Plan p =
        plan(conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
             Algorithm::parse(call.contract().algo));
    p.x = Source(call, 0);
    p.w = Source(call, 1);
    p.b = Source(call, 2);
    return p;
  }

  // A slice is one tile of one output channel: [N, O, tile row, tile column].
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.t.count() * p.t.g.out_channels; }

  static constexpr int kCells = kMaxAlpha * kMaxAlpha;

  // U, rounded to A's format.
  template <bool kWide, class A, class W>
  ETALON_HD static void weights(A& a, W& wide, const Plan& p, std::int64_t o, std::int64_t c,
                                typename A::V* u) {
    const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
    typename W::V data[kCells], work[kCells];
    const std::int64_t taps = ay.kernel * ax.kernel;
    for (std::int64_t i = 0; i < taps; ++i)
      data[i] = wide.input(p.w[(o * p.t.g.group_in() + c) * taps + i]);
    transform(wide, p.vertical ? &p.g : nullptr, p.horizontal ? &p.g : nullptr, data,
              static_cast<int>(ay.kernel), static_cast<int>(ax.kernel), work);
    for (std::int64_t i = 0; i < p.t.y.size * p.t.x.size; ++i) u[i] = put<kWide>(a, data[i]);
  }

  // V of channel c (of all channels), rounded to A's format.
  template <bool kWide, class A, class W>
  ETALON_HD static void inputs(A& a, W& wide, const Plan& p, std::int64_t n, std::int64_t c,
                               std::int64_t ty, std::int64_t tx, typename A::V* v) {
    const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
    typename W::V data[kCells], work[kCells];
    for (std::int64_t i = 0; i < p.t.y.size; ++i)
      for (std::int64_t j = 0; j < p.t.x.size; ++j) {
        const std::int64_t iy = ay.at(ty * p.t.y.step, i), ix = ax.at(tx * p.t.x.step, j);
        const bool inside = iy >= 0 && iy < ay.in && ix >= 0 && ix < ax.in;
        data[i * p.t.x.size + j] =
            wide.input(inside ? p.x[((n * p.t.g.in_channels + c) * ay.in + iy) * ax.in + ix] : 0);
      }
    transform(wide, p.vertical ? &p.b_t : nullptr, p.horizontal ? &p.b_t : nullptr, data,
              static_cast<int>(p.t.y.size), static_cast<int>(p.t.x.size), work);
    for (std::int64_t i = 0; i < p.t.y.size * p.t.x.size; ++i) v[i] = put<kWide>(a, data[i]);
  }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    if (p.wide) {
      auto wide = WideOf<A>::make(a);
      tile<true>(a, wide, p, i, out);
    } else {
      tile<false>(a, a, p, i, out);
    }
  }

 private:
  template <bool kWide, class A, class V>
  ETALON_HD static typename A::V put(A& a, const V& v) {
    if constexpr (kWide)
      return WideOf<A>::narrow(a, v);
    else
      return v;
  }

  // S over channels [begin, end) of the group.
  template <bool kWide, class A, class W>
  ETALON_HD static void channels(A& a, W& wide, const Plan& p, std::int64_t n, std::int64_t o,
                                 std::int64_t ty, std::int64_t tx, std::int64_t begin,
                                 std::int64_t end, typename A::V* s) {
    const std::int64_t cells = p.t.y.size * p.t.x.size;
    typename A::V u[kCells];
#if defined(__CUDA_ARCH__)
    constexpr bool one_run = true;  // a device's rows refuse spans
#else
    const bool one_run = p.run == 0 || end - begin <= p.run;
#endif
    if (one_run) {
      typename A::V v[kCells];
      const std::int64_t first = o / p.t.g.group_out() * p.t.g.group_in();
      for (std::int64_t i = 0; i < cells; ++i) s[i] = a.input(0);
      for (std::int64_t c = begin; c < end; ++c) {
        weights<kWide>(a, wide, p, o, c, u);
        inputs<kWide>(a, wide, p, n, first + c, ty, tx, v);
        for (std::int64_t i = 0; i < cells; ++i) s[i] = a.fma(u[i], v[i], s[i]);
      }
      return;
    }
#if !defined(__CUDA_ARCH__)
    std::int64_t half = 1;
    while (half * 2 < end - begin) half *= 2;
    channels<kWide>(a, wide, p, n, o, ty, tx, begin, begin + half, s);
    channels<kWide>(a, wide, p, n, o, ty, tx, begin + half, end, u);
    for (std::int64_t i = 0; i < cells; ++i) s[i] = a.add(s[i], u[i]);
#endif
  }

  template <bool kWide, class A, class W, class Out>
  ETALON_HD static void tile(A& a, W& wide, const Plan& p, std::int64_t i, Out& out) {
    const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
    const std::int64_t tx = i % p.t.x.count, ty = i / p.t.x.count % p.t.y.count;
    const std::int64_t o = i / p.t.per_image() % p.t.g.out_channels;
    const std::int64_t n = i / (p.t.per_image() * p.t.g.out_channels);
    typename A::V s[kCells];
    channels<kWide>(a, wide, p, n, o, ty, tx, 0, p.t.g.group_in(), s);
    typename W::V data[kCells], work[kCells];
    for (std::int64_t k = 0; k < p.t.y.size * p.t.x.size; ++k) {
      if constexpr (kWide)
        data[k] = WideOf<A>::widen(s[k]);
      else
        data[k] = s[k];
    }
    transform(wide, p.vertical ? &p.a_t : nullptr, p.horizontal ? &p.a_t : nullptr, data,
              static_cast<int>(p.t.y.size), static_cast<int>(p.t.x.size), work);
    for (std::int64_t py = 0; py < p.t.y.step; ++py)
      for (std::int64_t px = 0; px < p.t.x.step; ++px) {
        const std::int64_t oy = ty * p.t.y.step + py, ox = tx * p.t.x.step + px;
        if (oy >= ay.out || ox >= ax.out) continue;
        typename A::V y = put<kWide>(a, data[py * p.t.x.step + px]);
        if (p.b) y = a.add(y, a.input(p.b[o]));
        out(0, ((n * p.t.g.out_channels + o) * ay.out + oy) * ax.out + ox, y);
      }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
