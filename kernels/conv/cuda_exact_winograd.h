// conv correctly rounded on a GPU by Winograd's minimal filtering in f64: the forms F(4x4, 3x3) and
// F(2x2, 5x5) of exact_winograd_form.h, 36 products a channel for a tile of sixteen or four outputs
// instead of 144 or 100; sums of windows in twice that precision for what the bound leaves open.
//
// Contract: exact. Launches:
//   1  V = B^T d B of every tile and channel, a thread each, with the sums of squares that the
//   bound
//      takes; U = G g G^T of every kernel, a lane each, and what the bound takes of it
//   2  those sums over channels
//   3  S = sum over c of U V: a product for each of the 36 elements of a tile and each group
//      (kernels/gemm/cuda_f64.h)
//   5  Y = A^T S A, bias, bound, rounding: a thread a tile of an output channel
//   6  a warp for each output that is open, over its window (kernels/gemm/cuda_digits.h)
// What stays undecided the host settles.
//
// **Bound.** exact_winograd.h derives it: output (i, j) is off by at most
//
//     u (1 + 2^-10) ((C + E) |W_ij U| |V| + T |W_ij U'| |V'|)   (2-norms over elements and
//     channels)
//
// with C the additions that a term meets (f64_depth), and T and E the roundings that a term meets
// in both passes of the transforms of inputs and weights, of outputs. A transform here is a chain
// of fused multiply-adds over the coefficients that are not zero, so a term meets no more of them
// than its row has coefficients: four of B^T, as many of G as there are taps, five of A^T, whose
// thirds are rounded besides. U' and V' are the transforms of magnitudes; |V'|^2 is at most the sum
// of squares(i) squares(j) d(i, j)^2, and likewise, by Cauchy and Schwarz,
//
//     U'(p, q)^2 <= (sum over k, l of |G_pk| |G_ql|) (sum over k, l of |G_pk| |G_ql| g(k, l)^2),
//     |W_ij U'|^2 <= sum over k, l of size_i(k) size_j(l) (sum over channels of g(k, l)^2),
//     size_i(k) = sum over p of A(i, p)^2 |G_pk| (sum of |G_p|).
//
// Same bits: an output is stored only where both ends of a proven interval round alike.
//
// V is [element, c, tile], U [element, c, o], channels of all groups, S [element, group, o, tile].
//
// Limit: products a quarter of those of the windows, by the same units; U is 288 bytes for the 36
// of a kernel and goes to memory and back, which is what layers of many channels and few pixels are
// bound by.
//
// Host and device; no hardware has run it yet.
#pragma once

#include "kernels/conv/cuda_digits.h"
#include "kernels/conv/cuda_winograd.h"
#include "kernels/conv/exact_winograd_form.h"
#include "kernels/gemm/cuda_f64.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kExactPatch = 6, kExactCells = kExactPatch * kExactPatch;
inline constexpr int kExactThreads = 128, kExactLines = kExactThreads / 32;
inline constexpr int kExactChunk = 32;      // input channels of a block that transforms weights
inline constexpr int kExactNormLines = 16;  // channels that a block sums side by side
inline constexpr int kExactNormThreads = 32 * kExactNormLines;

struct ExactWinogradFactors {
  double input[kExactCells], weights[kExactPatch * kMostWinogradTaps],
      output[kMostWinogradOutputs * kExactPatch];
  double output_squares[kMostWinogradOutputs * kExactPatch];      // of A^T
  double input_squares[kExactPatch];                              // WinogradForm::squares
  double weight_sizes[kMostWinogradOutputs * kMostWinogradTaps];  // size_i(k)
  double sum_error, transform_error;                              // u (1 + 2^-10) (C + E); of T
};

struct ExactWinogradTask {
  TileTask t;  // of the windows
  int m = 0, r = 0;
  std::int64_t groups = 1, group_in = 0, group_out = 0, in_channels = 0, out_channels = 0;
  std::int64_t tiles_x = 0, tiles_y = 0, tiles = 0;  // of a row, of an image's column, of all
  std::int64_t in_x = 0, in_y = 0, out_x = 0, out_y = 0, pad_x = 0, pad_y = 0;
  std::int64_t row_u = 0, row_v = 0;  // numbers of a row of U, of V and S: even
  bool together = false;              // outputs of a tile's row may be stored together
  double *u = nullptr, *v = nullptr, *s = nullptr;
  double* squares = nullptr;  // [2][c][tile]: of V, of V'
  double* norms = nullptr;    // [2][group][tile]
  double* parts = nullptr;    // [chunk][place, then tap][group][o]: squares of W_ij U, of g(k, l)
  double* factors = nullptr;  // [2][place][group][o]: what norms are multiplied by

  ETALON_HD int places() const { return m * m; }
  ETALON_HD int sums() const { return m * m + r * r; }
  ETALON_HD std::int64_t plane_v() const { return in_channels * row_v; }
  ETALON_HD std::int64_t plane_u() const { return in_channels * row_u; }
  ETALON_HD std::int64_t plane_s() const { return groups * row_u * row_v; }
  ETALON_HD std::int64_t chunks() const { return (group_in + kExactChunk - 1) / kExactChunk; }
  ETALON_HD std::int64_t factor_count() const { return 2 * places() * groups * row_u; }
  ETALON_HD std::int64_t part_count() const { return chunks() * sums() * groups * row_u; }
  ETALON_HD std::int64_t norm_count() const { return 2 * groups * row_v; }
  // Blocks, and threads of those that need no block.
  ETALON_HD std::int64_t inputs() const { return plane_v(); }
  ETALON_HD std::int64_t weight_rows() const { return (row_u + 31) / 32; }
  ETALON_HD std::int64_t weight_blocks() const { return groups * chunks() * weight_rows(); }
  ETALON_HD std::int64_t norm_blocks() const { return groups * ((row_v + 31) / 32); }
  ETALON_HD std::int64_t outputs() const { return out_channels * row_v; }
};

template <int M, int R>
struct ExactWinograd {
  using Transform = Winograd<M, R, double>;
  static_assert(M + R - 1 == kExactPatch);

  // V of a channel and a tile, and its squares; zeros behind the last tile.
  ETALON_HD static void input(const ExactWinogradTask& t, const ExactWinogradFactors& f,
                              std::int64_t thread) {
    const auto row = static_cast<std::uint32_t>(t.row_v), at = static_cast<std::uint32_t>(thread),
               tile = at % row, channel = at / row;
    const std::uint32_t rest = tile / static_cast<std::uint32_t>(t.tiles_x),
                        image = rest / static_cast<std::uint32_t>(t.tiles_y);
    const int y0 = static_cast<int>(rest % static_cast<std::uint32_t>(t.tiles_y)) * M -
                   static_cast<int>(t.pad_y),
              x0 = static_cast<int>(tile % static_cast<std::uint32_t>(t.tiles_x)) * M -
                   static_cast<int>(t.pad_x);
    const auto high = static_cast<int>(t.in_y), wide = static_cast<int>(t.in_x);
    const float* const x = t.t.b + ((image * t.in_channels + channel) * t.in_y + y0) * t.in_x + x0;
    double data[kExactCells], of_v = 0, of_sizes = 0;
    ETALON_UNROLL
    for (int i = 0; i < kExactPatch; ++i) ETALON_UNROLL
    for (int j = 0; j < kExactPatch; ++j) {
      const bool inside =
          tile < t.tiles && y0 + i >= 0 && y0 + i < high && x0 + j >= 0 && x0 + j < wide;
      const double d = inside ? static_cast<double>(x[i * wide + j]) : 0.0;
      data[i * kExactPatch + j] = d;
      of_sizes = fma_f64(f.input_squares[i] * f.input_squares[j], d * d, of_sizes);
    }
    Transform::template transform<WinogradMatrix::input, kExactPatch, kExactPatch>(f.input, data);
    double* v = t.v + thread;
    ETALON_UNROLL
    for (int i = 0; i < kExactCells; ++i, v += t.plane_v()) {
      *v = data[i];
      of_v = fma_f64(data[i], data[i], of_v);
    }
    t.squares[thread] = of_v;
    t.squares[t.plane_v() + thread] = of_sizes;
  }

  // U of a block's kernels, 32 output channels by a chunk of input channels, of which
  // kExactLines lie in shared memory at a time; zeros behind the group's last output channel.
  struct Kernels {
    static constexpr int kPitch = kExactLines * R * R + 1;  // odd: 32 banks for 32 kernels
    static constexpr int kAtATime = 2 * kExactLines;
    union {
      float w[32 * kPitch];
      double parts[kExactLines][kAtATime][32];
    };
  };
  static constexpr int kSums = M * M + R * R;
  struct Sums {
    double of[kSums];
  };
  struct KernelPlace {
    std::int64_t chunk, group, first, stop;  // channels of the group
    int o;
  };
  ETALON_HD static KernelPlace kernel_place(const ExactWinogradTask& t, std::int64_t block) {
    KernelPlace p;
    p.chunk = block % t.chunks();
    p.o = static_cast<int>(block / t.chunks() % t.weight_rows()) * 32;
    p.group = block / t.chunks() / t.weight_rows();
    p.first = p.chunk * kExactChunk;
    const std::int64_t stop = p.first + kExactChunk;
    p.stop = stop < t.group_in ? stop : t.group_in;
    return p;
  }
  // squares of W_ij U: first over the rows of elements, then over their columns.
  ETALON_HD static void add_squares(const ExactWinogradFactors& f, const double* u, double* sums) {
    ETALON_UNROLL
    for (int i = 0; i < M; ++i) {
      double row[kExactPatch];
      ETALON_UNROLL
      for (int q = 0; q < kExactPatch; ++q) {
        row[q] = 0;
        ETALON_UNROLL
        for (int p = 0; p < kExactPatch; ++p)
          if (winograd_term(WinogradMatrix::output, M, R, i, p))
            row[q] = fma_f64(f.output_squares[i * kExactPatch + p],
                             u[p * kExactPatch + q] * u[p * kExactPatch + q], row[q]);
      }
      ETALON_UNROLL
      for (int j = 0; j < M; ++j) ETALON_UNROLL
      for (int q = 0; q < kExactPatch; ++q)
        if (winograd_term(WinogradMatrix::output, M, R, j, q))
          sums[i * M + j] = fma_f64(f.output_squares[j * kExactPatch + q], row[q], sums[i * M + j]);
    }
  }
  ETALON_HD static void weight(const ExactWinogradTask& t, const ExactWinogradFactors& f,
                               const KernelPlace& p, std::int64_t first, const Kernels& kernels,
                               Sums& sums, int tid) {
    const int line = tid / 32, lane = tid % 32;
    if (first + line >= p.stop || p.o + lane >= t.row_u) return;
    const float* const w = kernels.w + lane * Kernels::kPitch + line * (R * R);
    double data[kExactCells];
    ETALON_UNROLL
    for (int k = 0; k < R; ++k) ETALON_UNROLL
    for (int j = 0; j < R; ++j) data[k * kExactPatch + j] = static_cast<double>(w[k * R + j]);
    Transform::template transform<WinogradMatrix::weights, kExactPatch, R>(f.weights, data);
    double* u = t.u + (p.group * t.group_in + first + line) * t.row_u + p.o + lane;
    ETALON_UNROLL
    for (int k = 0; k < kExactCells; ++k, u += t.plane_u()) *u = data[k];
    add_squares(f, data, sums.of);
    ETALON_UNROLL
    for (int k = 0; k < R * R; ++k) {
      const auto g = static_cast<double>(w[k]);
      sums.of[M * M + k] = fma_f64(g, g, sums.of[M * M + k]);
    }
  }
  template <class Block>
  ETALON_HD static void weights(const ExactWinogradTask& t, const ExactWinogradFactors& f,
                                std::int64_t block_id, Kernels& kernels, const Block& block) {
    const KernelPlace p = kernel_place(t, block_id);
    constexpr int kLine = kExactLines * R * R;
    const std::int64_t line = t.group_in * (R * R);
    const float* const w = t.t.a + (p.group * t.group_out + p.o) * line;
    block.threads([&](Sums& sums, int) {
      ETALON_UNROLL
      for (double& v : sums.of) v = 0;
    });
    for (std::int64_t first = p.first; first < p.stop; first += kExactLines) {
      block.threads([&](Sums&, int tid) {
        for (int i = tid; i < 32 * kLine; i += kExactThreads) {
          const int o = i / kLine, at = i % kLine;
          kernels.w[o * Kernels::kPitch + at] = p.o + o < t.group_out && first * (R * R) + at < line
                                                    ? w[o * line + first * (R * R) + at]
                                                    : 0.0F;
        }
      });
      block.barrier();
      block.threads([&](Sums& sums, int tid) { weight(t, f, p, first, kernels, sums, tid); });
      block.barrier();
    }
    // The lines' sums are joined, some at a time.
    constexpr int kAtATime = Kernels::kAtATime;
    ETALON_UNROLL
    for (int first = 0; first < kSums; first += kAtATime) {
      block.threads([&](Sums& sums, int tid) {
        ETALON_UNROLL
        for (int i = 0; i < kAtATime; ++i)
          if (first + i < kSums) kernels.parts[tid / 32][i][tid % 32] = sums.of[first + i];
      });
      block.barrier();
      block.threads([&](Sums&, int tid) {
        ETALON_UNROLL
        for (int i = 0; i < kAtATime; i += kExactLines) {
          const int own = i + tid / 32;
          if (first + own >= kSums || p.o + tid % 32 >= t.row_u) continue;
          double sum = 0;
          ETALON_UNROLL
          for (int from = 0; from < kExactLines; ++from) sum += kernels.parts[from][own][tid % 32];
          t.parts[((p.chunk * kSums + first + own) * t.groups + p.group) * t.row_u + p.o +
                  tid % 32] = sum;
        }
      });
      block.barrier();
    }
  }

  // Sums over the channels of a group, 32 tiles a block.
  struct Norms {
    double parts[2][kExactNormLines][32];
  };
  template <class Block>
  ETALON_HD static void norms(const ExactWinogradTask& t, std::int64_t block_id, Norms& shared,
                              const Block& block) {
    const std::int64_t group = block_id % t.groups, first = block_id / t.groups * 32;
    block.threads([&](auto&, int tid) {
      const std::int64_t tile = first + tid % 32;
      double sums[2] = {0, 0};
      if (tile < t.row_v)
#if defined(__CUDACC__)
#pragma unroll 8  // loads: many on their way
#endif
        for (std::int64_t c = tid / 32; c < t.group_in; c += kExactNormLines) {
          const double* const from = t.squares + (group * t.group_in + c) * t.row_v + tile;
          sums[0] += from[0];
          sums[1] += from[t.plane_v()];
        }
      shared.parts[0][tid / 32][tid % 32] = sums[0];
      shared.parts[1][tid / 32][tid % 32] = sums[1];
    });
    block.barrier();
    block.threads([&](auto&, int tid) {
      const std::int64_t tile = first + tid % 32;
      if (tid >= 64 || tile >= t.row_v) return;
      double sum = 0;
      for (int line = 0; line < kExactNormLines; ++line)
        sum += shared.parts[tid / 32][line][tid % 32];
      t.norms[(tid / 32 * t.groups + group) * t.row_v + tile] = sqrt_f64(sum);
    });
  }
  // What a norm is multiplied by, for each place in a tile and output channel.
  ETALON_HD static void factor(const ExactWinogradTask& t, const ExactWinogradFactors& f,
                               std::int64_t thread) {
    const std::int64_t lines = t.groups * t.row_u;
    const auto line = static_cast<std::uint32_t>(thread % lines),
               place = static_cast<std::uint32_t>(thread / lines);
    // Of all chunks.
    const auto squares = [&](std::uint32_t which) {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < t.chunks(); ++chunk)
        sum += t.parts[(chunk * kSums + which) * lines + line];
      return sum;
    };
    if (place < M * M) {
      t.factors[thread] = f.sum_error * sqrt_f64(squares(place));
      return;
    }
    const std::uint32_t i = (place - M * M) / M, j = (place - M * M) % M;
    double sum = 0;
    for (std::uint32_t k = 0; k < R; ++k)
      for (std::uint32_t l = 0; l < R; ++l)
        sum = fma_f64(f.weight_sizes[i * R + k] * f.weight_sizes[j * R + l],
                      squares(M * M + k * R + l), sum);
    t.factors[thread] = f.transform_error * sqrt_f64(sum);
  }

  // The outputs of a tile of an output channel; open(at) takes those that are not decided.
  template <class Open>
  ETALON_HD static void output(const ExactWinogradTask& t, const ExactWinogradFactors& f,
                               std::int64_t thread, Open&& open) {
    const auto row = static_cast<std::uint32_t>(t.row_v), at = static_cast<std::uint32_t>(thread),
               tile = at % row, channel = at / row;
    if (tile >= t.tiles) return;
    const auto group_out = static_cast<std::uint32_t>(t.group_out);
    const std::uint32_t group = channel / group_out, o = channel % group_out;
    const std::uint32_t rest = tile / static_cast<std::uint32_t>(t.tiles_x),
                        image = rest / static_cast<std::uint32_t>(t.tiles_y);
    const int y0 = static_cast<int>(rest % static_cast<std::uint32_t>(t.tiles_y)) * M,
              x0 = static_cast<int>(tile % static_cast<std::uint32_t>(t.tiles_x)) * M;
    double data[kExactCells];
    const std::int64_t line = group * t.row_u + o;
    const double* s = t.s + line * t.row_v + tile;
    ETALON_UNROLL
    for (int i = 0; i < kExactCells; ++i, s += t.plane_s()) data[i] = *s;
    Transform::template transform<WinogradMatrix::output, M, kExactPatch>(f.output, data);
    const double of_v = t.norms[group * t.row_v + tile],
                 of_sizes = t.norms[(t.groups + group) * t.row_v + tile];
    const bool adds = t.t.bias != nullptr;
    const double bias = adds ? static_cast<double>(t.t.bias[channel]) : 0;
    const std::int64_t first = ((image * t.out_channels + channel) * t.out_y + y0) * t.out_x + x0,
                       lines = t.groups * t.row_u;
    const int high = static_cast<int>(t.out_y) - y0, wide = static_cast<int>(t.out_x) - x0;
    ETALON_UNROLL
    for (int i = 0; i < M; ++i) {
      if (i >= high) continue;
      const std::int64_t place = first + i * t.out_x;
      float y[M];
      ETALON_UNROLL
      for (int j = 0; j < M; ++j) {
        const double* const factor = t.factors + (i * M + j) * lines + line;
        const double bound = fma_f64(factor[0], of_v, factor[M * M * lines] * of_sizes);
        if (!digit_decide(data[i * kExactPatch + j], bound, 1, bias, adds, y[j]) && j < wide)
          open(place + j);
      }
      if (M == 4 && t.together) {
        store_four(t.t.y + place, y);
      } else if (M == 2 && t.together) {
        store_pair(t.t.y + place, y);
      } else {
        ETALON_UNROLL
        for (int j = 0; j < M; ++j)
          if (j < wide) t.t.y[place + j] = y[j];
      }
    }
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
