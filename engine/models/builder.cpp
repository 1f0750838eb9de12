#include "engine/models/builder.h"

#include <cmath>

#include "engine/core/philox.h"
#include "engine/core/threads.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/layout.h"
#include "engine/ops/normalization.h"
#include "engine/ops/pool.h"

namespace etalon {
namespace {

constexpr std::uint64_t kSeed = 1;

// [-1, 1) times `bound`, plus `centre`: one product and one sum, each rounded to f32, so that any
// language makes the same weights.
Tensor uniform(const Shape& shape, std::uint64_t stream, float bound, float centre) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const std::span<float> out = t.mutable_data<float>();
  const Philox random{kSeed, stream};
  parallel_for(t.numel(), hardware_threads(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += 4) {
      const auto words = random.block(static_cast<std::uint64_t>(i) / 4);
      for (std::int64_t j = i; j < std::min(end, i + 4); ++j) {
        const auto word = static_cast<std::int32_t>(words[static_cast<std::size_t>(j - i)] >> 8);
        const float scaled = static_cast<float>(word - (1 << 23)) * 0x1p-23F * bound;
        out[static_cast<std::size_t>(j)] = scaled + centre;
      }
    }
  });
  return t;
}

// The bound of a uniform distribution of variance 2 / fan_in.
double he_bound(std::int64_t fan_in) { return std::sqrt(6.0 / static_cast<double>(fan_in)); }

}  // namespace

ValueId NetworkBuilder::input(const std::string& name, DType dtype, const Ints& dims_of_a_sample) {
  Ints dims{-1};
  dims.insert(dims.end(), dims_of_a_sample.begin(), dims_of_a_sample.end());
  return graph_.input(name, dtype, dims);
}

ValueId NetworkBuilder::weight(const std::string& name, const Shape& shape, double bound,
                               double centre) {
  return graph_.constant(
      name, uniform(shape, weights_++, static_cast<float>(bound), static_cast<float>(centre)));
}

ValueId NetworkBuilder::op(const std::string& op, const std::string& name,
                           const std::vector<ValueId>& inputs, Params params) {
  return graph_.node(op, name, inputs, std::move(params));
}

ValueId NetworkBuilder::op(const std::string& op, const std::string& name,
                           const std::vector<ValueId>& inputs) {
  return graph_.op(op, name, inputs);
}

ValueId NetworkBuilder::conv(const std::string& name, ValueId x, const ConvLayer& layer) {
  const std::int64_t in = shape(x)[1] / layer.groups;
  const std::int64_t fan_in = in * layer.kernel * layer.kernel;
  ConvParams params;
  params.strides = {layer.stride, layer.stride};
  params.pads_begin = params.pads_end = {layer.pad, layer.pad};
  params.groups = layer.groups;
  std::vector<ValueId> inputs{
      x, weight(name + ".weight", {layer.out, in, layer.kernel, layer.kernel}, he_bound(fan_in))};
  if (layer.bias)
    inputs.push_back(
        weight(name + ".bias", {layer.out}, 1 / std::sqrt(static_cast<double>(fan_in))));
  return op("conv", name, inputs, Params(params));
}

ValueId NetworkBuilder::batch_norm(const std::string& name, ValueId x, double scale) {
  const Shape channels{shape(x)[1]};
  return op("batch_norm", name,
            {x, weight(name + ".scale", channels, scale / 4, scale),
             weight(name + ".bias", channels, 0.1), weight(name + ".mean", channels, 0.1),
             weight(name + ".var", channels, 0.25, 1)},
            Params(BatchNormParams{}));
}

ValueId NetworkBuilder::relu(const std::string& name, ValueId x) { return op("relu", name, {x}); }

ValueId NetworkBuilder::max_pool(const std::string& name, ValueId x, std::int64_t kernel,
                                 std::int64_t stride, std::int64_t pad) {
  MaxPoolParams params;
  params.kernel = {kernel, kernel};
  params.strides = {stride, stride};
  params.pads_begin = params.pads_end = {pad, pad};
  return op("max_pool", name, {x}, Params(params));
}

ValueId NetworkBuilder::flatten(const std::string& name, ValueId x) {
  return op("flatten", name, {x}, Params(FlattenParams{}));
}

ValueId NetworkBuilder::fully_connected(const std::string& name, ValueId x, std::int64_t out) {
  const std::int64_t in = shape(x)[1];
  GemmParams params;
  params.trans_b = true;
  return op("gemm", name,
            {x, weight(name + ".weight", {out, in}, he_bound(in)),
             weight(name + ".bias", {out}, 1 / std::sqrt(static_cast<double>(in)))},
            Params(params));
}

Graph NetworkBuilder::finish(ValueId output) {
  graph_.output(output);
  return graph_.finish();
}

}  // namespace etalon
