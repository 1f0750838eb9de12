// What is put in place: scatters, and parts of a tensor that are written anew.
//
// Of several updates of one element the last (row-major) stays; PyTorch promises none of them.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"scatter", {"self", "dim", "index", "src", "reduce"}},
    {"scatter_add", {"self", "dim", "index", "src"}},
    {"scatter_reduce", {"self", "dim", "index", "src", "reduce", "include_self"}},
    {"index_add", {"self", "dim", "index", "source", "alpha"}},
    {"index_copy", {"self", "dim", "index", "source"}},
    {"index_put", {"self", "indices", "values", "accumulate"}},
    {"select_scatter", {"self", "src", "dim", "index"}},
    {"slice_scatter", {"self", "src", "dim", "start", "end", "step"}},
    {"index_fill", {"self", "dim", "index", "value"}},
    {"fill", {"self", "value"}},
    {"masked_scatter", {"self", "mask", "source"}},
    {"diag_embed", {"self", "offset", "dim1", "dim2"}},
    {"diagonal", {"self", "offset", "dim1", "dim2"}},
    {"trace", {"self"}},
};

ValueId tensor_of(const AtenCall& c, std::string_view key) {
  const ValueId v = c.tensor(key);
  if (v == kAbsent) throw AtenUnknown{"a call without the tensor " + std::string(key)};
  return v;
}

// A tensor cut to the indices' extents, or a number for each of them.
ValueId updates_of(GraphBuilder& b, const std::string& name, ValueId x, ValueId at,
                   const AtenCall& c) {
  const AtenValue* v = c.find("src");
  if (v == nullptr) v = c.find("value");
  if (v == nullptr) throw AtenUnknown{"a scatter of nothing"};
  if (v->kind != Kind::tensor)
    return b.op("expand", name + ".updates",
                {aten_number(b, name + ".value", x, *v), b.op("shape", name + ".shape", {at})});
  const Ints from = b.dims(v->tensor), to = b.dims(at);
  if (from == to) return v->tensor;
  Ints axes;
  for (std::size_t a = 0; a < to.size(); ++a) {
    if (to[a] < 0) throw AtenUnknown{"a scatter at indices of a free extent"};
    axes.push_back(static_cast<std::int64_t>(a));
  }
  return b.op("slice", name + ".updates", {v->tensor},
              {{"starts", Ints(to.size(), 0)}, {"ends", to}, {"axes", axes}});
}

ValueId scattered(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                  const AtenCall& c) {
  const auto axis = static_cast<int>(aten_axis(b, x, c.integer("dim", 0)));
  const ValueId at = tensor_of(c, "index");
  constexpr std::pair<std::string_view, const char*> kFolds[] = {
      {"add", "add"},  {"sum", "add"},  {"multiply", "mul"}, {"prod", "mul"},
      {"amax", "max"}, {"amin", "min"}, {"mean", "mean"}};
  std::string fold = op == "scatter_add" ? "add" : "none";
  if (const AtenValue* how = c.find("reduce"); how != nullptr) {
    const auto* row = std::ranges::find(kFolds, how->text, [](const auto& f) { return f.first; });
    if (row == std::end(kFolds)) throw AtenUnknown{"updates folded by " + how->text};
    fold = row->second;
  }
  const bool own = c.flag("include_self", true);
  if (!is_floating(b.dtype(x)) && (fold == "mean" || (!own && fold != "add" && fold != "mul")))
    throw AtenUnknown{op + " of whole numbers by " + fold};
  return scatter_folded(b, name, x, axis, at, updates_of(b, name, x, at, c), fold, own);
}

ValueId index_written(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                      const AtenCall& c) {
  const auto axis = static_cast<int>(aten_axis(b, x, c.integer("dim", 0)));
  ValueId source = tensor_of(c, "source");
  if (const AtenValue* alpha = c.find("alpha"); alpha != nullptr && c.real("alpha", 1) != 1)
    source =
        b.op("mul", name + ".scaled", {source, aten_number(b, name + ".alpha", source, *alpha)});
  return scatter_slices(b, name, x, axis, tensor_of(c, "index"), source,
                        op == "index_add" ? "add" : "none");
}

// x[indices] = values, of indices that begin at the first axis, or of one mask of truth.
ValueId index_put(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* list = c.find("indices");
  if (list == nullptr || list->kind != Kind::list || list->items.empty())
    throw AtenUnknown{"index_put at what is no list"};
  const ValueId values = aten_cast(b, name, tensor_of(c, "values"), b.dtype(x));
  const bool add = c.flag("accumulate", false);
  std::vector<ValueId> in;
  std::size_t first = 0;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const AtenValue& v = list->items[i];
    if (v.kind == Kind::none) continue;
    if (v.kind != Kind::tensor) throw AtenUnknown{"index_put at what is no tensor"};
    if (in.empty()) first = i;
    if (i != first + in.size()) throw AtenUnknown{"indices of axes apart"};
    in.push_back(v.tensor);
  }
  if (in.empty()) throw AtenUnknown{"index_put without indices"};
  if (first + in.size() > static_cast<std::size_t>(b.rank(x)))
    throw bad_input("indices of {} axes of a tensor of rank {}", first + in.size(), b.rank(x));
  if (first > 0) {
    // The axes that are indexed lead; behind them those that were before them.
    if (in.size() > 1 || b.dtype(in[0]) == DType::boolean || add)
      throw AtenUnknown{"index_put beside a whole axis"};
    const auto axis = static_cast<int>(first);
    const Ints at = b.dims(in[0]);
    Ints shape = b.dims(x);
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, at.begin(), at.end());
    if (std::ranges::any_of(shape, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{"index_put into a free extent"};
    return scatter_slices(b, name, x, axis, aten_cast(b, name, in[0], DType::i64),
                          b.op("expand", name + ".values", {values}, {{"shape", shape}}));
  }
  if (b.dtype(in[0]) == DType::boolean) {
    if (in.size() != 1 || b.shape(values).numel() != 1 || b.rank(in[0]) != b.rank(x))
      throw AtenUnknown{"index_put of several values by truth"};
    const ValueId one = b.reshape(name + ".one", values, {1});
    return b.op("where", name, {in[0], add ? b.op("add", name + ".sum", {x, one}) : one, x});
  }
  if (in.size() > static_cast<std::size_t>(b.rank(x)))
    throw bad_input("{} indices of {}", in.size(), to_string(b.type(x)));
  std::vector<ValueId> parts;
  Ints dims;
  for (const ValueId v : in) {
    const Ints d = b.dims(v);
    if (std::ranges::any_of(d, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{"indices of a free extent"};
    if (b.dtype(v) == DType::boolean || b.dtype(v) == DType::u8)
      throw AtenUnknown{"an index by truth"};
    if (d.size() > dims.size()) dims.insert(dims.begin(), d.size() - dims.size(), 1);
    for (std::size_t a = 0; a < d.size(); ++a) {
      std::int64_t& to = dims[dims.size() - d.size() + a];
      to = std::max(to, d[a]);
    }
  }
  for (const ValueId v : in)
    parts.push_back(b.op(
        "unsqueeze", name + ".place",
        {b.op("expand", name + ".index", {aten_cast(b, name, v, DType::i64)}, {{"shape", dims}})},
        {{"axes", Ints{-1}}}));
  const ValueId places = b.op("concat", name + ".places", parts, {{"axis", std::int64_t{-1}}});
  Ints whole = dims;
  for (std::int64_t a = static_cast<std::int64_t>(in.size()); a < b.rank(x); ++a)
    whole.push_back(extent_of(b, x, a));
  return b.op("scatter_nd", name,
              {x, places, b.op("expand", name + ".values", {values}, {{"shape", whole}})},
              {{"reduction", std::string(add ? "add" : "none")}});
}

// Elements i, i + offset of two axes, as a last axis.
ValueId diagonal(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t offset,
                 std::int64_t first, std::int64_t second) {
  const std::int64_t one = aten_axis(b, x, first), two = aten_axis(b, x, second),
                     rows = extent_of(b, x, one), columns = extent_of(b, x, two);
  if (one == two) throw bad_input("a diagonal of one axis");
  constexpr std::int64_t kPlaces = 1 << 16;
  Ints perm, shape, places;
  for (int a = 0; a < b.rank(x); ++a)
    if (a != one && a != two) {
      perm.push_back(a);
      shape.push_back(a == 0 ? b.dims(x)[0] < 0 ? -1 : b.dims(x)[0] : extent_of(b, x, a));
    }
  perm.insert(perm.end(), {one, two});
  shape.push_back(checked_mul(rows, columns));
  for (std::int64_t i = std::max<std::int64_t>(0, -std::max(offset, -rows));
       i < rows && offset < columns && i + offset < columns; ++i) {
    places.push_back(i * columns + i + offset);
    if (static_cast<std::int64_t>(places.size()) > kPlaces)
      throw AtenUnknown{"a diagonal of more than 65536 elements"};
  }
  return b.op("gather", name,
              {b.op("reshape", name + ".flat", {b.transpose(name + ".turned", x, perm)},
                    {{"shape", shape}, {"allowzero", true}}),
               b.constant(name + ".places",
                          Tensor::of<std::int64_t>({static_cast<std::int64_t>(places.size())},
                                                   std::span<const std::int64_t>(places)))},
              {{"axis", std::int64_t{-1}}});
}

// The i-th true place of the mask takes the i-th element of the source.
ValueId masked_scatter(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId mask = b.op("expand", name + ".mask",
                            {aten_cast(b, name, tensor_of(c, "mask"), DType::boolean),
                             b.op("shape", name + ".shape", {x})});
  const ValueId flat = b.reshape(name + ".flat", mask, {-1}),
                one = b.constant(name + ".one", scalar_of(DType::i64, 1)),
                zero = b.constant(name + ".zero", scalar_of(DType::i64, 0));
  const ValueId met = b.op("cum_sum", name + ".met", {aten_cast(b, name, flat, DType::i64)},
                           {{"axis", std::int64_t{0}}});
  const ValueId at = b.op("max", name + ".at", {b.op("sub", name + ".before", {met, one}), zero});
  const ValueId taken = b.op("gather", name + ".taken",
                             {b.reshape(name + ".source", tensor_of(c, "source"), {-1}), at},
                             {{"axis", std::int64_t{0}}});
  return b.op(
      "where", name,
      {mask, b.op("reshape", name + ".values", {taken, b.op("shape", name + ".shape", {x})}), x});
}

// The last axis on the diagonal of two new ones, which are the last.
ValueId diag_embed(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const std::int64_t n = extent_of(b, x, b.rank(x) - 1);
  const auto last = [&](const char* key, std::int64_t missing) {
    return aten_axis(b, x, c.integer(key, missing), 1) == b.rank(x) + 1 + missing;
  };
  if (c.integer("offset", 0) != 0 || !last("dim1", -2) || !last("dim2", -1) || n > 1 << 11)
    throw AtenUnknown{"diag_embed beside the last axes' diagonal"};
  Tensor mask = Tensor::zeros(DType::boolean, {n, n});
  for (std::int64_t i = 0; i < n; ++i)
    mask.mutable_bytes()[static_cast<std::size_t>(i * n + i)] = std::byte{1};
  return b.op("where", name,
              {b.constant(name + ".mask", std::move(mask)),
               b.op("unsqueeze", name + ".rows", {x}, {{"axes", Ints{-1}}}),
               b.constant(name + ".zero", scalar_of(b.dtype(x), 0))});
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  const ValueId x = first_tensor(c, op);
  if (op.starts_with("scatter")) return {scattered(b, op, name, x, c)};
  if (op == "index_add" || op == "index_copy") return {index_written(b, op, name, x, c)};
  if (op == "index_put") return {index_put(b, name, x, c)};
  if (op == "select_scatter" || op == "slice_scatter") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis);
    ValueId src = tensor_of(c, "src");
    Cut cut{static_cast<int>(axis), 0, 0, 1};
    if (op == "select_scatter") {
      const std::int64_t index = c.integer("index", 0);
      if (index < -n || index >= n) throw bad_input("index {} of {}", index, n);
      cut.start = index < 0 ? index + n : index;
      cut.end = cut.start + 1;
      src = b.op("unsqueeze", name + ".slice", {src}, {{"axes", Ints{axis}}});
    } else {
      cut.start = c.integer("start", 0);
      cut.end = c.integer("end", INT64_MAX);
      cut.step = c.integer("step", 1);
    }
    return {scatter_cuts(b, name, x, src, std::span(&cut, 1))};
  }
  if (op == "fill") {
    const ValueId value =
        aten_cast(b, name, aten_operand(b, name + ".value", x, c, "value"), b.dtype(x));
    return {b.op("expand", name, {value, b.op("shape", name + ".shape", {x})})};
  }
  if (op == "index_fill") {
    const auto axis = static_cast<int>(aten_axis(b, x, c.integer("dim", 0)));
    const ValueId at = tensor_of(c, "index"),
                  value = aten_cast(b, name, aten_operand(b, name + ".value", x, c, "value"),
                                    b.dtype(x));
    Ints shape = b.dims(x);
    const Ints places = b.rank(at) == 0 ? Ints{1} : b.dims(at);
    shape[static_cast<std::size_t>(axis)] = places[0];
    if (std::ranges::any_of(shape, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{"index_fill of a free extent"};
    return {scatter_slices(b, name, x, axis, b.reshape(name + ".at", at, places),
                           b.op("expand", name + ".values", {value}, {{"shape", shape}}))};
  }
  if (op == "masked_scatter") return {masked_scatter(b, name, x, c)};
  if (op == "diag_embed") return {diag_embed(b, name, x, c)};
  if (op == "diagonal")
    return {
        diagonal(b, name, x, c.integer("offset", 0), c.integer("dim1", 0), c.integer("dim2", 1))};
  if (op == "trace") {
    const ValueId d = diagonal(b, name + ".diagonal", x, 0, 0, 1);
    return {b.op("reduce_sum", name,
                 {is_floating(b.dtype(x)) ? d : aten_cast(b, name, d, DType::i64)},
                 {{"axes", Ints{0}}, {"keepdims", false}})};
  }
  throw AtenUnknown{op};
}

}  // namespace

AtenFamily place_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
