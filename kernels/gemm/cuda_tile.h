// gemm, matmul and convolution on f32 units: y[m, n] = sum over k of a[m, k] * b[k, n], one chain
// for each output, k ascending, from +0.
//
// Contract: seq, and seq with fma=off (each product rounded). Loops: a block owns kRows x kCols
// outputs, a thread kM x kN of them in registers. k goes by slices of kK through shared memory,
// kStages of them: one is multiplied, the others are on their way by cp.async, past the registers.
// All products of a batch and all groups of a convolution are one launch; blocks go down eight
// tiles of rows before they step to the right, so that those that run at a time share what they
// read. In shared memory a slice is [k][line] (a line: a row of a, a column of b), whichever way
// it lies in global memory, and a thread reads four lines of a k at a time, those of the next k
// while it multiplies these. Where a warp has a tile of its own (kKeep), an operand that lies along
// k stays so, [line][k], and four k of a line are read at a time.
//
// Same bits as the definition: an output is in one thread's register from its first product to its
// last; shapes, slices and blocks move loads and stores, never an addition; a last slice ends where
// k ends. So any shape may be taken for any call (cuda_tile_choice.h), and rows and columns may
// change places. A tap in the padding is no term of a convolution. Here it is one, with b = 0,
// which changes a chain in two cases only: where the weight is not finite (then the result is NaN),
// and where the chain so far is a zero, whose sign may change. A chain that ends neither in NaN nor
// in zero met neither: fma(w, 0, s) = s for s != 0, and once a product moves a zero away from zero,
// its sign is forgotten. So an output that is NaN or zero is computed once more, with its own taps
// alone.
//
// Limit: an SM issues 128 fma a cycle. For 128 x 256 outputs a thread reads 24 floats from shared
// memory for each 128 fma; what brings slices is kept to a few instructions a copy, for a warp
// that waits for addresses multiplies nothing: a general form of it took half of the time again.
//
// The text is host and device. `Threads` runs a phase for all threads of a block, so that tests
// compare bits on the CPU: same indices, same order of additions.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Lanes of a warp along rows, warps of a block along rows and columns, outputs of a thread, k of a
// slice, slices in shared memory, blocks that an SM is to hold. Helpers: warps that bring slices
// and multiply nothing, beside one that waits for its own chains.
template <int LanesM, int WarpsM, int WarpsN, int M, int N, int K, int Stages, int Resident,
          bool Keep = false, int Helpers = 0>
struct TileShape {
  static constexpr int kLanesM = LanesM, kLanesN = 32 / LanesM, kWarpsN = WarpsN;
  static constexpr int kM = M, kN = N, kK = K, kStages = Stages, kResident = Resident;
  static constexpr int kRows = LanesM * WarpsM * M, kCols = kLanesN * WarpsN * N;
  static constexpr int kWorkers = 32 * WarpsM * WarpsN, kThreads = kWorkers + 32 * Helpers;
  static constexpr bool kKeep = Keep;
  static_assert(K % 8 == 0);  // what is read ahead of a slice's end is in the other registers
};

// What a thread brings of every slice of one operand: Lines x K elements by all threads. Fours:
// neighbours are brought 16 bytes at a time, which asks for addresses at multiples of 16 and lines
// in fours (cuda_tile_choice.h looks).
template <int Lines, int K, int Threads, bool AlongK, bool Kept, bool Fours>
struct TileCopies {
  static_assert(AlongK || !Kept);
  // Elements a copy: one where a line along k is laid across.
  static constexpr int kEach = Fours && (Kept || (!AlongK && Lines >= 4)) ? 4 : 1;
  static constexpr int kPitch = Kept ? K + 4 : AlongK ? Lines + 4 : Lines;
  static constexpr int kFloats = (Kept ? Lines : K) * kPitch;
  static constexpr int kAll = Lines * K / kEach, kActive = kAll < Threads ? kAll : Threads;
  static constexpr int kCount = kAll / kActive;
  // Copies that lie side by side; from one of a thread's to its next: lines, or k.
  static constexpr int kPer = (AlongK ? K : Lines) / kEach, kNext = kActive / kPer;
  static_assert(kCount * kActive == kAll && kNext * kPer == kActive);
  static constexpr int kToNext = AlongK && !Kept ? kNext : kNext * kPitch;

  const float* from;             // where the next slice begins
  std::uint32_t offset[kCount];  // elements
  int place;                     // in the slice
  int first;                     // the copies' k (along k); the first one's
  int there;                     // of this thread's copies, those whose lines are there
  bool whole;                    // all of all threads' are
  bool idle;                     // there are fewer copies than threads

  ETALON_HD void begin(const float* at, std::int64_t line_stride, std::int64_t k_stride,
                       std::int64_t lines, int tid) {
    const int outer = tid / kPer, inner = tid % kPer * kEach;
    const int line = AlongK ? outer : inner, k = AlongK ? inner : outer;
    from = at;
    place = AlongK && !Kept ? k * kPitch + line : outer * kPitch + inner;
    first = k;
    whole = lines >= Lines && kActive == Threads;
    idle = tid >= kActive;
    there = 0;
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t l = AlongK ? line + i * kNext : line;
      offset[i] =
          static_cast<std::uint32_t>(l * line_stride + (AlongK ? k : k + i * kNext) * k_stride);
      if (l < lines) there = i + 1;
    }
  }
  // The slice of `ks` k or more; zeros for what is not there.
  ETALON_HD void bring(float* slice, std::int64_t ks, std::int64_t k_stride) {
    float* const to = slice + place;
    if (ks >= K && whole) {
      ETALON_UNROLL
      for (int i = 0; i < kCount; ++i)
        if constexpr (kEach == 4)
          copy_16(to + i * kToNext, from + offset[i]);
        else
          copy_4(to + i * kToNext, from + offset[i]);
      from += K * k_stride;
      return;
    }
    if (kActive < Threads && idle) return;
    const int most = ks < K ? static_cast<int>(ks) : K;
    ETALON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int left = most - (AlongK ? first : first + i * kNext);
      // Four of them along k, or lines of one k.
      const int count = i >= there || left <= 0 ? 0
                        : AlongK                ? (left < kEach ? left : kEach)
                                                : kEach;
      if constexpr (kEach == 4)
        copy_16(to + i * kToNext, from + (count > 0 ? offset[i] : 0), count * 4);
      else
        copy_4(to + i * kToNext, from + (count > 0 ? offset[i] : 0), count * 4);
    }
    from += K * k_stride;
  }
};

// The pixels under a convolution's taps, one column (a window) a thread: the masks of the taps that
// lie inside the image, and where the next tap is.
struct TileWindow {
  std::int64_t at = 0, channel_at = 0;  // of tap 0; of the channel
  std::uint64_t inside_low = 0, inside_high = 0;
  int tap = 0;
};

template <class S, bool AlongA, bool AlongB, bool Conv, bool Fused, bool Fours>
struct Tile {
  static_assert(!Conv || !AlongB);
  using Shape = S;
  static constexpr int kThreads = S::kThreads;
  static constexpr bool kKeptA = AlongA && S::kKeep, kKeptB = AlongB && S::kKeep;
  using A = TileCopies<S::kRows, S::kK, S::kThreads, AlongA, kKeptA, Fours>;
  using B = TileCopies<S::kCols, S::kK, S::kThreads, AlongB, kKeptB, Fours && !Conv>;
  // Lines of a thread that are neighbours, or one of each group of the lanes.
  static constexpr bool kRowFours = !kKeptA && S::kM % 4 == 0,
                        kColFours = !kKeptB && S::kN % 4 == 0;
  // One k of a slice, as a thread multiplies it: its lines of one operand.
  template <bool Kept, bool ByFours, int Count, int Pitch>
  struct Lines {
    float four[Kept ? 2 : 1][Kept ? Count : 1][4];
    float one[2][Count];

    template <class Line>
    ETALON_HD void read(const float* slice, int k, Line&& line) {
      ETALON_UNROLL
      for (int i = 0; i < Count; i += ByFours ? 4 : 1) {
        if constexpr (Kept) {
          if (k % 4 == 0) load_four(slice + line(i) * Pitch + k, four[k / 4 % 2][i]);
        } else if constexpr (ByFours) {
          load_four(slice + k * Pitch + line(i), one[k % 2] + i);
        } else {
          one[k % 2][i] = slice[k * Pitch + line(i)];
        }
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
    int tap_at[Conv ? kTileMostTaps : 4];  // a tap's element beside that of tap 0
  };
  struct Thread {
    float sum[S::kM][S::kN];
    A a;
    B b;
    TileWindow window;
    Lines<kKeptA, kRowFours, S::kM, A::kPitch> left;
    Lines<kKeptB, kColFours, S::kN, B::kPitch> right;
  };
  struct Place {
    std::int64_t product = 0, row0 = 0, col0 = 0;
    const float *a = nullptr, *b = nullptr;  // of the block's first row, of its first column
  };

  // ---- where a thread's outputs lie in the tile: neighbours that it reads by fours, or one of
  // each group of the lanes.
  ETALON_HD static int lane_row(int lane) { return S::kLanesM == 1 ? 0 : lane / 16 * 2 + lane % 2; }
  ETALON_HD static int lane_col(int lane) { return S::kLanesM == 1 ? lane : lane % 16 / 2; }
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
    p.a = t.a + strided_offset(p.product, t.batch, t.a_batch) + p.row0 * t.a_row;
    p.b = t.b + strided_offset(p.product, t.batch, t.b_batch) + (Conv ? 0 : p.col0 * t.b_col);
    return p;
  }

  // ---- a convolution's windows

  static constexpr int kShares = Conv ? S::kThreads / S::kCols : 1;  // threads of a column
  static constexpr int kShareK = S::kK / kShares;                    // k that one brings of a slice
  static_assert(!Conv || (kShares > 0 && kShares * S::kCols == S::kThreads));

  ETALON_HD static void begin_windows(const TileTask& t, const Place& p, Shared& s, TileWindow& r,
                                      int tid) {
    const WindowAxis &d = t.window.axes[0], &h = t.window.axes[1], &w = t.window.axes[2];
    const int taps = static_cast<int>(t.window.taps());
    const auto axis = [](std::int64_t of) { return static_cast<std::uint32_t>(of); };
    for (int i = tid; i < taps; i += S::kThreads) {
      const auto tap = static_cast<std::uint32_t>(i);
      const std::uint32_t rx = tap % axis(w.kernel), ry = tap / axis(w.kernel) % axis(h.kernel),
                          rz = tap / axis(w.kernel * h.kernel);
      s.tap_at[i] =
          static_cast<int>((rz * d.dilation * h.in + ry * h.dilation) * w.in + rx * w.dilation);
    }
    const std::int64_t n = p.col0 + tid % S::kCols;
    const int k = tid / S::kCols * kShareK;
    const auto pixel = static_cast<std::uint32_t>(n < t.n ? n : 0);
    const std::uint32_t points = axis(t.window.out_points()), o = pixel % points;
    const std::int64_t z0 = d.at(o / axis(w.out * h.out), 0),
                       y0 = h.at(o / axis(w.out) % axis(h.out), 0), x0 = w.at(o % axis(w.out), 0);
    r.at = pixel / points * t.image + (z0 * h.in + y0) * w.in + x0;
    r.inside_low = r.inside_high = 0;
    if (n < t.n) {
      int tap = 0;
      for (std::int64_t z = z0; z < z0 + d.kernel * d.dilation; z += d.dilation)
        for (std::int64_t y = y0; y < y0 + h.kernel * h.dilation; y += h.dilation)
          for (std::int64_t x = x0; x < x0 + w.kernel * w.dilation; x += w.dilation, ++tap)
            if (z >= 0 && z < d.in && y >= 0 && y < h.in && x >= 0 && x < w.in)
              (tap < 64 ? r.inside_low : r.inside_high) |= std::uint64_t{1} << (tap % 64);
    }
    r.tap = k % taps;
    r.channel_at = k / taps * t.window.in_points();
  }
  ETALON_HD static void bring_windows(const TileTask& t, const Place& p, Shared& s, TileWindow& r,
                                      int stage, std::int64_t ks, int tid) {
    const int taps = static_cast<int>(t.window.taps()), k = tid / S::kCols * kShareK;
    const std::int64_t plane = t.window.in_points();
    float* to = s.b[stage] + k * B::kPitch + tid % S::kCols;
    ETALON_UNROLL
    for (int i = 0; i < kShareK; ++i, to += B::kPitch) {
      const std::uint64_t inside = r.tap < 64 ? r.inside_low : r.inside_high;
      const bool on = k + i < ks && (inside >> (r.tap % 64) & 1) != 0;
      copy_4(to, p.b + (on ? r.at + r.channel_at + s.tap_at[r.tap] : 0), on ? 4 : 0);
      if (++r.tap == taps) {
        r.tap = 0;
        r.channel_at += plane;
      }
    }
    if constexpr (kShares > 1) {  // the rest of the slice is other threads'
      constexpr int kOthers = S::kK - kShareK;
      r.tap += kOthers % taps;
      r.channel_at += kOthers / taps * plane;
      if (r.tap >= taps) {
        r.tap -= taps;
        r.channel_at += plane;
      }
    }
  }

  // ---- slices

  // A thread's share of the slice that starts at k0, into its stage; slices come one after the
  // other.
  ETALON_HD static void bring(const TileTask& t, const Place& p, Shared& s, Thread& r, int stage,
                              std::int64_t k0, int tid) {
    const std::int64_t ks = t.k - k0;
    if (ks > 0) {
      r.a.bring(s.a[stage], ks, t.a_col);
      if constexpr (Conv)
        bring_windows(t, p, s, r.window, stage, ks, tid);
      else
        r.b.bring(s.b[stage], ks, t.b_row);
    }
    close_copies();
  }

  ETALON_HD static float extend(float a, float b, float s) {
    if constexpr (Fused)
      return fma_f32(a, b, s);
    else
      return s + a * b;  // two roundings: nothing contracts here
  }

  // k of a slice into registers; onto this thread's sums.
  ETALON_HD static void read(const Shared& s, Thread& r, int tid, int stage, int k) {
    r.left.read(s.a[stage], k, [&](int i) { return row_of(tid, i); });
    r.right.read(s.b[stage], k, [&](int j) { return col_of(tid, j); });
  }
  ETALON_HD static void multiply(Thread& r, int k) {
    ETALON_UNROLL
    for (int i = 0; i < S::kM; ++i) ETALON_UNROLL
    for (int j = 0; j < S::kN; ++j) {
      // There and back again: what neighbours share stays where it was read.
      const int c = i % 2 == 0 ? j : S::kN - 1 - j;
      r.sum[i][c] = extend(r.left.get(k, i), r.right.get(k, c), r.sum[i][c]);
    }
  }
  // The last `count` k, fewer than a slice.
  ETALON_HD static void multiply_rest(const float* slice_a, const float* slice_b, Thread& r,
                                      int tid, int count) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int k = 0; k < count; ++k) {
      float a[S::kM], b[S::kN];
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i)
        a[i] = slice_a[kKeptA ? row_of(tid, i) * A::kPitch + k : k * A::kPitch + row_of(tid, i)];
      ETALON_UNROLL
      for (int j = 0; j < S::kN; ++j)
        b[j] = slice_b[kKeptB ? col_of(tid, j) * B::kPitch + k : k * B::kPitch + col_of(tid, j)];
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i) ETALON_UNROLL
      for (int j = 0; j < S::kN; ++j) r.sum[i][j] = extend(a[i], b[j], r.sum[i][j]);
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

  // Outputs that are neighbours in y, 16 bytes a store: by fours of a row, or of a column.
  template <bool Rows>
  ETALON_HD static void store_fours(const TileTask& t, const Place& p, const Thread& r, int tid) {
    constexpr int kOuter = Rows ? S::kN : S::kM, kInner = Rows ? S::kM : S::kN;
    const std::int64_t step = Rows ? t.y_col : t.y_row, outers = Rows ? t.n : t.m,
                       inners = Rows ? t.m : t.n, outer0 = Rows ? p.col0 : p.row0,
                       inner0 = Rows ? p.row0 : p.col0;
    float* const y = t.y + p.product * t.y_batch;
    ETALON_UNROLL
    for (int i = 0; i < kOuter; ++i) {
      const std::int64_t outer = outer0 + (Rows ? col_of(tid, i) : row_of(tid, i));
      if (outer >= outers) continue;
      ETALON_UNROLL
      for (int j = 0; j < kInner; j += 4) {
        const std::int64_t inner = inner0 + (Rows ? row_of(tid, j) : col_of(tid, j));
        if (inner >= inners) continue;
        float v[4];
        ETALON_UNROLL
        for (int k = 0; k < 4; ++k) {
          v[k] = Rows ? r.sum[j + k][i] : r.sum[i][j + k];
          if (t.alpha != 1.0F) v[k] = t.alpha * v[k];
          if (t.bias != nullptr)
            v[k] = v[k] + t.bias[p.product % t.bias_products * t.m + (Rows ? inner + k : outer)];
          v[k] = canonical(v[k]);
        }
        store_four(y + outer * step + inner, v);
      }
    }
  }

  ETALON_HD static void store(const TileTask& t, const Place& p, const Thread& r, int tid) {
    if constexpr (!Conv && Fours && kColFours)
      if (t.y_fours && t.y_col == 1) return store_fours<false>(t, p, r, tid);
    if constexpr (!Conv && Fours && kRowFours)
      if (t.y_fours && t.y_row == 1) return store_fours<true>(t, p, r, tid);
    const std::int64_t points = Conv ? t.window.out_points() : 1;
    ETALON_UNROLL
    for (int j = 0; j < S::kN; ++j) {
      const std::int64_t n = p.col0 + col_of(tid, j);
      if (n >= t.n) continue;
      std::int64_t at = p.product * t.y_batch + n * t.y_col, step = t.y_row;
      if constexpr (Conv) {
        at = p.product * t.y_batch +
             static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(points) * t.out_image +
             static_cast<std::uint32_t>(n) % static_cast<std::uint32_t>(points);
        step = points;
      }
      ETALON_UNROLL
      for (int i = 0; i < S::kM; ++i) {
        const std::int64_t m = p.row0 + row_of(tid, i);
        if (m >= t.m) continue;
        float v = r.sum[i][j];
        if constexpr (Conv)
          if (t.padded && !(v < 0 || v > 0)) v = chain(t, p.product, m, n);
        if (t.alpha != 1.0F) v = t.alpha * v;
        if (t.bias != nullptr) v = v + t.bias[p.product % t.bias_products * t.m + m];
        if (t.c != nullptr) v = extend(t.beta, t.c[m * t.c_row + n * t.c_col], v);
        t.y[at + m * step] = canonical(v);
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
    threads.phase([&](Thread& r, int tid) {
      ETALON_UNROLL
      for (auto& row : r.sum) ETALON_UNROLL
      for (float& v : row) v = 0;
      r.a.begin(p.a, t.a_row, t.a_col, t.m - p.row0, tid);
      if constexpr (Conv)
        begin_windows(t, p, s, r.window, tid);
      else
        r.b.begin(p.b, t.b_col, t.b_row, t.n - p.col0, tid);
    });
    if constexpr (Conv) threads.together();  // the taps' places are there
    threads.phase([&](Thread& r, int tid) {
      for (int i = 0; i < S::kStages - 1; ++i) bring(t, p, s, r, i, i * S::kK, tid);
    });
    threads.arrived();
    threads.phase([&](Thread& r, int tid) {
      if (works(tid)) read(s, r, tid, 0, 0);
    });
    int stage = 0;
    std::int64_t k0 = 0;
    for (; k0 + S::kK <= t.k; k0 += S::kK) {
      const int next = stage + 1 == S::kStages ? 0 : stage + 1,
                before = stage == 0 ? S::kStages - 1 : stage - 1;
      threads.phase([&](Thread& r, int tid) {
        // Into the slice that all had read when they arrived.
        bring(t, p, s, r, before, k0 + (S::kStages - 1) * S::kK, tid);
        if (!works(tid)) return;
        ETALON_UNROLL
        for (int k = 0; k + 1 < S::kK; ++k) {
          read(s, r, tid, stage, k + 1);
          multiply(r, k);
        }
      });
      threads.arrived();
      threads.phase([&](Thread& r, int tid) {
        if (!works(tid)) return;
        read(s, r, tid, next, 0);  // of a slice that is not there too: it meets no output
        multiply(r, S::kK - 1);
      });
      stage = next;
    }
    threads.phase([&](Thread& r, int tid) {
      if (!works(tid)) return;
      if (k0 < t.k) multiply_rest(s.a[stage], s.b[stage], r, tid, static_cast<int>(t.k - k0));
      store(t, p, r, tid);
    });
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
