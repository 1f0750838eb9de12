// conv by Winograd's minimal filtering on a GPU, contract algo=winograd:M/R: the bits of
// winograd_definition.h.
//
// The definition transforms every tile anew for each output channel; here each transform is made
// once, in three launches:
//   1  V = B^T d B of every tile and channel, U = G g G^T of every kernel
//   2  S = sum over c of U V: a product [O x C] [C x tiles] for each of the alpha^2 elements of a
//      tile and each group, by the tiles of kernels/gemm/cuda_tile.h
//   3  Y = A^T S A, bias, store
//
// Same bits: a transform is one thread's, in registers, and takes the terms that the definition
// takes, in its order; which terms there are (the coefficients that are not zero) is known when
// this is compiled, their values come with the call. A sum over channels is one chain, c ascending,
// as every chain of those tiles is.
//
// V is [element, c, tile], U [element, group, c, o], S [element, group, o, tile]: neighbouring
// threads have neighbouring tiles, of U output channels, and the products bring 16 bytes at a time.
//
// Points are 0 and pairs a, -a in any sequence behind it, as the usual ones are: the row, then,
// that belongs to 0 has every second coefficient only, so has infinity's, and no other is zero.
//
// Limit: phase 2 has alpha^2 / (9 M^2) of direct convolution's products, or less than half of them;
// 1 and 3 are bound by memory, which is the second cache where U, V and S fit it.
#pragma once

#include <array>
#include <limits>

#include "engine/backend/kernel.h"
#include "engine/numerics/seq_f32.h"
#include "kernels/backends/cuda/api.h"
#include "kernels/conv/tiles.h"
#include "kernels/conv/wide.h"
#include "kernels/conv/winograd_matrices.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kWinogradThreads = 128, kWinogradLines = kWinogradThreads / 32;

enum class WinogradMatrix { input, weights, output };  // B^T, G, A^T

// Is coefficient (i, j) of F(M, R) not zero?
constexpr bool winograd_term(WinogradMatrix matrix, int m, int r, int i, int j) {
  const int last = m + r - 2;
  switch (matrix) {
    case WinogradMatrix::input:
      return i == 0 ? j % 2 == 0 : i == last ? j % 2 == 1 : j > 0 && j < last;
    case WinogradMatrix::weights:
      return i == 0 ? j == 0 : i == last ? j == r - 1 : true;
    default:
      return j == 0 ? i == 0 : j == last ? i == m - 1 : true;
  }
}

// The three matrices, row-major, in the transforms' format.
template <class T>
struct WinogradFactors {
  static constexpr int kMost = 64;
  T input[kMost], weights[kMost], output[kMost];
};

struct WinogradTask {
  std::int64_t in_channels = 0, out_channels = 0, groups = 1, group_in = 0, group_out = 0;
  std::int64_t tiles_x = 0, tiles_y = 0, tiles = 0;  // of a row, of an image's column, of all
  std::int64_t in_x = 0, in_y = 0, out_x = 0, out_y = 0, pad_x = 0, pad_y = 0;
  std::int64_t row_u = 0, row_v = 0;  // numbers of a row of U, of V and S: multiples of four
  bool pairs = false, fours = false;  // outputs of a row that may be stored together
  const float *x = nullptr, *w = nullptr, *b = nullptr;
  float *y = nullptr, *u = nullptr, *v = nullptr, *s = nullptr;

  // Numbers of one element of a tile.
  ETALON_HD std::int64_t plane_u() const { return in_channels * row_u; }
  ETALON_HD std::int64_t plane_v() const { return in_channels * row_v; }
  ETALON_HD std::int64_t plane_s() const { return groups * row_u * row_v; }

  // Threads that transform inputs and sums, blocks that transform weights.
  ETALON_HD std::int64_t inputs() const { return plane_v(); }
  ETALON_HD std::int64_t weight_blocks_in() const {
    return (group_in + kWinogradLines - 1) / kWinogradLines;
  }
  ETALON_HD std::int64_t weight_blocks_out() const { return (row_u + 31) / 32; }
  ETALON_HD std::int64_t weight_blocks() const {
    return groups * weight_blocks_in() * weight_blocks_out();
  }
  ETALON_HD std::int64_t outputs() const { return out_channels * row_v; }
};

// to[0 .. 1], which lie at a multiple of 8 bytes.
ETALON_HD inline void store_pair(float* to, const float* from) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
#else
  to[0] = from[0], to[1] = from[1];
#endif
}

ETALON_HD inline float winograd_fma(float a, float b, float c) { return fma_f32(a, b, c); }
ETALON_HD inline double winograd_fma(double a, double b, double c) { return fma_f64(a, b, c); }

// F(M x M, R x R) with transforms in T. Each phase is a function of the thread's number.
template <int M, int R, class T>
struct Winograd {
  static constexpr int kM = M, kR = R, kAlpha = M + R - 1, kCells = kAlpha * kAlpha;
  static_assert(kAlpha % 2 == 0 && kCells <= WinogradFactors<T>::kMost);
  using Number = T;
  using Factors = WinogradFactors<T>;

  // out[i] = row i of the matrix times in[j * step].
  template <WinogradMatrix which, int Rows, int Cols>
  ETALON_HD static void times(const T* matrix, const T* in, int step, T* out) {
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) {
      out[i] = 0;
      ETALON_UNROLL
      for (int j = 0; j < Cols; ++j)
        if (winograd_term(which, M, R, i, j))
          out[i] = winograd_fma(matrix[i * Cols + j], in[j * step], out[i]);
    }
  }
  // data [Cols, Cols], rows kAlpha apart, becomes m data m^T, the vertical axis first.
  template <WinogradMatrix which, int Rows, int Cols>
  ETALON_HD static void transform(const T* matrix, T* data) {
    T line[Rows];
    ETALON_UNROLL
    for (int j = 0; j < Cols; ++j) {
      times<which, Rows, Cols>(matrix, data + j, kAlpha, line);
      ETALON_UNROLL
      for (int i = 0; i < Rows; ++i) data[i * kAlpha + j] = line[i];
    }
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) {
      times<which, Rows, Cols>(matrix, data + i * kAlpha, 1, line);
      ETALON_UNROLL
      for (int j = 0; j < Rows; ++j) data[i * kAlpha + j] = line[j];
    }
  }

  struct Place {
    std::uint32_t line, image;  // what lies above the tiles; the tile's image
    int y, x;                   // of the tile's first output
    bool there;
  };
  ETALON_HD static Place place(const WinogradTask& t, std::int64_t thread) {
    const auto row = static_cast<std::uint32_t>(t.row_v), i = static_cast<std::uint32_t>(thread);
    const std::uint32_t tile = i % row, rest = tile / static_cast<std::uint32_t>(t.tiles_x);
    Place p;
    p.line = i / row;
    p.image = rest / static_cast<std::uint32_t>(t.tiles_y);
    p.y = static_cast<int>(rest % static_cast<std::uint32_t>(t.tiles_y)) * M;
    p.x = static_cast<int>(tile % static_cast<std::uint32_t>(t.tiles_x)) * M;
    p.there = tile < t.tiles;
    return p;
  }

  // V of a channel and a tile; zeros behind the last tile.
  ETALON_HD static void input(const WinogradTask& t, const Factors& f, std::int64_t thread) {
    const Place p = place(t, thread);
    T data[kCells];
    const int y0 = p.y - static_cast<int>(t.pad_y), x0 = p.x - static_cast<int>(t.pad_x);
    const std::int64_t at = ((p.image * t.in_channels + p.line) * t.in_y + y0) * t.in_x + x0;
    const auto high = static_cast<int>(t.in_y), wide = static_cast<int>(t.in_x);
    ETALON_UNROLL
    for (int i = 0; i < kAlpha; ++i) ETALON_UNROLL
    for (int j = 0; j < kAlpha; ++j) {
      const bool inside = p.there && y0 + i >= 0 && y0 + i < high && x0 + j >= 0 && x0 + j < wide;
      data[i * kAlpha + j] = inside ? t.x[at + i * wide + j] : 0.0F;
    }
    transform<WinogradMatrix::input, kAlpha, kAlpha>(f.input, data);
    float* v = t.v + thread;
    ETALON_UNROLL
    for (int i = 0; i < kCells; ++i, v += t.plane_v()) *v = static_cast<float>(data[i]);
  }

  // U of a block's kernels, 32 output channels by kWinogradLines input channels, which are read
  // side by side and lie in shared memory meanwhile; zeros behind the group's last output channel.
  struct Kernels {
    static constexpr int kPitch = kWinogradLines * R * R + 1;  // odd: 32 banks for 32 kernels
    float w[32 * kPitch];
  };
  struct KernelPlace {
    std::uint32_t c, o, group;  // the block's first
  };
  ETALON_HD static KernelPlace kernel_place(const WinogradTask& t, std::int64_t block) {
    const auto i = static_cast<std::uint32_t>(block),
               across = static_cast<std::uint32_t>(t.weight_blocks_in()),
               down = static_cast<std::uint32_t>(t.weight_blocks_out());
    return {i % across * kWinogradLines, i / across % down * 32, i / across / down};
  }
  ETALON_HD static void bring_weights(const WinogradTask& t, std::int64_t block, Kernels& kernels,
                                      int tid) {
    constexpr int kLine = kWinogradLines * R * R;
    const KernelPlace p = kernel_place(t, block);
    const std::int64_t line = t.group_in * (R * R), first = p.c * (R * R);
    const float* w = t.w + (p.group * t.group_out + p.o) * line + first;
    for (int i = tid; i < 32 * kLine; i += kWinogradThreads) {
      const int o = i / kLine, at = i % kLine;
      kernels.w[o * Kernels::kPitch + at] =
          p.o + o < t.group_out && first + at < line ? w[o * line + at] : 0.0F;
    }
  }
  ETALON_HD static void weight(const WinogradTask& t, const Factors& f, std::int64_t block,
                               const Kernels& kernels, int tid) {
    const KernelPlace p = kernel_place(t, block);
    const int line = tid / 32, lane = tid % 32;
    if (p.c + line >= t.group_in || p.o + lane >= t.row_u) return;
    T data[kCells];
    const float* w = kernels.w + lane * Kernels::kPitch + line * (R * R);
    ETALON_UNROLL
    for (int k = 0; k < R; ++k) ETALON_UNROLL
    for (int j = 0; j < R; ++j) data[k * kAlpha + j] = w[k * R + j];
    transform<WinogradMatrix::weights, kAlpha, R>(f.weights, data);
    float* u = t.u + (p.group * t.group_in + p.c + line) * t.row_u + p.o + lane;
    ETALON_UNROLL
    for (int k = 0; k < kCells; ++k, u += t.plane_u()) *u = static_cast<float>(data[k]);
  }

  // The outputs of a tile of an output channel.
  ETALON_HD static void output(const WinogradTask& t, const Factors& f, std::int64_t thread) {
    const Place p = place(t, thread);
    if (!p.there) return;
    const auto group_out = static_cast<std::uint32_t>(t.group_out);
    T data[kCells];
    const float* s = t.s + thread + p.line / group_out * (t.row_u - t.group_out) * t.row_v;
    ETALON_UNROLL
    for (int i = 0; i < kCells; ++i, s += t.plane_s()) data[i] = *s;
    transform<WinogradMatrix::output, M, kAlpha>(f.output, data);
    const float bias = t.b != nullptr ? t.b[p.line] : 0.0F;
    float* y = t.y + ((p.image * t.out_channels + p.line) * t.out_y + p.y) * t.out_x + p.x;
    const int high = static_cast<int>(t.out_y) - p.y, wide = static_cast<int>(t.out_x) - p.x;
    ETALON_UNROLL
    for (int i = 0; i < M; ++i, y += t.out_x) {
      float line[M];
      ETALON_UNROLL
      for (int j = 0; j < M; ++j) {
        line[j] = static_cast<float>(data[i * kAlpha + j]);
        if (t.b != nullptr) line[j] = line[j] + bias;
        line[j] = canonical(line[j]);
      }
      if (i >= high) continue;
      if (M % 4 == 0 && t.fours) {
        ETALON_UNROLL
        for (int j = 0; j < M; j += 4)
          if (j < wide) store_four(y + j, line + j);
      } else if (M % 2 == 0 && t.pairs) {
        ETALON_UNROLL
        for (int j = 0; j < M; j += 2)
          if (j < wide) store_pair(y + j, line + j);
      } else {
        ETALON_UNROLL
        for (int j = 0; j < M; ++j)
          if (j < wide) y[j] = line[j];
      }
    }
  }
};

// f<Winograd>() of the sizes that there are; false: of none.
template <class F>
bool with_winograd(const Algorithm& a, F&& f) {
  const auto of = [&]<int M, int R>() {
    if (a.m != M || a.r != R) return false;
    if (a.transform == DType::f64)
      f.template operator()<Winograd<M, R, double>>();
    else
      f.template operator()<Winograd<M, R, float>>();
    return true;
  };
  return of.template operator()<2, 3>() || of.template operator()<4, 3>() ||
         of.template operator()<6, 3>() || of.template operator()<2, 5>() ||
         of.template operator()<4, 5>();
}

template <class T>
WinogradFactors<T> winograd_factors(const Algorithm& algorithm) {
  const WinogradMatrices m = winograd_matrices(algorithm);
  WinogradFactors<T> f{};
  const auto fill = [](const FractionMatrix& from, T* to) {
    for (const Fraction& x : from.at) {
      if constexpr (sizeof(T) == sizeof(float))
        *to++ = SeqF32{}.ratio(x.p, x.q);
      else
        *to++ = NativeF64{}.ratio(x.p, x.q);
    }
  };
  fill(m.b_t, f.input);
  fill(m.g, f.weights);
  fill(m.a_t, f.output);
  return f;
}

// The task of a call that refuse_winograd_tiles lets pass; floating tensors lie on the device.
inline WinogradTask winograd_task(const KernelCall& call, float* memory) {
  const Algorithm algorithm = Algorithm::parse(call.contract().algo);
  const ConvTiles tiles = conv_tiles(
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
      algorithm);
  const WindowAxis &ay = tiles.axis_y(), &ax = tiles.axis_x();
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  WinogradTask t;
  t.in_channels = tiles.g.in_channels, t.out_channels = tiles.g.out_channels;
  t.groups = tiles.g.groups;
  t.group_in = tiles.g.group_in(), t.group_out = tiles.g.group_out();
  t.tiles_x = tiles.x.count, t.tiles_y = tiles.y.count, t.tiles = tiles.count();
  t.row_u = (t.group_out + 3) / 4 * 4, t.row_v = (t.tiles + 3) / 4 * 4;
  t.in_x = ax.in, t.in_y = ay.in, t.out_x = ax.out, t.out_y = ay.out;
  t.pad_x = ax.pad_begin, t.pad_y = ay.pad_begin;
  t.x = floats(0), t.w = floats(1), t.b = floats(2);
  t.y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data()));
  const auto together = [&](std::int64_t n) {
    return t.out_x % n == 0 && reinterpret_cast<std::uintptr_t>(t.y) % (4 * n) == 0;
  };
  t.pairs = together(2), t.fours = together(4);
  if (memory == nullptr) return t;  // for its extents
  const std::int64_t cells = algorithm.alpha() * algorithm.alpha();
  t.u = memory;
  t.v = t.u + cells * t.plane_u();
  t.s = t.v + cells * t.plane_v();
  return t;
}
inline std::int64_t winograd_bytes(const WinogradTask& t, const Algorithm& a) {
  return a.alpha() * a.alpha() * (t.plane_u() + t.plane_v() + t.plane_s()) *
         static_cast<std::int64_t>(sizeof(float));
}

// Phase 2. What lies behind the last tile and the last output channel of a group is computed too.
inline TileTask winograd_products(const WinogradTask& t, std::int64_t cells) {
  TileTask p;
  p.m = t.row_u, p.n = t.row_v, p.k = t.group_in;
  p.a = t.u, p.b = t.v, p.y = t.s;
  p.a_row = 1, p.a_col = t.row_u;
  p.b_row = t.row_v, p.b_col = 1;
  p.batch = Shape{cells, t.groups};
  p.a_batch[0] = t.plane_u(), p.a_batch[1] = t.group_in * t.row_u;
  p.b_batch[0] = t.plane_v(), p.b_batch[1] = t.group_in * t.row_v;
  p.y_batch = t.row_u * t.row_v;
  return p;
}

inline Refusal refuse_winograd_tiles(const Problem& problem) {
  const Contract& c = *problem.contract;
  if (!c.algo.starts_with("winograd")) return "computes algo=winograd";
  Contract sums = c;
  sums.algo = "direct";
  if (!(sums == Contract::seq())) return "offers seq with algo=winograd";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  const Algorithm algorithm = Algorithm::parse(c.algo);
  if (Refusal r = refuse_tiles(problem, algorithm)) return r;
  if (algorithm.run != 0) return "sums the channels in one chain, not in spans";
  bool terms = true;
  const bool sized = with_winograd(algorithm, [&]<class W>() {
    const WinogradMatrices m = winograd_matrices(algorithm);
    const auto look = [&](WinogradMatrix which, const FractionMatrix& of) {
      for (int i = 0; i < of.rows; ++i)
        for (int j = 0; j < of.cols; ++j)
          terms = terms && winograd_term(which, W::kM, W::kR, i, j) == !of(i, j).is_zero();
    };
    look(WinogradMatrix::input, m.b_t);
    look(WinogradMatrix::weights, m.g);
    look(WinogradMatrix::output, m.a_t);
  });
  if (!sized) return "computes winograd:2/3, 4/3, 6/3, 2/5 and 4/5";
  if (!terms) return "computes points that are 0 and behind it pairs of a and -a";
  const ConvTiles tiles = conv_tiles(conv_geometry(problem.params->as<ConvParams>(),
                                                   problem.input(0).shape, problem.input(1).shape),
                                     algorithm);
  if (tiles.axis_y().kernel == 1 || tiles.axis_x().kernel == 1)
    return "computes kernels of two axes";
  // 32-bit numbers of threads.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 16;
  for (const std::int64_t n :
       {tiles.g.in_channels * tiles.count(), tiles.g.out_channels * tiles.count(),
        tiles.g.in_channels * tiles.g.group_out()})
    if (n > kMost) return "takes fewer than 2^27 tiles of channels";
  for (const WindowAxis* axis : {&tiles.axis_y(), &tiles.axis_x()})
    if (axis->in > kMost || axis->out > kMost) return "takes axes of fewer than 2^27 elements";
  return std::nullopt;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
