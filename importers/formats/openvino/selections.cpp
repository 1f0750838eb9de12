// Layers that choose, look up, order and put in place: one-hot, the greatest, rolled and reversed
// axes, scattered updates, bags of an embedding, places in sorted rows.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/composed.h"
#include "importers/formats/einsum.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/scalar.h"

namespace etalon::openvino {
namespace {

std::string part(const Layer& l, const char* role) { return l.name + "." + role; }

ValueId number(const Layer& l, const char* role, DType type, double value) {
  return l.g.constant(part(l, role), scalar_of(type, value));
}

// Indices, which are i64, under the type that an attribute names.
ValueId typed(const Layer& l, ValueId v, const char* key, const char* otherwise) {
  const DType to = dtype_named(l.text(key, otherwise));
  if (to == DType::i64) return v;
  return l.g.op("cast", part(l, "type"), {v}, {{"to", std::string(name(to))}});
}

int axis_of(const Layer& l, std::int64_t axis) { return normalize_axis(axis, l.rank(0)); }

std::int64_t one_of(const Layer& l, std::size_t i) {
  const Ints all = l.constant(i);
  if (all.size() != 1) throw bad_input("input {} of {} has {} elements", i, l.type, all.size());
  return all[0];
}

std::vector<ValueId> one_hot(const Layer& l) {
  const std::int64_t depth = one_of(l, 1);
  const std::string negative = l.text("negative_indices_mode", "ignore_negative");
  if (negative != "ignore_negative" && negative != "normalize")
    throw bad_input("negative indices by {}", printable(negative));
  GraphBuilder& g = l.g;
  ValueId at = l.input(0);
  if (negative == "ignore_negative") {
    // One beyond the depth sets nothing.
    const DType type = g.dtype(at);
    const ValueId below = g.op("less", part(l, "below"), {at, number(l, "zero", type, 0)});
    at = g.op("where", part(l, "indices"),
              {below, number(l, "beyond", type, static_cast<double>(depth)), at});
  }
  const ValueId values =
      g.op("concat", part(l, "values"),
           {g.reshape(part(l, "off"), l.input(3), {1}), g.reshape(part(l, "on"), l.input(2), {1})},
           {{"axis", std::int64_t{0}}});
  return {g.op("one_hot", l.name,
               {at, g.constant(part(l, "depth"), Tensor::of<std::int64_t>({}, {depth})), values},
               {{"axis", l.integer("axis", -1)}})};
}

std::vector<ValueId> top_k(const Layer& l) {
  const std::int64_t axis = l.integer("axis", -1);
  const std::string mode = l.text("mode", "max"), sort = l.text("sort", "value");
  if (mode != "max" && mode != "min") throw bad_input("TopK by {}", printable(mode));
  if (sort != "value" && sort != "index" && sort != "none")
    throw bad_input("TopK sorted by {}", printable(sort));
  l.flag("stable", false);  // of equals the first stands first here, always
  GraphBuilder& g = l.g;
  const bool fixed = g.constant_of(l.input(1)) != nullptr;
  Fields f{{"axis", axis}, {"largest", mode == "max"}};
  const auto best = [&](const char* role, ValueId x) {
    std::vector<ValueId> in{x};
    if (!fixed) in.push_back(g.reshape(part(l, "k"), l.input(1), {1}));
    return g.nodes("top_k", role == nullptr ? l.name : part(l, role), in,
                   make_params(get_op("top_k"), f), 2);
  };
  if (fixed) f.emplace_back("k", one_of(l, 1));
  auto y = best(nullptr, l.input(0));
  if (sort == "index") {
    f[1].second = false;
    const auto ordered = best("ordered", y[1]);
    y[0] = g.op("gather_elements", part(l, "values"), {y[0], ordered[1]}, {{"axis", axis}});
    y[1] = ordered[0];
  }
  y[1] = typed(l, y[1], "index_element_type", "i32");
  return y;
}

std::vector<ValueId> reverse(const Layer& l) {
  Ints axes = l.constant(1);
  const std::string mode = l.text("mode", "index");
  if (mode == "mask") {
    Ints set;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != 0) set.push_back(static_cast<std::int64_t>(i));
    axes = set;
  } else if (mode != "index") {
    throw bad_input("axes by {}", printable(mode));
  }
  if (axes.empty()) return {l.input(0)};
  return {l.g.op("slice", l.name, {l.input(0)},
                 {{"starts", Ints(axes.size(), -1)},
                  {"ends", Ints(axes.size(), std::numeric_limits<std::int64_t>::min())},
                  {"axes", axes},
                  {"steps", Ints(axes.size(), -1)}})};
}

// Element i from i - by, whatever the extent.
ValueId rolled_by_index(const Layer& l, ValueId x, int axis, std::int64_t by) {
  GraphBuilder& g = l.g;
  const auto whole = [&](const char* role, std::int64_t v) {
    return g.constant(part(l, role), scalar_of(DType::i64, static_cast<double>(v)));
  };
  const std::int64_t a = axis;
  const ValueId n = g.op("squeeze", part(l, "extent"),
                         {g.op("shape", part(l, "shape"), {x}, {{"start", a}, {"end", a + 1}})},
                         {{"axes", Ints{0}}});
  const ValueId i = g.op("range", part(l, "places"), {whole("zero", 0), n, whole("one", 1)});
  const ValueId at =
      g.op("mod", part(l, "from"), {g.op("sub", part(l, "moved"), {i, whole("by", by)}), n});
  return g.op("gather", part(l, "rolled"), {x, at}, {{"axis", a}});
}

std::vector<ValueId> roll(const Layer& l) {
  Ints by = l.constant(1);
  const Ints axes = l.constant(2);
  if (by.size() == 1) by.resize(axes.size(), by[0]);
  if (by.size() != axes.size()) throw bad_input("{} shifts of {} axes", by.size(), axes.size());
  ValueId x = l.input(0);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (const int axis = axis_of(l, axes[i]);
        l.g.known(x) && l.dims(0)[static_cast<std::size_t>(axis)] >= 0)
      x = rolled(l.g, l.name, x, axis, by[i]);
    else
      x = rolled_by_index(l, x, axis, by[i]);
  return {x};
}

std::vector<ValueId> reverse_sequence(const Layer& l) {
  ValueId lengths = l.input(1);
  if (l.dtype(1) != DType::i64)
    lengths = l.g.op("cast", part(l, "lengths"), {lengths}, {{"to", std::string("i64")}});
  return {l.g.op(
      "reverse_sequence", l.name, {l.input(0), lengths},
      {{"batch_axis", l.integer("batch_axis", 0)}, {"time_axis", l.integer("seq_axis", 1)}})};
}

std::vector<ValueId> scatter_update(const Layer& l) {
  return {
      scatter_slices(l.g, l.name, l.input(0), axis_of(l, one_of(l, 3)), l.input(1), l.input(2))};
}

constexpr std::pair<const char*, const char*> kFolds[] = {
    {"none", "none"}, {"sum", "add"}, {"prod", "mul"}, {"max", "max"}, {"min", "min"}};

std::string fold_named(const std::string& theirs) {
  for (const auto& [name, ours] : kFolds)
    if (theirs == name) return ours;
  throw bad_input("updates folded by {} are not supported", printable(theirs));
}

std::vector<ValueId> scatter_elements(const Layer& l) {
  const int axis = axis_of(l, one_of(l, 3));
  const std::string reduction = l.text("reduction", "none");
  return {scatter_folded(l.g, l.name, l.input(0), axis, l.input(1), l.input(2),
                         reduction == "mean" ? reduction : fold_named(reduction),
                         l.flag("use_init_val", true))};
}

std::vector<ValueId> scatter_nd(const Layer& l) {
  const std::string reduction = l.text("reduction", "none");
  ValueId updates = l.input(2);
  if (reduction == "sub") updates = l.g.op("neg", part(l, "less"), {updates});
  return {l.g.op("scatter_nd", l.name, {l.input(0), l.input(1), updates},
                 {{"reduction", reduction == "sub" ? std::string("add") : fold_named(reduction)}})};
}

std::vector<ValueId> slice_scatter(const Layer& l) {
  const Ints starts = l.constant(2), ends = l.constant(3), steps = l.constant(4);
  Ints axes = l.has(5) ? l.constant(5) : Ints{};
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (ends.size() != starts.size() || steps.size() != starts.size() || axes.size() != starts.size())
    throw bad_input("{} starts, {} ends, {} steps, {} axes", starts.size(), ends.size(),
                    steps.size(), axes.size());
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < axes.size(); ++i)
    cuts.push_back({axis_of(l, axes[i]), starts[i], ends[i], steps[i]});
  return {scatter_cuts(l.g, l.name, l.input(0), l.input(1), cuts)};
}

std::vector<ValueId> non_zero(const Layer& l) {
  return {typed(l, l.g.op("non_zero", l.name, {l.input(0)}), "output_type", "i64")};
}

std::vector<ValueId> bucketize(const Layer& l) {
  return {typed(
      l, places_in_rows(l.g, l.name, l.input(1), l.input(0), !l.flag("with_right_bound", true)),
      "output_type", "i64")};
}

std::vector<ValueId> search_sorted(const Layer& l) {
  return {typed(l, places_in_rows(l.g, l.name, l.input(0), l.input(1), l.flag("right_mode", false)),
                "output_type", "i64")};
}

// The rows of a table at indices, each times its weight.
ValueId weighted_rows(const Layer& l, std::size_t weights) {
  const ValueId rows =
      l.g.op("gather", part(l, "rows"), {l.input(0), l.input(1)}, {{"axis", std::int64_t{0}}});
  if (!l.has(weights)) return rows;
  Ints axes;
  for (int a = l.rank(1); a < l.g.rank(rows); ++a) axes.push_back(a);
  return l.g.op(
      "mul", part(l, "weighted"),
      {rows, l.g.op("unsqueeze", part(l, "weights"), {l.input(weights)}, {{"axes", axes}})});
}

// What a bag without an index gives: a row of the table, or zeros.
ValueId row_of_none(const Layer& l, std::size_t i) {
  if (!l.has(i) || one_of(l, i) < 0) return kAbsent;
  return l.g.op(
      "gather", part(l, "otherwise"),
      {l.input(0), l.g.constant(part(l, "default"), Tensor::of<std::int64_t>({}, {one_of(l, i)}))},
      {{"axis", std::int64_t{0}}});
}

// Of opset 15, whose bags may be means, too.
void sums_only(const Layer& l) {
  const std::string how = l.text("reduction", "sum");
  if (how != "sum") throw bad_input("{} by {}", l.type, printable(how));
}

std::vector<ValueId> bag_packed(const Layer& l) {
  sums_only(l);
  return {l.g.op("reduce_sum", l.name, {weighted_rows(l, 2)},
                 {{"axes", Ints{1}}, {"keepdims", false}})};
}

std::vector<ValueId> bag_offsets(const Layer& l) {
  sums_only(l);
  const ValueId ids = segments_of(l.g, l.name, l.input(2), l.extent(1, 0));
  return {segment_sum(l.g, l.name, weighted_rows(l, 4), ids, l.extent(2, 0), row_of_none(l, 3))};
}

std::vector<ValueId> bag_segments(const Layer& l) {
  return {
      segment_sum(l.g, l.name, weighted_rows(l, 5), l.input(2), one_of(l, 3), row_of_none(l, 4))};
}

std::vector<ValueId> unique(const Layer& l) {
  Fields f{{"sorted", l.flag("sorted", true)}};
  if (l.has(1)) f.emplace_back("axis", one_of(l, 1));
  auto y = l.g.nodes("unique", l.name, {l.input(0)}, make_params(get_op("unique"), f), 4);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    y[i] = typed(l, y[i], "index_element_type", "i64");
  y[3] = typed(l, y[3], "count_element_type", "i64");
  return y;
}

std::vector<ValueId> eye(const Layer& l) {
  const DType type = dtype_named(l.text("output_type", ""));
  const std::int64_t rows = one_of(l, 0), columns = one_of(l, 1);
  if (rows < 0 || columns < 0) throw bad_input("an eye of {} rows and {} columns", rows, columns);
  const ValueId none = l.g.op("expand", part(l, "none"), {number(l, "zero", type, 0)},
                              {{"shape", Ints{rows, columns}}});
  const ValueId y = l.g.op("eye_like", l.name, {none}, {{"k", one_of(l, 2)}});
  Ints shape = l.has(3) ? l.constant(3) : Ints{};
  if (shape.empty()) return {y};
  for (const std::int64_t n : shape)
    if (n < 0) throw bad_input("an eye with an extent of {}", n);
  shape.insert(shape.end(), {rows, columns});
  return {l.g.op("expand", part(l, "batch"), {y}, {{"shape", shape}})};
}

std::vector<ValueId> finite(const Layer& l) {
  const ValueId x = l.input(0);
  return {l.g.op(
      "not", l.name,
      {l.g.op("or", part(l, "none"),
              {l.g.op("is_nan", part(l, "nan"), {x}), l.g.op("is_inf", part(l, "inf"), {x})})})};
}

std::vector<ValueId> infinite(const Layer& l) {
  return {l.g.op("is_inf", l.name, {l.input(0)},
                 {{"detect_negative", l.flag("detect_negative", true)},
                  {"detect_positive", l.flag("detect_positive", true)}})};
}

std::vector<ValueId> shifted(const Layer& l) {
  const bool left = l.type == "BitwiseLeftShift";
  return {l.g.op("bit_shift", l.name, {l.input(0), l.input(1)},
                 {{"direction", std::string(left ? "LEFT" : "RIGHT")}})};
}

std::vector<ValueId> contracted(const Layer& l) {
  const std::string equation = l.text("equation", "");
  if (const auto y = einsum_of(l.g, l.name, equation, l.inputs)) return {*y};
  throw bad_input("Einsum '{}' is not supported", printable(equation));
}

struct Row {
  std::string_view type;
  std::vector<ValueId> (*translate)(const Layer&);
};
constexpr Row kRows[] = {
    {"OneHot", one_hot},
    {"TopK", top_k},
    {"Reverse", reverse},
    {"Roll", roll},
    {"ReverseSequence", reverse_sequence},
    {"ScatterUpdate", scatter_update},
    {"ScatterElementsUpdate", scatter_elements},
    {"ScatterNDUpdate", scatter_nd},
    {"SliceScatter", slice_scatter},
    {"NonZero", non_zero},
    {"Bucketize", bucketize},
    {"SearchSorted", search_sorted},
    {"EmbeddingBagPackedSum", bag_packed},
    {"EmbeddingBagPacked", bag_packed},
    {"EmbeddingBagOffsetsSum", bag_offsets},
    {"EmbeddingBagOffsets", bag_offsets},
    {"EmbeddingSegmentsSum", bag_segments},
    {"Unique", unique},
    {"Eye", eye},
    {"IsFinite", finite},
    {"IsInf", infinite},
    {"BitwiseLeftShift", shifted},
    {"BitwiseRightShift", shifted},
    {"Einsum", contracted},
    {"Identity", [](const Layer& l) { return std::vector{l.input(0)}; }},
};

}  // namespace

std::vector<ValueId> translate_selection(const Layer& l) {
  for (const Row& row : kRows)
    if (row.type == l.type) return row.translate(l);
  return {};
}

}  // namespace etalon::openvino
