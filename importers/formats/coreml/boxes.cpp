// cropResize (bilinear regions) and NonMaximumSuppression, as NeuralNetwork.proto describes them;
// the ML program's operations of those names mean the same.
//
// A region's points lie where its sampling says and are held inside the image. Boxes are chosen by
// the greatest of their scores; those below the least score are rejected; where none is left, the
// one of the greatest score stays. Of equals the first one stands first.
#include "importers/formats/coreml/boxes.h"

#include <limits>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

constexpr std::int64_t kMostPoints = 1 << 16, kMostBoxes = 1 << 20;

// Names for the many nodes of one layer.
struct Parts {
  GraphBuilder& g;
  const std::string& layer;
  std::string name(std::string_view role) const { return fmt::format("{}.{}", layer, role); }
  ValueId op(std::string_view op, std::string_view role, const std::vector<ValueId>& in,
             const Fields& f = {}) const {
    return g.op(op, name(role), in, f);
  }
  ValueId number(std::string_view role, float v) const {
    return g.constant(name(role), scalar_f32(v));
  }
  ValueId ints(std::string_view role, const Ints& v) const {
    return g.constant(name(role), ints_tensor(v));
  }
  ValueId cast(std::string_view role, ValueId v, const char* to) const {
    return op("cast", role, {v}, {{"to", std::string(to)}});
  }
  ValueId unsqueeze(std::string_view role, ValueId v, const Ints& axes) const {
    return op("unsqueeze", role, {v}, {{"axes", axes}});
  }
  // [begin, end) of an axis.
  ValueId cut(std::string_view role, ValueId v, std::int64_t axis, std::int64_t begin,
              std::int64_t end) const {
    return op("slice", role, {v},
              {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
  }
  ValueId scaled(std::string_view role, ValueId v, float by) const {
    return by == 1 ? v : op("mul", role, {v, number(fmt::format("{}.by", role), by)});
  }
};

// The points of an axis of `extent` elements for boxes from `first` to `last` ([N,1] each), [N,n].
ValueId points(const Parts& p, const std::string& axis, ValueId first, ValueId last, std::int64_t n,
               std::int64_t extent, Sampling sampling) {
  const auto role = [&](const char* what) { return fmt::format("{}.{}", axis, what); };
  const ValueId length = p.op("sub", role("length"), {last, first});  // x - 1
  const auto count = static_cast<float>(n);
  ValueId start = first, step = length;
  if (sampling == Sampling::roi_align) {
    step = p.scaled(role("spacing"), p.op("max", role("least"), {length, p.number(role("one"), 1)}),
                    1 / count);
    start = p.op("add", role("start"), {first, p.scaled(role("half"), step, 0.5F)});
  } else if (sampling == Sampling::upsample) {
    step = p.scaled(role("spacing"),
                    p.op("add", role("elements"), {length, p.number(role("one"), 1)}), 1 / count);
  } else if (n > 1) {
    step = p.op("div", role("spacing"), {length, p.number(role("gaps"), count - 1)});
  } else if (sampling == Sampling::ends) {
    start = p.op("add", role("middle"), {first, p.scaled(role("half"), length, 0.5F)});
  }
  std::vector<float> counts;
  for (std::int64_t i = 0; i < n; ++i) counts.push_back(static_cast<float>(i));
  Tensor t = Tensor::of<float>({1, n}, std::span<const float>(counts));
  ValueId at = p.op("add", role("points"),
                    {start, p.op("mul", role("offsets"),
                                 {step, p.g.constant(p.name(role("counts")), std::move(t))})});
  if (sampling == Sampling::upsample || sampling == Sampling::roi_align)
    at = p.op("min", role("before_end"), {at, last});
  return p.op("clip", role("inside"), {at},
              {{"min", 0.0F}, {"max", static_cast<float>(extent - 1)}});
}

// Of points [N,n]: the elements before and behind them (i64), and how far behind the first.
struct Neighbours {
  ValueId low, high, share;
};
Neighbours neighbours(const Parts& p, const std::string& axis, ValueId at, std::int64_t extent) {
  const ValueId floor = p.op("floor", axis + ".floor", {at});
  const ValueId low = p.cast(axis + ".low", floor, "i64");
  const ValueId next = p.op("add", axis + ".next", {low, p.ints(axis + ".one", {1})});
  return {low, p.op("min", axis + ".high", {next, p.ints(axis + ".last", {extent - 1})}),
          p.op("sub", axis + ".share", {at, floor})};
}

}  // namespace

ValueId crop_resize(GraphBuilder& g, const std::string& name, ValueId x, ValueId boxes,
                    const CropResize& how) {
  const Parts p{g, name};
  const Ints dims = g.dims(x), of = g.dims(boxes);
  if (dims.size() != 4 || of.size() != 2 || (of[1] != 4 && of[1] != 5))
    throw bad_input("regions of rank {} of an image of rank {}", of.size(), dims.size());
  if (dims[2] < 1 || dims[3] < 1 || dims[2] > 1 << 20 || dims[3] > 1 << 20)
    throw bad_input("regions of an image of free extents are not supported");
  for (const std::int64_t n : {how.height, how.width})
    if (n < 1 || n > kMostPoints) throw bad_input("a region of {} points", n);
  const bool indexed = of[1] == 5;
  std::vector<ValueId> sides;
  for (std::int64_t i = indexed ? 1 : 0; i < of[1]; ++i)
    sides.push_back(p.cut(fmt::format("side{}", sides.size()), boxes, 1, i, i + 1));
  // (height, width) first of either pair.
  if (how.form == BoxForm::corners_width || how.form == BoxForm::centre_width) {
    std::swap(sides[0], sides[1]);
    std::swap(sides[2], sides[3]);
  }
  if (how.form == BoxForm::centre_height || how.form == BoxForm::centre_width)
    for (const std::size_t a : {0U, 1U}) {
      const ValueId half = p.scaled(fmt::format("half{}", a), sides[a + 2], 0.5F),
                    centre = sides[a];
      sides[a] = p.op("sub", fmt::format("first{}", a), {centre, half});
      sides[a + 2] = p.op("add", fmt::format("last{}", a), {centre, half});
    }
  const auto placed = [&](std::size_t a, std::size_t side) {
    const auto whole = static_cast<float>(dims[2 + a] - 1);
    const std::string role = fmt::format("placed{}", side);
    return p.scaled(role, p.scaled(role + ".scaled", sides[side], how.scale),
                    how.normalised ? whole : 1);
  };
  const Neighbours y = neighbours(p, "y",
                                  points(p, "y", placed(0, 0), placed(0, 2), how.height, dims[2],
                                         how.sampling),
                                  dims[2]),
                   along = neighbours(
                       p, "x",
                       points(p, "x", placed(1, 1), placed(1, 3), how.width, dims[3], how.sampling),
                       dims[3]);
  // The image as rows of what stands at one point, and the coordinates of every point.
  const ValueId rows =
      g.transpose(p.name("rows"), x, indexed ? Ints{0, 2, 3, 1} : Ints{2, 3, 0, 1});
  ValueId image = kAbsent;
  if (indexed)
    image = p.unsqueeze("image", p.cast("index", p.cut("of", boxes, 1, 0, 1), "i64"), {2, 3});
  const auto corner = [&](const char* role, ValueId row, ValueId column) {
    const ValueId v = p.unsqueeze(fmt::format("{}.y", role), row, {2, 3}),
                  u = p.unsqueeze(fmt::format("{}.x", role), column, {1, 3});
    const ValueId none = p.ints(fmt::format("{}.none", role), {0});
    const ValueId free =
        p.op("mul", fmt::format("{}.zeros", role), {p.op("add", role, {v, u}), none});
    std::vector<ValueId> at;
    const auto spread = [&](const char* what, ValueId c) {
      at.push_back(p.op("add", fmt::format("{}.{}", role, what), {free, c}));
    };
    if (indexed) spread("image", image);
    spread("row", v);
    spread("column", u);
    const ValueId where =
        p.op("concat", fmt::format("{}.at", role), at, {{"axis", std::int64_t{-1}}});
    return p.op("gather_nd", fmt::format("{}.values", role), {rows, where});
  };
  const Ints behind = indexed ? Ints{3} : Ints{3, 4};
  Ints of_rows{2}, of_columns{1};
  of_rows.insert(of_rows.end(), behind.begin(), behind.end());
  of_columns.insert(of_columns.end(), behind.begin(), behind.end());
  const ValueId down = p.unsqueeze("down", y.share, of_rows),
                right = p.unsqueeze("right", along.share, of_columns);
  // from + share * (to - from)
  const auto between = [&](const std::string& role, ValueId from, ValueId to, ValueId share) {
    return p.op(
        "add", role,
        {from, p.op("mul", role + ".part", {share, p.op("sub", role + ".step", {to, from})})});
  };
  const ValueId top = between("top", corner("a", y.low, along.low), corner("b", y.low, along.high),
                              right),
                bottom = between("bottom", corner("c", y.high, along.low),
                                 corner("d", y.high, along.high), right);
  const ValueId all = between("points", top, bottom, down);
  g.note("cropResize: bilinear points as its sampling says, held inside the image");
  if (!indexed) return g.transpose(name, all, {0, 3, 4, 1, 2});
  return g.op("unsqueeze", name, {g.transpose(p.name("regions"), all, {0, 3, 1, 2})},
              {{"axes", Ints{1}}});
}

std::vector<ValueId> choose_boxes(GraphBuilder& g, const std::string& name, ValueId boxes,
                                  ValueId scores, const BoxChoice& how) {
  const Parts p{g, name};
  const Ints dims = g.dims(scores);
  if (g.rank(boxes) != 3 || dims.size() != 3)
    throw bad_input("boxes of rank {} with scores of rank {}", g.rank(boxes), dims.size());
  const std::int64_t n = dims[1];
  if (n < 1 || dims[2] < 1) throw bad_input("a free number of boxes or classes is not supported");
  if (n > kMostBoxes || dims[2] > kMostBoxes)
    throw bad_input("{} boxes of {} classes are more than are chosen from", n, dims[2]);
  if (how.most < 1 || how.most > kMostBoxes) throw bad_input("at most {} boxes", how.most);
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const ValueId best =
      p.op("reduce_max", "best", {scores}, {{"axes", Ints{2}}, {"keepdims", false}});  // [B,N]
  const ValueId counts = p.op("greater_or_equal", "counts", {best, how.least});
  const ValueId lowest = p.number("lowest", kLowest);
  const ValueId held = p.op("where", "held", {counts, best, lowest});
  // [B,C,N]: with classes of their own a box has a score in its best class alone. What has none is
  // not looked at.
  ValueId by_class = p.unsqueeze("one_class", held, {1});
  if (how.by_class && dims[2] > 1) {
    Tensor all = Tensor::uninitialized(DType::i64, {1, dims[2], 1});
    for (std::int64_t c = 0; c < dims[2]; ++c)
      all.mutable_data<std::int64_t>()[static_cast<std::size_t>(c)] = c;
    const ValueId own = p.unsqueeze(
        "own", p.op("arg_max", "class", {scores}, {{"axis", std::int64_t{2}}, {"keepdims", false}}),
        {1});
    by_class = p.op("where", "by_class",
                    {p.op("equal", "is_own", {own, g.constant(p.name("classes"), std::move(all))}),
                     by_class, lowest});
  }
  const ValueId rows = g.op(
      "non_max_suppression", p.name("rows"),
      {boxes, by_class, p.ints("most", {how.most}), g.reshape(p.name("overlap"), how.overlap, {1}),
       p.number("numbers", std::numeric_limits<float>::lowest())},
      {{"center_point_box", true}});
  // Where (image, box) is kept.
  const ValueId at =
      p.op("gather", "at", {rows, p.ints("columns", {0, 2})}, {{"axis", std::int64_t{1}}});
  const ValueId row =
      p.op("gather", "row", {rows, p.ints("column", {0})}, {{"axis", std::int64_t{1}}});
  const ValueId ones =
      p.op("add", "ones", {p.op("mul", "zeros", {row, p.ints("zero", {0})}), p.ints("one", {1})});
  const ValueId nothing =
      p.op("mul", "nothing", {p.cast("counted", counts, "i64"), p.ints("no", {0})});
  const ValueId flags = p.op("scatter_nd", "flags",
                             {nothing, at, p.op("squeeze", "marks", {ones}, {{"axes", Ints{1}}})});
  // Where none is, the best of all.
  const Fields along{{"axes", Ints{1}}, {"keepdims", true}};
  const ValueId none = p.op(
      "equal", "is_none", {p.op("reduce_sum", "found", {flags}, along), p.ints("zero_found", {0})});
  Tensor every = Tensor::uninitialized(DType::i64, {1, n});
  for (std::int64_t i = 0; i < n; ++i)
    every.mutable_data<std::int64_t>()[static_cast<std::size_t>(i)] = i;
  const ValueId first =
      p.op("equal", "is_best",
           {p.op("arg_max", "best_of_all", {best}, {{"axis", std::int64_t{1}}, {"keepdims", true}}),
            g.constant(p.name("every"), every.share())});
  const ValueId stays = p.op(
      "where", "stays", {none, first, p.op("greater", "kept", {flags, p.ints("least_kept", {0})})});
  const std::int64_t k = std::min(how.most, n);
  const auto top = g.nodes(
      "top_k", p.name("order"), {p.op("where", "keys", {stays, best, lowest})},
      make_params(get_op("top_k"), {{"axis", std::int64_t{1}}, {"k", k}, {"largest", true}}), 2);
  const ValueId count =
      p.op("min", "count",
           {p.op("reduce_sum", "all_found", {p.cast("stay", stays, "i64")}, along),
            p.ints("limit", {k})});
  const ValueId given =
      p.op("less", "given",
           {p.cut("places", g.constant(p.name("place"), std::move(every)), 1, 0, k), count});
  const ValueId by_row = p.unsqueeze("by_row", top[1], {2}),
                shown = p.unsqueeze("shown", given, {2});
  const auto rest = [&](const std::string& role, ValueId v, bool flat, float value) {
    if (k == how.most) return v;
    const std::int64_t more = how.most - k;
    return p.op("pad", role, {v},
                {{"mode", std::string("constant")},
                 {"pads", flat ? Ints{0, 0, 0, more} : Ints{0, 0, 0, 0, more, 0}},
                 {"value", value}});
  };
  const auto chosen = [&](const std::string& role, ValueId from) {
    const ValueId picked =
        p.op("gather_nd", role + ".picked", {from, by_row}, {{"batch_dims", std::int64_t{1}}});
    return rest(role, p.op("where", role + ".given", {shown, picked, p.number(role + ".zero", 0)}),
                false, 0);
  };
  g.note(
      "NonMaximumSuppression: boxes by falling score, zeros and indices of -1 behind them; where "
      "none is left, the one of the greatest score");
  return {
      chosen("boxes", boxes), chosen("scores", scores),
      rest("indices", p.op("where", "index", {given, top[1], p.ints("padding", {-1})}), true, -1),
      p.op("squeeze", "number", {count}, {{"axes", Ints{1}}})};
}

}  // namespace etalon::coreml
