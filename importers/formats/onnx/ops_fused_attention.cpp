// Attention as ONNX Runtime's transformer optimiser writes it, and the embeddings before it.
//
// Scores are scale * (q k^T), then what masks them is added: a key that the padding mask leaves out
// gets mask_filter_value (-10000), one that causality leaves out the lowest f32, as its kernels for
// the CPU do; then softmax, then the product with v.
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/integers.h"

namespace etalon::onnx_format {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

std::int64_t heads_of(OnnxNode& n) {
  const std::int64_t heads = n.integer("num_heads", 0);
  if (heads < 1) throw bad_input("num_heads is {}, expected at least 1", heads);
  return heads;
}

void refuse_sharing(OnnxNode& n) {
  if (n.flag("past_present_share_buffer", false))
    throw bad_input(
        "past and present share one buffer, which depends on the caller's memory; export it "
        "without "
        "past_present_share_buffer");
}

// 0 where `allowed` holds, else `otherwise`.
ValueId masked(Body& b, ValueId allowed, float otherwise) {
  return b.where(allowed, b.number(0.0F), b.number(otherwise));
}

// Input i, which says of keys whether they are padding, as what is added to [batch, heads, queries,
// total]: [batch, total] or [batch, queries, total] of 0 and 1; [batch] lengths; [2 batch] ends and
// then starts.
ValueId padding(Body& b, std::size_t i, ValueId q, ValueId total, float filter) {
  OnnxNode& n = b.n;
  const int rank = n.rank_of(i, "what its mask counts");
  const ValueId mask = n.input(i), zero = b.integer(0);
  if (rank == 2 || rank == 3) {
    const ValueId kept = b.op("greater", {b.cast(mask, DType::i64), zero});
    return b.unsqueeze(masked(b, kept, filter), rank == 2 ? Ints{1, 2} : Ints{1});
  }
  if (rank != 1) throw bad_input("its mask has rank {}; 1, 2 and 3 are defined on the CPU", rank);
  const ValueId batch = b.extents(q, 0, 1), key = b.unsqueeze(b.range(total), {0});
  // Where there are no starts, zeros stand for them.
  const ValueId none = b.op("constant_of_shape",
                            {batch, n.constant_value("none", Tensor::of<std::int64_t>({1}, {0}))});
  const ValueId counts = b.concat({b.cast(mask, DType::i64), none}, 0);
  const auto column = [&](ValueId from, ValueId to) {
    return b.unsqueeze(b.op("slice", {counts, from, to}), {1});
  };
  const ValueId before_end = b.op("less", {key, column(b.ints({0}), batch)}),
                from_start = b.op("greater_or_equal", {key, column(batch, b.add(batch, batch))});
  const ValueId kept = b.op("and", {before_end, from_start});
  return b.unsqueeze(masked(b, kept, filter), {1, 2});
}

struct Scores {
  std::optional<std::size_t> mask, bias;  // inputs
  bool causal = false;
  float filter = -10000.0F, scale = 0;
};

Scores scores_of(OnnxNode& n, std::optional<std::size_t> mask, std::optional<std::size_t> bias) {
  Scores s;
  if (mask && n.has(*mask)) s.mask = mask;
  if (bias && n.has(*bias)) s.bias = bias;
  s.causal = n.flag("unidirectional", false);
  s.filter = n.number("mask_filter_value", -10000.0F);
  s.scale = n.number("scale", 0.0F);
  return s;
}

// q, k, v are [batch, heads, length, size]; gives [batch, queries, heads * size].
ValueId attend(Body& b, ValueId q, ValueId k, ValueId v, const Scores& s,
               std::optional<std::size_t> show) {
  const ValueId queries = b.extents(q, 2, 3), total = b.extents(k, 2, 3);
  ValueId scale;
  if (s.scale != 0)
    scale = b.number(s.scale);
  else
    scale = b.div(b.number(1.0F), b.op("sqrt", {b.cast(b.extents(q, 3, 4), DType::f32)}));
  ValueId scores = b.mul(b.op("matmul", {q, b.transpose(k, {0, 1, 3, 2})}), scale);
  ValueId mask = s.mask ? padding(b, *s.mask, q, total, s.filter) : kAbsent;
  if (s.causal) {
    const ValueId place = b.unsqueeze(b.add(b.range(queries), b.sub(total, queries)), {1});
    const ValueId seen = b.op("less_or_equal", {b.unsqueeze(b.range(total), {0}), place});
    const ValueId kept = mask == kAbsent ? b.number(0.0F) : mask;
    mask = b.where(seen, kept, b.number(std::numeric_limits<float>::lowest()));
  }
  if (s.bias) mask = mask == kAbsent ? b.n.input(*s.bias) : b.add(b.n.input(*s.bias), mask);
  if (mask != kAbsent) scores = b.add(scores, mask);
  if (show) b.n.give(*show, scores);
  const ValueId weights = b.op("softmax", {scores}, {{"axis", std::int64_t{-1}}});
  return b.join_heads(b.op("matmul", {weights, v}));
}

// What is behind the projection of Attention and QAttention. qkv is [batch, length, q | k | v].
void self_attention(Body& b, ValueId qkv, const Ints& sizes, std::size_t past, const Scores& s) {
  OnnxNode& n = b.n;
  const std::int64_t heads = heads_of(n);
  Ints ends{0};
  for (const std::int64_t size : sizes) {
    if (size < 1 || size % heads != 0)
      throw bad_input("{} hidden numbers do not divide into {} heads", size, heads);
    ends.push_back(checked_add(ends.back(), size));
  }
  const auto operand = [&](std::size_t i) {
    return b.split_heads(b.part(qkv, 2, ends[i], ends[i + 1]), heads);
  };
  const ValueId q = operand(0);
  ValueId k = operand(1), v = operand(2);
  if (n.has(past)) {
    const auto state = [&](std::int64_t i) {
      return b.squeeze(b.part(n.input(past), 0, i, i + 1), {0});
    };
    k = b.concat({state(0), k}, 2);
    v = b.concat({state(1), v}, 2);
  }
  if (n.wants(1)) n.give(1, b.concat({b.unsqueeze(k, {0}), b.unsqueeze(v, {0})}, 0));
  n.give(0, attend(b, q, k, v, s, std::nullopt));
  n.note(fmt::format("{} is imported as its projection, its matmuls, its masks and a softmax",
                     n.type()));
}

void refuse_rotation(OnnxNode& n) {
  if (n.flag("do_rotary", false))
    throw bad_input("do_rotary is 1; export the rotation as nodes of its own");
  n.ignore("rotary_embedding_dim");
}

// The hidden sizes of q, k and v: as the node says, or a third each of the projection's columns.
Ints hidden_sizes(OnnxNode& n) {
  Ints sizes = n.integers("qkv_hidden_sizes");
  if (!sizes.empty()) {
    if (sizes.size() != 3 || sizes[0] != sizes[1])
      throw bad_input("qkv_hidden_sizes has {} entries; q and k of one size and v are expected",
                      sizes.size());
    return sizes;
  }
  const auto weight = n.type_of(1);
  if (!weight || weight->shape.rank() != 2 || weight->shape[1] % 3 != 0)
    throw bad_input(
        "the shape of its weights is not in the file or no matrix of three parts; give "
        "qkv_hidden_sizes");
  const std::int64_t third = weight->shape[1] / 3;
  return {third, third, third};
}

void attention(OnnxNode& n) {
  Body b(n);
  refuse_rotation(n);
  refuse_sharing(n);
  const Ints sizes = hidden_sizes(n);
  ValueId qkv = b.op("matmul", {n.required(0), n.required(1)});
  if (n.has(2)) qkv = b.add(qkv, n.input(2));
  self_attention(b, qkv, sizes, 4, scores_of(n, 3, 5));
}

void quantised_attention(OnnxNode& n) {
  Body b(n);
  refuse_rotation(n);
  refuse_sharing(n);
  const Ints sizes = hidden_sizes(n);
  const ValueId sum = b.op("matmul", {difference(b, 0, 6, false), difference(b, 1, 7, false)});
  const ValueId scale = b.mul(n.required(3), n.required(4));
  const ValueId qkv = b.add(b.mul(b.cast(sum, DType::f32), scale), n.required(2));
  self_attention(b, qkv, sizes, 8, scores_of(n, 5, std::nullopt));
}

// Operand `i` of MultiHeadAttention with the part of the bias that is its.
ValueId projected(Body& b, ValueId x, ValueId bias, std::int64_t heads) {
  return b.split_heads(bias == kAbsent ? x : b.add(x, bias), heads);
}

void multi_head_attention(OnnxNode& n) {
  Body b(n);
  const std::int64_t heads = heads_of(n);
  if (n.has(8) || n.has(9))
    throw bad_input("past and present share one buffer; export it without a cache of fixed length");
  const int rank = n.rank_of(0, "whether q, k and v are packed");
  ValueId q = n.required(0), k = n.input(1), v = n.input(2);
  // [batch, length, heads, 3 (or 2: k, v), size]
  const auto packed = [&](ValueId x, std::int64_t i) {
    return b.reshape(b.squeeze(b.part(x, 3, i, i + 1), {3}), {0, 0, -1});
  };
  if (rank == 5) {
    k = packed(q, 1);
    v = packed(q, 2);
    q = packed(q, 0);
  } else if (rank != 3) {
    throw bad_input("its query has rank {}, expected 3, or 5 with keys and values in it", rank);
  }
  if (k == kAbsent) throw bad_input("its key is missing, and its query does not hold it");
  int key_rank = 3;
  if (rank == 3 && v == kAbsent) {
    v = packed(k, 1);
    k = packed(k, 0);
  } else if (rank == 3) {
    key_rank = n.rank_of(1, "whether its keys are split into heads");
  }
  ValueId bq = kAbsent, bk = kAbsent, bv = kAbsent;
  if (n.has(3)) {
    const ValueId size = b.extents(q, 2, 3), twice = b.add(size, size);
    const auto piece = [&](ValueId from, ValueId to) {
      return b.op("slice", {n.input(3), from, to});
    };
    bq = piece(b.ints({0}), size);
    bk = piece(size, twice);
    bv = piece(twice, b.ints({kEnd}));
  }
  q = projected(b, q, bq, heads);
  if (key_rank == 3) {
    k = projected(b, k, bk, heads);
    v = projected(b, v, bv, heads);
  }
  if (n.has(6) != n.has(7)) throw bad_input("past_key and past_value must be given together");
  if (n.has(6)) {
    k = b.concat({n.input(6), k}, 2);
    v = b.concat({n.input(7), v}, 2);
  }
  n.give(1, k);
  n.give(2, v);
  n.give(0, attend(b, q, k, v, scores_of(n, 4, 5),
                   n.wants(3) ? std::optional<std::size_t>(3) : std::nullopt));
  n.note("MultiHeadAttention is imported as its matmuls, its masks and a softmax");
}

// The sum of the embeddings and its normalisation. `table` gives an embedding in f32, `vector` a
// scale or bias.
template <class Table>
void embed(OnnxNode& n, const Table& table) {
  Body b(n);
  const ValueId words = b.op("gather", {table(2), n.required(0)});
  ValueId places;
  if (n.type() == "EmbedLayerNormalization" && n.has(8)) {
    places = b.op("gather", {table(3), n.input(8)});
  } else {
    places = b.op("slice", {table(3), b.ints({0}), b.extents(n.required(0), 1, 2)});
  }
  ValueId sum = b.add(words, places);
  if (n.has(1)) sum = b.add(sum, b.op("gather", {table(4), n.input(1)}));
  n.emit("layer_norm", {{"axis", std::int64_t{-1}}, {"eps", n.number("epsilon", 1e-12F)}},
         {sum, table(5), table(6)}, {n.output(0)});
  if (n.wants(1)) {
    if (n.has(7)) {
      const ValueId one = b.integer(1);
      const ValueId kept = b.op("equal", {b.cast(n.input(7), DType::i64), one});
      n.give(1, b.reduce("reduce_sum", b.cast(kept, DType::i32), {1}, false));
    } else {
      const ValueId batch = b.extents(n.required(0), 0, 1);
      n.give(1, b.op("constant_of_shape",
                     {batch, n.constant_value("zero", Tensor::of<std::int32_t>({1}, {0}))}));
    }
  }
  n.give(2, sum);
  n.note(fmt::format("{} is imported as its gathers, their sum and layer_norm", n.type()));
}

void embed_layer_norm(OnnxNode& n) {
  n.ignore("mask_index_type");
  embed(n, [&](std::size_t i) { return n.required(i); });
}

void quantised_embed_layer_norm(OnnxNode& n) {
  Body b(n);
  // Scales stand at 8 to 12 and zero points at 13 to 17, in the sequence of inputs 2 to 6.
  embed(n, [&](std::size_t i) {
    return b.op("dequantize_linear", {n.required(i), b.reshape(n.required(i + 6), {}),
                                      b.reshape(n.required(i + 11), {})});
  });
}

constexpr TranslatorRow kRows[] = {
    {"com.microsoft.Attention", attention},
    {"com.microsoft.QAttention", quantised_attention},
    {"com.microsoft.MultiHeadAttention", multi_head_attention},
    {"com.microsoft.EmbedLayerNormalization", embed_layer_norm},
    {"com.microsoft.QEmbedLayerNormalization", quantised_embed_layer_norm},
};

}  // namespace

std::span<const TranslatorRow> fused_attention_family() { return kRows; }

}  // namespace etalon::onnx_format
