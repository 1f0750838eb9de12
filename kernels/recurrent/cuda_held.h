// lstm under seq on a GPU for small cells, without a launch a step: a cluster of blocks takes a row
// of the batch in one direction through all steps of a chunk. Each block has some of the units and
// keeps their weights in its threads' registers; the state goes to all blocks' shared memory, and a
// cluster's barrier stands where a launch of cuda_scan.h ended.
//
// Contract: seq. Loops of a step: a thread has one gate of one unit, its chain, k ascending, and
// its activation; then a thread a unit makes cell and state.
//
// Same bits as cuda_scan.h: the same chains, begun by the same sums over x. k goes on to as many as
// there are registers, where a weight is -0 and a state +0: their product is -0, which as a term of
// a fused sum leaves every sum as it is, +0 and -0 too. What follows the sums is CellUnit's text
// (definition.h) written out for sigmoid and tanh with no clip, no peepholes and no coupled gates;
// other cells are cuda_scan.h's. A function that the formulas leave open the balls in f64 decide,
// and what those leave, the host, for the whole row.
//
// Limit of a step: 4 cycles a term of a chain, two functions of f64 one behind the other, a block's
// barrier and a cluster's; some 4000 cycles in all on an H200. A launch takes two to four times
// that.
#pragma once

#include "kernels/recurrent/cuda_scan.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kHeldThreads = 256;                // most, of 255 registers each
inline constexpr int kHeldRanks = 4;                    // most blocks of a cluster
inline constexpr int kHeldWeights[] = {104, 128, 200};  // of a thread
inline constexpr std::int64_t kHeldAtOnce = 128;        // blocks, one on each SM

struct HeldTask : ScanTask {
  int ranks = 0;  // blocks of a cluster; 0: this call is cuda_scan.h's
  int units = 0;  // of a block
  int form = 0;   // of kHeldWeights

  ETALON_HD int columns() const { return 4 * units; }
  ETALON_HD int threads() const { return (columns() + 31) / 32 * 32; }
  std::int64_t blocks() const { return p.g.directions * p.g.batch * ranks; }
};

// Whether SMs hold the weights, and how.
inline HeldTask held_task(const ScanTask& of) {
  HeldTask t{of};
  const RecurrentPlan& p = of.p;
  if (p.g.kind != CellKind::lstm || p.p || p.clip > 0 || p.cell_clip > 0 || p.input_forget)
    return t;
  for (std::int64_t d = 0; d < p.g.directions; ++d) {
    const auto& f = p.g.activations[static_cast<std::size_t>(d)];
    if (f[0].function != CellFunction::sigmoid || f[1].function != CellFunction::tanh ||
        f[2].function != CellFunction::tanh)
      return t;
  }
  while (t.form < 3 && p.g.hidden > kHeldWeights[t.form]) ++t.form;
  if (t.form == 3) return t;
  int ranks = 1;
  while (ranks * kHeldThreads / 4 < p.g.hidden) ranks *= 2;
  // In more than two turns of the device, launches are as fast.
  if (ranks > kHeldRanks || p.g.directions * p.g.batch * ranks > 2 * kHeldAtOnce) return t;
  t.ranks = ranks;
  t.units = static_cast<int>((p.g.hidden + ranks - 1) / ranks);
  return t;
}

template <int Weights>
struct HeldBlock {
  struct alignas(16) Shared {
    float h[2][Weights];  // before a step of even and of odd number
    float gates[kHeldThreads];
    float c[kHeldThreads / 4];
  };
  struct Thread {
    float weights[Weights];
    float next = 0;               // the sum over x of the step to come
    const float* sums = nullptr;  // where it lies; null: there is no such unit
    float biases[2] = {};         // of W and R
    bool undecided = false;
  };
  struct Place {
    std::int64_t d, b, unit0;
  };
  ETALON_HD static Place place(const HeldTask& t, std::uint32_t block) {
    const auto ranks = static_cast<std::uint32_t>(t.ranks);
    const std::int64_t cluster = block / ranks, rank = block % ranks;
    return {cluster / t.p.g.batch, cluster % t.p.g.batch, rank * t.units};
  }

  ETALON_HD static void begin(const HeldTask& t, const ScanStep& step, const Place& p, Thread& r,
                              Shared& s, int tid) {
    const RecurrentGeometry& g = t.p.g;
    const auto hidden = static_cast<int>(g.hidden);
    const std::int64_t q = tid / t.units, j = p.unit0 + tid % t.units;
    if (tid < t.columns() && j < hidden) {
      const std::int64_t at = t.p.weight_row(p.d, q, j) * hidden;
      ETALON_UNROLL
      for (int k = 0; k < Weights; ++k)
        r.weights[k] = k < hidden ? static_cast<float>(t.p.r[at + k]) : -0.0F;
      if (t.bias != nullptr)
        for (int of = 0; of < 2; ++of) r.biases[of] = t.bias[t.p.bias_at(p.d, q, j, of == 1)];
      r.sums =
          t.sums + step.sums_at(t, p.d, p.b) + g.block_of[static_cast<std::size_t>(q)] * hidden + j;
      r.next = *r.sums;
    }
    for (int k = tid; k < Weights; k += t.threads()) {
      s.h[step.number % 2][k] = k < hidden ? t.h[step.number % 2][t.state_at(p.d, k, p.b)] : 0.0F;
      s.h[1 - step.number % 2][k] = 0;
    }
    if (tid < t.units && j < hidden) s.c[tid] = t.c[t.state_at(p.d, j, p.b)];
  }

  struct Decided {
    float y;
    bool undecided;
  };
  // By value: an address would put a thread's weights into memory.
  ETALON_HD ETALON_NOINLINE static Decided by_balls(CellFunction which, float x) {
    DeviceSteps steps;
    CellActivation f{};
    f.function = which;
    const double y = steps.function(f, static_cast<double>(x));
    return {static_cast<float>(y), steps.undecided};
  }
  ETALON_HD static Decided sigmoid(float x) {
    float y = 0;
    if (device_function<static_cast<int>(LaneFunction::sigmoid)>({}, x, y)) return {y, false};
    return by_balls(CellFunction::sigmoid, x);
  }
  ETALON_HD static Decided tanh(float x) {
    float y = 0;
    if (device_function<static_cast<int>(LaneFunction::tanh)>({}, x, y)) return {y, false};
    return by_balls(CellFunction::tanh, x);
  }

  // A gate of a unit: its chain, its biases, its activation.
  ETALON_HD static void gate(const HeldTask& t, const ScanStep& step, const Place& p, Thread& r,
                             Shared& s, int tid) {
    if (r.sums == nullptr) return;
    const RecurrentGeometry& g = t.p.g;
    float sum = r.next;
    if (step.number + 1 < step.first + step.count) {
      r.sums += (g.batch_first ? 1 : g.batch) * t.width() * (g.reversed(p.d) ? -1 : 1);
      r.next = *r.sums;
    }
    const float* const h = s.h[step.number % 2];
    ETALON_UNROLL
    for (int k = 0; k < Weights; k += 4) {
      float states[4];
      load_four(h + k, states);
      ETALON_UNROLL
      for (int i = 0; i < 4; ++i) sum = fma_f32(r.weights[k + i], states[i], sum);
    }
    if (t.bias != nullptr) sum = (sum + r.biases[0]) + r.biases[1];
    const Decided y = tid >= 3 * t.units ? tanh(sum) : sigmoid(sum);
    r.undecided = r.undecided || y.undecided;
    s.gates[tid] = y.y;
  }

  // Cell and state of a unit after the step, the state for all blocks.
  template <class Threads>
  ETALON_HD static void state(const HeldTask& t, const ScanStep& step, const Place& p, Thread& r,
                              Shared& s, int unit, const Threads& threads) {
    const RecurrentGeometry& g = t.p.g;
    const std::int64_t j = p.unit0 + unit, time = step.time(g, p.d);
    if (unit >= t.units || j >= g.hidden) return;
    float after = s.h[step.number % 2][j];
    float* const y = t.y[0] + g.y_at(time, p.d, p.b) + j;
    if (time >= t.length_of(p.b)) {
      *y = 0;
    } else {
      const float i = s.gates[unit], o = s.gates[t.units + unit], f = s.gates[2 * t.units + unit],
                  u = s.gates[3 * t.units + unit];
      const float cell = fma_f32(f, s.c[unit], i * u);
      s.c[unit] = cell;
      const Decided squashed = tanh(cell);
      r.undecided = r.undecided || squashed.undecided;
      after = o * squashed.y;
      *y = canonical(after);
    }
    for (int rank = 0; rank < t.ranks; ++rank)
      *threads.of(&s.h[1 - step.number % 2][j], rank) = after;
  }

  ETALON_HD static void end(const HeldTask& t, const ScanStep& step, const Place& p,
                            const Thread& r, const Shared& s, int tid) {
    const std::int64_t j = p.unit0 + tid;
    if (tid < t.units && j < t.p.g.hidden) {
      t.h[step.number % 2][t.state_at(p.d, j, p.b)] = s.h[step.number % 2][j];
      t.c[t.state_at(p.d, j, p.b)] = s.c[tid];
    }
    if (r.undecided) t.open[p.d * t.p.g.batch + p.b] = 1;
  }

  // The steps of a chunk. `threads` runs a phase for all threads of the cluster (where it is, its
  // own, its block's, its number); together() is a block's barrier, all_together() the cluster's;
  // of(p, rank): p in the shared memory of another block.
  template <class Threads>
  ETALON_HD static void run(const HeldTask& t, ScanStep step, const Threads& threads) {
    threads.phase(
        [&](const Place& p, Thread& r, Shared& s, int tid) { begin(t, step, p, r, s, tid); });
    threads.all_together();
    for (const std::int64_t last = step.first + step.count; step.number < last; ++step.number) {
      threads.phase(
          [&](const Place& p, Thread& r, Shared& s, int tid) { gate(t, step, p, r, s, tid); });
      threads.together();
      threads.phase([&](const Place& p, Thread& r, Shared& s, int tid) {
        state(t, step, p, r, s, tid, threads);
      });
      threads.all_together();
    }
    threads.phase([&](const Place& p, const Thread& r, const Shared& s, int tid) {
      end(t, step, p, r, s, tid);
    });
  }
};

// f.template operator()<weights of a thread>() for a task's form.
template <class F>
void with_held_form(const HeldTask& t, F&& f) {
  if (t.form == 0)
    f.template operator()<kHeldWeights[0]>();
  else if (t.form == 1)
    f.template operator()<kHeldWeights[1]>();
  else
    f.template operator()<kHeldWeights[2]>();
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
