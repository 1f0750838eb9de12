// Diagonals of matrices: taken, set, or made of vectors (versions 1 to 3, one diagonal).
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"

namespace etalon::tf {
namespace {

// Diagonal k of an m by n matrix: where it begins, and how long it is.
struct Diagonal {
  std::int64_t row = 0, column = 0, length = 0;
};
Diagonal diagonal_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kMost = 4096;
  if (m < 1 || n < 1 || m > kMost || n > kMost || k <= -m || k >= n)
    throw bad_input("diagonal {} of {} by {}", k, m, n);
  const std::int64_t row = std::max<std::int64_t>(-k, 0), column = std::max<std::int64_t>(k, 0);
  return {row, column, std::min(m - row, n - column)};
}

}  // namespace

std::optional<ValueId> Ops::matrices() {
  const std::string& op = n_->op;
  const bool takes = op == "DiagPart" || op.starts_with("MatrixDiagPart"),
             sets = op.starts_with("MatrixSetDiag"),
             makes = op == "MatrixDiagV2" || op == "MatrixDiagV3";
  if (!takes && !sets && !makes) return std::nullopt;
  const auto numbered = [&](std::size_t input) -> std::int64_t {
    if (n_->inputs.size() <= input) return 0;
    const Ints k = constant_ints(input, "diagonals");
    if (k.empty() || k.size() > 2 || k.front() != k.back())
      throw bad_input("{} of a band of diagonals is not supported", op);
    return k[0];
  };
  const ValueId x = n_->in(0);
  const int rank = g.rank(x);
  if (makes) {
    const std::int64_t k = numbered(1);
    const std::int64_t rows = constant_int(2, "rows"), columns = constant_int(3, "columns");
    const std::int64_t n = known_extent(g, x, rank - 1);
    const std::int64_t m = rows < 0 ? n + std::max<std::int64_t>(-k, 0) : rows,
                       wide = columns < 0 ? n + std::max<std::int64_t>(k, 0) : columns;
    const Diagonal d = diagonal_of(m, wide, k);
    if (k != 0 || m != n || wide != n || d.length != n)
      throw bad_input("{} of diagonal {} in {} by {} is not supported", op, k, m, wide);
    const Tensor* padding = g.constant_of(n_->in(4));
    if (padding == nullptr || padding->numel() != 1)
      throw bad_input("{} around which stands no constant", op);
    Tensor eye = Tensor::zeros(DType::boolean, {n, n});
    for (std::int64_t i = 0; i < n; ++i)
      eye.mutable_bytes()[static_cast<std::size_t>(i * n + i)] = std::byte{1};
    return emit("where", {g.constant(part("diagonal"), std::move(eye)),
                          g.op("unsqueeze", part("rows"), {x}, {{"axes", Ints{rank}}}),
                          g.reshape(part("rest"), n_->in(4), {})});
  }
  if (rank < 2 || (op == "DiagPart" && rank != 2)) throw bad_input("{} of rank {}", op, rank);
  const std::int64_t m = known_extent(g, x, rank - 2), n = known_extent(g, x, rank - 1);
  if (takes) {
    const Diagonal d = diagonal_of(m, n, numbered(1));
    Ints places, flat(static_cast<std::size_t>(rank - 1), 0);
    for (std::int64_t i = 0; i < d.length; ++i) places.push_back((d.row + i) * n + d.column + i);
    flat.back() = m * n;
    const ValueId rows = g.op("reshape", part("flat"), {x}, {{"shape", flat}});
    return g.op("gather", n_->name, {rows, g.constant(part("places"), ints_tensor(places))},
                {{"axis", std::int64_t{rank - 2}}});
  }
  const Diagonal d = diagonal_of(m, n, numbered(2));
  if (d.row != 0 || d.column != 0)
    throw bad_input("{} of another diagonal than the main one is not supported", op);
  Tensor there = Tensor::zeros(DType::boolean, {m, n});
  for (std::int64_t i = 0; i < d.length; ++i)
    there.mutable_bytes()[static_cast<std::size_t>(i * n + i)] = std::byte{1};
  // The shorter side has an element for each place of the diagonal.
  const ValueId spread = g.op("unsqueeze", part("spread"), {n_->in(1)},
                              {{"axes", Ints{m <= n ? rank - 1 : rank - 2}}});
  return emit("where", {g.constant(part("diagonal"), std::move(there)), spread, x});
}

}  // namespace etalon::tf
