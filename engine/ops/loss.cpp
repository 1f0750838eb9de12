#include "engine/ops/loss.h"

namespace etalon {
namespace {

void check_floating(const InferInputs& in) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("x must be a floating tensor, got {}", name(in.dtype(0)));
}

TensorType loss_type(const InferInputs& in, LossReduction reduction, const Shape& each) {
  return {in.dtype(0), reduction == LossReduction::none ? each : Shape{}};
}

template <class P>
std::vector<TensorType> infer_elements(const Params& params, const InferInputs& in) {
  check_floating(in);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!in.has(i)) continue;
    if (in.shape(i) != in.shape(0) || in.dtype(i) != in.dtype(0))
      throw bad_input("{} must be as x {}, got {}", i == 1 ? "the target" : "the weight",
                      to_string(in.type(0)), to_string(in.type(i)));
  }
  const LossParams& p = params.as<P>();
  if constexpr (requires(const P& q) { q.delta; })
    if (!(params.as<P>().delta > 0))
      throw bad_input("delta must be positive, got {}", params.as<P>().delta);
  if constexpr (requires(const P& q) { q.beta; })
    if (!(params.as<P>().beta >= 0))
      throw bad_input("beta must not be negative, got {}", params.as<P>().beta);
  if (p.reduction == LossReduction::batchmean && in.shape(0).rank() == 0)
    throw bad_input("batchmean divides by the extent of axis 0, and x is a scalar");
  return {loss_type(in, p.reduction, in.shape(0))};
}

std::vector<TensorType> infer_labels(const Params& params, const InferInputs& in) {
  check_floating(in);
  const Shape &x = in.shape(0), &labels = in.shape(1);
  if (x.rank() < 2) throw bad_input("x must be [N, C, ...], got {}", to_string(x));
  Ints dims{x[0]};
  for (int i = 2; i < x.rank(); ++i) dims.push_back(x[i]);
  if (labels != Shape(std::span<const std::int64_t>(dims)))
    throw bad_input("the labels must have the shape of x {} without axis 1, got {}", to_string(x),
                    to_string(labels));
  const DTypeClass kind = info(in.dtype(1)).kind;
  if (kind != DTypeClass::signed_integer && kind != DTypeClass::unsigned_integer)
    throw bad_input("the labels must be integers, got {}", name(in.dtype(1)));
  if (in.has(2) && (in.shape(2) != Shape{x[1]} || in.dtype(2) != in.dtype(0)))
    throw bad_input("the weight must be {}[{}], got {}", name(in.dtype(0)), x[1],
                    to_string(in.type(2)));
  return {loss_type(in, params.as<LabelLossParams>().reduction, labels)};
}

std::vector<std::string_view> element_names() { return {"x", "target", "weight"}; }
std::vector<std::string_view> label_names() { return {"x", "labels", "weight"}; }

template <class P>
OpRow elements(std::string_view op, std::string_view summary) {
  return {.name = op,
          .summary = summary,
          .nature = OpNature::composite,
          .min_inputs = 2,
          .max_inputs = 3,
          .per_sample = false,
          .defaults = [] { return Params(P{}); },
          .infer = infer_elements<P>,
          .input_names = element_names};
}

OpRow labels(std::string_view op, std::string_view summary) {
  OpRow row = elements<LabelLossParams>(op, summary);
  row.infer = infer_labels;
  row.input_names = label_names;
  return row;
}

}  // namespace

std::span<const OpRow> loss_ops() {
  static const OpRow rows[] = {
      elements<LossParams>("mse_loss", "Squared distance from a target."),
      elements<LossParams>("l1_loss", "Distance from a target."),
      elements<HuberLossParams>("huber_loss", "Squared near the target, linear far from it."),
      elements<SmoothL1LossParams>("smooth_l1_loss", "Huber's loss over its threshold."),
      elements<HingeLossParams>("hinge_loss", "What is missing to a margin on the right side."),
      elements<LossParams>("binary_cross_entropy", "Cross entropy of probabilities, two classes."),
      elements<LossParams>("binary_cross_entropy_with_logits",
                           "Cross entropy of the sigmoid of x, two classes."),
      elements<KlDivLossParams>("kl_div_loss",
                                "Kullback-Leibler divergence from log-probabilities."),
      labels("nll_loss", "Negative log-likelihood of labels."),
      labels("softmax_cross_entropy", "Negative log-likelihood of labels under softmax of x."),
  };
  return rows;
}

}  // namespace etalon
