// Rows that belong together, folded into one: SegmentSum and kin, whose ids are sorted and tell by
// the last one how many rows come out; Unsorted, where that is an input; Sparse, where rows are
// first picked.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/composed.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

constexpr std::int64_t kMostRows = 1 << 24;

// What stands in a row before anything is folded into it.
double start_of(const std::string& fold, DType type) {
  if (fold == "add") return 0;
  if (fold == "mul") return 1;
  const bool most = fold == "max";
  if (is_floating(type)) return (most ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (type == DType::i32)
    return most ? std::numeric_limits<std::int32_t>::min()
                : std::numeric_limits<std::int32_t>::max();
  throw bad_input("the largest or least of segments of {}", name(type));
}

}  // namespace

// x [n, ...] by ids [n] into `rows` rows; an id below 0 belongs to none. `known` are the ids where
// the file says them.
ValueId Ops::segments(const std::string& fold, ValueId x, ValueId ids, std::int64_t rows,
                      const std::vector<std::int64_t>* known) {
  const DType type = g.dtype(x);
  Ints extents = g.dims(x);
  if (rows < 0 || rows > kMostRows || extents.empty() || g.rank(ids) != 1)
    throw bad_input("{} of {} rows by ids {}", n_->op, rows, to_string(g.type(ids)));
  for (std::size_t a = 1; a < extents.size(); ++a)
    if (extents[a] < 0) throw bad_input("{} of rows of free extents", n_->op);
  bool drops = known == nullptr;
  if (known != nullptr) {
    if (extents[0] >= 0 && static_cast<std::int64_t>(known->size()) != extents[0])
      throw bad_input("{} ids for {} rows", known->size(), extents[0]);
    for (const std::int64_t id : *known) {
      drops = drops || id < 0;
      if (id >= rows) throw bad_input("segment {} of {}", id, rows);
    }
  }
  extents[0] = rows + (drops ? 1 : 0);
  ValueId at = as_i64("i64", ids);
  if (drops) {
    const ValueId zero = g.constant(part("zero"), scalar_of(DType::i64, 0)),
                  behind =
                      g.constant(part("behind"), scalar_of(DType::i64, static_cast<double>(rows)));
    at = g.op("where", part("held"), {g.op("less", part("none"), {at, zero}), behind, at});
  }
  const bool mean = fold == "mean";
  const std::string by = mean ? "add" : fold;
  const ValueId start = g.constant(part("start"), scalar_of(type, start_of(by, type)));
  const auto folded = [&](std::string_view role, ValueId values, const Ints& shape, ValueId from) {
    const ValueId whole = g.op("expand", part("rows"), {from}, {{"shape", shape}});
    ValueId y = g.op("scatter_nd", part(role), {whole, g.reshape(part("ids"), at, {-1, 1}), values},
                     {{"reduction", by}});
    if (drops)
      y = g.op("slice", part("kept"), {y},
               {{"starts", Ints{0}}, {"ends", Ints{rows}}, {"axes", Ints{0}}});
    return y;
  };
  ValueId y = folded("folded", x, extents, start);
  if (!mean) return g.op("identity", n_->name, {y});
  const ValueId one = g.constant(part("one"), scalar_of(type, 1));
  const ValueId ones = g.op("expand", part("ones"), {one, g.op("shape", part("count"), {ids})});
  ValueId count = g.op("max", part("count"), {folded("counted", ones, {extents[0]}, start), one});
  Ints shape(extents.size(), 1);
  shape[0] = -1;
  return g.op("div", n_->name, {y, g.reshape(part("counts"), count, shape)});
}

std::optional<ValueId> Ops::segmented() {
  std::string op = n_->op;
  const bool sparse = op.starts_with("SparseSegment"), unsorted = op.starts_with("UnsortedSegment");
  if (!sparse && !unsorted && !op.starts_with("Segment")) return std::nullopt;
  const bool numbered = op.ends_with("WithNumSegments");
  if (numbered) op.resize(op.size() - 15);
  op = op.substr(op.find("Segment") + 7);
  const std::map<std::string_view, std::string> folds{
      {"Sum", "add"}, {"Mean", "mean"}, {"Prod", "mul"}, {"Max", "max"}, {"Min", "min"}};
  const auto fold = folds.find(op);
  if (fold == folds.end() || (sparse && op != "Sum" && op != "Mean")) return std::nullopt;
  ValueId x = n_->in(0), ids = n_->in(sparse ? 2 : 1);
  if (sparse) x = g.op("gather", part("picked"), {x, n_->in(1)}, {{"axis", std::int64_t{0}}});
  const Tensor* constant = g.constant_of(ids);
  std::optional<std::vector<std::int64_t>> known;
  if (constant != nullptr) known = to_int64_values(*constant);
  if (unsorted) {
    const std::int64_t rows = constant_int(2, "numbers of segments");
    const Ints of = g.dims(ids);
    if (of.size() != 1) {  // ids of a block of rows
      Ints flat{-1};
      for (std::size_t a = of.size(); a < static_cast<std::size_t>(g.rank(x)); ++a)
        flat.push_back(known_extent(g, x, static_cast<int>(a)));
      x = g.reshape(part("flat"), x, flat);
      ids = g.reshape(part("flat_ids"), ids, {-1});
    }
    return segments(fold->second, x, ids, rows, known ? &*known : nullptr);
  }
  if (!known && !numbered)
    throw bad_input("{} by ids that are not constant is not supported", n_->op);
  if (known && (!std::ranges::is_sorted(*known) || (!known->empty() && known->front() < 0)))
    throw bad_input("{} by ids that are not sorted from 0 on", n_->op);
  const std::int64_t rows = numbered         ? constant_int(3, "numbers of segments")
                            : known->empty() ? 0
                                             : checked_add(known->back(), 1);
  ValueId y = segments(fold->second, x, ids, rows, known ? &*known : nullptr);
  if (!known || (op != "Max" && op != "Min")) return y;
  // A segment that no row belongs to is 0.
  Tensor met = Tensor::zeros(DType::boolean, {rows});
  for (const std::int64_t id : *known)
    met.mutable_bytes()[static_cast<std::size_t>(id)] = std::byte{1};
  Ints shape(static_cast<std::size_t>(g.rank(x)), 1);
  shape[0] = rows;
  return g.op("where", part("met"),
              {g.constant(part("has_rows"), met.reshaped(Shape(shape))), y,
               g.constant(part("nothing"), scalar_of(g.dtype(x), 0))});
}

}  // namespace etalon::tf
