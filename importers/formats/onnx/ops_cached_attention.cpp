// Attention over a cache of keys and values, as language models exported for ONNX Runtime have it.
//
// Row b of a batch has seqlens_k[b] + 1 tokens in all; before its new ones stand past[b] of them in
// the cache (none where this is the first call: as many new tokens as in all). Its key j is cache
// entry j while j < past[b], then new token j - past[b]; query i sees the keys up to past[b] + i.
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/attention.h"

namespace etalon::onnx_format {
namespace {

// A position of each token as cosines and sines, [batch or 1, 1, length, half].
ValueId angles(Body& b, std::size_t cache, ValueId positions) {
  return b.unsqueeze(b.op("gather", {b.n.required(cache), positions}), {1});
}

void rotary_embedding(OnnxNode& n) {
  Body b(n);
  if (n.flag("is_packed_batching", false))
    throw bad_input("is_packed_batching is 1; export the model with a batch that is not packed");
  if (n.number("scale", 1.0F) != 1) throw bad_input("a scale of its own; fold it into the caches");
  const std::int64_t heads = n.integer("num_heads", 0),
                     turned = n.integer("rotary_embedding_dim", 0);
  const bool interleaved = n.flag("interleaved", false);
  const int rank = n.rank_of(0, "whether its heads are packed");
  if (rank != 3 && rank != 4) throw bad_input("x has rank {}, expected 3 or 4", rank);
  if (turned > 0 && heads < 1 && rank == 3)
    throw bad_input("rotary_embedding_dim is given and num_heads is not");
  ValueId x = n.required(0);
  if (rank == 3 && heads > 0) {
    x = b.split_heads(x, heads);
  } else if (rank == 3) {
    // The caches hold half a head.
    const auto cache = n.type_of(2);
    if (!cache || cache->shape.rank() != 2)
      throw bad_input("num_heads is missing, and the shape of cos_cache is not in the file");
    x = b.transpose(b.reshape(x, {0, 0, -1, checked_mul(2, cache->shape[1])}), {0, 2, 1, 3});
  }
  // One position is that of the first token of every row.
  ValueId positions = b.cast(n.required(1), DType::i64);
  if (n.rank_of(1, "whether it lists every position") == 1)
    positions = b.unsqueeze(b.add(b.range(b.extents(x, 2, 3)), positions), {0});
  const ValueId y =
      rotated(b, x, angles(b, 2, positions), angles(b, 3, positions), turned, interleaved);
  n.give(0, rank == 3 ? b.join_heads(y) : y);
  n.note("RotaryEmbedding is imported as its products of halves");
}

// What would change the meaning and is not read.
void refuse_kinds(OnnxNode& n) {
  for (const std::size_t i : {9, 11, 12, 13, 14, 15})
    if (n.has(i))
      throw bad_input(
          "its input {} (positions, sinks, scales of a quantised cache or norms of q and "
          "k) is given; export the model without",
          i);
  for (const char* kind : {"k_quant_type", "v_quant_type"})
    if (const std::string type = n.text(kind, "NONE"); type != "NONE")
      throw bad_input("{} is '{}'; export the model with a cache of floats", kind, printable(type));
  n.ignore("kv_cache_bit_width");
  n.ignore("qk_norm_epsilon");
  if (n.integer("smooth_softmax", 0) > 0 || n.flag("sliding_window_cache", false) ||
      n.integer("qk_output", 0) != 0)
    throw bad_input("smooth_softmax, sliding_window_cache or qk_output; export the model without");
  if (n.integer("local_window_size", -1) != -1)
    throw bad_input("local_window_size is {}; export the model with attention to all tokens",
                    n.integer("local_window_size", -1));
}

struct Operands {
  ValueId q, k, v;  // [batch, heads, length, size]
};

Operands operands(Body& b, std::int64_t heads, std::int64_t shared) {
  OnnxNode& n = b.n;
  if (n.has(1) != n.has(2)) throw bad_input("its key and value must be given together");
  if (n.has(1))
    return {b.split_heads(n.required(0), heads), b.split_heads(n.input(1), shared),
            b.split_heads(n.input(2), shared)};
  const ValueId all = b.split_heads(n.required(0), heads + 2 * shared);
  return {b.part(all, 1, 0, heads), b.part(all, 1, heads, heads + shared),
          b.part(all, 1, heads + shared, heads + 2 * shared)};
}

void group_query_attention(OnnxNode& n) {
  Body b(n);
  refuse_kinds(n);
  const std::int64_t heads = n.integer("num_heads", 0), shared = n.integer("kv_num_heads", 0);
  constexpr std::int64_t kMost = 1 << 20;
  if (heads < 1 || shared < 1 || heads > kMost || heads % shared != 0)
    throw bad_input("num_heads is {} and kv_num_heads {}; the first must be a multiple", heads,
                    shared);
  if (n.has(3) != n.has(4)) throw bad_input("past_key and past_value must be given together");
  auto [q, k, v] = operands(b, heads, shared);
  const ValueId length = b.extents(q, 2, 3),
                total = b.reshape(b.cast(n.required(6), DType::i64), {1});
  // [batch, 1]
  const ValueId in_all = b.reshape(b.add(b.cast(n.required(5), DType::i64), b.integer(1)), {-1, 1});
  const ValueId past =
      b.where(b.op("equal", {length, total}), b.sub(in_all, in_all), b.sub(in_all, length));
  const ValueId place = b.add(b.unsqueeze(b.range(length), {0}), past);  // [batch, length]
  if (n.flag("do_rotary", false)) {
    const bool interleaved = n.flag("rotary_interleaved", false);
    // Of a padded row no token stands before the first.
    const ValueId at = b.op("max", {place, b.integer(0)});
    const ValueId cosine = angles(b, 7, at), sine = angles(b, 8, at);
    q = rotated(b, q, cosine, sine, 0, interleaved);
    k = rotated(b, k, cosine, sine, 0, interleaved);
  } else {
    n.ignore("rotary_interleaved");
  }
  const ValueId keys = b.unsqueeze(b.range(total), {0});  // [1, total]
  if (n.has(3)) {
    // Entries of cache and new tokens side by side, taken in the sequence of the keys.
    const ValueId cached = b.extents(n.input(3), 2, 3);
    const ValueId taken =
        b.where(b.op("less", {keys, past}), keys, b.add(b.sub(keys, past), cached));
    const ValueId last = b.sub(b.add(cached, length), b.integer(1));
    const ValueId index = b.unsqueeze(b.op("min", {taken, last}), {-1});
    // Beyond the tokens of a shorter row stand zeros.
    const ValueId filled = b.unsqueeze(b.op("less", {keys, in_all}), {1, 3});
    const auto joined = [&](std::size_t i, ValueId fresh) {
      const ValueId all = b.transpose(b.concat({n.input(i), fresh}, 2), {0, 2, 1, 3});
      const ValueId kept = b.op("gather_nd", {all, index}, {{"batch_dims", std::int64_t{1}}});
      return b.where(filled, b.transpose(kept, {0, 2, 1, 3}), b.number(0.0F));
    };
    k = joined(3, k);
    v = joined(4, v);
  }
  n.give(1, k);
  n.give(2, v);
  ValueId scale;
  if (const float given = n.number("scale", 0.0F); given != 0)
    scale = b.number(given);
  else
    scale = b.div(b.number(1.0F), b.op("sqrt", {b.cast(b.extents(q, 3, 4), DType::f32)}));
  if (heads != shared) {
    k = repeat_heads(b, k, q);
    v = repeat_heads(b, v, q);
  }
  ValueId scores = b.mul(b.op("matmul", {q, b.transpose(k, {0, 1, 3, 2})}), scale);
  if (const float cap = n.number("softcap", 0.0F); cap != 0) {
    const ValueId c = b.number(cap);
    scores = b.mul(b.op("tanh", {b.div(scores, c)}), c);
  }
  if (n.has(10)) scores = b.add(scores, n.input(10));
  if (n.flag("causal", true)) {
    const ValueId seen = b.op("less_or_equal", {b.unsqueeze(keys, {1}), b.unsqueeze(place, {2})});
    scores = b.where(b.unsqueeze(seen, {1}), scores, b.number(kMinusInfinity));
  } else {
    const ValueId seen = b.op("less", {keys, in_all});
    scores = b.where(b.unsqueeze(seen, {1, 2}), scores, b.number(kMinusInfinity));
  }
  const ValueId weights = b.op("softmax", {scores}, {{"axis", std::int64_t{-1}}});
  n.give(0, b.join_heads(b.op("matmul", {weights, v})));
  n.note(
      "GroupQueryAttention is imported as its rotation, its cache by gather_nd, its matmuls and a "
      "softmax; its present keys and values have the total length, also where the past has more");
}

constexpr TranslatorRow kRows[] = {
    {"com.microsoft.RotaryEmbedding", rotary_embedding},
    {"com.microsoft.GroupQueryAttention", group_query_attention},
};

}  // namespace

std::span<const TranslatorRow> cached_attention_family() { return kRows; }

}  // namespace etalon::onnx_format
