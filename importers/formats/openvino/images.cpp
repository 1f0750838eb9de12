// Layers that cut images into blocks, patches and regions, and attention, which weighs rows.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/composed.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/scalar.h"

namespace etalon::openvino {
namespace {

std::string part(const Layer& l, const char* role) { return l.name + "." + role; }

ValueId adaptive(const Layer& l) {
  return adaptive_pool(l.g, l.name, l.input(0), l.constant(1), l.type == "AdaptiveAvgPool");
}

// Of every axis: the block's extent, and what is padded or cropped on either side.
struct Blocks {
  Ints block, begin, end;
  std::int64_t count = 1;
};
Blocks blocks_of(const Layer& l) {
  Blocks b{l.constant(1), l.constant(2), l.constant(3)};
  const auto rank = static_cast<std::size_t>(l.rank(0));
  if (b.block.size() != rank || b.begin.size() != rank || b.end.size() != rank || rank < 2)
    throw bad_input("{} of {} by {} extents", l.type, to_string(l.g.type(l.input(0))),
                    b.block.size());
  if (b.block[0] != 1 || b.begin[0] != 0 || b.end[0] != 0)
    throw bad_input("{} of the batch itself", l.type);
  for (std::size_t a = 0; a < rank; ++a) {
    if (b.block[a] < 1 || b.block[a] > 1 << 20 || b.begin[a] < 0 || b.end[a] < 0)
      throw bad_input("a block of {} elements between {} and {}", b.block[a], b.begin[a], b.end[a]);
    b.count = checked_mul(b.count, b.block[a]);
  }
  return b;
}

ValueId space_to_batch(const Layer& l) {
  const Blocks b = blocks_of(l);
  Ints pads = b.begin;
  pads.insert(pads.end(), b.end.begin(), b.end.end());
  ValueId x = l.input(0);
  if (std::ranges::any_of(pads, [](std::int64_t p) { return p != 0; }))
    x = l.g.op("pad", part(l, "padded"), {x}, {{"pads", pads}});
  const int rank = l.g.rank(x);
  Ints split{0}, perm, whole{-1};
  for (int a = 1; a < rank; ++a) {
    const std::int64_t n = known_extent(l.g, x, a), by = b.block[static_cast<std::size_t>(a)];
    if (n % by != 0) throw bad_input("{} elements in blocks of {}", n, by);
    split.insert(split.end(), {n / by, by});
    whole.push_back(n / by);
    perm.push_back(2 * a);
  }
  perm.push_back(0);
  for (int a = 1; a < rank; ++a) perm.push_back(2 * a - 1);
  return l.g.reshape(
      l.name, l.g.transpose(part(l, "turned"), l.g.reshape(part(l, "blocks"), x, split), perm),
      whole);
}

ValueId batch_to_space(const Layer& l) {
  const Blocks b = blocks_of(l);
  const ValueId x = l.input(0);
  const int rank = l.rank(0);
  Ints split, perm{rank - 1}, whole{-1}, starts, ends, axes;
  for (int a = 1; a < rank; ++a) split.push_back(b.block[static_cast<std::size_t>(a)]);
  split.push_back(-1);
  for (int a = 1; a < rank; ++a) {
    const auto at = static_cast<std::size_t>(a);
    const std::int64_t n = l.extent(0, a), all = checked_mul(n, b.block[at]);
    split.push_back(n);
    perm.insert(perm.end(), {rank - 1 + a, a - 1});
    whole.push_back(all);
    if (b.begin[at] == 0 && b.end[at] == 0) continue;
    if (b.end[at] > all || b.begin[at] > all - b.end[at])
      throw bad_input("{} and {} elements cropped of {}", b.begin[at], b.end[at], all);
    axes.push_back(a);
    starts.push_back(b.begin[at]);
    ends.push_back(all - b.end[at]);
  }
  // A 0 of reshape copies an extent: an empty axis is refused.
  if (std::ranges::count(split, 0) > 0) throw bad_input("{} of an empty axis", l.type);
  const ValueId y = l.g.reshape(
      l.name, l.g.transpose(part(l, "turned"), l.g.reshape(part(l, "blocks"), x, split), perm),
      whole);
  if (axes.empty()) return y;
  return l.g.op("slice", part(l, "cropped"), {y},
                {{"starts", starts}, {"ends", ends}, {"axes", axes}});
}

ValueId shuffle_channels(const Layer& l) {
  const ValueId x = l.input(0);
  const int rank = l.rank(0), axis = normalize_axis(l.integer("axis", 1), rank);
  const std::int64_t groups = l.integer("group", 1), n = l.extent(0, axis);
  if (groups < 1 || n % groups != 0) throw bad_input("{} channels in {} groups", n, groups);
  Ints split, perm, whole;
  for (int a = 0; a < rank; ++a) {
    const std::int64_t extent = a == 0 && a != axis ? 0 : l.extent(0, a);
    whole.push_back(extent);
    if (a == axis)
      split.insert(split.end(), {groups, n / groups});
    else
      split.push_back(extent);
    if (a == axis)
      perm.insert(perm.end(), {a + 1, a});
    else
      perm.push_back(a < axis ? a : a + 1);
  }
  return l.g.reshape(
      l.name, l.g.transpose(part(l, "turned"), l.g.reshape(part(l, "groups"), x, split), perm),
      whole);
}

// Windows along rows and columns, gathered: [N, rows * columns * C, windows].
ValueId patches(const Layer& l) {
  const Ints size = l.integers("sizes"), stride = l.integers("strides"), rate = l.integers("rates");
  const std::string how = l.text("auto_pad", "valid");
  if (size.size() != 2 || stride.size() != 2 || rate.size() != 2 || l.rank(0) != 4)
    throw bad_input("patches of other than images");
  if (how != "valid" && how != "same_upper" && how != "same_lower")
    throw bad_input("auto_pad {} is not known", printable(how));
  constexpr std::int64_t kPlaces = 1 << 16;
  ValueId x = l.input(0);
  const std::int64_t channels = l.extent(0, 1);
  Ints count, pads(8, 0);
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) {
    if (size[a] < 1 || stride[a] < 1 || rate[a] < 1 || size[a] > 4096 || rate[a] > 1 << 20)
      throw bad_input("patches of {} by {} elements every {}", size[a], rate[a], stride[a]);
    const std::int64_t n = l.extent(0, static_cast<int>(a) + 2),
                       reach = (size[a] - 1) * rate[a] + 1;
    if (how == "valid" ? n < reach : n < 1) throw bad_input("patches of {} in {}", reach, n);
    count.push_back(how == "valid" ? (n - reach) / stride[a] + 1 : (n - 1) / stride[a] + 1);
    if (count[a] > kPlaces / size[a]) throw bad_input("more than {} places of patches", kPlaces);
    const std::int64_t missing = std::max<std::int64_t>((count[a] - 1) * stride[a] + reach - n, 0);
    pads[2 + a] = how == "same_lower" ? (missing + 1) / 2 : missing / 2;
    pads[6 + a] = missing - pads[2 + a];
  }
  if (how != "valid") x = l.g.op("pad", part(l, "padded"), {x}, {{"pads", pads}});
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) {
    Tensor at = Tensor::uninitialized(DType::i64, {size[a], count[a]});
    auto to = at.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < size[a] * count[a]; ++i)
      to[static_cast<std::size_t>(i)] = i / count[a] * rate[a] + i % count[a] * stride[a];
    x = l.g.op("gather", part(l, "windows"), {x, l.g.constant(part(l, "places"), std::move(at))},
               {{"axis", static_cast<std::int64_t>(2 + 2 * a)}});
  }
  // [N, C, rows, down, columns, across]
  x = l.g.transpose(part(l, "turned"), x, {0, 2, 4, 1, 3, 5});
  return l.g.reshape(l.name, x, {0, size[0] * size[1] * channels, count[0], count[1]});
}

// [N,C,H,W] read as [N, C/b^2, H*b, W*b], whose blocks become channels.
ValueId reorg(const Layer& l) {
  const ValueId x = l.input(0);
  const Ints strides = l.integers("stride");
  if (l.rank(0) != 4 || strides.size() != 1) throw bad_input("ReorgYolo of other than an image");
  const std::int64_t b = strides[0], c = l.extent(0, 1), h = l.extent(0, 2), w = l.extent(0, 3);
  if (b < 1 || b > 1 << 20 || c % (b * b) != 0 || h % b != 0 || w % b != 0)
    throw bad_input("{} in blocks of {}", to_string(l.g.type(x)), b);
  const ValueId blocks = l.g.reshape(part(l, "blocks"), x, {0, c / (b * b), h, b, w, b});
  return l.g.reshape(l.name, l.g.transpose(part(l, "turned"), blocks, {0, 3, 5, 1, 2, 4}),
                     {0, c * b * b, h / b, w / b});
}

// Each region is (x, y, other coordinates, whether there is an object, classes) along the channels.
ValueId region(const Layer& l) {
  const ValueId x = l.input(0);
  GraphBuilder& g = l.g;
  if (g.rank(x) != 4) throw bad_input("RegionYolo of other than an image");
  const bool soft = l.flag("do_softmax", true);
  const std::int64_t coords = l.integer("coords", 4), classes = l.integer("classes", 0),
                     of_mask = static_cast<std::int64_t>(l.integers("mask").size()),
                     all = l.integer("num", 1);
  const std::int64_t regions = soft ? all : of_mask;
  l.text("anchors", "");  // of those who read the boxes
  const int first = normalize_axis(l.integer("axis", 1), 4),
            last = normalize_axis(l.integer("end_axis", 3), 4);
  const std::int64_t c = l.extent(0, 1), h = l.extent(0, 2), w = l.extent(0, 3);
  if (coords < 2 || coords > 64 || classes < 1 || classes > 1 << 20 || regions < 1 ||
      regions > 1 << 20 || checked_mul(regions, coords + 1 + classes) != c)
    throw bad_input("{} channels of {} regions with {} coordinates and {} classes", c, regions,
                    coords, classes);
  const auto parts =
      g.nodes("split", part(l, "parts"),
              {g.reshape(part(l, "regions"), x, {0, regions, coords + 1 + classes, h, w})},
              make_params(get_op("split"),
                          {{"axis", std::int64_t{2}}, {"split", Ints{2, coords - 2, 1, classes}}}),
              4);
  const auto logistic = [&](const char* role, ValueId v) {
    return g.op("sigmoid", part(l, role), {v});
  };
  std::vector<ValueId> joined{logistic("place", parts[0])};
  if (coords > 2) joined.push_back(parts[1]);
  joined.push_back(logistic("object", parts[2]));
  joined.push_back(
      soft ? g.op("softmax", part(l, "classes"), {parts[3]}, {{"axis", std::int64_t{2}}})
           : logistic("classes", parts[3]));
  Ints shape{0, c, h, w};
  if (soft) {
    if (first > last || first == 0) throw bad_input("axes {} to {} as one", first, last);
    std::int64_t n = 1;
    for (int a = first; a <= last; ++a) n = checked_mul(n, shape[static_cast<std::size_t>(a)]);
    shape.erase(shape.begin() + first, shape.begin() + last + 1);
    shape.insert(shape.begin() + first, n);
  }
  return g.reshape(l.name, g.op("concat", part(l, "all"), joined, {{"axis", std::int64_t{2}}}),
                   shape);
}

ValueId dot_product_attention(const Layer& l) {
  Attention a{l.input(0), l.input(1), l.input(2)};
  a.causal = l.flag("causal", false);
  if (l.has(3) && !a.causal) a.mask = l.input(3);
  if (l.has(4)) a.scale = l.input(4);
  if (!l.g.known(a.q) || !l.g.known(a.k)) {
    a.q_dims = l.dims(0);
    a.k_dims = l.dims(1);
    a.type = l.dtype(0);
  }
  if (a.mask != kAbsent && !l.g.known(a.mask)) a.mask_type = l.dtype(3);
  return attention(l.g, l.name, a);
}

ValueId col2im(const Layer& l) {
  return l.g.op("col2im", l.name, {l.input(0)},
                {{"image_shape", l.constant(1)},
                 {"block_shape", l.constant(2)},
                 {"strides", l.integers("strides", {1, 1})},
                 {"dilations", l.integers("dilations", {1, 1})},
                 {"pads_begin", l.integers("pads_begin", {0, 0})},
                 {"pads_end", l.integers("pads_end", {0, 0})}});
}

struct Row {
  std::string_view type;
  ValueId (*translate)(const Layer&);
};
constexpr Row kRows[] = {
    {"AdaptiveAvgPool", adaptive},
    {"AdaptiveMaxPool", adaptive},
    {"SpaceToBatch", space_to_batch},
    {"BatchToSpace", batch_to_space},
    {"ShuffleChannels", shuffle_channels},
    {"ExtractImagePatches", patches},
    {"ReorgYolo", reorg},
    {"RegionYolo", region},
    {"ScaledDotProductAttention", dot_product_attention},
    {"Col2Im", col2im},
};

}  // namespace

std::vector<ValueId> translate_image(const Layer& l) {
  for (const Row& row : kRows)
    if (row.type == l.type) return {row.translate(l)};
  return {};
}

}  // namespace etalon::openvino
