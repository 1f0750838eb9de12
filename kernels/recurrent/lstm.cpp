#include "kernels/recurrent/lstm.h"

#include <array>

#include "kernels/recurrent/gate_scan.h"

namespace etalon {
namespace {

std::shared_ptr<GateWeights> pack(const TileSet<float>& set, const RecurrentGeometry& g,
                                  const Tensor& w, const Tensor& r, int threads) {
  constexpr std::array<std::int64_t, 4> kAll{0, 1, 2, 3};
  return pack_gates(set, g, w, r, kAll, threads);
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
        bias_(call.has(3) ? call.input(3).data<float>().data() + d * 8 * plan.g.hidden : nullptr) {
    squashed_.resize(Base::size(plan.g.hidden));
  }

 private:
  void start(std::int64_t first, std::int64_t last) { this->load_state(6, first, last, c_); }
  void finish(std::int64_t first, std::int64_t last) { this->store_state(2, first, last, c_); }

  void advance(std::span<const std::int64_t> running, const float* states, std::int64_t row) {
    const std::int64_t h = g_.hidden;
    float* gates = this->sums_[0].at(row);
    this->add_state(this->sums_[0], states, std::ssize(running), bias_, gates);
    const bool cell_last = g_.block_of[3] == 3;  // i, o and f lie side by side
    for (std::size_t r = 0; r < running.size(); ++r) {
      const std::int64_t b = running[r];
      float* s = gates + static_cast<std::int64_t>(r) * 4 * h;
      if (bias_ != nullptr) Base::kRow(F32Op::add, s, s, bias_ + 4 * h, 4 * h, true, true);
      float *i = s + g_.block_of[0] * h, *o = s + g_.block_of[1] * h, *f = s + g_.block_of[2] * h,
            *u = s + g_.block_of[3] * h;
      if (cell_last) {
        this->activate(LaneFunction::sigmoid, 0, s, s, 3 * h);
      } else {
        for (float* gate : {i, o, f}) this->activate(LaneFunction::sigmoid, 0, gate, gate, h);
      }
      this->activate(LaneFunction::tanh, 1, u, u, h);
      float* c = c_.data() + (b - this->first_) * h;
      Base::blend(i, f, u, c, h);
      this->activate(LaneFunction::tanh, 2, c, squashed_.data(), h);
      Base::kRow(F32Op::mul, this->state(b), o, squashed_.data(), h, true, true);
    }
  }

  const float* bias_;
  std::vector<float> squashed_, c_;
};

template <Isa isa>
void run(const KernelCall& call) {
  const RecurrentPlan plan = recurrent_plan<CellKind::lstm, LstmParams>(call);
  const auto* packed = static_cast<const GateWeights*>(call.prepared);
  std::shared_ptr<GateWeights> fresh;
  if (packed == nullptr) {
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
