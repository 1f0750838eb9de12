// Losses: how far predictions x are from targets t, element by element or as one number.
//
//   mse_loss                 (x - t)^2
//   l1_loss                  |x - t|
//   huber_loss               d^2 / 2 where d = |x - t| <= delta, else delta (d - delta/2)
//   smooth_l1_loss           d^2 / (2 beta) where d < beta, else d - beta/2
//   hinge_loss               max(0, margin - t x), or its square; targets are -1 and 1
//   binary_cross_entropy     -(t max(log x, -100) + (1 - t) max(log(1 - x), -100))
//   binary_cross_entropy_with_logits   max(x, 0) - x t + log(1 + e^-|x|)
//   kl_div_loss              t (log t - x), 0 where t = 0; with log_target e^t (t - x)
//   nll_loss                 -w[y] x[n,y,...], labels y: x holds log-probabilities
//   softmax_cross_entropy    -w[y] (x[n,y,...] - log(sum over c of e^x[n,c,...]))
//
// x and t have one shape, and so has `weight` (optional), which multiplies the elements; labels
// have the shape of x [N,C,...] without C, weights of classes [C]. `reduction`: none (a loss for
// each element), sum, mean (sum / n; of labels with weights sum / sum of the weights taken),
// batchmean (sum / extent of axis 0). A label equal to ignore_index is no term (none: +0); another
// one outside [0, C) is refused with its place.
//
// Rounding: d = round(x - t); squares and weights enter their sum as fused products; huber l =
// round(round(d d) / 2) or round(delta round(d - round(delta/2))); smooth_l1 round(round(round(d
// d) / 2) / beta) or round(d - round(beta/2)); hinge max(0, fma(-t, x, margin)); cross entropy
// fma(-t, lp, round(round(t - 1) lq)) with lp, lq the bounded logarithms (lq by log1p); with logits
// round(fma(-x, t, max(x, 0)) + log1p(round(exp(-|x|)))); kl round(t round(round(log t) - x));
// softmax as log_softmax rounds. Sums follow the contract's order, elements row-major; one division
// ends a mean. Under `exact` an output is the correctly rounded real value of the whole, reduction
// included.
// Special values: NaN anywhere in a term is NaN; a mean of no terms is NaN, a sum +0. A softmax row
// with NaN or +inf is NaN, -inf among others is a term of 0 (its own loss +inf).
// Sources: ONNX NegativeLogLikelihoodLoss-13 and SoftmaxCrossEntropyLoss-13; PyTorch's
// torch.nn.functional losses (the bound -100 of binary_cross_entropy, smooth_l1_loss with beta = 0
// as l1_loss); Keras losses (hinge, squared hinge, Huber); Huber, "Robust estimation of a location
// parameter" (1964).
#pragma once

#include <span>

#include "engine/ops/op.h"

namespace etalon {

enum class LossReduction { none, sum, mean, batchmean };

struct LossParams {
  LossReduction reduction = LossReduction::mean;
  template <class V>
  void visit(V& v) {
    v("reduction", reduction, {"none", "sum", "mean", "batchmean"});
  }
};

struct HuberLossParams : LossParams {
  float delta = 1;
  template <class V>
  void visit(V& v) {
    LossParams::visit(v);
    v("delta", delta);
  }
};

struct SmoothL1LossParams : LossParams {
  float beta = 1;
  template <class V>
  void visit(V& v) {
    LossParams::visit(v);
    v("beta", beta);
  }
};

struct HingeLossParams : LossParams {
  float margin = 1;
  bool squared = false;
  template <class V>
  void visit(V& v) {
    LossParams::visit(v);
    v("margin", margin);
    v("squared", squared);
  }
};

struct KlDivLossParams : LossParams {
  bool log_target = false;
  template <class V>
  void visit(V& v) {
    LossParams::visit(v);
    v("log_target", log_target);
  }
};

struct LabelLossParams : LossParams {
  std::int64_t ignore_index = -100;
  template <class V>
  void visit(V& v) {
    LossParams::visit(v);
    v("ignore_index", ignore_index);
  }
};

std::span<const OpRow> loss_ops();

}  // namespace etalon
