// Recurrent cells: one row of the batch in one direction is scanned step by step; every elementary
// step is rounded once (engine/ops/recurrent.h lists the steps). Values between steps are doubles
// that hold a value of the step's format, which is exact.
#pragma once

#include "engine/backend/definition.h"
#include "engine/ops/recurrent.h"
#include "kernels/activation/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class A>
typename A::V cell_function(A& a, const CellActivation& f, double x) {
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
  static constexpr bool exact = false;
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
  static constexpr bool exact = true;
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

struct RecurrentPlan {
  RecurrentGeometry g;
  double clip;
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
  std::int64_t weight_row(std::int64_t d, std::int64_t q, std::int64_t j) const {
    return (d * g.gates + g.block_of[static_cast<std::size_t>(q)]) * g.hidden + j;
  }
  std::int64_t bias_at(std::int64_t d, std::int64_t q, std::int64_t j, bool recurrent) const {
    return ((2 * d + (recurrent ? 1 : 0)) * g.gates + g.block_of[static_cast<std::size_t>(q)]) *
               g.hidden +
           j;
  }
};

template <class Steps>
class CellRow {
 public:
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
      h_truth[j] = h[j] = p_.initial_h ? p_.initial_h[at] : 0.0;
      c_truth[j] = c[j] = p_.initial_c ? p_.initial_c[at] : 0.0;
    }
  }

  // x_t begins at `x_at`.
  void advance(std::int64_t x_at) {
    switch (p_.g.kind) {
      case CellKind::rnn:
        rnn(x_at);
        break;
      case CellKind::gru:
        gru(x_at);
        break;
      case CellKind::lstm:
        lstm(x_at);
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(p_.g.hidden); }
  const CellActivation& activation(std::size_t i) const {
    return p_.g.activations[static_cast<std::size_t>(d_)][i];
  }
  double activate(std::size_t i, double s) const {
    if (p_.clip > 0) s = s < -p_.clip ? -p_.clip : s > p_.clip ? p_.clip : s;
    return steps_.function(activation(i), s);
  }
  // The argument of gate q, element j: what of x and of the state takes part is said by the flags.
  double argument(std::int64_t q, std::int64_t j, std::int64_t x_at, const double* state,
                  const double* peephole = nullptr, const double* scaled = nullptr) const {
    const RecurrentGeometry& g = p_.g;
    const std::int64_t row = p_.weight_row(d_, q, j);
    const bool with_x = x_at >= 0;
    return steps_.step([&](auto& a) {
      using A = std::remove_reference_t<decltype(a)>;
      typename A::Sum sum(a, (with_x ? g.inputs : 0) + (state != nullptr ? g.hidden : 0));
      if (with_x)
        for (std::int64_t k = 0; k < g.inputs; ++k)
          sum.add_product(a.input(p_.w[row * g.inputs + k]), a.input(p_.x[x_at + k]));
      if (state != nullptr)
        for (std::int64_t k = 0; k < g.hidden; ++k)
          sum.add_product(a.input(p_.r[row * g.hidden + k]), a.input(state[k]));
      if constexpr (Steps::exact) {
        // One sum of everything.
        if (peephole != nullptr)
          sum.add_product(a.input(p_.p[peephole_at(q, j)]), a.input(peephole[j]));
        if (scaled != nullptr) sum.add_product(a.input(scaled[0]), a.input(scaled[1]));
        if (p_.b && with_x) sum.add(a.input(p_.b[p_.bias_at(d_, q, j, false)]));
        if (p_.b && scaled == nullptr) sum.add(a.input(p_.b[p_.bias_at(d_, q, j, true)]));
        return sum.result();
      } else {
        auto s = sum.result();
        if (peephole != nullptr)
          s = a.fma(a.input(p_.p[peephole_at(q, j)]), a.input(peephole[j]), s);
        if (scaled != nullptr) s = a.fma(a.input(scaled[0]), a.input(scaled[1]), s);
        if (p_.b && with_x) s = a.add(s, a.input(p_.b[p_.bias_at(d_, q, j, false)]));
        if (p_.b && scaled == nullptr) s = a.add(s, a.input(p_.b[p_.bias_at(d_, q, j, true)]));
        return s;
      }
    });
  }
  std::int64_t peephole_at(std::int64_t q, std::int64_t j) const {
    return (d_ * 3 + p_.g.peephole_of[static_cast<std::size_t>(q)]) * p_.g.hidden + j;
  }
  // a*b + c*d: one rounding under exact, fma(a, b, round(c*d)) otherwise.
  double blend(double a1, double b1, double c1, double d1, double* truth) const {
    return steps_.store(steps_.step(
        [&](auto& a) { return a.fma(a.input(a1), a.input(b1), a.mul(a.input(c1), a.input(d1))); },
        truth));
  }

  void rnn(std::int64_t x_at) {
    std::vector<double> next(size());
    for (std::int64_t j = 0; j < p_.g.hidden; ++j) {
      const double s = argument(0, j, x_at, h.data());
      next[static_cast<std::size_t>(j)] = steps_.store(last_activation(s, j));
    }
    h = std::move(next);
  }
  // The cell's last step is the activation: its truth is that of h.
  double last_activation(double s, std::int64_t j) {
    if (p_.clip > 0) s = s < -p_.clip ? -p_.clip : s > p_.clip ? p_.clip : s;
    if constexpr (Steps::exact)
      return steps_.step([&](auto& a) { return cell_function(a, activation(0), s); },
                         &h_truth[static_cast<std::size_t>(j)]);
    else
      return steps_.function(activation(0), s);
  }

  void gru(std::int64_t x_at) {
    const std::size_t n = size();
    std::vector<double> z(n), r(n), reset(n), next(n);
    for (std::size_t j = 0; j < n; ++j) {
      const auto i = static_cast<std::int64_t>(j);
      z[j] = activate(0, argument(0, i, x_at, h.data()));
      r[j] = activate(0, argument(1, i, x_at, h.data()));
      reset[j] = steps_.step([&](auto& a) { return a.mul(a.input(r[j]), a.input(h[j])); });
    }
    for (std::size_t j = 0; j < n; ++j) {
      const auto i = static_cast<std::int64_t>(j);
      double s = 0;
      if (p_.linear_before_reset) {
        const double scaled[] = {r[j], argument(2, i, -1, h.data())};
        s = argument(2, i, x_at, nullptr, nullptr, scaled);
      } else {
        s = argument(2, i, x_at, reset.data());
      }
      const double candidate = activate(1, s);
      next[j] = steps_.store(steps_.step(
          [&](auto& a) {
            const auto one_less = a.sub(a.constant(1), a.input(z[j]));
            return a.fma(one_less, a.input(candidate), a.mul(a.input(z[j]), a.input(h[j])));
          },
          &h_truth[j]));
    }
    h = std::move(next);
  }

  void lstm(std::int64_t x_at) {
    const std::size_t n = size();
    std::vector<double> next(n), cell(n);
    const double* before = p_.p ? c.data() : nullptr;
    for (std::size_t j = 0; j < n; ++j) {
      const auto e = static_cast<std::int64_t>(j);
      const double i = activate(0, argument(0, e, x_at, h.data(), before));
      const double f = p_.input_forget
                           ? steps_.step([&](auto& a) { return a.sub(a.constant(1), a.input(i)); })
                           : activate(0, argument(2, e, x_at, h.data(), before));
      const double u = activate(1, argument(3, e, x_at, h.data()));
      cell[j] = blend(f, c[j], i, u, &c_truth[j]);
    }
    for (std::size_t j = 0; j < n; ++j) {
      const auto e = static_cast<std::int64_t>(j);
      const double o = activate(0, argument(1, e, x_at, h.data(), p_.p ? cell.data() : nullptr));
      const double squashed = activate(2, cell[j]);
      next[j] = steps_.store(
          steps_.step([&](auto& a) { return a.mul(a.input(o), a.input(squashed)); }, &h_truth[j]));
    }
    h = std::move(next);
    c = std::move(cell);
  }

  const RecurrentPlan& p_;
  Steps steps_;
  std::int64_t d_;

 public:
  std::vector<double> h, c;              // the state
  std::vector<double> h_truth, c_truth;  // the real values of the steps that gave it
};

template <class Steps>
void scan_row(const KernelCall& call, const RecurrentPlan& p, Steps steps, std::int64_t d,
              std::int64_t b) {
  const RecurrentGeometry& g = p.g;
  CellRow<Steps> row(p, steps, d, b);
  const auto put = [&](std::size_t output, std::int64_t at, const std::vector<double>& values,
                       const std::vector<double>& truths) {
    const Tensor& t = call.outputs[output];
    double* truth =
        call.truth.empty() || !call.truth[output]
            ? nullptr
            : reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[output].bytes().data()));
    for (std::int64_t j = 0; j < g.hidden; ++j) {
      const auto e = static_cast<std::size_t>(j);
      store_from_double(t.dtype(), const_cast<std::byte*>(t.bytes().data()), at + j, values[e]);
      if (truth != nullptr) truth[at + j] = canonical(truths[e]);
    }
  };
  const std::vector<double> zeros(static_cast<std::size_t>(g.hidden), 0.0);
  const std::int64_t length = p.length_of(b);
  for (std::int64_t s = 0; s < length; ++s) {
    const std::int64_t t = g.reversed(d) ? length - 1 - s : s;
    row.advance(g.x_at(t, b));
    put(0, g.y_at(t, d, b), row.h, row.h_truth);
  }
  for (std::int64_t t = length; t < g.steps; ++t) put(0, g.y_at(t, d, b), zeros, zeros);
  put(1, g.state_at(d, b), row.h, row.h_truth);
  if (g.kind == CellKind::lstm) put(2, g.state_at(d, b), row.c, row.c_truth);
}

inline void run_recurrent(const KernelCall& call, const RecurrentPlan& p) {
  const Contract& c = call.contract();
  const DType stored = stored_format(call.output(0).dtype(), c);
  const bool native = c.acc == DType::f32 && c.fma && c.round == Round::nearest_even &&
                      c.subnormals == Subnormals::keep;
  parallel_for(p.g.directions * p.g.batch, call.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
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

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
