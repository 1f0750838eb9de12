#include "engine/ops/pool.h"

#include <limits>

namespace etalon {
namespace {

std::vector<TensorType> pooled(const InferInputs& in, const PoolGeometry& g) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("x must be a floating tensor, got {}", name(in.dtype(0)));
  return {{in.dtype(0), g.output_shape()}};
}

// Elements that a double holds exactly.
void check_ordered(DType dtype) {
  if (!is_floating(dtype) && (size_bytes(dtype) > 4 || dtype == DType::boolean))
    throw bad_input("x must be floating or an integer of at most 32 bits, got {}", name(dtype));
}

void check_p(float p) {
  if (!(p > 0) || p > std::numeric_limits<float>::max())
    throw bad_input("p must be positive and finite, got {}", p);
}

std::vector<TensorType> infer_max_pool(const Params& params, const InferInputs& in) {
  const auto& p = params.as<MaxPoolParams>();
  check_ordered(in.dtype(0));
  const Shape out = pool_geometry(p, in.shape(0)).output_shape();
  std::vector<TensorType> types{{in.dtype(0), out}};
  if (p.indices != PoolIndices::none) types.push_back({DType::i64, out});
  return types;
}

std::vector<TensorType> infer_avg_pool(const Params& params, const InferInputs& in) {
  const auto& p = params.as<AvgPoolParams>();
  if (p.divisor_override < 0)
    throw bad_input("divisor_override must be positive, or 0 for none, got {}", p.divisor_override);
  return pooled(in, pool_geometry(p, in.shape(0)));
}

std::vector<TensorType> infer_lp_pool(const Params& params, const InferInputs& in) {
  const auto& p = params.as<LpPoolParams>();
  check_p(p.p);
  return pooled(in, pool_geometry(p, in.shape(0)));
}

}  // namespace

Shape PoolGeometry::output_shape() const {
  std::array<std::int64_t, kMaxRank> dims{batch, channels};
  for (int i = 0; i < window.spatial; ++i)
    dims[static_cast<std::size_t>(2 + i)] =
        window.axes[static_cast<std::size_t>(kMaxSpatial - window.spatial + i)].out;
  return Shape(
      std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(2 + window.spatial)));
}

PoolGeometry pool_geometry(const PoolParams& params, const Shape& x) {
  const Window window = make_window(x, params.kernel, params);
  double taps = 1;
  for (const WindowAxis& a : window.axes) taps *= static_cast<double>(a.kernel);
  if (taps > 0x1p53)
    throw bad_input("kernel has {} taps; give one of at most 2^53, which a double counts", taps);
  return {x[0], x[1], window};
}

PoolGeometry global_pool_geometry(const Shape& x) {
  if (x.rank() < 2 || x.rank() > 2 + kMaxSpatial)
    throw bad_input("expected x [N,C,spatial...] with up to 3 spatial axes, got {}", to_string(x));
  PoolGeometry g{x[0], x[1], {}};
  g.window.spatial = x.rank() - 2;
  for (int i = 0; i < g.window.spatial; ++i) {
    WindowAxis& a = g.window.axes[static_cast<std::size_t>(kMaxSpatial - g.window.spatial + i)];
    a.in = a.kernel = x[2 + i];
  }
  return g;
}

std::span<const OpRow> pool_ops() {
  static const OpRow rows[] = {
      {.name = "max_pool",
       .summary = "Largest element of each window, with its position on request.",
       .max_outputs = 2,
       .defaults = [] { return Params(MaxPoolParams{}); },
       .infer = infer_max_pool,
       .output_names = [] { return std::vector<std::string_view>{"y", "indices"}; }},
      {.name = "avg_pool",
       .summary = "Mean of each window.",
       .nature = OpNature::sum,
       .defaults = [] { return Params(AvgPoolParams{}); },
       .infer = infer_avg_pool},
      {.name = "lp_pool",
       .summary = "p-norm of each window.",
       .nature = OpNature::sum,
       .defaults = [] { return Params(LpPoolParams{}); },
       .infer = infer_lp_pool},
      {.name = "global_max_pool",
       .summary = "Largest element of each channel.",
       .infer = [](const Params&, const InferInputs& in) -> std::vector<TensorType> {
         check_ordered(in.dtype(0));
         return {{in.dtype(0), global_pool_geometry(in.shape(0)).output_shape()}};
       }},
      {.name = "global_avg_pool",
       .summary = "Mean of each channel.",
       .nature = OpNature::sum,
       .infer =
           [](const Params&, const InferInputs& in) {
             return pooled(in, global_pool_geometry(in.shape(0)));
           }},
      {.name = "global_lp_pool",
       .summary = "p-norm of each channel.",
       .nature = OpNature::sum,
       .defaults = [] { return Params(GlobalLpPoolParams{}); },
       .infer =
           [](const Params& params, const InferInputs& in) {
             check_p(params.as<GlobalLpPoolParams>().p);
             return pooled(in, global_pool_geometry(in.shape(0)));
           }},
  };
  return rows;
}

}  // namespace etalon
