// Number formats of at most 8 bits that have no element type of their own: what a byte means, and
// which byte a number becomes.
//
//   f8e4m3fn    sign, 4 exponent bits (bias 7), 3 of significand; no infinity; 7f and ff are NaN
//   f8e4m3fnuz  the same fields with bias 8; no infinity, no -0; 80 is the one NaN
//   f8e5m2      5 exponent bits (bias 15), 2 of significand; infinities and NaN as in IEEE 754
//   f8e5m2fnuz  bias 16; no infinity, no -0; 80 is the one NaN
//   f8e8m0      2^(byte - 127), a power of two; ff is NaN; no sign, no zero
//   f4e2m1      sign, 2 exponent bits (bias 1), 1 of significand; every code is a finite number
//   i4 u4 i2 u2 integers; i4 and i2 are held sign-extended, as the i8 of the same value
//
// Of a byte that holds fewer bits, the others are ignored when it is read. To a code: rounded once
// to the nearest, ties to the even code; then
//   saturate      what lies beyond the largest finite number, infinities too, becomes that number
//   not saturate  it becomes an infinity (f8e5m2) or NaN; f4e2m1 always saturates
// NaN: NaN with its sign where the format has one; the largest number (f4e2m1); 0 (integers). A
// number for an integer is cut toward zero and held at the ends.
// f8e8m0: rounded up (away from zero), down, or to the nearest with ties up; saturated at both
// ends, else NaN beyond them; zero is the smallest code (saturate) or NaN; a negative number is
// NaN. Sources: ONNX, Cast-25 and "Float stored in 8 bits"; Micikevicius et al., arXiv:2209.05433;
// Noune et al., arXiv:2206.02915; OCP Microscaling Formats 1.0.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"

namespace etalon {

enum class Code : std::uint8_t {
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i4,
  u4,
  i2,
  u2
};
enum class CodeRound { up, down, nearest };  // of f8e8m0

std::string_view name(Code format);
double code_value(Code format, std::uint8_t byte);
std::uint8_t code_of(Code format, double x, bool saturate = true, CodeRound e8m0 = CodeRound::up);
int code_bits(Code format);  // 2, 4 or 8
constexpr bool is_integer_code(Code format) { return format >= Code::i4; }
// The element type that holds the bytes: i8 for i4 and i2, u8 for the others.
constexpr DType code_storage(Code format) {
  return format == Code::i4 || format == Code::i2 ? DType::i8 : DType::u8;
}
// The ends of an integer format: [-8, 7], [0, 15], [-2, 1], [0, 3].
struct CodeRange {
  int low, high;
};
CodeRange code_range(Code format);

}  // namespace etalon
