// Views, cuts, joins, moves of elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"t", {"self"}},
    {"transpose", {"self", "dim0", "dim1"}},
    {"permute", {"self", "dims"}},
    {"flatten", {"self", "start_dim", "end_dim"}},
    {"view", {"self", "size"}},
    {"reshape", {"self", "size"}},
    {"_unsafe_view", {"self", "size"}},
    {"view_as", {"self", "other"}},
    {"reshape_as", {"self", "other"}},
    {"unsqueeze", {"self", "dim"}},
    {"squeeze", {"self", "dim"}},
    {"select", {"self", "dim", "index"}},
    {"slice", {"self", "dim", "start", "end", "step"}},
    {"narrow", {"self", "dim", "start", "length"}},
    {"chunk", {"self", "chunks", "dim"}},
    {"unsafe_chunk", {"self", "chunks", "dim"}},
    {"split", {"self", "split_size", "dim"}},
    {"unsafe_split", {"self", "split_size", "dim"}},
    {"split_with_sizes", {"self", "split_sizes", "dim"}},
    {"unbind", {"self", "dim"}},
    {"cat", {"tensors", "dim"}},
    {"stack", {"tensors", "dim"}},
    {"concat", {"tensors", "dim"}},
    {"concatenate", {"tensors", "dim"}},
    {"meshgrid", {"tensors", "indexing"}},
    {"broadcast_tensors", {"tensors"}},
    {"tensor_split", {"self", "sections", "dim"}},
    {"ravel", {"self"}},
    {"mT", {"self"}},
    {"adjoint", {"self"}},
    {"moveaxis", {"self", "source", "destination"}},
    {"broadcast_to", {"self", "size"}},
    {"hstack", {"tensors"}},
    {"vstack", {"tensors"}},
    {"expand", {"self", "size", "implicit"}},
    {"expand_as", {"self", "other"}},
    {"copy", {"self", "src", "non_blocking"}},
    {"repeat", {"self", "repeats"}},
    {"tile", {"self", "dims"}},
    {"repeat_interleave", {"self", "repeats", "dim", "output_size"}},
    {"flip", {"self", "dims"}},
    {"roll", {"self", "shifts", "dims"}},
    {"rot90", {"self", "k", "dims"}},
    {"pad", {"self", "pad", "mode", "value"}},
    {"constant_pad_nd", {"self", "pad", "value"}},
    {"reflection_pad1d", {"self", "padding"}},
    {"reflection_pad2d", {"self", "padding"}},
    {"reflection_pad3d", {"self", "padding"}},
    {"replication_pad1d", {"self", "padding"}},
    {"replication_pad2d", {"self", "padding"}},
    {"replication_pad3d", {"self", "padding"}},
    {"pixel_shuffle", {"self", "upscale_factor"}},
    {"pixel_unshuffle", {"self", "downscale_factor"}},
    {"channel_shuffle", {"self", "groups"}},
    {"unflatten", {"self", "dim", "sizes"}},
    {"movedim", {"self", "source", "destination"}},
    {"swapaxes", {"self", "axis0", "axis1"}},
    {"swapdims", {"self", "dim0", "dim1"}},
    {"numpy_T", {"self"}},
    {"tril", {"self", "diagonal"}},
    {"triu", {"self", "diagonal"}},
    {"contiguous", {"self", "memory_format"}},
    {"clone", {"self", "memory_format"}},
    {"detach", {"self"}},
    {"alias", {"self"}},
    {"lift_fresh", {"self"}},
    {"lift_fresh_copy", {"self"}},
    {"positive", {"self"}},
    {"resolve_conj", {"self"}},
    {"resolve_neg", {"self"}},
};

std::vector<ValueId> cut(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t axis,
                         const Ints& sizes) {
  if (sizes.size() == 1) return {x};
  return b.nodes("split", name, {x},
                 make_params(get_op("split"), {{"axis", axis}, {"split", sizes}}), sizes.size());
}

Ints pieces(std::int64_t extent, std::int64_t size) {
  if (size < 1) throw bad_input("pieces of {}", size);
  Ints out;
  for (std::int64_t at = 0; at < extent; at += size) {
    out.push_back(std::min(size, extent - at));
    if (out.size() > 4096) throw bad_input("more than 4096 pieces");
  }
  return out;
}

ValueId slice(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t axis,
              std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t n = b.dims(x)[static_cast<std::size_t>(axis)];
  if (start == 0 && step == 1 && end >= (n < 0 ? 1LL << 40 : n)) return x;
  return b.op(
      "slice", name, {x},
      {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}, {"steps", Ints{step}}});
}

std::int64_t bound(const AtenCall& c, std::string_view name, std::int64_t missing) {
  const AtenValue* v = c.find(name);
  return v == nullptr ? missing : c.integer(name, missing);
}

// Whether a free extent is that of x's axis: they agree at both sizes that the builder tries.
bool is_extent(GraphBuilder& b, ValueId x, std::size_t axis, const AtenValue& v) {
  if (axis >= static_cast<std::size_t>(b.rank(x)) || b.dims(x)[axis] >= 0) return false;
  return b.extents(x, static_cast<int>(axis)) == std::pair(v.sizes[0], v.sizes[1]);
}

// Along several axes, or, without any, along the flattened tensor.
ValueId roll(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const Ints shifts = c.ints("shifts", {}), dims = c.ints("dims", {});
  if (dims.empty() && shifts.size() == 1) {
    Ints shape;
    for (int a = 0; a < b.rank(x); ++a) shape.push_back(extent_of(b, x, a));
    return b.reshape(name, rolled(b, name, b.reshape(name + ".flat", x, {-1}), 0, shifts[0]),
                     shape);
  }
  if (shifts.size() != dims.size()) throw AtenUnknown{"roll of other axes than its shifts"};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t axis = aten_axis(b, x, dims[i]);
    extent_of(b, x, axis);
    x = rolled(b, name, x, static_cast<int>(axis), shifts[i]);
  }
  return x;
}

// A quarter turn: the plane's axes change places, then one of them is walked backwards.
ValueId turned(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const Ints plane = c.ints("dims", {0, 1});
  if (plane.size() != 2) throw bad_input("rot90 in {} axes", plane.size());
  const std::int64_t first = aten_axis(b, x, plane[0]), second = aten_axis(b, x, plane[1]),
                     quarters = ((c.integer("k", 1) % 4) + 4) % 4;
  if (first == second) throw bad_input("rot90 in one axis");
  const auto backwards = [&](ValueId v, const Ints& axes) {
    return b.op("slice", name, {v},
                {{"starts", Ints(axes.size(), -1)},
                 {"ends", Ints(axes.size(), INT64_MIN)},
                 {"axes", axes},
                 {"steps", Ints(axes.size(), -1)}});
  };
  if (quarters == 0) return x;
  if (quarters == 2) return backwards(x, {first, second});
  Ints perm;
  for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
  std::swap(perm[static_cast<std::size_t>(first)], perm[static_cast<std::size_t>(second)]);
  return backwards(b.transpose(name + ".plane", x, perm), {quarters == 1 ? first : second});
}

// Extents of -1 keep x's own; one that the graph leaves free has to be x's own.
ValueId expand(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const Ints from = b.dims(x);
  const AtenValue* size = c.find("size");
  Ints to = free_extents(c, "size");
  if (to.size() < from.size()) throw bad_input("an expansion to fewer axes");
  const std::size_t more = to.size() - from.size();
  bool same = more == 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool free = size->kind == Kind::list ? size->items[i].free : size->free;
    if (to[i] != -1 && !free) {
      same = same && from[i - more] == to[i];
      continue;
    }
    if (i < more ||
        (free && !is_extent(b, x, i - more, size->kind == Kind::list ? size->items[i] : *size)))
      throw AtenUnknown{"an expansion to a free extent"};
    to[i] = 1;
  }
  if (same) return x;
  return b.op("expand", name, {x}, {{"shape", to}});
}

// x under the shape of another tensor, as far as it is known before a run.
ValueId shaped_like(GraphBuilder& b, std::string_view op, const std::string& name, ValueId x,
                    ValueId other) {
  if (other == kAbsent) throw AtenUnknown{std::string(op) + " like what is no tensor"};
  Ints dims = b.dims(other);
  const Ints from = b.dims(x);
  std::int64_t free = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    ++free;
    // An extent of 1 in the shape of expand keeps that of x.
    const std::size_t more = dims.size() - std::min(dims.size(), from.size());
    if (op == "expand" && i >= more && from[i - more] < 0) {
      dims[i] = 1;
      --free;
    }
  }
  if (free == 0 || (op == "reshape" && free == 1)) return b.op(op, name, {x}, {{"shape", dims}});
  return b.op(op, name, {x, b.op("shape", name + ".shape", {other})});
}

// Extents as PyTorch's view takes them; a free one is copied, or what is left.
ValueId viewed(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* size = c.find("size");
  if (size == nullptr || size->kind != Kind::list) throw AtenUnknown{"a view without extents"};
  Ints shape;
  bool left = std::ranges::any_of(size->items, [](const AtenValue& v) {
    return v.kind == Kind::integer && !v.free && v.integer == -1;
  });
  for (std::size_t i = 0; i < size->items.size(); ++i) {
    const AtenValue& v = size->items[i];
    if (v.kind != Kind::integer) throw AtenUnknown{"a view with an extent that is no integer"};
    if (!v.free && v.integer == 0) throw AtenUnknown{"a view with an extent of 0"};
    if (!v.free) {
      shape.push_back(v.integer);
    } else if (is_extent(b, x, i, v)) {
      shape.push_back(0);
    } else if (!left) {
      shape.push_back(-1);
      left = true;
    } else {
      throw AtenUnknown{"a view with two free extents"};
    }
  }
  return b.reshape(name, x, shape);
}

// Cuts along one axis; empty where op is none of them, as of the functions below.
AtenOutputs parts_of(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                     const AtenCall& c) {
  if (op == "chunk" || op == "unsafe_chunk") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis),
                       count = c.integer("chunks", 1);
    if (count < 1) throw bad_input("{} chunks", count);
    return cut(b, name, x, axis, pieces(n, std::max<std::int64_t>((n + count - 1) / count, 1)));
  }
  if (op == "split" || op == "split_with_sizes" || op == "unsafe_split") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0));
    const AtenValue* how = c.find("split_size");
    if (how == nullptr) how = c.find("split_sizes");
    if (how != nullptr && how->kind == Kind::list)
      return cut(b, name, x, axis,
                 c.ints(c.find("split_size") != nullptr ? "split_size" : "split_sizes", {}));
    return cut(b, name, x, axis, pieces(extent_of(b, x, axis), c.integer("split_size", 1)));
  }
  if (op == "tensor_split") {
    // The first n mod k pieces are longer by one; or cuts at the indices that are given.
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis);
    const AtenValue* how = c.find("sections");
    const char* key = how != nullptr ? "sections" : "indices";
    if (how == nullptr) how = c.find("indices");
    Ints sizes;
    if (how != nullptr && how->kind == Kind::list) {
      std::int64_t from = 0;
      Ints cuts = c.ints(key, {});
      cuts.push_back(n);
      for (const std::int64_t at : cuts) {
        const std::int64_t to = std::clamp<std::int64_t>(at < 0 ? at + n : at, from, n);
        sizes.push_back(to - from);
        from = to;
      }
    } else {
      const std::int64_t count = c.integer(key, 1);
      if (count < 1 || count > 4096) throw bad_input("{} pieces", count);
      for (std::int64_t i = 0; i < count; ++i) sizes.push_back(n / count + (i < n % count ? 1 : 0));
    }
    return cut(b, name, x, axis, sizes);
  }
  if (op == "unbind") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis);
    auto out = cut(b, name, x, axis, pieces(n, 1));
    for (ValueId& v : out) v = b.op("squeeze", name + ".part", {v}, {{"axes", Ints{axis}}});
    return out;
  }
  return {};
}

// Axes in another sequence, or other extents of the same elements.
AtenOutputs arranged(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                     const AtenCall& c) {
  if (op == "t" || op == "transpose" || op == "permute") {
    Ints perm = c.ints("dims", {});
    if (op != "permute") {
      for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
      const bool matrix = op == "t";
      std::swap(
          perm.at(static_cast<std::size_t>(aten_axis(b, x, matrix ? 0 : c.integer("dim0", 0)))),
          perm.at(static_cast<std::size_t>(aten_axis(b, x, matrix ? -1 : c.integer("dim1", 1)))));
    }
    for (std::int64_t& p : perm) p = aten_axis(b, x, p);
    return {b.transpose(name, x, perm)};
  }
  if (op == "flatten") {
    const std::int64_t begin = aten_axis(b, x, c.integer("start_dim", 0)),
                       end = aten_axis(b, x, c.integer("end_dim", -1));
    if (begin == 1 && end == b.rank(x) - 1) return {b.op("flatten", name, {x})};
    if (begin >= end) return {x};
    const Ints dims = b.dims(x);
    Ints to;
    for (std::int64_t a = 0; a < b.rank(x); ++a)
      if (a < begin)
        to.push_back(0);
      else if (a == begin)
        to.push_back(-1);
      else if (a > end)
        to.push_back(dims[static_cast<std::size_t>(a)]);
    if (std::ranges::count(to, -1) > 1) throw AtenUnknown{"flatten with two free extents"};
    return {b.reshape(name, x, to)};
  }
  if (op == "ravel") return {b.reshape(name, x, {-1})};
  if (op == "mT" || op == "adjoint") {
    Ints perm;
    for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
    if (perm.size() < 2) throw bad_input("{} of a vector", op);
    std::swap(perm.back(), perm[perm.size() - 2]);
    return {b.transpose(name, x, perm)};
  }
  if (op == "view" || op == "reshape" || op == "_unsafe_view") return {viewed(b, name, x, c)};
  if (op == "select")
    return {b.op(
        "gather", name,
        {x, b.constant(name + ".index", Tensor::of<std::int64_t>({}, {c.integer("index", 0)}))},
        {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  if (op == "squeeze" && c.find("dim") == nullptr) return {b.op(op, name, {x})};
  if (op == "squeeze") {
    // An axis of another extent than 1 stays.
    Ints axes;
    for (const std::int64_t a : aten_axes(b, x, c))
      if (b.dims(x)[static_cast<std::size_t>(a)] == 1) axes.push_back(a);
    return {axes.empty() ? x : b.op(op, name, {x}, {{"axes", axes}})};
  }
  if (op == "unsqueeze")
    return {b.op(op, name, {x}, {{"axes", Ints{aten_axis(b, x, c.integer("dim", 0), 1)}}})};
  return {};
}

AtenOutputs padded(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                   const AtenCall& c) {
  if (op == "pad") {
    const AtenValue* mode = c.find("mode");
    return {aten_pad(b, name, x, c.ints("pad", {}), mode == nullptr ? "constant" : mode->text,
                     c.number("value", 0))};
  }
  if (op == "constant_pad_nd")
    return {aten_pad(b, name, x, c.ints("pad", {}), "constant", c.number("value", 0))};
  if (op.starts_with("reflection_pad"))
    return {aten_pad(b, name, x, c.ints("padding", {}), "reflect", 0)};
  if (op.starts_with("replication_pad"))
    return {aten_pad(b, name, x, c.ints("padding", {}), "replicate", 0)};
  return {};
}

AtenOutputs moved(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                  const AtenCall& c) {
  if (op == "slice") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0));
    return {slice(b, name, x, axis, bound(c, "start", 0), bound(c, "end", INT64_MAX),
                  c.integer("step", 1))};
  }
  if (op == "narrow") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), from = c.integer("start", 0),
                       n = c.integer("length", 0);
    if (from < 0 || n < 0 || n > 1LL << 40 || from > 1LL << 40)
      throw bad_input("{} elements from {}", n, from);
    return {slice(b, name, x, axis, from, from + n, 1)};
  }
  if (op == "expand" || op == "broadcast_to") return {expand(b, name, x, c)};
  if (op == "expand_as") return {shaped_like(b, "expand", name, x, c.tensor("other"))};
  if (op == "copy") {
    const ValueId from = c.tensor("src");
    if (from == kAbsent) throw AtenUnknown{"a copy of what is no tensor"};
    return {shaped_like(b, "expand", name, aten_cast(b, name, from, b.dtype(x)), x)};
  }
  if (op == "view_as" || op == "reshape_as")
    return {shaped_like(b, "reshape", name, x, c.tensor("other"))};
  if (op == "repeat" || op == "tile") {
    Ints by = c.ints(op == "repeat" ? "repeats" : "dims", {});
    const auto rank = static_cast<std::size_t>(b.rank(x));
    if (by.size() < rank) by.insert(by.begin(), rank - by.size(), 1);
    if (by.size() > rank) {
      Ints axes;
      for (std::size_t i = 0; i + rank < by.size(); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
      x = b.op("unsqueeze", name + ".axes", {x}, {{"axes", axes}});
    }
    return {b.op("tile", name, {x}, {{"repeats", by}})};
  }
  if (op == "repeat_interleave") {
    const std::int64_t by = c.integer("repeats", 1);
    if (c.find("dim") == nullptr) throw AtenUnknown{"repeat_interleave of a flattened tensor"};
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis);
    if (by < 1 || by > 1 << 20) throw bad_input("{} repetitions", by);
    Ints repeats(static_cast<std::size_t>(b.rank(x)) + 1, 1), to;
    repeats[static_cast<std::size_t>(axis) + 1] = by;
    for (int a = 0; a < b.rank(x); ++a) to.push_back(a == axis ? n * by : 0);
    for (std::size_t a = static_cast<std::size_t>(axis) + 1; a < to.size(); ++a)
      to[a] = extent_of(b, x, static_cast<std::int64_t>(a));
    const ValueId wide = b.op("unsqueeze", name + ".each", {x}, {{"axes", Ints{axis + 1}}});
    return {b.reshape(name, b.op("tile", name + ".tile", {wide}, {{"repeats", repeats}}), to)};
  }
  if (op == "flip") {
    Ints axes = c.ints("dims", {});
    for (std::int64_t& a : axes) a = aten_axis(b, x, a);
    return {b.op("slice", name, {x},
                 {{"starts", Ints(axes.size(), -1)},
                  {"ends", Ints(axes.size(), INT64_MIN)},
                  {"axes", axes},
                  {"steps", Ints(axes.size(), -1)}})};
  }
  if (op == "roll") return {roll(b, name, x, c)};
  if (op == "rot90") return {turned(b, name, x, c)};
  if (op == "pixel_shuffle")
    return {b.op("depth_to_space", name, {x},
                 {{"blocksize", c.integer("upscale_factor", 1)}, {"mode", std::string("CRD")}})};
  if (op == "pixel_unshuffle")
    return {b.op("space_to_depth", name, {x},
                 {{"blocksize", c.integer("downscale_factor", 1)}, {"mode", std::string("CRD")}})};
  if (op == "channel_shuffle") {
    const std::int64_t groups = c.integer("groups", 1), n = extent_of(b, x, 1);
    if (groups < 1 || n % groups != 0) throw bad_input("{} channels in {} groups", n, groups);
    Ints to{0, groups, n / groups}, perm{0, 2, 1}, back{0, n};
    for (int a = 2; a < b.rank(x); ++a) {
      to.push_back(extent_of(b, x, a));
      back.push_back(extent_of(b, x, a));
      perm.push_back(a + 1);
    }
    return {b.reshape(name, b.transpose(name + ".turned", b.reshape(name + ".groups", x, to), perm),
                      back)};
  }
  if (op == "unflatten") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0));
    Ints to;
    bool left = false;
    const Ints dims = b.dims(x), inner = free_extents(c, "sizes");
    for (const std::int64_t n : inner) left = left || n < 0;
    for (std::size_t a = 0; a < dims.size(); ++a) {
      if (static_cast<std::int64_t>(a) == axis) {
        to.insert(to.end(), inner.begin(), inner.end());
      } else if (dims[a] >= 0) {
        to.push_back(dims[a]);
      } else if (static_cast<std::int64_t>(a) < axis) {
        to.push_back(0);
      } else if (!left) {
        to.push_back(-1);
        left = true;
      } else {
        throw AtenUnknown{"unflatten with two free extents"};
      }
    }
    return {b.reshape(name, x, to)};
  }
  if (op == "movedim" || op == "moveaxis") {
    Ints from = c.ints("source", {}), to = c.ints("destination", {});
    if (from.size() != to.size())
      throw bad_input("movedim of {} axes to {}", from.size(), to.size());
    Ints perm(static_cast<std::size_t>(b.rank(x)), -1), rest;
    for (std::size_t i = 0; i < from.size(); ++i)
      perm[static_cast<std::size_t>(aten_axis(b, x, to[i]))] = from[i] = aten_axis(b, x, from[i]);
    std::int64_t next = 0;
    for (std::int64_t& p : perm) {
      if (p >= 0) continue;
      while (std::ranges::find(from, next) != from.end()) ++next;
      p = next++;
    }
    return {b.transpose(name, x, perm)};
  }
  if (op == "swapaxes" || op == "swapdims" || op == "numpy_T") {
    Ints perm;
    for (int a = 0; a < b.rank(x); ++a) perm.push_back(a);
    if (op == "numpy_T")
      std::ranges::reverse(perm);
    else
      std::swap(perm.at(static_cast<std::size_t>(
                    aten_axis(b, x, c.integer(op == "swapdims" ? "dim0" : "axis0", 0)))),
                perm.at(static_cast<std::size_t>(
                    aten_axis(b, x, c.integer(op == "swapdims" ? "dim1" : "axis1", 0)))));
    return {b.transpose(name, x, perm)};
  }
  if (op == "tril" || op == "triu") {
    return {b.op("trilu", name, {x}, {{"upper", op == "triu"}, {"k", c.integer("diagonal", 0)}})};
  }
  // A copy that a layout asks for is not told apart from its operand, one that the code asks for
  // is: a change of either does not reach the other.
  if (op == "clone" && !c.args.contains("memory_format")) return {b.op("identity", name, {x})};
  if (op == "contiguous" || op == "clone" || op == "detach" || op == "alias" ||
      op == "lift_fresh" || op == "lift_fresh_copy" || op == "positive" ||
      op.starts_with("resolve_"))
    return {x};
  return {};
}

AtenOutputs joined(GraphBuilder& b, const std::string& op, const std::string& name,
                   const AtenCall& c) {
  std::vector<ValueId> in = c.tensors("tensors");
  if (in.empty()) throw bad_input("a join of nothing");
  if (op == "cat" || op.starts_with("concat"))
    return {b.op("concat", name, in, {{"axis", aten_axis(b, in[0], c.integer("dim", 0))}})};
  if (op != "stack") {
    if (b.rank(in[0]) < 2) throw AtenUnknown{op + " of vectors"};
    return {b.op("concat", name, in, {{"axis", std::int64_t{op == "hstack" ? 1 : 0}}})};
  }
  const std::int64_t axis = aten_axis(b, in[0], c.integer("dim", 0), 1);
  for (ValueId& v : in) v = b.op("unsqueeze", name + ".part", {v}, {{"axes", Ints{axis}}});
  return {in.size() == 1 ? in[0] : b.op("concat", name, in, {{"axis", axis}})};
}

// Tensors under the extents that all of them have together; of vectors, an axis for each.
AtenOutputs spread_out(GraphBuilder& b, const std::string& op, const std::string& name,
                       const AtenCall& c) {
  std::vector<ValueId> in = c.tensors("tensors");
  const AtenValue* order = c.find("indexing");
  const bool turned = order != nullptr && order->text == "xy" && in.size() > 1;
  if (order != nullptr && order->text != "xy" && order->text != "ij")
    throw bad_input("meshgrid's indexing is '{}', expected ij or xy", order->text);
  std::size_t rank = 0;
  if (op == "meshgrid") {
    rank = in.size();
    for (std::size_t i = 0; i < rank; ++i) {
      Ints shape(rank, 1);
      const std::size_t axis = turned && i < 2 ? 1 - i : i;
      shape[axis] = b.rank(in[i]) == 0 ? 1 : extent_of(b, in[i], 0);
      in[i] = b.reshape(name + ".axis", in[i], shape);
    }
  }
  for (const ValueId v : in) rank = std::max(rank, static_cast<std::size_t>(b.rank(v)));
  Ints shape(rank, 1);
  for (const ValueId v : in) {
    const Ints dims = b.dims(v);
    for (std::size_t a = 0; a < dims.size(); ++a) {
      std::int64_t& n = shape[rank - dims.size() + a];
      if (dims[a] < 0) throw AtenUnknown{op + " of a free extent"};
      if (n == 1) n = dims[a];
    }
  }
  for (ValueId& v : in) v = b.op("expand", name, {v}, {{"shape", shape}});
  return in;
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "meshgrid" || op == "broadcast_tensors") return spread_out(b, op, name, c);
  if (op == "cat" || op.starts_with("concat") || op.ends_with("stack"))
    return joined(b, op, name, c);
  const ValueId x = first_tensor(c, op);
  for (const auto of : {parts_of, arranged, padded, moved})
    if (AtenOutputs made = of(b, op, name, x, c); !made.empty()) return made;
  throw AtenUnknown{op};
}

}  // namespace

ValueId aten_pad(GraphBuilder& b, const std::string& name, ValueId x, const Ints& pads,
                 const std::string& mode, float value) {
  if (pads.size() % 2 != 0 || pads.size() / 2 > static_cast<std::size_t>(b.rank(x)))
    throw bad_input("{} pads of a tensor of rank {}", pads.size(), b.rank(x));
  const auto n = static_cast<std::int64_t>(pads.size() / 2);
  Ints axes, both(pads.size());
  for (std::int64_t i = 0; i < n; ++i) {
    axes.push_back(b.rank(x) - n + i);
    both[static_cast<std::size_t>(i)] = pads[static_cast<std::size_t>(2 * (n - 1 - i))];
    both[static_cast<std::size_t>(n + i)] = pads[static_cast<std::size_t>(2 * (n - 1 - i) + 1)];
  }
  const char* ours = mode == "constant"    ? "constant"
                     : mode == "reflect"   ? "reflect"
                     : mode == "replicate" ? "edge"
                     : mode == "circular"  ? "wrap"
                                           : nullptr;
  if (ours == nullptr) throw AtenUnknown{"padding of mode " + mode};
  return b.op("pad", name, {x},
              {{"mode", std::string(ours)}, {"pads", both}, {"axes", axes}, {"value", value}});
}

AtenFamily view_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
