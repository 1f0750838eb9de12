#include "importers/formats/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"

namespace etalon {
namespace {

constexpr std::int64_t kPlaces = 1 << 16;  // of indices that are written down

ValueId unsqueezed(GraphBuilder& g, const std::string& name, ValueId x, std::int64_t axis) {
  return g.op("unsqueeze", name, {x}, {{"axes", Ints{axis}}});
}

// The positions that a cut takes of n elements.
Tensor positions(const Cut& c, std::int64_t n) {
  if (c.step == 0) throw bad_input("a slice with a step of 0");
  const std::int64_t low = c.step > 0 ? 0 : -1, high = c.step > 0 ? n : n - 1;
  const auto held = [&](std::int64_t at) {
    if (at < 0) at = at < -n ? -n - 1 : at;
    return std::clamp(at < 0 ? at + n : at, low, high);
  };
  const std::int64_t from = held(c.start), to = held(c.end);
  std::vector<std::int64_t> out;
  for (std::int64_t i = from; c.step > 0 ? i < to : i > to; i += c.step) {
    out.push_back(i);
    if (out.size() > kPlaces) throw bad_input("a slice of more than {} places to write", kPlaces);
    if (c.step > n || c.step < -n) break;
  }
  return ints_tensor(out);
}

}  // namespace

std::int64_t known_extent(const GraphBuilder& g, ValueId x, int axis) {
  if (axis < 0 || axis >= g.rank(x)) throw bad_input("axis {} of {}", axis, to_string(g.type(x)));
  const std::int64_t n = g.dims(x)[static_cast<std::size_t>(axis)];
  if (n < 0) throw bad_input("axis {} of {} has a free extent", axis, to_string(g.type(x)));
  return n;
}

ValueId scatter_slices(GraphBuilder& g, const std::string& name, ValueId x, int axis,
                       ValueId indices, ValueId updates, const std::string& reduction) {
  const int rank = g.rank(x), among = g.rank(indices), all = g.rank(updates);
  if (all != rank - 1 + among)
    throw bad_input("updates of rank {} for {} at indices of rank {}", all, to_string(g.type(x)),
                    among);
  Ints front, back(static_cast<std::size_t>(rank)), slices;
  for (int i = 0; i < rank; ++i) front.push_back(i);
  for (int i = 0; i < all; ++i) slices.push_back(i);
  std::rotate(front.begin(), front.begin() + axis, front.begin() + axis + 1);
  std::rotate(slices.begin(), slices.begin() + axis, slices.begin() + axis + among);
  for (int i = 0; i < rank; ++i)
    back[static_cast<std::size_t>(front[static_cast<std::size_t>(i)])] = i;
  const ValueId first = g.transpose(name + ".front", x, front),
                values = g.transpose(name + ".slices", updates, slices),
                at = unsqueezed(g, name + ".coordinates", indices, -1);
  return g.transpose(name + ".back",
                     g.op("scatter_nd", name, {first, at, values}, {{"reduction", reduction}}),
                     back);
}

ValueId scatter_cuts(GraphBuilder& g, const std::string& name, ValueId x, ValueId updates,
                     std::span<const Cut> cuts) {
  if (cuts.empty()) return updates;
  const Cut& c = cuts.front();
  Tensor at = positions(c, known_extent(g, x, c.axis));
  if (at.numel() == 0) return x;
  if (cuts.size() > 1) {
    const ValueId part = g.op("slice", name + ".part", {x},
                              {{"starts", Ints{c.start}},
                               {"ends", Ints{c.end}},
                               {"axes", Ints{c.axis}},
                               {"steps", Ints{c.step}}});
    updates = scatter_cuts(g, name, part, updates, cuts.subspan(1));
  }
  return scatter_slices(g, name, x, c.axis, g.constant(name + ".places", std::move(at)), updates);
}

ValueId scatter_folded(GraphBuilder& g, const std::string& name, ValueId x, int axis,
                       ValueId indices, ValueId updates, const std::string& fold, bool own) {
  const DType type = g.dtype(x);
  const auto scatter = [&](const std::string& role, ValueId into, ValueId values,
                           const std::string& by) {
    return g.op("scatter_elements", role, {into, indices, values},
                {{"axis", std::int64_t{axis}}, {"reduction", by}});
  };
  const auto like = [&](const char* role, ValueId shape, double v) {
    return g.op("expand", name + role,
                {g.constant(name + ".number", scalar_of(type, v)),
                 g.op("shape", name + ".shape", {shape})});
  };
  if (fold == "none" || (own && fold != "mean")) return scatter(name, x, updates, fold);
  if (!is_floating(type) && (fold == "mean" || fold == "max" || fold == "min"))
    throw bad_input("the {} of updates of integers{} is not supported", fold, own ? "" : " alone");
  const double inf = std::numeric_limits<double>::infinity();
  if (fold != "mean") {
    const double start = fold == "add" ? 0 : fold == "mul" ? 1 : fold == "max" ? -inf : inf;
    return scatter(name, scatter(name + ".cleared", x, like(".start", indices, start), "none"),
                   updates, fold);
  }
  const ValueId all = like(".all", x, 1), zeros = like(".zeros", indices, 0),
                ones = like(".ones", indices, 1);
  const ValueId from = own ? x : scatter(name + ".cleared", x, zeros, "none"),
                counted = own ? all : scatter(name + ".uncounted", all, zeros, "none");
  return g.op("div", name,
              {scatter(name + ".sums", from, updates, "add"),
               scatter(name + ".counts", counted, ones, "add")});
}

ValueId rolled(GraphBuilder& g, const std::string& name, ValueId x, int axis, std::int64_t by) {
  const std::int64_t n = known_extent(g, x, axis), shift = n == 0 ? 0 : (by % n + n) % n;
  if (shift == 0) return x;
  const auto halves = g.nodes("split", name + ".parts", {x},
                              make_params(get_op("split"), {{"axis", std::int64_t{axis}},
                                                            {"split", Ints{n - shift, shift}}}),
                              2);
  return g.op("concat", name, {halves[1], halves[0]}, {{"axis", std::int64_t{axis}}});
}

ValueId places_in_rows(GraphBuilder& g, const std::string& name, ValueId rows, ValueId values,
                       bool equal) {
  if (g.dtype(rows) != g.dtype(values))
    throw bad_input("places of {} among {}: two types", to_string(g.type(values)),
                    to_string(g.type(rows)));
  if (g.rank(rows) < 1) throw bad_input("a sorted row of rank 0");
  const ValueId each = unsqueezed(g, name + ".each", values, -1),
                row = g.rank(rows) == 1 ? rows : unsqueezed(g, name + ".rows", rows, -2);
  const ValueId before = g.op(equal ? "less_or_equal" : "less", name + ".before", {row, each});
  return g.op("reduce_sum", name,
              {g.op("cast", name + ".ones", {before}, {{"to", std::string("i64")}})},
              {{"axes", Ints{-1}}, {"keepdims", false}});
}

Tensor axis_windows(std::int64_t extent, std::int64_t width, std::int64_t step, std::int64_t most) {
  if (width < 1 || step < 1 || width > extent)
    throw bad_input("windows of {} by {} over an extent of {}", width, step, extent);
  const std::int64_t count = (extent - width) / step + 1;
  if (count > most / width)
    throw bad_input("{} windows of {} are more than {} elements, which is not supported", count,
                    width, most);
  Tensor at = Tensor::uninitialized(DType::i64, {count, width});
  auto to = at.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < count * width; ++i)
    to[static_cast<std::size_t>(i)] = i / width * step + i % width;
  return at;
}

ValueId adaptive_pool(GraphBuilder& g, const std::string& name, ValueId x, Ints out, bool average) {
  const Ints dims = g.dims(x);
  const std::size_t axes = out.size();
  if (axes < 1 || axes + 2 != dims.size())
    throw bad_input("{} extents of an adaptive pool of {}", axes, to_string(g.type(x)));
  if (std::ranges::all_of(out, [](std::int64_t o) { return o == 1; }))
    return g.op(average ? "global_avg_pool" : "global_max_pool", name, {x});
  bool even = true;
  std::int64_t windows = 1;
  Ints kernel, reduced;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t in = known_extent(g, x, static_cast<int>(a) + 2);
    if (in < 1 || in > 1LL << 40) throw bad_input("an adaptive pool of {} elements", in);
    if (out[a] < 1 || out[a] > 4096) throw bad_input("{} windows", out[a]);
    even = even && in % out[a] == 0;
    kernel.push_back(in / out[a]);
    windows *= out[a];
    reduced.push_back(static_cast<std::int64_t>(a) + 2);
  }
  if (even)
    return average ? g.op("avg_pool", name, {x},
                          {{"kernel", kernel}, {"strides", kernel}, {"count_include_pad", true}})
                   : g.op("max_pool", name, {x}, {{"kernel", kernel}, {"strides", kernel}});
  if (windows > 1024) throw bad_input("an adaptive pool of more than 1024 uneven windows");
  g.note("an adaptive pool: window i reaches from floor(i n / out) to ceil((i + 1) n / out).");
  std::vector<ValueId> parts;
  for (std::int64_t w = 0; w < windows; ++w) {
    Ints begin(axes), end(axes);
    std::int64_t left = w;
    for (std::size_t a = axes; a-- > 0;) {
      const std::int64_t i = left % out[a], in = dims[a + 2];
      left /= out[a];
      begin[a] = i * in / out[a];
      end[a] = ((i + 1) * in + out[a] - 1) / out[a];
    }
    const ValueId piece =
        g.op("slice", name + ".window", {x}, {{"starts", begin}, {"ends", end}, {"axes", reduced}});
    parts.push_back(g.op(average ? "reduce_mean" : "reduce_max", name + ".value", {piece},
                         {{"axes", reduced}, {"keepdims", false}}));
  }
  for (ValueId& p : parts) p = unsqueezed(g, name + ".place", p, 2);
  Ints to{0, 0};
  to.insert(to.end(), out.begin(), out.end());
  return g.reshape(name, g.op("concat", name + ".all", parts, {{"axis", std::int64_t{2}}}), to);
}

ValueId attention(GraphBuilder& g, const std::string& name, const Attention& a) {
  const Ints dims = g.known(a.q) || a.q_dims.empty() ? g.dims(a.q) : a.q_dims,
             keys = g.known(a.k) || a.k_dims.empty() ? g.dims(a.k) : a.k_dims;
  if (dims.size() < 2 || keys.size() < 2 || (a.scale == kAbsent && dims.back() < 1))
    throw bad_input("attention of ranks {} and {}, whose width is not known", dims.size(),
                    keys.size());
  g.note("attention is written as its definition: softmax(q k' scale + mask) v, each step rounds.");
  Ints turned;
  for (std::size_t i = 0; i < keys.size(); ++i) turned.push_back(static_cast<std::int64_t>(i));
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  const DType type = !g.known(a.q) && a.type ? *a.type : g.dtype(a.q);
  ValueId s = g.op("matmul", name + ".scores", {a.q, g.transpose(name + ".keys", a.k, turned)});
  const ValueId scale =
      a.scale != kAbsent
          ? a.scale
          : g.constant(name + ".scale",
                       scalar_of(type, static_cast<double>(static_cast<float>(
                                           1 / std::sqrt(static_cast<double>(dims.back()))))));
  s = g.op("mul", name + ".scaled", {s, scale});
  const ValueId out =
      g.constant(name + ".minus_inf", scalar_of(type, -std::numeric_limits<double>::infinity()));
  if (a.causal) {
    const std::int64_t rows = dims[dims.size() - 2], columns = keys[keys.size() - 2];
    if (rows < 0 || columns < 0) throw bad_input("causal attention over a free length");
    const ValueId all =
        g.op("expand", name + ".all", {g.constant(name + ".one", scalar_of(DType::f32, 1))},
             {{"shape", Ints{rows, columns}}});
    const ValueId seen =
        g.op("cast", name + ".seen", {g.op("trilu", name + ".lower", {all}, {{"upper", false}})},
             {{"to", std::string("bool")}});
    s = g.op("where", name + ".causal", {seen, s, out});
  }
  if (a.mask != kAbsent)
    s = (!g.known(a.mask) && a.mask_type ? *a.mask_type : g.dtype(a.mask)) == DType::boolean
            ? g.op("where", name + ".mask", {a.mask, s, out})
            : g.op("add", name + ".mask", {s, a.mask});
  return g.op("matmul", name,
              {g.op("softmax", name + ".weights", {s}, {{"axis", std::int64_t{-1}}}), a.v});
}

ValueId segment_sum(GraphBuilder& g, const std::string& name, ValueId rows, ValueId ids,
                    std::int64_t count, ValueId empty) {
  if (count < 0 || count > 1LL << 40) throw bad_input("{} segments", count);
  Ints dims = g.dims(rows);
  if (dims.empty()) throw bad_input("segments of a number");
  for (int a = 1; a < g.rank(rows); ++a) known_extent(g, rows, a);
  dims[0] = count;
  const auto filled = [&](const char* role, DType type, const Ints& shape) {
    return g.op("expand", name + role, {g.constant(name + ".zero", scalar_of(type, 0))},
                {{"shape", shape}});
  };
  const ValueId at = unsqueezed(g, name + ".segments", ids, -1);
  const ValueId sums =
      g.op("scatter_nd", name + ".sums", {filled(".zeros", g.dtype(rows), dims), at, rows},
           {{"reduction", std::string("add")}});
  if (empty == kAbsent) return sums;
  const ValueId one = g.op(
      "expand", name + ".each",
      {g.constant(name + ".one", scalar_of(DType::i64, 1)), g.op("shape", name + ".count", {ids})});
  const ValueId met =
      g.op("scatter_nd", name + ".met", {filled(".none", DType::i64, {count}), at, one},
           {{"reduction", std::string("add")}});
  Ints shape(dims.size(), 1);
  shape[0] = -1;
  const ValueId bare =
      g.op("equal", name + ".bare", {met, g.constant(name + ".no", scalar_of(DType::i64, 0))});
  return g.op("where", name,
              {g.op("reshape", name + ".rows", {bare}, {{"shape", shape}}), empty, sums});
}

ValueId segments_of(GraphBuilder& g, const std::string& name, ValueId offsets, std::int64_t n) {
  if (n > kPlaces) throw bad_input("bags of more than {} indices", kPlaces);
  Ints all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  const ValueId begins = g.dtype(offsets) == DType::i64 ? offsets
                                                        : g.op("cast", name + ".begins", {offsets},
                                                               {{"to", std::string("i64")}});
  const ValueId before = places_in_rows(g, name + ".offsets", begins,
                                        g.constant(name + ".places", ints_tensor(all)), true);
  return g.op("sub", name + ".bags", {before, g.constant(name + ".one", scalar_of(DType::i64, 1))});
}

}  // namespace etalon
