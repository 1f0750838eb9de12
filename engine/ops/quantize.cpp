#include "engine/ops/quantize.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;

Types infer_quantize(const Params& params, const InferInputs& in) {
  const auto& p = params.as<QuantizeParams>();
  if (!is_floating(in.dtype(0)) && in.dtype(0) != DType::i32)
    throw bad_input("x must be floating or i32, got {}", name(in.dtype(0)));
  quantize_geometry(p, in);
  const DType y = in.has(2)                ? in.dtype(2)
                  : p.output_dtype.empty() ? DType::u8
                                           : parse_dtype(p.output_dtype);
  if (y != DType::i8 && y != DType::u8 && y != DType::i16 && y != DType::u16)
    throw bad_input("y must be i8, u8, i16 or u16, got {}", name(y));
  return {{y, in.shape(0)}};
}

Types infer_dequantize(const Params& params, const InferInputs& in) {
  if (is_floating(in.dtype(0)) || size_bytes(in.dtype(0)) > 4 || in.dtype(0) == DType::boolean)
    throw bad_input("x must be an integer of at most 32 bits, got {}", name(in.dtype(0)));
  if (in.has(2) && in.dtype(2) != in.dtype(0))
    throw bad_input("zero_point is {} and x {}; they must be one type", name(in.dtype(2)),
                    name(in.dtype(0)));
  quantize_geometry(params.as<QuantizeParams>(), in);
  return {{in.dtype(1), in.shape(0)}};
}

std::vector<std::string_view> names() { return {"x", "scale", "zero_point"}; }

}  // namespace

QuantizeGeometry quantize_geometry(const QuantizeParams& params, const InferInputs& in) {
  const Shape &x = in.shape(0), &scale = in.shape(1);
  if (!is_floating(in.dtype(1)))
    throw bad_input("scale must be floating, got {}", name(in.dtype(1)));
  if (in.has(2) && in.shape(2) != scale)
    throw bad_input("zero_point {} must have the shape of scale {}", to_string(in.shape(2)),
                    to_string(scale));
  QuantizeGeometry g;
  if (scale.numel() == 1 && params.block_size == 0) return g;
  const int axis = normalize_axis(params.axis, x.rank());
  g.whole = false;
  g.extent = x[axis];
  g.inner = x.product(axis + 1, x.rank());
  if (params.block_size == 0) {
    if (scale != Shape{x[axis]})
      throw bad_input("scale must have 1 element or be [{}], got {}", x[axis], to_string(scale));
    return g;
  }
  if (params.block_size < 0) throw bad_input("block_size is {}", params.block_size);
  g.block = params.block_size;
  g.outer_varies = true;
  g.blocks = x[axis] / g.block + (x[axis] % g.block != 0 ? 1 : 0);
  if (scale != x.with_dim(axis, g.blocks))
    throw bad_input("with blocks of {} scale must be {}, got {}", g.block,
                    to_string(x.with_dim(axis, g.blocks)), to_string(scale));
  return g;
}

std::span<const OpRow> quantize_ops() {
  static const OpRow rows[] = {
      {.name = "quantize_linear",
       .summary = "round(x / scale) + zero_point, held at the ends of the type.",
       .nature = OpNature::discrete,
       .min_inputs = 2,
       .max_inputs = 3,
       .defaults = [] { return Params(QuantizeParams{}); },
       .infer = infer_quantize,
       .input_names = names},
      {.name = "dequantize_linear",
       .summary = "(x - zero_point) * scale.",
       .nature = OpNature::pointwise,
       .min_inputs = 2,
       .max_inputs = 3,
       .defaults = [] { return Params(QuantizeParams{}); },
       .infer = infer_dequantize,
       .input_names = names},
  };
  return rows;
}

}  // namespace etalon
