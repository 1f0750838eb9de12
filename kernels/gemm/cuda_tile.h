// gemm, matmul and convolution on f32 units: y[m, n] = sum over k of a[m, k] * b[k, n], one chain
// for each output, k ascending, from +0.
//
// Contract: seq, and seq with fma=off (each product rounded). Loops: a block of 256 threads owns
// 128 x 128 outputs, a thread 8 x 8 of them in registers, as four squares of 4 x 4; k goes by
// slices of 16 through shared memory, two slices there at a time, the next one on its way from
// global memory to registers meanwhile. All products of a batch and all groups of a convolution are
// one launch; blocks go down eight tiles of rows before they step to the right, so that those that
// run at a time share what they read.
//
// Same bits as the definition: an output is in one thread's register from its first product to its
// last; blocks and slices move loads and stores, never an addition. A tap in the padding is no term
// of a convolution. Here it is one, with b = 0, which changes a chain in two cases only: where the
// weight is not finite (then the result is NaN), and where the chain so far is a zero, whose sign
// may change. A chain that ends neither in NaN nor in zero met neither: fma(w, 0, s) = s for s !=
// 0, and once a product moves a zero away from zero, its sign is forgotten. So an output that is
// NaN or zero is computed once more, with its own taps alone.
//
// Limit: an SM issues 128 fma a cycle. For each k a warp issues 64 fma and 4 reads of 16 bytes from
// shared memory; a slice adds 32 moves between memories and their addresses: about 1.12
// instructions for each fma. Nothing of this has been timed: no GPU has run it yet.
//
// The text is host and device. A launch calls the phases of a block with barriers between them; the
// host shim (run_tile_on_host) calls each phase for all 256 threads in turn, same indices, same
// order of additions, so that tests compare bits on the CPU.
#pragma once

#include <array>
#include <cstdint>

#include "engine/backend/strided.h"
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

inline constexpr int kTileRows = 128, kTileCols = 128, kTileK = 16, kTileThreads = 256;
inline constexpr int kTilePanel = 8;           // tiles of rows that blocks go down at a time
inline constexpr int kTileMostTaps = 128;      // of a convolution's window: a bit of a mask each
inline constexpr int kTileShare = kTileK / 2;  // k of a slice that a thread fetches

// The products of one call: where elements lie, what follows the sum. Extents are below 2^31.
struct TileTask {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0;
  // One product for each element: matrices of a batch, groups of a convolution.
  Shape batch;
  std::array<std::int64_t, kMaxRank> a_batch{}, b_batch{};
  std::int64_t y_batch = 0;
  // gemm: y = fma(beta, c, alpha * s).
  const float* c = nullptr;
  std::int64_t c_row = 0, c_col = 0;
  float alpha = 1, beta = 1;
  // conv: a is the group's weights, b its image, column n a pixel of all images; bias by row.
  bool padded = false;
  Window window;
  const float* bias = nullptr;
  std::int64_t image = 0;      // elements from one image of b to the next
  std::int64_t out_image = 0;  // and of y

  ETALON_HD std::int64_t tiles_m() const { return (m + kTileRows - 1) / kTileRows; }
  ETALON_HD std::int64_t tiles_n() const { return (n + kTileCols - 1) / kTileCols; }
  ETALON_HD std::int64_t blocks() const { return batch.numel() * tiles_m() * tiles_n(); }
};

struct alignas(16) TileShared {
  float a[2][kTileK][kTileRows];
  float b[2][kTileK][kTileCols];
  int tap_at[kTileMostTaps];  // of a convolution: a tap's element beside that of tap 0
};

// A thread's registers.
struct TileThread {
  float sum[8][8];
  float a_next[kTileShare], b_next[kTileShare];
  std::int64_t product = 0, row0 = 0, col0 = 0;  // of the block
  // The row of a and the column of b that this thread fetches: where they begin, and whether they
  // are there.
  std::int64_t a_at = 0, b_at = 0;
  bool a_inside = false, b_inside = false;
  // conv: the taps of the column's pixel that lie inside the image; where the next fetch begins.
  std::uint64_t inside_low = 0, inside_high = 0;
  int tap = 0;
  std::int64_t channel_at = 0;
};

// p[0 .. 3], which lie at a multiple of 16 bytes.
ETALON_HD inline void load_four(const float* p, float* to) {
#if defined(__CUDA_ARCH__)
  const float4 v = *reinterpret_cast<const float4*>(p);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
#else
  for (int i = 0; i < 4; ++i) to[i] = p[i];
#endif
}

template <bool Fused, bool Conv>
struct Tile {
  // Where a thread's outputs lie in the tile. A warp has 32 x 64 of them: its reads of shared
  // memory are 16 bytes a thread, side by side or the same.
  ETALON_HD static int row_of(int tid, int i) {
    return tid / 64 * 32 + i / 4 * 16 + tid % 32 / 8 * 4 + i % 4;
  }
  ETALON_HD static int col_of(int tid, int j) {
    return tid / 32 % 2 * 64 + j / 4 * 32 + tid % 8 * 4 + j % 4;
  }

  ETALON_HD static void begin(const TileTask& t, TileShared& s, TileThread& r, int tid,
                              std::uint32_t block) {
    ETALON_UNROLL
    for (auto& row : r.sum) ETALON_UNROLL
    for (float& v : row) v = 0;
    const auto tiles_m = static_cast<std::uint32_t>(t.tiles_m()),
               tiles_n = static_cast<std::uint32_t>(t.tiles_n());
    const std::uint32_t product = block / (tiles_m * tiles_n), rest = block % (tiles_m * tiles_n);
    const std::uint32_t first = rest / (kTilePanel * tiles_n) * kTilePanel,
                        place = rest % (kTilePanel * tiles_n);
    const std::uint32_t left = tiles_m - first, height = left < kTilePanel ? left : kTilePanel;
    r.product = product;
    r.row0 = static_cast<std::int64_t>(first + place % height) * kTileRows;
    r.col0 = static_cast<std::int64_t>(place / height) * kTileCols;

    const int line = tid % kTileRows, k = tid / kTileRows * kTileShare;
    const std::int64_t m = r.row0 + line, n = r.col0 + line;
    r.a_inside = m < t.m;
    r.b_inside = n < t.n;
    r.a_at = strided_offset(r.product, t.batch, t.a_batch) + m * t.a_row + k * t.a_col;
    r.b_at = strided_offset(r.product, t.batch, t.b_batch);
    if constexpr (Conv) {
      const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
      const int taps = static_cast<int>(t.window.taps());
      const auto axis = [](std::int64_t of) { return static_cast<std::uint32_t>(of); };
      if (tid < taps) {
        const std::uint32_t tap = static_cast<std::uint32_t>(tid), rx = tap % axis(w.kernel),
                            ry = tap / axis(w.kernel) % axis(h.kernel),
                            rz = tap / axis(w.kernel * h.kernel);
        s.tap_at[tid] =
            static_cast<int>((rz * d.dilation * h.in + ry * h.dilation) * w.in + rx * w.dilation);
      }
      const auto pixel = static_cast<std::uint32_t>(r.b_inside ? n : 0);
      const std::uint32_t points = axis(t.window.out_points()), p = pixel % points;
      const std::int64_t z0 = d.at(p / axis(w.out * h.out), 0),
                         y0 = h.at(p / axis(w.out) % axis(h.out), 0), x0 = w.at(p % axis(w.out), 0);
      r.b_at += pixel / points * t.image + (z0 * h.in + y0) * w.in + x0;
      r.inside_low = r.inside_high = 0;
      if (r.b_inside) {
        int tap = 0;
        for (std::int64_t z = z0; z < z0 + d.kernel * d.dilation; z += d.dilation)
          for (std::int64_t y = y0; y < y0 + h.kernel * h.dilation; y += h.dilation)
            for (std::int64_t x = x0; x < x0 + w.kernel * w.dilation; x += w.dilation, ++tap)
              if (z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in)
                (tap < 64 ? r.inside_low : r.inside_high) |= std::uint64_t{1} << (tap % 64);
      }
      r.tap = k % taps;
      r.channel_at = k / taps * t.window.in_points();
    } else {
      r.b_at += n * t.b_col + k * t.b_row;
    }
  }

  // kTileShare elements, `step` apart, of which `count` are there.
  ETALON_HD static void fetch_line(const float* p, std::int64_t step, std::int64_t count,
                                   float* next) {
    if (count >= kTileShare) {
      if (step == 1 && (reinterpret_cast<std::uintptr_t>(p) & 15) == 0) {
        load_four(p, next);
        load_four(p + 4, next + 4);
        return;
      }
      ETALON_UNROLL
      for (int i = 0; i < kTileShare; ++i) next[i] = p[i * step];
      return;
    }
    ETALON_UNROLL
    for (int i = 0; i < kTileShare; ++i) next[i] = i < count ? p[i * step] : 0.0F;
  }

  // Global memory to registers: the slice that starts at k0; k0 goes up by kTileK from call to
  // call. Elements beyond a matrix are zeros that meet no output.
  ETALON_HD static void fetch(const TileTask& t, const TileShared& s, TileThread& r, int tid,
                              std::int64_t k0) {
    const std::int64_t left = t.k - k0 - tid / kTileRows * kTileShare;
    fetch_line(t.a + (r.a_inside && left > 0 ? r.a_at + k0 * t.a_col : 0), t.a_col,
               r.a_inside ? left : 0, r.a_next);
    if constexpr (!Conv) {
      fetch_line(t.b + (r.b_inside && left > 0 ? r.b_at + k0 * t.b_row : 0), t.b_row,
                 r.b_inside ? left : 0, r.b_next);
    } else {
      const int taps = static_cast<int>(t.window.taps());
      const std::int64_t plane = t.window.in_points();
      ETALON_UNROLL
      for (int i = 0; i < kTileShare; ++i) {
        const std::uint64_t inside = r.tap < 64 ? r.inside_low : r.inside_high;
        const bool on = i < left && (inside >> (r.tap % 64) & 1) != 0;
        r.b_next[i] = on ? t.b[r.b_at + r.channel_at + s.tap_at[r.tap]] : 0.0F;
        if (++r.tap == taps) {
          r.tap = 0;
          r.channel_at += plane;
        }
      }
      // The other half of the slice is another thread's.
      r.tap += kTileShare % taps;
      r.channel_at += kTileShare / taps * plane;
      if (r.tap >= taps) {
        r.tap -= taps;
        r.channel_at += plane;
      }
    }
  }

  // Registers to buffer `into` of shared memory.
  ETALON_HD static void stash(TileShared& s, const TileThread& r, int tid, int into) {
    const int line = tid % kTileRows, k = tid / kTileRows * kTileShare;
    ETALON_UNROLL
    for (int i = 0; i < kTileShare; ++i) {
      s.a[into][k + i][line] = r.a_next[i];
      s.b[into][k + i][line] = r.b_next[i];
    }
  }

  ETALON_HD static float extend(float a, float b, float s) {
    if constexpr (Fused)
      return fma_f32(a, b, s);
    else
      return s + a * b;  // two roundings: nothing contracts here
  }

  // The first `count` k of buffer `from`, onto this thread's 8 x 8 sums.
  ETALON_HD static void multiply(const TileShared& s, TileThread& r, int tid, int from, int count) {
#if defined(__CUDACC__)
#pragma unroll 8
#endif
    for (int k = 0; k < count; ++k) {
      float a[8], b[8];
      ETALON_UNROLL
      for (int i = 0; i < 8; i += 4) {
        load_four(&s.a[from][k][row_of(tid, i)], a + i);
        load_four(&s.b[from][k][col_of(tid, i)], b + i);
      }
      ETALON_UNROLL
      for (int i = 0; i < 8; ++i) ETALON_UNROLL
      for (int j = 0; j < 8; ++j) r.sum[i][j] = extend(a[i], b[j], r.sum[i][j]);
    }
  }

  // The chain of one output of a convolution, its taps inside the image alone.
  ETALON_HD ETALON_NOINLINE static float chain(const TileTask& t, std::int64_t product,
                                               std::int64_t m, std::int64_t n) {
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const std::int64_t points = t.window.out_points(), taps = t.window.taps(), p = n % points;
    const std::int64_t z0 = d.at(p / (w.out * h.out), 0), y0 = h.at(p / w.out % h.out, 0),
                       x0 = w.at(p % w.out, 0);
    const float* a = t.a + strided_offset(product, t.batch, t.a_batch) + m * t.a_row;
    const float* b = t.b + strided_offset(product, t.batch, t.b_batch) + n / points * t.image;
    float s = 0;
    for (std::int64_t k = 0; k < t.k; ++k) {
      const std::int64_t tap = k % taps, z = z0 + tap / (w.kernel * h.kernel) * d.dilation,
                         y = y0 + tap / w.kernel % h.kernel * h.dilation,
                         x = x0 + tap % w.kernel * w.dilation;
      if (z < 0 || z >= d.in || y < 0 || y >= h.in || x < 0 || x >= w.in) continue;
      s = extend(a[k * t.a_col], b[((k / taps * d.in + z) * h.in + y) * w.in + x], s);
    }
    return s;
  }

  ETALON_HD static void store(const TileTask& t, const TileThread& r, int tid) {
    const std::int64_t points = Conv ? t.window.out_points() : 1;
    ETALON_UNROLL
    for (int j = 0; j < 8; ++j) {
      const std::int64_t n = r.col0 + col_of(tid, j);
      if (n >= t.n) continue;
      std::int64_t at = r.product * t.y_batch + n, step = t.n;
      if constexpr (Conv) {
        at = r.product * t.y_batch +
             static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(points) * t.out_image +
             static_cast<std::uint32_t>(n) % static_cast<std::uint32_t>(points);
        step = points;
      }
      ETALON_UNROLL
      for (int i = 0; i < 8; ++i) {
        const std::int64_t m = r.row0 + row_of(tid, i);
        if (m >= t.m) continue;
        float v = r.sum[i][j];
        if constexpr (Conv) {
          if (t.padded && !(v < 0 || v > 0)) v = chain(t, r.product, m, n);
          if (t.bias != nullptr) v = v + t.bias[r.product * t.m + m];
        } else {
          if (t.alpha != 1.0F) v = t.alpha * v;
          if (t.c != nullptr) v = extend(t.beta, t.c[m * t.c_row + n * t.c_col], v);
        }
        t.y[at + m * step] = canonical(v);
      }
    }
  }
};

// One block of a task, phase by phase.
template <bool Fused, bool Conv>
void run_tile_on_host(const TileTask& t, std::uint32_t block, TileShared& shared,
                      TileThread* threads) {
  using T = Tile<Fused, Conv>;
  const auto all = [&](auto&& phase) {
    for (int tid = 0; tid < kTileThreads; ++tid) phase(threads[tid], tid);
  };
  all([&](TileThread& r, int tid) { T::begin(t, shared, r, tid, block); });
  all([&](TileThread& r, int tid) { T::fetch(t, shared, r, tid, 0); });
  all([&](TileThread& r, int tid) { T::stash(shared, r, tid, 0); });
  int current = 0;
  for (std::int64_t k0 = 0; k0 < t.k; k0 += kTileK) {
    const int count = t.k - k0 < kTileK ? static_cast<int>(t.k - k0) : kTileK;
    all([&](TileThread& r, int tid) { T::fetch(t, shared, r, tid, k0 + kTileK); });
    all([&](TileThread& r, int tid) { T::multiply(shared, r, tid, current, count); });
    all([&](TileThread& r, int tid) { T::stash(shared, r, tid, 1 - current); });
    current = 1 - current;
  }
  all([&](TileThread& r, int tid) { T::store(t, r, tid); });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
