// Indices, and windows that are written down as indices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr std::int64_t kPlaces = 1 << 14;  // of indices that a call writes down

constexpr AtenSignature kSignatures[] = {
    {"embedding", {"weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse"}},
    {"index_select", {"self", "dim", "index"}},
    {"gather", {"self", "dim", "index", "sparse_grad"}},
    {"index", {"self", "indices"}},
    {"im2col", {"self", "kernel_size", "dilation", "padding", "stride"}},
    {"unfold", {"self", "dimension", "size", "step"}},
};

ValueId index(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* list = c.find("indices");
  if (list == nullptr || list->kind != Kind::list) throw AtenUnknown{"an index of another kind"};
  std::vector<ValueId> in;
  std::size_t first = 0;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const AtenValue& v = list->items[i];
    if (v.kind == Kind::none) continue;
    if (v.kind != Kind::tensor) throw AtenUnknown{"an index of another kind"};
    // One mask: how many elements it chooses is known when the network runs.
    if (b.dtype(v.tensor) == DType::boolean && list->items.size() == 1)
      return b.op(
          "gather_nd", name,
          {x, b.op("transpose", name + ".places", {b.op("non_zero", name + ".axes", {v.tensor})},
                   {{"perm", Ints{1, 0}}})});
    if (b.dtype(v.tensor) == DType::boolean || b.dtype(v.tensor) == DType::u8)
      throw AtenUnknown{"an index by truth"};
    if (in.empty()) first = i;
    if (!in.empty() && i != first + in.size()) throw AtenUnknown{"indices of axes apart"};
    in.push_back(v.tensor);
  }
  if (in.empty()) return x;
  if (in.size() == 1)
    return b.op("gather", name, {x, in[0]}, {{"axis", static_cast<std::int64_t>(first)}});
  // Coordinates along a new last axis; they count from axis 0, so those axes lead.
  std::vector<ValueId> parts;
  std::size_t rank = 0;
  for (const ValueId v : in) rank = std::max(rank, static_cast<std::size_t>(b.rank(v)));
  Ints dims;
  for (std::size_t a = 0; a < rank; ++a) {
    std::int64_t n = 1;
    for (const ValueId v : in) {
      const Ints d = b.dims(v);
      if (a + d.size() >= rank) n = std::max(n, d[a + d.size() - rank]);
      if (a + d.size() >= rank && d[a + d.size() - rank] < 0)
        throw AtenUnknown{"indices of a free extent"};
    }
    dims.push_back(n);
  }
  for (const ValueId v : in) {
    const ValueId wide = b.op("expand", name + ".index", {v}, {{"shape", dims}});
    parts.push_back(b.op("unsqueeze", name + ".place", {aten_cast(b, name, wide, DType::i64)},
                         {{"axes", Ints{-1}}}));
  }
  const ValueId places = b.op("concat", name + ".places", parts, {{"axis", std::int64_t{-1}}});
  if (first == 0) return b.op("gather_nd", name, {x, places});
  Ints perm;
  for (std::size_t i = 0; i < in.size(); ++i) perm.push_back(static_cast<std::int64_t>(first + i));
  for (std::int64_t a = 0; a < b.rank(x); ++a)
    if (std::ranges::find(perm, a) == perm.end()) perm.push_back(a);
  const ValueId y = b.op("gather_nd", name, {b.transpose(name + ".front", x, perm), places});
  Ints back;  // the axes of the indices go behind the `first` ones that were before them
  const auto r = static_cast<std::int64_t>(rank), f = static_cast<std::int64_t>(first);
  for (std::int64_t a = 0; a < f; ++a) back.push_back(r + a);
  for (std::int64_t a = 0; a < r; ++a) back.push_back(a);
  for (std::int64_t a = r + f; a < b.rank(y); ++a) back.push_back(a);
  return b.transpose(name + ".back", y, back);
}

std::vector<ValueId> windows(GraphBuilder& b, const std::string& op, const std::string& name,
                             ValueId x, const AtenCall& c) {
  if (op == "unfold") {
    // Windows along one axis; each becomes a row of a new last axis.
    const std::int64_t axis = aten_axis(b, x, c.integer("dimension", 0)), n = extent_of(b, x, axis),
                       size = c.integer("size", 1), step = c.integer("step", 1);
    if (size < 1 || step < 1 || size > n) throw bad_input("windows of {} of {}", size, n);
    const std::int64_t count = (n - size) / step + 1;
    if (size > kPlaces || count > kPlaces / size)
      throw AtenUnknown{"unfold into more than 16384 places"};
    const ValueId y =
        b.op("gather", name, {x, b.constant(name + ".places", axis_windows(n, size, step))},
             {{"axis", axis}});
    Ints perm;
    for (int a = 0; a < b.rank(y); ++a)
      if (a != axis + 1) perm.push_back(a);
    perm.push_back(axis + 1);
    return {b.transpose(name + ".last", y, perm)};
  }
  if (op == "im2col") {
    // [N, C*kh*kw, L]: the columns of a convolution, channel first, then the place in the kernel.
    const Ints k = c.ints("kernel_size", {1, 1}), d = c.ints("dilation", {1, 1}),
               p = c.ints("padding", {0, 0}), s = c.ints("stride", {1, 1});
    if (k.size() != 2 || d.size() != 2 || p.size() != 2 || s.size() != 2 || b.rank(x) != 4)
      throw AtenUnknown{"im2col of other than images"};
    const std::int64_t ch = extent_of(b, x, 1);
    ValueId y = p[0] == 0 && p[1] == 0
                    ? x
                    : aten_pad(b, name + ".pad", x, {p[1], p[1], p[0], p[0]}, "constant", 0);
    Ints count;
    for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) {
      const auto axis = static_cast<std::int64_t>(2 + 2 * a);
      const std::int64_t n = extent_of(b, y, axis),
                         reach = checked_mul(d[a], std::max<std::int64_t>(k[a] - 1, 0)) + 1;
      if (k[a] < 1 || d[a] < 1 || s[a] < 1 || reach > n || k[a] > 4096 || d[a] > 1 << 20)
        throw bad_input("windows of {} in {}", reach, n);
      const std::int64_t windows = (n - reach) / s[a] + 1;
      if (windows > kPlaces / k[a]) throw AtenUnknown{"im2col of more than 16384 places"};
      Tensor at = Tensor::uninitialized(DType::i64, {k[a], windows});
      auto to = at.mutable_data<std::int64_t>();
      for (std::int64_t i = 0; i < k[a] * windows; ++i)
        to[static_cast<std::size_t>(i)] = i / windows * d[a] + i % windows * s[a];
      y = b.op("gather", name + ".windows", {y, b.constant(name + ".places", std::move(at))},
               {{"axis", axis}});
      count.push_back(windows);
    }
    // [N, C, kh, oh, kw, ow] to [N, C, kh, kw, oh, ow].
    y = b.transpose(name + ".turned", y, {0, 1, 2, 4, 3, 5});
    return {b.reshape(name, y, {0, ch * k[0] * k[1], count[0] * count[1]})};
  }
  throw AtenUnknown{op};
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "embedding") {
    const ValueId weight = c.tensor("weight"), at = c.tensor("indices");
    if (weight == kAbsent || at == kAbsent) throw AtenUnknown{"an embedding without tensors"};
    return {b.op("gather", name, {weight, at}, {{"axis", std::int64_t{0}}})};
  }
  const ValueId x = first_tensor(c, op);
  if (op == "index_select")
    return {b.op("gather", name, {x, c.tensor("index")},
                 {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  if (op == "gather")
    return {b.op("gather_elements", name, {x, c.tensor("index")},
                 {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  if (op == "index") return {index(b, name, x, c)};
  return windows(b, op, name, x, c);
}

}  // namespace

AtenFamily index_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
