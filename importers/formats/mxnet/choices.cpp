// Reductions, orders along an axis, elements that indices choose. Indices come as floats.
#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr std::int64_t kMostSelected = 1 << 22;

bool given(const Translator& t, std::string_view key) { return !t.integers(key).empty(); }

// ---- reductions ----
// Those that "axis" names or, with "exclude", all others; none named: all.
Ints reduced_axes(const Parts& p, int rank) {
  std::vector<bool> named(static_cast<std::size_t>(rank));
  for (const std::int64_t a : p.t.integers(p.t.operator_name() == "moments" ? "axes" : "axis")) {
    const auto at = static_cast<std::size_t>(normalize_axis(a, rank));
    if (named[at]) throw bad_input("axis {} stands twice", a);
    named[at] = true;
  }
  const bool all = std::ranges::none_of(named, [](bool n) { return n; });
  const bool exclude = p.t.flag("exclude", false) && !all;
  Ints axes;
  for (int i = 0; i < rank; ++i)
    if (all || named[static_cast<std::size_t>(i)] != exclude) axes.push_back(i);
  return axes;
}

// Of a reduction over every axis MXNet gives one element, not a number.
ValueId reduced(const Parts& p, std::string_view op, ValueId x) {
  const int rank = p.t.g.rank(x);
  const Ints axes = reduced_axes(p, rank);
  if (axes.empty()) return p.t.op("identity", {x});
  const bool keep = p.t.flag("keepdims", false);
  const bool one = !keep && static_cast<int>(axes.size()) == rank && !p.t.numpy();
  const Fields f{{"axes", axes}, {"keepdims", keep}};
  return one ? p.t.g.reshape(p.t.name(), p.op(op, "all", {x}, f), {1}) : p.t.op(op, {x}, f);
}

std::vector<ValueId> plain_reduction(Translator& t) {
  return {reduced({t}, "reduce_" + t.operator_name(), t.x())};
}

// NaN counts as what changes nothing.
std::vector<ValueId> without_nan(Translator& t) {
  const Parts p{t};
  const bool product = t.operator_name() == "nanprod";
  const ValueId x = t.x();
  const ValueId numbers =
      p.op("where", "numbers", {p.op("is_nan", "nan", {x}), p.number(x, product ? 1 : 0), x});
  return {reduced(p, product ? "reduce_prod" : "reduce_sum", numbers)};
}

std::vector<ValueId> norm(Translator& t) {
  const std::int64_t order = t.integer("ord", 2);
  if (order != 1 && order != 2) throw bad_input("a norm with ord={}", order);
  if (t.integers("axis").size() > 1 && order == 1)
    throw bad_input("a norm of matrices with ord=1 is not supported");
  t.refuse("out_dtype");
  return {reduced({t}, order == 1 ? "reduce_l1" : "reduce_l2", t.x())};
}

std::vector<ValueId> moments(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x();
  const Fields keep{{"axes", reduced_axes(p, t.g.rank(x))}, {"keepdims", true}};
  const ValueId d = p.op("sub", "d", {x, p.op("reduce_mean", "kept", {x}, keep)});
  return {reduced(p, "reduce_mean", x), reduced(p, "reduce_mean", p.op("mul", "square", {d, d}))};
}

// ---- orders ----
// Of no axis the elements are one row.
struct Row {
  ValueId x;
  std::int64_t axis;
};
Row row_of(const Parts& p, std::int64_t otherwise) {
  const std::string text = p.t.attribute("axis");
  if (text == "None") return {p.flat(p.t.x()), 0};
  return {p.t.x(), p.axis("axis", otherwise, p.t.g.rank(p.t.x()))};
}

std::vector<ValueId> arg(Translator& t) {
  const Parts p{t};
  const bool channel = t.operator_name() == "argmax_channel";
  const bool whole = !channel && !given(t, "axis"), keep = !channel && t.flag("keepdims", false);
  const ValueId x = whole ? p.flat(t.x()) : t.x();
  const int rank = t.g.rank(x);
  const std::int64_t axis = whole ? 0 : channel ? 1 : p.axis("axis", 0, rank);
  const bool one = rank == 1 && !(keep && !whole) && !t.numpy();
  const ValueId at = p.op(t.operator_name() == "argmin" ? "arg_min" : "arg_max", "at", {x},
                          {{"axis", axis}, {"keepdims", keep || one}});
  const ValueId y = p.truth(whole && keep ? "element" : "", at, x);
  if (!whole || !keep) return {y};
  return {t.g.reshape(t.name(), y, Ints(static_cast<std::size_t>(t.g.rank(t.x())), 1))};
}

// Values and places of the first k, the places of the type that `dtype` says.
std::vector<ValueId> first_of(const Parts& p, const Row& row, std::int64_t k, bool ascending) {
  const ValueId count =
      k > 0 ? p.ints("k", {k}) : p.extents("extent", row.x, row.axis, row.axis + 1);
  return p.t.g.nodes("top_k", p.name("sorted"), {row.x, count},
                     make_params(get_op("top_k"), {{"axis", row.axis}, {"largest", !ascending}}),
                     2);
}

ValueId as_places(const Parts& p, ValueId at) {
  const std::string to = p.t.attribute("dtype", "float32");
  if (to == "int64") return p.t.op("identity", {at});
  if (to != "float32" && to != "int32") throw bad_input("places as {}", printable(to));
  return p.t.op("cast", {at}, {{"to", std::string(to == "int32" ? "i32" : "f32")}});
}

std::vector<ValueId> topk(Translator& t) {
  const Parts p{t};
  const Row row = row_of(p, -1);
  const std::int64_t k = t.integer("k", 1);
  const auto extent = t.g.dims(row.x)[static_cast<std::size_t>(row.axis)];
  if (extent >= 0 && k > extent) throw bad_input("the first {} of {}", k, extent);
  const std::string kind = t.attribute("ret_typ", "indices");
  const auto found = first_of(p, row, k, t.flag("is_ascend", false));
  t.attribute("dtype");
  if (kind == "indices") return {as_places(p, found[1])};
  if (kind == "value") return {t.op("identity", {found[0]})};
  if (kind == "both") return {t.op("identity", {found[0]}), as_places(p, found[1])};
  if (kind != "mask") throw bad_input("topk with ret_typ={}", printable(kind));
  const ValueId zeros = p.op("constant_of_shape", "zeros",
                             {p.extents("extents", row.x, 0, t.g.rank(row.x)),
                              t.g.constant(p.name("zero"), filled_f32(1, 0))});
  const ValueId ones =
      p.op("constant_of_shape", "ones",
           {p.op("shape", "chosen", {found[1]}), t.g.constant(p.name("one"), filled_f32(1, 1))});
  const ValueId mask =
      p.op("scatter_elements", "mask", {zeros, found[1], ones}, {{"axis", row.axis}});
  return {t.op("reshape", {mask, p.extents("shape", t.x(), 0, t.g.rank(t.x()))})};
}

std::vector<ValueId> sort(Translator& t) {
  const Parts p{t};
  const auto found = first_of(p, row_of(p, -1), 0, t.flag("is_ascend", true));
  if (t.operator_name() == "argsort") return {as_places(p, found[1])};
  return {t.op("identity", {found[0]})};
}

std::vector<ValueId> cumsum(Translator& t) {
  const Parts p{t};
  const Row row = given(t, "axis") ? row_of(p, 0) : Row{p.flat(t.x()), 0};
  return {t.op("cum_sum", {row.x}, {{"axis", row.axis}})};
}

// ---- what indices choose ----
ValueId picked(const Parts& p, std::int64_t axis, bool keep, std::string_view mode) {
  Translator& t = p.t;
  const ValueId x = t.x(0);
  ValueId ids = t.x(1);
  if (t.g.rank(ids) != t.g.rank(x)) ids = p.unsqueeze("kept", ids, {axis});
  const Fields along{{"axis", axis}};
  const ValueId y = p.op("gather_elements", "picked", {x, p.places(ids, x, axis, mode)}, along);
  return keep ? t.op("identity", {y}) : t.op("squeeze", {y}, {{"axes", Ints{axis}}});
}

std::vector<ValueId> pick(Translator& t) {
  const Parts p{t};
  if (t.attribute("axis") == "None") throw bad_input("pick without an axis is not supported");
  return {picked(p, p.axis("axis", -1, t.g.rank(t.x())), t.flag("keepdims", false),
                 t.attribute("mode", "clip"))};
}

std::vector<ValueId> batch_take(Translator& t) {
  if (t.g.rank(t.x()) != 2) throw bad_input("batch_take of rank {}", t.g.rank(t.x()));
  return {picked({t}, 1, false, "clip")};
}

std::vector<ValueId> take(Translator& t) {
  const Parts p{t};
  const std::int64_t axis = p.axis("axis", 0, t.g.rank(t.x()));
  const ValueId ids = p.places(t.x(1), t.x(), axis, t.attribute("mode", "clip"));
  return {t.op("gather", {t.x(), ids}, {{"axis", axis}})};
}

std::vector<ValueId> embedding(Translator& t) {
  const ValueId ids = Parts{t}.places(t.x(0), t.x(1), 0, "clip");
  return {t.op("gather", {t.x(1), ids})};
}

// Coordinates stand along the first axis.
ValueId coordinates(const Parts& p, ValueId ids) {
  Ints perm;
  for (int i = 1; i < p.t.g.rank(ids); ++i) perm.push_back(i);
  perm.push_back(0);
  return p.as_ids(p.t.g.transpose(p.name("coordinates"), ids, perm));
}

std::vector<ValueId> gather_nd(Translator& t) {
  return {t.op("gather_nd", {t.x(0), coordinates({t}, t.x(1))})};
}

std::vector<ValueId> scatter_nd(Translator& t) {
  const Parts p{t};
  const Ints shape = t.integers("shape");
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 1 || n > kMostSelected / count) throw bad_input("scatter_nd to these extents");
    count *= n;
  }
  const ValueId zeros = t.g.constant(p.name("zeros"), filled_f32(count, 0));
  return {t.op("scatter_nd",
               {t.g.reshape(p.name("to"), zeros, shape), coordinates(p, t.x(1)), t.x(0)})};
}

// An index outside is no row of it; a negative one, too.
std::vector<ValueId> one_hot(Translator& t) {
  const Parts p{t};
  const std::int64_t depth = t.integer("depth", 0);
  if (depth < 1 || depth > kMostSelected) throw bad_input("one_hot with depth={}", depth);
  Ints all;
  for (std::int64_t i = 0; i < depth; ++i) all.push_back(i);
  const ValueId hit =
      p.op("equal", "hit", {p.unsqueeze("rows", p.as_ids(t.x()), {-1}), p.ints("classes", all)});
  return {t.op("where", {hit, t.g.constant(p.name("on"), scalar_f32(t.number("on_value", 1))),
                         t.g.constant(p.name("off"), scalar_f32(t.number("off_value", 0)))})};
}

std::vector<ValueId> unravel_index(Translator& t) {
  const Parts p{t};
  const Ints shape = t.integers("shape");
  if (shape.empty()) throw bad_input("unravel_index without a shape");
  std::vector<ValueId> parts;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 1 || shape[i] > (std::int64_t{1} << 53) / stride)
      throw bad_input("unravel_index with an extent of {}", shape[i]);
    ValueId v = p.op("div", "over", {p.as_ids(t.x()), p.ints("stride", {stride})});
    if (i > 0) v = p.op("mod", "within", {v, p.ints("extent", {shape[i]})});
    parts.insert(parts.begin(), p.unsqueeze("axis", v, {0}));
    stride *= shape[i];
  }
  return {p.truth("", p.op("concat", "all", parts, {{"axis", std::int64_t{0}}}), t.x())};
}

constexpr OperatorRow kRows[] = {
    {"mean", plain_reduction},
    {"sum", plain_reduction},
    {"sum_axis",
     [](Translator& t) -> std::vector<ValueId> { return {reduced({t}, "reduce_sum", t.x())}; }},
    {"max", plain_reduction},
    {"min", plain_reduction},
    {"prod", plain_reduction},
    {"nansum", without_nan},
    {"nanprod", without_nan},
    {"norm", norm},
    {"moments", moments},
    {"argmax", arg},
    {"argmin", arg},
    {"argmax_channel", arg},
    {"topk", topk},
    {"sort", sort},
    {"argsort", sort},
    {"cumsum", cumsum},
    {"_np_cumsum", cumsum},
    {"pick", pick},
    {"batch_take", batch_take},
    {"take", take},
    {"Embedding", embedding},
    {"gather_nd", gather_nd},
    {"scatter_nd", scatter_nd},
    {"one_hot", one_hot},
    {"unravel_index", unravel_index},
    {"_unravel_index", unravel_index}};

}  // namespace

std::span<const OperatorRow> choice_rows() { return kRows; }

std::int64_t Parts::axis(std::string_view key, std::int64_t otherwise, int rank) const {
  return normalize_axis(t.integer(key, otherwise), rank);
}

ValueId Parts::extents(std::string_view role, ValueId v, std::int64_t begin,
                       std::int64_t end) const {
  const Ints dims = t.g.dims(v);
  const Ints part(dims.begin() + begin, dims.begin() + end);
  if (std::ranges::none_of(part, [](std::int64_t n) { return n < 0; })) return ints(role, part);
  return op("shape", role, {v}, {{"start", begin}, {"end", end}});
}

ValueId Parts::steps(ValueId v, std::int64_t axis) const {
  const std::int64_t extent = t.g.dims(v)[static_cast<std::size_t>(axis)];
  if (extent >= 0 && extent <= kMostSelected) {
    Ints all;
    for (std::int64_t i = 0; i < extent; ++i) all.push_back(i);
    return ints("steps", all);
  }
  const ValueId end = t.g.reshape(name("end"), extents("count", v, axis, axis + 1), {});
  return op("range", "steps",
            {t.g.constant(name("first"), Tensor::of<std::int64_t>({}, {0})), end,
             t.g.constant(name("one"), Tensor::of<std::int64_t>({}, {1}))});
}

ValueId Parts::places(ValueId ids, ValueId v, std::int64_t axis, std::string_view mode) const {
  const ValueId at = as_ids(ids);
  if (mode == "raise") return at;
  const ValueId extent = extents("extent", v, axis, axis + 1);
  if (mode == "wrap") return op("mod", "around", {at, extent});
  if (mode != "clip") throw bad_input("indices with mode={}", printable(mode));
  const ValueId last = op("sub", "last", {extent, ints("step", {1})});
  return op("min", "inside", {op("max", "from_first", {at, ints("first_place", {0})}), last});
}

}  // namespace etalon::mxnet
