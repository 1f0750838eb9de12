// What the ops of TensorFlow Lite's integers check alike, and the row they have in common.
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "engine/ops/op.h"

namespace etalon::tflite_checks {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

inline bool is_quantized(DType d) { return d == DType::i8 || d == DType::u8 || d == DType::i16; }

inline void require_quantized(const InferInputs& in, std::size_t i, std::string_view what) {
  if (!is_quantized(in.dtype(i)))
    throw bad_input("{} must be i8, u8 or i16, got {}", what, name(in.dtype(i)));
}

inline void check_scale(float scale, std::string_view what) {
  if (!(scale > 0) || scale == std::numeric_limits<float>::infinity())
    throw bad_input("{} is {}; a scale is positive and finite", what, scale);
}

inline void check_zero(std::int64_t zero, DType dtype, std::string_view what) {
  if (dtype == DType::i32) {
    if (zero != static_cast<std::int32_t>(zero))
      throw bad_input("{} of {}; a zero point is a number of i32", what, zero);
    return;
  }
  const bool wide = dtype == DType::i16, is_unsigned = dtype == DType::u8;
  const std::int64_t low = wide ? -32768 : is_unsigned ? 0 : -128;
  if (zero < low || zero > low + (wide ? 65535 : 255))
    throw bad_input("{} of {}; a zero point is a number of {}", what, zero, name(dtype));
}

template <class P>
OpRow row(std::string_view name, std::string_view summary, int inputs,
          Types (*infer)(const Params&, const InferInputs&)) {
  return {.name = name,
          .summary = summary,
          .nature = OpNature::discrete,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .defaults = [] { return Params(P{}); },
          .infer = infer};
}

}  // namespace etalon::tflite_checks
