// Detectors' boxes: how much they overlap, where they lie, which of them are kept.
//
// Of boxes in the sequence of their scores each one that is kept puts out those behind it (of its
// own class, or of all) that share more than a part with it: a loop over the boxes. Boxes of equal
// score stay in the file's sequence. Source: MXNet's documentation of the operators.
#include "importers/formats/boxes.h"

#include <algorithm>
#include <limits>

#include "importers/containers/bytes.h"
#include "importers/formats/control.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr std::int64_t kMostSorted = 1 << 16;

// One of the four numbers of boxes [..,4], without their axis.
ValueId side(const LayerParts& p, ValueId boxes, std::int64_t i) {
  const std::int64_t last = p.g.rank(boxes) - 1;
  return p.op("squeeze", "side", {p.cut("sides", boxes, last, i, i + 1)}, {{"axes", Ints{last}}});
}

// Intersection over union of boxes by corners, which broadcast.
ValueId overlap(const LayerParts& p, ValueId a, ValueId b) {
  const ValueId zero = p.scalar("zero", 0);
  const auto length = [&](ValueId from, ValueId to) {
    return p.op("max", "length", {p.op("sub", "between", {to, from}), zero});
  };
  const auto shared = [&](std::int64_t i) {
    return length(p.op("max", "first", {side(p, a, i), side(p, b, i)}),
                  p.op("min", "last", {side(p, a, i + 2), side(p, b, i + 2)}));
  };
  const auto area = [&](ValueId v) {
    return p.op("mul", "area",
                {length(side(p, v, 0), side(p, v, 2)), length(side(p, v, 1), side(p, v, 3))});
  };
  const ValueId both = p.op("mul", "both", {shared(0), shared(1)});
  const ValueId all = p.op("sub", "all", {p.op("add", "areas", {area(a), area(b)}), both});
  // Boxes without an area share nothing.
  return p.op("where", "overlap",
              {p.op("greater", "any", {all, zero}), p.op("div", "part", {both, all}), zero});
}

struct Suppression {
  ValueId boxes, candidates;  // [B,K,4] by corners; [B,K], 1 of those that may be kept
  ValueId classes = kAbsent;  // [B,K]; absent: a box puts out those of every class
  float least = 0;            // the part from which
  bool from_least = false;    // a part of just as much puts out, too
};

// 1 of the boxes that are kept, [B,K].
ValueId kept(const LayerParts& p, const Suppression& s) {
  const std::int64_t count = p.g.dims(s.boxes)[1];
  Ints ramp;
  for (std::int64_t i = 0; i < count; ++i) ramp.push_back(i);
  const ValueId places = p.ints("places", ramp);
  ScanInputs in{.carried = {s.candidates},
                .sequences = {s.boxes, p.g.reshape(p.name("each"), places, {1, count})},
                .read = {s.boxes, places},
                .axis = 1};
  const bool by_class = s.classes != kAbsent;
  if (by_class) {
    in.sequences.push_back(s.classes);
    in.read.push_back(s.classes);
  }
  return write_scan(
             p.g, p.of, in,
             [&](GraphBuilder& g, const std::vector<ValueId>& v) {
               const LayerParts q{g, p.of};
               const ValueId alive = v[0], box = v[1], at = v[2];
               const std::size_t read = by_class ? 4 : 3;
               const ValueId all = v[read], here = v[read + 1];
               const auto column = [&](ValueId of) {
                 return q.op("unsqueeze", "column", {of}, {{"axes", Ints{1}}});
               };
               const ValueId own = q.op("gather", "own", {alive, at}, {{"axis", std::int64_t{1}}});
               ValueId out = q.op("and", "behind",
                                  {q.op("greater", "later", {here, at}),
                                   q.op("greater", "is_kept", {own, q.scalar("half", 0.5F)})});
               out = q.op("and", "shares",
                          {out, q.op(s.from_least ? "greater_or_equal" : "greater", "much",
                                     {overlap(q, column(box), all), q.scalar("least", s.least)})});
               if (by_class)
                 out = q.op("and", "of_class", {out, q.op("equal", "alike", {column(v[3]), v[6]})});
               return std::vector<ValueId>{
                   q.op("where", "left", {out, q.scalar("gone", 0), alive})};
             })
      .carried[0];
}

// Rows [B,K,W] at places [B,n].
ValueId rows_at(const LayerParts& p, std::string_view role, ValueId rows, ValueId places) {
  return p.op("gather_nd", role,
              {rows, p.op("unsqueeze", "row_places", {places}, {{"axes", Ints{2}}})},
              {{"batch_dims", std::int64_t{1}}});
}

// The places of the `count` greatest keys [B,K]; of equals the first.
ValueId greatest(const LayerParts& p, std::string_view role, ValueId keys, std::int64_t count) {
  return p.g.nodes("top_k", p.name(role), {keys},
                   make_params(get_op("top_k"), {{"axis", std::int64_t{1}}, {"k", count}}), 2)[1];
}

ValueId as_f32(const LayerParts& p, std::string_view role, ValueId v) {
  return p.op("cast", role, {v}, {{"to", std::string("f32")}});
}

ValueId elements_at(const LayerParts& p, std::string_view role, ValueId v, ValueId places) {
  return p.op("gather_elements", role, {v, places}, {{"axis", std::int64_t{1}}});
}

// v of rows [B,K] where it holds, -1 elsewhere; `holds` in f32.
ValueId or_none(const LayerParts& p, std::string_view role, ValueId holds, ValueId rows) {
  ValueId is = p.op("greater", "is", {holds, p.scalar("half", 0.5F)});
  if (p.g.rank(rows) == 3) is = p.op("unsqueeze", "of_row", {is}, {{"axes", Ints{2}}});
  return p.op("where", role, {is, rows, p.scalar("none", -1)});
}

bool is_center(const Translator& t, const char* key, const char* otherwise) {
  const std::string format = t.attribute(key, otherwise);
  if (format != "corner" && format != "center")
    throw bad_input("{} with {}={}", t.operator_name(), key, printable(format));
  return format == "center";
}

// Boxes [..,4] of centre and extent by corners, and back.
ValueId by_corners(const LayerParts& p, ValueId boxes) {
  const std::int64_t last = p.g.rank(boxes) - 1;
  return box_corners(p, p.cut("centre", boxes, last, 0, 2), p.cut("extent", boxes, last, 2, 4),
                     last);
}
ValueId by_centre(const LayerParts& p, ValueId boxes) {
  const std::int64_t last = p.g.rank(boxes) - 1;
  const ValueId from = p.cut("from", boxes, last, 0, 2), to = p.cut("to", boxes, last, 2, 4);
  return p.op("concat", "by_centre",
              {p.op("mul", "middle", {p.op("add", "ends", {from, to}), p.scalar("by", 0.5F)}),
               p.op("sub", "extents", {to, from})},
              {{"axis", last}});
}

std::int64_t counted(const Translator& t, std::int64_t n) {
  if (n < 1 || n > kMostSorted)
    throw bad_input("{} of {} boxes, 1 to {} are sorted", t.operator_name(), n, kMostSorted);
  return n;
}

std::vector<ValueId> box_nms(Translator& t) {
  const LayerParts p{t.g, t.name()};
  const Ints dims = t.g.dims(t.x());
  if (dims.size() < 2 || dims.back() < 5) throw bad_input("boxes {}", to_string(t.g.shape(t.x())));
  const std::int64_t width = dims.back(), n = counted(t, dims[dims.size() - 2]);
  const std::int64_t first = t.integer("coord_start", 2), score_at = t.integer("score_index", 1),
                     id_at = t.integer("id_index", -1), none = t.integer("background_id", -1),
                     top = t.integer("topk", -1);
  if (first < 0 || first > width - 4 || score_at < 0 || score_at >= width || id_at >= width)
    throw bad_input("coord_start={}, score_index={}, id_index={} of rows of {}", first, score_at,
                    id_at, width);
  const ValueId x = t.g.reshape(p.name("rows"), t.x(), {-1, n, width});
  const auto column = [&](const char* role, ValueId rows, std::int64_t i) {
    return p.op("squeeze", role, {p.cut("column", rows, 2, i, i + 1)}, {{"axes", Ints{2}}});
  };
  const ValueId score = column("score", x, score_at);
  ValueId valid =
      p.op("greater", "valid", {score, p.scalar("valid_thresh", t.number("valid_thresh", 0))});
  if (id_at >= 0)  // -1 is no class, unless background_id says otherwise
    valid = p.op("and", "foreground",
                 {valid, p.op("not", "named",
                              {p.op("equal", "background",
                                    {column("id", x, id_at),
                                     p.scalar("background_id", static_cast<float>(none))})})});
  const std::int64_t count = top > 0 ? std::min(top, n) : n;
  const ValueId keys = p.op(
      "where", "keys", {valid, score, p.scalar("lowest", std::numeric_limits<float>::lowest())});
  const ValueId places = greatest(p, "order", keys, count);
  const ValueId rows = rows_at(p, "sorted", x, places);
  Suppression s{.boxes = p.cut("boxes", rows, 2, first, first + 4),
                .candidates = elements_at(p, "candidates", as_f32(p, "valid_f32", valid), places),
                .least = t.number("overlap_thresh", 0.5F)};
  const bool center = is_center(t, "in_format", "corner");
  const ValueId own = s.boxes;
  if (center) s.boxes = by_corners(p, s.boxes);
  if (!t.flag("force_suppress", false) && id_at >= 0) s.classes = column("classes", rows, id_at);
  ValueId out = rows;
  if (const bool to_center = is_center(t, "out_format", "corner"); to_center != center) {
    const ValueId turned = to_center ? by_centre(p, own) : s.boxes;
    std::vector<ValueId> parts;
    if (first > 0) parts.push_back(p.cut("before", rows, 2, 0, first));
    parts.push_back(turned);
    if (first + 4 < width) parts.push_back(p.cut("behind", rows, 2, first + 4, width));
    out = p.op("concat", "turned", parts, {{"axis", std::int64_t{2}}});
  }
  const ValueId left = kept(p, s);
  const ValueId order = greatest(p, "front", left, count);
  out = or_none(p, "kept_rows", elements_at(p, "is_left", left, order),
                rows_at(p, "in_front", out, order));
  if (count < n)
    out = p.op("pad", "filled", {out},
               {{"mode", std::string("constant")},
                {"pads", Ints{0, 0, 0, 0, n - count, 0}},
                {"value", -1.0F}});
  t.g.note("box_nms: kept boxes stand in front by falling score, -1 behind them");
  const auto [one, other] = t.extents_of(t.x());
  return {t.with_extents(out, one, other)};
}

std::vector<ValueId> detection(Translator& t) {
  const LayerParts p{t.g, t.name()};
  const ValueId scores = t.x(0), anchors = t.x(2);
  const Ints dims = t.g.dims(scores), of_anchors = t.g.dims(anchors);
  if (dims.size() != 3 || dims[1] < 2 || of_anchors != Ints{1, dims[2], 4})
    throw bad_input("MultiBoxDetection of scores {} and anchors {}", to_string(t.g.shape(scores)),
                    to_string(t.g.shape(anchors)));
  const std::int64_t n = counted(t, dims[2]), top = t.integer("nms_topk", -1);
  if (t.integer("background_id", 0) != 0)
    throw bad_input("MultiBoxDetection with background_id={}", t.integer("background_id", 0));
  std::vector<float> by;
  for (const double v : Translator::numbers_of(t.attribute("variances", "(0.1, 0.1, 0.2, 0.2)")))
    by.push_back(static_cast<float>(v));
  if (by.size() != 4) throw bad_input("{} variances", by.size());
  const ValueId offsets = t.g.reshape(p.name("offsets"), t.x(1), {-1, n, 4});
  ValueId box = decoded_boxes(p, anchors, p.floats("variances", by, Shape{4}), offsets);
  if (t.flag("clip", true)) box = p.op("clip", "clipped", {box}, {{"min", 0.0F}, {"max", 1.0F}});
  const ValueId named = p.cut("foreground", scores, 1, 1, dims[1]);
  const Fields of_class{{"axis", std::int64_t{1}}, {"keepdims", false}};
  const ValueId id = as_f32(p, "id", p.op("arg_max", "best_class", {named}, of_class));
  const ValueId score =
      p.op("reduce_max", "score", {named}, {{"axes", Ints{1}}, {"keepdims", false}});
  const ValueId valid = p.op("greater_or_equal", "valid",
                             {score, p.scalar("threshold", t.number("threshold", 0.01F))});
  const float least = t.number("nms_threshold", 0.5F);
  const bool chooses = least > 0 && least <= 1;  // otherwise the boxes stay as they came
  const ValueId keys = chooses ? p.op("where", "keys", {valid, score, p.scalar("last", -1)})
                               : as_f32(p, "keys", valid);
  const ValueId places = greatest(p, "order", keys, n);
  const auto last = [&](ValueId v) { return p.op("unsqueeze", "last", {v}, {{"axes", Ints{2}}}); };
  const ValueId unsorted = p.op("concat", "rows", {last(score), box}, {{"axis", std::int64_t{2}}});
  ValueId rows = rows_at(p, "sorted", unsorted, places);
  const ValueId there = elements_at(p, "there", as_f32(p, "valid_f32", valid), places);
  ValueId candidates = there;
  const ValueId classes = elements_at(p, "classes", id, places);
  if (chooses && top > 0 && top < n) {
    // Behind the first ones stand the boxes that there are as they came, whatever was taken.
    std::vector<float> first(static_cast<std::size_t>(n), 0);
    std::fill_n(first.begin(), top, 1.0F);
    const ValueId front = p.floats("front", first, Shape{1, n});
    candidates = p.op("mul", "candidates", {there, front});
    const ValueId came = greatest(p, "as_they_came", as_f32(p, "there_f32", valid), n);
    rows = p.op("where", "front_rows",
                {last(p.op("greater", "is_front", {front, p.scalar("middle", 0.5F)})), rows,
                 rows_at(p, "came", unsorted, came)});
  }
  Suppression s{.boxes = p.cut("boxes", rows, 2, 1, 5),
                .candidates = candidates,
                .least = least,
                .from_least = true};
  if (!t.flag("force_suppress", false)) s.classes = classes;
  const ValueId left = chooses ? kept(p, s) : there;
  t.g.note(
      "MultiBoxDetection: rows (class, score, corners) by falling score; what is put out has "
      "class -1, what is no box is -1");
  return {
      t.op("concat",
           {last(or_none(p, "class_left", left, classes)), or_none(p, "boxes_there", there, rows)},
           {{"axis", std::int64_t{2}}})};
}

std::vector<ValueId> box_iou(Translator& t) {
  const LayerParts p{t.g, t.name()};
  ValueId a = t.x(0), b = t.x(1);
  if (t.g.rank(a) < 1 || t.g.rank(b) < 1 || t.g.dims(a).back() != 4 || t.g.dims(b).back() != 4)
    throw bad_input("box_iou of {} and {}", to_string(t.g.shape(a)), to_string(t.g.shape(b)));
  if (is_center(t, "format", "corner")) {
    a = by_corners(p, a);
    b = by_corners(p, b);
  }
  Ints axes;  // those of the second behind those of the first
  for (int i = 0; i + 1 < t.g.rank(b); ++i) axes.push_back(t.g.rank(a) - 1 + i);
  if (!axes.empty()) a = p.op("unsqueeze", "against", {a}, {{"axes", axes}});
  return {t.op("identity", {overlap(p, a, b)})};
}

std::vector<ValueId> box_decode(Translator& t) {
  const LayerParts p{t.g, t.name()};
  const ValueId anchors = is_center(t, "format", "center") ? t.x(1) : by_centre(p, t.x(1));
  if (t.g.rank(t.x()) != 3 || t.g.rank(anchors) != 3 || t.g.dims(anchors)[2] != 4)
    throw bad_input("box_decode of {} with anchors {}", to_string(t.g.shape(t.x())),
                    to_string(t.g.shape(anchors)));
  const ValueId middle = p.cut("middle", anchors, 2, 0, 2), size = p.cut("size", anchors, 2, 2, 4);
  const auto part = [&](std::int64_t i, float one, float other) {
    return p.op("mul", "offsets",
                {p.cut("part", t.x(), 2, i, i + 2), p.floats("std", {one, other}, Shape{2})});
  };
  const ValueId centre = p.op(
      "add", "moved",
      {p.op("mul", "shift", {part(0, t.number("std0", 1), t.number("std1", 1)), size}), middle});
  ValueId growth = part(2, t.number("std2", 1), t.number("std3", 1));
  if (const float most = t.number("clip", -1); most > 0)
    growth = p.op("min", "held", {growth, p.scalar("most", most)});
  const ValueId extent = p.op("mul", "extent", {p.op("exp", "growth", {growth}), size});
  return {t.op("identity", {box_corners(p, centre, extent, 2)})};
}

constexpr OperatorRow kRows[] = {{"_contrib_box_nms", box_nms},
                                 {"_contrib_box_non_maximum_suppression", box_nms},
                                 {"_contrib_box_iou", box_iou},
                                 {"_contrib_box_decode", box_decode},
                                 {"_contrib_MultiBoxDetection", detection}};

}  // namespace

std::span<const OperatorRow> box_rows() { return kRows; }

}  // namespace etalon::mxnet
