// Operators that choose some of many, or gather what belongs together: NonMaxSuppression (versions
// 1 to 5, Combined), Unique, writing a part of a tensor.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/core/error.h"
#include "importers/formats/control.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {

// Inputs: boxes [N, 4], scores [N], how many, overlap, least score, sigma. TensorFlow drops what
// overlaps by more than the limit; with `from_limit` (TensorFlow Lite) by no less.
std::vector<ValueId> Ops::non_max_suppression() {
  const std::string& op = n_->op;
  const auto cast = [&](std::string_view role, ValueId v, const char* to) {
    return g.op("cast", part(role), {v}, {{"to", std::string(to)}});
  };
  if (n_->inputs.size() > 5) {
    const Tensor* sigma = g.constant_of(n_->in(5));
    if (sigma == nullptr || sigma->numel() != 1 || !(load_as_double(*sigma, 0) >= 0))
      throw bad_input("{} whose sigma is no constant from 0 up", op);
    if (load_as_double(*sigma, 0) > 0) return soft_non_max_suppression(load_as_double(*sigma, 0));
  }
  ValueId overlap = kAbsent;
  if (n_->inputs.size() < 4) {
    overlap = number(n_->number("iou_threshold", 0.5F));
  } else {
    overlap = n_->in(3);
    if (n_->flag("from_limit")) {
      const Tensor* limit = g.constant_of(overlap);
      if (limit == nullptr || limit->numel() != 1 || !(load_as_double(*limit, 0) > 0))
        throw bad_input("{} whose overlap is no constant above 0 is not supported", op);
      overlap = number(std::nextafter(static_cast<float>(load_as_double(*limit, 0)), 0.0F));
    }
  }
  const ValueId boxes = g.op("unsqueeze", part("boxes"), {n_->in(0)}, {{"axes", Ints{0}}}),
                scores = g.op("unsqueeze", part("scores"), {n_->in(1)}, {{"axes", Ints{0, 1}}});
  std::vector<ValueId> in{boxes, scores, cast("most", n_->in(2), "i64"), overlap};
  if (n_->inputs.size() > 4) in.push_back(n_->in(4));
  const ValueId rows = g.op("non_max_suppression", part("rows"), in);
  const ValueId column = g.op("slice", part("column"), {rows},
                              {{"starts", Ints{2}}, {"ends", Ints{3}}, {"axes", Ints{1}}});
  const ValueId found = g.op("squeeze", part("found"), {column}, {{"axes", Ints{1}}});
  const ValueId count = g.op("size", part("count"), {found});
  const bool pads = n_->flag("pad_to_max_output_size");
  // Followed by zeros up to the most that may be found.
  const auto padded = [&](std::string_view role, ValueId v, DType dtype) {
    if (!pads) return v;
    const Tensor* most = g.constant_of(n_->in(2));
    if (most == nullptr || most->numel() != 1)
      throw bad_input("{} padded to a number that is no constant is not supported", op);
    const auto n = static_cast<std::int64_t>(load_as_double(*most, 0));
    if (n < 0 || n > 1 << 20) throw bad_input("{} of {} boxes", op, n);
    const ValueId zeros = g.constant(part("zeros"), Tensor::zeros(dtype, {n}));
    const ValueId both = g.op("concat", part(std::string(role) + "_and_zeros"), {v, zeros},
                              {{"axis", std::int64_t{0}}});
    return g.op("slice", part(role), {both},
                {{"starts", Ints{0}}, {"ends", Ints{n}}, {"axes", Ints{0}}});
  };
  std::vector<ValueId> out{padded("indices", cast("found_i32", found, "i32"), DType::i32)};
  if (op == "NonMaxSuppressionV5") {
    const ValueId kept =
        g.op("gather", part("kept"), {n_->in(1), found}, {{"axis", std::int64_t{0}}});
    out.push_back(padded("kept_scores", kept, g.dtype(n_->in(1))));
  }
  if (op == "NonMaxSuppressionV4" || op == "NonMaxSuppressionV5")
    out.push_back(cast("valid", count, "i32"));
  return out;
}

// NonMaxSuppressionV5 that lowers scores: box after box, the best is taken, and what overlaps it is
// lowered by exp(-overlap^2 / (2 sigma)); the limit of the overlap drops nothing then.
std::vector<ValueId> Ops::soft_non_max_suppression(double sigma) {
  const std::int64_t most = constant_int(2, "numbers of boxes");
  const ValueId boxes = n_->in(0), scores = n_->in(1);
  if (most < 1 || most > 1 << 20 || g.rank(boxes) != 2 || g.rank(scores) != 1 ||
      n_->flag("from_limit"))
    throw bad_input("{} of {} boxes that lowers scores is not supported", n_->op, most);
  const DType type = g.dtype(scores);
  const auto step = [&](GraphBuilder& b, const std::vector<ValueId>& v) {
    const ValueId now = v[0], all = v[2];
    const auto op = [&](std::string_view what, const std::vector<ValueId>& in,
                        const Fields& f = {}) { return b.op(what, std::string(what), in, f); };
    const auto scalar = [&](double value) { return b.constant("number", scalar_of(type, value)); };
    const Fields first{{"axis", std::int64_t{0}}, {"keepdims", false}};
    const ValueId at = op("arg_max", {now}, first);
    const ValueId best = op("reduce_max", {now}, {{"axes", Ints{0}}, {"keepdims", false}});
    const ValueId taken =
        b.reshape("taken", op("gather", {all, at}, {{"axis", std::int64_t{0}}}), {1, 4});
    // The lower and the upper side of an axis, of boxes [n, 4].
    const auto side = [&](ValueId of, std::int64_t axis, const char* which) {
      const auto column = [&](std::int64_t c) {
        return op("slice", {of}, {{"starts", Ints{c}}, {"ends", Ints{c + 1}}, {"axes", Ints{1}}});
      };
      return op(which, {column(axis), column(axis + 2)});
    };
    const auto area = [&](ValueId of) {
      return op("mul", {op("sub", {side(of, 0, "max"), side(of, 0, "min")}),
                        op("sub", {side(of, 1, "max"), side(of, 1, "min")})});
    };
    std::vector<ValueId> shared;
    for (const std::int64_t axis : {0, 1})
      shared.push_back(
          op("max", {op("sub", {op("min", {side(all, axis, "max"), side(taken, axis, "max")}),
                                op("max", {side(all, axis, "min"), side(taken, axis, "min")})}),
                     scalar(0)}));
    const ValueId both = op("mul", shared), one = area(all), other = area(taken);
    const ValueId share = op("div", {both, op("sub", {op("add", {one, other}), both})});
    const ValueId real = op("greater", {op("min", {one, other}), scalar(0)});
    const ValueId overlap =
        op("squeeze", {op("where", {real, share, scalar(0)})}, {{"axes", Ints{1}}});
    const ValueId factor =
        op("exp", {op("mul", {op("mul", {overlap, overlap}), scalar(-0.5 / sigma)})});
    const ValueId counts = op("greater", {best, v[3]});
    const ValueId lowered = op("where", {counts, op("mul", {now, factor}), now});
    const ValueId none = b.reshape("none", scalar(-std::numeric_limits<double>::infinity()), {1});
    return std::vector{op("scatter_nd", {lowered, b.reshape("place", at, {1, 1}), none}), at, best,
                       counts};
  };
  const ScanOutputs out =
      write_scan(g, part("boxes"),
                 {.carried = {scores},
                  .sequences = {g.constant(part("steps"), Tensor::zeros(DType::i32, {most}))},
                  .read = {boxes, n_->in(4)}},
                 step);
  g.note("NonMaxSuppressionV5 lowers scores in the sequence in which boxes are taken");
  const auto cast = [&](std::string_view role, ValueId v, const char* to) {
    return g.op("cast", part(role), {v}, {{"to", std::string(to)}});
  };
  const ValueId count = g.op("reduce_sum", part("count"), {cast("taken", out.stacked[2], "i64")},
                             {{"axes", Ints{0}}, {"keepdims", true}});
  const auto kept = [&](std::string_view role, ValueId v, DType of) {
    if (n_->flag("pad_to_max_output_size"))
      return g.op("where", part(role),
                  {out.stacked[2], v, g.constant(part("zero"), scalar_of(of, 0))});
    return g.op("slice", part(role), {v, g.constant(part("begin"), ints_tensor({0})), count});
  };
  return {kept("indices", cast("indices_i32", out.stacked[0], "i32"), DType::i32),
          kept("kept_scores", out.stacked[1], type),
          cast("valid", g.reshape(part("found"), count, {}), "i32")};
}

// Boxes [B, N, q, 4], scores [B, N, C], how many by class and in all, overlap, least score: for
// each class its boxes, then the best of all classes; zeros behind them. With q = C a class has
// boxes of its own.
std::vector<ValueId> Ops::combined_non_max_suppression() {
  const std::string& op = n_->op;
  const ValueId boxes = n_->in(0), scores = n_->in(1);
  const Ints of = g.dims(boxes), dims = g.dims(scores);
  if (of.size() != 4 || dims.size() != 3 || of[3] != 4)
    throw bad_input("{} of rank {} with scores of rank {}", op, of.size(), dims.size());
  const std::int64_t n = dims[1], classes = dims[2], q = of[2];
  if (n < 1 || classes < 1 || of[1] != n || (q != 1 && q != classes) || n > (1 << 24) / classes)
    throw bad_input("{} of {} boxes and {} classes is not supported", op, n, classes);
  const std::int64_t each = constant_int(2, "numbers of boxes by class"),
                     total = constant_int(3, "numbers of boxes");
  if (each < 1 || total < 1 || total > 1 << 20)
    throw bad_input("{} of {} boxes by class and {} in all", op, each, total);
  const auto ints = [&](std::string_view role, const Ints& v) {
    return g.constant(part(role), ints_tensor(v));
  };
  const auto cast = [&](std::string_view role, ValueId v, const char* to) {
    return g.op("cast", part(role), {v}, {{"to", std::string(to)}});
  };
  // [B, C, N] with classes as classes, or with each as an image of its own.
  const ValueId by_class = g.transpose(part("by_class"), scores, {0, 2, 1});
  const ValueId lists =
      q == 1 ? g.reshape(part("corners"), boxes, {-1, n, 4})
             : g.reshape(part("corners"), g.transpose(part("by_box"), boxes, {0, 2, 1, 3}),
                         {-1, n, 4});
  const ValueId ranked = q == 1 ? by_class : g.reshape(part("ranked"), by_class, {-1, 1, n});
  const ValueId rows = g.op("non_max_suppression", part("rows"),
                            {lists, ranked, ints("each", {each}), n_->in(4), n_->in(5)});
  // Where one is kept, in the shape of `ranked`.
  const ValueId column = g.op("slice", part("column"), {rows},
                              {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{1}}});
  const ValueId zero = g.op("mul", part("zero"), {column, ints("no", {0})});
  const ValueId ones =
      g.op("squeeze", part("ones"), {g.op("add", part("one"), {zero, ints("yes", {1})})},
           {{"axes", Ints{1}}});
  const ValueId none = g.op("less", part("none"), {ranked, ranked});
  const ValueId kept = g.op("scatter_nd", part("kept"), {cast("zeros", none, "i64"), rows, ones});
  const ValueId lowest = g.constant(
      part("lowest"), scalar_of(g.dtype(scores), -std::numeric_limits<double>::infinity()));
  const ValueId keys =
      g.op("reshape", part("keys"),
           {g.op("where", part("scored"),
                 {g.op("greater", part("is_kept"), {kept, ints("least", {0})}), ranked, lowest})},
           {{"shape", Ints{-1, classes * n}}});
  const std::int64_t k = std::min(total, classes * n);
  const auto top =
      g.nodes("top_k", part("order"), {keys}, make_params(get_op("top_k"), {{"k", k}}), 2);
  const ValueId given = g.op("greater", part("given"), {top[0], lowest});
  const ValueId count = g.op("reduce_sum", part("found"), {cast("counted", given, "i32")},
                             {{"axes", Ints{1}}, {"keepdims", false}});
  const ValueId of_class = g.op("div", part("class"), {top[1], ints("boxes", {n})});
  // The box among all of an image: of its class where classes have their own.
  const ValueId place =
      q == 1 ? g.op("sub", part("place"),
                    {top[1], g.op("mul", part("before"), {of_class, ints("n", {n})})})
             : top[1];
  const ValueId all = g.op("reshape", part("all"), {lists}, {{"shape", Ints{-1, q * n, 4}}});
  ValueId chosen = g.op("gather_nd", part("chosen"),
                        {all, g.op("unsqueeze", part("places"), {place}, {{"axes", Ints{2}}})},
                        {{"batch_dims", std::int64_t{1}}});
  if (n_->flag("clip_boxes", true))
    chosen = g.op("clip", part("clipped"), {chosen}, {{"min", 0.0F}, {"max", 1.0F}});
  const std::int64_t length =
      n_->flag("pad_per_class") ? std::min(total, checked_mul(each, classes)) : total;
  const auto padded = [&](std::string_view role, ValueId v, bool flat) {
    const ValueId held =
        g.op("where", part(std::string(role) + "_given"),
             {flat ? given : g.op("unsqueeze", part("shown"), {given}, {{"axes", Ints{2}}}), v,
              number(0)});
    if (length <= k)
      return g.op("slice", part(role), {held},
                  {{"starts", Ints{0}}, {"ends", Ints{length}}, {"axes", Ints{1}}});
    const std::int64_t more = length - k;
    return g.op("pad", part(role), {held},
                {{"mode", std::string("constant")},
                 {"pads", flat ? Ints{0, 0, 0, more} : Ints{0, 0, 0, 0, more, 0}}});
  };
  g.note("CombinedNonMaxSuppression: of equal scores the first class stands first");
  return {
      padded("nmsed_boxes", chosen, false), padded("nmsed_scores", top[0], true),
      padded("nmsed_classes", cast("class_f32", of_class, "f32"), true),
      g.op("min", part("valid"),
           {count, g.constant(part("most"), scalar_of(DType::i32, static_cast<double>(length)))})};
}

// y, where each element is in it, and with counts how often.
std::vector<ValueId> Ops::unique() {
  Fields f{{"sorted", false}};
  if (n_->inputs.size() > 1) {
    const Ints axes = constant_ints(1, "axes");
    if (axes.size() > 1) throw bad_input("{} along {} axes", n_->op, axes.size());
    if (!axes.empty()) f.emplace_back("axis", axes[0]);
  }
  std::vector<ValueId> all =
      g.nodes("unique", n_->name, {n_->in(0)}, make_params(get_op("unique"), f), 4);
  const std::string to = n_->text("out_idx", "i32");
  const auto index = [&](std::string_view role, ValueId v) {
    return to == "i64" ? v : g.op("cast", part(role), {v}, {{"to", to}});
  };
  std::vector<ValueId> out{all[0], index("index", all[2])};
  if (n_->op.starts_with("UniqueWithCounts")) out.push_back(index("count", all[3]));
  return out;
}

// A default value everywhere but at the given places.
ValueId Ops::sparse_to_dense() {
  const Ints extents = constant_ints(1, "extents");
  constexpr std::int64_t kMostDense = 1 << 26;
  std::int64_t elements = 1;
  for (const std::int64_t e : extents) elements = checked_mul(elements, e);
  if (elements > kMostDense) throw bad_input("{} onto {} elements", n_->op, elements);
  ValueId index = g.op("cast", part("i64"), {n_->in(0)}, {{"to", std::string("i64")}}),
          values = n_->in(2);
  const auto axes = static_cast<std::int64_t>(extents.size());
  if (g.rank(index) < 2) index = g.reshape(part("places"), index, {-1, axes});
  const std::int64_t places = g.shape(index)[0];
  if (g.rank(values) == 0)
    values = g.op("expand", part("values"), {values}, {{"shape", Ints{places}}});
  const ValueId rest =
      n_->inputs.size() > 3 ? n_->in(3) : g.constant(part("zero"), scalar_of(g.dtype(values), 0));
  const ValueId whole = g.op("expand", part("default"), {rest}, {{"shape", extents}});
  return g.op("scatter_nd", n_->name, {whole, index, values});
}

// A block written into a tensor, from `starts` on, which are held so that the block fits.
ValueId Ops::update_slice() {
  const ValueId x = n_->in(0), block = n_->in(1);
  const Shape &whole = g.shape(x), &cut = g.shape(block);
  if (whole.rank() != cut.rank() || cut.rank() < 1)
    throw bad_input("{} of rank {} into rank {}", n_->op, cut.rank(), whole.rank());
  Ints room;
  for (int a = 0; a < whole.rank(); ++a) {
    if (cut[a] < 1 || cut[a] > whole[a]) throw bad_input("{} of {}", cut[a], whole[a]);
    room.push_back(whole[a] - cut[a]);
  }
  if (cut.numel() > 1 << 20) throw bad_input("{} of {} elements", n_->op, cut.numel());
  const ValueId zero = g.constant(part("zero"), scalar_of(DType::i64, 0));
  ValueId first = g.op("cast", part("i64"), {n_->in(2)}, {{"to", std::string("i64")}});
  first = g.op("max", part("from"), {first, zero});
  first = g.op("min", part("held"), {first, g.constant(part("room"), ints_tensor(room))});
  const std::int64_t rank = cut.rank();
  Tensor offsets = Tensor::uninitialized(DType::i64, Shape{cut.numel(), rank});
  auto to = offsets.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < cut.numel(); ++i)
    for (std::int64_t a = rank, left = i; a-- > 0; left /= cut[static_cast<int>(a)])
      to[static_cast<std::size_t>(i * rank + a)] = left % cut[static_cast<int>(a)];
  const ValueId places =
      g.op("add", part("places"), {g.constant(part("offsets"), std::move(offsets)), first});
  return g.op("scatter_nd", n_->name, {x, places, g.reshape(part("flat"), block, {-1})});
}

std::optional<std::vector<ValueId>> Ops::selections() {
  const std::string& op = n_->op;
  if (op == "NonMaxSuppression" || op == "NonMaxSuppressionV2" || op == "NonMaxSuppressionV3" ||
      op == "NonMaxSuppressionV4" || op == "NonMaxSuppressionV5")
    return non_max_suppression();
  if (op == "CombinedNonMaxSuppression") return combined_non_max_suppression();
  if (op == "Unique" || op == "UniqueV2" || op == "UniqueWithCounts" || op == "UniqueWithCountsV2")
    return unique();
  if (op == "SparseToDense") return std::vector{sparse_to_dense()};
  if (op == "XlaDynamicUpdateSlice") return std::vector{update_slice()};
  return std::nullopt;
}

}  // namespace etalon::tf
