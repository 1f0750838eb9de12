// Element types of tensors. The table is open by row: a new format is one enumerator, one row in
// dtype.cpp and, where C++ needs to address it, one storage type here.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/numerics/host_device.h"

namespace etalon {

enum class DType : std::uint8_t {
  f64,
  f32,
  bf16,
  f16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};
inline constexpr int kDTypeCount = 13;

enum class DTypeClass : std::uint8_t { floating, signed_integer, unsigned_integer, boolean };

struct DTypeInfo {
  std::string_view name;  // as printed, hashed and written in neutral JSON: "f32"
  int size_bytes;
  DTypeClass kind;
  int precision_bits;  // significand with the hidden bit; 0 for non-floating types
  int min_exponent;    // exponent of the smallest normal number: -126 for f32
  int max_exponent;    // exponent of the largest finite number: 127 for f32
};

const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) { return info(dtype).name; }
inline int size_bytes(DType dtype) { return info(dtype).size_bytes; }
// The floating types stand first (a test holds this to the table).
ETALON_HD constexpr bool is_floating(DType dtype) { return dtype <= DType::f16; }
constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Parses "f32"; throws a usage Error that lists the names.
DType parse_dtype(std::string_view name);

// Storage only: arithmetic on these goes through engine/numerics.
struct Float16 {
  std::uint16_t bits;
  friend bool operator==(Float16, Float16) = default;
};
struct BFloat16 {
  std::uint16_t bits;
  friend bool operator==(BFloat16, BFloat16) = default;
};
// One byte, 0 or 1. A type of its own so that a tensor of bool is never mistaken for u8.
struct Bool {
  std::uint8_t value;
  friend bool operator==(Bool, Bool) = default;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<Bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f(T{}) with the C++ type that stores `dtype`: visit_dtype(d, [&](auto t) { using T =
// decltype(t); ... }).
template <class F>
ETALON_HD decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Float16{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      break;
  }
  return f(Bool{});
}

}  // namespace etalon
