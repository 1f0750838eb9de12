#include "importers/formats/boxes.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"

namespace etalon {

std::string LayerParts::name(std::string_view role) const { return fmt::format("{}.{}", of, role); }

ValueId LayerParts::floats(std::string_view role, const std::vector<float>& v,
                           const Shape& shape) const {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  std::ranges::copy(v, t.mutable_data<float>().begin());
  return g.constant(name(role), std::move(t));
}

ValueId LayerParts::cut(std::string_view role, ValueId x, std::int64_t axis, std::int64_t begin,
                        std::int64_t end) const {
  return op("slice", role, {x},
            {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
}

std::pair<std::int64_t, std::int64_t> plane_of(const GraphBuilder& g, ValueId image) {
  const Ints dims = g.dims(image);
  if (dims.size() != 4) throw bad_input("boxes of a sample of rank {}", dims.size() - 1);
  const std::int64_t h = dims[2], w = dims[3];
  if (h < 1 || w < 1 || h > kMostBoxes || w > kMostBoxes / h)
    throw bad_input("boxes of an image whose extents the file does not say");
  return {h, w};
}

ValueId box_corners(const LayerParts& p, ValueId centre, ValueId extent, std::int64_t axis) {
  const ValueId half = p.op("mul", "half", {extent, p.scalar("by", 0.5F)});
  return p.op("concat", "corners",
              {p.op("sub", "least", {centre, half}), p.op("add", "most", {centre, half})},
              {{"axis", axis}});
}

ValueId decoded_boxes(const LayerParts& p, ValueId priors, ValueId variances, ValueId offsets) {
  const std::int64_t last = p.g.rank(variances) - 1;
  const ValueId from = p.cut("from", priors, 2, 0, 2), to = p.cut("to", priors, 2, 2, 4);
  const ValueId extent = p.op("sub", "extent", {to, from});
  const ValueId centre =
      p.op("mul", "centre", {p.op("add", "ends", {from, to}), p.scalar("middle", 0.5F)});
  const auto varied = [&](std::string_view role, std::int64_t begin) {
    return p.op("mul", role,
                {p.cut("variances", variances, last, begin, begin + 2),
                 p.cut("offset", offsets, 2, begin, begin + 2)});
  };
  const ValueId moved =
      p.op("add", "moved", {p.op("mul", "shift", {varied("shifts", 0), extent}), centre});
  const ValueId grown =
      p.op("mul", "grown", {p.op("exp", "growth", {varied("growths", 2)}), extent});
  return box_corners(p, moved, grown, 2);
}

ValueId highest_scores(const LayerParts& p, ValueId scores, std::int64_t most) {
  const Params by = make_params(get_op("top_k"), {{"axis", std::int64_t{2}}, {"k", most}});
  const auto best = p.g.nodes("top_k", p.name("best"), {scores}, by, 2);
  const ValueId none = p.op("constant_of_shape", "none",
                            {p.op("shape", "shape", {scores}),
                             p.floats("lowest", {std::numeric_limits<float>::lowest()}, Shape{1})});
  return p.op("scatter_elements", "candidates", {none, best[1], best[0]},
              {{"axis", std::int64_t{2}}});
}

ValueId kept_boxes(const LayerParts& p, ValueId boxes, ValueId scores, float overlap, float least) {
  const ValueId most =
      p.ints("boxes", Ints{std::numeric_limits<std::int32_t>::max()});  // all of them
  return p.op("non_max_suppression", "kept",
              {boxes, scores, most, p.scalar("overlap", overlap), p.scalar("threshold", least)});
}

ValueId best_of_each_image(const LayerParts& n, ValueId rows, ValueId scores, ValueId images,
                           std::int64_t keep) {
  const auto both = [&](const char* role, std::string_view op, ValueId v) {  // v_j against v_i
    const ValueId i = n.op("unsqueeze", std::string(role) + ".i", {v}, {{"axes", Ints{1}}}),
                  j = n.op("unsqueeze", std::string(role) + ".j", {v}, {{"axes", Ints{0}}});
    return n.op(op, role, {j, i});
  };
  const ValueId image = n.op("squeeze", "of_image", {images}, {{"axes", Ints{1}}});
  const ValueId count = n.op("shape", "found", {scores});
  const ValueId number =
      n.op("cum_sum", "number",
           {n.op("expand", "ones", {n.ints("one_more", {1}), count}), n.ints("axis", {0})});
  const ValueId before = n.op(
      "or", "before",
      {both("higher", "greater", scores),
       n.op("and", "first", {both("equal", "equal", scores), both("earlier", "less", number)})});
  const ValueId ahead =
      n.op("reduce_sum", "ahead",
           {n.op("cast", "ahead_i64",
                 {n.op("and", "ahead_there", {before, both("there", "equal", image)})},
                 {{"to", std::string("i64")}})},
           {{"axes", Ints{1}}, {"keepdims", false}});
  const ValueId stays = n.op("less", "stays", {ahead, n.ints("keep", {keep})});
  const ValueId where =
      n.op("squeeze", "where", {n.op("non_zero", "places", {stays})}, {{"axes", Ints{0}}});
  return n.op("gather", "kept_rows", {rows, where}, {{"axis", std::int64_t{0}}});
}

}  // namespace etalon
