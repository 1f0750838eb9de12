// Attention: MultiHeadAttention, GroupQueryAttention, Attention and AdditiveAttention.
//
// Written as their definitions; each step rounds. The first two: projections (in, heads, width),
// softmax(q k' / sqrt(width)) v by head, and the projection back, where each head of keys and
// values serves as many of queries. Inputs are query, value and, where given, key. A pair of query
// and key that a mask leaves out gets a score so low that its weight is 0: -0.7 * (largest f32) in
// the first two as long as they have no dropout, -1e9 with it (and weights set to 0 after); 1e9
// less in the others. A query with no key left differs between these. Source:
// keras/src/layers/attention (3.15), keras/src/backend/tensorflow/nn.py.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {

// [N or 1, T or 1, S]: whether a query looks at a key, by the masks of both and the order; kAbsent
// where all do.
ValueId Translator::pairs_that_count(ValueId query, ValueId value) {
  ValueId all = kAbsent;
  const auto also = [&](ValueId m) {
    all = all == kAbsent ? m : b_.op("and", name_ + ".counts", {all, m});
  };
  for (std::size_t i = 0; i < 3; ++i)
    if (mask(i) != kAbsent)
      also(b_.op("unsqueeze", name_ + ".mask", {mask(i)}, {{"axes", Ints{i == 0 ? 2 : 1}}}));
  if (mask(3) != kAbsent) also(mask(3));
  if (c_.causal) {
    const std::int64_t t = b_.dims(query)[1], s = b_.dims(value)[1];
    if (t < 0 || s < 0) throw UnknownLayer{"a causal mask over sequences of free length"};
    Tensor earlier = Tensor::zeros(DType::boolean, {1, t, s});
    auto out = earlier.mutable_bytes();
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t k = 0; k <= i && k < s; ++k)
        out[static_cast<std::size_t>(i * s + k)] = std::byte{1};
    also(b_.constant(name_ + ".earlier", std::move(earlier)));
  }
  return all;
}

ValueId Translator::multi_head_attention() {
  const bool grouped = c_.type == "GroupQueryAttention";
  const std::int64_t heads = integer(grouped ? "num_query_heads" : "num_heads", 1);
  const std::int64_t width = integer(grouped ? "head_dim" : "key_dim", 1);
  const std::int64_t shared = grouped ? integer("num_key_value_heads", heads) : heads;
  if (heads < 1 || shared < 1 || heads % shared != 0)
    throw bad_input("{} heads of queries on {} of keys", heads, shared);
  if (c_.inputs.size() < 2) throw UnknownLayer{"attention whose value is not listed"};
  const json* axes = find("attention_axes");
  if (axes != nullptr && *axes != json::array({1}))
    throw UnknownLayer{"attention along axes of its own"};
  if (flag("use_gate", false) || find("sliding_window") != nullptr)
    throw UnknownLayer{"attention with a gate or a window"};
  const bool bias = flag("use_bias", true);
  const ValueId inputs[] = {x(), c_.inputs.size() > 2 ? c_.inputs[2] : c_.inputs[1], c_.inputs[1]};
  for (const ValueId v : inputs)
    if (b_.rank(v) != 3) throw UnknownLayer{"attention of other than sequences"};
  constexpr const char* kRoles[] = {"query", "key", "value"};
  std::size_t next = 0;
  ValueId parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string role = name_ + "." + kRoles[i];
    const std::int64_t own = i == 0 ? heads : shared;
    const ValueId w = weight(next++);
    const Shape s = b_.shape(w);
    if (s.rank() != 3 || s[1] != own) throw bad_input("{}: weights of {}", role, to_string(s));
    ValueId y =
        b_.op("matmul", role, {inputs[i], b_.reshape(role + ".kernel", w, {s[0], s[1] * s[2]})});
    if (bias)
      y = b_.op("add", role + ".sum",
                {y, b_.reshape(role + ".bias", weight(next++), {s[1] * s[2]})});
    y = b_.reshape(role + ".heads", y, {0, 0, own, s[2]});
    if (own != heads) {  // each as often as it serves
      Tensor each = Tensor::uninitialized(DType::i64, {heads});
      for (std::int64_t h = 0; h < heads; ++h)
        each.mutable_data<std::int64_t>()[static_cast<std::size_t>(h)] = h / (heads / own);
      y = b_.op("gather", role + ".shared", {y, b_.constant(role + ".which", std::move(each))},
                {{"axis", std::int64_t{2}}});
    }
    parts[i] = b_.transpose(role + ".turned", y, {0, 2, i == 1 ? 3 : 1, i == 1 ? 1 : 3});
  }
  b_.note("MultiHeadAttention is written as its definition, each step rounds.");
  const auto scalar = [&](const char* what, float value) {
    return b_.constant(name_ + what, scalar_of(DType::f32, value));
  };
  const ValueId scale =
      scalar(".scale", static_cast<float>(1 / std::sqrt(static_cast<double>(width))));
  const ValueId q = b_.op("mul", name_ + ".scaled", {parts[0], scale});
  ValueId scores = b_.op("matmul", name_ + ".scores", {q, parts[1]});
  ValueId counts = pairs_that_count(x(), c_.inputs[1]);
  const bool older = origin_.version < 3;  // -1e9 is added there
  const bool dropout = !older && number("dropout", 0) > 0;
  if (counts != kAbsent) {
    counts = b_.op("unsqueeze", name_ + ".heads", {counts}, {{"axes", Ints{1}}});
    const float low = dropout || older ? -1e9F : -0.7F * std::numeric_limits<float>::max();
    ValueId left = scalar(".low", low);
    if (older) left = b_.op("add", name_ + ".lowered", {scores, left});
    scores = b_.op("where", name_ + ".left", {counts, scores, left});
  }
  scores = b_.op("softmax", name_ + ".weights", {scores}, {{"axis", std::int64_t{-1}}});
  if (counts != kAbsent && dropout)
    scores = b_.op("where", name_ + ".kept", {counts, scores, scalar(".none", 0)});
  ValueId y = b_.transpose(name_ + ".rows", b_.op("matmul", name_ + ".mixed", {scores, parts[2]}),
                           {0, 2, 1, 3});
  const ValueId w = weight(next++);
  const Shape s = b_.shape(w);
  if (s.rank() != 3 || s[0] != heads) throw bad_input("output weights of {}", to_string(s));
  y = b_.reshape(name_ + ".joined", y, {0, 0, s[0] * s[1]});
  y = b_.op("matmul", name_, {y, b_.reshape(name_ + ".kernel", w, {s[0] * s[1], s[2]})});
  return bias ? b_.op("add", name_ + ".sum", {y, weight(next)}) : y;
}

// Attention: scores q k', times a scale where it has one, or in mode "concat" the sum of
// tanh(scale * (q + k)) times a weight. AdditiveAttention: the sum of scale * tanh(q + k).
ValueId Translator::dot_attention() {
  if (c_.inputs.size() != 2 && c_.inputs.size() != 3)
    throw bad_input("attention of {} inputs", c_.inputs.size());
  const ValueId q = x(), v = c_.inputs[1], k = c_.inputs.back();
  for (const ValueId in : c_.inputs)
    if (b_.rank(in) != 3) throw UnknownLayer{"attention of other than sequences"};
  const bool additive = c_.type == "AdditiveAttention";
  const bool concat = text("score_mode", "dot") == "concat";
  const bool scaled = flag("use_scale", additive);
  const auto times = [&](const std::string& part, ValueId a, ValueId by) {
    return b_.op("mul", name_ + part, {a, by});
  };
  ValueId scores;
  if (additive || concat) {
    const ValueId rows = b_.op("unsqueeze", name_ + ".queries", {q}, {{"axes", Ints{2}}});
    const ValueId columns = b_.op("unsqueeze", name_ + ".keys", {k}, {{"axes", Ints{1}}});
    scores = b_.op("add", name_ + ".both", {rows, columns});
    if (scaled && concat) scores = times(".scaled", scores, weight(0));
    scores = b_.op("tanh", name_ + ".tanh", {scores});
    if (scaled && additive) scores = times(".scaled", scores, weight(0));
    scores =
        b_.op("reduce_sum", name_ + ".scores", {scores}, {{"axes", Ints{-1}}, {"keepdims", false}});
    if (concat) scores = times(".weighted", scores, weight(scaled ? 1 : 0));
  } else {
    scores = b_.op("matmul", name_ + ".scores", {q, b_.transpose(name_ + ".turned", k, {0, 2, 1})});
    if (scaled) scores = times(".scaled", scores, weight(0));
  }
  // The mask of the query makes rows of the output zeros, that of the key is not looked at.
  LayerCall keys = c_;
  keys.masks = {kAbsent, mask(1), kAbsent, mask(3)};
  const ValueId counts = Translator(b_, origin_, keys).pairs_that_count(q, v);
  if (counts != kAbsent)
    scores = b_.op("where", name_ + ".left",
                   {counts, scores,
                    b_.op("sub", name_ + ".low",
                          {scores, b_.constant(name_ + ".1e9", scalar_of(DType::f32, 1e9))})});
  scores = b_.op("softmax", name_ + ".weights", {scores}, {{"axis", std::int64_t{-1}}});
  const ValueId y = b_.op("matmul", name_, {scores, v});
  if (mask(0) == kAbsent) return y;
  return b_.op("where", name_ + ".kept",
               {b_.op("unsqueeze", name_ + ".mask", {mask(0)}, {{"axes", Ints{2}}}), y,
                b_.constant(name_ + ".none", scalar_of(DType::f32, 0))});
}

}  // namespace etalon::keras_format
