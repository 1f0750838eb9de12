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
// Small lstm cells have no launch a step: cuda_held.h. Times beside cuDNN: docs/gpu.md.
//
// This file has the task and what a unit does, cuda_scan_block.h a step's block, cuda_scan_launch.h
// memory, the sequence of launches and the host shim. The text is host and device, as that of
// ../gemm/cuda_async.h: the shim has the same launches, blocks and phases.
#pragma once

#include "kernels/activation/device_lanes.h"
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
      known = DeviceQuick<LaneFunction::sigmoid>::function({}, own, y);
    else if (f.function == CellFunction::tanh)
      known = DeviceQuick<LaneFunction::tanh>::function({}, own, y);
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

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
