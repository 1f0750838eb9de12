// gemm, matmul and convolution on f32 units: y[m, n] = sum over k of a[m, k] * b[k, n], one chain
// for each output, k ascending, from +0.
//
// What bounds the loop is the register file: two banks (even and odd registers), one read a cycle
// of each, and an FFMA reads three registers. One of the three comes from the operand cache if the
// FFMA before it read it in the same place. So a k's products go column by column, down and up
// again: b's element stays for a whole column, a's for the turn, and sums and a's elements
// alternate between the banks: 1.11 cycles an FFMA by that model, 1.15 row by row. Lines kept along
// k, whose four k lie in both banks, go row by row: 1.30 and 1.49. Copies are predicated and never
// branched over, so that the compiler mixes them with the products; a slice of 8 k keeps the loop
// in the instruction cache.
#pragma once

#include <type_traits>

#include "kernels/conv/cuda_windows.h"
#include "kernels/gemm/cuda_copies.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// A thread has M x N outputs, a warp LanesM x (32 / LanesM) threads, a block WarpsM x WarpsN warps,
// and Helpers warps that only copy. Slices are K deep, Stages of them in memory, Resident blocks on
// an SM. Keep: operands that lie along k stay so in shared memory.
template <int LanesM, int WarpsM, int WarpsN, int M, int N, int K, int Stages, int Resident,
          bool Keep = false, int Helpers = 0>
struct TileShape {
  static constexpr bool kKeep = Keep;
  static constexpr int kLanesM = LanesM, kLanesN = 32 / LanesM, kWarpsN = WarpsN;
  static constexpr int kM = M, kN = N, kK = K, kStages = Stages, kResident = Resident;
  static constexpr int kRows = LanesM * WarpsM * M, kCols = kLanesN * WarpsN * N;
  static constexpr int kWorkers = 32 * WarpsM * WarpsN, kThreads = kWorkers + 32 * Helpers;
  // Kept lines are read four k at a time, twice: registers for few of them.
  static_assert(K % 8 == 0 && (!Keep || (M <= 4 && N <= 4)));
};

template <class S, bool AlongA, bool AlongB, bool Conv, bool Fused, bool Fours>
struct Tile {
  static_assert(!Conv || !AlongB);
  using Shape = S;
  static constexpr int kThreads = S::kThreads;
  static constexpr bool kKeptA = AlongA && S::kKeep, kKeptB = AlongB && S::kKeep;
  using A = TileCopies<S::kRows, S::kK, S::kThreads, AlongA, kKeptA, Fours>;
  using Matrix = TileCopies<S::kCols, S::kK, S::kThreads, AlongB, kKeptB, Fours && !Conv>;
  using Windows = TileWindows<S::kCols, S::kK, S::kThreads>;
  using B = std::conditional_t<Conv, Windows, Matrix>;
  // Lines of a thread that are neighbours, or one of each group of the lanes.
  static constexpr bool kRowFours = !kKeptA && S::kM % 4 == 0,
                        kColFours = !kKeptB && S::kN % 4 == 0;

  // What a thread multiplies of one operand: of kept lines four k at a time, of others one, the
  // next ones while it multiplies these.
  template <bool Kept, bool ByFours, int Count, int Pitch>
  struct Lines {
    float four[Kept ? 2 : 1][Kept ? Count : 1][4];
    float one[Kept ? 1 : 2][Kept ? 1 : Count];

    // k of all lines, `at` being where line 0 has it.
    template <class Line>
    ETALON_HD void read(const float* at, int k, Line&& line) {
      if constexpr (Kept) {
        if (k % 4 == 0) ETALON_UNROLL
        for (int i = 0; i < Count; ++i) load_four(at + line(i) * Pitch, four[k / 4 % 2][i]);
      } else {
        ETALON_UNROLL
        for (int i = 0; i < Count; i += ByFours ? 4 : 1)
          if constexpr (ByFours)
            load_four(at + line(i), one[k % 2] + i);
          else
            one[k % 2][i] = at[line(i)];
      }
    }
    ETALON_HD float get(int k, int i) const {
      if constexpr (Kept)
        return four[k / 4 % 2][i][k % 4];
      else
        return one[k % 2][i];
    }
  };

  struct alignas(16) Shared {
    float a[S::kStages][A::kFloats], b[S::kStages][B::kFloats];
    std::conditional_t<Conv, typename Windows::Table, int> table;
  };
  struct Thread {
    float sum[S::kM][S::kN];
    A a;
    B b;
    Lines<kKeptA, kRowFours, S::kM, A::kPitch> left;
    Lines<kKeptB, kColFours, S::kN, B::kPitch> right;
  };
  struct Place {
    std::int64_t product = 0, row0 = 0, col0 = 0;
    const float *a = nullptr, *b = nullptr;  // of the block's first row, of its first column
  };

  // ---- where a thread's outputs lie in the tile: neighbours that it reads by fours, or one of
  // each group of the lanes.
  ETALON_HD static int lane_row(int lane) {
    return S::kLanesM == 1   ? 0
           : S::kLanesM == 8 ? lane / 16 * 4 + lane % 4
                             : lane / 16 * 2 + lane % 2;
  }
  ETALON_HD static int lane_col(int lane) {
    return S::kLanesM == 1 ? lane : S::kLanesM == 8 ? lane % 16 / 4 : lane % 16 / 2;
  }
  ETALON_HD static int row_of(int tid, int i) {
    const int first = tid / 32 / S::kWarpsN * (S::kLanesM * S::kM), lane = lane_row(tid % 32);
    return kRowFours ? first + i / 4 * (4 * S::kLanesM) + lane * 4 + i % 4
                     : first + i * S::kLanesM + lane;
  }
  ETALON_HD static int col_of(int tid, int j) {
    const int first = tid / 32 % S::kWarpsN * (S::kLanesN * S::kN), lane = lane_col(tid % 32);
    return kColFours ? first + j / 4 * (4 * S::kLanesN) + lane * 4 + j % 4
                     : first + j * S::kLanesN + lane;
  }

  ETALON_HD static std::int64_t tiles_m(const TileTask& t) {
    return (t.m + S::kRows - 1) / S::kRows;
  }
  ETALON_HD static std::int64_t tiles_n(const TileTask& t) {
    return (t.n + S::kCols - 1) / S::kCols;
  }
  ETALON_HD static std::int64_t blocks(const TileTask& t) {
    return t.batch.numel() * tiles_m(t) * tiles_n(t);
  }

  ETALON_HD static Place place(const TileTask& t, std::uint32_t block) {
    const auto down = static_cast<std::uint32_t>(tiles_m(t)),
               right = static_cast<std::uint32_t>(tiles_n(t));
    const std::uint32_t product = block / (down * right), rest = block % (down * right);
    const std::uint32_t first = rest / (kTilePanel * right) * kTilePanel,
                        at = rest % (kTilePanel * right);
    const std::uint32_t left = down - first, height = left < kTilePanel ? left : kTilePanel;
    Place p;
    p.product = product;
    p.row0 = static_cast<std::int64_t>(first + at % height) * S::kRows;
    p.col0 = static_cast<std::int64_t>(at / height) * S::kCols;
    p.a = t.a + p.row0 * t.a_row;
    p.b = t.b + (Conv ? 0 : p.col0 * t.b_col);
    if (product > 0) {
      p.a += strided_offset(p.product, t.batch, t.a_batch);
      p.b += strided_offset(p.product, t.batch, t.b_batch);
    }
    return p;
  }

  ETALON_HD static float extend(float a, float b, float s) {
    if constexpr (Fused)
      return fma_f32(a, b, s);
    else
      return s + a * b;  // two roundings: nothing contracts here
  }

  // ---- slices

  struct Steps {
    std::int64_t a, b;         // elements from a slice to the next
    int taps, channels, rest;  // of a window: a slice's k are so many channels and taps
    ETALON_HD static Steps of(const TileTask& t) {
      Steps s{};
      s.a = S::kK * t.a_col;
      s.b = Conv ? t.window.in_points() : S::kK * t.b_row;
      if constexpr (Conv) {
        s.taps = static_cast<int>(t.window.taps());
        s.channels = S::kK / s.taps, s.rest = S::kK % s.taps;
      }
      return s;
    }
  };
  // A thread's copies of the slice that has `ks` k or more.
  ETALON_HD static void bring(Shared& s, Thread& r, const Steps& steps, int stage, int ks,
                              int tid) {
    r.a.bring(s.a[stage], ks);
    if constexpr (Conv)
      r.b.bring(s.table, s.b[stage], ks, tid);
    else
      r.b.bring(s.b[stage], ks);
    close_copies();
    r.a.from += steps.a;
    if constexpr (Conv)
      r.b.step(steps.taps, steps.channels, steps.rest, steps.b);
    else
      r.b.from += steps.b;
  }

  // ---- products

  ETALON_HD static const float* at_a(const Shared& s, int stage, int k) {
    return s.a[stage] + (kKeptA ? k : k * A::kPitch);
  }
  ETALON_HD static const float* at_b(const Shared& s, int stage, int k) {
    return s.b[stage] + (kKeptB ? k : k * B::kPitch);
  }
  ETALON_HD static void read(Thread& r, const float* a, const float* b, int k, int tid) {
    r.left.read(a, k, [&](int i) { return row_of(tid, i); });
    r.right.read(b, k, [&](int j) { return col_of(tid, j); });
  }
  // Onto the sums: k of this slice; what k + 1 needs is read meanwhile, from where it lies.
  ETALON_HD static void multiply(Thread& r, const float* a, const float* b, int k, int tid) {
    read(r, a, b, k + 1, tid);
    constexpr int kOuter = kKeptA ? S::kM : S::kN, kInner = kKeptA ? S::kN : S::kM;
    ETALON_UNROLL
    for (int o = 0; o < kOuter; ++o) ETALON_UNROLL
    for (int q = 0; q < kInner; ++q) {
      const int turned = o % 2 == 0 ? q : kInner - 1 - q;
      const int i = kKeptA ? o : turned, j = kKeptA ? turned : o;
      r.sum[i][j] = extend(r.left.get(k, i), r.right.get(k, j), r.sum[i][j]);
    }
  }
  // The last `count` k, fewer than a slice.
  ETALON_HD static void multiply_rest(const Shared& s, Thread& r, int stage, int count, int tid) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int k = 0; k < count; ++k) {
      const float *from_a = at_a(s, stage, k), *from_b = at_b(s, stage, k);
      float a[S::kM], b[S::kN];
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i) a[i] = from_a[row_of(tid, i) * (kKeptA ? A::kPitch : 1)];
      ETALON_UNROLL
      for (int j = 0; j < S::kN; ++j) b[j] = from_b[col_of(tid, j) * (kKeptB ? B::kPitch : 1)];
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i) ETALON_UNROLL
      for (int j = 0; j < S::kN; ++j) r.sum[i][j] = extend(a[i], b[j], r.sum[i][j]);
    }
  }

  // ---- outputs

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

  // What follows the sum of row m, column n.
  ETALON_HD static float finish(const TileTask& t, float v, float bias, std::int64_t m,
                                std::int64_t n) {
    if constexpr (!Conv) v = t.alpha * v;  // an alpha of 1 changes nothing
    if (t.bias != nullptr) v = v + bias;
    if constexpr (!Conv)
      if (t.c != nullptr) v = extend(t.beta, t.c[m * t.c_row + n * t.c_col], v);
    return canonical(v);
  }
  // Element of y where row 0 of column n lies; n is there.
  ETALON_HD static std::int64_t column_at(const TileTask& t, std::int64_t n) {
    if constexpr (Conv) {
      const auto pixel = static_cast<std::uint32_t>(n),
                 points = static_cast<std::uint32_t>(t.y_row);
      return pixel / points * t.out_image + pixel % points;
    }
    return n * t.y_col;
  }
  // Of y^T, rows of which are neighbours in y: by fours of a column.
  ETALON_HD static void store_turned(const TileTask& t, const Place& p, const Thread& r, int tid) {
    float* const y = t.y + p.product * t.y_batch;
    ETALON_UNROLL
    for (int j = 0; j < S::kN; ++j) {
      const std::int64_t n = p.col0 + col_of(tid, j);
      if (n >= t.n) continue;
      ETALON_UNROLL
      for (int g = 0; g < S::kM; g += 4) {
        const std::int64_t m = p.row0 + row_of(tid, g);
        if (m >= t.m) continue;
        float v[4];
        ETALON_UNROLL
        for (int i = 0; i < 4; ++i) v[i] = finish(t, r.sum[g + i][j], 0, m + i, n);
        store_four(y + n * t.y_col + m, v);
      }
    }
  }

  ETALON_HD static void store(const TileTask& t, const Place& p, const Thread& r, int tid) {
    if constexpr (!Conv && kRowFours)
      if (t.y_fours && t.y_col != 1) return store_turned(t, p, r, tid);
    const bool fours = t.y_fours && (Conv || t.y_col == 1);
    constexpr int kEach = kColFours ? 4 : 1, kGroups = S::kN / kEach;
    using Mask = std::conditional_t<(S::kM * kEach > 32), std::uint64_t, std::uint32_t>;
    float* const y = t.y + p.product * t.y_batch;
    const float* const bias =
        t.bias == nullptr ? nullptr : t.bias + p.product % t.bias_products * t.m;
    // Outputs of a convolution with padding that are zero or NaN: computed once more.
    Mask open[kGroups] = {};
    float by_row[S::kM];
    ETALON_UNROLL
    for (int i = 0; i < S::kM; ++i) {
      const std::int64_t m = p.row0 + row_of(tid, i);
      by_row[i] = bias != nullptr && m < t.m ? bias[m] : 0.0F;
    }
    ETALON_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const std::int64_t n = p.col0 + col_of(tid, g * kEach);
      if (n >= t.n) continue;
      std::int64_t at[kEach];
      at[0] = column_at(t, n);
      ETALON_UNROLL
      for (int c = 1; c < kEach; ++c)
        at[c] = fours || n + c >= t.n ? at[0] + c : column_at(t, n + c);
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i) {
        const std::int64_t m = p.row0 + row_of(tid, i);
        if (m >= t.m) continue;
        float v[kEach];
        ETALON_UNROLL
        for (int c = 0; c < kEach; ++c) {
          const float sum = r.sum[i][g * kEach + c];
          if constexpr (Conv)
            if (!(sum < 0 || sum > 0)) open[g] |= Mask{1} << (i * kEach + c);
          v[c] = finish(t, sum, by_row[i], m, n + c < t.n ? n + c : n);
        }
        if constexpr (kEach == 4)
          if (fours) {
            store_four(y + at[0] + m * t.y_row, v);
            continue;
          }
        ETALON_UNROLL
        for (int c = 0; c < kEach; ++c)
          if (n + c < t.n) y[at[c] + m * t.y_row] = v[c];
      }
    }
    if constexpr (Conv) {
      if (!t.padded) return;
      ETALON_UNROLL
      for (int g = 0; g < kGroups; ++g)
#if defined(__CUDACC__)
#pragma unroll 1
#endif
        for (Mask left = open[g]; left != 0; left &= left - 1) {
          const int bit = first_bit(left), i = bit / kEach, c = bit % kEach;
          const std::int64_t m = p.row0 + row_of(tid, i), n = p.col0 + col_of(tid, g * kEach) + c;
          if (n < t.n)
            y[column_at(t, n) + m * t.y_row] =
                finish(t, chain(t, p.product, m, n), bias != nullptr ? bias[m] : 0.0F, m, n);
        }
    }
  }

  // Known when this is compiled where all do, so that no branch parts what the compiler mixes.
  ETALON_HD static bool works(int tid) { return S::kWorkers == S::kThreads || tid < S::kWorkers; }

  // One block. `arrived` waits for the copies of all slices but the last kStages - 2 that were
  // begun, and for all threads.
  template <class Threads>
  ETALON_HD static void run(const TileTask& t, std::uint32_t block, Shared& s,
                            const Threads& threads) {
    const Place p = place(t, block);
    const Steps steps = Steps::of(t);
    // k of the next slice to bring and of all behind it; none is negative.
    int left = static_cast<int>(t.k);
    threads.phase([&](Thread& r, int tid) {
      ETALON_UNROLL
      for (auto& row : r.sum) ETALON_UNROLL
      for (float& v : row) v = 0;
      r.a.begin(p.a, t.a_row, t.a_col, t.m - p.row0, tid);
      if constexpr (Conv) {
        Windows::fill(t, s.table, tid);
        r.b.begin(t, p.b, p.col0, tid);
      } else {
        r.b.begin(p.b, t.b_col, t.b_row, t.n - p.col0, tid);
      }
    });
    if constexpr (Conv) threads.together();  // the taps' places are there
    for (int stage = 0; stage < S::kStages - 1; ++stage, left -= S::kK)
      threads.phase([&](Thread& r, int tid) { bring(s, r, steps, stage, left, tid); });
    threads.arrived();
    threads.phase([&](Thread& r, int tid) {
      if (works(tid)) read(r, s.a[0], s.b[0], 0, tid);
    });
    int stage = 0, rest = static_cast<int>(t.k);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (; rest >= S::kK; rest -= S::kK, left -= S::kK) {
      const int next = stage + 1 == S::kStages ? 0 : stage + 1,
                before = stage == 0 ? S::kStages - 1 : stage - 1;
      threads.phase([&](Thread& r, int tid) {
        bring(s, r, steps, before, left,
              tid);  // into the slice that all had read when they arrived
        if (!works(tid)) return;
        ETALON_UNROLL
        for (int k = 0; k + 1 < S::kK; ++k)
          multiply(r, at_a(s, stage, k + 1), at_b(s, stage, k + 1), k, tid);
      });
      threads.arrived();
      // The first k of a slice that is not there is read too: it meets no output.
      threads.phase([&](Thread& r, int tid) {
        if (works(tid)) multiply(r, at_a(s, next, 0), at_b(s, next, 0), S::kK - 1, tid);
      });
      stage = next;
    }
    threads.phase([&](Thread& r, int tid) {
      if (!works(tid)) return;
      if (rest > 0) multiply_rest(s, r, stage, rest, tid);
      store(t, p, r, tid);
    });
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
