// Sequences of different lengths, attention whose parts stand interleaved, products of matrices.
#include <cmath>

#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

// ---- sequences: [steps, batch, ...], or with axis=1 [batch, steps, ...] ----
bool with_lengths(const Translator& t) { return t.flag("use_sequence_length", false); }

std::int64_t step_axis(const Translator& t) {
  const std::int64_t axis = t.integer("axis", 0);
  if (axis != 0 && axis != 1) throw bad_input("{} with axis={}", t.operator_name(), axis);
  if (t.g.rank(t.x()) < 2) throw bad_input("a sequence of rank {}", t.g.rank(t.x()));
  return axis;
}

std::vector<ValueId> sequence_mask(Translator& t) {
  const Parts p{t};
  const std::int64_t axis = step_axis(t);
  const float value = t.number("value", 0);
  if (!with_lengths(t)) return {t.op("identity", {t.x()})};
  const ValueId x = t.x();
  ValueId inside = p.op("less", "inside",
                        {p.unsqueeze("each", p.steps(x, axis), {1 - axis}),
                         p.unsqueeze("lengths", p.as_ids(t.x(1)), {axis})});
  Ints behind;
  for (int i = 2; i < t.g.rank(x); ++i) behind.push_back(i);
  if (!behind.empty()) inside = p.unsqueeze("mask", inside, behind);
  return {t.op("where", {inside, x, p.number(x, value)})};
}

std::vector<ValueId> sequence_last(Translator& t) {
  const Parts p{t};
  const std::int64_t axis = step_axis(t);
  const ValueId x = t.x();
  if (!with_lengths(t))
    return {t.op("squeeze",
                 {p.op("slice", "last", {x},
                       {{"starts", Ints{-1}}, {"ends", Ints{INT64_MAX}}, {"axes", Ints{axis}}})},
                 {{"axes", Ints{axis}}})};
  Ints perm{1, 0};
  for (int i = 2; i < t.g.rank(x); ++i) perm.push_back(i);
  const ValueId rows = axis == 1 ? x : t.g.transpose(p.name("rows"), x, perm);
  const ValueId at = p.op("sub", "at", {p.as_ids(t.x(1)), p.ints("one", {1})});
  return {
      t.op("gather_nd", {rows, p.unsqueeze("places", at, {1})}, {{"batch_dims", std::int64_t{1}}})};
}

std::vector<ValueId> sequence_reverse(Translator& t) {
  const Parts p{t};
  if (step_axis(t) != 0) throw bad_input("SequenceReverse with axis=1");
  if (!with_lengths(t))
    return {t.op("slice", {t.x()},
                 {{"starts", Ints{INT64_MAX}},
                  {"ends", Ints{INT64_MIN}},
                  {"axes", Ints{0}},
                  {"steps", Ints{-1}}})};
  return {t.op("reverse_sequence", {t.x(), p.as_ids(t.x(1))},
               {{"batch_axis", std::int64_t{1}}, {"time_axis", std::int64_t{0}}})};
}

// ---- attention: [steps, batch, heads * parts * width], heads outermost ----
struct Heads {
  std::int64_t count, width;
};
Heads heads_of(const Parts& p, ValueId x, std::int64_t parts) {
  if (p.t.g.rank(x) != 3) throw bad_input("projections of rank {}", p.t.g.rank(x));
  const std::int64_t heads = p.t.integer("heads", 0), whole = p.t.g.dims(x).back();
  if (heads < 1 || heads > 1 << 16 || whole < 1 || whole % (heads * parts) != 0)
    throw bad_input("{} heads of {} features", heads, whole);
  return {heads, whole / heads / parts};
}

// One part of each head: [batch * heads, steps, width].
ValueId part_of(const Parts& p, ValueId x, std::int64_t parts, std::int64_t which) {
  const auto [heads, width] = heads_of(p, x, parts);
  ValueId v = p.t.g.reshape(p.name("split"), x, {0, 0, heads, parts * width});
  if (parts > 1)
    v = p.op(
        "slice", "part", {v},
        {{"starts", Ints{which * width}}, {"ends", Ints{(which + 1) * width}}, {"axes", Ints{3}}});
  v = p.t.g.transpose(p.name("by_head"), v, {1, 2, 0, 3});
  // Steps may be free; the batch then is, too.
  const std::vector<ValueId> shape{p.ints("all", {-1}), p.extents("steps_of", v, 2, 3),
                                   p.ints("width", {width})};
  return p.op("reshape", "heads", {v, p.op("concat", "shape", shape, {{"axis", std::int64_t{0}}})});
}

ValueId turned(const Parts& p, ValueId v) {
  Ints perm;
  for (int i = 0; i < p.t.g.rank(v); ++i) perm.push_back(i);
  if (perm.size() < 2) throw bad_input("a matrix of rank {}", perm.size());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return p.t.g.transpose(p.name("turned"), v, perm);
}

ValueId weights_of(const Parts& p, ValueId queries, ValueId keys) {
  const auto width = static_cast<double>(p.t.g.dims(queries).back());
  const ValueId q = p.op("mul", "scaled", {queries, p.number(queries, 1 / std::sqrt(width))});
  return p.t.op("matmul", {q, turned(p, keys)});
}

// Weights [batch * heads, steps, others] by values of the same sequence of heads, put together.
ValueId weighed(const Parts& p, ValueId values, ValueId weights, Heads h) {
  const ValueId y = p.op("matmul", "weighed", {weights, values});
  const std::vector<ValueId> shape{p.ints("batch", {-1}), p.ints("heads_count", {h.count}),
                                   p.extents("steps_of", y, 1, 2), p.ints("features", {h.width})};
  const ValueId by_head =
      p.op("reshape", "by_head", {y, p.op("concat", "shape", shape, {{"axis", std::int64_t{0}}})});
  const ValueId steps = p.t.g.transpose(p.name("steps_first"), by_head, {2, 0, 1, 3});
  return p.t.g.reshape(p.t.name(), steps, {0, 0, h.count * h.width});
}

std::vector<ValueId> self_weights(Translator& t) {
  const Parts p{t};
  return {weights_of(p, part_of(p, t.x(), 3, 0), part_of(p, t.x(), 3, 1))};
}
std::vector<ValueId> self_values(Translator& t) {
  const Parts p{t};
  return {weighed(p, part_of(p, t.x(0), 3, 2), t.x(1), heads_of(p, t.x(0), 3))};
}
std::vector<ValueId> cross_weights(Translator& t) {
  const Parts p{t};
  return {weights_of(p, part_of(p, t.x(0), 1, 0), part_of(p, t.x(1), 2, 0))};
}
std::vector<ValueId> cross_values(Translator& t) {
  const Parts p{t};
  return {weighed(p, part_of(p, t.x(0), 2, 1), t.x(1), heads_of(p, t.x(0), 2))};
}

std::vector<ValueId> by_root(Translator& t) {
  if (t.g.rank(t.x()) < 1) throw bad_input("a number where rows are wanted");
  const std::int64_t width = t.g.dims(t.x()).back();
  if (width < 1) throw bad_input("an extent that the file does not say");
  return {t.op("div", {t.x(), Parts{t}.number(t.x(), std::sqrt(static_cast<double>(width)))})};
}

// ---- matrices ----
std::vector<ValueId> gemm(Translator& t) {
  const Parts p{t};
  if (t.integer("axis", -2) != -2) throw bad_input("{} along another axis", t.operator_name());
  const ValueId a = t.flag("transpose_a", false) ? turned(p, t.x(0)) : t.x(0),
                b = t.flag("transpose_b", false) ? turned(p, t.x(1)) : t.x(1);
  const float alpha = t.number("alpha", 1), beta = t.number("beta", 1);
  const bool adds = t.operator_name() == "_linalg_gemm";
  ValueId y = p.op("matmul", "product", {a, b});
  if (alpha != 1) y = p.op("mul", "scaled", {y, p.number(y, alpha)});
  if (!adds) return {t.op("identity", {y})};
  ValueId c = t.x(2);
  if (beta != 1) c = p.op("mul", "added", {c, p.number(c, beta)});
  return {t.op("add", {y, c})};
}

// The products of every row of the first with every row of the next, column by column.
std::vector<ValueId> khatri_rao(Translator& t) {
  const Parts p{t};
  ValueId y = t.x(0);
  if (t.g.rank(y) != 2) throw bad_input("khatri_rao of rank {}", t.g.rank(y));
  const std::int64_t columns = t.g.dims(y).back();
  for (std::size_t i = 0; i < t.input_count(); ++i)
    if (t.g.rank(t.x(i)) != 2 || t.g.dims(t.x(i))[1] != columns || columns < 1)
      throw bad_input("khatri_rao of matrices of different columns");
  for (std::size_t i = 1; i < t.input_count(); ++i) {
    const ValueId all =
        p.op("mul", "products", {p.unsqueeze("rows", y, {1}), p.unsqueeze("others", t.x(i), {0})});
    y = t.g.reshape(p.name("joined"), all, {-1, columns});
  }
  return {t.op("identity", {y})};
}

constexpr OperatorRow kRows[] = {{"SequenceMask", sequence_mask},
                                 {"SequenceLast", sequence_last},
                                 {"SequenceReverse", sequence_reverse},
                                 {"_contrib_interleaved_matmul_selfatt_qk", self_weights},
                                 {"_contrib_interleaved_matmul_selfatt_valatt", self_values},
                                 {"_contrib_interleaved_matmul_encdec_qk", cross_weights},
                                 {"_contrib_interleaved_matmul_encdec_valatt", cross_values},
                                 {"_contrib_div_sqrt_dim", by_root},
                                 {"_linalg_gemm2", gemm},
                                 {"linalg_gemm2", gemm},
                                 {"_linalg_gemm", gemm},
                                 {"khatri_rao", khatri_rao}};

}  // namespace

std::span<const OperatorRow> sequence_rows() { return kRows; }

}  // namespace etalon::mxnet
