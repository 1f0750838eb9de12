// One element of a tensor of any type, as a double and back: for definitions and checks, which are
// written once over doubles. Exact for every floating type and for integers up to 2^53; larger ones
// round to nearest.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

#include "engine/core/tensor.h"
#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

ETALON_HD inline double element_as_double(double x) { return x; }
ETALON_HD inline double element_as_double(float x) { return static_cast<double>(x); }
ETALON_HD inline double element_as_double(Float16 x) { return to_double(x); }
ETALON_HD inline double element_as_double(BFloat16 x) { return to_double(x); }
ETALON_HD inline double element_as_double(Bool x) { return x.value != 0 ? 1.0 : 0.0; }
template <class T>
  requires std::is_integral_v<T>
ETALON_HD double element_as_double(T x) {
  return static_cast<double>(x);
}

ETALON_HD inline double load_as_double(DType dtype, const std::byte* bytes, std::int64_t i) {
  return visit_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    return element_as_double(reinterpret_cast<const T*>(bytes)[i]);
  });
}
inline double load_as_double(const Tensor& tensor, std::int64_t i) {
  return load_as_double(tensor.dtype(), tensor.bytes().data(), i);
}

// Cut toward zero and held to the type's ends; NaN is 0.
template <class T>
ETALON_HD T integer_element(double r) {
  using Limits = std::numeric_limits<T>;
  // 2^digits is exact in double, so the comparison is too.
  const double end = power_of_two(Limits::digits);
  if (r != r) return 0;
  if (r >= end) return Limits::max();
  if (r <= (std::is_signed_v<T> ? -end : 0.0)) return Limits::min();
  return static_cast<T>(r);
}

// Stores a value. Floating types: rounded once as asked, NaN canonical. Integers: cut toward zero
// and held at the ends of the type, NaN is 0. Bool: whether it is not zero.
ETALON_NOINLINE inline void store_from_double(DType dtype, std::byte* bytes, std::int64_t i,
                                              double x, Round round = Round::nearest_even,
                                              Subnormals subnormals = Subnormals::keep) {
  const double r = is_floating(dtype) ? round_to(x, dtype, round, subnormals) : x;
  visit_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    T& slot = reinterpret_cast<T*>(bytes)[i];
    if constexpr (std::is_same_v<T, double>) {
      slot = r;
    } else if constexpr (std::is_same_v<T, float>) {
      slot = canonical(static_cast<float>(r));
    } else if constexpr (std::is_same_v<T, Float16>) {
      slot = encode_float16(r);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      slot = encode_bfloat16(r);
    } else if constexpr (std::is_same_v<T, Bool>) {
      slot.value = r != 0 ? 1 : 0;
    } else {
      slot = integer_element<T>(r);
    }
  });
}
inline void store_from_double(std::span<std::byte> bytes, DType dtype, std::int64_t i, double x,
                              Round round = Round::nearest_even,
                              Subnormals subnormals = Subnormals::keep) {
  store_from_double(dtype, bytes.data(), i, x, round, subnormals);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
