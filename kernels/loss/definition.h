// Losses: a slice is an element, or with a reduction the whole.
//
// Over the reals an element is a numerator over a denominator that all elements share (2 for Huber,
// 2 beta for smooth L1), and the one division of the whole comes last: a mean that is a midpoint
// between two floats is then found exactly. Distances are exact, so that which piece of Huber's
// loss holds is decided by the real number.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/backend/definition.h"
#include "engine/backend/is_real.h"
#include "engine/numerics/element.h"
#include "engine/numerics/exp_in_sum.h"
#include "engine/ops/loss.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

enum class Loss { mse, l1, huber, smooth_l1, hinge, bce, bce_logits, kl_div };

inline Loss loss_kind(std::string_view op) {
  constexpr std::string_view kNames[] = {"mse_loss",
                                         "l1_loss",
                                         "huber_loss",
                                         "smooth_l1_loss",
                                         "hinge_loss",
                                         "binary_cross_entropy",
                                         "binary_cross_entropy_with_logits",
                                         "kl_div_loss"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == op) return static_cast<Loss>(i);
  throw internal_error("{} is no loss of elements", op);
}

struct ElementLossDefinition {
  static constexpr std::string_view op = "loss";
  static constexpr bool rounded_once = false;

  struct Plan {
    Loss kind;
    LossReduction reduction;
    Source x, target, weight;
    std::int64_t count, batch;
    double parameter = 1;  // delta, beta, margin
    bool flag = false;     // squared, log_target
  };
  static Plan plan(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    Plan p{loss_kind(call.problem->op->name),
           LossReduction::none,
           Source(call, 0),
           Source(call, 1),
           Source(call, 2),
           x.numel(),
           x.rank() == 0 ? 1 : x[0]};
    const auto take = [&](const LossParams& params) { p.reduction = params.reduction; };
    switch (p.kind) {
      case Loss::huber:
        take(call.params<HuberLossParams>());
        p.parameter = static_cast<double>(call.params<HuberLossParams>().delta);
        break;
      case Loss::smooth_l1:
        take(call.params<SmoothL1LossParams>());
        p.parameter = static_cast<double>(call.params<SmoothL1LossParams>().beta);
        if (p.parameter == 0) p.kind = Loss::l1;
        break;
      case Loss::hinge:
        take(call.params<HingeLossParams>());
        p.parameter = static_cast<double>(call.params<HingeLossParams>().margin);
        p.flag = call.params<HingeLossParams>().squared;
        break;
      case Loss::kl_div:
        take(call.params<KlDivLossParams>());
        p.flag = call.params<KlDivLossParams>().log_target;
        break;
      default:
        take(call.params<LossParams>());
    }
    return p;
  }
  static std::int64_t slices(const Plan& p) {
    return p.reduction == LossReduction::none ? p.count : 1;
  }

  template <class A>
  static typename A::V bounded_log(A& a, Function f, const typename A::V& x) {
    return a.max(a.call(f, x), a.constant(-100));
  }

  // The loss of an element; over the reals its numerator.
  template <class A>
  static typename A::V element(A& a, const Plan& p, std::int64_t i) {
    using V = typename A::V;
    const V x = a.input(p.x[i]), t = a.input(p.target[i]);
    const V half = a.constant(0.5), limit = a.constant(p.parameter);
    switch (p.kind) {
      case Loss::mse: {
        const V d = a.sub(x, t);
        return a.mul(d, d);
      }
      case Loss::l1:
        return a.abs(a.sub(x, t));
      case Loss::huber:
      case Loss::smooth_l1: {
        const bool huber = p.kind == Loss::huber;
        const V d = a.abs(a.sub(x, t));
        const bool square = huber ? !a.less(limit, d) : a.less(d, limit);
        if constexpr (is_real<A>) {
          if (square) return a.mul(d, d);
          return a.mul(limit, a.sub(a.mul(a.constant(2), d), limit));
        } else {
          if (square) {
            const V y = a.mul(a.mul(d, d), half);
            return huber ? y : a.div(y, limit);
          }
          const V beyond = a.sub(d, a.mul(limit, half));
          return huber ? a.mul(limit, beyond) : beyond;
        }
      }
      case Loss::hinge: {
        const V y = a.max(a.constant(0), a.fma(a.neg(t), x, limit));
        return p.flag ? a.mul(y, y) : y;
      }
      case Loss::bce: {
        const V lp = bounded_log(a, Function::log, x),
                lq = bounded_log(a, Function::log1p, a.neg(x));
        return a.fma(a.neg(t), lp, a.mul(a.sub(t, a.constant(1)), lq));
      }
      case Loss::bce_logits:
        return a.add(a.fma(a.neg(x), t, a.max(x, a.constant(0))),
                     a.call(Function::log1p, exp_in_sum(a, a.neg(a.abs(x)))));
      case Loss::kl_div:
        break;
    }
    if (p.flag) return a.mul(a.call(Function::exp, t), a.sub(t, x));
    if (p.target[i] == 0) return a.constant(0);
    return a.mul(t, a.sub(a.call(Function::log, t), x));
  }
  template <class A>
  static typename A::V denominator(A& a, const Plan& p) {
    if (p.kind == Loss::huber) return a.constant(2);
    return a.constant(p.kind == Loss::smooth_l1 ? 2 * p.parameter : 1);
  }

  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    using V = typename A::V;
    if (p.reduction == LossReduction::none) {
      V y = element(a, p, i);
      if (p.weight) y = a.mul(a.input(p.weight[i]), y);
      if constexpr (is_real<A>) y = a.div(y, denominator(a, p));
      out(0, i, y);
      return;
    }
    typename A::Sum sum(a, p.count);
    for (std::int64_t k = 0; k < p.count; ++k) {
      if (p.weight) {
        sum.add_product(a.input(p.weight[k]), element(a, p, k));
      } else if (p.kind == Loss::mse) {
        const V d = a.sub(a.input(p.x[k]), a.input(p.target[k]));
        sum.add_product(d, d);
      } else {
        sum.add(element(a, p, k));
      }
    }
    V y = sum.result();
    const std::int64_t n = p.reduction == LossReduction::sum    ? 1
                           : p.reduction == LossReduction::mean ? p.count
                                                                : p.batch;
    const V terms = a.constant(static_cast<double>(n));
    if constexpr (is_real<A>)
      y = a.div(y, a.mul(terms, denominator(a, p)));
    else if (p.reduction != LossReduction::sum)
      y = a.div(y, terms);
    out(0, 0, y);
  }
};

template <bool Softmax>
struct LabelLossDefinition {
  static constexpr std::string_view op = Softmax ? "softmax_cross_entropy" : "nll_loss";
  static constexpr bool rounded_once = false;

  struct Plan {
    LossReduction reduction;
    Source x, weight;
    std::int64_t rows, classes, inner, batch;
    std::vector<std::int64_t> labels;  // -1: no term
  };
  static Plan plan(const KernelCall& call) {
    const auto& params = call.params<LabelLossParams>();
    const Shape& x = call.input(0).shape();
    const Tensor& labels = call.input(1);
    Plan p{params.reduction,
           Source(call, 0),
           Source(call, 2),
           labels.numel(),
           x[1],
           x.product(2, x.rank()),
           x[0],
           {}};
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const auto label = static_cast<std::int64_t>(load_as_double(labels, i));
      if (label != params.ignore_index && (label < 0 || label >= p.classes))
        throw bad_input("label {} is {}, and x {} has {} classes", i, label, to_string(x),
                        p.classes);
      p.labels.push_back(label == params.ignore_index ? -1 : label);
    }
    return p;
  }
  static std::int64_t slices(const Plan& p) {
    return p.reduction == LossReduction::none ? p.rows : 1;
  }
  static double at(const Plan& p, std::int64_t row, std::int64_t c) {
    return p.x[(row / p.inner * p.classes + c) * p.inner + row % p.inner];
  }

  // The unweighted loss of a row that has a label.
  template <class A>
  static typename A::V row_loss(A& a, const Plan& p, std::int64_t row) {
    using V = typename A::V;
    const std::int64_t label = p.labels[static_cast<std::size_t>(row)];
    const double chosen = at(p, row, label);
    if constexpr (!Softmax) {
      return a.neg(a.input(chosen));
    } else {
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < p.classes; ++c) {
        const double b = at(p, row, best), v = at(p, row, c);
        if (!is_nan(b) && (is_nan(v) || v > b)) best = c;
      }
      const double largest = at(p, row, best);
      if (!is_finite(largest)) return a.input(kNan);
      const V m = a.input(largest);
      typename A::Sum sum(a, p.classes);
      for (std::int64_t c = 0; c < p.classes; ++c) {
        if (is_real<A> && c == best) continue;
        if (is_finite(at(p, row, c)))
          sum.add(exp_in_sum(a, a.sub(a.input(at(p, row, c)), m)));
        else
          sum.add(a.constant(0));
      }
      const V log_sum = a.call(is_real<A> ? Function::log1p : Function::log, sum.result());
      if (!is_finite(chosen)) return a.input(kInfinity);
      return a.sub(log_sum, a.sub(a.input(chosen), m));
    }
  }

  // With weights of both signs the losses of equal rows may cancel, which no precision would show.
  // Rows are equal if the distances of their elements from the chosen one are, in any order: the
  // exact sum of their weights is taken times the loss of one. False where no rows are joined.
  template <class A>
  static bool add_equal_rows_once(A& a, const Plan& p, typename A::Sum& sum) {
    bool plus = false, minus = false;
    for (const std::int64_t label : p.labels) {
      if (label < 0 || !p.weight) continue;
      plus |= p.weight[label] > 0;
      minus |= p.weight[label] < 0;
    }
    if (!plus || !minus) return false;

    struct Rows {
      std::int64_t one;
      typename A::Sum weight;
    };
    std::map<std::vector<std::pair<double, double>>, Rows> found;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      const std::int64_t label = p.labels[static_cast<std::size_t>(row)];
      if (label < 0) continue;
      const double chosen = at(p, row, label), weight = p.weight[label];
      if (!is_finite(chosen) || !is_finite(weight)) return false;
      std::vector<std::pair<double, double>> distances;
      for (std::int64_t c = 0; c < p.classes; ++c) {
        const TwoDoubles d = two_sum(at(p, row, c), -chosen);  // exact, and in one form only
        if (d.value == -kInfinity) continue;                   // no term of the sum
        if (!is_finite(d.value)) return false;
        distances.emplace_back(d.value, d.error);
      }
      std::sort(distances.begin(), distances.end());
      const auto rows =
          found.try_emplace(std::move(distances), Rows{row, typename A::Sum(a, p.rows)}).first;
      rows->second.weight.add(a.input(weight));
    }
    for (auto& [distances, rows] : found) {
      const typename A::V weight = rows.weight.result();
      if (!a.equal(weight, a.constant(0))) sum.add_product(weight, row_loss(a, p, rows.one));
    }
    return true;
  }

  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    using V = typename A::V;
    const auto label = [&](std::int64_t row) { return p.labels[static_cast<std::size_t>(row)]; };
    if (p.reduction == LossReduction::none) {
      if (label(i) < 0) {
        out(0, i, a.constant(0));
        return;
      }
      const V y = row_loss(a, p, i);
      out(0, i, p.weight ? a.mul(a.input(p.weight[label(i)]), y) : y);
      return;
    }
    typename A::Sum sum(a, p.rows), weights(a, p.rows);
    std::int64_t terms = 0;
    bool joined = false;
    if constexpr (is_real<A> && Softmax) joined = add_equal_rows_once(a, p, sum);
    for (std::int64_t row = 0; row < p.rows; ++row) {
      if (label(row) < 0) {
        sum.skip(1);
        weights.skip(1);
        continue;
      }
      ++terms;
      if (p.weight) {
        const V w = a.input(p.weight[label(row)]);
        if (!joined) sum.add_product(w, row_loss(a, p, row));
        weights.add(w);
      } else {
        sum.add(row_loss(a, p, row));
      }
    }
    const V s = sum.result();
    if (p.reduction == LossReduction::sum)
      out(0, 0, s);
    else if (p.reduction == LossReduction::batchmean)
      out(0, 0, a.div(s, a.constant(static_cast<double>(p.batch))));
    else
      out(0, 0, a.div(s, p.weight ? weights.result() : a.constant(static_cast<double>(terms))));
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
