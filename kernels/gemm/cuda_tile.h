// gemm, matmul and convolution on f32 units: y[m, n] = sum over k of a[m, k] * b[k, n], one chain
// for each output, k ascending, from +0.
//
// Contract: seq, and seq with fma=off (each product rounded). Loops: a block of 256 threads owns
// 128 x 128 outputs, a thread 8 x 8 of them in registers; k goes by slices of 8 through shared
// memory, two slices there at a time, the next one on its way from global memory meanwhile.
// Same bits as the definition: an output is in one thread's register from its first product to its
// last; blocks and slices move loads and stores, never an addition. A tap in the padding is no
// term: where there is padding, a mask travels with b and the chain keeps its value. Limit: an SM
// issues 128 fma a cycle; a slice's 64 x 8 fma of a thread read 16 floats of shared memory for each
// k, a quarter of what they compute. Nothing of this has been timed: no GPU has run it yet.
//
// The text is host and device. A launch calls the phases of a block with barriers between them; the
// host shim (run_tiles_on_host) calls each phase for all 256 threads in turn, same indices, same
// order of additions, so that tests compare bits on the CPU.
#pragma once

#include <cstdint>

#include "engine/numerics/fp.h"
#include "engine/ops/window.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Sums stay in registers only if every index into them is known when this is compiled.
#if defined(__CUDACC__)
#define ETALON_UNROLL _Pragma("unroll")
#else
#define ETALON_UNROLL
#endif

inline constexpr int kTileRows = 128, kTileCols = 128, kTileK = 8, kTileThreads = 256;

// One matrix product of a batch or one group of a convolution: where elements lie, what follows the
// sum.
struct TileTask {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0;
  // gemm: y = fma(beta, c, alpha * s).
  const float* c = nullptr;
  std::int64_t c_row = 0, c_col = 0;
  float alpha = 1, beta = 1;
  // conv: a is the group's weights, b its image, column n a pixel of all images; bias by row.
  bool conv = false, padded = false;
  Window window;
  const float* bias = nullptr;
  std::int64_t image = 0;      // elements from one image of b to the next
  std::int64_t out_image = 0;  // and of y
};

struct TileShared {
  float a[2][kTileK][kTileRows];
  float b[2][kTileK][kTileCols];
  unsigned char on[2][kTileK][kTileCols];
};

// A thread's registers.
struct TileThread {
  float sum[8][8];
  float a_next[4], b_next[4];
  bool on_next[4];
  std::int64_t row0 = 0, col0 = 0;  // of the block
  // Of the four columns of b that this thread fetches: where they begin.
  std::int64_t col_at[4], col_z[4], col_y[4], col_x[4];
};

template <bool Fused, bool Masked>
struct Tile {
  ETALON_HD static void begin(const TileTask& t, TileThread& r, int tid, std::int64_t block_m,
                              std::int64_t block_n) {
    ETALON_UNROLL
    for (auto& row : r.sum) ETALON_UNROLL
    for (float& s : row) s = 0;
    r.row0 = block_m * kTileRows;
    r.col0 = block_n * kTileCols;
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::int64_t n = r.col0 + tid % 32 + 32 * j;
      r.col_at[j] = r.col_z[j] = r.col_y[j] = r.col_x[j] = 0;
      if (n >= t.n) continue;
      if (!t.conv) {
        r.col_at[j] = n * t.b_col;
        continue;
      }
      const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
      const std::int64_t points = t.window.out_points(), p = n % points;
      r.col_at[j] = n / points * t.image;
      r.col_x[j] = w.at(p % w.out, 0);
      r.col_y[j] = h.at(p / w.out % h.out, 0);
      r.col_z[j] = d.at(p / (w.out * h.out), 0);
    }
  }

  // Global memory to registers: the slice that starts at k0. Elements beyond a matrix are zeros
  // that meet no output.
  ETALON_HD static void fetch(const TileTask& t, TileThread& r, int tid, std::int64_t k0) {
    const std::int64_t m = r.row0 + tid / 2;
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::int64_t k = k0 + tid % 2 * 4 + j;
      r.a_next[j] = m < t.m && k < t.k ? t.a[m * t.a_row + k * t.a_col] : 0.0F;
    }
    const std::int64_t k = k0 + tid / 32;
    if (!t.conv) {
      ETALON_UNROLL
      for (int j = 0; j < 4; ++j) {
        const bool inside = k < t.k && r.col0 + tid % 32 + 32 * j < t.n;
        r.b_next[j] = inside ? t.b[k * t.b_row + r.col_at[j]] : 0.0F;
        r.on_next[j] = true;
      }
      return;
    }
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const std::int64_t rx = k % w.kernel * w.dilation, ry = k / w.kernel % h.kernel * h.dilation,
                       rz = k / (w.kernel * h.kernel) % d.kernel * d.dilation,
                       channel = k / (w.kernel * h.kernel * d.kernel);
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::int64_t z = r.col_z[j] + rz, y = r.col_y[j] + ry, x = r.col_x[j] + rx;
      const bool inside = k < t.k && r.col0 + tid % 32 + 32 * j < t.n && z >= 0 && z < d.in &&
                          y >= 0 && y < h.in && x >= 0 && x < w.in;
      r.b_next[j] = inside ? t.b[r.col_at[j] + ((channel * d.in + z) * h.in + y) * w.in + x] : 0.0F;
      r.on_next[j] = inside;
    }
  }

  // Registers to buffer `into` of shared memory.
  ETALON_HD static void stash(TileShared& s, const TileThread& r, int tid, int into) {
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) s.a[into][tid % 2 * 4 + j][tid / 2] = r.a_next[j];
    ETALON_UNROLL
    for (int j = 0; j < 4; ++j) {
      s.b[into][tid / 32][tid % 32 + 32 * j] = r.b_next[j];
      if constexpr (Masked) s.on[into][tid / 32][tid % 32 + 32 * j] = r.on_next[j] ? 1 : 0;
    }
  }

  ETALON_HD static float extend(float a, float b, float s) {
    if constexpr (Fused)
      return fma_f32(a, b, s);
    else
      return s + a * b;  // two roundings: nothing contracts here
  }

  // The first `count` k of buffer `from`, onto this thread's 8 x 8 sums. A thread has rows
  // 8 * (tid / 16) + i and columns tid % 16 + 16 * j: neighbours read neighbouring columns.
  ETALON_HD static void multiply(const TileShared& s, TileThread& r, int tid, int from, int count) {
    for (int k = 0; k < count; ++k) {
      float a[8], b[8];
      ETALON_UNROLL
      for (int i = 0; i < 8; ++i) a[i] = s.a[from][k][tid / 16 * 8 + i];
      ETALON_UNROLL
      for (int j = 0; j < 8; ++j) b[j] = s.b[from][k][tid % 16 + 16 * j];
      ETALON_UNROLL
      for (int j = 0; j < 8; ++j) {
        if constexpr (Masked)
          if (s.on[from][k][tid % 16 + 16 * j] == 0) continue;
        ETALON_UNROLL
        for (int i = 0; i < 8; ++i) r.sum[i][j] = extend(a[i], b[j], r.sum[i][j]);
      }
    }
  }

  ETALON_HD static void store(const TileTask& t, const TileThread& r, int tid) {
    ETALON_UNROLL
    for (int i = 0; i < 8; ++i) {
      const std::int64_t m = r.row0 + tid / 16 * 8 + i;
      if (m >= t.m) continue;
      ETALON_UNROLL
      for (int j = 0; j < 8; ++j) {
        const std::int64_t n = r.col0 + tid % 16 + 16 * j;
        if (n >= t.n) continue;
        float v = r.sum[i][j];
        if (t.conv) {
          if (t.bias != nullptr) v = v + t.bias[m];
          const std::int64_t points = t.window.out_points();
          t.y[n / points * t.out_image + m * points + n % points] = canonical(v);
          continue;
        }
        if (t.alpha != 1.0F) v = t.alpha * v;
        if (t.c != nullptr) v = extend(t.beta, t.c[m * t.c_row + n * t.c_col], v);
        t.y[m * t.n + n] = canonical(v);
      }
    }
  }
};

// Sets up one task per batch or group from what an op's geometry says: cuda_tile_tasks.h. All
// blocks of a task, phase by phase.
template <bool Fused, bool Masked>
void run_tile_on_host(const TileTask& t, std::int64_t block_m, std::int64_t block_n,
                      TileShared& shared, TileThread* threads) {
  using T = Tile<Fused, Masked>;
  const auto all = [&](auto&& phase) {
    for (int tid = 0; tid < kTileThreads; ++tid) phase(threads[tid], tid);
  };
  all([&](TileThread& r, int tid) { T::begin(t, r, tid, block_m, block_n); });
  all([&](TileThread& r, int tid) { T::fetch(t, r, tid, 0); });
  all([&](TileThread& r, int tid) { T::stash(shared, r, tid, 0); });
  int current = 0;
  for (std::int64_t k0 = 0; k0 < t.k; k0 += kTileK) {
    const int count = t.k - k0 < kTileK ? static_cast<int>(t.k - k0) : kTileK;
    all([&](TileThread& r, int tid) { T::fetch(t, r, tid, k0 + kTileK); });
    all([&](TileThread& r, int tid) { T::multiply(shared, r, tid, current, count); });
    all([&](TileThread& r, int tid) { T::stash(shared, r, tid, 1 - current); });
    current = 1 - current;
  }
  all([&](TileThread& r, int tid) { T::store(t, r, tid); });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
