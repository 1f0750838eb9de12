// Losses of ONNX: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss (opsets 12 and 13 alike).
// Without ignore_index none is ignored: ours is then -100, no label of a class.
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

void label_loss(OnnxNode& n, std::string_view op) {
  std::vector<ValueId> in{n.required(0), n.required(1)};
  if (n.has(2)) in.push_back(n.input(2));
  n.emit(op,
         {{"reduction", n.text("reduction", "mean")},
          {"ignore_index", n.integer("ignore_index", -100)}},
         in, {n.output(0)});
}

void softmax_cross_entropy(OnnxNode& n) {
  // log_prob, the second output, is the op's own first step: log-softmax over the classes.
  if (n.wants(1))
    n.emit("log_softmax", {{"axis", std::int64_t{1}}}, {n.required(0)}, {n.output(1)});
  label_loss(n, "softmax_cross_entropy");
}

constexpr TranslatorRow kRows[] = {
    {"NegativeLogLikelihoodLoss", [](OnnxNode& n) { label_loss(n, "nll_loss"); }},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const TranslatorRow> loss_family() { return kRows; }

}  // namespace etalon::onnx_format
