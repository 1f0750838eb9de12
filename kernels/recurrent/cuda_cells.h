// rnn, gru and lstm on a GPU, correctly rounded: a block takes one row of the batch in one
// direction through all its steps, a thread every kCellThreads-th hidden unit. The units' text is
// the CPU's (kernels/recurrent/definition.h); a step is one phase, two for gru, with a barrier
// behind each.
//
// Contract exact; seq is cuda_scan.h's. Same bits: each step is decided by balls in f64, and one
// that they leave undecided (device_definition.h) gives the whole row to the host. Limit: weights
// are read from memory once for each row and step, so this is the definition, not a fast kernel.
//
// Host and device: a launch calls the phases with barriers between them, the shim
// (run_cells_on_host) each phase for all threads in turn.
#pragma once

#include "engine/numerics/real_f64.h"
#include "kernels/backends/cuda/api.h"
#include "kernels/recurrent/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kCellThreads = 128;
inline constexpr std::int64_t kCellArrays = 7;  // of `hidden` doubles each, for each block

struct CellTask {
  RecurrentPlan p;
  cuda::CellMemory memory;
  float* y[3] = {};  // y, y_h, y_c
};

// What a thread cannot decide is remembered.
struct DeviceSteps {
  using Value = double;
  static constexpr bool has_truth = false;
  bool undecided = false;

  ETALON_HD double decided(RealF64& a, const RealF64::V& v) {
    const Rounded r = a.round(v, DType::f32);
    undecided = undecided || a.undecided || !r.decided;
    return r.value;
  }
  ETALON_HD double function(const CellActivation& f, double x) {
    RealF64 a;
    return decided(a, cell_function(a, f, x));
  }
  ETALON_HD double store(double x) const { return x; }
};

// Each step to the nearest f32 of the real number.
struct ExactDeviceSteps : DeviceSteps {
  static constexpr bool one_sum = true;
  template <class F>
  ETALON_HD double step(F&& f, double* = nullptr) {
    RealF64 a;
    return decided(a, f(a));
  }
};

// A thread's part of a block: the arrays of its row, and what it has met.
struct CellThread {
  ExactDeviceSteps steps;
  double *h = nullptr, *c = nullptr, *next = nullptr, *cell = nullptr;
  double *z = nullptr, *r = nullptr, *reset = nullptr;
  std::int64_t d = 0, b = 0, length = 0;

  ETALON_HD void begin(const CellTask& t, std::int64_t block, int tid) {
    const RecurrentGeometry& g = t.p.g;
    d = block / g.batch;
    b = block % g.batch;
    length = t.memory.lengths == nullptr ? g.steps : t.memory.lengths[b];
    double* const own = static_cast<double*>(t.memory.scratch) + block * kCellArrays * g.hidden;
    double** const arrays[] = {&h, &c, &next, &cell, &z, &r, &reset};
    for (int i = 0; i < kCellArrays; ++i) *arrays[i] = own + i * g.hidden;
    each(t, tid, [&](std::int64_t j) {
      const std::int64_t at = g.state_at(d, b) + j;
      h[j] = t.p.initial_h ? t.p.initial_h[at] : 0.0;
      c[j] = t.p.initial_c ? t.p.initial_c[at] : 0.0;
    });
  }
  template <class F>
  ETALON_HD static void each(const CellTask& t, int tid, F&& f) {
    for (std::int64_t j = tid; j < t.p.g.hidden; j += kCellThreads) f(j);
  }
  // Step s of the row: which x, which y.
  ETALON_HD std::int64_t time_of(const CellTask& t, std::int64_t s) const {
    return t.p.g.reversed(d) ? length - 1 - s : s;
  }
  ETALON_HD static bool two_phases(const CellTask& t) { return t.p.g.kind == CellKind::gru; }

  ETALON_HD void gates(const CellTask& t, int tid, std::int64_t s) {
    const CellUnit<ExactDeviceSteps> unit{t.p, steps, d};
    const std::int64_t x_at = t.p.g.x_at(time_of(t, s), b);
    each(t, tid, [&](std::int64_t j) { unit.gru_gates(j, x_at, h, z[j], r[j], reset[j]); });
  }
  ETALON_HD void state(const CellTask& t, int tid, std::int64_t s) {
    const CellUnit<ExactDeviceSteps> unit{t.p, steps, d};
    const RecurrentGeometry& g = t.p.g;
    const std::int64_t at = time_of(t, s), x_at = g.x_at(at, b), y_at = g.y_at(at, d, b);
    each(t, tid, [&](std::int64_t j) {
      if (g.kind == CellKind::rnn)
        next[j] = unit.rnn(j, x_at, h, nullptr);
      else if (g.kind == CellKind::gru)
        next[j] = unit.gru_state(j, x_at, h, z[j], r[j], reset, nullptr);
      else
        next[j] = unit.lstm(j, x_at, h, c, cell[j], nullptr, nullptr);
      t.y[0][y_at + j] = canonical(static_cast<float>(next[j]));
    });
  }
  ETALON_HD void advance() {
    double* const old_h = h;
    h = next;
    next = old_h;
    double* const old_c = c;
    c = cell;
    cell = old_c;
  }
  ETALON_HD void finish(const CellTask& t, int tid) const {
    const RecurrentGeometry& g = t.p.g;
    each(t, tid, [&](std::int64_t j) {
      for (std::int64_t at = length; at < g.steps; ++at) t.y[0][g.y_at(at, d, b) + j] = 0;
      const std::int64_t to = g.state_at(d, b) + j;
      t.y[1][to] = canonical(static_cast<float>(h[j]));
      if (g.kind == CellKind::lstm) t.y[2][to] = canonical(static_cast<float>(c[j]));
    });
  }
};

inline std::int64_t cell_bytes(const RecurrentPlan& p) {
  return recurrent_slices(p) * kCellArrays * p.g.hidden * static_cast<std::int64_t>(sizeof(double));
}

// The task of a call whose floating tensors lie on the device.
inline RecurrentPlan cell_plan(const KernelCall& call) {
  const std::string_view op = call.problem->op->name;
  return op == "rnn"   ? recurrent_plan<CellKind::rnn, RnnParams>(call)
         : op == "gru" ? recurrent_plan<CellKind::gru, GruParams>(call)
                       : recurrent_plan<CellKind::lstm, LstmParams>(call);
}
inline CellTask cell_task(const KernelCall& call, const cuda::CellMemory& memory) {
  CellTask t{cell_plan(call), memory};
  t.p.lengths = nullptr;  // on the host; the device has its own list
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    t.y[o] = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(o).bytes().data()));
  return t;
}

// One block, phase by phase; true where a rounding was left undecided.
inline bool run_cells_on_host(const CellTask& t, std::int64_t block) {
  std::vector<CellThread> threads(kCellThreads);
  const auto all = [&](auto&& phase) {
    for (int tid = 0; tid < kCellThreads; ++tid) phase(threads[static_cast<std::size_t>(tid)], tid);
  };
  all([&](auto& thread, int tid) { thread.begin(t, block, tid); });
  for (std::int64_t s = 0; s < threads[0].length; ++s) {
    if (CellThread::two_phases(t)) all([&](auto& thread, int tid) { thread.gates(t, tid, s); });
    all([&](auto& thread, int tid) { thread.state(t, tid, s); });
    all([&](auto& thread, int) { thread.advance(); });
  }
  all([&](auto& thread, int tid) { thread.finish(t, tid); });
  bool undecided = false;
  for (const auto& thread : threads) undecided = undecided || thread.steps.undecided;
  return undecided;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
