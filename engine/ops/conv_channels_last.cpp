#include "engine/ops/conv_channels_last.h"

#include "engine/ops/conv_shapes.h"

namespace etalon {
namespace {

using Dims = std::array<std::int64_t, kMaxRank>;

Shape shape_of(const Dims& dims, int rank) {
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

}  // namespace

Shape channels_first(const Shape& shape) {
  Dims dims{shape[0], shape.dim(-1)};
  for (int i = 1; i + 1 < shape.rank(); ++i) dims[static_cast<std::size_t>(i + 1)] = shape[i];
  return shape_of(dims, shape.rank());
}

Shape channels_last(const Shape& shape) {
  Dims dims{shape[0]};
  for (int i = 2; i < shape.rank(); ++i) dims[static_cast<std::size_t>(i - 1)] = shape[i];
  dims[static_cast<std::size_t>(shape.rank() - 1)] = shape[1];
  return shape_of(dims, shape.rank());
}

ConvGeometry conv_channels_last_geometry(const ConvParams& params, const Shape& x, const Shape& w) {
  if (x.rank() < 3) throw bad_input("x must be [N,spatial...,C], got {}", to_string(x));
  return conv_geometry(params, channels_first(x), w);
}

const OpRow& conv_channels_last_op() {
  static const OpRow row{
      .name = "conv_channels_last",
      .summary =
          "Convolution of tensors whose channels are the last axis (NHWC); the bits of conv.",
      .nature = OpNature::sum,
      .min_inputs = 2,
      .max_inputs = 3,
      .defaults = [] { return Params(ConvParams{}); },
      .infer =
          [](const Params& p, const InferInputs& in) {
            std::vector<TensorType> types = conv_output_type(
                conv_channels_last_geometry(p.as<ConvParams>(), in.shape(0), in.shape(1)), in);
            types[0].shape = channels_last(types[0].shape);
            return types;
          },
      .input_names = [] { return std::vector<std::string_view>{"x", "w", "b"}; },
  };
  return row;
}

}  // namespace etalon
