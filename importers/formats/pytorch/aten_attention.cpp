// Attention with its projections and a layer of a transformer's encoder, as the calls have them
// that PyTorch takes at inference (torch.nn.MultiheadAttention, TransformerEncoderLayer).
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

constexpr AtenSignature kSignatures[] = {
    {"_native_multi_head_attention",
     {"query", "key", "value", "embed_dim", "num_head", "qkv_weight", "qkv_bias", "proj_weight",
      "proj_bias", "mask", "need_weights", "average_attn_weights", "mask_type"}},
    // Twenty arguments: the sequence is in the table below.
    {"_transformer_encoder_layer_fwd", {"src"}},
};

struct Heads {
  std::int64_t count = 1;
  ValueId weight = kAbsent, bias = kAbsent;  // of query, key and value, one behind the other
  ValueId out_weight = kAbsent, out_bias = kAbsent;
  ValueId mask = kAbsent;
  std::int64_t mask_type = -1;
  bool average = true, weights = false;
};

ValueId product(GraphBuilder& b, const std::string& name, ValueId x, ValueId w, ValueId bias) {
  const ValueId y = b.op("matmul", name, {x, b.transpose(name + ".weight", w, {1, 0})});
  return bias == kAbsent ? y : b.op("add", name + ".bias", {y, bias});
}

// As a sum's term over [N, heads, L, S]. Truth leaves out where it is true; so do numbers but zero:
// the fused calls make truth of them, where torch.nn's plain steps add them.
ValueId mask_of(GraphBuilder& b, const std::string& name, const Heads& h, DType type) {
  ValueId m = h.mask;
  if (b.dtype(m) != DType::boolean)
    b.note("A mask of numbers in a fused call of attention leaves out what is not zero.");
  const ValueId none = b.constant(name + ".none", scalar_of(type, 0)),
                out = b.constant(name + ".out", scalar_of(type, -INFINITY));
  m = b.op("where", name + ".mask", {aten_cast(b, name, m, DType::boolean), out, none});
  // Type 0: [L, L]; 1: [N, L] of the keys; 2: all axes.
  if (b.rank(m) == 2 && h.mask_type == 1)
    return b.op("unsqueeze", name + ".keys", {m}, {{"axes", Ints{1, 2}}});
  if (b.rank(m) != 2 && b.rank(m) != 4) throw AtenUnknown{"a mask of three axes"};
  return m;
}

AtenOutputs attention(GraphBuilder& b, const std::string& name, ValueId x, const Heads& h) {
  if (b.rank(x) != 3 || h.weight == kAbsent) throw AtenUnknown{"attention without a batch"};
  const std::int64_t width = extent_of(b, x, 2), each = h.count < 1 ? 0 : width / h.count;
  if (each < 1 || each * h.count != width)
    throw bad_input("{} features in {} heads", width, h.count);
  const ValueId all = product(b, name + ".in", x, h.weight, h.bias);
  const auto parts = b.nodes("split", name + ".parts", {all},
                             make_params(get_op("split"), {{"axis", std::int64_t{2}},
                                                           {"split", Ints{width, width, width}}}),
                             3);
  const auto headed = [&](ValueId v) {  // [N, heads, L, each]
    return b.transpose(name + ".turned", b.reshape(name + ".heads", v, {0, 0, h.count, each}),
                       {0, 2, 1, 3});
  };
  const ValueId scale =
      b.constant(name + ".scale", scalar_of(b.dtype(x), 1 / std::sqrt(static_cast<double>(each))));
  const ValueId q = b.op("mul", name + ".scaled", {headed(parts[0]), scale}),
                k = b.transpose(name + ".keys", headed(parts[1]), {0, 1, 3, 2});
  ValueId scores = b.op("matmul", name + ".scores", {q, k});
  if (h.mask != kAbsent)
    scores = b.op("add", name + ".masked", {scores, mask_of(b, name, h, b.dtype(x))});
  const ValueId weights =
      b.op("softmax", name + ".weights", {scores}, {{"axis", std::int64_t{-1}}});
  const ValueId met = b.transpose(
      name + ".back", b.op("matmul", name + ".met", {weights, headed(parts[2])}), {0, 2, 1, 3});
  b.note("attention is its products and a softmax, each step rounds.");
  const ValueId y =
      product(b, name, b.reshape(name + ".joined", met, {0, 0, width}), h.out_weight, h.out_bias);
  if (!h.weights) return {y, kAbsent};
  return {y, h.average ? b.op("reduce_mean", name + ".average", {weights},
                              {{"axes", Ints{1}}, {"keepdims", false}})
                       : weights};
}

AtenOutputs heads(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId x = c.tensor("query");
  if (x == kAbsent || c.tensor("key") != x || c.tensor("value") != x)
    throw AtenUnknown{"fused attention of other keys than its queries"};
  c.integer("embed_dim", 0);
  return attention(b, name, x,
                   {.count = c.integer("num_head", 1),
                    .weight = c.tensor("qkv_weight"),
                    .bias = c.tensor("qkv_bias"),
                    .out_weight = c.tensor("proj_weight"),
                    .out_bias = c.tensor("proj_bias"),
                    .mask = c.tensor("mask"),
                    .mask_type = c.integer("mask_type", -1),
                    .average = c.flag("average_attn_weights", true),
                    .weights = c.flag("need_weights", true)});
}

ValueId encoder_layer(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  ValueId x = c.tensor("src");
  if (x == kAbsent) throw AtenUnknown{"an encoder's layer of what is no tensor"};
  c.integer("embed_dim", 0);
  const bool first = c.flag("norm_first", false);
  const float eps = c.number("eps", 1e-5F);
  const auto norm = [&](const char* which, ValueId v) {
    return b.op("layer_norm", name + ".norm" + which,
                {v, c.tensor(std::string("norm_weight_") + which),
                 c.tensor(std::string("norm_bias_") + which)},
                {{"axis", std::int64_t{-1}}, {"eps", eps}});
  };
  const Heads h{.count = c.integer("num_heads", 1),
                .weight = c.tensor("qkv_weight"),
                .bias = c.tensor("qkv_bias"),
                .out_weight = c.tensor("proj_weight"),
                .out_bias = c.tensor("proj_bias"),
                .mask = c.tensor("mask"),
                .mask_type = c.integer("mask_type", -1)};
  const auto added = [&](ValueId v, ValueId to) { return b.op("add", name + ".sum", {to, v}); };
  x = first ? added(attention(b, name + ".attention", norm("1", x), h)[0], x)
            : norm("1", added(attention(b, name + ".attention", x, h)[0], x));
  const bool gelu = c.flag("use_gelu", false);
  const auto block = [&](ValueId v) {
    v = product(b, name + ".wide", v, c.tensor("ffn_weight_1"), c.tensor("ffn_bias_1"));
    v = gelu ? b.op("gelu", name + ".gelu", {v}, {{"approximate", std::string("none")}})
             : b.op("relu", name + ".relu", {v});
    return product(b, name + ".narrow", v, c.tensor("ffn_weight_2"), c.tensor("ffn_bias_2"));
  };
  return first ? added(block(norm("2", x)), x) : norm("2", added(block(x), x));
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "_native_multi_head_attention") return heads(b, name, c);
  return {encoder_layer(b, name, c)};
}

}  // namespace

AtenFamily attention_family() { return {kSignatures, translate}; }

std::span<const std::string_view> encoder_layer_arguments() {
  static constexpr std::string_view kArguments[] = {
      "src",           "embed_dim",    "num_heads",     "qkv_weight",  "qkv_bias",
      "proj_weight",   "proj_bias",    "use_gelu",      "norm_first",  "eps",
      "norm_weight_1", "norm_bias_1",  "norm_weight_2", "norm_bias_2", "ffn_weight_1",
      "ffn_bias_1",    "ffn_weight_2", "ffn_bias_2",    "mask",        "mask_type"};
  return kArguments;
}

}  // namespace etalon::pytorch_format
