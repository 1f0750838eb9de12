// A block of a step of cuda_scan.h: gates' sums over the state for a tile of units and rows, then
// the units.
#pragma once

#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_tile.h"
#include "kernels/recurrent/cuda_scan.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <ScanPhase phase, int Across, int Rows>
struct ScanBlock {
  static constexpr ScanGates kGates = scan_gates(phase);
  static constexpr int kColumns = kGates.units * kGates.count;  // of a thread
  static constexpr int kBlockRows = kScanThreads / Across * Rows;
  static constexpr int kBlockUnits = Across * kGates.units, kBlockColumns = Across * kColumns;
  static constexpr int kSliceBytes =
      kScanK * (kBlockRows + kBlockColumns) * static_cast<int>(sizeof(float));
  static constexpr int kStages =
      kScanSharedBytes / kSliceBytes < 6 ? kScanSharedBytes / kSliceBytes : 6;
  static_assert(kStages >= 3);
  static constexpr int kOwn = Rows * kGates.units;  // units of a thread, each in each of its rows
  static_assert(kBlockRows % 4 == 0 && kBlockColumns % 4 == 0 && kBlockColumns <= kScanBiases);
  static_assert(kScanAlign % kBlockRows == 0 && kScanAlign % kBlockUnits == 0);

  struct Slices {
    float state[kStages][kScanK * kBlockRows];
    float weights[kStages][kScanK * kBlockColumns];
  };
  // Each thread's own, when the products are done.
  struct Results {
    float sums[kOwn * kGates.count][kScanThreads];
    float h[kOwn][kScanThreads], second[kOwn][kScanThreads];
  };
  struct alignas(16) Shared {
    union {
      Slices slices;
      Results results;
    };
    float biases[2][kScanBiases];
  };
  struct Thread {
    float sum[Rows][kColumns];
    float h[kOwn], second[kOwn];
    // Its first piece of the next slice to be loaded.
    const float *state = nullptr, *weights = nullptr;
  };
  struct Place {
    std::int64_t d, row0, unit0;
    const float *state, *weights;  // of the block, at k = 0
  };

  ETALON_HD static Place place(const ScanTask& t, const ScanStep& step, std::uint32_t block) {
    const RecurrentGeometry& g = t.p.g;
    const auto by_rows = static_cast<std::uint32_t>((g.batch + kBlockRows - 1) / kBlockRows),
               by_units = static_cast<std::uint32_t>((g.hidden + kBlockUnits - 1) / kBlockUnits);
    const std::uint32_t tile = block / by_rows;  // by direction, then units
    Place p;
    p.d = tile / by_units;
    p.row0 = static_cast<std::int64_t>(block % by_rows) * kBlockRows;
    p.unit0 = static_cast<std::int64_t>(tile % by_units) * kBlockUnits;
    p.state = (phase == ScanPhase::gru_candidate ? t.reset : t.h[step.number % 2]) +
              p.d * g.hidden * t.rows + p.row0;
    p.weights = t.weights[kGates.first == 0 ? 0 : 1] +
                static_cast<std::int64_t>(tile) * g.hidden * kBlockColumns;
    return p;
  }

  ETALON_HD static int row_of(int tid, int i) { return tid / Across * Rows + i; }
  ETALON_HD static int unit_of(int tid, int u) { return tid % Across * kGates.units + u; }

  // What no step changes: biases, by unit, then gate.
  ETALON_HD static void load_biases(const ScanTask& t, const Place& p, Shared& s, int tid) {
    if (t.bias == nullptr || tid >= kBlockColumns) return;
    const std::int64_t q = kGates.first + tid % kGates.count, j = p.unit0 + tid / kGates.count;
    if (j >= t.p.g.hidden) return;
    copy_4(&s.biases[0][tid], t.bias + t.p.bias_at(p.d, q, j, false), 4);
    copy_4(&s.biases[1][tid], t.bias + t.p.bias_at(p.d, q, j, true), 4);
  }

  // What a thread's units begin with, on its way while the products are made; the chains stand
  // where the terms of x end.
  ETALON_HD static void begin(const ScanTask& t, const ScanStep& step, const Place& p, Thread& r,
                              int tid) {
    const RecurrentGeometry& g = t.p.g;
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) {
      const std::int64_t b = p.row0 + row_of(tid, i);
      const float* const sums = t.sums + (b < g.batch ? step.sums_at(t, p.d, b) : 0);
      ETALON_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const int q = kGates.first + n % kGates.count;
        const std::int64_t j = p.unit0 + unit_of(tid, n / kGates.count);
        const bool own = phase == ScanPhase::gru_linear && q == 2;  // a sum over the state alone
        r.sum[i][n] = !own && b < g.batch && j < g.hidden
                          ? sums[g.block_of[static_cast<std::size_t>(q)] * g.hidden + j]
                          : 0.0F;
      }
      ETALON_UNROLL
      for (int u = 0; u < kGates.units; ++u) {
        const std::int64_t j = p.unit0 + unit_of(tid, u), at = t.state_at(p.d, j, b);
        const bool there = b < g.batch && j < g.hidden;
        float &h = r.h[i * kGates.units + u], &second = r.second[i * kGates.units + u];
        h = there ? t.h[step.number % 2][at] : 0.0F;
        second = 0;
        if constexpr (phase == ScanPhase::lstm) second = there ? t.c[at] : 0.0F;
        if constexpr (phase == ScanPhase::gru_candidate) second = there ? t.z[at] : 0.0F;
        if constexpr (phase == ScanPhase::gru_linear)
          second = there ? sums[g.block_of[2] * g.hidden + j] : 0.0F;
      }
    }
  }

  // How many k the slice that starts at k0 has; 0 or less behind the last. It is not held at 0: for
  // sm_90, ptxas 13.0 gets max(min(left, kScanK), 0) == kScanK wrong (docs/adr/0013).
  ETALON_HD static int slice(const ScanTask& t, int k0) {
    const int left = static_cast<int>(t.p.g.hidden) - k0;
    return left < kScanK ? left : kScanK;
  }
  // A thread's share of a slice, in pieces of 16 bytes.
  ETALON_HD static void load_state(const ScanTask& t, Shared& s, Thread& r, int stage, int k0,
                                   int tid) {
    constexpr int kPieces = kBlockRows / 4;  // of a k
    static_assert(kScanThreads % kPieces == 0);
    const int end = slice(t, k0) * kPieces;
    ETALON_UNROLL
    for (int i = 0; i < kScanK * kPieces; i += kScanThreads)
      if (i + tid < end)
        copy_16(&s.slices.state[stage][(i + tid) * 4], r.state + i / kPieces * t.rows);
    r.state += kScanK * t.rows;
  }
  ETALON_HD static void load_weights(const ScanTask& t, Shared& s, Thread& r, int stage, int k0,
                                     int tid) {
    constexpr int kPieces = kBlockColumns / 4;
    const int end = slice(t, k0) * kPieces;
    ETALON_UNROLL
    for (int i = 0; i < kScanK * kPieces; i += kScanThreads)
      if (i + tid < end) copy_16(&s.slices.weights[stage][(i + tid) * 4], r.weights + i * 4);
    r.weights += kScanK * kBlockColumns;
  }

  // `count` k of a stage; kScanK of them where it is whole.
  template <bool whole>
  ETALON_HD static void multiply(const Shared& s, Thread& r, int tid, int stage, int count) {
#if defined(__CUDACC__)
#pragma unroll(whole ? 16 : 1)
#endif
    for (int k = 0; k < (whole ? kScanK : count); ++k) {
      float state[Rows], weights[kColumns];
      const float *const h = &s.slices.state[stage][k * kBlockRows + row_of(tid, 0)],
                         *const w =
                             &s.slices.weights[stage][k * kBlockColumns + tid % Across * kColumns];
      if constexpr (Rows % 4 == 0) {
        ETALON_UNROLL
        for (int i = 0; i < Rows; i += 4) load_four(h + i, state + i);
      } else {
        ETALON_UNROLL
        for (int i = 0; i < Rows; ++i) state[i] = h[i];
      }
      if constexpr (kColumns == 4) {
        load_four(w, weights);
      } else {
        ETALON_UNROLL
        for (int n = 0; n < kColumns; ++n) weights[n] = w[n];
      }
      ETALON_UNROLL
      for (int i = 0; i < Rows; ++i) ETALON_UNROLL
      for (int n = 0; n < kColumns; ++n) r.sum[i][n] = fma_f32(weights[n], state[i], r.sum[i][n]);
    }
  }

  // What follows the sums, a unit at a time: from memory, for they are found by number.
  ETALON_HD static void finish(const ScanTask& t, const ScanStep& step, const Place& p, Shared& s,
                               const Thread& r, int tid) {
    ETALON_UNROLL
    for (int i = 0; i < Rows; ++i) ETALON_UNROLL
    for (int n = 0; n < kColumns; ++n) s.results.sums[i * kColumns + n][tid] = r.sum[i][n];
    ETALON_UNROLL
    for (int e = 0; e < kOwn; ++e) {
      s.results.h[e][tid] = r.h[e];
      s.results.second[e][tid] = r.second[e];
    }
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (int e = 0; e < kOwn; ++e) {
      const int unit = unit_of(tid, e % kGates.units);
      const std::int64_t b = p.row0 + row_of(tid, e / kGates.units), j = p.unit0 + unit;
      if (b < t.p.g.batch && j < t.p.g.hidden)
        scan_unit<phase>(t, step, p.d, b, j,
                         {.sums = &s.results.sums[e * kGates.count][tid],
                          .biases = &s.biases[0][unit * kGates.count],
                          .h = s.results.h[e][tid],
                          .second = s.results.second[e][tid]});
    }
  }

  // One block. `Threads` runs a phase for all threads, each with its registers; arrived<n>() with
  // the copies of all slices but the last n that were begun, and a barrier. before_there() waits
  // until the launch before this one is done and what it wrote is there; until then only what
  // earlier ones wrote is read, and nothing is written.
  template <class Threads>
  ETALON_HD static void run(const ScanTask& t, const ScanStep& step, std::uint32_t block, Shared& s,
                            const Threads& threads) {
    const Place p = place(t, step, block);
    threads.phase([&](Thread& r, int tid) {
      load_biases(t, p, s, tid);
      r.state = p.state + tid / (kBlockRows / 4) * t.rows + tid % (kBlockRows / 4) * 4;
      r.weights = p.weights + tid * 4;
      ETALON_UNROLL
      for (int i = 0; i < kStages - 1; ++i) load_weights(t, s, r, i, i * kScanK, tid);
    });
    threads.before_there();
    threads.phase([&](Thread& r, int tid) {
      ETALON_UNROLL
      for (int i = 0; i < kStages - 1; ++i) {
        load_state(t, s, r, i, i * kScanK, tid);
        close_copies();
      }
      begin(t, step, p, r, tid);
    });
    int stage = 0;
    for (int k0 = 0; k0 < static_cast<int>(t.p.g.hidden); k0 += kScanK) {
      threads.template arrived<kStages - 2>();
      const int next = stage == 0 ? kStages - 1 : stage - 1;
      threads.phase([&](Thread& r, int tid) {
        // The stage that all had multiplied before the barrier.
        load_state(t, s, r, next, k0 + (kStages - 1) * kScanK, tid);
        load_weights(t, s, r, next, k0 + (kStages - 1) * kScanK, tid);
        close_copies();
        if (const int count = slice(t, k0); count == kScanK)
          multiply<true>(s, r, tid, stage, count);
        else
          multiply<false>(s, r, tid, stage, count);
      });
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    threads.template arrived<0>();
    threads.phase([&](Thread& r, int tid) { finish(t, step, p, s, r, tid); });
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
