// Products of matrices of f64 by a GPU's f64 tensor units, many of one size: y = a b, for bounds
// that ask for the number of additions alone (kernels/conv/cuda_exact_winograd.h).
//
// a is [product][k][row], b [product][k][column], y [product][row][column], side by side; rows and
// columns are even numbers. A block owns a tile of outputs. Slices of k go through shared memory,
// three of them on their way; a warp multiplies fragments of 16 x 8 x 8. After kF64Fold terms sums
// join those before, so that a term meets kF64Fold additions and one for each fold; in which
// sequence, and whether its product is rounded before, is the unit's affair.
//
// Limit: 128 fma of f64 a cycle and SM. A warp of 32 x 32 outputs brings 16 doubles a lane for
// eight products of fragments, which take its quarter of an SM 32 cycles each. Rows of shared
// memory are padded by four doubles: eight lines by four k of a fragment, half of them at a time,
// lie in different banks.
//
// Host and device, as cuda_wide.h, whose warps these are.
#pragma once

#include "kernels/gemm/cuda_slices.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kF64Fold = 64, kF64Step = 16, kF64Stages = 3;

struct F64Task {
  const double *a = nullptr, *b = nullptr;
  double* y = nullptr;
  int m = 0, n = 0, k = 0;
  std::int64_t products = 0;
  int cols = 0;              // of a block's tile: with_f64_tile
  int down = 0, across = 0;  // tiles of a product
  ETALON_HD std::int64_t blocks() const { return products * down * across; }
};
// Additions that a term meets, the rounding of its product among them.
constexpr std::int64_t f64_depth(std::int64_t k) {
  return kF64Fold + 2 + (k + kF64Fold - 1) / kF64Fold;
}

// to[0 .. 1], which lie at a multiple of 16 bytes.
ETALON_HD inline void store_two(double* to, double a, double b) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<double2*>(to) = make_double2(a, b);
#else
  to[0] = a, to[1] = b;
#endif
}

// Warps lie Down by Across over a tile; a warp has Rows fragments of 16 and Cols of 8.
template <int Down, int Across, int Rows, int Cols>
struct F64Tile {
  static constexpr int kRows = Down * Rows * 16, kCols = Across * Cols * 8;
  static constexpr int kWarps = Down * Across, kThreads = 32 * kWarps;
  static constexpr int kRowPitch = kRows + 4, kColPitch = kCols + 4;
  static_assert(kRowPitch % 16 == 4 && kColPitch % 16 == 4);

  struct alignas(16) Shared {
    struct Slice {
      double a[kF64Step * kRowPitch], b[kF64Step * kColPitch];
    } slices[kF64Stages];
  };
  struct Thread {
    double sum[Rows][Cols][4], before[Rows][Cols][4];
    double a[Rows][4], b[Cols][2];
  };

  // Two elements a copy; zeros behind the last line and the last k.
  template <int Lines>
  ETALON_HD static void load(const double* from, int lines, int line0, int k0, int k, double* to,
                             int tid) {
    constexpr int kPairs = Lines / 2;
    static_assert(kF64Step * kPairs % kThreads == 0);
    ETALON_UNROLL
    for (int i = 0; i < kF64Step * kPairs / kThreads; ++i) {
      const int at = i * kThreads + tid, step = at / kPairs, line = at % kPairs * 2;
      const bool there = k0 + step < k && line0 + line < lines;
      const double* const source =
          there ? from + static_cast<std::int64_t>(k0 + step) * lines + line0 + line : from;
      copy_16_or_zeros(there, to + step * (Lines + 4) + line,
                       reinterpret_cast<const float*>(source));
    }
  }

  ETALON_HD static void fetch(const typename Shared::Slice& slice, int k, Thread& r, int tid) {
    const int warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
    const double* const a = slice.a + (k + t) * kRowPitch + warp / Across * (Rows * 16) + g;
    const double* const b = slice.b + (k + t) * kColPitch + warp % Across * (Cols * 8) + g;
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) r.a[i][e] = a[e / 2 * 4 * kRowPitch + i * 16 + e % 2 * 8];
    ETALON_UNROLL
    for (int j = 0; j < Cols; ++j) ETALON_UNROLL
    for (int e = 0; e < 2; ++e) r.b[j][e] = b[e * 4 * kColPitch + j * 8];
  }

  template <class F>
  ETALON_HD static void each_sum(F&& f) {
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) ETALON_UNROLL
    for (int j = 0; j < Cols; ++j) ETALON_UNROLL
    for (int e = 0; e < 4; ++e) f(i, j, e);
  }

  template <class Block>
  ETALON_HD static void run(const F64Task& task, std::uint32_t number, Shared& s,
                            const Block& block) {
    const auto tiles = static_cast<std::uint32_t>(task.down * task.across);
    const std::uint32_t product = number / tiles, rest = number % tiles;
    const int row0 = static_cast<int>(rest % static_cast<std::uint32_t>(task.down)) * kRows,
              col0 = static_cast<int>(rest / static_cast<std::uint32_t>(task.down)) * kCols;
    const double* const a = task.a + static_cast<std::int64_t>(product) * task.k * task.m;
    const double* const b = task.b + static_cast<std::int64_t>(product) * task.k * task.n;
    double* const y = task.y + static_cast<std::int64_t>(product) * task.m * task.n;
    const int slices = (task.k + kF64Step - 1) / kF64Step;
    const auto bring = [&](int slice, int tid) {
      if (slice < slices) {
        auto& to = s.slices[slice % kF64Stages];
        load<kRows>(a, task.m, row0, slice * kF64Step, task.k, to.a, tid);
        load<kCols>(b, task.n, col0, slice * kF64Step, task.k, to.b, tid);
      }
      close_copies();
    };
    block.begin();
    block.threads([&](Thread& r, int tid) {
      each_sum([&](int i, int j, int e) { r.sum[i][j][e] = r.before[i][j][e] = 0; });
      for (int slice = 0; slice < kF64Stages - 1; ++slice) bring(slice, tid);
    });
    for (int slice = 0; slice < slices; ++slice) {
      block.template arrived<kF64Stages - 2>();
      block.threads([&](Thread&, int tid) { bring(slice + kF64Stages - 1, tid); });
      ETALON_UNROLL
      for (int k = 0; k < kF64Step; k += 8) {
        block.threads([&](Thread& r, int tid) { fetch(s.slices[slice % kF64Stages], k, r, tid); });
        block.warps([&](int, auto& w) {
          ETALON_UNROLL
          for (int i = 0; i < Rows; ++i) ETALON_UNROLL
          for (int j = 0; j < Cols; ++j) w.mma(i, j);
        });
      }
      if ((slice + 1) % (kF64Fold / kF64Step) == 0)
        block.threads([&](Thread& r, int) {
          each_sum([&](int i, int j, int e) {
            r.before[i][j][e] += r.sum[i][j][e];
            r.sum[i][j][e] = 0;
          });
        });
    }
    block.threads([&](Thread& r, int tid) {
      const int warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
      ETALON_UNROLL
      for (int i = 0; i < Rows; ++i) ETALON_UNROLL
      for (int j = 0; j < Cols; ++j) ETALON_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + warp / Across * (Rows * 16) + i * 16 + g + half * 8,
                  col = col0 + warp % Across * (Cols * 8) + j * 8 + t * 2;
        if (row >= task.m || col >= task.n) continue;
        const auto whole = [&](int e) {
          return r.before[i][j][half * 2 + e] + r.sum[i][j][half * 2 + e];
        };
        store_two(y + static_cast<std::int64_t>(row) * task.n + col, whole(0), whole(1));
      }
    });
  }
};

// Of 64 rows and of 64, 32 or 16 columns, whichever leaves the fewest columns empty.
inline void choose_f64_tile(F64Task& task) {
  task.cols = 64;
  for (const int cols : {32, 16})
    if ((task.n + cols - 1) / cols * cols < (task.n + task.cols - 1) / task.cols * task.cols)
      task.cols = cols;
  task.down = (task.m + 63) / 64;
  task.across = (task.n + task.cols - 1) / task.cols;
}
template <class F>
auto with_f64_tile(const F64Task& task, F&& f) {
  if (task.cols == 16) return f.template operator()<F64Tile<4, 1, 1, 2>>();
  if (task.cols == 32) return f.template operator()<F64Tile<2, 2, 2, 2>>();
  return f.template operator()<F64Tile<2, 2, 2, 4>>();
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
