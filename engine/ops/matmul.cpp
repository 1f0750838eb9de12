#include "engine/ops/matmul.h"

#include <vector>

namespace etalon {
namespace {

// Strides of the leading axes of `shape` along `batch`, in elements.
std::array<std::int64_t, kMaxRank> batch_strides(const Shape& shape, const Shape& batch,
                                                 std::int64_t matrix) {
  const Shape lead = shape.rank() <= 2
                         ? Shape()
                         : Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
  auto strides = broadcast_strides(lead, batch);
  for (std::int64_t& s : strides) s *= matrix;
  return strides;
}

}  // namespace

MatMulGeometry matmul_geometry(const Shape& a, const Shape& b) {
  if (a.rank() < 1 || b.rank() < 1)
    throw bad_input("matmul needs operands of rank 1 or more, got {} and {}; use mul for scalars",
                    to_string(a), to_string(b));
  const bool row = a.rank() == 1, column = b.rank() == 1;
  MatMulGeometry g{};
  g.m = row ? 1 : a[a.rank() - 2];
  g.k = a[a.rank() - 1];
  g.n = column ? 1 : b[b.rank() - 1];
  const std::int64_t b_k = column ? b[0] : b[b.rank() - 2];
  if (g.k != b_k)
    throw bad_input("a {} sums over {} elements and b {} over {}", to_string(a), g.k, to_string(b),
                    b_k);
  g.a_row = g.k;
  g.a_col = 1;
  g.b_row = column ? 1 : g.n;
  g.b_col = 1;
  const auto lead = [](const Shape& s) {
    return s.rank() <= 2 ? Shape() : Shape(s.dims().first(static_cast<std::size_t>(s.rank() - 2)));
  };
  g.batch = broadcast(lead(a), lead(b));
  g.a_batch = batch_strides(a, g.batch, checked_mul(g.m, g.k));
  g.b_batch = batch_strides(b, g.batch, checked_mul(g.k, g.n));
  std::vector<std::int64_t> dims(g.batch.dims().begin(), g.batch.dims().end());
  if (!row) dims.push_back(g.m);
  if (!column) dims.push_back(g.n);
  g.output = Shape(dims);
  return g;
}

const OpRow& matmul_op() {
  static const OpRow row{
      .name = "matmul",
      .summary = "Batched matrix product with broadcasting of the leading axes.",
      .nature = OpNature::sum,
      .min_inputs = 2,
      .max_inputs = 2,
      .infer =
          [](const Params&, const InferInputs& in) {
            if (in.dtype(0) != in.dtype(1))
              throw bad_input("a is {} and b is {}; cast one", name(in.dtype(0)),
                              name(in.dtype(1)));
            return std::vector<TensorType>{
                {in.dtype(0), matmul_geometry(in.shape(0), in.shape(1)).output}};
          },
      .input_names = [] { return std::vector<std::string_view>{"a", "b"}; },
  };
  return row;
}

}  // namespace etalon
