#include "kernels/recurrent/lstm.h"

#include <algorithm>
#include <span>
#include <vector>

#include "engine/backend/bits_row.h"
#include "kernels/activation/lanes.h"
#include "kernels/elementwise/f32_rows.h"
#include "kernels/gemm/fast.h"
#include "kernels/recurrent/definition.h"

namespace etalon {
namespace {

struct PreparedLstm {
  AlignedBuffer weights;  // by direction: strips of W, [4H][I], then those of R, [4H][H]
  std::int64_t of_r = 0, stride = 0;  // where R's begin; from direction to direction
};

std::shared_ptr<PreparedLstm> pack(const TileSet<float>& set, const RecurrentGeometry& g,
                                   const Tensor& w, const Tensor& r, int threads) {
  auto packed = std::make_shared<PreparedLstm>();
  const std::int64_t rows = g.gates * g.hidden;
  const std::int64_t wide = vector_strips(rows, set.lanes) * set.lanes;
  packed->of_r = wide * g.inputs;
  packed->stride = wide * (g.inputs + g.hidden);
  float* to = packed->weights.at_least<float>(g.directions * packed->stride);
  for (std::int64_t d = 0; d < g.directions; ++d, to += packed->stride) {
    pack_vector(set, {w.data<float>().data() + d * rows * g.inputs, g.inputs, 1}, rows, g.inputs,
                threads, to);
    pack_vector(set, {r.data<float>().data() + d * rows * g.hidden, g.hidden, 1}, rows, g.hidden,
                threads, to + packed->of_r);
  }
  return packed;
}

RecurrentGeometry geometry(const Problem& problem) {
  return recurrent_geometry(CellKind::lstm, problem.params->as<LstmParams>(),
                            InferInputs(problem.inputs));
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor *w = problem.inputs[1].value, *r = problem.inputs[2].value;
  if (w == nullptr || r == nullptr) return nullptr;
  return pack(*tile_set_f32(isa), geometry(problem), *w, *r, threads);
}

float scalar(const void* context, float x) {
  if (x != x) return float_of(kNanF32);
  const auto& f = *static_cast<const CellActivation*>(context);
  return canonical(static_cast<float>(correctly_rounded(
      [&](auto& a) { return cell_function(a, f, static_cast<double>(x)); }, DType::f32)));
}

// A product of fewer rows is bound by reading its weights: the terms of x are summed for so many
// rows at once, of several steps where a batch has few.
constexpr std::int64_t kProductRows = 56;

// What one thread needs for its rows of one direction.
template <Isa isa>
class Rows {
 public:
  Rows(const KernelCall& call, const RecurrentPlan& plan, const PreparedLstm& packed,
       std::int64_t d, int threads)
      : call_(call),
        p_(plan),
        g_(plan.g),
        weights_(packed.weights.data<float>() + d * packed.stride),
        of_r_(packed.of_r),
        bias_(call.has(3) ? call.input(3).data<float>().data() + d * 8 * plan.g.hidden : nullptr),
        d_(d),
        threads_(threads) {}

  void run(std::int64_t first, std::int64_t last) {
    const std::int64_t rows = last - first, h = g_.hidden;
    first_ = first;
    squashed_.resize(size(h));
    h_.assign(size(rows * h), 0.0F);
    c_.assign(size(rows * h), 0.0F);
    for (std::int64_t b = first; b < last; ++b) {
      if (call_.has(5)) start(5, b, h_.data() + (b - first) * h);
      if (call_.has(6)) start(6, b, c_.data() + (b - first) * h);
    }
    if (steps_ahead(rows))
      run_ahead();
    else
      run_blocks(first, last);
    float* y = call_.output(0).mutable_data<float>().data();
    for (std::int64_t b = first; b < last; ++b) {
      for (std::int64_t t = p_.length_of(b); t < g_.steps; ++t)
        std::fill_n(y + g_.y_at(t, d_, b), h, 0.0F);
      std::copy_n(h_.data() + (b - first) * h, h,
                  call_.output(1).mutable_data<float>().data() + g_.state_at(d_, b));
      std::copy_n(c_.data() + (b - first) * h, h,
                  call_.output(2).mutable_data<float>().data() + g_.state_at(d_, b));
    }
  }

 private:
  // The terms of x for all rows and some steps, then those steps.
  void run_blocks(std::int64_t first, std::int64_t last) {
    const std::int64_t h = g_.hidden;
    const std::int64_t at_once = std::max<std::int64_t>(1, kProductRows / (last - first));
    for (std::int64_t step = 0; step < g_.steps; step += at_once) {
      add_inputs(step, std::min(g_.steps, step + at_once), first, last);
      if (running_.empty()) break;
      std::int64_t row = 0;  // of the sums
      for (std::int64_t s = step; row < std::ssize(running_); ++s) {
        const std::int64_t count = starts_[size(s - step) + 1] - row;
        advance(s, {running_.data() + row, size(count)}, gates_ + row * 4 * h);
        row += count;
      }
    }
  }

  // One row on one thread, whose next eight steps' terms of x are summed beside those of h.
  bool steps_ahead(std::int64_t rows) const {
    return isa >= Isa::avx512 && rows == 1 && threads_ == 1 && g_.inputs == g_.hidden &&
           4 * g_.hidden % (kGateVectors * tile_set_f32(isa)->lanes) == 0;
  }

  void run_ahead() {
    const std::int64_t steps = p_.length_of(first_), wide = 4 * g_.hidden, k = g_.hidden;
    if (steps == 0) return;
    const float* x = call_.input(0).data<float>().data();
    const auto row_of = [&](std::int64_t step) {
      return x + g_.x_at(time_of(step, first_), first_);
    };
    const std::int64_t x_row = steps == 1 ? k : row_of(1) - row_of(0);
    float* gates = thread_scratch<float>(ScratchSlot::tile, 2 * kAheadRows * wide);
    float* ahead = gates + kAheadRows * wide;
    inputs_.resize(size(k * kAheadRows));
    product({row_of(0), x_row, 1}, std::min(steps, kAheadRows), false, gates);
    for (std::int64_t begin = 0; begin < steps; begin += kAheadRows, std::swap(gates, ahead)) {
      const std::int64_t end = std::min(steps, begin + kAheadRows);
      const std::int64_t to_come = std::min(steps - end, kAheadRows);
      const bool beside = to_come == kAheadRows;
      if (beside)
        tile_set_f32(isa)->pack_strided(row_of(end), x_row, kAheadRows, kAheadRows, k,
                                        inputs_.data(), kAheadRows);
      for (std::int64_t step = begin; step < end; ++step) {
        float* s = gates + (step - begin) * wide;
        if (beside)
          add_state_and_ahead(step - begin, s, ahead);
        else
          product({h_.data(), k, 1}, 1, true, s, step % 2 != 0);
        finish(step, first_, s);
      }
      if (!beside && to_come > 0) product({row_of(end), x_row, 1}, to_come, false, ahead);
    }
  }

  // Step `step` of eight: its gates' terms of h, and every second time two vectors of those to
  // come.
  void add_state_and_ahead(std::int64_t step, float* gates, float* ahead) const {
    const TileSet<float>& set = *tile_set_f32(isa);
    const std::int64_t k = g_.hidden, strip = k * set.lanes, width = kGateVectors * set.lanes;
    const std::int64_t blocks = 4 * g_.hidden / width;
    for (std::int64_t i = 0; i < blocks; ++i) {
      // To and fro, as in advance.
      const std::int64_t block = step % 2 == 0 ? i : blocks - 1 - i, turn = step * blocks + i;
      const float* r = weights_ + of_r_ + block * kGateVectors * strip;
      const float* bias = bias_ == nullptr ? nullptr : bias_ + block * width;
      float* to = gates + block * width;
      if (turn % 2 == 0) {
        const std::int64_t vector = turn / 2 * kAheadVectors;
        add_gates({.k = k,
                   .state = h_.data(),
                   .r = r,
                   .bias = bias,
                   .gates = to,
                   .inputs = inputs_.data(),
                   .w = weights_ + vector * strip,
                   .ahead = ahead + vector * set.lanes,
                   .ahead_row = 4 * g_.hidden});
        continue;
      }
      for (std::int64_t v = 0; v < kGateVectors; v += kMaxTileVectors)
        set.row[kMaxTileVectors]({.k = k,
                                  .a = h_.data(),
                                  .a_step = 1,
                                  .b = r + v * strip,
                                  .b_strip = strip,
                                  .b_step = set.lanes,
                                  .c = to + v * set.lanes,
                                  .last_lanes = set.lanes,
                                  .resume = true,
                                  .lane_bias = bias == nullptr ? nullptr : bias + v * set.lanes});
    }
  }
  static void add_gates([[maybe_unused]] const GateCall& call) {
    if constexpr (isa >= Isa::avx512) avx512::gates_and_ahead(call);
  }

  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  // A NaN state comes out canonical, as every value that is stored.
  void start(std::size_t input, std::int64_t b, float* to) const {
    const float* from = call_.input(input).data<float>().data() + g_.state_at(d_, b);
    for (std::int64_t j = 0; j < g_.hidden; ++j) to[j] = canonical(from[j]);
  }

  std::int64_t time_of(std::int64_t step, std::int64_t b) const {
    return g_.reversed(d_) ? p_.length_of(b) - 1 - step : step;
  }

  // The chains of all gates over the terms of x, for the rows that run at steps [begin, end).
  void add_inputs(std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last) {
    const float* x = call_.input(0).data<float>().data();
    running_.clear();
    starts_.assign(1, 0);
    bool neighbours = true;  // the rows of x lie one behind the other
    const float *x_first = nullptr, *x_next = nullptr;
    for (std::int64_t step = begin; step < end; ++step) {
      for (std::int64_t b = first; b < last; ++b) {
        if (step >= p_.length_of(b)) continue;
        const float* from = x + g_.x_at(time_of(step, b), b);
        if (running_.empty()) x_first = x_next = from;
        neighbours = neighbours && from == x_next;
        x_next = from + g_.inputs;
        running_.push_back(b);
      }
      starts_.push_back(std::ssize(running_));
    }
    const std::int64_t m = std::ssize(running_);
    if (m == 0) return;
    if (!neighbours) {
      operand_.resize(size(m * g_.inputs));
      for (std::int64_t step = begin; step < end; ++step)
        for (std::int64_t r = starts_[size(step - begin)]; r < starts_[size(step - begin) + 1]; ++r)
          std::copy_n(x + g_.x_at(time_of(step, running_[size(r)]), running_[size(r)]), g_.inputs,
                      operand_.data() + r * g_.inputs);
      x_first = operand_.data();
    }
    gates_ = thread_scratch<float>(ScratchSlot::tile, m * 4 * g_.hidden);
    product({x_first, g_.inputs, 1}, m, false, gates_);
  }

  // The chains of m rows of gates take their terms of x from `from`, [m, I], or those of the state
  // behind them, [m, H], which the bias follows.
  void product(const MatrixView& from, std::int64_t m, bool of_state, float* gates,
               bool backwards = false) const {
    const TileSet<float>& set = *tile_set_f32(isa);
    const std::int64_t k = of_state ? g_.hidden : g_.inputs;
    const float* bias = of_state ? bias_ : nullptr;
    gemm_f32(set,
             {.m = m,
              .n = 4 * g_.hidden,
              .k = k,
              .a = from,
              .packed_b = weights_ + (of_state ? of_r_ : 0),
              .resume = of_state,
              .backwards = backwards,
              .c = bias,
              .c_row = 0,
              .c_col = bias == nullptr ? 0 : 1,
              .y = gates},
             threads_);
  }

  // One step of the rows `running`; their gates hold the sums over the terms of x.
  void advance(std::int64_t step, std::span<const std::int64_t> running, float* gates) {
    const std::int64_t h = g_.hidden, m = std::ssize(running);
    const float* states = h_.data() + (running.front() - first_) * h;
    if (running.back() - running.front() + 1 != m) {
      operand_.resize(size(m * h));
      for (std::int64_t r = 0; r < m; ++r)
        std::copy_n(h_.data() + (running[size(r)] - first_) * h, h, operand_.data() + r * h);
      states = operand_.data();
    }
    // To and fro: the weights that a step reads last are in the first cache for the next.
    product({states, h, 1}, m, true, gates, step % 2 != 0);
    for (std::int64_t r = 0; r < m; ++r) finish(step, running[size(r)], gates + r * 4 * h);
  }

  // A row's gates, cell and state from its finished chains.
  void finish(std::int64_t step, std::int64_t b, float* s) {
    const std::int64_t h = g_.hidden;
    float* y = call_.output(0).mutable_data<float>().data();
    const auto& functions = g_.activations[size(d_)];
    const LaneKernel lanes = lane_kernel(isa);
    const auto activate = [&](LaneFunction f, std::size_t which, const float* from, float* to,
                              std::int64_t n) {
      lanes(f, {}, from, to, n, {scalar, &functions[which]});
    };
    const bool cell_last = g_.block_of[3] == 3;  // i, o and f lie side by side
    if (bias_ != nullptr) kRow(F32Op::add, s, s, bias_ + 4 * h, 4 * h, true, true);
    float *i = s + g_.block_of[0] * h, *o = s + g_.block_of[1] * h, *f = s + g_.block_of[2] * h,
          *u = s + g_.block_of[3] * h;
    if (cell_last) {
      activate(LaneFunction::sigmoid, 0, s, s, 3 * h);
    } else {
      for (float* gate : {i, o, f}) activate(LaneFunction::sigmoid, 0, gate, gate, h);
    }
    activate(LaneFunction::tanh, 1, u, u, h);
    float *c = c_.data() + (b - first_) * h, *state = h_.data() + (b - first_) * h;
    if constexpr (isa >= Isa::avx512)
      avx512::lstm_cell(i, f, u, c, h);
    else
      avx2::lstm_cell(i, f, u, c, h);
    activate(LaneFunction::tanh, 2, c, squashed_.data(), h);
    kRow(F32Op::mul, state, o, squashed_.data(), h, true, true);
    std::copy_n(state, h, y + g_.y_at(time_of(step, b), d_, b));
  }

  static constexpr F32Row kRow = isa >= Isa::avx512 ? f32_row_avx512 : f32_row_avx2;

  const KernelCall& call_;
  const RecurrentPlan& p_;
  const RecurrentGeometry& g_;
  const float* weights_;
  std::int64_t of_r_;
  const float* bias_;
  std::int64_t d_, first_ = 0;
  int threads_;                                 // of a product
  std::vector<std::int64_t> running_, starts_;  // rows by step; where each step's begin
  float* gates_ = nullptr;                      // of the rows `running_`
  std::vector<float> operand_, inputs_, squashed_, h_, c_;
};

template <Isa isa>
void run(const KernelCall& call) {
  const std::vector<InferInput> known = known_inputs(call);
  RecurrentPlan plan{
      recurrent_geometry(CellKind::lstm, call.params<LstmParams>(), InferInputs(known)), 0};
  plan.lengths = call.has(4) ? &call.input(4) : nullptr;
  const RecurrentGeometry& g = plan.g;
  for (std::int64_t b = 0; b < g.batch; ++b) plan.length_of(b);  // refused before anything runs
  const auto* packed = static_cast<const PreparedLstm*>(call.prepared);
  std::shared_ptr<PreparedLstm> fresh;
  if (packed == nullptr) {
    fresh = pack(*tile_set_f32(isa), g, call.input(1), call.input(2), call.threads);
    packed = fresh.get();
  }
  if (g.batch == 0 || g.directions == 0) return;
  // As many parts as there are threads: a part of few rows reads all weights for them. Of one row
  // the products themselves are shared out.
  const std::int64_t parts =
      std::clamp<std::int64_t>((call.threads + g.directions - 1) / g.directions, 1, g.batch);
  const int inner = g.directions * parts == 1 ? call.threads : 1;
  parallel_for(g.directions * parts, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t d = item / parts, part = item % parts;
      Rows<isa>(call, plan, *packed, d, inner)
          .run(part * g.batch / parts, (part + 1) * g.batch / parts);
    }
  });
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};
  if (!c.is_seq()) return "promises seq only";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (i != 4 && problem.has(i) && problem.input(i).dtype != DType::f32) return "computes on f32";
  const auto& params = problem.params->as<LstmParams>();
  if (problem.has(7) || params.clip > 0 || params.input_forget)
    return "has no peepholes, no clip and no input_forget";
  const RecurrentGeometry g = geometry(problem);
  for (std::int64_t d = 0; d < g.directions; ++d) {
    const auto& f = g.activations[static_cast<std::size_t>(d)];
    if (f[0].function != CellFunction::sigmoid || f[1].function != CellFunction::tanh ||
        f[2].function != CellFunction::tanh)
      return "takes the activations Sigmoid, Tanh, Tanh";
  }
  return std::nullopt;
}

}  // namespace

template <Isa isa>
KernelRow lstm_f32_row(std::string_view name) {
  return {.op = "lstm",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow lstm_f32_row<Isa::avx512>(std::string_view name);
template KernelRow lstm_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
