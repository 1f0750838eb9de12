// Operators that choose some of many, or gather what belongs together: NonMaxSuppression (versions
// 1 to 5), Unique, sums of segments, writing a part of a tensor.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/error.h"
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
    if (sigma == nullptr || sigma->numel() != 1 || load_as_double(*sigma, 0) != 0)
      throw bad_input("{} that lowers scores (a sigma other than 0) is not supported", op);
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

// Rows of equal ids added up: onto zeros, row by row. Of SegmentSum the ids are constant, for the
// last one says how many rows there are.
ValueId Ops::segment_sum() {
  const ValueId x = n_->in(0), ids = n_->in(1);
  std::int64_t rows = 0;
  const Tensor* known = g.constant_of(ids);
  if (n_->op == "UnsortedSegmentSum") {
    rows = constant_int(2, "numbers of segments");
  } else if (known != nullptr && known->shape().rank() == 1) {
    if (known->numel() > 0)
      rows = static_cast<std::int64_t>(load_as_double(*known, known->numel() - 1)) + 1;
  } else {
    throw bad_input("SegmentSum by ids that are not constant is not supported");
  }
  const Shape& shape = g.shape(x);
  if (rows < 0 || rows > 1 << 24 || shape.rank() < 1) throw bad_input("{} segments", rows);
  if (known == nullptr || known->shape().rank() != 1 || known->numel() != shape[0])
    throw bad_input("{} by ids other than one constant for each row is not supported", n_->op);
  for (std::int64_t i = 0; i < known->numel(); ++i) {
    const double id = load_as_double(*known, i);
    if (id < 0 || id >= static_cast<double>(rows)) throw bad_input("segment {} of {}", id, rows);
  }
  Ints extents{rows};
  for (int a = 1; a < shape.rank(); ++a) extents.push_back(shape[a]);
  const ValueId zero = g.constant(part("zero"), scalar_of(g.dtype(x), 0));
  const ValueId zeros = g.op("expand", part("zeros"), {zero}, {{"shape", extents}});
  const ValueId index = g.reshape(
      part("ids"), g.op("cast", part("i64"), {ids}, {{"to", std::string("i64")}}), {-1, 1});
  return g.op("scatter_nd", n_->name, {zeros, index, x}, {{"reduction", std::string("add")}});
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
  if (op == "Unique" || op == "UniqueV2" || op == "UniqueWithCounts" || op == "UniqueWithCountsV2")
    return unique();
  if (op == "SegmentSum" || op == "UnsortedSegmentSum") return std::vector{segment_sum()};
  if (op == "SparseToDense") return std::vector{sparse_to_dense()};
  if (op == "XlaDynamicUpdateSlice") return std::vector{update_slice()};
  return std::nullopt;
}

}  // namespace etalon::tf
