// conv of two spatial axes by cuDNN 9's forward algorithms, by name. cuDNN pads alike on both sides
// of an axis; a problem that does not is refused. What an algorithm cannot do it says itself, when
// its workspace is asked for: that becomes an error that names the status. The bias is added by
// cudnnAddTensor.
#include "kernels/conv/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/core/error.h"
#include "engine/ops/conv.h"
#include "kernels/backends/cuda/libraries.h"

namespace etalon::cuda {
namespace {

// As the library's C interface has them since version 8.
using Handle = void*;
using Descriptor = void*;
enum Math : int { kDefault = 0, kFma = 3 };  // kDefault may take TF32, kFma never
constexpr int kFloat = 0, kNchw = 0, kCrossCorrelation = 1;
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

void require(int status, const char* call) {
  if (status == 0) return;
  auto* const text = cudnn().function<const char*(int)>("cudnnGetErrorString");
  throw missing("cuDNN {}: {} failed with {}; take another algorithm's row, or --device cpu",
                cudnn().version, call, text(status));
}
template <class... A>
void call(const char* name, A... arguments) {
  require(cudnn().function<int(A...)>(name)(arguments...), name);
}

Handle handle() {
  thread_local const Handle h = [] {
    Handle made = nullptr;
    call("cudnnCreate", &made);
    call("cudnnSetStream", made, stream());
    return made;
  }();
  return h;
}

// A descriptor with one owner; `kind` stands in the names of its functions.
class Described {
 public:
  explicit Described(const char* kind) : kind_(kind) {
    call(fmt::format("cudnnCreate{}Descriptor", kind_).c_str(), &d_);
  }
  ~Described() {
    cudnn().function<int(Descriptor)>(fmt::format("cudnnDestroy{}Descriptor", kind_).c_str())(d_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  Descriptor get() const { return d_; }

 private:
  const char* kind_;
  Descriptor d_ = nullptr;
};

int as_int(std::int64_t n) { return static_cast<int>(n); }

template <Algorithm algorithm, Math math>
void enqueue(const KernelCall& host, Work& work) {
  const ConvGeometry g =
      conv_geometry(host.params<ConvParams>(), host.input(0).shape(), host.input(1).shape());
  const WindowAxis &h = g.window.axes[1], &w = g.window.axes[2];
  const Described x("Tensor"), y("Tensor"), bias("Tensor"), filter("Filter"), conv("Convolution");
  call("cudnnSetTensor4dDescriptor", x.get(), kNchw, kFloat, as_int(g.batch), as_int(g.in_channels),
       as_int(h.in), as_int(w.in));
  call("cudnnSetTensor4dDescriptor", y.get(), kNchw, kFloat, as_int(g.batch),
       as_int(g.out_channels), as_int(h.out), as_int(w.out));
  call("cudnnSetFilter4dDescriptor", filter.get(), kFloat, kNchw, as_int(g.out_channels),
       as_int(g.group_in()), as_int(h.kernel), as_int(w.kernel));
  call("cudnnSetConvolution2dDescriptor", conv.get(), as_int(h.pad_begin), as_int(w.pad_begin),
       as_int(h.stride), as_int(w.stride), as_int(h.dilation), as_int(w.dilation),
       kCrossCorrelation, kFloat);
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
    call("cudnnSetTensor4dDescriptor", bias.get(), kNchw, kFloat, 1, as_int(g.out_channels), 1, 1);
    const void* pb = bytes(2);
    call("cudnnAddTensor", handle(), alpha, bias.get(), pb, keep, y.get(), py);
  }
}

Refusal refuse(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return fmt::format("input {} is {}, not f32", i, name(problem.input(i).dtype));
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (g.window.spatial != 2) return "takes two spatial axes";
  if (problem.outputs[0].shape.numel() == 0) return "takes no empty tensor";
  for (const WindowAxis& a : g.window.axes)
    if (a.pad_begin != a.pad_end) return "pads alike on both sides of an axis";
  if (cudnn().handle == nullptr) return cudnn().reason;
  return refuse_without_device();
}

template <Algorithm algorithm, Math math = kFma>
DeviceRow row(std::string_view name) {
  return {.row = {.op = "conv",
                  .name = name,
                  .promise = Promise::vendor,
                  .device = Device::cuda,
                  .contracts = "none",
                  .refuse = refuse,
                  .run = run_enqueued<enqueue<algorithm, math>>,
                  .version = [] { return cudnn().version; }},
          .enqueue = enqueue<algorithm, math>};
}

}  // namespace

std::span<const DeviceRow> cudnn_device_rows() {
  static const DeviceRow rows[] = {
      row<kImplicitGemm>("cudnn.conv.implicit_gemm"),
      row<kImplicitPrecomputedGemm>("cudnn.conv.implicit_precomputed_gemm"),
      row<kGemm>("cudnn.conv.gemm"),
      row<kDirect>("cudnn.conv.direct"),
      row<kFft>("cudnn.conv.fft"),
      row<kFftTiling>("cudnn.conv.fft_tiling"),
      row<kWinograd>("cudnn.conv.winograd"),
      row<kWinogradNonfused>("cudnn.conv.winograd_nonfused"),
      row<kImplicitPrecomputedGemm, kDefault>("cudnn.conv.implicit_precomputed_gemm_tf32"),
      row<kWinogradNonfused, kDefault>("cudnn.conv.winograd_nonfused_tf32")};
  return rows;
}

}  // namespace etalon::cuda
