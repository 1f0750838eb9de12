// cuDNN 9 beyond convolution: one row for each of its own choices (deterministic or not, fast or
// accurate), each over tensors seen as four axes.
#include "kernels/backends/cuda/cudnn_rows.h"

#include "engine/ops/normalization.h"
#include "engine/ops/pool.h"
#include "engine/ops/softmax.h"
#include "kernels/backends/cuda/cudnn_calls.h"

namespace etalon::cuda {
namespace {

using dnn::as_int;
using dnn::call;
using dnn::Described;
using dnn::handle;

constexpr float kOne = 1, kZero = 0;
const void* one() { return &kOne; }
const void* zero() { return &kZero; }
const void* bytes(const KernelCall& c, std::size_t i) { return c.input(i).bytes().data(); }
void* output(const KernelCall& c) { return device_floats(c.output(0)); }

// ---- pools --------------------------------------------------------------------------------------

// As the library's C interface has them since version 8.
enum Pooling : int { kMax = 0, kAverageWithPadding = 1, kAverage = 2, kMaxDeterministic = 3 };
constexpr int kPropagateNan = 1;

template <bool Global>
PoolGeometry geometry(const Problem& p) {
  if constexpr (Global)
    return global_pool_geometry(p.input(0).shape);
  else if (p.op->name == "max_pool")
    return pool_geometry(p.params->as<MaxPoolParams>(), p.input(0).shape);
  else
    return pool_geometry(p.params->as<AvgPoolParams>(), p.input(0).shape);
}

template <int mode, bool Global>
void enqueue_pool(const KernelCall& c, Work&) {
  const PoolGeometry g = geometry<Global>(*c.problem);
  const WindowAxis &h = g.window.axes[1], &w = g.window.axes[2];
  const Described x("Tensor"), y("Tensor"), pool("Pooling");
  const std::int64_t planes = g.points() / g.window.out_points();
  dnn::set_4d(x, planes, 1, h.in, w.in);
  dnn::set_4d(y, planes, 1, h.out, w.out);
  call("cudnnSetPooling2dDescriptor", pool.get(), mode, kPropagateNan, as_int(h.kernel),
       as_int(w.kernel), as_int(h.pad_begin), as_int(w.pad_begin), as_int(h.stride),
       as_int(w.stride));
  call("cudnnPoolingForward", handle(), pool.get(), one(), x.get(), bytes(c, 0), zero(), y.get(),
       output(c));
}

template <int mode, bool Global>
Refusal refuse_pool(const Problem& problem) {
  if (problem.outputs.size() > 1) return "gives no indices";
  const PoolGeometry g = geometry<Global>(problem);
  if (g.window.spatial > 2) return "takes one or two spatial axes";
  for (const WindowAxis& a : g.window.axes) {
    if (a.dilation != 1) return "takes no dilation";
    // The library places windows from the padding on and knows no other end.
    if (a.pad_begin != a.pad_end || a.out != (a.in + 2 * a.pad_begin - a.kernel) / a.stride + 1)
      return "pads alike on both sides of an axis and rounds extents down";
  }
  if constexpr (!Global && (mode == kAverage || mode == kAverageWithPadding)) {
    const auto& p = problem.params->as<AvgPoolParams>();
    if (p.divisor_override != 0) return "divides by the elements of the window";
    if (p.count_include_pad != (mode == kAverageWithPadding))
      return mode == kAverage ? "counts elements inside" : "counts padding too";
  }
  return dnn::refuse(problem);
}

// ---- softmax ------------------------------------------------------------------------------------

enum Softmax : int { kFast = 0, kAccurate = 1, kLog = 2 };
constexpr int kChannel = 1;

template <int algorithm>
void enqueue_softmax(const KernelCall& c, Work&) {
  const SoftmaxGeometry g = softmax_geometry(c.params<SoftmaxParams>(), c.input(0).shape());
  const Described x("Tensor"), y("Tensor");
  const std::int64_t inner = g.stride, outer = c.input(0).numel() / (g.length * inner);
  for (const Described* d : {&x, &y}) dnn::set_4d(*d, outer, g.length, inner, 1);
  call("cudnnSoftmaxForward", handle(), algorithm, kChannel, one(), x.get(), bytes(c, 0), zero(),
       y.get(), output(c));
}

Refusal refuse_softmax(const Problem& problem) { return dnn::refuse(problem); }

// ---- normalisation ------------------------------------------------------------------------------

void enqueue_lrn(const KernelCall& c, Work&) {
  const auto& p = c.params<LrnParams>();
  const Shape& s = c.input(0).shape();
  const Described x("Tensor"), y("Tensor"), lrn("LRN");
  for (const Described* d : {&x, &y}) dnn::set_4d(*d, s[0], s[1], s.product(2, s.rank()), 1);
  call("cudnnSetLRNDescriptor", lrn.get(), static_cast<unsigned>(p.size),
       static_cast<double>(p.alpha), static_cast<double>(p.beta), static_cast<double>(p.bias));
  constexpr int kAcrossChannels = 0;
  call("cudnnLRNCrossChannelForward", handle(), lrn.get(), kAcrossChannels, one(), x.get(),
       bytes(c, 0), zero(), y.get(), output(c));
}

Refusal refuse_lrn(const Problem& problem) {
  const auto& p = problem.params->as<LrnParams>();
  if (p.size > 16) return "takes at most 16 channels";
  if (!p.alpha_divided || p.longer_below) return "divides alpha by the size, longer above";
  return dnn::refuse(problem);
}

void enqueue_batch_norm(const KernelCall& c, Work&) {
  const auto& p = c.params<BatchNormParams>();
  const Shape& s = c.input(0).shape();
  const Described x("Tensor"), y("Tensor"), channels("Tensor");
  for (const Described* d : {&x, &y}) dnn::set_4d(*d, s[0], s[1], s.product(2, s.rank()), 1);
  dnn::set_4d(channels, 1, s[1], 1, 1);
  constexpr int kSpatial = 1;
  call("cudnnBatchNormalizationForwardInference", handle(), kSpatial, one(), zero(), x.get(),
       bytes(c, 0), y.get(), output(c), channels.get(), bytes(c, 1), bytes(c, 2), bytes(c, 3),
       bytes(c, 4), static_cast<double>(p.eps));
}

Refusal refuse_batch_norm(const Problem& problem) {
  const auto& p = problem.params->as<BatchNormParams>();
  if (!p.spatial || p.axis != 1 || problem.input(0).shape.rank() < 2)
    return "takes channels on axis 1";
  return dnn::refuse(problem);
}

// ---- activations --------------------------------------------------------------------------------

enum Activation : int { kSigmoid = 0, kRelu = 1, kTanh = 2 };

template <int mode>
void enqueue_activation(const KernelCall& c, Work&) {
  const Described x("Tensor"), y("Tensor"), activation("Activation");
  for (const Described* d : {&x, &y}) dnn::set_4d(*d, 1, 1, 1, c.input(0).numel());
  call("cudnnSetActivationDescriptor", activation.get(), mode, kPropagateNan, 0.0);
  call("cudnnActivationForward", handle(), activation.get(), one(), x.get(), bytes(c, 0), zero(),
       y.get(), output(c));
}

Refusal refuse_activation(const Problem& problem) { return dnn::refuse(problem); }

template <Enqueue f>
DeviceRow row(std::string_view op, std::string_view name, Refusal (*refuse)(const Problem&)) {
  return vendor_row<f>(op, name, refuse, [] { return cudnn().version; });
}

template <int mode, bool Global>
DeviceRow pool_row(std::string_view op, std::string_view name) {
  return row<enqueue_pool<mode, Global>>(op, name, refuse_pool<mode, Global>);
}

}  // namespace

std::span<const DeviceRow> cudnn_layer_rows() {
  static const DeviceRow rows[] = {
      pool_row<kMax, false>("max_pool", "cudnn.max_pool"),
      pool_row<kMaxDeterministic, false>("max_pool", "cudnn.max_pool.deterministic"),
      pool_row<kMax, true>("global_max_pool", "cudnn.global_max_pool"),
      pool_row<kAverage, false>("avg_pool", "cudnn.avg_pool"),
      pool_row<kAverageWithPadding, false>("avg_pool", "cudnn.avg_pool.with_padding"),
      pool_row<kAverage, true>("global_avg_pool", "cudnn.global_avg_pool"),
      row<enqueue_softmax<kFast>>("softmax", "cudnn.softmax.fast", refuse_softmax),
      row<enqueue_softmax<kAccurate>>("softmax", "cudnn.softmax.accurate", refuse_softmax),
      row<enqueue_softmax<kLog>>("log_softmax", "cudnn.log_softmax", refuse_softmax),
      row<enqueue_lrn>("lrn", "cudnn.lrn", refuse_lrn),
      row<enqueue_batch_norm>("batch_norm", "cudnn.batch_norm", refuse_batch_norm),
      row<enqueue_activation<kSigmoid>>("sigmoid", "cudnn.sigmoid", refuse_activation),
      row<enqueue_activation<kRelu>>("relu", "cudnn.relu", refuse_activation),
      row<enqueue_activation<kTanh>>("tanh", "cudnn.tanh", refuse_activation)};
  return rows;
}

}  // namespace etalon::cuda
