// Pools by oneDNN: f32, row-major and by blocks of channels. Nothing is promised about bits.
#include "kernels/pool/onednn.h"

#include "engine/ops/pool.h"
#include "kernels/backends/onednn/row.h"

namespace etalon {
namespace {

using dnnl::algorithm;
using onednn::Lies;

onednn::Described describe(const Problem& problem, const PoolGeometry& g, algorithm algo,
                           Lies how) {
  dnnl::memory::dims strides, kernel, dilations, begin, end;
  for (int i = 0; i < g.window.spatial; ++i) {
    const WindowAxis& a =
        g.window.axes[static_cast<std::size_t>(kMaxSpatial - g.window.spatial + i)];
    strides.push_back(a.stride);
    kernel.push_back(a.kernel);
    dilations.push_back(a.dilation - 1);  // oneDNN counts the gaps
    begin.push_back(a.pad_begin);
    end.push_back((a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in - a.pad_begin);
  }
  const Shape& x = problem.input(0).shape;
  const auto y = onednn::dims_of(g.output_shape());
  const auto source = onednn::lie(x, how);
  const dnnl::pooling_forward::primitive_desc pd(
      onednn::engine(), dnnl::prop_kind::forward_inference, algo, source, onednn::any_layout(y),
      strides, kernel, dilations, begin, end);
  return onednn::described<dnnl::pooling_forward>(
      pd, {{DNNL_ARG_SRC, onednn::plain(onednn::dims_of(x)), source}}, y);
}

template <Lies how>
onednn::Described max_pool(const Problem& problem) {
  return describe(problem,
                  pool_geometry(problem.params->as<MaxPoolParams>(), problem.input(0).shape),
                  algorithm::pooling_max, how);
}
template <Lies how>
onednn::Described average_pool(const Problem& problem) {
  const auto& p = problem.params->as<AvgPoolParams>();
  return describe(problem, pool_geometry(p, problem.input(0).shape),
                  p.count_include_pad ? algorithm::pooling_avg_include_padding
                                      : algorithm::pooling_avg_exclude_padding,
                  how);
}
template <Lies how>
onednn::Described global_average_pool(const Problem& problem) {
  return describe(problem, global_pool_geometry(problem.input(0).shape),
                  algorithm::pooling_avg_exclude_padding, how);
}

template <Lies how>
Refusal refuse(const Problem& problem) {
  return how == Lies::blocked ? onednn::refuse_blocks(problem) : std::nullopt;
}
template <Lies how>
Refusal refuse_max(const Problem& problem) {
  if (problem.params->as<MaxPoolParams>().indices != PoolIndices::none)
    return "gives no indices of its own numbering";
  return refuse<how>(problem);
}
template <Lies how>
Refusal refuse_average(const Problem& problem) {
  const auto& p = problem.params->as<AvgPoolParams>();
  if (p.divisor_override != 0 || (p.ceil_mode && p.count_include_pad))
    return "divides by its own count of the window";
  return refuse<how>(problem);
}

}  // namespace

std::span<const KernelRow> onednn_pool_rows() {
  using onednn::vendor_row;
  constexpr Lies plain = Lies::row_major, blocked = Lies::blocked;
  static const KernelRow rows[] = {
      vendor_row<max_pool<plain>, refuse_max<plain>>("max_pool", "onednn.max_pool"),
      vendor_row<max_pool<blocked>, refuse_max<blocked>>("max_pool", "onednn.max_pool.nChw16c"),
      vendor_row<average_pool<plain>, refuse_average<plain>>("avg_pool", "onednn.avg_pool"),
      vendor_row<average_pool<blocked>, refuse_average<blocked>>("avg_pool",
                                                                 "onednn.avg_pool.nChw16c"),
      vendor_row<global_average_pool<plain>, refuse<plain>>("global_avg_pool",
                                                            "onednn.global_avg_pool"),
      vendor_row<global_average_pool<blocked>, refuse<blocked>>("global_avg_pool",
                                                                "onednn.global_avg_pool.nChw16c"),
  };
  return rows;
}

}  // namespace etalon
