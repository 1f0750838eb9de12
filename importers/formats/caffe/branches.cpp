// Layers that BVLC's Caffe lacks and well-known branches of it have, and LSTMUnit and Filter of its
// own. Sources: the papers and public prototxts of SENet (Axpy), ShuffleNet (ShuffleChannel),
// PSPNet (BN, Interp), Fast R-CNN (ROIPooling); Caffe's layer catalogue.
#include <algorithm>
#include <cmath>
#include <limits>

#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {
namespace {

constexpr std::int64_t kMostExtent = 1 << 16;

// A size a branch computes: above 0 and no larger than any image.
std::int64_t checked_extent(std::int64_t n) {
  if (n < 1 || n > kMostExtent) throw bad_input("an image resized to an extent of {}", n);
  return n;
}

}  // namespace

bool Translator::branch_layer() {
  const std::string& t = l_->type;
  if (t == "Axpy") {
    // A number for each channel of each image, times x, plus y.
    const std::int64_t channels = g.shape(x())[1];
    const ValueId by = g.reshape(l_->name + ".by", x(), {0, channels, 1, 1});
    top(op("add", {g.op("mul", l_->name + ".scaled", {by, x(1)}), x(2)}));
  } else if (t == "ShuffleChannel") {
    shuffle_channels();
  } else if (t == "Interp") {
    interpolate();
  } else if (t == "Upsample") {
    const std::int64_t by = l_->params.message("upsample_param").integer("scale", 0);
    if (l_->bottoms.size() != 1) throw bad_input("Upsample by the places of a pooling");
    if (by < 1 || by > 64) throw bad_input("Upsample by {}; its upsample_param says 1 to 64", by);
    const auto f = static_cast<float>(by);
    top(op("resize", {x()},
           {{"mode", std::string("nearest")},
            {"coordinate_transformation_mode", std::string("asymmetric")},
            {"nearest_mode", std::string("floor")},
            {"axes", Ints{2, 3}},
            {"scales", std::vector<float>{f, f}}}));
  } else if (t == "BN") {
    if (weight_count() != 4)
      throw bad_input("BN of {} weights, expected slope, bias, mean and variance", weight_count());
    const float eps = l_->params.message("bn_param").number("eps", 1e-5F);
    const Shape c{g.shape(x())[1]};
    g.note(fmt::format("BN: slope, bias, mean and variance of each channel, eps {}", eps));
    top(op("batch_norm", {x(), weight(0, c), weight(1, c), weight(2, c), weight(3, c)},
           {{"eps", eps}}));
  } else if (t == "ROIPooling") {
    pool_regions();
  } else if (t == "LSTMUnit") {
    lstm_unit();
  } else if (t == "Filter") {
    filter();
  } else {
    return false;
  }
  return true;
}

void Translator::shuffle_channels() {
  const std::int64_t groups = l_->params.message("shuffle_channel_param").integer("group", 1);
  const Ints dims = g.dims(x());
  if (dims.size() != 4 || dims[2] < 1 || dims[3] < 1)
    throw bad_input("ShuffleChannel of {}", to_string(g.shape(x())));
  if (groups < 1 || dims[1] % groups != 0)
    throw bad_input("{} channels in {} groups", dims[1], groups);
  const ValueId parts =
      g.reshape(l_->name + ".groups", x(), {0, groups, dims[1] / groups, dims[2], dims[3]});
  const ValueId turned = g.transpose(l_->name + ".turned", parts, {0, 2, 1, 3, 4});
  top(op("reshape", {turned}, {{"shape", Ints{0, dims[1], dims[2], dims[3]}}}));
}

// Between the corners. Negative pads cut; then a zoom, a shrinking, both, or the extents
// themselves.
void Translator::interpolate() {
  const PbMessage p = l_->params.message("interp_param");
  const LayerParts n{g, l_->name};
  const std::int64_t front = p.integer("pad_beg", 0), back = p.integer("pad_end", 0);
  const auto [h, w] = plane_of(g, x());
  if (front > 0 || back > 0 || front < -kMostExtent || back < -kMostExtent)
    throw bad_input("Interp with pads {} and {}, which only cut (0 or less)", front, back);
  const auto size = [&](std::int64_t extent, const char* key) {
    const std::int64_t whole = checked_extent(extent + front + back);
    const std::int64_t zoom = p.integer("zoom_factor", 1), shrink = p.integer("shrink_factor", 1);
    if (zoom < 1 || shrink < 1 || zoom > kMostExtent)
      throw bad_input("Interp with zoom_factor {} and shrink_factor {}", zoom, shrink);
    if (p.has("shrink_factor") || p.has("zoom_factor")) {
      const std::int64_t less = (whole - 1) / shrink + 1;
      return checked_extent(less + (less - 1) * (zoom - 1));
    }
    return checked_extent(p.integer(key, 0));
  };
  ValueId y = x();
  const std::int64_t to_h = size(h, "height"), to_w = size(w, "width");
  if (front != 0 || back != 0) {
    y = n.cut("rows", y, 2, -front, h + back);
    y = n.cut("columns", y, 3, -front, w + back);
  }
  g.note("Interp: linear, the corners' middles stay where they are (align_corners)");
  top(op("resize", {y, kAbsent, kAbsent, n.ints("sizes", {to_h, to_w})},
         {{"mode", std::string("linear")},
          {"coordinate_transformation_mode", std::string("align_corners")},
          {"axes", Ints{2, 3}}}));
}

// Rows (image, x, y, x, y): the largest element of each bin, 0 of an empty one.
void Translator::pool_regions() {
  const PbMessage p = l_->params.message("roi_pooling_param");
  const LayerParts n{g, l_->name};
  const auto [h, w] = plane_of(g, x());
  const std::int64_t rows = p.integer("pooled_h", 0), columns = p.integer("pooled_w", 0);
  if (rows < 1 || columns < 1 || rows > 256 || columns > 256)
    throw bad_input("a region in {} x {} bins", rows, columns);
  if (g.shape(x(1)).numel() < 1 || g.shape(x(1)).product(1, g.rank(x(1))) != 5)
    throw bad_input("regions {}, expected rows of 5 numbers", to_string(g.shape(x(1))));
  const ValueId rois = g.reshape(n.name("regions"), x(1), {0, 5});
  const auto ramp = [&](const char* role, std::int64_t from, std::int64_t end, Shape shape) {
    std::vector<float> v;
    for (std::int64_t i = from; i < end; ++i) v.push_back(static_cast<float>(i));
    return n.floats(role, v, shape);
  };
  const ValueId one = n.scalar("one", 1);
  const auto corner = [&](std::int64_t i) {  // to the nearest, halves away from zero
    const ValueId v =
        n.op("mul", "scaled",
             {n.cut("side", rois, 1, i, i + 1), n.scalar("scale", p.number("spatial_scale", 1))});
    const ValueId size = n.op(
        "floor", "whole",
        {n.op("add", "half",
              {n.op("abs", "size", {v}), n.scalar("below_half", std::nextafter(0.5F, 0.0F))})});
    return n.op("mul", "corner", {n.op("sign", "sign", {v}), size});
  };
  // Which elements [n, bins, extent] of an axis belong to which bin.
  const auto along = [&](std::int64_t side, std::int64_t bins, std::int64_t extent) {
    const ValueId first = corner(side);
    const ValueId length =
        n.op("max", "least",
             {n.op("add", "length", {n.op("sub", "last", {corner(side + 2), first}), one}), one});
    const ValueId bin = n.op("div", "bin", {length, n.scalar("bins", static_cast<float>(bins))});
    const auto bound = [&](const char* round, std::int64_t from) {
      const ValueId v =
          n.op("mul", "bound", {bin, ramp("count", from, from + bins, Shape{1, bins})});
      return n.op("unsqueeze", "bounds",
                  {n.op("add", "place", {n.op(round, "rounded", {v}), first})},
                  {{"axes", Ints{2}}});
    };
    const ValueId each = ramp("elements", 0, extent, Shape{1, 1, extent});
    return n.op("and", "of_bin",
                {n.op("greater_or_equal", "from", {each, bound("floor", 0)}),
                 n.op("less", "below", {each, bound("ceil", 1)})});
  };
  const ValueId image =
      n.op("squeeze", "image",
           {n.op("cast", "ids", {n.cut("images", rois, 1, 0, 1)}, {{"to", std::string("i64")}})},
           {{"axes", Ints{1}}});
  const ValueId least = n.scalar("none", -std::numeric_limits<float>::infinity());
  const auto largest = [&](const char* role, ValueId mask, const Ints& mask_axes, ValueId v,
                           std::int64_t v_axis, std::int64_t axis) {
    const ValueId of =
        n.op("where", "chosen",
             {n.op("unsqueeze", "mask", {mask}, {{"axes", mask_axes}}),
              n.op("unsqueeze", "elements_of", {v}, {{"axes", Ints{v_axis}}}), least});
    return n.op("reduce_max", role, {of}, {{"axes", Ints{axis}}, {"keepdims", false}});
  };
  // [n,ph,C,H,W] over H, then [n,ph,pw,C,W] over W.
  const ValueId each = n.op("gather", "images_of", {x(), image});
  const ValueId by_row = largest("rows", along(2, rows, h), {2, 4}, each, 1, 3);
  const ValueId bins = largest("bins", along(1, columns, w), {1, 3}, by_row, 2, 4);
  const ValueId full =
      n.op("where", "full", {n.op("equal", "empty", {bins, least}), n.scalar("zero", 0), bins});
  g.note("ROIPooling: corners are rounded, both belong to the region; an empty bin gives 0");
  top(op("transpose", {full}, {{"perm", Ints{0, 3, 1, 2}}}));
}

// One step of an LSTM from its gates (i, f, o, g): the cell and the state.
void Translator::lstm_unit() {
  const LayerParts n{g, l_->name};
  const Ints dims = g.dims(x());
  if (dims.size() != 3 || g.rank(x(1)) != 3 || g.dims(x(1))[2] != checked_mul(4, dims[2]))
    throw bad_input("LSTMUnit of a cell {} and gates {}", to_string(g.shape(x())),
                    to_string(g.shape(x(1))));
  const auto gate = [&](const char* role, const char* by, std::int64_t i) {
    return n.op(by, role, {n.cut("gate", x(1), 2, i * dims[2], (i + 1) * dims[2])});
  };
  const ValueId goes_on = g.reshape(n.name("goes_on"), x(2), {1, -1, 1});
  const ValueId kept =
      n.op("mul", "kept", {n.op("mul", "forget", {goes_on, gate("f", "sigmoid", 1)}), x()});
  const ValueId cell = n.op(
      "add", "cell", {kept, n.op("mul", "new", {gate("i", "sigmoid", 0), gate("g", "tanh", 3)})});
  const ValueId state =
      n.op("mul", "state", {gate("o", "sigmoid", 2), n.op("tanh", "squashed", {cell})});
  top(cell);
  top(state, 1);
}

// Of each bottom but the last the items whose selector (the last) is not zero.
void Translator::filter() {
  const LayerParts n{g, l_->name};
  if (l_->bottoms.size() < 2 || l_->tops.size() + 1 != l_->bottoms.size())
    throw bad_input("Filter of {} bottoms and {} tops", l_->bottoms.size(), l_->tops.size());
  const ValueId selector = g.reshape(n.name("selector"), x(l_->bottoms.size() - 1), {-1});
  const ValueId chosen =
      n.op("not", "chosen", {n.op("equal", "zero", {selector, n.scalar("none", 0)})});
  const ValueId where =
      n.op("squeeze", "where", {n.op("non_zero", "places", {chosen})}, {{"axes", Ints{0}}});
  for (std::size_t i = 0; i < l_->tops.size(); ++i)
    top(g.op("gather", l_->tops[i], {x(i), where}, {{"axis", std::int64_t{0}}}), i);
}

}  // namespace etalon::caffe
