// conv and conv_channels_last by oneDNN: f32, bf16 or f16 in memory, one row for each of its
// algorithms. Nothing is promised about bits.
#include "kernels/conv/onednn.h"

#include "engine/ops/conv_channels_last.h"
#include "kernels/backends/onednn/onednn.h"

namespace etalon {
namespace {

using dnnl::algorithm;
using dnnl::convolution_forward;

// oneDNN counts channels before places, wherever they lie.
dnnl::memory::dims x_dims(const Problem& problem, bool last) {
  const Shape& x = problem.input(0).shape;
  return onednn::dims_of(last ? channels_first(x) : x);
}

// [N,C,spatial] as our tensor has it.
dnnl::memory::desc as_it_lies(const dnnl::memory::dims& dims, dnnl::memory::data_type type,
                              bool last) {
  if (!last) return onednn::plain(dims, type);
  dnnl::memory::dims strides(dims.size());
  strides[1] = 1;
  dnnl::memory::dim step = dims[1];
  for (std::size_t i = dims.size() - 1; i >= 2; step *= dims[i--]) strides[i] = step;
  strides[0] = step;
  return {dims, type, strides};
}

convolution_forward::primitive_desc describe(const Problem& problem, algorithm algo, bool last) {
  const auto geometry = last ? conv_channels_last_geometry : conv_geometry;
  const ConvGeometry g =
      geometry(problem.params->as<ConvParams>(), problem.input(0).shape, problem.input(1).shape);
  dnnl::memory::dims w = onednn::dims_of(problem.input(1).shape);
  if (g.groups > 1) {
    w[0] = g.group_out();
    w.insert(w.begin(), g.groups);
  }
  dnnl::memory::dims strides, dilations, begin, end;
  for (int i = 0; i < g.window.spatial; ++i) {
    const WindowAxis& a =
        g.window.axes[static_cast<std::size_t>(kMaxSpatial - g.window.spatial + i)];
    strides.push_back(a.stride);
    dilations.push_back(a.dilation - 1);  // oneDNN counts the gaps
    begin.push_back(a.pad_begin);
    end.push_back((a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in - a.pad_begin);
  }
  const auto type = onednn::type_of(problem.input(0).dtype);
  const auto x = onednn::any_layout(x_dims(problem, last), type);
  const auto y = onednn::any_layout(onednn::dims_of(g.output_shape()), type);
  const auto weights = onednn::any_layout(w, type);
  const auto kind = dnnl::prop_kind::forward_inference;
  if (problem.has(2))
    return {onednn::engine(),
            kind,
            algo,
            x,
            weights,
            onednn::plain({g.out_channels}, type),
            y,
            strides,
            dilations,
            begin,
            end,
            onednn::strict_f32()};
  return {onednn::engine(),    kind, algo, x, weights, y, strides, dilations, begin, end,
          onednn::strict_f32()};
}

std::shared_ptr<onednn::Operation> make(const Problem& problem, algorithm algo, bool last) {
  const auto pd = describe(problem, algo, last);
  const auto type = onednn::type_of(problem.input(0).dtype);
  std::vector<onednn::Operation::Operand> inputs{
      {DNNL_ARG_SRC, as_it_lies(x_dims(problem, last), type, last), pd.src_desc()},
      {DNNL_ARG_WEIGHTS, onednn::plain(pd.weights_desc().get_dims(), type), pd.weights_desc()}};
  if (problem.has(2))
    inputs.push_back(
        {DNNL_ARG_BIAS, onednn::plain(pd.bias_desc().get_dims(), type), pd.bias_desc()});
  auto op = std::make_shared<onednn::Operation>(
      convolution_forward(pd), inputs,
      onednn::Operation::Operand{DNNL_ARG_DST, as_it_lies(pd.dst_desc().get_dims(), type, last),
                                 pd.dst_desc()},
      pd.impl_info_str());
  if (const Tensor* w = problem.inputs[1].value) op->keep_constant(DNNL_ARG_WEIGHTS, *w);
  return op;
}

onednn::Dispatched& dispatched(algorithm algo) {
  static onednn::Dispatched direct, winograd, choice;
  return algo == algorithm::convolution_direct     ? direct
         : algo == algorithm::convolution_winograd ? winograd
                                                   : choice;
}

template <algorithm algo, bool last>
KernelRow row(std::string_view name) {
  return {.op = last ? "conv_channels_last" : "conv",
          .name = name,
          .promise = Promise::vendor,
          .contracts = "none",
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = onednn::refuse_cap(problem, onednn::Takes::halves_too)) return r;
            return onednn::refuse_unless_implemented([&] { describe(problem, algo, last); });
          },
          .run =
              [](const KernelCall& call) {
                const onednn::WithThreads scope(call.threads);
                const auto fresh =
                    call.prepared == nullptr ? make(*call.problem, algo, last) : nullptr;
                const auto& op = call.prepared == nullptr
                                     ? *fresh
                                     : *static_cast<const onednn::Operation*>(call.prepared);
                op.run(call);
                dispatched(algo).set(op.implementation());
              },
          .prepare = [](const Problem& problem, int threads) -> Prepared {
            const onednn::WithThreads scope(threads);
            return onednn::guarded("a convolution", [&] { return make(problem, algo, last); });
          },
          .version = [] { return dispatched(algo).version(); }};
}

}  // namespace

std::span<const KernelRow> onednn_conv_rows() {
  static const KernelRow rows[] = {
      row<algorithm::convolution_direct, false>("onednn.conv.direct"),
      row<algorithm::convolution_winograd, false>("onednn.conv.winograd"),
      row<algorithm::convolution_auto, false>("onednn.conv.auto"),
      row<algorithm::convolution_direct, true>("onednn.conv_channels_last.direct"),
      row<algorithm::convolution_auto, true>("onednn.conv_channels_last.auto"),
  };
  return rows;
}

}  // namespace etalon
