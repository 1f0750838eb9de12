// Elements that are put in other places, or found: scatters, places that are not zero, permutations
// turned round, bands and diagonals of matrices, sequences reversed.
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"

namespace etalon::tf {
namespace {

const std::map<std::string_view, std::string_view> kScatter{{"TensorScatterUpdate", "none"},
                                                            {"TensorScatterAdd", "add"},
                                                            {"TensorScatterMax", "max"},
                                                            {"TensorScatterMin", "min"}};

}  // namespace

ValueId Ops::as_i64(std::string_view role, ValueId v) {
  return g.dtype(v) == DType::i64 ? v : g.op("cast", part(role), {v}, {{"to", std::string("i64")}});
}

std::optional<ValueId> Ops::places() {
  const std::string& op = n_->op;
  if (op == "OnesLike")
    return emit("constant_of_shape",
                {g.op("shape", part("shape"), {n_->in(0)}),
                 g.constant(part("one"), scalar_of(g.dtype(n_->in(0)), 1).reshaped({1}))});
  if (const auto at = kScatter.find(op); at != kScatter.end())
    return emit("scatter_nd", {n_->in(0), as_i64("indices", n_->in(1)), n_->in(2)},
                {{"reduction", std::string(at->second)}});
  if (op == "TensorScatterSub")
    return emit("scatter_nd",
                {n_->in(0), as_i64("indices", n_->in(1)), g.op("neg", part("less"), {n_->in(2)})},
                {{"reduction", std::string("add")}});
  if (op == "ScatterNd") {  // what is named twice is added
    const DType of = g.dtype(n_->in(1));
    const ValueId none = g.op(
        "constant_of_shape", part("zeros"),
        {as_i64("extents", n_->in(2)), g.constant(part("zero"), scalar_of(of, 0).reshaped({1}))});
    return emit("scatter_nd", {none, as_i64("indices", n_->in(0)), n_->in(1)},
                {{"reduction", std::string("add")}});
  }
  if (op == "Where" && n_->inputs.size() == 1)
    return emit("transpose", {g.op("non_zero", part("coordinates"), {n_->in(0)})},
                {{"perm", Ints{1, 0}}});
  if (op == "InvertPermutation") {
    const ValueId x = n_->in(0);
    const ValueId count = g.op("size", part("count"), {x});
    const ValueId steps = g.op("range", part("steps"),
                               {g.constant(part("from"), scalar_of(DType::i64, 0)), count,
                                g.constant(part("by"), scalar_of(DType::i64, 1))});
    const ValueId y = g.op("scatter_elements", part("turned"), {steps, as_i64("places", x), steps},
                           {{"axis", std::int64_t{0}}});
    return g.dtype(x) == DType::i64 ? y
                                    : emit("cast", {y}, {{"to", std::string(name(g.dtype(x)))}});
  }
  if (op == "Roll") {
    const Ints by = constant_ints(1, "shifts"), axes = constant_ints(2, "axes");
    if (by.size() != axes.size())
      throw bad_input("{} shifts along {} axes", by.size(), axes.size());
    ValueId y = n_->in(0);
    for (std::size_t i = 0; i < by.size(); ++i)
      y = rolled(g, part("rolled"), y, normalize_axis(axes[i], g.rank(y)), by[i]);
    return y;
  }
  if (op == "ReverseSequence")
    return emit("reverse_sequence", {n_->in(0), as_i64("lengths", n_->in(1))},
                {{"time_axis", n_->integer("seq_dim")}, {"batch_axis", n_->integer("batch_dim")}});
  if (op == "MatrixBandPart") {
    const std::int64_t below = constant_int(1, "numbers of diagonals"),
                       above = constant_int(2, "numbers of diagonals");
    ValueId y = n_->in(0);
    const auto half = [&](const char* role, std::int64_t k, bool upper) {
      return g.op("trilu", part(role),
                  {y, g.constant(part("k"), scalar_of(DType::i64, static_cast<double>(k)))},
                  {{"upper", upper}});
    };
    if (below >= 0) y = half("upper", -below, true);
    if (above >= 0) y = half("lower", above, false);
    return g.op("identity", n_->name, {y});
  }
  if (op == "MatrixDiag" || op == "Diag") {
    const ValueId x = n_->in(0);
    const int rank = g.rank(x);
    const std::int64_t n = g.dims(x).empty() ? -1 : g.dims(x).back();
    if (rank < 1 || (op == "Diag" && rank != 1) || n < 1 || n > 4096)
      throw bad_input("{} of rank {} and {} elements", op, rank, n);
    Tensor eye = Tensor::zeros(DType::boolean, {n, n});
    for (std::int64_t i = 0; i < n; ++i)
      eye.mutable_bytes()[static_cast<std::size_t>(i * n + i)] = std::byte{1};
    return emit("where", {g.constant(part("diagonal"), std::move(eye)),
                          g.op("unsqueeze", part("rows"), {x}, {{"axes", Ints{rank}}}),
                          g.constant(part("none"), scalar_of(g.dtype(x), 0))});
  }
  return std::nullopt;
}

}  // namespace etalon::tf
