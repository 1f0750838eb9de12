#include "engine/ops/integer.h"

namespace etalon {
namespace {

std::vector<TensorType> infer_conv_integer(const Params& params, const InferInputs& in) {
  for (const std::size_t i : {0U, 1U})
    if (in.dtype(i) != DType::i8 && in.dtype(i) != DType::u8)
      throw bad_input("{} must be i8 or u8, got {}", i == 0 ? "x" : "w", name(in.dtype(i)));
  const ConvGeometry g = conv_geometry(params.as<ConvParams>(), in.shape(0), in.shape(1));
  for (const std::size_t i : {2U, 3U}) {
    if (!in.has(i)) continue;
    if (in.dtype(i) != in.dtype(i - 2))
      throw bad_input("{} is {} and its tensor {}; they must be one type",
                      i == 2 ? "x_zero" : "w_zero", name(in.dtype(i)), name(in.dtype(i - 2)));
    const std::int64_t count = in.shape(i).numel();
    if (count != 1 && (i == 2 || count != g.out_channels))
      throw bad_input("{} has {} elements", i == 2 ? "x_zero" : "w_zero", count);
  }
  return {{DType::i32, g.output_shape()}};
}

}  // namespace

std::span<const OpRow> integer_ops() {
  static const OpRow rows[] = {
      {.name = "conv_integer",
       .summary = "Convolution of 8-bit integers with zero points, in i32.",
       .nature = OpNature::discrete,
       .min_inputs = 2,
       .max_inputs = 4,
       .defaults = [] { return Params(ConvParams{}); },
       .infer = infer_conv_integer,
       .input_names = [] { return std::vector<std::string_view>{"x", "w", "x_zero", "w_zero"}; }},
  };
  return rows;
}

}  // namespace etalon
