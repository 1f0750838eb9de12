#include "importers/formats/onnx/ranks.h"

#include <algorithm>

#include "engine/ops/indexing.h"
#include "engine/ops/layout.h"
#include "engine/ops/reduce.h"

namespace etalon::onnx_format {
namespace {

std::optional<int> narrow(std::optional<std::int64_t> n) {
  if (!n || *n < 0 || *n > kMaxRank) return std::nullopt;
  return static_cast<int>(*n);
}

// Operands that broadcast: the largest rank, where all are known.
std::optional<int> largest(const Node& node, const KnownRanks& known) {
  int most = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent) continue;
    const auto rank = known.rank(i);
    if (!rank) return std::nullopt;
    most = std::max(most, *rank);
  }
  return most;
}

// How many axes input 1, or else the parameter, names.
std::optional<std::int64_t> count(const Node& node, const KnownRanks& known, const Ints& param) {
  if (node.inputs.size() > 1 && node.inputs[1] != kAbsent) return known.length(1);
  return static_cast<std::int64_t>(param.size());
}

std::optional<int> moved(const Node& node, const KnownRanks& known, int by) {
  const auto rank = known.rank(0);
  const auto axes = count(node, known, node.params.as<AxesParams>().axes);
  // A squeeze without axes drops every axis of 1.
  if (!rank || !axes || *axes == 0) return std::nullopt;
  return narrow(*rank + by * *axes);
}

std::optional<int> reduced(const Node& node, const KnownRanks& known) {
  const auto& p = node.params.as<ReduceParams>();
  const auto rank = known.rank(0);
  if (!rank || p.keepdims) return rank;
  const auto axes = count(node, known, p.axes);
  if (!axes) return std::nullopt;
  if (*axes == 0) return p.noop_with_empty_axes ? rank : std::optional(0);
  return narrow(*rank - *axes);
}

}  // namespace

std::optional<int> rank_of_result(const Node& node, const KnownRanks& known) {
  const std::string_view op = node.op->name;
  if (op == "reshape") return narrow(count(node, known, node.params.as<ReshapeParams>().shape));
  if (op == "unsqueeze") return moved(node, known, 1);
  if (op == "squeeze") return moved(node, known, -1);
  if (op == "constant_of_shape") return narrow(known.length(0));
  if (op == "flatten" || op == "gemm") return 2;
  if (op == "range") return 1;
  if (op.starts_with("reduce_")) return reduced(node, known);
  if (op == "gather") {
    const auto data = known.rank(0), indices = known.rank(1);
    if (!data || !indices) return std::nullopt;
    return narrow(*data + *indices - 1);
  }
  if (op == "gather_nd" && known.last) {
    const auto data = known.rank(0), indices = known.rank(1);
    const auto depth = known.last(1);
    if (!data || !indices || !depth) return std::nullopt;
    const std::int64_t common = node.params.as<GatherNdParams>().batch_dims;
    if (common < 0 || *depth < 1 || *depth > *data - common) return std::nullopt;
    return narrow(*indices - 1 + *data - common - *depth);
  }
  if (op == "matmul") {
    const auto a = known.rank(0), b = known.rank(1);
    if (!a || !b || *a < 2 || *b < 2) return std::nullopt;
    return std::max(*a, *b);
  }
  constexpr std::string_view kBroadcast[] = {"add",
                                             "sub",
                                             "mul",
                                             "div",
                                             "pow",
                                             "max",
                                             "min",
                                             "sum",
                                             "mean",
                                             "where",
                                             "equal",
                                             "less",
                                             "greater",
                                             "and",
                                             "or",
                                             "less_or_equal",
                                             "greater_or_equal"};
  if (std::ranges::find(kBroadcast, op) != std::end(kBroadcast)) return largest(node, known);
  constexpr std::string_view kAsInput[] = {"conv",
                                           "conv_integer",
                                           "conv_transpose",
                                           "max_pool",
                                           "avg_pool",
                                           "lp_pool",
                                           "global_max_pool",
                                           "global_avg_pool",
                                           "batch_norm",
                                           "layer_norm",
                                           "rms_norm",
                                           "instance_norm",
                                           "group_norm",
                                           "lrn",
                                           "softmax",
                                           "log_softmax",
                                           "quantize_linear",
                                           "dequantize_linear",
                                           "cast",
                                           "clip",
                                           "transpose",
                                           "concat",
                                           "split",
                                           "slice",
                                           "pad",
                                           "identity",
                                           "resize",
                                           "not",
                                           "depth_to_space",
                                           "space_to_depth"};
  if (std::ranges::find(kAsInput, op) != std::end(kAsInput)) return known.rank(0);
  // What is left of the functions of one number.
  if (node.op->nature == OpNature::pointwise && node.inputs.size() == 1) return known.rank(0);
  return std::nullopt;
}

}  // namespace etalon::onnx_format
