// conv of two spatial axes by cuDNN 9's forward algorithms, by name. cuDNN pads alike on both sides
// of an axis; a problem that does not is refused. What an algorithm cannot do it says itself, when
// its workspace is asked for: that becomes an error that names the status. The bias is added by
// cudnnAddTensor.
#include "kernels/conv/cudnn.h"

#include <algorithm>

#include "engine/ops/conv.h"
#include "kernels/backends/cuda/cudnn_calls.h"

namespace etalon::cuda {
namespace {

using dnn::as_int;
using dnn::call;
using dnn::Described;
using dnn::handle;

// As the library's C interface has them since version 8.
constexpr int kCrossCorrelation = 1;
enum Algorithm : int {
  kImplicitGemm = 0,
  kImplicitPrecomputedGemm = 1,
  kGemm = 2,
  kDirect = 3,
  kFft = 4,
  kFftTiling = 5,
  kWinograd = 6,
  kWinogradNonfused = 7
};

template <Algorithm algorithm, dnn::Math math>
void enqueue(const KernelCall& host, Work& work) {
  const ConvGeometry g =
      conv_geometry(host.params<ConvParams>(), host.input(0).shape(), host.input(1).shape());
  const WindowAxis &h = g.window.axes[1], &w = g.window.axes[2];
  const Described x("Tensor"), y("Tensor"), bias("Tensor"), filter("Filter"), conv("Convolution");
  dnn::set_4d(x, g.batch, g.in_channels, h.in, w.in);
  dnn::set_4d(y, g.batch, g.out_channels, h.out, w.out);
  call("cudnnSetFilter4dDescriptor", filter.get(), dnn::kFloat, dnn::kNchw, as_int(g.out_channels),
       as_int(g.group_in()), as_int(h.kernel), as_int(w.kernel));
  call("cudnnSetConvolution2dDescriptor", conv.get(), as_int(h.pad_begin), as_int(w.pad_begin),
       as_int(h.stride), as_int(w.stride), as_int(h.dilation), as_int(w.dilation),
       kCrossCorrelation, dnn::kFloat);
  call("cudnnSetConvolutionGroupCount", conv.get(), as_int(g.groups));
  call("cudnnSetConvolutionMathType", conv.get(), static_cast<int>(math));
  std::size_t size = 0;
  call("cudnnGetConvolutionForwardWorkspaceSize", handle(), x.get(), filter.get(), conv.get(),
       y.get(), static_cast<int>(algorithm), &size);
  void* const workspace = work.scratch(std::max<std::size_t>(1, size));
  const float one = 1, zero = 0;
  const auto bytes = [&](std::size_t i) {
    return static_cast<const void*>(host.input(i).bytes().data());
  };
  const void *px = bytes(0), *pw = bytes(1);
  const void *alpha = &one, *beta = &zero, *keep = &one;
  void* py = device_floats(host.output(0));
  call("cudnnConvolutionForward", handle(), alpha, x.get(), px, filter.get(), pw, conv.get(),
       static_cast<int>(algorithm), workspace, size, beta, y.get(), py);
  if (host.has(2)) {
    dnn::set_4d(bias, 1, g.out_channels, 1, 1);
    const void* pb = bytes(2);
    call("cudnnAddTensor", handle(), alpha, bias.get(), pb, keep, y.get(), py);
  }
}

Refusal refuse(const Problem& problem) {
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (g.window.spatial != 2) return "takes two spatial axes";
  for (const WindowAxis& a : g.window.axes)
    if (a.pad_begin != a.pad_end) return "pads alike on both sides of an axis";
  return dnn::refuse(problem);
}

template <Algorithm algorithm, dnn::Math math = dnn::kFmaMath>
DeviceRow row(std::string_view name) {
  return vendor_row<enqueue<algorithm, math>>("conv", name, refuse, [] { return cudnn().version; });
}

}  // namespace

std::span<const DeviceRow> cudnn_conv_rows() {
  static const DeviceRow rows[] = {
      row<kImplicitGemm>("cudnn.conv.implicit_gemm"),
      row<kImplicitPrecomputedGemm>("cudnn.conv.implicit_precomputed_gemm"),
      row<kGemm>("cudnn.conv.gemm"),
      row<kDirect>("cudnn.conv.direct"),
      row<kFft>("cudnn.conv.fft"),
      row<kFftTiling>("cudnn.conv.fft_tiling"),
      row<kWinograd>("cudnn.conv.winograd"),
      row<kWinogradNonfused>("cudnn.conv.winograd_nonfused"),
      row<kImplicitPrecomputedGemm, dnn::kDefaultMath>("cudnn.conv.implicit_precomputed_gemm_tf32"),
      row<kWinogradNonfused, dnn::kDefaultMath>("cudnn.conv.winograd_nonfused_tf32")};
  return rows;
}

}  // namespace etalon::cuda
