// Reductions, softmax and its kin. Axes are an attribute before opset 18 (ReduceSum: 13), an input
// from then on.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

void reduce(OnnxNode& n, std::string_view op, std::int64_t input_since) {
  Fields f{{"keepdims", n.flag("keepdims", true)}};
  const bool as_input = n.opset() >= input_since;
  if (as_input) f.emplace_back("noop_with_empty_axes", n.flag("noop_with_empty_axes", false));
  std::vector<ValueId> in{n.required(0)};
  integers_or_input(n, 1, "axes", as_input, f, in);
  n.emit(op, f, in, n.outputs());
}

// Before opset 13 all axes from `axis` (default 1) on are one row; since then one axis (default
// -1).
void softmax(OnnxNode& n, std::string_view op) {
  const bool flatten = n.opset() < 13;
  if (flatten)
    n.note(fmt::format("{} before opset 13 runs over all axes from axis {} on together", n.type(),
                       n.integer("axis", 1)));
  n.emit(op, {{"axis", n.integer("axis", flatten ? 1 : -1)}, {"flatten", flatten}});
}

constexpr TranslatorRow kRows[] = {
    {"ReduceSum", [](OnnxNode& n) { reduce(n, "reduce_sum", 13); }},
    {"ReduceMean", [](OnnxNode& n) { reduce(n, "reduce_mean", 18); }},
    {"ReduceL1", [](OnnxNode& n) { reduce(n, "reduce_l1", 18); }},
    {"ReduceL2", [](OnnxNode& n) { reduce(n, "reduce_l2", 18); }},
    {"ReduceSumSquare", [](OnnxNode& n) { reduce(n, "reduce_sum_square", 18); }},
    {"ReduceProd", [](OnnxNode& n) { reduce(n, "reduce_prod", 18); }},
    {"ReduceLogSum", [](OnnxNode& n) { reduce(n, "reduce_log_sum", 18); }},
    {"ReduceLogSumExp", [](OnnxNode& n) { reduce(n, "reduce_log_sum_exp", 18); }},
    {"ReduceMax", [](OnnxNode& n) { reduce(n, "reduce_max", 18); }},
    {"Softmax", [](OnnxNode& n) { softmax(n, "softmax"); }},
    {"LogSoftmax", [](OnnxNode& n) { softmax(n, "log_softmax"); }},
    {"Hardmax", [](OnnxNode& n) { softmax(n, "hardmax"); }},
    {"ReduceMin", [](OnnxNode& n) { reduce(n, "reduce_min", 18); }},
};

}  // namespace

std::span<const TranslatorRow> reduce_family() { return kRows; }

}  // namespace etalon::onnx_format
