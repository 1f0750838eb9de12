// rnn, gru and lstm on a GPU under seq: the terms of x of many steps at once as one product
// (kernels/gemm/cuda_tile.h), then a launch a step (two for a gru that resets before its product),
// in which a block makes all gates' sums of its units and rows, and then the units.
//
// Contract: seq. Loops of a step's block: k by slices of kScanK through shared memory, kStages
// of them on their way by cp.async; a thread has TM rows of the batch times some units times all
// their gates in registers. Weights lie packed, made once a call: by tile of units, then k, unit,
// gate; states by unit, then row, so that a slice of either is 16-byte pieces. Both directions and
// all rows go through time together, forward or backward: a row beyond its length waits, with its
// state as it is.
//
// Same bits as the definition: a gate's sum is one chain, the terms of x first, which end as an f32
// in memory, where the terms of the state go on; a thread has it from there to its end, k
// ascending, without a term more (the last slice is cut). What follows the sums is the CPU's text,
// CellUnit. Sigmoid, tanh and relu are the correctly rounded ones of
// kernels/activation/device_lanes.h; what these leave open the balls in f64 decide, and what those
// do, the host, for the whole row.
//
// Limit: TM + 3 or 4 floats are read from shared memory for each k, for 3 or 4 TM fma; and a launch
// a step, a few us, of which sm_90 begins the next while one ends (before_there). Weights come from
// the second cache, or where they are more than it holds from memory, once for each tile of rows.
// No GPU has run this yet.
//
// The text is host and device, as cuda_async.h's; the host shim (run_scan_on_host) has the same
// sequence of launches, blocks and phases.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/activation/device_lanes.h"
#include "kernels/gemm/copy_async.h"
#include "kernels/gemm/cuda_tile.h"
#include "kernels/recurrent/cuda_cells.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kScanThreads = 64, kScanK = 32;
inline constexpr int kScanSharedBytes = 44 << 10;  // for slices; a block may have 48 KiB
inline constexpr int kScanPackThreads = 256, kScanPackK = 64;
inline constexpr std::int64_t kScanAlign = 64;  // rows and units in memory: no tile has more
// Sums over x that wait for their steps: 64 MiB.
inline constexpr std::int64_t kScanSums = std::int64_t{1} << 24;

// What a launch of a step computes: gates [first, first + count) of the cell's own sequence, for so
// many units a thread that a read of weights has 3 or 4.
enum class ScanPhase { rnn, lstm, gru_linear, gru_gates, gru_candidate };
struct ScanGates {
  int first, count, units;
};
ETALON_HD constexpr ScanGates scan_gates(ScanPhase phase) {
  switch (phase) {
    case ScanPhase::lstm:
      return {0, 4, 1};
    case ScanPhase::gru_linear:
      return {0, 3, 1};
    case ScanPhase::gru_gates:
      return {0, 2, 2};
    case ScanPhase::gru_candidate:
      return {2, 1, 4};
    default:
      return {0, 1, 4};
  }
}

// Threads of a block side by side along units, and rows of the batch a thread.
struct ScanTile {
  int across, rows;
  ETALON_HD constexpr int block_rows() const { return kScanThreads / across * rows; }
};
inline constexpr ScanTile kScanTiles[] = {{16, 1}, {4, 1}, {16, 4}, {8, 4}, {8, 8}};
inline constexpr int kScanTileCount = 5;

struct ScanTask : CellTask {
  const float* bias = nullptr;
  float* sums = nullptr;  // over x, by direction, step of a chunk and row: [gates * hidden]
  float* weights[2] = {};
  float *h[2] = {}, *c = nullptr, *z = nullptr, *reset = nullptr;  // [direction][unit][row]
  std::int32_t* open = nullptr;  // by direction and row: something was left undecided
  std::int64_t rows = 0;         // of the batch, as they lie in memory
  std::int64_t at_once = 0;      // steps of a chunk
  int tile = 0;

  ETALON_HD std::int64_t width() const { return p.g.gates * p.g.hidden; }
  ETALON_HD std::int64_t states() const { return p.g.directions * p.g.hidden * rows; }
  ETALON_HD std::int64_t state_at(std::int64_t d, std::int64_t j, std::int64_t b) const {
    return (d * p.g.hidden + j) * rows + b;
  }
  ETALON_HD std::int64_t length_of(std::int64_t b) const {
    return memory.lengths == nullptr ? p.g.steps : memory.lengths[b];
  }
  std::int64_t tiles_of_units(ScanPhase phase) const {
    const std::int64_t units = scan_gates(phase).units * kScanTiles[tile].across;
    return (p.g.hidden + units - 1) / units;
  }
  std::int64_t tiles_of_rows() const {
    const int of = kScanTiles[tile].block_rows();
    return (p.g.batch + of - 1) / of;
  }
  std::int64_t blocks(ScanPhase phase) const {
    return p.g.directions * tiles_of_units(phase) * tiles_of_rows();
  }
};

// A step, and the chunk that it is of.
struct ScanStep {
  std::int64_t number, first, count;
  ETALON_HD std::int64_t time(const RecurrentGeometry& g, std::int64_t d) const {
    return g.reversed(d) ? g.steps - 1 - number : number;
  }
  // The earliest time of the chunk.
  ETALON_HD std::int64_t begin(const RecurrentGeometry& g, std::int64_t d) const {
    return g.reversed(d) ? g.steps - first - count : first;
  }
  // Where the sums over x of a row begin.
  ETALON_HD std::int64_t sums_at(const ScanTask& t, std::int64_t d, std::int64_t b) const {
    const RecurrentGeometry& g = t.p.g;
    const std::int64_t at = time(g, d) - begin(g, d);
    return (d * t.at_once * g.batch + (g.batch_first ? b * count + at : at * g.batch + b)) *
           t.width();
  }
};

// What a unit's steps begin with.
struct ScanUnit {
  const float* sums;    // of the phase's gates, kScanThreads apart
  const float* biases;  // those of W, side by side; kScanBiases behind them those of R
  float h;              // before the step
  // lstm: c; gru_candidate: z; gru_linear: the candidate's sum over x, beside that over the state.
  float second;
};
inline constexpr int kScanBiases = 64;  // of a block, no tile has more

// How a step is rounded, the sums given.
struct ScanSteps : DeviceSteps {
  static constexpr bool one_sum = false;
  const ScanUnit& given;
  int first;  // of the phase's gates

  ETALON_HD ScanSteps(const ScanUnit& unit, int first_gate) : given(unit), first(first_gate) {}
  ETALON_HD float sum(std::int64_t q, bool with_state) const {
    return with_state ? given.sums[(q - first) * kScanThreads] : given.second;
  }
  ETALON_HD double bias(std::int64_t q, bool recurrent) const {
    return static_cast<double>(given.biases[q - first + (recurrent ? kScanBiases : 0)]);
  }
  template <class F>
  ETALON_HD double step(F&& f, double* = nullptr) {
    SeqF32 a;
    return static_cast<double>(f(a));
  }
  ETALON_HD double function(const CellActivation& f, double x) {
    const auto own = static_cast<float>(x);
    float y = 0;
    bool known = false;
    if (f.function == CellFunction::sigmoid)
      known = device_function<static_cast<int>(LaneFunction::sigmoid)>({}, own, y);
    else if (f.function == CellFunction::tanh)
      known = device_function<static_cast<int>(LaneFunction::tanh)>({}, own, y);
    else if (f.function == CellFunction::relu)
      known = device_function<kDeviceRelu>({}, own, y);
    return known ? static_cast<double>(y) : DeviceSteps::function(f, x);
  }
};

// The state of one unit, where CellUnit looks it up by its number.
struct OneUnit {
  double value;
  ETALON_HD const double& operator[](std::int64_t) const { return value; }
};

// Unit j of row b.
template <ScanPhase phase>
ETALON_HD ETALON_NOINLINE void scan_unit(const ScanTask& t, const ScanStep& step, std::int64_t d,
                                         std::int64_t b, std::int64_t j, const ScanUnit& own) {
  const RecurrentGeometry& g = t.p.g;
  const std::int64_t time = step.time(g, d), at = t.state_at(d, j, b);
  float *const next = t.h[1 - step.number % 2] + at, *const y = t.y[0] + g.y_at(time, d, b) + j;
  if (time >= t.length_of(b)) {
    if constexpr (phase != ScanPhase::gru_gates) {
      *next = own.h;
      *y = 0;
    }
    return;
  }
  ScanSteps steps(own, scan_gates(phase).first);
  const CellUnit<ScanSteps> unit{t.p, steps, d};
  const OneUnit h{static_cast<double>(own.h)};
  double z = 0, r = 0, reset = 0, after = 0;
  if constexpr (phase == ScanPhase::gru_gates) {
    unit.gru_gates(j, 0, h, z, r, reset);
    t.z[at] = static_cast<float>(z);
    t.reset[at] = static_cast<float>(reset);
  } else {
    if constexpr (phase == ScanPhase::rnn) {
      after = unit.rnn(j, 0, h, nullptr);
    } else if constexpr (phase == ScanPhase::lstm) {
      double cell = 0;
      after = unit.lstm(j, 0, h, OneUnit{static_cast<double>(own.second)}, cell, nullptr, nullptr);
      t.c[at] = static_cast<float>(cell);
    } else if constexpr (phase == ScanPhase::gru_linear) {
      unit.gru_gates(j, 0, h, z, r, reset);
      after = unit.gru_state(j, 0, h, z, r, OneUnit{reset}, nullptr);
    } else {
      // Of r and r*h only the sum is wanted, which is made.
      after = unit.gru_state(j, 0, h, static_cast<double>(own.second), r, OneUnit{}, nullptr);
    }
    *next = static_cast<float>(after);
    *y = canonical(static_cast<float>(after));
  }
  if (steps.undecided) t.open[d * g.batch + b] = 1;
}

// Element i of the states, before the first step.
ETALON_HD inline void scan_begin(const ScanTask& t, std::int64_t i) {
  const RecurrentGeometry& g = t.p.g;
  const std::int64_t b = i % t.rows, j = i / t.rows % g.hidden, d = i / (t.rows * g.hidden);
  const bool there = b < g.batch;
  const std::int64_t at = there ? g.state_at(d, b) + j : 0;
  t.h[0][i] = there && t.p.initial_h ? static_cast<float>(t.p.initial_h[at]) : 0.0F;
  t.h[1][i] = 0;
  t.c[i] = there && t.p.initial_c ? static_cast<float>(t.p.initial_c[at]) : 0.0F;
  t.reset[i] = 0;
  if (j == 0 && there) t.open[d * g.batch + b] = 0;
}

// Behind the last step; true: this is the element that says of its row that it was left open.
ETALON_HD inline bool scan_finish(const ScanTask& t, std::int64_t i) {
  const RecurrentGeometry& g = t.p.g;
  const std::int64_t b = i % t.rows, j = i / t.rows % g.hidden, d = i / (t.rows * g.hidden);
  if (b >= g.batch) return false;
  const std::int64_t to = g.state_at(d, b) + j;
  t.y[1][to] = canonical(t.h[g.steps % 2][i]);
  if (g.kind == CellKind::lstm) t.y[2][to] = canonical(t.c[i]);
  return j == 0 && t.open[d * g.batch + b] != 0;
}
ETALON_HD inline std::int64_t scan_slice(const ScanTask& t, std::int64_t i) {
  return i / (t.rows * t.p.g.hidden) * t.p.g.batch + i % t.rows;
}

// Blocks of the weights' packing: kScanPackK rows of a tile each.
inline std::int64_t scan_pack_blocks(const ScanTask& t, ScanPhase phase) {
  return t.p.g.directions * t.tiles_of_units(phase) *
         ((t.p.g.hidden + kScanPackK - 1) / kScanPackK);
}
template <ScanPhase phase>
ETALON_HD void scan_pack(const ScanTask& t, const ScanTile& tile, std::int64_t block, int tid) {
  constexpr ScanGates gates = scan_gates(phase);
  const RecurrentGeometry& g = t.p.g;
  const int units = tile.across * gates.units, wide = units * gates.count;
  const std::int64_t slabs = (g.hidden + kScanPackK - 1) / kScanPackK,
                     tiles = (g.hidden + units - 1) / units;
  const std::int64_t k0 = block % slabs * kScanPackK, place = block / slabs;  // d * tiles + tile
  const std::int64_t d = place / tiles, j0 = place % tiles * units;
  float* const to = t.weights[gates.first == 0 ? 0 : 1] + (place * g.hidden + k0) * wide;
  const std::int64_t left = g.hidden - k0;
  const int count = static_cast<int>(left < kScanPackK ? left : kScanPackK) * wide;
  for (int i = tid; i < count; i += kScanPackThreads) {
    const int column = i % wide, k = i / wide;
    const std::int64_t q = gates.first + column % gates.count, j = j0 + column / gates.count;
    to[i] = j < g.hidden ? static_cast<float>(t.p.r[t.p.weight_row(d, q, j) * g.hidden + k0 + k])
                         : 0.0F;
  }
}

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
    copy_4(&s.biases[0][tid], t.bias + t.p.bias_at(p.d, q, j, false));
    copy_4(&s.biases[1][tid], t.bias + t.p.bias_at(p.d, q, j, true));
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

  // The slice that starts at k0, of which there may be less or nothing: how many k.
  ETALON_HD static int slice(const ScanTask& t, int k0) {
    const int left = static_cast<int>(t.p.g.hidden) - k0;
    return left < 0 ? 0 : left < kScanK ? left : kScanK;
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

// Memory of a task, as it lies from `base` on; the number of floats.
inline std::int64_t place_scan(ScanTask& t, float* base, std::int64_t most_steps = 0) {
  const RecurrentGeometry& g = t.p.g;
  const auto aligned = [](std::int64_t n) {
    return (n + kScanAlign - 1) / kScanAlign * kScanAlign;
  };
  t.rows = aligned(g.batch);
  const std::int64_t of_step = std::max<std::int64_t>(1, g.directions * g.batch * t.width());
  t.at_once = std::max<std::int64_t>(1, std::min(g.steps, kScanSums / of_step));
  if (most_steps > 0) t.at_once = std::min(t.at_once, most_steps);
  std::int64_t used = 0;
  const auto take = [&](std::int64_t n) {
    float* const p = base == nullptr ? nullptr : base + used;
    used += aligned(n);
    return p;
  };
  const std::int64_t of_gate = g.directions * aligned(g.hidden) * g.hidden;
  t.sums = take(t.at_once * of_step);
  t.weights[0] = take(g.gates * of_gate);
  if (g.kind == CellKind::gru && !t.p.linear_before_reset) {
    const std::int64_t of_two = 2 * of_gate;  // a multiple of kScanAlign
    t.weights[1] = base == nullptr ? nullptr : t.weights[0] + of_two;
  }
  for (float** state : {&t.h[0], &t.h[1], &t.c, &t.z, &t.reset}) *state = take(t.states());
  t.open = reinterpret_cast<std::int32_t*>(take(g.directions * g.batch));
  return used;
}
inline std::int64_t scan_bytes(const RecurrentPlan& plan) {
  ScanTask t{{plan, {}}};
  return place_scan(t, nullptr) * static_cast<std::int64_t>(sizeof(float));
}

// f.template operator()<phase>() for each launch of a step.
template <class F>
void for_each_scan_phase(const RecurrentPlan& p, F&& f) {
  if (p.g.kind == CellKind::rnn) {
    f.template operator()<ScanPhase::rnn>();
  } else if (p.g.kind == CellKind::lstm) {
    f.template operator()<ScanPhase::lstm>();
  } else if (p.linear_before_reset) {
    f.template operator()<ScanPhase::gru_linear>();
  } else {
    f.template operator()<ScanPhase::gru_gates>();
    f.template operator()<ScanPhase::gru_candidate>();
  }
}
// f.template operator()<Across, Rows>() for the tile of a task.
template <class F, int... Tile>
void with_scan_tile(int tile, F&& f, std::integer_sequence<int, Tile...>) {
  static_cast<void>(
      ((tile == Tile &&
        (f.template operator()<kScanTiles[Tile].across, kScanTiles[Tile].rows>(), true)) ||
       ...));
}
template <class F>
void with_scan_tile(int tile, F&& f) {
  with_scan_tile(tile, f, std::make_integer_sequence<int, kScanTileCount>{});
}

// The largest tile that still has work for most of a hundred-odd SMs; no result depends on it.
inline int choose_scan_tile(const ScanTask& of) {
  constexpr int kFew = 0, kSmall = 1, kSixteen = 2, kThirtyTwo = 3, kSixtyFour = 4;
  if (of.p.g.batch <= kScanTiles[kFew].block_rows()) return kFew;
  const auto blocks = [&of](int tile) {
    ScanTask t = of;
    t.tile = tile;
    std::int64_t least = 0;
    for_each_scan_phase(t.p, [&]<ScanPhase phase>() {
      least = least == 0 ? t.blocks(phase) : std::min(least, t.blocks(phase));
    });
    return least;
  };
  constexpr std::int64_t kEnough = 96;
  if (of.p.g.batch > 32 && blocks(kSixtyFour) >= 2 * kEnough) return kSixtyFour;
  const int wide = of.p.g.batch > 16 ? kThirtyTwo : kSixteen;
  return blocks(wide) >= kEnough ? wide : kSmall;
}

// A test may ask for a tile, and for chunks of fewer steps.
inline ScanTask scan_task(const KernelCall& call, const cuda::CellMemory& memory, int tile = -1,
                          std::int64_t most_steps = 0) {
  ScanTask t{cell_task(call, memory)};
  if (call.has(3)) t.bias = reinterpret_cast<const float*>(call.input(3).bytes().data());
  place_scan(t, static_cast<float*>(memory.scratch), most_steps);
  t.tile = tile < 0 ? choose_scan_tile(t) : tile;
  return t;
}

// The terms of x of a chunk, for one direction.
inline TileTask scan_products(const ScanTask& t, const ScanStep& chunk, std::int64_t d,
                              const KernelCall& call) {
  const RecurrentGeometry& g = t.p.g;
  const auto floats = [&](std::size_t i) {
    return reinterpret_cast<const float*>(call.input(i).bytes().data());
  };
  TileTask x;
  x.m = g.batch_first ? chunk.count : chunk.count * g.batch;
  x.n = t.width();
  x.k = g.inputs;
  x.a = floats(0) + chunk.begin(g, d) * (g.batch_first ? 1 : g.batch) * g.inputs;
  x.a_row = g.inputs;
  x.a_col = 1;
  x.b = floats(1) + d * t.width() * g.inputs;
  x.b_row = 1;
  x.b_col = g.inputs;
  if (g.batch_first) {
    x.batch = Shape{g.batch};
    x.a_batch[0] = g.steps * g.inputs;
    x.y_batch = chunk.count * t.width();
  }
  x.y = t.sums + d * t.at_once * g.batch * t.width();
  return x;
}

// The launches of a call, in their sequence: pack<phase>(), begin(), products(tile task),
// step<phase>(step), finish().
template <class Launch>
void launch_scan(const ScanTask& t, const KernelCall& call, Launch&& launch) {
  const RecurrentGeometry& g = t.p.g;
  for_each_scan_phase(t.p, [&]<ScanPhase phase>() { launch.template pack<phase>(); });
  launch.begin();
  for (std::int64_t first = 0; first < g.steps; first += t.at_once) {
    ScanStep step{first, first, std::min(t.at_once, g.steps - first)};
    for (std::int64_t d = 0; d < g.directions; ++d)
      launch.products(scan_products(t, step, d, call));
    for (; step.number < first + step.count; ++step.number)
      for_each_scan_phase(t.p, [&]<ScanPhase phase>() { launch.template step<phase>(step); });
  }
  launch.finish();
}

// Threads and blocks backwards: none may lean on one before it.
template <class Undecided>
struct ScanOnHost {
  const ScanTask& t;
  Undecided& undecided;  // (slice)

  template <class Thread>
  struct Threads {
    std::vector<Thread>& r;
    template <class F>
    void phase(F&& f) const {
      for (int tid = kScanThreads; tid-- > 0;) f(r[static_cast<std::size_t>(tid)], tid);
    }
    void before_there() const {}
    template <int>
    void arrived() const {}
  };

  template <ScanPhase phase>
  void pack() const {
    for (std::int64_t block = scan_pack_blocks(t, phase); block-- > 0;)
      for (int tid = kScanPackThreads; tid-- > 0;)
        scan_pack<phase>(t, kScanTiles[t.tile], block, tid);
  }
  void begin() const {
    for (std::int64_t i = t.states(); i-- > 0;) scan_begin(t, i);
  }
  void products(const TileTask& x) const {
    auto shared = std::make_unique<TileShared>();
    std::vector<TileThread> threads(kTileThreads);
    for (std::int64_t block = x.blocks(); block-- > 0;)
      run_tile_on_host<true, false>(x, static_cast<std::uint32_t>(block), *shared, threads.data());
  }
  template <ScanPhase phase>
  void step(const ScanStep& step) const {
    with_scan_tile(t.tile, [&]<int Across, int Rows>() {
      using Block = ScanBlock<phase, Across, Rows>;
      auto shared = std::make_unique<typename Block::Shared>();
      std::vector<typename Block::Thread> threads(kScanThreads);
      for (std::int64_t block = t.blocks(phase); block-- > 0;) {
        std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
        Block::run(t, step, static_cast<std::uint32_t>(block), *shared,
                   Threads<typename Block::Thread>{threads});
      }
    });
  }
  void finish() const {
    for (std::int64_t i = t.states(); i-- > 0;)
      if (scan_finish(t, i)) undecided(scan_slice(t, i));
  }
};
template <class Undecided>
void run_scan_on_host(const ScanTask& t, const KernelCall& call, Undecided undecided) {
  launch_scan(t, call, ScanOnHost<Undecided>{t, undecided});
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
