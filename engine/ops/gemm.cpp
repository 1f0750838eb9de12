#include "engine/ops/gemm.h"

namespace etalon {

GemmGeometry gemm_geometry(const GemmParams& params, const Shape& a, const Shape& b) {
  if (a.rank() != 2 || b.rank() != 2)
    throw bad_input("a and b must be matrices, got {} and {}", to_string(a), to_string(b));
  GemmGeometry g{};
  g.m = a[params.trans_a ? 1 : 0];
  g.k = a[params.trans_a ? 0 : 1];
  g.n = b[params.trans_b ? 0 : 1];
  const std::int64_t b_k = b[params.trans_b ? 1 : 0];
  if (g.k != b_k)
    throw bad_input("a {} sums over {} elements and b {} over {}", to_string(a), g.k, to_string(b),
                    b_k);
  g.a_row = params.trans_a ? 1 : g.k;
  g.a_col = params.trans_a ? g.m : 1;
  g.b_row = params.trans_b ? 1 : g.n;
  g.b_col = params.trans_b ? g.k : 1;
  return g;
}

const OpRow& gemm_op() {
  static const OpRow row{
      .name = "gemm",
      .summary = "General matrix product alpha*a*b + beta*c, either operand transposed.",
      .nature = OpNature::sum,
      .min_inputs = 2,
      .max_inputs = 3,
      .defaults = [] { return Params(GemmParams{}); },
      .infer =
          [](const Params& p, const InferInputs& in) {
            const GemmGeometry g = gemm_geometry(p.as<GemmParams>(), in.shape(0), in.shape(1));
            const Shape out{g.m, g.n};
            if (in.has(2) && broadcast(in.shape(2), out) != out)
              throw bad_input("c {} does not broadcast to {}", to_string(in.shape(2)),
                              to_string(out));
            return std::vector<TensorType>{{in.dtype(0), out}};
          },
      .input_names = [] { return std::vector<std::string_view>{"a", "b", "c"}; },
  };
  return row;
}

}  // namespace etalon
