// Attention, LinearAttention and RotaryEmbedding, as the functions of simpler ops that ONNX defines
// them to be.
#include "engine/core/error.h"
#include "importers/formats/onnx/attention.h"

namespace etalon::onnx_format {

ValueId repeat_heads(Body& b, ValueId x, ValueId q) {
  const ValueId batch = b.extents(x, 0, 1), heads = b.extents(x, 1, 2), rest = b.extents(x, 2, 4),
                wanted = b.extents(q, 1, 2);
  const ValueId shape = b.concat({batch, heads, b.div(wanted, heads), rest}, 0);
  const ValueId wide = b.op("expand", {b.unsqueeze(x, {2}), shape});
  return b.op("reshape", {wide, b.concat({batch, wanted, rest}, 0)});
}

namespace {

// The two halves of x's last axis: the first and second, or the even and the odd places.
std::pair<ValueId, ValueId> halves(Body& b, ValueId x, ValueId half, bool interleaved) {
  const auto part = [&](ValueId start, ValueId end, std::int64_t step) {
    return b.op("slice", {x, start, end, b.ints({-1}), b.ints({step})});
  };
  const ValueId zero = b.ints({0}), last = b.ints({std::numeric_limits<std::int64_t>::max()});
  if (interleaved) return {part(zero, last, 2), part(b.ints({1}), last, 2)};
  return {part(zero, half, 1), part(half, last, 1)};
}

}  // namespace

ValueId rotated(Body& b, ValueId x, ValueId cosine, ValueId sine, std::int64_t turned,
                bool interleaved) {
  ValueId rest = kAbsent;
  if (turned > 0) {
    rest = b.part(x, -1, turned, std::numeric_limits<std::int64_t>::max());
    x = b.part(x, -1, 0, turned);
  }
  const ValueId half = b.div(b.extents(x, -1, kMaxRank), b.ints({2}));
  const auto [first, second] = halves(b, x, half, interleaved);
  const ValueId real = b.sub(b.mul(cosine, first), b.mul(sine, second)),
                imaginary = b.add(b.mul(sine, first), b.mul(cosine, second));
  ValueId y;
  if (interleaved) {
    const ValueId pairs = b.concat({b.unsqueeze(real, {-1}), b.unsqueeze(imaginary, {-1})}, -1);
    y = b.op("reshape", {pairs, b.shape(x)});
  } else {
    y = b.concat({real, imaginary}, -1);
  }
  return rest == kAbsent ? y : b.concat({y, rest}, -1);
}

namespace {

struct Mask {
  ValueId bias = kAbsent;
  // Adds 0 where `allowed` holds, else -infinity.
  void allow(Body& b, ValueId allowed, ValueId like) {
    const ValueId part = b.like(b.where(allowed, b.number(0.0F), b.number(kMinusInfinity)), like);
    bias = bias == kAbsent ? part : b.add(bias, part);
  }
};

// The file's own mask, as a bias of q's type; shorter than the keys, it ends in -infinity.
void given_mask(Body& b, Mask& mask, ValueId q, ValueId total) {
  OnnxNode& n = b.n;
  if (!n.has(3)) return;
  const auto type = n.dtype_of(3);
  if (!type) throw bad_input("the element type of its mask is not in the file");
  ValueId m = n.input(3);
  if (*type == DType::boolean) m = b.like(b.where(m, b.number(0.0F), b.number(kMinusInfinity)), q);
  if (n.opset() >= 24) {
    const ValueId missing = b.sub(total, b.extents(m, -1, kMaxRank));
    const ValueId pads = b.concat({b.ints({0}), missing}, 0);
    m = b.op("pad", {m, pads, b.number_like(kMinusInfinity, m), b.ints({-1})});
  }
  mask.bias = m;
}

// What causality and windows leave: key j for query i at position p = i + offset.
void positional_masks(Body& b, Mask& mask, ValueId q, ValueId queries, ValueId total) {
  OnnxNode& n = b.n;
  const bool causal = n.flag("is_causal", false);
  const std::int64_t left = n.integer("left_window_size", -1),
                     right = n.integer("right_window_size", -1);
  if (causal || left >= 0 || right >= 0) {
    ValueId p = b.unsqueeze(b.range(queries), {1});
    const ValueId j = b.unsqueeze(b.range(total), {0});
    if (n.has(4)) p = b.add(p, b.extents(n.input(4), 2, 3));
    if (n.has(6)) p = b.add(p, b.unsqueeze(b.sub(n.input(6), queries), {1, 2, 3}));
    if (causal) mask.allow(b, b.op("less_or_equal", {j, p}), q);
    if (left >= 0) mask.allow(b, b.op("less_or_equal", {b.sub(p, j), b.integer(left)}), q);
    if (right >= 0) mask.allow(b, b.op("less_or_equal", {b.sub(j, p), b.integer(right)}), q);
  }
  if (n.has(6))
    mask.allow(b, b.op("less", {b.range(total), b.unsqueeze(n.input(6), {1, 2, 3})}), q);
}

void attention(OnnxNode& n) {
  Body b(n);
  const bool packed = n.has_attribute("q_num_heads");
  ValueId q = n.required(0), k = n.required(1), v = n.required(2);
  const ValueId type = q;
  bool shared = true;  // may k and v have fewer heads than q?
  if (packed) {
    const std::int64_t heads = n.integer("q_num_heads", 0), kv = n.integer("kv_num_heads", heads);
    if (heads < 1 || kv < 1 || heads % kv != 0)
      throw bad_input("q_num_heads is {} and kv_num_heads {}; the first must be a multiple", heads,
                      kv);
    shared = heads != kv;
    q = b.split_heads(q, heads);
    k = b.split_heads(k, kv);
    v = b.split_heads(v, kv);
  } else if (const auto tq = n.type_of(0), tk = n.type_of(1); tq && tk) {
    if (tq->shape.rank() != 4 || tk->shape.rank() != 4)
      throw bad_input("q of rank {}: 4 is expected, or 3 with q_num_heads", tq->shape.rank());
    shared = tq->shape[1] != tk->shape[1];
  }
  if (n.has(4) != n.has(5)) throw bad_input("past_key and past_value must be given together");
  if (n.has(4)) {
    k = b.concat({n.input(4), k}, 2);
    v = b.concat({n.input(5), v}, 2);
  }
  n.give(1, k);
  n.give(2, v);
  const ValueId queries = b.extents(q, 2, 3), total = b.extents(k, 2, 3);
  Mask mask;
  given_mask(b, mask, q, total);
  positional_masks(b, mask, q, queries, total);
  if (shared) {
    k = repeat_heads(b, k, q);
    v = repeat_heads(b, v, q);
  }
  // Both operands get the root of the scale, so that no product overflows before its time.
  ValueId root;
  if (n.has_attribute("scale") && n.number("scale", 0.0F) != 0) {
    root = b.op("sqrt", {b.number(n.number("scale", 0.0F))});
  } else {
    const ValueId size = b.cast(b.extents(q, 3, 4), DType::f32);
    root = b.op("sqrt", {b.div(b.number(1.0F), b.op("sqrt", {size}))});
  }
  root = b.like(root, type);
  const ValueId keys = b.mul(b.transpose(k, {0, 1, 3, 2}), root);
  ValueId scores = b.op("matmul", {b.mul(q, root), keys});
  const std::int64_t mode = n.integer("qk_matmul_output_mode", 0);
  const auto show = [&](std::int64_t stage, ValueId value) {
    if (mode == stage) n.give(3, value);
  };
  if (mode < 0 || mode > 3) throw bad_input("qk_matmul_output_mode is {}, expected 0 to 3", mode);
  show(0, scores);
  if (const float cap = n.number("softcap", 0.0F); cap != 0) {
    const ValueId c = b.number_like(cap, scores);
    scores = b.mul(b.op("tanh", {b.div(scores, c)}), c);
  }
  show(1, scores);
  if (mask.bias != kAbsent) scores = b.add(scores, mask.bias);
  show(2, scores);
  const std::int64_t precision = n.integer("softmax_precision", 0);
  ValueId weights = scores;
  if (precision != 0)
    weights = b.cast(scores, dtype_of_onnx(static_cast<std::int32_t>(precision & 0xffff)));
  weights = b.op("softmax", {weights}, {{"axis", std::int64_t{-1}}});
  if (precision != 0) weights = b.like(weights, type);
  if (mask.bias != kAbsent) {
    // A query that sees no key has no softmax: its row is zero.
    const ValueId none = b.op("equal", {b.reduce("reduce_max", mask.bias, {-1}, true),
                                        b.number_like(kMinusInfinity, mask.bias)});
    weights = b.where(none, b.number_like(0.0F, weights), weights);
  }
  show(3, weights);
  const ValueId y = b.op("matmul", {weights, v});
  n.give(0, packed ? b.join_heads(y) : y);
  n.note("Attention is imported as its matmuls, its masks and a softmax");
}

// State S [batch, heads, key, value] and one token a step, in f32:
//   S = exp(decay) S;  r = beta (v - S^T k), or v where the rule has no delta;  S = S + k r^T;
//   y = scale q^T S
void linear_attention(OnnxNode& n) {
  Body b(n);
  const std::int64_t heads = n.integer("q_num_heads", 0), kv = n.integer("kv_num_heads", 0);
  if (heads < 1 || kv < 1 || heads % kv != 0)
    throw bad_input("q_num_heads is {} and kv_num_heads {}; the first must be a multiple", heads,
                    kv);
  const std::string rule = n.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    throw bad_input("update_rule is '{}'", printable(rule));
  n.ignore("chunk_size");  // how a kernel may cut the work
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  const DType type = n.dtype_of(0).value_or(DType::f32);
  // Tokens first: [length, batch, heads, size].
  const auto tokens = [&](std::size_t i, std::int64_t h) {
    return b.transpose(b.reshape(n.required(i), {0, 0, h, -1}), {1, 0, 2, 3});
  };
  const ValueId q = tokens(0, heads), k = tokens(1, kv), v = tokens(2, kv);
  std::vector<ValueId> scanned{q, k, v};
  if (gated) scanned.push_back(tokens(4, kv));
  // One rate a token and head, or one a token.
  if (delta)
    scanned.push_back(b.transpose(
        b.op("reshape",
             {n.required(5), b.concat({b.extents(n.required(5), 0, 2), b.ints({-1, 1})}, 0)}),
        {1, 0, 2, 3}));
  ValueId state = n.input(3);
  if (state == kAbsent) {
    const ValueId shape = b.concat({b.extents(k, 1, 3), b.extents(k, 3, 4), b.extents(v, 3, 4)}, 0);
    state = b.op("constant_of_shape", {shape});
  } else {
    state = b.cast(state, DType::f32);
  }
  ValueId scale;
  if (const float given = n.number("scale", 0.0F); given != 0)
    scale = b.number(given);
  else
    scale =
        b.op("reciprocal", {b.op("sqrt", {b.cast(b.reshape(b.extents(q, 3, 4), {}), DType::f32)})});
  std::vector<DType> types{DType::f32};
  types.insert(types.end(), scanned.size(), type);
  const auto step =
      n.make_graph("step", types, {DType::f32, type}, [&](OnnxNode& inner, const auto& in) {
        Body s(inner);
        const auto real = [&](std::size_t i) { return s.cast(in[i], DType::f32); };
        const ValueId key = s.unsqueeze(real(2), {-1});
        ValueId now = in[0];
        if (gated) now = s.mul(now, s.unsqueeze(s.op("exp", {real(4)}), {-1}));
        ValueId row = real(3);
        if (delta) {
          const ValueId kept = s.op("matmul", {s.transpose(now, {0, 1, 3, 2}), key});
          row = s.mul(real(gated ? 5 : 4), s.sub(row, s.squeeze(kept, {-1})));
        }
        now = s.add(now, s.op("matmul", {key, s.unsqueeze(row, {-2})}));
        const ValueId query = s.unsqueeze(real(1), {-2});
        const ValueId read =
            s.op("matmul", {query, heads == kv ? now : repeat_heads(s, now, in[1])});
        const ValueId y = s.mul(inner.around(scale), s.squeeze(read, {-2}));
        return OnnxNode::Values{now, s.like(y, in[1])};
      });
  std::vector<ValueId> in{state};
  in.insert(in.end(), scanned.begin(), scanned.end());
  const auto made = n.step_control(
      "scan", {{"scan_inputs", static_cast<std::int64_t>(scanned.size())}}, in, {step}, 2);
  n.give(0, b.reshape(b.transpose(made[1], {1, 0, 2, 3}), {0, 0, -1}));
  n.give(1, b.like(made[0], n.required(0)));
  n.note("LinearAttention is imported as a scan over its tokens");
}

void rotary_embedding(OnnxNode& n) {
  Body b(n);
  const std::int64_t heads = n.integer("num_heads", 0),
                     turned = n.integer("rotary_embedding_dim", 0);
  const bool interleaved = n.flag("interleaved", false);
  const int rank = n.rank_of(0, "whether its heads are packed");
  if (rank == 3 && heads < 1) throw bad_input("num_heads is missing, and x has rank 3");
  const ValueId x = rank == 3 ? b.split_heads(n.required(0), heads) : n.required(0);
  const auto cache = [&](std::size_t i) {
    const ValueId c = n.required(i);
    return b.unsqueeze(n.has(3) ? b.op("gather", {c, n.input(3)}) : c, {1});
  };
  const ValueId y = rotated(b, x, cache(1), cache(2), turned, interleaved);
  n.give(0, rank == 3 ? b.join_heads(y) : y);
  n.note("RotaryEmbedding is imported as its products of halves");
}

constexpr TranslatorRow kRows[] = {
    {"Attention", attention},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const TranslatorRow> attention_family() { return kRows; }

}  // namespace etalon::onnx_format
