// gemm and matmul on f32 units, operands on their way by cp.async: the products of cuda_tile.h, for
// row-major a and b, in another way through the memories. A second row beside it until hardware
// says which is faster.
//
// A block of 256 threads owns 128 x 128 outputs, a thread 8 x 8 of them. k goes by slices of 8,
// four of them in shared memory: one is multiplied, up to three are on their way, and no register
// waits for memory (cuda_tile.h keeps a slice in 16 registers, and spills where two blocks share an
// SM). a stays [row][k] there, read as four k of a row at a time; a row has 12 places, so that the
// four rows that a warp reads at once lie in different banks. One barrier a slice.
//
// Same bits: as cuda_tile.h, one chain for each output in one register, k ascending; the last slice
// ends where k ends.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kAsyncK = 8, kAsyncStages = 4, kAsyncPitch = 12;

struct alignas(16) AsyncShared {
  float a[kAsyncStages][kTileRows][kAsyncPitch];
  float b[kAsyncStages][kAsyncK][kTileCols];
};

struct AsyncThread {
  float sum[8][8];
};

struct AsyncPlace {
  std::int64_t product = 0, row0 = 0, col0 = 0;
  const float *a = nullptr, *b = nullptr;  // of the product
};

template <bool Fused>
struct AsyncTile {
  // A warp has 32 x 64 outputs; four neighbouring rows at a time, by 8 times 4 columns.
  ETALON_HD static int row_of(int tid, int i) { return tid / 64 * 32 + i * 4 + tid % 32 / 8; }
  ETALON_HD static int col_of(int tid, int j) {
    return tid / 32 % 2 * 64 + j / 4 * 32 + tid % 8 * 4 + j % 4;
  }

  // Blocks go down kTilePanel tiles of rows before they step to the right.
  ETALON_HD static AsyncPlace place(const TileTask& t, std::uint32_t block) {
    const auto tiles_m = static_cast<std::uint32_t>(t.tiles_m()),
               tiles_n = static_cast<std::uint32_t>(t.tiles_n());
    const std::uint32_t product = block / (tiles_m * tiles_n), rest = block % (tiles_m * tiles_n);
    const std::uint32_t first = rest / (kTilePanel * tiles_n) * kTilePanel,
                        at = rest % (kTilePanel * tiles_n);
    const std::uint32_t left = tiles_m - first, height = left < kTilePanel ? left : kTilePanel;
    AsyncPlace p;
    p.product = product;
    p.row0 = static_cast<std::int64_t>(first + at % height) * kTileRows;
    p.col0 = static_cast<std::int64_t>(at / height) * kTileCols;
    p.a = t.a + strided_offset(p.product, t.batch, t.a_batch);
    p.b = t.b + strided_offset(p.product, t.batch, t.b_batch);
    return p;
  }

  // Four neighbours, `count` of which are there; the others are zeros that meet no output.
  ETALON_HD static void copy_four(float* to, const float* from, std::int64_t count) {
    if (count >= 4 && (reinterpret_cast<std::uintptr_t>(from) & 15) == 0) {
      copy_16(to, from);
      return;
    }
    for (int i = 0; i < 4; ++i)
      if (i < count)
        copy_4(to + i, from + i);
      else
        to[i] = 0;
  }

  // A thread's share of the slice that starts at k0, into its stage.
  ETALON_HD static void load(const TileTask& t, const AsyncPlace& p, AsyncShared& s, int stage,
                             std::int64_t k0, int tid) {
    const int row = tid / 2, k = tid % 2 * 4, b_k = tid / 32, col = tid % 32 * 4;
    const std::int64_t m = p.row0 + row, n = p.col0 + col;
    copy_four(&s.a[stage][row][k], p.a + m * t.a_row + k0 + k, m < t.m ? t.k - k0 - k : 0);
    copy_four(&s.b[stage][b_k][col], p.b + (k0 + b_k) * t.b_row + n, k0 + b_k < t.k ? t.n - n : 0);
  }

  // The first `count` k of a stage, onto this thread's sums.
  ETALON_HD static void multiply(const AsyncShared& s, AsyncThread& r, int tid, int stage,
                                 int count) {
    ETALON_UNROLL
    for (int k0 = 0; k0 < kAsyncK; k0 += 4) {
      float a[8][4];
      ETALON_UNROLL
      for (int i = 0; i < 8; ++i) load_four(&s.a[stage][row_of(tid, i)][k0], a[i]);
      ETALON_UNROLL
      for (int k = 0; k < 4; ++k) {
        if (k0 + k >= count) break;
        float b[8];
        load_four(&s.b[stage][k0 + k][col_of(tid, 0)], b);
        load_four(&s.b[stage][k0 + k][col_of(tid, 4)], b + 4);
        ETALON_UNROLL
        for (int i = 0; i < 8; ++i) ETALON_UNROLL
        for (int j = 0; j < 8; ++j)
          r.sum[i][j] = Tile<Fused, false>::extend(a[i][k], b[j], r.sum[i][j]);
      }
    }
  }

  ETALON_HD static void store(const TileTask& t, const AsyncPlace& p, const AsyncThread& r,
                              int tid) {
    ETALON_UNROLL
    for (int i = 0; i < 8; ++i) ETALON_UNROLL
    for (int j = 0; j < 8; ++j) {
      const std::int64_t m = p.row0 + row_of(tid, i), n = p.col0 + col_of(tid, j);
      if (m >= t.m || n >= t.n) continue;
      float v = r.sum[i][j];
      if (t.alpha != 1.0F) v = t.alpha * v;
      if (t.c != nullptr) v = Tile<Fused, false>::extend(t.beta, t.c[m * t.c_row + n * t.c_col], v);
      t.y[p.product * t.y_batch + m * t.n + n] = canonical(v);
    }
  }

  // One block. `Threads` runs a phase for all threads of the block, each with its registers:
  // `arrived` with the copies of all slices but the last two that were begun, and a barrier.
  template <class Threads>
  ETALON_HD static void run(const TileTask& t, std::uint32_t block, AsyncShared& s,
                            const Threads& threads) {
    const AsyncPlace p = place(t, block);
    threads.phase([&](AsyncThread& r, int tid) {
      ETALON_UNROLL
      for (auto& row : r.sum) ETALON_UNROLL
      for (float& v : row) v = 0;
      for (int i = 0; i < kAsyncStages - 1; ++i) {
        load(t, p, s, i, i * kAsyncK, tid);
        close_copies();
      }
    });
    int stage = 0;
    for (std::int64_t k0 = 0; k0 < t.k; k0 += kAsyncK) {
      threads.arrived();
      const int next = (stage + kAsyncStages - 1) % kAsyncStages;
      threads.phase([&](AsyncThread& r, int tid) {
        // The stage that all had multiplied before the barrier.
        load(t, p, s, next, k0 + (kAsyncStages - 1) * kAsyncK, tid);
        close_copies();
        if (t.k - k0 >= kAsyncK)
          multiply(s, r, tid, stage, kAsyncK);
        else
          multiply(s, r, tid, stage, static_cast<int>(t.k - k0));
      });
      stage = stage + 1 == kAsyncStages ? 0 : stage + 1;
    }
    threads.phase([&](AsyncThread& r, int tid) { store(t, p, r, tid); });
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
