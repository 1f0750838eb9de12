// Parts of images: patches, crops, bicubic resizing, pools whose windows are inputs.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/composed.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/bicubic.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {

// Windows of [N,H,W,C] beside each other in the last axis: rows, columns, channels.
ValueId Ops::image_patches() {
  const ValueId x = n_->in(0);
  if (g.rank(x) != 4) throw bad_input("{} of {}", n_->op, to_string(g.type(x)));
  const Ints size = spatial("ksizes", 4), stride = spatial("strides", 4),
             rate = spatial("rates", 4);
  if (size.size() != 2 || stride.size() != 2 || rate.size() != 2)
    throw bad_input("{} lacks its sizes, strides or rates", n_->op);
  const std::string kind = n_->text("padding", "VALID");
  if (kind != "SAME" && kind != "VALID") throw bad_input("padding '{}'", printable(kind));
  Ints pads(8, 0), out;
  for (std::size_t a = 0; a < 2; ++a) {
    constexpr std::int64_t kMost = 1 << 20;
    if (size[a] < 1 || stride[a] < 1 || rate[a] < 1 || size[a] > 64 || stride[a] > kMost ||
        rate[a] > kMost)
      throw bad_input("patches of {}, a stride of {}, a rate of {}", size[a], stride[a], rate[a]);
    const std::int64_t in = known_extent(g, x, static_cast<int>(a) + 1),
                       reach = (size[a] - 1) * rate[a] + 1;
    if (in > std::int64_t{1} << 40) throw bad_input("patches of {} pixels", in);
    if (kind == "SAME") {
      out.push_back((in + stride[a] - 1) / stride[a]);
      const std::int64_t more = std::max<std::int64_t>((out[a] - 1) * stride[a] + reach - in, 0);
      pads[a + 1] = more / 2;
      pads[a + 5] = more - more / 2;
    } else {
      out.push_back((in - reach) / stride[a] + 1);
      if (in < reach) throw bad_input("patches that reach over {} of {}", reach, in);
    }
  }
  ValueId padded = x;
  if (std::ranges::count(pads, 0) != 8)
    padded = g.op("pad", part("pad"), {x}, {{"pads", pads}, {"value", 0.0F}});
  std::vector<ValueId> taps;
  for (std::int64_t i = 0; i < size[0]; ++i)
    for (std::int64_t j = 0; j < size[1]; ++j)
      taps.push_back(g.op("slice", part("tap"), {padded},
                          {{"starts", Ints{i * rate[0], j * rate[1]}},
                           {"ends", Ints{i * rate[0] + (out[0] - 1) * stride[0] + 1,
                                         j * rate[1] + (out[1] - 1) * stride[1] + 1}},
                           {"axes", Ints{1, 2}},
                           {"steps", stride}}));
  return g.op("concat", n_->name, taps, {{"axis", std::int64_t{3}}});
}

// Crops of an image [B,H,W,C], one for each box (y, x, y, x) in shares of H - 1 and W - 1, brought
// to one size: bilinear or nearest, `extrapolation_value` outside.
ValueId Ops::crop_and_resize() {
  const ValueId x = n_->in(0), boxes = n_->in(1);
  const Ints size = constant_ints(3, "sizes");
  const std::string method = n_->text("method", "bilinear");
  constexpr std::int64_t kMost = 4096;
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > kMost || size[1] > kMost ||
      (method != "bilinear" && method != "nearest"))
    throw bad_input("{} to {} extents by '{}'", n_->op, size.size(), printable(method));
  if (g.rank(x) != 4 || g.rank(boxes) != 2)
    throw bad_input("{} of {} with boxes {}", n_->op, to_string(g.type(x)),
                    to_string(g.type(boxes)));
  const auto op = [&](std::string_view what, std::string_view role, const std::vector<ValueId>& in,
                      const Fields& f = {}) { return g.op(what, part(role), in, f); };
  const auto cast = [&](ValueId v, const char* to) {
    return op("cast", to, {v}, {{"to", std::string(to)}});
  };
  const ValueId image = g.dtype(x) == DType::f32 ? x : cast(x, "f32");
  const ValueId extents = op("shape", "extents", {x});
  const auto extent = [&](std::int64_t axis) {
    return op("gather", "extent",
              {extents, g.constant(part("axis"), scalar_of(DType::i64, static_cast<double>(axis)))},
              {{"axis", std::int64_t{0}}});
  };
  struct Line {
    ValueId near, far, share, inside;  // [N, size]: places, how far between them, whether in it
  };
  const auto line = [&](std::int64_t axis) {
    const std::int64_t count = size[static_cast<std::size_t>(axis)];
    const auto corner = [&](std::int64_t c) {
      return op("slice", "corner", {boxes},
                {{"starts", Ints{c}}, {"ends", Ints{c + 1}}, {"axes", Ints{1}}});
    };
    const ValueId one = g.constant(part("one"), scalar_of(DType::i64, 1)),
                  none = g.constant(part("zero"), scalar_of(DType::i64, 0)),
                  last = op("sub", "last", {extent(axis + 1), one}), reach = cast(last, "f32"),
                  from = corner(axis), to = corner(axis + 2);
    ValueId at = kAbsent;
    if (count > 1) {
      Tensor steps = Tensor::uninitialized(DType::f32, {1, count});
      for (std::int64_t i = 0; i < count; ++i)
        steps.mutable_data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
      const ValueId scale = op("div", "scale",
                               {op("mul", "width", {op("sub", "length", {to, from}), reach}),
                                number(static_cast<float>(count - 1))});
      at = op("add", "at",
              {op("mul", "from", {from, reach}),
               op("mul", "along", {g.constant(part("steps"), std::move(steps)), scale})});
    } else {
      at = op("mul", "middle",
              {op("mul", "half", {number(0.5F), op("add", "both", {from, to})}), reach});
    }
    const auto place = [&](std::string_view how) {
      const ValueId whole = cast(op(how, how, {at}), "i64");
      return op("min", "held", {op("max", "from_zero", {whole, none}), last});
    };
    const ValueId inside = op("and", "inside",
                              {op("greater_or_equal", "above", {at, number(0)}),
                               op("less_or_equal", "below", {at, reach})});
    if (method == "nearest") {
      // Halves go up, as roundf has them: places are not below 0.
      const ValueId whole =
          cast(op("floor", "nearest", {op("add", "raised", {at, number(0.5F)})}), "i64");
      const ValueId held = op("min", "held", {op("max", "from_zero", {whole, none}), last});
      return Line{held, held, kAbsent, inside};
    }
    return Line{place("floor"), place("ceil"), op("sub", "share", {at, op("floor", "below", {at})}),
                inside};
  };
  const Line y = line(0), across = line(1);
  // [N, size] to [N, h, 1, 1] or [N, 1, w, 1], or without the last axis.
  const auto spread = [&](ValueId v, bool rows, bool channel) {
    Ints axes = rows ? Ints{2} : Ints{1};
    if (channel) axes.push_back(3);
    return op("unsqueeze", "spread", {v}, {{"axes", axes}});
  };
  const ValueId which =
      op("unsqueeze", "which", {as_i64("images", n_->in(2))}, {{"axes", Ints{1, 2}}});
  const ValueId pixels =
      op("reshape", "pixels", {image}, {{"shape", Ints{-1, known_extent(g, image, 3)}}});
  const auto taken = [&](ValueId row, ValueId column) {
    const ValueId first =
        op("add", "row", {op("mul", "rows", {which, extent(1)}), spread(row, true, false)});
    const ValueId place = op(
        "add", "place", {op("mul", "columns", {first, extent(2)}), spread(column, false, false)});
    return op("gather", "taken", {pixels, place}, {{"axis", std::int64_t{0}}});
  };
  const auto between = [&](ValueId a, ValueId b, ValueId share) {
    return op("add", "between", {a, op("mul", "part", {op("sub", "apart", {b, a}), share})});
  };
  ValueId out = kAbsent;
  if (method == "nearest") {
    out = taken(y.near, across.near);
  } else {
    const ValueId column = spread(across.share, false, true);
    out = between(between(taken(y.near, across.near), taken(y.near, across.far), column),
                  between(taken(y.far, across.near), taken(y.far, across.far), column),
                  spread(y.share, true, true));
  }
  g.note("CropAndResize: places in f32, as there");
  return emit("where", {op("and", "in_image",
                           {spread(y.inside, true, true), spread(across.inside, false, true)}),
                        out, number(n_->number("extrapolation_value"))});
}

std::optional<ValueId> Ops::images() {
  const std::string& op = n_->op;
  if (op == "ExtractImagePatches") return image_patches();
  if (op == "CropAndResize") return crop_and_resize();
  if (op == "ResizeBicubic") {
    const Ints size = constant_ints(1, "sizes");
    if (size.size() != 2) throw bad_input("{} to {} extents", op, size.size());
    return bicubic(g, n_->name, n_->in(0),
                   {.height = size[0],
                    .width = size[1],
                    .align_corners = n_->flag("align_corners"),
                    .half_pixel_centers = n_->flag("half_pixel_centers")});
  }
  if (op == "AdjustContrastv2") {  // about the mean of each picture's channel
    const ValueId x = n_->in(0);
    const std::int64_t rank = g.rank(x);
    if (rank < 3) throw bad_input("{} of {}", op, to_string(g.type(x)));
    const ValueId mean = g.op("reduce_mean", part("mean"), {x},
                              {{"axes", Ints{rank - 3, rank - 2}}, {"keepdims", true}});
    const ValueId apart =
        g.op("mul", part("apart"), {g.op("sub", part("from_mean"), {x, mean}), n_->in(1)});
    return g.op("add", n_->name, {apart, mean});
  }
  if (op == "MaxPoolV2") {
    OpNode plain = *n_;
    plain.op = "MaxPool";
    plain.attributes["ksize"] = constant_ints(1, "sizes of windows");
    plain.attributes["strides"] = constant_ints(2, "strides");
    plain.inputs.resize(1);
    const OpNode* const given = n_;
    n_ = &plain;
    const ValueId y = pool();
    n_ = given;
    return y;
  }
  return std::nullopt;
}

}  // namespace etalon::tf
