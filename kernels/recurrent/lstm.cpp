#include "kernels/recurrent/lstm.h"

#include <array>

#include "kernels/recurrent/gate_scan.h"

namespace etalon {
namespace {

constexpr std::array<std::int64_t, 4> kAllGates{0, 1, 2, 3};

std::shared_ptr<GateWeights> pack(const TileSet& set, const RecurrentGeometry& g, const Tensor& w,
                                  const Tensor& r, int threads) {
  return pack_gates(set, g, w, r, kAllGates, threads, unit_parts(g, set.lanes, threads));
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

template <Isa isa>
class Lstm : public GateScan<isa, Lstm<isa>> {
  using Base = GateScan<isa, Lstm<isa>>;
  friend Base;
  using Base::g_;

 public:
  Lstm(const KernelCall& call, const RecurrentPlan& plan, const GateWeights& weights,
       std::int64_t d, int threads)
      : Base(call, plan, d, threads, {&weights}),
        parts_(weights.parts),
        units_(plan.g.hidden / parts_),
        bias_(call.has(3) ? call.input(3).data<float>().data() + d * 8 * plan.g.hidden : nullptr) {
    squashed_.resize(Base::size(plan.g.hidden));
    if (parts_ == 1) return;
    next_.resize(squashed_.size());
    if (bias_ == nullptr) return;
    std::vector<float> of_r;
    gather_parts(bias_, kAllGates, plan.g.hidden, 1, parts_, parted_bias_);
    gather_parts(bias_ + 4 * plan.g.hidden, kAllGates, plan.g.hidden, 1, parts_, of_r);
    parted_bias_.insert(parted_bias_.end(), of_r.begin(), of_r.end());
    bias_ = parted_bias_.data();
  }

 private:
  void start(std::int64_t first, std::int64_t last) { this->load_state(6, first, last, c_); }
  void finish(std::int64_t first, std::int64_t last) { this->store_state(2, first, last, c_); }

  void advance(std::span<const std::int64_t> running, const float* states, std::int64_t row) {
    float* gates = this->sums_[0].at(row);
    if (parts_ > 1) return advance_in_parts(states, gates);
    this->add_state(this->sums_[0], states, std::ssize(running), bias_, gates);
    for (std::size_t r = 0; r < running.size(); ++r) {
      const std::int64_t b = running[r];
      update(gates + static_cast<std::int64_t>(r) * 4 * g_.hidden, 0,
             c_.data() + (b - this->first_) * g_.hidden, this->state(b));
    }
  }

  // One row: a thread takes the units of a part from the state to the next, so that threads wait
  // for each other once a step.
  void advance_in_parts(const float* state, float* gates) {
    parallel_for(parts_, this->threads_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        this->add_state_of_part(this->sums_[0], state, bias_, gates, p);
        update(gates + p * 4 * units_, p, c_.data() + p * units_, next_.data() + p * units_);
      }
    });
    this->h_.swap(next_);
  }

  // The units of a part from their gates' sums `s` on: cells c and states h.
  void update(float* s, std::int64_t part, float* c, float* h) {
    const std::int64_t n = units_;
    if (bias_ != nullptr)
      Base::kRow(F32Op::add, s, s, bias_ + 4 * (g_.hidden + part * n), 4 * n, true, true);
    float *i = s + g_.block_of[0] * n, *o = s + g_.block_of[1] * n, *f = s + g_.block_of[2] * n,
          *u = s + g_.block_of[3] * n;
    if (g_.block_of[3] == 3) {  // i, o and f lie side by side
      this->activate(LaneFunction::sigmoid, 0, s, s, 3 * n);
    } else {
      for (float* gate : {i, o, f}) this->activate(LaneFunction::sigmoid, 0, gate, gate, n);
    }
    this->activate(LaneFunction::tanh, 1, u, u, n);
    Base::blend(i, f, u, c, n);
    float* squashed = squashed_.data() + part * n;
    this->activate(LaneFunction::tanh, 2, c, squashed, n);
    Base::kRow(F32Op::mul, h, o, squashed, n, true, true);
  }

  std::int64_t parts_, units_;
  const float* bias_;
  std::vector<float> parted_bias_, squashed_, c_, next_;
};

template <Isa isa>
void run(const KernelCall& call) {
  const RecurrentPlan plan = recurrent_plan<CellKind::lstm, LstmParams>(call);
  const auto* packed = static_cast<const GateWeights*>(call.prepared);
  std::shared_ptr<GateWeights> fresh;
  if (packed == nullptr ||
      packed->parts != unit_parts(plan.g, tile_set_f32(isa)->lanes, call.threads)) {
    fresh = pack(*tile_set_f32(isa), plan.g, call.input(1), call.input(2), call.threads);
    packed = fresh.get();
  }
  scan_parts(call, plan, [&](std::int64_t d, int inner, std::int64_t first, std::int64_t last) {
    Lstm<isa>(call, plan, *packed, d, inner).run(first, last);
  });
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};
  if (!c.is_seq()) return "promises seq only";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (i != 4 && problem.has(i) && problem.input(i).dtype != DType::f32) return "computes on f32";
  const auto& params = problem.params->as<LstmParams>();
  if (problem.has(7) || params.clip > 0 || params.cell_clip > 0 || params.input_forget)
    return "has no peepholes, no clips and no input_forget";
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
