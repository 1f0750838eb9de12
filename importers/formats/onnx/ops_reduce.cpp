// Reductions. Axes are an attribute before opset 18 (ReduceSum: 13), an input from then on.
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
    {"ReduceMin", [](OnnxNode& n) { reduce(n, "reduce_min", 18); }},
};

}  // namespace

std::span<const TranslatorRow> reduce_family() { return kRows; }

}  // namespace etalon::onnx_format
