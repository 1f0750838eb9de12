// Numbers that older model formats wrote as attributes and newer ones pass as tensors: axes, pads,
// sizes. The ops take both; an input that is given stands over the parameter of the same name.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

inline Ints ints_or(const InferInputs& in, std::size_t input, const Ints& param) {
  return in.has(input) ? to_int64_values(in.constant(input)) : param;
}

inline std::int64_t int_or(const InferInputs& in, std::size_t input, std::int64_t param,
                           std::string_view what) {
  if (!in.has(input)) return param;
  const Ints values = to_int64_values(in.constant(input));
  if (values.size() != 1)
    throw bad_input("{} must be one number, got {} of them", what, values.size());
  return values[0];
}

// Maps each axis into [0, rank), sorted as given; an axis named twice is refused.
inline Ints normalized_axes(const Ints& axes, int rank) {
  Ints result;
  std::uint32_t seen = 0;
  for (const std::int64_t axis : axes) {
    const int a = normalize_axis(axis, rank);
    if ((seen >> a & 1U) != 0) throw bad_input("axis {} is named twice", axis);
    seen |= 1U << a;
    result.push_back(a);
  }
  return result;
}

}  // namespace etalon
