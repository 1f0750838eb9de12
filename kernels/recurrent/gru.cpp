#include "kernels/recurrent/gru.h"

#include <array>

#include "kernels/recurrent/gate_scan.h"

namespace etalon {
namespace {

// The gates that are summed together; of gru z and r, and the candidate.
struct Packed {
  std::shared_ptr<GateWeights> gates, candidate;
};

template <CellKind Kind, class P>
RecurrentGeometry geometry(const Problem& problem) {
  return recurrent_geometry(Kind, problem.params->as<P>(), InferInputs(problem.inputs));
}

Packed pack(const TileSet& set, const RecurrentGeometry& g, const Tensor& w, const Tensor& r,
            int threads) {
  Packed packed;
  const std::array<std::int64_t, 2> first{g.block_of[0], g.block_of[1]};
  const std::array<std::int64_t, 1> last{g.block_of[2]};
  const bool gru = g.kind == CellKind::gru;
  packed.gates = pack_gates(set, g, w, r, std::span(first).first(gru ? 2 : 1), threads);
  if (gru) packed.candidate = pack_gates(set, g, w, r, last, threads);
  return packed;
}

// Bias of some gates in one direction, of x (recurrent: of the state); empty where there is none.
std::vector<float> bias_of(const KernelCall& call, const RecurrentGeometry& g, std::int64_t d,
                           std::initializer_list<std::size_t> gates, bool recurrent) {
  std::vector<float> bias;
  if (!call.has(3)) return bias;
  for (const std::size_t q : gates) {
    const auto at = call.input(3).data<float>().begin() +
                    ((2 * d + (recurrent ? 1 : 0)) * g.gates + g.block_of[q]) * g.hidden;
    bias.insert(bias.end(), at, at + g.hidden);
  }
  return bias;
}
const float* or_null(const std::vector<float>& bias) {
  return bias.empty() ? nullptr : bias.data();
}

template <Isa isa>
class Gru : public GateScan<isa, Gru<isa>> {
  using Base = GateScan<isa, Gru<isa>>;
  friend Base;
  using Base::g_;
  using typename Base::Chains;

 public:
  Gru(const KernelCall& call, const RecurrentPlan& plan, const Packed& packed, std::int64_t d,
      int threads)
      : Base(call, plan, d, threads, {packed.gates.get(), packed.candidate.get()}),
        gates_x_(bias_of(call, plan.g, d, {0, 1}, false)),
        gates_h_(bias_of(call, plan.g, d, {0, 1}, true)),
        candidate_x_(bias_of(call, plan.g, d, {2}, false)),
        candidate_h_(bias_of(call, plan.g, d, {2}, true)),
        ones_(Base::size(plan.g.hidden), 1.0F),
        rest_(Base::size(plan.g.hidden)) {}

 private:
  void advance(std::span<const std::int64_t> running, const float* states, std::int64_t row) {
    const std::int64_t h = g_.hidden, m = std::ssize(running);
    const bool linear = this->p_.linear_before_reset;
    const typename Base::Sums &of_gates = this->sums_[0], &of_candidate = this->sums_[1];
    float *gates = of_gates.at(row), *candidates = of_candidate.at(row);
    inner_.resize(Base::size(m * h));
    this->add_state(of_gates, states, m, or_null(gates_x_), gates);
    if (linear)
      this->add_state(of_candidate, states, m, or_null(candidate_h_), inner_.data(), Chains::begin);
    for (std::int64_t r = 0; r < m; ++r) {
      float* s = gates + r * 2 * h;
      add(s, gates_h_);
      this->activate(LaneFunction::sigmoid, 0, s, s, 2 * h);
      if (!linear)
        Base::kRow(F32Op::mul, inner_.data() + r * h, s + h, this->state(running[Base::size(r)]), h,
                   true, true);
    }
    if (!linear) this->add_state(of_candidate, inner_.data(), m, or_null(candidate_x_), candidates);
    for (std::int64_t r = 0; r < m; ++r) {
      const float *z = gates + r * 2 * h, *reset = z + h;
      float *s = candidates + r * h, *state = this->state(running[Base::size(r)]);
      if (linear) {
        // fma(r, inner, sum over x): that sum times one is itself.
        Base::blend(s, reset, ones_.data(), inner_.data() + r * h, h);
        std::copy_n(inner_.data() + r * h, h, s);
      }
      add(s, linear ? candidate_x_ : candidate_h_);
      this->activate(LaneFunction::tanh, 1, s, s, h);
      Base::kRow(F32Op::sub, rest_.data(), ones_.data(), z, h, true, true);
      Base::blend(z, rest_.data(), state, s, h);  // fma(1 - z, candidate, round(z h))
      std::copy_n(s, h, state);
    }
  }

  static void add(float* s, const std::vector<float>& bias) {
    if (!bias.empty()) Base::kRow(F32Op::add, s, s, bias.data(), std::ssize(bias), true, true);
  }

  const std::vector<float> gates_x_, gates_h_, candidate_x_, candidate_h_, ones_;
  std::vector<float> rest_, inner_;
};

template <Isa isa>
class Rnn : public GateScan<isa, Rnn<isa>> {
  using Base = GateScan<isa, Rnn<isa>>;
  friend Base;
  using Base::g_;

 public:
  Rnn(const KernelCall& call, const RecurrentPlan& plan, const Packed& packed, std::int64_t d,
      int threads)
      : Base(call, plan, d, threads, {packed.gates.get()}),
        relu_(plan.g.activations[Base::size(d)][0].function == CellFunction::relu),
        bias_x_(bias_of(call, plan.g, d, {0}, false)),
        bias_h_(bias_of(call, plan.g, d, {0}, true)) {}

 private:
  void advance(std::span<const std::int64_t> running, const float* states, std::int64_t row) {
    const std::int64_t h = g_.hidden, m = std::ssize(running);
    float* sums = this->sums_[0].at(row);
    this->add_state(this->sums_[0], states, m, or_null(bias_x_), sums);
    for (std::int64_t r = 0; r < m; ++r) {
      float *s = sums + r * h, *state = this->state(running[Base::size(r)]);
      if (!bias_h_.empty()) Base::kRow(F32Op::add, s, s, bias_h_.data(), h, true, true);
      if (!relu_) {
        this->activate(LaneFunction::tanh, 0, s, state, h);
        continue;
      }
      for (std::int64_t j = 0; j < h; ++j)
        state[j] = s[j] != s[j] ? float_of(kNanF32) : s[j] > 0 ? s[j] : 0.0F;
    }
  }

  bool relu_;
  const std::vector<float> bias_x_, bias_h_;
};

template <Isa isa, CellKind Kind, class P>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor *w = problem.inputs[1].value, *r = problem.inputs[2].value;
  if (w == nullptr || r == nullptr) return nullptr;
  return std::make_shared<Packed>(
      pack(*tile_set_f32(isa), geometry<Kind, P>(problem), *w, *r, threads));
}

template <Isa isa, CellKind Kind, class P, class Cell>
void run(const KernelCall& call) {
  const RecurrentPlan plan = recurrent_plan<Kind, P>(call);
  const auto* packed = static_cast<const Packed*>(call.prepared);
  Packed fresh;
  if (packed == nullptr) {
    fresh = pack(*tile_set_f32(isa), plan.g, call.input(1), call.input(2), call.threads);
    packed = &fresh;
  }
  scan_parts(call, plan, [&](std::int64_t d, int inner, std::int64_t first, std::int64_t last) {
    Cell(call, plan, *packed, d, inner).run(first, last);
  });
}

template <CellKind Kind, class P>
Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};
  if (!c.is_seq()) return "promises seq only";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (i != 4 && problem.has(i) && problem.input(i).dtype != DType::f32) return "computes on f32";
  if (problem.params->as<P>().clip > 0) return "has no clip";
  const RecurrentGeometry g = geometry<Kind, P>(problem);
  for (std::int64_t d = 0; d < g.directions; ++d) {
    const auto& f = g.activations[static_cast<std::size_t>(d)];
    if (Kind == CellKind::rnn && f[0].function != CellFunction::tanh &&
        f[0].function != CellFunction::relu)
      return "takes the activations Tanh and Relu";
    if (Kind == CellKind::gru &&
        (f[0].function != CellFunction::sigmoid || f[1].function != CellFunction::tanh))
      return "takes the activations Sigmoid, Tanh";
  }
  return std::nullopt;
}

template <Isa isa, CellKind Kind, class P, class Cell>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse<Kind, P>,
          .run = run<isa, Kind, P, Cell>,
          .prepare = prepare<isa, Kind, P>};
}

}  // namespace

template <Isa isa>
KernelRow gru_f32_row(std::string_view name) {
  return row<isa, CellKind::gru, GruParams, Gru<isa>>("gru", name);
}
template <Isa isa>
KernelRow rnn_f32_row(std::string_view name) {
  return row<isa, CellKind::rnn, RnnParams, Rnn<isa>>("rnn", name);
}
template KernelRow gru_f32_row<Isa::avx512>(std::string_view name);
template KernelRow gru_f32_row<Isa::avx2>(std::string_view name);
template KernelRow rnn_f32_row<Isa::avx512>(std::string_view name);
template KernelRow rnn_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
