// What ONNX Runtime's optimiser writes for several nodes at once (domain com.microsoft), taken
// apart again: each step rounds, as the nodes before the fusion did. And the activations and
// normalisations that it adds to ONNX's.
#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

// An op and what it reads beside the step before it.
struct Step {
  std::string_view op;
  Fields fields;
  std::vector<ValueId> in;
};

// The last step is the node itself.
void chain(OnnxNode& n, std::vector<Step> steps) {
  ValueId v = kAbsent;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<ValueId> in = std::move(steps[i].in);
    if (i > 0) in.insert(in.begin(), v);
    if (i + 1 == steps.size())
      n.emit(steps[i].op, steps[i].fields, std::move(in), {n.output(0)});
    else
      v = n.step(steps[i].op, steps[i].fields, std::move(in));
  }
}

struct ActivationRow {
  std::string_view type, op;
  // Its parameters in sequence, and what stands for one that is not given.
  std::pair<std::string_view, float> first{}, second{};
};
constexpr float kInfinity = -kMinusInfinity;
constexpr ActivationRow kActivations[] = {
    {"Relu", "relu"},
    {"Tanh", "tanh"},
    {"Sigmoid", "sigmoid"},
    {"Softplus", "softplus"},
    {"Softsign", "softsign"},
    {"Gelu", "gelu"},
    {"HardSwish", "hard_swish"},
    {"Elu", "elu", {"alpha", 1.0F}},
    {"LeakyRelu", "leaky_relu", {"alpha", 0.01F}},
    {"ThresholdedRelu", "thresholded_relu", {"alpha", 1.0F}},
    {"QuickGelu", "silu", {"alpha", 1.702F}},
    {"HardSigmoid", "hard_sigmoid", {"alpha", 0.2F}, {"beta", 0.5F}},
    {"Clip", "clip", {"min", kMinusInfinity}, {"max", kInfinity}},
};

void add_activation(OnnxNode& n, std::vector<Step>& steps, const std::vector<float>& given) {
  const std::string type = n.text("activation", "");
  if (type.empty()) return;
  for (const ActivationRow& row : kActivations) {
    if (row.type != type) continue;
    Fields f;
    for (const auto& [field, otherwise] : {row.first, row.second})
      if (!field.empty())
        f.emplace_back(field, given.size() > f.size() ? given[f.size()] : otherwise);
    steps.push_back({row.op, f, {}});
    return;
  }
  throw bad_input(
      "activation is '{}', which is no known one of {}; save the model at optimisation level "
      "ORT_ENABLE_BASIC",
      printable(type), n.type());
}

void apart(OnnxNode& n) {
  n.note(fmt::format("{} of ONNX Runtime is written as its steps, each of which rounds", n.type()));
}

// [x, w, b, z]: Conv, + z, activation.
void fused_conv(OnnxNode& n) {
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("groups", n.integer("group", 1));
  n.ignore("kernel_shape");
  std::vector<ValueId> in{n.required(0), n.required(1)};
  if (n.has(2)) in.push_back(n.input(2));
  std::vector<Step> steps{{"conv", f, in}};
  if (n.has(3)) steps.push_back({"add", {}, {n.input(3)}});
  add_activation(n, steps, n.numbers("activation_params"));
  chain(n, std::move(steps));
  apart(n);
}

std::vector<float> activation_numbers(OnnxNode& n) {
  std::vector<float> given;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.has_attribute(name)) given.push_back(n.number(name, 0.0F));
  return given;
}

void fused_gemm(OnnxNode& n) {
  std::vector<ValueId> in{n.required(0), n.required(1)};
  if (n.has(2)) in.push_back(n.input(2));
  std::vector<Step> steps{{"gemm",
                           {{"alpha", n.number("alpha", 1.0F)},
                            {"beta", n.number("beta", 1.0F)},
                            {"trans_a", n.flag("transA", false)},
                            {"trans_b", n.flag("transB", false)}},
                           in}};
  add_activation(n, steps, activation_numbers(n));
  chain(n, std::move(steps));
  apart(n);
}

// Operand i as the product reads it. trans_batch moves the first axis behind the other leading
// ones, and trans swaps the last two of what that leaves.
ValueId operand(OnnxNode& n, std::size_t i, bool trans, bool trans_batch) {
  const ValueId x = n.required(i);
  if (!trans && !trans_batch) return x;
  const int rank = n.rank_of(i, "how its axes are moved");
  // A vector or a scalar has no axes to swap.
  if (rank < 2) return x;
  Ints perm;
  for (int k = 0; k < rank; ++k) perm.push_back(k);
  if (trans_batch) {
    perm.erase(perm.begin());
    perm.insert(perm.end() - 1, 0);
  }
  if (trans) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return n.step("transpose", {{"perm", perm}}, {x});
}

void fused_matmul(OnnxNode& n) {
  const float alpha = n.number("alpha", 1.0F);
  const ValueId a = operand(n, 0, n.flag("transA", false), n.flag("transBatchA", false)),
                b = operand(n, 1, n.flag("transB", false), n.flag("transBatchB", false));
  std::vector<Step> steps{{"matmul", {}, {a, b}}};
  if (alpha != 1) steps.push_back({"mul", {}, {Body(n).number_like(alpha, a)}});
  n.ignore("activation_axis");
  add_activation(n, steps, activation_numbers(n));
  chain(n, std::move(steps));
  apart(n);
}

// gelu(x + bias); the bias is optional for FastGelu, whose form is that with tanh.
void gelu(OnnxNode& n, std::string_view approximate, bool biased) {
  const Fields f{{"approximate", std::string(approximate)}};
  if (biased && n.has(1))
    chain(n, {{"add", {}, {n.required(0), n.input(1)}}, {"gelu", f, {}}});
  else
    n.emit("gelu", f, {n.required(0)}, {n.output(0)});
}

void quick_gelu(OnnxNode& n) {
  n.emit("silu", {{"alpha", n.number("alpha", 1.702F)}}, {n.required(0)}, {n.output(0)});
}

// The softmax runs over all axes from `axis` on as one.
void bias_softmax(OnnxNode& n) {
  n.ignore("is_inner_broadcast");  // which the extents of 1 in the bias say too
  chain(n, {{"add", {}, {n.required(0), n.required(1)}},
            {"softmax", {{"axis", n.integer("axis", 1)}, {"flatten", true}}, {}}});
}

// ONNX Runtime writes it into ONNX's own domain.
void simplified_layer_norm(OnnxNode& n) {
  n.ignore("stash_type");
  if (n.is_read(1))
    throw bad_input("output 1 of {} belongs to training; export the model for inference", n.type());
  n.emit("rms_norm", {{"axis", n.integer("axis", -1)}, {"eps", n.number("epsilon", 1e-5F)}},
         {n.required(0), n.required(1)}, {n.output(0)});
}

// y = norm(x + skip + bias), and the sum itself as output 3.
void skip_norm(OnnxNode& n, std::string_view norm) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (n.is_read(i))
      throw bad_input("output {} of {} belongs to training; export the model for inference", i,
                      n.type());
  Body b(n);
  const bool rms = norm == "rms_norm";
  ValueId sum = b.add(n.required(0), n.required(1));
  const std::size_t bias = rms ? 3 : 4;
  if (n.has(bias)) sum = b.add(sum, n.input(bias));
  n.give(3, sum);
  std::vector<ValueId> in{sum, n.required(2)};
  if (!rms && n.has(3)) in.push_back(n.input(3));
  n.emit(norm, {{"axis", std::int64_t{-1}}, {"eps", n.number("epsilon", rms ? 1e-6F : 1e-12F)}}, in,
         {n.output(0)});
  n.note(fmt::format("{} is imported as its sum and {}", n.type(), norm));
}

// Batch, spatial axes, channels where channels_last; then the activation, x sigmoid(x).
void group_norm(OnnxNode& n) {
  Body b(n);
  const std::int64_t activation = n.integer("activation", 0);
  if (activation != 0 && activation != 1)
    throw bad_input("activation is {}, expected 0 or 1", activation);
  const bool last = n.flag("channels_last", true);
  const int rank = last ? n.rank_of(0, "where its channels lie") : 0;
  ValueId v = last ? b.channels_first(n.required(0), rank) : n.required(0);
  v = b.op("group_norm", {v, n.required(1), n.required(2)},
           {{"groups", n.integer("groups", 0)}, {"eps", n.number("epsilon", 1e-5F)}});
  if (activation == 1) v = b.op("silu", {v});
  n.give(0, last ? b.transpose(v, Body::to_channels_last(rank)) : v);
}

void nhwc_conv(OnnxNode& n) {
  Body b(n);
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("groups", n.integer("group", 1));
  n.ignore("kernel_shape");
  const int rank = n.rank_of(1, "where its channels lie");
  std::vector<ValueId> in{b.channels_first(n.required(0), rank),
                          b.channels_first(n.required(1), rank)};
  if (n.has(2)) in.push_back(n.input(2));
  n.emit("transpose", {{"perm", Body::to_channels_last(rank)}}, {b.op("conv", in, f)},
         {n.output(0)});
}

void nhwc_max_pool(OnnxNode& n) {
  Body b(n);
  Fields f = window_fields(n);
  const Ints kernel = n.integers("kernel_shape");
  if (kernel.empty()) throw bad_input("attribute kernel_shape is missing");
  const int rank = static_cast<int>(kernel.size()) + 2;
  f.emplace_back("kernel", kernel);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("ceil_mode", n.flag("ceil_mode", false));
  const ValueId y = b.op("max_pool", {b.channels_first(n.required(0), rank)}, f);
  n.emit("transpose", {{"perm", Body::to_channels_last(rank)}}, {y}, {n.output(0)});
}

void expand_dims(OnnxNode& n) {
  n.emit("unsqueeze", {{"axes", n.constant_integers(1, "axis")}}, {n.required(0)}, {n.output(0)});
}

// From before ONNX had them; pads are always an input.
void pad(OnnxNode& n) {
  const std::string mode = n.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    throw bad_input("mode is '{}', expected constant, reflect, edge or wrap", printable(mode));
  std::vector<ValueId> in{n.required(0), Body(n).reshape(n.required(1), {-1})};
  // The number may be a list of one.
  if (n.has(2)) in.push_back(Body(n).reshape(n.input(2), {}));
  n.emit("pad", {{"mode", mode}}, in, {n.output(0)});
}

// In the sequence of their first appearance; y, where each element is in y, and how often.
void unique(OnnxNode& n) {
  n.emit("unique", {{"sorted", false}}, {n.required(0)},
         {n.output(0), kAbsent, n.output(1), n.output(2)});
}

constexpr TranslatorRow kRows[] = {
    {"com.microsoft.FusedConv", fused_conv},
    {"com.microsoft.FusedGemm", fused_gemm},
    {"com.microsoft.FusedMatMul", fused_matmul},
    {"com.microsoft.FusedMatMulActivation", fused_matmul},
    {"com.microsoft.TransposeMatMul", fused_matmul},
    {"com.microsoft.Gelu", [](OnnxNode& n) { gelu(n, "none", false); }},
    {"com.microsoft.BiasGelu", [](OnnxNode& n) { gelu(n, "none", true); }},
    {"com.microsoft.FastGelu", [](OnnxNode& n) { gelu(n, "tanh", true); }},
    {"com.microsoft.QuickGelu", quick_gelu},
    {"com.microsoft.BiasSoftmax", bias_softmax},
    {"com.microsoft.SkipLayerNormalization", [](OnnxNode& n) { skip_norm(n, "layer_norm"); }},
    {"com.microsoft.SkipSimplifiedLayerNormalization",
     [](OnnxNode& n) { skip_norm(n, "rms_norm"); }},
    {"SimplifiedLayerNormalization", simplified_layer_norm},
    {"com.microsoft.GroupNorm", group_norm},
    {"com.microsoft.NhwcConv", nhwc_conv},
    {"com.microsoft.NhwcMaxPool", nhwc_max_pool},
    {"com.microsoft.ExpandDims", expand_dims},
    {"com.microsoft.Pad", pad},
    {"com.microsoft.Unique", unique},
    {"com.microsoft.Trilu",
     [](OnnxNode& n) { n.emit("trilu", {{"upper", n.flag("upper", true)}}); }},
    {"com.microsoft.Range", [](OnnxNode& n) { n.emit("range"); }},
    {"com.microsoft.GatherND", [](OnnxNode& n) { n.emit("gather_nd"); }},
};

}  // namespace

std::span<const TranslatorRow> fused_family() { return kRows; }

}  // namespace etalon::onnx_format
