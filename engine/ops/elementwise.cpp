#include "engine/ops/elementwise.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

void require_same_types(const InferInputs& in) {
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in.has(i) && in.dtype(i) != in.dtype(0))
      throw bad_input("input {} is {} and input 0 {}; cast one", i, name(in.dtype(i)),
                      name(in.dtype(0)));
}

Shape broadcast_all(const InferInputs& in) {
  Shape shape = in.shape(0);
  for (std::size_t i = 1; i < in.size(); ++i) shape = broadcast(shape, in.shape(i));
  return shape;
}

Types infer_arithmetic(const Params&, const InferInputs& in) {
  require_same_types(in);
  if (in.dtype(0) == DType::boolean)
    throw bad_input("bool has no arithmetic; cast the operands to an integer type");
  return {{in.dtype(0), broadcast_all(in)}};
}

Types infer_floating_arithmetic(const Params& p, const InferInputs& in) {
  Types types = infer_arithmetic(p, in);
  if (!is_floating(in.dtype(0)))
    throw bad_input("defined on floating types, got {}; cast the operands", name(in.dtype(0)));
  return types;
}

Types infer_pow(const Params&, const InferInputs& in) {
  for (std::size_t i : {0U, 1U})
    if (in.dtype(i) == DType::boolean) throw bad_input("bool has no powers; cast the operands");
  if (!is_floating(in.dtype(0)) && is_floating(in.dtype(1)))
    throw bad_input("an {} base with an {} exponent has no result in {}; cast the base",
                    name(in.dtype(0)), name(in.dtype(1)), name(in.dtype(0)));
  return {{in.dtype(0), broadcast_all(in)}};
}

Types infer_clip(const Params&, const InferInputs& in) {
  require_same_types(in);
  for (std::size_t i : {1U, 2U})
    if (in.has(i) && in.shape(i).numel() != 1)
      throw bad_input("{} must be one element, got {}", i == 1 ? "min" : "max",
                      to_string(in.type(i)));
  if (in.dtype(0) == DType::boolean) throw bad_input("bool cannot be clipped");
  return {in.type(0)};
}

Types infer_comparison(const Params&, const InferInputs& in) {
  require_same_types(in);
  return {{DType::boolean, broadcast_all(in)}};
}

Types infer_order_comparison(const Params& p, const InferInputs& in) {
  if (in.dtype(0) == DType::boolean) throw bad_input("bool has no order; compare with equal");
  return infer_comparison(p, in);
}

Types infer_logic(const Params&, const InferInputs& in) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in.dtype(i) != DType::boolean)
      throw bad_input("input {} must be bool, got {}; cast it", i, name(in.dtype(i)));
  return {{DType::boolean, broadcast_all(in)}};
}

Types infer_bitwise(const Params&, const InferInputs& in) {
  require_same_types(in);
  if (is_floating(in.dtype(0)) || in.dtype(0) == DType::boolean)
    throw bad_input("bits of {} have no meaning here; give integers", name(in.dtype(0)));
  return {{in.dtype(0), broadcast_all(in)}};
}

Types infer_float_test(const Params&, const InferInputs& in) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("defined on floating types, got {}", name(in.dtype(0)));
  return {{DType::boolean, in.shape(0)}};
}

Types infer_where(const Params&, const InferInputs& in) {
  if (in.dtype(0) != DType::boolean)
    throw bad_input("the condition must be bool, got {}; cast it", name(in.dtype(0)));
  if (in.dtype(1) != in.dtype(2))
    throw bad_input("a is {} and b {}; cast one", name(in.dtype(1)), name(in.dtype(2)));
  return {{in.dtype(1), broadcast_all(in)}};
}

Types infer_cast(const Params& p, const InferInputs& in) {
  return {{p.as<CastParams>().to, in.shape(0)}};
}

Types infer_cast_like(const Params&, const InferInputs& in) { return {{in.dtype(1), in.shape(0)}}; }

Types infer_bit_cast(const Params& p, const InferInputs& in) {
  const DType to = p.as<BitCastParams>().to;
  if (size_bytes(to) != size_bytes(in.dtype(0)))
    throw bad_input("{} has {} bytes and {} {}; bits can only be read as a type of the same width",
                    name(in.dtype(0)), size_bytes(in.dtype(0)), name(to), size_bytes(to));
  return {{to, in.shape(0)}};
}

Names two_names() { return {"a", "b"}; }

OpRow binary(std::string_view name, std::string_view summary,
             Types (*infer)(const Params&, const InferInputs&),
             OpNature nature = OpNature::pointwise) {
  return {.name = name,
          .summary = summary,
          .nature = nature,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .input_names = two_names};
}

OpRow variadic(std::string_view name, std::string_view summary,
               Types (*infer)(const Params&, const InferInputs&), OpNature nature) {
  return {
      .name = name, .summary = summary, .nature = nature, .max_inputs = kVariadic, .infer = infer};
}

template <class P>
OpRow with(OpRow row) {
  row.defaults = [] { return Params(P{}); };
  return row;
}

}  // namespace

std::span<const OpRow> elementwise_ops() {
  constexpr auto kDiscrete = OpNature::discrete;
  static const OpRow rows[] = {
      binary("add", "a + b.", infer_arithmetic),
      binary("sub", "a - b.", infer_arithmetic),
      binary("mul", "a * b.", infer_arithmetic),
      binary("div", "a / b; integers cut toward zero.", infer_arithmetic),
      binary("pow", "a to the power b.", infer_pow),
      with<ModParams>(binary("mod", "Remainder, with the sign of the divisor or of the dividend.",
                             infer_arithmetic)),
      variadic("max", "The largest of the operands.", infer_arithmetic, OpNature::pointwise),
      variadic("min", "The smallest of the operands.", infer_arithmetic, OpNature::pointwise),
      variadic("sum", "The sum of the operands.", infer_floating_arithmetic, OpNature::sum),
      variadic("mean", "The mean of the operands.", infer_floating_arithmetic, OpNature::sum),
      {.name = "clip",
       .summary = "min(max(x, low), high).",
       .max_inputs = 3,
       .defaults = [] { return Params(ClipParams{}); },
       .infer = infer_clip,
       .input_names = [] { return Names{"x", "min", "max"}; }},
      binary("equal", "Whether a equals b.", infer_comparison, kDiscrete),
      binary("less", "Whether a < b.", infer_order_comparison, kDiscrete),
      binary("greater", "Whether a > b.", infer_order_comparison, kDiscrete),
      binary("less_or_equal", "Whether a <= b.", infer_order_comparison, kDiscrete),
      binary("greater_or_equal", "Whether a >= b.", infer_order_comparison, kDiscrete),
      binary("and", "Whether both hold.", infer_logic, kDiscrete),
      binary("or", "Whether one holds.", infer_logic, kDiscrete),
      binary("xor", "Whether exactly one holds.", infer_logic, kDiscrete),
      {.name = "not",
       .summary = "Whether it does not hold.",
       .nature = kDiscrete,
       .infer = infer_logic},
      binary("bitwise_and", "Bits set in both.", infer_bitwise, kDiscrete),
      binary("bitwise_or", "Bits set in one.", infer_bitwise, kDiscrete),
      binary("bitwise_xor", "Bits set in exactly one.", infer_bitwise, kDiscrete),
      {.name = "bitwise_not",
       .summary = "Bits not set.",
       .nature = kDiscrete,
       .infer = infer_bitwise},
      with<BitShiftParams>(binary("bit_shift", "a shifted by b bits.", infer_bitwise, kDiscrete)),
      {.name = "is_nan",
       .summary = "Whether it is not a number.",
       .nature = kDiscrete,
       .infer = infer_float_test},
      {.name = "is_inf",
       .summary = "Whether it is infinite.",
       .nature = kDiscrete,
       .defaults = [] { return Params(IsInfParams{}); },
       .infer = infer_float_test},
      {.name = "where",
       .summary = "a where the condition holds, else b.",
       .nature = OpNature::movement,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_where,
       .input_names = [] { return Names{"condition", "a", "b"}; }},
      {.name = "cast",
       .summary = "The same values in another element type.",
       .defaults = [] { return Params(CastParams{}); },
       .infer = infer_cast},
      {.name = "cast_like",
       .summary = "The same values in the element type of another tensor.",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_cast_like,
       .input_names = [] { return Names{"x", "like"}; }},
      {.name = "bit_cast",
       .summary = "The same bits read as another element type.",
       .nature = OpNature::movement,
       .defaults = [] { return Params(BitCastParams{}); },
       .infer = infer_bit_cast},
  };
  return rows;
}

}  // namespace etalon
