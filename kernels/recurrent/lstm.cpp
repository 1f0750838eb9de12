#include "kernels/recurrent/lstm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/backend/bits_row.h"
#include "kernels/activation/lanes.h"
#include "kernels/elementwise/f32_rows.h"
#include "kernels/gemm/fast.h"
#include "kernels/recurrent/definition.h"

namespace etalon {
namespace {

struct PreparedLstm {
  AlignedBuffer weights;  // by direction: strips of [4H][I + H]
  std::int64_t stride = 0;
};

std::shared_ptr<PreparedLstm> pack(const TileSet<float>& set, const RecurrentGeometry& g,
                                   const Tensor& w, const Tensor& r, int threads) {
  auto packed = std::make_shared<PreparedLstm>();
  const std::int64_t rows = g.gates * g.hidden, k = g.inputs + g.hidden;
  packed->stride = vector_strips(rows, set.lanes) * set.lanes * k;
  float* to = packed->weights.at_least<float>(g.directions * packed->stride);
  std::vector<float> both(static_cast<std::size_t>(rows * k));
  for (std::int64_t d = 0; d < g.directions; ++d) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from_w =
          w.data<float>().subspan(static_cast<std::size_t>((d * rows + row) * g.inputs),
                                  static_cast<std::size_t>(g.inputs));
      const auto from_r =
          r.data<float>().subspan(static_cast<std::size_t>((d * rows + row) * g.hidden),
                                  static_cast<std::size_t>(g.hidden));
      const auto at = both.begin() + row * k;
      std::ranges::copy(from_r, std::ranges::copy(from_w, at).out);
    }
    pack_vector(set, {both.data(), k, 1}, rows, k, threads, to + d * packed->stride);
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

// What one thread needs for its rows of one direction.
template <Isa isa>
class Rows {
 public:
  Rows(const KernelCall& call, const RecurrentPlan& plan, const float* weights, std::int64_t d)
      : call_(call), p_(plan), g_(plan.g), weights_(weights), d_(d) {}

  void run(std::int64_t first, std::int64_t last) {
    const std::int64_t rows = last - first, h = g_.hidden, k = g_.inputs + h;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    operand_.resize(size(rows * k));
    gates_.resize(size(rows * 4 * h));
    squashed_.resize(size(h));
    h_.assign(size(rows * h), 0.0F);
    c_.assign(size(rows * h), 0.0F);
    for (std::int64_t b = first; b < last; ++b) {
      if (call_.has(5)) start(5, b, h_.data() + (b - first) * h);
      if (call_.has(6)) start(6, b, c_.data() + (b - first) * h);
    }
    std::vector<std::int64_t> running;
    for (std::int64_t step = 0; step < g_.steps; ++step) {
      running.clear();
      for (std::int64_t b = first; b < last; ++b)
        if (step < p_.length_of(b)) running.push_back(b);
      if (running.empty()) break;
      advance(step, first, running);
    }
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
  // A NaN state comes out canonical, as every value that is stored.
  void start(std::size_t input, std::int64_t b, float* to) const {
    const float* from = call_.input(input).data<float>().data() + g_.state_at(d_, b);
    for (std::int64_t j = 0; j < g_.hidden; ++j) to[j] = canonical(from[j]);
  }

  void advance(std::int64_t step, std::int64_t first, const std::vector<std::int64_t>& running) {
    const std::int64_t h = g_.hidden, k = g_.inputs + h;
    const auto m = static_cast<std::int64_t>(running.size());
    const float* x = call_.input(0).data<float>().data();
    const float* bias = call_.has(3) ? call_.input(3).data<float>().data() + d_ * 8 * h : nullptr;
    float* y = call_.output(0).mutable_data<float>().data();
    const auto time_of = [&](std::int64_t b) {
      return g_.reversed(d_) ? p_.length_of(b) - 1 - step : step;
    };
    for (std::int64_t r = 0; r < m; ++r) {
      const std::int64_t b = running[static_cast<std::size_t>(r)];
      float* to = operand_.data() + r * k;
      std::copy_n(x + g_.x_at(time_of(b), b), g_.inputs, to);
      std::copy_n(h_.data() + (b - first) * h, h, to + g_.inputs);
    }
    gemm_f32(*tile_set_f32(isa),
             {.m = m,
              .n = 4 * h,
              .k = k,
              .a = {operand_.data(), k, 1},
              .packed_b = weights_,
              .c = bias,
              .c_row = 0,
              .c_col = bias == nullptr ? 0 : 1,
              .y = gates_.data()},
             1);
    const auto& functions = g_.activations[static_cast<std::size_t>(d_)];
    const LaneKernel lanes = lane_kernel(isa);
    const auto activate = [&](LaneFunction f, std::size_t which, const float* from, float* to) {
      lanes(f, {}, from, to, h, {scalar, &functions[which]});
    };
    for (std::int64_t r = 0; r < m; ++r) {
      const std::int64_t b = running[static_cast<std::size_t>(r)];
      float* s = gates_.data() + r * 4 * h;
      if (bias != nullptr) kRow(F32Op::add, s, s, bias + 4 * h, 4 * h, true, true);
      float *i = s + g_.block_of[0] * h, *o = s + g_.block_of[1] * h, *f = s + g_.block_of[2] * h,
            *u = s + g_.block_of[3] * h;
      activate(LaneFunction::sigmoid, 0, i, i);
      activate(LaneFunction::sigmoid, 0, o, o);
      activate(LaneFunction::sigmoid, 0, f, f);
      activate(LaneFunction::tanh, 1, u, u);
      float *c = c_.data() + (b - first) * h, *state = h_.data() + (b - first) * h;
      if constexpr (isa >= Isa::avx512)
        avx512::lstm_cell(i, f, u, c, h);
      else
        avx2::lstm_cell(i, f, u, c, h);
      activate(LaneFunction::tanh, 2, c, squashed_.data());
      kRow(F32Op::mul, state, o, squashed_.data(), h, true, true);
      std::copy_n(state, h, y + g_.y_at(time_of(b), d_, b));
    }
  }

  static constexpr F32Row kRow = isa >= Isa::avx512 ? f32_row_avx512 : f32_row_avx2;

  const KernelCall& call_;
  const RecurrentPlan& p_;
  const RecurrentGeometry& g_;
  const float* weights_;
  std::int64_t d_;
  std::vector<float> operand_, gates_, squashed_, h_, c_;
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
  // As many parts as there are threads: a part of few rows reads all weights for them.
  const std::int64_t parts =
      std::clamp<std::int64_t>((call.threads + g.directions - 1) / g.directions, 1, g.batch);
  parallel_for(g.directions * parts, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t d = item / parts, part = item % parts;
      Rows<isa>(call, plan, packed->weights.data<float>() + d * packed->stride, d)
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
