// Products, normalisation, attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/einsum.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"batch_norm",
     {"input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps",
      "cudnn_enabled"}},
    {"layer_norm", {"input", "normalized_shape", "weight", "bias", "eps", "cudnn_enable"}},
    {"group_norm", {"input", "num_groups", "weight", "bias", "eps", "cudnn_enabled"}},
    {"instance_norm",
     {"input", "weight", "bias", "running_mean", "running_var", "use_input_stats", "momentum",
      "eps", "cudnn_enabled"}},
    {"rms_norm", {"input", "normalized_shape", "weight", "eps"}},
    {"native_layer_norm", {"input", "normalized_shape", "weight", "bias", "eps"}},
    {"native_group_norm", {"input", "weight", "bias", "N", "C", "HxW", "group", "eps"}},
    {"_native_batch_norm_legit_no_training",
     {"input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"}},
    {"native_batch_norm",
     {"input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"}},
    {"_native_batch_norm_legit",
     {"input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"}},
    {"linear", {"input", "weight", "bias"}},
    {"addmm", {"self", "mat1", "mat2", "beta", "alpha"}},
    {"baddbmm", {"self", "batch1", "batch2", "beta", "alpha"}},
    {"matmul", {"self", "other"}},
    {"mm", {"self", "mat2"}},
    {"bmm", {"self", "mat2"}},
    {"mv", {"self", "vec"}},
    {"dot", {"self", "tensor"}},
    {"outer", {"self", "vec2"}},
    {"einsum", {"equation", "tensors", "path"}},
    {"scaled_dot_product_attention",
     {"query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"}},
};

// As many numbers as a norm over `shape` has weights; a file may ask for no more than PyTorch could
// have made, so the input's own extents are the bound.
ValueId weights_or(GraphBuilder& b, const std::string& name, ValueId given, const Ints& shape,
                   ValueId x, float value) {
  if (given != kAbsent) return given;
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n = checked_mul(n, d);
  if (n < 0 || n > b.shape(x).numel())
    throw bad_input("{} weights of a norm of {}", n, to_string(b.type(x)));
  return b.reshape(name, b.constant(name + ".given", filled_f32(n, value)), shape);
}

ValueId batch_norm(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId mean = c.tensor("running_mean"), var = c.tensor("running_var");
  if (c.flag("training", false) || mean == kAbsent || var == kAbsent) {
    // Statistics of the input itself: of one sample they are those of an instance norm.
    if (b.rank(x) < 3 || b.dims(x)[0] != 1) throw AtenUnknown{"batch_norm in training"};
    b.note("a batch norm with the statistics of its one sample is an instance norm.");
    return translate_inner(b, "instance_norm", name, c).at(0);
  }
  const Ints length{b.shape(mean).numel()};
  const ValueId weight = weights_or(b, name + ".weight", c.tensor("weight"), length, mean, 1),
                bias = weights_or(b, name + ".bias", c.tensor("bias"), length, mean, 0);
  return b.op("batch_norm", name, {x, weight, bias, mean, var}, {{"eps", c.number("eps", 1e-5F)}});
}

ValueId affine_norm(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  const bool layer = op == "layer_norm";
  const Ints shape = layer ? c.ints("normalized_shape", {}) : Ints{b.shape(x).dim(1)};
  ValueId weight = weights_or(b, name + ".weight", c.tensor("weight"), shape, x, 1),
          bias = weights_or(b, name + ".bias", c.tensor("bias"), shape, x, 0);
  if (shape.size() > 1) {
    weight = b.reshape(name + ".scale", weight, shape);
    bias = b.reshape(name + ".shift", bias, shape);
  }
  Fields fields{{"eps", c.number("eps", 1e-5F)}};
  if (layer)
    fields.emplace_back("axis", -static_cast<std::int64_t>(shape.size()));
  else
    fields.emplace_back("groups", c.integer("num_groups", 1));
  return b.op(op, name, {x, weight, bias}, fields);
}

ValueId linear(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId w = c.tensor("weight"), bias = c.tensor("bias");
  if (b.rank(x) == 2) {
    std::vector<ValueId> in{x, w};
    if (bias != kAbsent) in.push_back(bias);
    return b.op("gemm", name, in, {{"trans_b", true}});
  }
  const ValueId y = b.op("matmul", name, {x, b.transpose(name + ".weight", w, {1, 0})});
  return bias == kAbsent ? y : b.op("add", name + ".bias", {y, bias});
}

ValueId attention(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  Attention a{c.tensor("query"), c.tensor("key"), c.tensor("value"), c.tensor("attn_mask")};
  if (a.q == kAbsent || a.k == kAbsent || a.v == kAbsent)
    throw AtenUnknown{"attention without tensors"};
  if (c.number("dropout_p", 0) != 0) throw AtenUnknown{"attention with dropout"};
  if (c.flag("enable_gqa", false)) {
    // Each head of keys and values serves several of the queries.
    const std::int64_t heads = extent_of(b, a.q, b.rank(a.q) - 3);
    for (ValueId* v : {&a.k, &a.v}) {
      const std::int64_t axis = b.rank(*v) - 3, n = extent_of(b, *v, axis);
      if (n < 1 || heads % n != 0) throw bad_input("{} heads of queries, {} of keys", heads, n);
      AtenCall each;
      each.args["self"] = AtenValue::of(*v);
      each.args["repeats"] = AtenValue::of_integer(heads / n);
      each.args["dim"] = AtenValue::of_integer(axis);
      if (n != heads) *v = translate_inner(b, "repeat_interleave", name + ".heads", each).at(0);
    }
  }
  const Ints dims = b.dims(a.q), keys = b.dims(a.k);
  if (dims.size() < 2 || keys.size() < 2 || dims.back() < 1)
    throw AtenUnknown{"attention of a free width"};
  a.causal = c.flag("is_causal", false);
  if (a.causal && (dims[dims.size() - 2] < 0 || keys[keys.size() - 2] < 0))
    throw AtenUnknown{"causal attention over a free length"};
  if (c.find("scale") != nullptr)
    a.scale = b.constant(name + ".scale",
                         scalar_of(b.dtype(a.q), static_cast<double>(c.number("scale", 1))));
  return etalon::attention(b, name, a);
}

ValueId einsum(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const AtenValue* equation = c.find("equation");
  const std::vector<ValueId> in = c.tensors("tensors");
  if (equation == nullptr || equation->kind != Kind::text || in.empty())
    throw AtenUnknown{"einsum without an equation"};
  if (const auto y = einsum_of(b, name, equation->text, in)) return *y;
  throw AtenUnknown{"einsum '" + equation->text + "'"};
}

AtenOutputs norms(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                  const AtenCall& c) {
  if (op == "instance_norm") {
    c.find("running_mean");  // of the whole training: not used with those of the input
    c.find("running_var");
    if (!c.flag("use_input_stats", true)) return translate_inner(b, "batch_norm", name, c);
    if (b.rank(x) < 3) throw AtenUnknown{fmt::format("instance_norm of rank {}", b.rank(x))};
    const Ints n{b.dims(x)[1]};
    if (n[0] < 0) throw AtenUnknown{"instance_norm of free channels"};
    return {b.op("instance_norm", name,
                 {x, weights_or(b, name + ".weight", c.tensor("weight"), n, x, 1),
                  weights_or(b, name + ".bias", c.tensor("bias"), n, x, 0)},
                 {{"eps", c.number("eps", 1e-5F)}})};
  }
  if (op == "rms_norm") {
    const Ints shape = c.ints("normalized_shape", {});
    const ValueId w = weights_or(b, name + ".weight", c.tensor("weight"), shape, x, 1);
    const float eps = c.number("eps", std::numeric_limits<float>::epsilon());
    return {b.op("rms_norm", name, {x, w},
                 {{"axis", -static_cast<std::int64_t>(shape.size())}, {"eps", eps}})};
  }
  if (op == "native_layer_norm") {
    return {translate_inner(b, "layer_norm", name, c)[0], kAbsent, kAbsent};
  }
  if (op == "native_group_norm") {
    AtenCall d = c;
    d.args["num_groups"] = AtenValue::of_integer(c.integer("group", 1));
    return {translate_inner(b, "group_norm", name, d)[0], kAbsent, kAbsent};
  }
  if (op.find("native_batch_norm") != op.npos)
    return {translate_inner(b, "batch_norm", name, c)[0], kAbsent, kAbsent};
  throw AtenUnknown{op};
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "scaled_dot_product_attention") return {attention(b, name, c)};
  if (op == "einsum") return {einsum(b, name, c)};
  const ValueId x = first_tensor(c, op);
  if (op == "batch_norm") return {batch_norm(b, name, x, c)};
  if (op == "layer_norm" || op == "group_norm") return {affine_norm(b, op, name, x, c)};
  if (op.find("norm") != op.npos) return norms(b, op, name, x, c);
  if (op == "linear") return {linear(b, name, x, c)};
  if (op == "addmm") {
    return {b.op("gemm", name, {c.tensor("mat1"), c.tensor("mat2"), x},
                 {{"alpha", static_cast<float>(c.real("alpha", 1))},
                  {"beta", static_cast<float>(c.real("beta", 1))}})};
  }
  if (op == "baddbmm") {
    const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
    const auto times = [&](const char* role, ValueId v, double by) {
      if (by == 1) return v;
      const ValueId factor = b.constant(name + ".factor", scalar_of(b.dtype(x), by));
      return b.op("mul", name + role, {v, factor});
    };
    const ValueId y =
        times(".scaled",
              b.op("matmul", name + ".product", {c.tensor("batch1"), c.tensor("batch2")}), alpha);
    return {beta == 0 ? y : b.op("add", name, {y, times(".part", x, beta)})};
  }
  if (op == "matmul") return {b.op("matmul", name, {x, c.tensor("other")})};
  if (op == "mm" || op == "bmm") return {b.op("matmul", name, {x, c.tensor("mat2")})};
  if (op == "mv") return {b.op("matmul", name, {x, c.tensor("vec")})};
  if (op == "dot") return {b.op("matmul", name, {x, c.tensor("tensor")})};
  if (op == "outer")
    return {
        b.op("mul", name,
             {b.op("unsqueeze", name + ".column", {x}, {{"axes", Ints{1}}}), c.tensor("vec2")})};
  throw AtenUnknown{op};
}

}  // namespace

AtenFamily layer_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
