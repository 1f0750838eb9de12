// Recurrent cells: one row of the batch in one direction is scanned step by step; every elementary
// step is rounded once (engine/ops/recurrent.h lists the steps). Values between steps are doubles
// that hold a value of the step's format, which is exact.
//
// The same text gives the bound for any order (engine/numerics/any_order.h): its values are pairs
// (real number, error) that go from step to step, so that the error of h(t-1) enters every gate of
// step t as sum |r| E, and what comes out is the bound of the whole recurrence in real arithmetic.
#pragma once

#include <cmath>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/ops/recurrent.h"
#include "kernels/activation/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class A>
ETALON_HD typename A::V cell_function(A& a, const CellActivation& f, double x) {
  using V = typename A::V;
  if (is_nan(x)) return a.input(x);
  const V v = a.input(x);
  const V alpha = a.constant(static_cast<double>(f.alpha)),
          beta = a.constant(static_cast<double>(f.beta));
  switch (f.function) {
    case CellFunction::affine:
      return a.fma(alpha, v, beta);
    case CellFunction::elu:
      return Elu::value(a, {.alpha = f.alpha}, x);
    case CellFunction::hard_sigmoid:
      return HardSigmoid::value(a, {.alpha = f.alpha, .beta = f.beta}, x);
    case CellFunction::leaky_relu:
      return LeakyRelu::value(a, {.alpha = f.alpha}, x);
    case CellFunction::relu:
      return Relu::value(a, {}, x);
    case CellFunction::scaled_tanh:
      // As in expm1_of: tanh's ball is open at its limits, a product's is not.
      if (const double z = static_cast<double>(f.beta) * x; is_finite(z) && abs_of(z) > 700)
        return a.mul(alpha, just_under(a, with_sign(1, z < 0)));
      return a.mul(alpha, a.call(Function::tanh, a.mul(beta, v)));
    case CellFunction::sigmoid:
      return a.call(Function::sigmoid, v);
    case CellFunction::softplus:
      return a.call(Function::softplus, v);
    case CellFunction::softsign:
      return Softsign::value(a, {}, x);
    case CellFunction::tanh:
      return a.call(Function::tanh, v);
    case CellFunction::thresholded_relu:
      return ThresholdedRelu::value(a, {.alpha = f.alpha}, x);
    case CellFunction::identity:
      break;
  }
  return v;
}

// How a step is rounded. step(f) takes a formula f(a) over a number system; `truth`, where not
// null, receives its real value.
template <class Ops>
struct ContractSteps {
  using Value = double;
  static constexpr bool one_sum = false, has_truth = false;
  const Contract& contract;
  DType stored;
  template <class F>
  double step(F&& f, double* = nullptr) const {
    ContractArithmetic<Ops> a(contract);
    return static_cast<double>(f(a));
  }
  double function(const CellActivation& f, double x) const {
    return correctly_rounded([&](auto& a) { return cell_function(a, f, x); }, contract.acc,
                             contract.round, contract.subnormals);
  }
  double store(double x) const { return round_to(x, stored, contract.round, contract.subnormals); }
};

struct ExactSteps {
  using Value = double;
  static constexpr bool one_sum = true, has_truth = true;
  const Contract& contract;
  DType stored;
  template <class F>
  double step(F&& f, double* truth = nullptr) const {
    return correctly_rounded(f, stored, contract.round, contract.subnormals, truth);
  }
  double function(const CellActivation& f, double x) const {
    return step([&](auto& a) { return cell_function(a, f, x); });
  }
  double store(double x) const { return x; }
};

#if !defined(__CUDACC__)  // the CPU's alone
// Largest slope of a cell's function over the ball x +- e; infinite where it jumps there. Those of
// sigmoid and tanh are largest at the point nearest 0; the libm that gives them is good to 2^-40.
inline double steepest(const CellActivation& f, double x, double e) {
  const double alpha = abs_of(static_cast<double>(f.alpha)),
               beta = abs_of(static_cast<double>(f.beta));
  switch (f.function) {
    case CellFunction::affine:
    case CellFunction::hard_sigmoid:
      return alpha;
    case CellFunction::elu:
    case CellFunction::leaky_relu:
      return alpha > 1 ? alpha : 1;
    case CellFunction::scaled_tanh:
      return alpha * beta;
    case CellFunction::sigmoid: {
      const double near = abs_of(x) > e ? std::exp(e - abs_of(x)) : 1;
      return near / ((1 + near) * (1 + near)) * (1 + 0x1p-40);
    }
    case CellFunction::tanh: {
      const double t = abs_of(x) > e ? std::tanh(abs_of(x) - e) : 0;
      return (1 - t * t) * (1 + 0x1p-40) + 0x1p-50;
    }
    case CellFunction::thresholded_relu:  // from alpha down to 0 at alpha
      return abs_of(x - static_cast<double>(f.alpha)) > e || f.alpha == 0 ? 1 : kInfinity;
    default:
      return 1;
  }
}

// A function at a number that carries an error E: the error that the evaluation makes at the
// midpoint, and the slope times E. The evaluation is not made at the midpoint but up to E beside
// it; its own error, a few u of terms whose slopes are at most a few times f's, changes by less
// than 2^-18 of slope times E on the way there.
struct AnyOrderSteps {
  using Value = AnyOrder::V;
  static constexpr bool one_sum = true, has_truth = false;
  const AnyOrder& a;
  DType acc, stored;
  double rounding;  // in units of the last place: 1/2, or 1 in a direction

  template <class F>
  Value step(F&& f, double* = nullptr) const {
    AnyOrder own = a;
    const Value v = f(own);
    return closed(v.mid, own.error(v));
  }
  Value function(const CellActivation& f, const Value& x) const {
    const Value v = step([&](auto& n) { return cell_function(n, f, x.mid); });
    if (x.err == 0) return v;
    return closed(v.mid, v.err + steepest(f, x.mid, x.err) * x.err * (1 + 0x1p-18));
  }
  // State is kept in the output's format by some programs, in the accumulator's by others.
  Value store(const Value& v) const {
    if (!is_floating(stored) || format_of(stored).precision >= format_of(acc).precision) return v;
    const double err = v.err + ulp_of(abs_of(v.mid) + v.err, stored) * rounding;
    return closed(v.mid, abs_of(v.mid) + err > largest_finite(stored) ? kInfinity : err);
  }
  static Value closed(double mid, double err) { return {mid, err, 0, 1, 0}; }
};
#endif

ETALON_HD inline double midpoint(double x) { return x; }
inline double midpoint(const AnyOrder::V& v) { return v.mid; }
ETALON_HD inline void move_to(double& x, double y) { x = y; }
inline void move_to(AnyOrder::V& v, double y) { v.mid = y; }  // the error is that of the argument
template <class A>
ETALON_HD typename A::V lifted(A& a, double x) {
  return a.input(x);
}
inline AnyOrder::V lifted(const AnyOrder&, const AnyOrder::V& v) { return v; }

struct RecurrentPlan {
  RecurrentGeometry g;
  double clip, cell_clip = 0;
  bool linear_before_reset = false, input_forget = false;
  Source x, w, r, b, initial_h, initial_c, p;
  const Tensor* lengths = nullptr;

  std::int64_t length_of(std::int64_t row) const {
    if (lengths == nullptr) return g.steps;
    const std::int64_t n = lengths->dtype() == DType::i64
                               ? lengths->data<std::int64_t>()[static_cast<std::size_t>(row)]
                               : lengths->data<std::int32_t>()[static_cast<std::size_t>(row)];
    if (n < 0 || n > g.steps)
      throw bad_input("sequence_lens[{}] is {}, outside 0 to {}", row, n, g.steps);
    return n;
  }
  ETALON_HD std::int64_t weight_row(std::int64_t d, std::int64_t q, std::int64_t j) const {
    return (d * g.gates + g.block_of[static_cast<std::size_t>(q)]) * g.hidden + j;
  }
  ETALON_HD std::int64_t bias_at(std::int64_t d, std::int64_t q, std::int64_t j,
                                 bool recurrent) const {
    return ((2 * d + (recurrent ? 1 : 0)) * g.gates + g.block_of[static_cast<std::size_t>(q)]) *
               g.hidden +
           j;
  }
};

template <CellKind Kind, class P>
RecurrentPlan recurrent_plan(const KernelCall& call) {
  const P& params = call.params<P>();
  const std::vector<InferInput> known = known_inputs(call);
  RecurrentPlan plan{recurrent_geometry(Kind, params, InferInputs(known)),
                     static_cast<double>(params.clip)};
  if constexpr (Kind == CellKind::gru) plan.linear_before_reset = params.linear_before_reset;
  if constexpr (Kind == CellKind::lstm) {
    plan.input_forget = params.input_forget;
    plan.cell_clip = static_cast<double>(params.cell_clip);
  }
  plan.x = Source(call, 0);
  plan.w = Source(call, 1);
  plan.r = Source(call, 2);
  plan.b = Source(call, 3);
  plan.lengths = call.has(4) ? &call.input(4) : nullptr;
  plan.initial_h = Source(call, 5);
  plan.initial_c = Source(call, 6);
  plan.p = Source(call, 7);
  return plan;
}

// One hidden unit of one step, host and device. h and c are the state before the step, by unit,
// read whole where steps.sum does not give a gate's sum (kernels/recurrent/cuda_scan.h makes the
// sums of a step itself, and has brought the biases); what a unit makes is handed back or written
// at its own place. Two functions stand apart: a compiler would copy each into every gate.
template <class Steps>
struct CellUnit {
  using Value = typename Steps::Value;
  const RecurrentPlan& p;
  Steps& steps;
  std::int64_t d;  // direction

  ETALON_HD const CellActivation& activation(std::size_t i) const {
    return p.g.activations[static_cast<std::size_t>(d)][i];
  }
  ETALON_HD static double held(double x, double limit) {
    return x < -limit ? -limit : x > limit ? limit : x;
  }
  ETALON_HD Value clipped(Value s) const {
    if (p.clip > 0) move_to(s, held(midpoint(s), p.clip));
    return s;
  }
  ETALON_HD ETALON_NOINLINE Value activate(std::size_t i, const Value& s) const {
    return steps.function(activation(i), clipped(s));
  }
  ETALON_HD std::int64_t peephole_at(std::int64_t q, std::int64_t j) const {
    return (d * 3 + p.g.peephole_of[static_cast<std::size_t>(q)]) * p.g.hidden + j;
  }
  ETALON_HD double bias(std::int64_t q, std::int64_t j, bool recurrent) const {
    if constexpr (requires { steps.bias(q, recurrent); })
      return steps.bias(q, recurrent);
    else
      return p.b[p.bias_at(d, q, j, recurrent)];
  }
  // The sum of gate q, element j, over a number system: the terms of x, then those of the state.
  template <class A, class State>
  ETALON_HD typename A::Sum products(A& a, std::int64_t q, std::int64_t j, std::int64_t x_at,
                                     const State& state) const {
    constexpr bool with_state = !std::is_same_v<State, std::nullptr_t>;
    const RecurrentGeometry& g = p.g;
    const std::int64_t row = p.weight_row(d, q, j);
    typename A::Sum sum(a, (x_at >= 0 ? g.inputs : 0) + (with_state ? g.hidden : 0));
    if (x_at >= 0)
      for (std::int64_t k = 0; k < g.inputs; ++k)
        sum.add_product(a.input(p.w[row * g.inputs + k]), a.input(p.x[x_at + k]));
    if constexpr (with_state)
      for (std::int64_t k = 0; k < g.hidden; ++k)
        sum.add_product(a.input(p.r[row * g.hidden + k]), lifted(a, state[k]));
    return sum;
  }
  // The argument of gate q, element j. No x: x_at is -1; no state: nullptr.
  template <class State>
  ETALON_HD ETALON_NOINLINE Value argument(std::int64_t q, std::int64_t j, std::int64_t x_at,
                                           const State& state, const Value* peephole = nullptr,
                                           const Value* scaled = nullptr) const {
    const bool with_x = x_at >= 0;
    return steps.step([&](auto& a) {
      if constexpr (Steps::one_sum) {
        // One sum of everything.
        auto sum = products(a, q, j, x_at, state);
        if (peephole != nullptr)
          sum.add_product(a.input(p.p[peephole_at(q, j)]), lifted(a, *peephole));
        if (scaled != nullptr) sum.add_product(lifted(a, scaled[0]), lifted(a, scaled[1]));
        if (p.b && with_x) sum.add(a.input(bias(q, j, false)));
        if (p.b && scaled == nullptr) sum.add(a.input(bias(q, j, true)));
        return sum.result();
      } else {
        auto s = [&] {
          if constexpr (requires { steps.sum(q, true); })
            return steps.sum(q, !std::is_same_v<State, std::nullptr_t>);
          else
            return products(a, q, j, x_at, state).result();
        }();
        if (peephole != nullptr)
          s = a.fma(a.input(p.p[peephole_at(q, j)]), lifted(a, *peephole), s);
        if (scaled != nullptr) s = a.fma(lifted(a, scaled[0]), lifted(a, scaled[1]), s);
        if (p.b && with_x) s = a.add(s, a.input(bias(q, j, false)));
        if (p.b && scaled == nullptr) s = a.add(s, a.input(bias(q, j, true)));
        return s;
      }
    });
  }
  // a*b + c*d: one rounding under exact, fma(a, b, round(c*d)) otherwise.
  ETALON_HD Value blend(const Value& a1, const Value& b1, const Value& c1, const Value& d1,
                        double* truth) const {
    return steps.store(steps.step(
        [&](auto& a) {
          return a.fma(lifted(a, a1), lifted(a, b1), a.mul(lifted(a, c1), lifted(a, d1)));
        },
        truth));
  }

  // The cell's last step is the activation: its truth is that of h.
  template <class State>
  ETALON_HD Value rnn(std::int64_t j, std::int64_t x_at, const State& h, double* truth) const {
    const Value s = argument(0, j, x_at, h);
    if constexpr (Steps::has_truth)
      return steps.store(
          steps.step([&](auto& a) { return cell_function(a, activation(0), clipped(s)); }, truth));
    else
      return steps.store(activate(0, s));
  }

  // Two halves: the candidate reads r*h of all units.
  template <class State>
  ETALON_HD void gru_gates(std::int64_t j, std::int64_t x_at, const State& h, Value& z, Value& r,
                           Value& reset) const {
    z = activate(0, argument(0, j, x_at, h));
    r = activate(0, argument(1, j, x_at, h));
    reset = steps.step([&](auto& a) { return a.mul(lifted(a, r), lifted(a, h[j])); });
  }
  template <class State>
  ETALON_HD Value gru_state(std::int64_t j, std::int64_t x_at, const State& h, const Value& z,
                            const Value& r, const State& reset, double* truth) const {
    Value s{};
    if (p.linear_before_reset) {
      const Value scaled[] = {r, argument(2, j, -1, h)};
      s = argument(2, j, x_at, nullptr, nullptr, scaled);
    } else {
      s = argument(2, j, x_at, reset);
    }
    const Value candidate = activate(1, s);
    return steps.store(steps.step(
        [&](auto& a) {
          const auto one_less = a.sub(a.constant(1), lifted(a, z));
          return a.fma(one_less, lifted(a, candidate), a.mul(lifted(a, z), lifted(a, h[j])));
        },
        truth));
  }

  template <class State>
  ETALON_HD Value lstm(std::int64_t j, std::int64_t x_at, const State& h, const State& c,
                       Value& cell, double* h_truth, double* c_truth) const {
    const Value* const before = p.p ? &c[j] : nullptr;
    const Value i = activate(0, argument(0, j, x_at, h, before));
    const Value f = p.input_forget
                        ? steps.step([&](auto& a) { return a.sub(a.constant(1), lifted(a, i)); })
                        : activate(0, argument(2, j, x_at, h, before));
    const Value u = activate(1, argument(3, j, x_at, h));
    cell = blend(f, c[j], i, u, c_truth);
    if (p.cell_clip > 0) {
      move_to(cell, held(midpoint(cell), p.cell_clip));
      cell = steps.store(cell);
      if (c_truth != nullptr) *c_truth = held(*c_truth, p.cell_clip);
    }
    const Value o = activate(0, argument(1, j, x_at, h, p.p ? &cell : nullptr));
    const Value squashed = activate(2, cell);
    return steps.store(
        steps.step([&](auto& a) { return a.mul(lifted(a, o), lifted(a, squashed)); }, h_truth));
  }
};

template <class Steps>
class CellRow {
 public:
  using Value = typename Steps::Value;
  CellRow(const RecurrentPlan& plan, Steps steps, std::int64_t direction, std::int64_t row)
      : p_(plan),
        steps_(steps),
        d_(direction),
        h(size()),
        c(size()),
        h_truth(size()),
        c_truth(size()) {
    for (std::size_t j = 0; j < size(); ++j) {
      const std::int64_t at = p_.g.state_at(d_, row) + static_cast<std::int64_t>(j);
      h_truth[j] = p_.initial_h ? p_.initial_h[at] : 0.0;
      c_truth[j] = p_.initial_c ? p_.initial_c[at] : 0.0;
      move_to(h[j], h_truth[j]);
      move_to(c[j], c_truth[j]);
    }
  }

  // x_t begins at `x_at`.
  void advance(std::int64_t x_at) {
    const CellUnit<Steps> unit{p_, steps_, d_};
    const std::size_t n = size();
    std::vector<Value> next(n), cell(n), z(n), r(n), reset(n);
    const auto all = [&](auto&& f) {
      for (std::size_t j = 0; j < n; ++j) f(j, static_cast<std::int64_t>(j));
    };
    switch (p_.g.kind) {
      case CellKind::rnn:
        all([&](std::size_t j, std::int64_t i) {
          next[j] = unit.rnn(i, x_at, h.data(), &h_truth[j]);
        });
        break;
      case CellKind::gru:
        all([&](std::size_t j, std::int64_t i) {
          unit.gru_gates(i, x_at, h.data(), z[j], r[j], reset[j]);
        });
        all([&](std::size_t j, std::int64_t i) {
          next[j] = unit.gru_state(i, x_at, h.data(), z[j], r[j], reset.data(), &h_truth[j]);
        });
        break;
      case CellKind::lstm:
        all([&](std::size_t j, std::int64_t i) {
          next[j] = unit.lstm(i, x_at, h.data(), c.data(), cell[j], &h_truth[j], &c_truth[j]);
        });
        c = std::move(cell);
    }
    h = std::move(next);
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(p_.g.hidden); }

  const RecurrentPlan& p_;
  Steps steps_;
  std::int64_t d_;

 public:
  std::vector<Value> h, c;               // the state
  std::vector<double> h_truth, c_truth;  // the real values of the steps that gave it
};

// Steps through one row; put(output, position, values, their truths) for each row of an output.
template <class Steps, class Put>
void scan_row(const RecurrentPlan& p, Steps steps, std::int64_t d, std::int64_t b, Put&& put) {
  const RecurrentGeometry& g = p.g;
  CellRow<Steps> row(p, steps, d, b);
  const std::vector<typename Steps::Value> zeros(static_cast<std::size_t>(g.hidden));
  const std::vector<double> zero_truths(static_cast<std::size_t>(g.hidden), 0.0);
  const std::int64_t length = p.length_of(b);
  for (std::int64_t s = 0; s < length; ++s) {
    const std::int64_t t = g.reversed(d) ? length - 1 - s : s;
    row.advance(g.x_at(t, b));
    put(0, g.y_at(t, d, b), row.h, row.h_truth);
  }
  for (std::int64_t t = length; t < g.steps; ++t) put(0, g.y_at(t, d, b), zeros, zero_truths);
  put(1, g.state_at(d, b), row.h, row.h_truth);
  if (g.kind == CellKind::lstm) put(2, g.state_at(d, b), row.c, row.c_truth);
}

template <class Steps>
void scan_row(const KernelCall& call, const RecurrentPlan& p, Steps steps, std::int64_t d,
              std::int64_t b) {
  const auto put = [&](std::size_t output, std::int64_t at, const std::vector<double>& values,
                       const std::vector<double>& truths) {
    const Tensor& t = call.outputs[output];
    double* truth =
        call.truth.empty() || !call.truth[output]
            ? nullptr
            : reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[output].bytes().data()));
    for (std::int64_t j = 0; j < p.g.hidden; ++j) {
      const auto e = static_cast<std::size_t>(j);
      store_from_double(t.dtype(), const_cast<std::byte*>(t.bytes().data()), at + j, values[e]);
      if (truth != nullptr) truth[at + j] = canonical(truths[e]);
    }
  };
  scan_row(p, steps, d, b, put);
}

// A slice is one row of the batch in one direction.
inline std::int64_t recurrent_slices(const RecurrentPlan& p) { return p.g.directions * p.g.batch; }

#if !defined(__CUDACC__)  // the CPU's alone
inline void run_recurrent(const KernelCall& call, const RecurrentPlan& p,
                          std::span<const std::int64_t> listed = {}) {
  const Contract& c = call.contract();
  const DType stored = stored_format(call.output(0).dtype(), c);
  const bool native = c.acc == DType::f32 && c.fma && c.round == Round::nearest_even &&
                      c.subnormals == Subnormals::keep;
  const bool all = listed.data() == nullptr;
  const auto count = all ? recurrent_slices(p) : static_cast<std::int64_t>(listed.size());
  parallel_for(count, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t i = all ? k : listed[static_cast<std::size_t>(k)];
      const std::int64_t d = i / p.g.batch, b = i % p.g.batch;
      if (c.exact())
        scan_row(call, p, ExactSteps{c, stored}, d, b);
      else if (native)
        scan_row(call, p, ContractSteps<NativeF32Ops>{c, stored}, d, b);
      else
        scan_row(call, p, ContractSteps<SoftOps>{c, stored}, d, b);
    }
  });
}

inline void bound_recurrent(const KernelCall& call, const RecurrentPlan& p,
                            const AnyOrderModel& model, std::span<const std::int64_t> slices,
                            std::vector<OutputBound>& result) {
  const DType stored = stored_format(call.problem->outputs[0].dtype, call.contract());
  const AnyOrder a(model);
  const AnyOrderSteps steps{a, model.acc, stored, model.round == Round::nearest_even ? 0.5 : 1};
  std::mutex joining;
  parallel_for(static_cast<std::int64_t>(slices.size()), call.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<OutputBound> found;
                 const auto put = [&](int output, std::int64_t at,
                                      const std::vector<AnyOrder::V>& values,
                                      const std::vector<double>&) {
                   for (std::size_t j = 0; j < values.size(); ++j)
                     found.push_back({output, at + static_cast<std::int64_t>(j), values[j].mid,
                                      values[j].err, p.g.inputs + p.g.hidden});
                 };
                 for (std::int64_t k = begin; k < end; ++k) {
                   const std::int64_t i = slices[static_cast<std::size_t>(k)];
                   scan_row(p, steps, i / p.g.batch, i % p.g.batch, put);
                 }
                 const std::scoped_lock lock(joining);
                 result.insert(result.end(), found.begin(), found.end());
               });
}

#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
