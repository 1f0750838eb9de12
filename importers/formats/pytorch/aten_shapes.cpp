// Views, cuts, joins, indices, and tensors made of numbers.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"chunk", {"self", "chunks", "dim"}},
    {"split", {"self", "split_size", "dim"}},
    {"split_with_sizes", {"self", "split_sizes", "dim"}},
    {"unbind", {"self", "dim"}},
    {"stack", {"tensors", "dim"}},
    {"hstack", {"tensors"}},
    {"vstack", {"tensors"}},
    {"slice", {"self", "dim", "start", "end", "step"}},
    {"narrow", {"self", "dim", "start", "length"}},
    {"expand", {"self", "size"}},
    {"expand_as", {"self", "other"}},
    {"copy", {"self", "src"}},
    {"view_as", {"self", "other"}},
    {"reshape_as", {"self", "other"}},
    {"repeat", {"self", "repeats"}},
    {"tile", {"self", "dims"}},
    {"repeat_interleave", {"self", "repeats", "dim"}},
    {"flip", {"self", "dims"}},
    {"roll", {"self", "shifts", "dims"}},
    {"pad", {"self", "pad", "mode", "value"}},
    {"constant_pad_nd", {"self", "pad", "value"}},
    {"reflection_pad1d", {"self", "padding"}},
    {"reflection_pad2d", {"self", "padding"}},
    {"replication_pad1d", {"self", "padding"}},
    {"replication_pad2d", {"self", "padding"}},
    {"pixel_shuffle", {"self", "upscale_factor"}},
    {"pixel_unshuffle", {"self", "downscale_factor"}},
    {"channel_shuffle", {"self", "groups"}},
    {"unflatten", {"self", "dim", "sizes"}},
    {"movedim", {"self", "source", "destination"}},
    {"swapaxes", {"self", "axis0", "axis1"}},
    {"swapdims", {"self", "dim0", "dim1"}},
    {"numpy_T", {"self"}},
    {"index_select", {"self", "dim", "index"}},
    {"gather", {"self", "dim", "index"}},
    {"index", {"self", "indices"}},
    {"im2col", {"self", "kernel_size", "dilation", "padding", "stride"}},
    {"unfold", {"self", "dimension", "size", "step"}},
    {"tril", {"self", "diagonal"}},
    {"triu", {"self", "diagonal"}},
    {"arange", {"end"}},
    {"full", {"size", "fill_value", "dtype"}},
    {"ones", {"size", "dtype"}},
    {"zeros", {"size", "dtype"}},
    {"new_zeros", {"self", "size", "dtype"}},
    {"new_ones", {"self", "size", "dtype"}},
    {"new_full", {"self", "size", "fill_value", "dtype"}},
    {"full_like", {"self", "fill_value", "dtype"}},
    {"zeros_like", {"self", "dtype"}},
    {"ones_like", {"self", "dtype"}},
    {"scalar_tensor", {"s", "dtype"}},
    {"alias", {"self"}},
    {"lift_fresh", {"self"}},
    {"lift_fresh_copy", {"self"}},
    {"positive", {"self"}},
    {"resolve_conj", {"self"}},
    {"resolve_neg", {"self"}},
    {"unsafe_chunk", {"self", "chunks", "dim"}},
    {"unsafe_split", {"self", "split_size", "dim"}},
    {"_unsafe_view", {"self", "size"}},
};

std::int64_t extent_of(GraphBuilder& b, ValueId x, std::int64_t axis) {
  const std::int64_t n = b.dims(x)[static_cast<std::size_t>(axis)];
  if (n < 0) throw AtenUnknown{"a cut of an axis whose extent is free"};
  return n;
}

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

// Pads from the last axis backwards: (before, after) of each.
ValueId pad(GraphBuilder& b, const std::string& name, ValueId x, const Ints& pads,
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

// Of several axes cyclic: what leaves at the end enters at the front.
ValueId roll(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const Ints shifts = c.ints("shifts", {}), dims = c.ints("dims", {});
  if (shifts.size() != dims.size() || dims.empty()) throw AtenUnknown{"roll of a flattened tensor"};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t axis = aten_axis(b, x, dims[i]), n = extent_of(b, x, axis);
    const std::int64_t by = n == 0 ? 0 : ((shifts[i] % n) + n) % n;
    if (by == 0) continue;
    const auto halves = cut(b, name + ".parts", x, axis, {n - by, by});
    x = b.op("concat", name, {halves[1], halves[0]}, {{"axis", axis}});
  }
  return x;
}

ValueId expand(GraphBuilder& b, const std::string& name, ValueId x, Ints to) {
  const Ints from = b.dims(x);
  if (to.size() < from.size()) throw bad_input("an expansion to fewer axes");
  bool same = to.size() == from.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t more = to.size() - from.size();
    if (to[i] != -1) {
      same = same && i >= more && from[i - more] == to[i];
      continue;
    }
    if (i < more) throw AtenUnknown{"an expansion to a free extent"};
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

ValueId index(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* list = c.find("indices");
  if (list == nullptr || list->kind != Kind::list) throw AtenUnknown{"an index of another kind"};
  std::vector<ValueId> in;
  std::size_t first = 0;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const AtenValue& v = list->items[i];
    if (v.kind == Kind::none) continue;
    if (v.kind != Kind::tensor) throw AtenUnknown{"an index of another kind"};
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
  Shape longest;
  for (const ValueId v : in) {
    const Shape& s = b.shape(v);
    if (static_cast<std::size_t>(s.rank()) >= rank && s.numel() >= longest.numel()) longest = s;
    rank = std::max(rank, static_cast<std::size_t>(s.rank()));
  }
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

constexpr std::int64_t kPlaces = 1 << 14;  // of indices that a call writes down

// A tensor of one value; a large one is made when the network runs.
ValueId made(GraphBuilder& b, const std::string& name, const AtenCall& c, std::string_view sizes,
             DType type, double value) {
  constexpr std::int64_t kHeld = 4096;
  const Ints dims = free_extents(c, sizes);
  std::int64_t n = 1;
  for (const std::int64_t d : dims) {
    if (d < 0) throw AtenUnknown{"a tensor that is made with a free extent"};
    n = checked_mul(n, d);
  }
  if (n > kHeld)
    return b.op("expand", name, {b.constant(name + ".value", scalar_of(type, value))},
                {{"shape", dims}});
  Tensor t = Tensor::uninitialized(type, Shape(std::span(dims)));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(type, t.mutable_bytes().data(), i, value);
  return b.constant(name, std::move(t));
}

DType type_of(const AtenCall& c, DType missing) {
  const AtenValue* v = c.find("dtype");
  return v == nullptr || v->kind != Kind::integer ? missing : aten_dtype(v->integer);
}

ValueId arange(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const AtenValue* values[] = {c.find("start"), c.find("end"), c.find("step")};
  bool whole = true;
  for (const AtenValue* v : values) whole = whole && (v == nullptr || v->kind == Kind::integer);
  const double start = values[0] == nullptr ? 0 : static_cast<double>(c.number("start", 0)),
               end = static_cast<double>(c.number("end", 0)),
               step = values[2] == nullptr ? 1 : static_cast<double>(c.number("step", 1));
  if (step == 0) throw bad_input("arange with a step of 0");
  const DType type = type_of(c, whole ? DType::i64 : DType::f32);
  const double count = std::max(0.0, std::ceil((end - start) / step));
  if (!(count <= 1 << 17)) throw AtenUnknown{"arange of more than 2^17 numbers"};
  Tensor t = Tensor::uninitialized(type, {static_cast<std::int64_t>(count)});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(type, t.mutable_bytes().data(), i, start + static_cast<double>(i) * step);
  return b.constant(name, std::move(t));
}

AtenOutputs creation(GraphBuilder& b, const std::string& op, const std::string& name,
                     const AtenCall& c) {
  const auto value = [&](const char* key) {
    const AtenValue* v = c.find(key);
    if (v != nullptr && v->kind == Kind::boolean) return static_cast<double>(v->integer);
    return static_cast<double>(c.number(key, 0));
  };
  const auto missing = [&](const char* key) {
    const AtenValue* v = c.find(key);
    return v == nullptr || v->kind == Kind::number ? DType::f32
           : v->kind == Kind::boolean              ? DType::boolean
                                                   : DType::i64;
  };
  if (op == "arange") return {{arange(b, name, c)}};
  if (op == "full")
    return {{made(b, name, c, "size", type_of(c, missing("fill_value")), value("fill_value"))}};
  if (op == "ones" || op == "zeros")
    return {{made(b, name, c, "size", type_of(c, DType::f32), op == "ones" ? 1 : 0)}};
  if (op == "scalar_tensor")
    return {{b.constant(name, scalar_of(type_of(c, missing("s")), value("s")))}};
  if (op == "new_zeros" || op == "new_ones" || op == "new_full") {
    const DType type = type_of(c, b.dtype(first_tensor(c, op)));
    const double v = op == "new_zeros" ? 0 : op == "new_ones" ? 1 : value("fill_value");
    return {{made(b, name, c, "size", type, v)}};
  }
  if (op == "full_like" || op == "zeros_like" || op == "ones_like") {
    const ValueId x = first_tensor(c, op);
    const double v = op == "zeros_like" ? 0 : op == "ones_like" ? 1 : value("fill_value");
    const ValueId one = b.constant(name + ".value", scalar_of(type_of(c, b.dtype(x)), v));
    return {{shaped_like(b, "expand", name, one, x)}};
  }
  return std::nullopt;
}

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
  if (op == "unbind") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), n = extent_of(b, x, axis);
    auto out = cut(b, name, x, axis, pieces(n, 1));
    for (ValueId& v : out) v = b.op("squeeze", name + ".part", {v}, {{"axes", Ints{axis}}});
    return out;
  }
  return std::nullopt;
}

AtenOutputs moved(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                  const AtenCall& c) {
  if (op == "slice") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0));
    return {{slice(b, name, x, axis, bound(c, "start", 0), bound(c, "end", INT64_MAX),
                   c.integer("step", 1))}};
  }
  if (op == "narrow") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", 0)), from = c.integer("start", 0),
                       n = c.integer("length", 0);
    if (from < 0 || n < 0 || n > 1LL << 40 || from > 1LL << 40)
      throw bad_input("{} elements from {}", n, from);
    return {{slice(b, name, x, axis, from, from + n, 1)}};
  }
  if (op == "expand") return {{expand(b, name, x, free_extents(c, "size"))}};
  if (op == "expand_as") return {{shaped_like(b, "expand", name, x, c.tensor("other"))}};
  if (op == "copy") {
    const ValueId from = c.tensor("src");
    if (from == kAbsent) throw AtenUnknown{"a copy of what is no tensor"};
    return {{shaped_like(b, "expand", name, aten_cast(b, name, from, b.dtype(x)), x)}};
  }
  if (op == "view_as" || op == "reshape_as")
    return {{shaped_like(b, "reshape", name, x, c.tensor("other"))}};
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
    return {{b.op("tile", name, {x}, {{"repeats", by}})}};
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
    return {{b.reshape(name, b.op("tile", name + ".tile", {wide}, {{"repeats", repeats}}), to)}};
  }
  if (op == "flip") {
    Ints axes = c.ints("dims", {});
    for (std::int64_t& a : axes) a = aten_axis(b, x, a);
    return {{b.op("slice", name, {x},
                  {{"starts", Ints(axes.size(), -1)},
                   {"ends", Ints(axes.size(), INT64_MIN)},
                   {"axes", axes},
                   {"steps", Ints(axes.size(), -1)}})}};
  }
  if (op == "roll") return {{roll(b, name, x, c)}};
  if (op == "pad") {
    const AtenValue* mode = c.find("mode");
    return {{pad(b, name, x, c.ints("pad", {}), mode == nullptr ? "constant" : mode->text,
                 c.number("value", 0))}};
  }
  if (op == "constant_pad_nd")
    return {{pad(b, name, x, c.ints("pad", {}), "constant", c.number("value", 0))}};
  if (op.starts_with("reflection_pad"))
    return {{pad(b, name, x, c.ints("padding", {}), "reflect", 0)}};
  if (op.starts_with("replication_pad"))
    return {{pad(b, name, x, c.ints("padding", {}), "replicate", 0)}};
  if (op == "pixel_shuffle")
    return {{b.op("depth_to_space", name, {x},
                  {{"blocksize", c.integer("upscale_factor", 1)}, {"mode", std::string("CRD")}})}};
  if (op == "pixel_unshuffle")
    return {
        {b.op("space_to_depth", name, {x},
              {{"blocksize", c.integer("downscale_factor", 1)}, {"mode", std::string("CRD")}})}};
  if (op == "channel_shuffle") {
    const std::int64_t groups = c.integer("groups", 1), n = extent_of(b, x, 1);
    if (groups < 1 || n % groups != 0) throw bad_input("{} channels in {} groups", n, groups);
    Ints to{0, groups, n / groups}, perm{0, 2, 1}, back{0, n};
    for (int a = 2; a < b.rank(x); ++a) {
      to.push_back(extent_of(b, x, a));
      back.push_back(extent_of(b, x, a));
      perm.push_back(a + 1);
    }
    return {{b.reshape(
        name, b.transpose(name + ".turned", b.reshape(name + ".groups", x, to), perm), back)}};
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
    return {{b.reshape(name, x, to)}};
  }
  if (op == "movedim") {
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
    return {{b.transpose(name, x, perm)}};
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
    return {{b.transpose(name, x, perm)}};
  }
  if (op == "index_select")
    return {{b.op("gather", name, {x, c.tensor("index")},
                  {{"axis", aten_axis(b, x, c.integer("dim", 0))}})}};
  if (op == "gather")
    return {{b.op("gather_elements", name, {x, c.tensor("index")},
                  {{"axis", aten_axis(b, x, c.integer("dim", 0))}})}};
  if (op == "index") return {{index(b, name, x, c)}};
  if (op == "unfold") {
    // Windows along one axis; each becomes a row of a new last axis.
    const std::int64_t axis = aten_axis(b, x, c.integer("dimension", 0)), n = extent_of(b, x, axis),
                       size = c.integer("size", 1), step = c.integer("step", 1);
    if (size < 1 || step < 1 || size > n) throw bad_input("windows of {} of {}", size, n);
    const std::int64_t count = (n - size) / step + 1;
    if (size > kPlaces || count > kPlaces / size)
      throw AtenUnknown{"unfold into more than 16384 places"};
    Tensor at = Tensor::uninitialized(DType::i64, {count, size});
    auto to = at.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < count * size; ++i)
      to[static_cast<std::size_t>(i)] = i / size * step + i % size;
    const ValueId y =
        b.op("gather", name, {x, b.constant(name + ".places", std::move(at))}, {{"axis", axis}});
    Ints perm;
    for (int a = 0; a < b.rank(y); ++a)
      if (a != axis + 1) perm.push_back(a);
    perm.push_back(axis + 1);
    return {{b.transpose(name + ".last", y, perm)}};
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
                    : pad(b, name + ".pad", x, {p[1], p[1], p[0], p[0]}, "constant", 0);
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
    return {{b.reshape(name, y, {0, ch * k[0] * k[1], count[0] * count[1]})}};
  }
  if (op == "tril" || op == "triu") {
    return {{b.op("trilu", name, {x}, {{"upper", op == "triu"}, {"k", c.integer("diagonal", 0)}})}};
  }
  if (op == "alias" || op == "lift_fresh" || op == "lift_fresh_copy" || op == "positive" ||
      op.starts_with("resolve_"))
    return {{x}};
  return std::nullopt;
}

}  // namespace

std::span<const AtenSignature> shape_signatures() { return kSignatures; }

AtenOutputs translate_shapes(GraphBuilder& b, const std::string& op, const std::string& name,
                             const AtenCall& c) {
  if (auto v = creation(b, op, name, c)) return v;
  if (op == "stack" || op == "hstack" || op == "vstack") {
    std::vector<ValueId> in = c.tensors("tensors");
    if (in.empty()) throw bad_input("a stack of nothing");
    if (op != "stack") {
      if (b.rank(in[0]) < 2) throw AtenUnknown{op + " of vectors"};
      return {{b.op("concat", name, in, {{"axis", std::int64_t{op == "hstack" ? 1 : 0}}})}};
    }
    const std::int64_t axis = aten_axis(b, in[0], c.integer("dim", 0), 1);
    for (ValueId& v : in) v = b.op("unsqueeze", name + ".part", {v}, {{"axes", Ints{axis}}});
    return {{in.size() == 1 ? in[0] : b.op("concat", name, in, {{"axis", axis}})}};
  }
  const bool ours = std::ranges::any_of(kSignatures, [&](const auto& s) { return s.op == op; });
  if (!ours) return std::nullopt;
  const ValueId x = first_tensor(c, op);
  if (auto v = parts_of(b, op, name, x, c)) return v;
  return moved(b, op, name, x, c);
}

}  // namespace etalon::pytorch_format
