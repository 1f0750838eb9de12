// Losses. ONNX has those of labels; the others are written as the arithmetic that they are.
#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

void label_loss(NodeWriter& w, std::string_view type) {
  if (w.text("reduction") == "batchmean")
    throw usage_error("a loss divided by the batch has no form in ONNX");
  pb::NodeProto& n = w.write(type);
  set(n, "reduction", w.text("reduction"));
  set(n, "ignore_index", w.integer("ignore_index"));
}

std::string scaled(NodeWriter& w, const std::string& x, float by) {
  return by == 1 ? x : w.step("Mul", {x, w.number_constant("factor", by)});
}

// Weights, and the reduction.
void finish(NodeWriter& w, std::string loss) {
  const std::string& reduction = w.text("reduction");
  if (reduction == "batchmean")
    throw usage_error("a loss divided by the batch has no form in ONNX");
  if (w.has(2)) loss = w.step("Mul", {w.input(2), loss});
  if (reduction == "none")
    w.write("Identity", {loss}, w.outputs());
  else
    set(w.write(reduction == "sum" ? "ReduceSum" : "ReduceMean", {loss}, w.outputs()), "keepdims",
        std::int64_t{0});
}

std::string distance(NodeWriter& w) { return w.step("Sub", {w.input(0), w.input(1)}); }

void mse(NodeWriter& w) {
  const std::string d = distance(w);
  finish(w, w.step("Mul", {d, d}));
}

void l1(NodeWriter& w) { finish(w, w.step("Abs", {distance(w)})); }

// Where the distance is small a square, else a line.
void piecewise(NodeWriter& w, std::string_view parameter, bool huber) {
  const float limit = w.number(parameter);
  if (limit == 0) return l1(w);
  const std::string d = w.step("Abs", {distance(w)});
  const std::string square = scaled(w, w.step("Mul", {d, d}), huber ? 0.5F : 0.5F / limit);
  const std::string line =
      scaled(w, w.step("Sub", {d, w.number_constant("half", limit / 2)}), huber ? limit : 1.0F);
  const std::string inside =
      w.step(huber ? "LessOrEqual" : "Less", {d, w.number_constant(parameter, limit)});
  finish(w, w.step("Where", {inside, square, line}));
}

void hinge(NodeWriter& w) {
  const std::string product = w.step("Mul", {w.input(1), w.input(0)});
  std::string y =
      w.step("Relu", {w.step("Sub", {w.number_constant("margin", w.number("margin")), product})});
  if (w.flag("squared")) y = w.step("Mul", {y, y});
  finish(w, y);
}

void cross_entropy(NodeWriter& w) {
  const std::string one = w.number_constant("one", 1), bound = w.number_constant("bound", -100);
  const auto bounded = [&](const std::string& x) {
    return w.step("Max", {w.step("Log", {x}), bound});
  };
  const std::string yes = w.step("Mul", {w.input(1), bounded(w.input(0))});
  const std::string no =
      w.step("Mul", {w.step("Sub", {w.input(1), one}), bounded(w.step("Sub", {one, w.input(0)}))});
  finish(w, w.step("Sub", {no, yes}));
}

void cross_entropy_with_logits(NodeWriter& w) {
  const std::string linear =
      w.step("Sub", {w.step("Relu", {w.input(0)}), w.step("Mul", {w.input(0), w.input(1)})});
  const std::string rest = w.step("Exp", {w.step("Neg", {w.step("Abs", {w.input(0)})})});
  finish(w, w.step("Add",
                   {linear, w.step("Log", {w.step("Add", {w.number_constant("one", 1), rest})})}));
}

void kl_div(NodeWriter& w) {
  const std::string t = w.input(1);
  if (w.flag("log_target"))
    return finish(w, w.step("Mul", {w.step("Exp", {t}), w.step("Sub", {t, w.input(0)})}));
  const std::string y = w.step("Mul", {t, w.step("Sub", {w.step("Log", {t}), w.input(0)})});
  const std::string zero = w.number_constant("zero", 0);
  finish(w, w.step("Where", {w.step("Equal", {t, zero}), zero, y}));
}

constexpr WriterRow kRows[] = {
    {"mse_loss", mse},
    {"l1_loss", l1},
    {"huber_loss", [](NodeWriter& w) { piecewise(w, "delta", true); }},
    {"smooth_l1_loss", [](NodeWriter& w) { piecewise(w, "beta", false); }},
    {"hinge_loss", hinge},
    {"binary_cross_entropy", cross_entropy},
    {"binary_cross_entropy_with_logits", cross_entropy_with_logits},
    {"kl_div_loss", kl_div},
    {"nll_loss", [](NodeWriter& w) { label_loss(w, "NegativeLogLikelihoodLoss"); }},
    {"softmax_cross_entropy", [](NodeWriter& w) { label_loss(w, "SoftmaxCrossEntropyLoss"); }},
};

}  // namespace

std::span<const WriterRow> loss_writers() { return kRows; }

}  // namespace etalon::onnx_format
