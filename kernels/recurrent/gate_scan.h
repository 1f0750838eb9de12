// What the fast recurrent rows share: one thread's rows of the batch in one direction, stepped
// through. A cell's sums are products with packed weights: those over the terms of x for many steps
// at once, those over the state as steps come.
//
// A single row reads all of R a step, from the second cache at half the rate of the fma. The terms
// of x of eight steps to come fill the other half: their tiles share a loop with those of the state
// (gates_and_ahead), where x and h have as many terms.
//
// Cell derives from GateScan<isa, Cell>, names the matrices of weights that its sums are over, and
// gives
//   advance(running, states, row)  one step: `states` [n, H] are those of the rows `running`, their
//                                  sums over x begin at `row`; state(b) receives the new state
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/bits_row.h"
#include "kernels/activation/lanes.h"
#include "kernels/elementwise/f32_rows.h"
#include "kernels/gemm/fast.h"
#include "kernels/recurrent/definition.h"
#include "kernels/recurrent/lstm.h"

namespace etalon {

// Weights of some gates, by direction: strips of W, [gates * H][I], then those of R, [gates *
// H][H]. In parts, the first H / parts rows of every gate come first, then the next of every gate:
// a thread does whole units.
struct GateWeights {
  AlignedBuffer weights;
  std::int64_t rows = 0, of_r = 0, stride = 0;  // where R's begin; from direction to direction
  std::int64_t parts = 1;
  std::int64_t part_rows() const { return rows / parts; }
};

// In how many parts threads share the steps of one row: whole vectors of units each.
inline std::int64_t unit_parts(const RecurrentGeometry& g, int lanes, int threads) {
  if (g.batch != 1 || g.directions != 1) return 1;
  std::int64_t parts = threads;
  while (parts > 1 && g.hidden % (parts * lanes) != 0) --parts;
  return parts;
}

// `from` [blocks of H rows][k] in parts.
inline void gather_parts(const float* from, std::span<const std::int64_t> blocks,
                         std::int64_t hidden, std::int64_t k, std::int64_t parts,
                         std::vector<float>& to) {
  const std::int64_t units = hidden / parts * k;
  to.clear();
  for (std::int64_t p = 0; p < parts; ++p)
    for (const std::int64_t q : blocks) {
      const float* part = from + q * hidden * k + p * units;
      to.insert(to.end(), part, part + units);
    }
}

// `blocks`: which of the op's blocks of H rows, in which sequence; all of them as they lie.
inline std::shared_ptr<GateWeights> pack_gates(const TileSet& set, const RecurrentGeometry& g,
                                               const Tensor& w, const Tensor& r,
                                               std::span<const std::int64_t> blocks, int threads,
                                               std::int64_t parts = 1) {
  auto packed = std::make_shared<GateWeights>();
  const std::int64_t rows = std::ssize(blocks) * g.hidden;
  const std::int64_t wide = vector_strips(rows, set.lanes) * set.lanes;
  packed->rows = rows;
  packed->parts = parts;
  packed->of_r = wide * g.inputs;
  packed->stride = wide * (g.inputs + g.hidden);
  float* to = packed->weights.at_least<float>(g.directions * packed->stride);
  std::vector<float> gathered;
  const auto pack = [&](const Tensor& from, std::int64_t d, std::int64_t k, float* strips) {
    const float* all = from.data<float>().data() + d * g.gates * g.hidden * k;
    if (std::ssize(blocks) < g.gates || parts > 1) {
      gather_parts(all, blocks, g.hidden, k, parts, gathered);
      all = gathered.data();
    }
    pack_vector(set, {all, k, 1}, rows, k, threads, strips);
  };
  for (std::int64_t d = 0; d < g.directions; ++d, to += packed->stride) {
    pack(w, d, g.inputs, to);
    pack(r, d, g.hidden, to + packed->of_r);
  }
  return packed;
}

// A cell's function as the scalar fallback of its lanes.
inline float cell_scalar(const void* context, float x) {
  if (x != x) return float_of(kNanF32);
  const auto& f = *static_cast<const CellActivation*>(context);
  return canonical(static_cast<float>(correctly_rounded(
      [&](auto& a) { return cell_function(a, f, static_cast<double>(x)); }, DType::f32)));
}

// A product of fewer rows is bound by reading its weights: the terms of x are summed for so many
// rows at once, of several steps where a batch has few.
inline constexpr std::int64_t kProductRows = 56;

template <Isa isa, class Cell>
class GateScan {
 public:
  void run(std::int64_t first, std::int64_t last) {
    first_ = first;
    load_state(5, first, last, h_);
    cell().start(first, last);
    if (ahead_pays(last - first))
      run_ahead();
    else
      run_blocks(first, last);
    float* y = call_.output(0).mutable_data<float>().data();
    for (std::int64_t b = first; b < last; ++b)
      for (std::int64_t t = p_.length_of(b); t < g_.steps; ++t)
        std::fill_n(y + g_.y_at(t, d_, b), g_.hidden, 0.0F);
    store_state(1, first, last, h_);
    cell().finish(first, last);
  }

 protected:
  // The sums over one matrix: of the rows that run, and of eight steps to come where those are
  // summed beside them.
  struct Sums {
    const GateWeights* weights = nullptr;
    float *now = nullptr, *ahead = nullptr;
    float* at(std::int64_t row) const { return now + row * weights->rows; }
  };
  enum class Chains { go_on, begin };

  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  float* state(std::int64_t b) { return h_.data() + (b - first_) * g_.hidden; }
  void start(std::int64_t, std::int64_t) {}
  void finish(std::int64_t, std::int64_t) {}

  // A NaN state comes out canonical, as every value that is stored.
  void load_state(std::size_t input, std::int64_t first, std::int64_t last,
                  std::vector<float>& to) const {
    to.assign(size((last - first) * g_.hidden), 0.0F);
    if (!call_.has(input)) return;
    const float* all = call_.input(input).data<float>().data();
    for (std::int64_t b = first; b < last; ++b) {
      const float* from = all + g_.state_at(d_, b);
      for (std::int64_t j = 0; j < g_.hidden; ++j)
        to[size((b - first) * g_.hidden + j)] = canonical(from[j]);
    }
  }
  void store_state(std::size_t output, std::int64_t first, std::int64_t last,
                   const std::vector<float>& from) const {
    float* all = call_.output(output).mutable_data<float>().data();
    for (std::int64_t b = first; b < last; ++b)
      std::copy_n(from.data() + (b - first) * g_.hidden, g_.hidden, all + g_.state_at(d_, b));
  }

  // The chains at `to` of m rows take the terms of a state, [m, H], behind those of x, or begin
  // with them. The bias follows by one rounding.
  void add_state(const Sums& sums, const float* states, std::int64_t m, const float* bias,
                 float* to, Chains chains = Chains::go_on) const {
    if (turn_ < 0) {
      product(*sums.weights, {states, g_.hidden, 1}, m, Terms::of_state, chains, bias, to);
      return;
    }
    if (chains == Chains::begin) std::fill_n(to, sums.weights->rows, 0.0F);
    add_state_and_ahead(sums, states, bias, to, 0);
  }
  // Of one row the gates of one part, on the thread that asks; `to` and `bias` are all gates'.
  void add_state_of_part(const Sums& sums, const float* state, const float* bias, float* to,
                         std::int64_t part) const {
    if (turn_ >= 0) return add_state_and_ahead(sums, state, bias, to, part);
    const std::int64_t rows = sums.weights->part_rows(), first = part * rows;
    gemm_f32(*tile_set_f32(isa),
             {.m = 1,
              .n = rows,
              .k = g_.hidden,
              .a = {state, g_.hidden, 1},
              .packed_b = strips(*sums.weights, Terms::of_state) + first * g_.hidden,
              .resume = true,
              .backwards = backwards_,
              .c = bias == nullptr ? nullptr : bias + first,
              .c_row = 0,
              .c_col = bias == nullptr ? 0 : 1,
              .y = to + first},
             1);
  }

  void activate(LaneFunction f, std::size_t which, const float* from, float* to,
                std::int64_t n) const {
    lane_kernel(isa)(f, {}, from, to, n, {cell_scalar, &g_.activations[size(d_)][which]});
  }
  // c[j] = fma(f[j], c[j], round(i[j] * u[j])).
  static void blend(const float* i, const float* f, const float* u, float* c, std::int64_t n) {
    if constexpr (isa >= Isa::avx512)
      avx512::lstm_cell(i, f, u, c, n);
    else
      avx2::lstm_cell(i, f, u, c, n);
  }
  static constexpr F32Row kRow = isa >= Isa::avx512 ? f32_row_avx512 : f32_row_avx2;

  const KernelCall& call_;
  const RecurrentPlan& p_;
  const RecurrentGeometry& g_;
  std::int64_t d_, first_ = 0;
  int threads_;  // of a product
  std::vector<float> h_;
  std::vector<Sums> sums_;

 private:
  friend Cell;  // the only one that makes a scan
  GateScan(const KernelCall& call, const RecurrentPlan& plan, std::int64_t d, int threads,
           std::initializer_list<const GateWeights*> weights)
      : call_(call), p_(plan), g_(plan.g), d_(d), threads_(threads) {
    for (const GateWeights* w : weights) sums_.push_back({.weights = w});
  }

  enum class Terms { of_x, of_state };

  Cell& cell() { return static_cast<Cell&>(*this); }

  const float* strips(const GateWeights& w, Terms terms) const {
    return w.weights.template data<float>() + d_ * w.stride + (terms == Terms::of_x ? 0 : w.of_r);
  }

  // To and fro: the weights of the state that a step reads last are in the first cache for the
  // next.
  void product(const GateWeights& w, const MatrixView& from, std::int64_t m, Terms terms,
               Chains chains, const float* bias, float* to) const {
    gemm_f32(*tile_set_f32(isa),
             {.m = m,
              .n = w.rows,
              .k = terms == Terms::of_x ? g_.inputs : g_.hidden,
              .a = from,
              .packed_b = strips(w, terms),
              .resume = chains == Chains::go_on,
              .backwards = terms == Terms::of_state && backwards_,
              .c = bias,
              .c_row = 0,
              .c_col = bias == nullptr ? 0 : 1,
              .y = to},
             threads_);
  }
  void begin(const Sums& sums, const MatrixView& x, std::int64_t m, float* to) const {
    product(*sums.weights, x, m, Terms::of_x, Chains::begin, nullptr, to);
  }

  // Room for the sums of m rows, and again for those to come.
  void make_room(std::int64_t m, bool ahead) {
    std::int64_t gates = 0;
    for (const Sums& s : sums_) gates += s.weights->rows;
    float* to = thread_scratch<float>(ScratchSlot::tile, (ahead ? 2 : 1) * m * gates);
    for (Sums& s : sums_) {
      s.now = to;
      s.ahead = ahead ? to + m * gates : nullptr;
      to += m * s.weights->rows;
    }
  }

  void step(std::int64_t number, std::span<const std::int64_t> running, std::int64_t row) {
    backwards_ = number % 2 != 0;
    cell().advance(running, states_of(running), row);
    float* y = call_.output(0).mutable_data<float>().data();
    for (const std::int64_t b : running)
      std::copy_n(state(b), g_.hidden, y + g_.y_at(time_of(number, b), d_, b));
  }

  // The terms of x for all rows and some steps, then those steps.
  void run_blocks(std::int64_t first, std::int64_t last) {
    const std::int64_t at_once = std::max<std::int64_t>(1, kProductRows / (last - first));
    for (std::int64_t begin_step = 0; begin_step < g_.steps; begin_step += at_once) {
      const float* x = gather(begin_step, std::min(g_.steps, begin_step + at_once), first, last);
      const std::int64_t m = std::ssize(running_);
      if (m == 0) break;
      make_room(m, false);
      for (const Sums& s : sums_) begin(s, {x, g_.inputs, 1}, m, s.now);
      std::int64_t row = 0;
      for (std::int64_t number = begin_step; row < m; ++number) {
        const std::int64_t count = starts_[size(number - begin_step) + 1] - row;
        step(number, {running_.data() + row, size(count)}, row);
        row += count;
      }
    }
  }

  // One row on one thread, or in parts.
  bool ahead_pays(std::int64_t rows) const {
    return isa >= Isa::avx512 && rows == 1 && g_.inputs == g_.hidden &&
           std::ranges::all_of(sums_, [this](const Sums& s) {
             return (threads_ == 1 || s.weights->parts > 1) &&
                    s.weights->part_rows() % (kGateVectors * tile_set_f32(isa)->lanes) == 0;
           });
  }

  void run_ahead() {
    const std::int64_t steps = p_.length_of(first_), k = g_.hidden;
    if (steps == 0) return;
    const float* x = call_.input(0).data<float>().data();
    const auto row_of = [&](std::int64_t number) {
      return x + g_.x_at(time_of(number, first_), first_);
    };
    const std::int64_t x_row = steps == 1 ? k : row_of(1) - row_of(0);
    make_room(kAheadRows, true);
    inputs_.resize(size(k * kAheadRows));
    for (const Sums& s : sums_) begin(s, {row_of(0), x_row, 1}, std::min(steps, kAheadRows), s.now);
    for (std::int64_t block = 0; block < steps; block += kAheadRows) {
      const std::int64_t end = std::min(steps, block + kAheadRows);
      const std::int64_t to_come = std::min(steps - end, kAheadRows);
      const bool beside = to_come == kAheadRows;
      if (beside)
        tile_set_f32(isa)->pack_strided(row_of(end), x_row, kAheadRows, kAheadRows, k,
                                        inputs_.data(), kAheadRows);
      for (std::int64_t number = block; number < end; ++number) {
        turn_ = beside ? number - block : -1;
        step(number, {&first_, 1}, number - block);
      }
      for (Sums& s : sums_) {
        if (!beside && to_come > 0) begin(s, {row_of(end), x_row, 1}, to_come, s.ahead);
        std::swap(s.now, s.ahead);
      }
    }
  }

  // The gates of a part of a row take their terms of the state, and every second time two vectors
  // of those of the eight steps to come theirs of x.
  void add_state_and_ahead(const Sums& sums, const float* state, const float* bias, float* to,
                           std::int64_t part) const {
    const TileSet& set = *tile_set_f32(isa);
    const std::int64_t k = g_.hidden, strip = k * set.lanes, width = kGateVectors * set.lanes;
    const std::int64_t blocks = sums.weights->part_rows() / width, begin = part * blocks * width;
    const float *w = strips(*sums.weights, Terms::of_x) + begin * k,
                *r = strips(*sums.weights, Terms::of_state) + begin * k;
    float* ahead = sums.ahead + begin;
    to += begin;
    if (bias != nullptr) bias += begin;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t block = backwards_ ? blocks - 1 - i : i, call = turn_ * blocks + i;
      const float* of_block = bias == nullptr ? nullptr : bias + block * width;
      if (call % 2 == 0) {
        const std::int64_t vector = call / 2 * kAheadVectors;
        add_gates({.k = k,
                   .state = state,
                   .r = r + block * kGateVectors * strip,
                   .bias = of_block,
                   .gates = to + block * width,
                   .inputs = inputs_.data(),
                   .w = w + vector * strip,
                   .ahead = ahead + vector * set.lanes,
                   .ahead_row = sums.weights->rows});
        continue;
      }
      for (std::int64_t v = 0; v < kGateVectors; v += kMaxTileVectors)
        set.unasked[kMaxTileVectors][1](
            {.k = k,
             .a = state,
             .a_step = 1,
             .b = r + (block * kGateVectors + v) * strip,
             .b_strip = strip,
             .b_step = set.lanes,
             .c = to + block * width + v * set.lanes,
             .last_lanes = set.lanes,
             .resume = true,
             .lane_bias = of_block == nullptr ? nullptr : of_block + v * set.lanes});
    }
  }
  static void add_gates([[maybe_unused]] const GateCall& call) {
    if constexpr (isa >= Isa::avx512) avx512::gates_and_ahead(call);
  }

  std::int64_t time_of(std::int64_t number, std::int64_t b) const {
    return g_.reversed(d_) ? p_.length_of(b) - 1 - number : number;
  }

  // The rows of x that run at steps [begin, end), one behind the other.
  const float* gather(std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last) {
    const float* x = call_.input(0).data<float>().data();
    running_.clear();
    starts_.assign(1, 0);
    bool neighbours = true;
    const float *x_first = nullptr, *x_next = nullptr;
    for (std::int64_t number = begin; number < end; ++number) {
      for (std::int64_t b = first; b < last; ++b) {
        if (number >= p_.length_of(b)) continue;
        const float* from = x + g_.x_at(time_of(number, b), b);
        if (running_.empty()) x_first = x_next = from;
        neighbours = neighbours && from == x_next;
        x_next = from + g_.inputs;
        running_.push_back(b);
      }
      starts_.push_back(std::ssize(running_));
    }
    if (neighbours) return x_first;
    operand_.resize(size(std::ssize(running_) * g_.inputs));
    for (std::int64_t number = begin; number < end; ++number)
      for (std::int64_t r = starts_[size(number - begin)]; r < starts_[size(number - begin) + 1];
           ++r)
        std::copy_n(x + g_.x_at(time_of(number, running_[size(r)]), running_[size(r)]), g_.inputs,
                    operand_.data() + r * g_.inputs);
    return operand_.data();
  }

  const float* states_of(std::span<const std::int64_t> running) {
    const std::int64_t h = g_.hidden, m = std::ssize(running);
    if (running.back() - running.front() + 1 == m) return state(running.front());
    operand_.resize(size(m * h));
    for (std::int64_t r = 0; r < m; ++r)
      std::copy_n(state(running[size(r)]), h, operand_.data() + r * h);
    return operand_.data();
  }

  bool backwards_ = false;
  std::int64_t turn_ = -1;  // of the eight steps beside which terms of x are summed; -1 of none
  std::vector<std::int64_t> running_, starts_;  // rows by step; where each step's begin
  std::vector<float> operand_, inputs_;
};

// As many parts as there are threads: a part of few rows reads all weights for them. Of one row
// the products themselves are shared out. scan(d, inner threads, first row, last row).
template <class Scan>
void scan_parts(const KernelCall& call, const RecurrentPlan& plan, Scan&& scan) {
  const RecurrentGeometry& g = plan.g;
  for (std::int64_t b = 0; b < g.batch; ++b) plan.length_of(b);  // refused before anything runs
  if (g.batch == 0 || g.directions == 0) return;
  const std::int64_t parts =
      std::clamp<std::int64_t>((call.threads + g.directions - 1) / g.directions, 1, g.batch);
  const int inner = g.directions * parts == 1 ? call.threads : 1;
  parallel_for(g.directions * parts, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t d = item / parts, part = item % parts;
      scan(d, inner, part * g.batch / parts, (part + 1) * g.batch / parts);
    }
  });
}

}  // namespace etalon
