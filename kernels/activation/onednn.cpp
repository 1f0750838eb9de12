// Activations by oneDNN: f32, row-major, those whose formula is ours. Nothing is promised about
// bits.
#include "kernels/activation/onednn.h"

#include "kernels/backends/onednn/row.h"

namespace etalon {
namespace {

template <dnnl::algorithm algo>
onednn::Described describe(const Problem& problem) {
  const auto dims = onednn::dims_of(problem.input(0).shape);
  const auto x = onednn::plain(dims);
  const dnnl::eltwise_forward::primitive_desc pd(onednn::engine(),
                                                 dnnl::prop_kind::forward_inference, algo, x, x);
  return onednn::described<dnnl::eltwise_forward>(pd, {{DNNL_ARG_SRC, x, x}}, dims);
}

template <dnnl::algorithm algo>
KernelRow row(std::string_view op, std::string_view name) {
  return onednn::vendor_row<describe<algo>, onednn::refuse_nothing>(op, name);
}

}  // namespace

std::span<const KernelRow> onednn_activation_rows() {
  using dnnl::algorithm;
  static const KernelRow rows[] = {
      row<algorithm::eltwise_relu>("relu", "onednn.relu"),
      row<algorithm::eltwise_logistic>("sigmoid", "onednn.sigmoid"),
      row<algorithm::eltwise_tanh>("tanh", "onednn.tanh"),
      row<algorithm::eltwise_exp>("exp", "onednn.exp"),
      row<algorithm::eltwise_log>("log", "onednn.log"),
      row<algorithm::eltwise_sqrt>("sqrt", "onednn.sqrt"),
  };
  return rows;
}

}  // namespace etalon
