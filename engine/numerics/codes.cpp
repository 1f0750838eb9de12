#include "engine/numerics/codes.h"

#include <array>
#include <cmath>
#include <limits>

#include "engine/core/error.h"

namespace etalon {
namespace {

enum class Special { none, ieee, fn, fnuz };

struct Format {
  int exponent_bits, fraction_bits, bias;
  Special special;
};

Format format_of_code(Code format) {
  switch (format) {
    case Code::f8e4m3fn:
      return {4, 3, 7, Special::fn};
    case Code::f8e4m3fnuz:
      return {4, 3, 8, Special::fnuz};
    case Code::f8e5m2:
      return {5, 2, 15, Special::ieee};
    case Code::f8e5m2fnuz:
      return {5, 2, 16, Special::fnuz};
    case Code::f4e2m1:
      return {2, 1, 1, Special::none};
    default:
      throw internal_error("{} is no floating code", name(format));
  }
}

constexpr double kNanValue = std::numeric_limits<double>::quiet_NaN();

double value_of(const Format& f, unsigned byte) {
  const unsigned fraction = byte & ((1U << f.fraction_bits) - 1);
  const unsigned exponent = (byte >> f.fraction_bits) & ((1U << f.exponent_bits) - 1);
  const unsigned last = (1U << f.exponent_bits) - 1;
  const bool negative = ((byte >> (f.fraction_bits + f.exponent_bits)) & 1U) != 0;
  const double sign = negative ? -1.0 : 1.0;
  if (f.special == Special::fnuz && byte == 0x80) return kNanValue;
  if (f.special == Special::fn && exponent == last && fraction == (1U << f.fraction_bits) - 1)
    return std::copysign(kNanValue, sign);
  if (f.special == Special::ieee && exponent == last)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::copysign(kNanValue, sign);
  const int e = (exponent == 0 ? 1 : static_cast<int>(exponent)) - f.bias - f.fraction_bits;
  const unsigned whole = exponent == 0 ? fraction : fraction + (1U << f.fraction_bits);
  return sign * std::ldexp(static_cast<double>(whole), e);
}

// The code of the largest finite number, without its sign.
unsigned largest_code(const Format& f) {
  const unsigned all = (1U << (f.exponent_bits + f.fraction_bits)) - 1;
  if (f.special == Special::fn) return all - 1;
  if (f.special == Special::ieee) return all - (1U << f.fraction_bits);
  return all;
}

unsigned encode(const Format& f, double x, bool saturate) {
  const unsigned sign = std::signbit(x) ? 1U << (f.exponent_bits + f.fraction_bits) : 0U;
  const unsigned largest = largest_code(f);
  if (std::isnan(x)) {
    if (f.special == Special::fnuz) return 0x80;
    if (f.special == Special::fn) return sign | 0x7fU;
    if (f.special == Special::ieee) return sign | 0x7eU;  // quiet
    return largest;
  }
  const double magnitude = std::abs(x);
  // In units of the last place: the quantum of x's binade, at least that of the subnormals.
  unsigned code = 0;
  bool beyond = std::isinf(magnitude);
  if (!beyond && magnitude != 0) {
    int e = 0;
    std::frexp(magnitude, &e);
    const int exponent = std::max(e - 1, 1 - f.bias);
    if (exponent > 2 * f.bias + 1) {
      beyond = true;
    } else {
      const double units = std::ldexp(magnitude, f.fraction_bits - exponent);
      double whole = std::floor(units);
      const double rest = units - whole;
      if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) != 0)) whole += 1;
      // A carry into the next binade is the next code, as codes are ordered like their values.
      const int biased = exponent + f.bias - 1;
      code = static_cast<unsigned>(biased * (1 << f.fraction_bits) + static_cast<int>(whole));
      beyond = code > largest;
    }
  }
  if (beyond) {
    if (saturate || f.special == Special::none)
      code = largest;
    else if (f.special == Special::ieee)
      code = largest + 1;
    else
      return f.special == Special::fnuz ? 0x80U : sign | 0x7fU;
  }
  if (code == 0 && f.special == Special::fnuz) return 0;
  return sign | code;
}

std::uint8_t encode_e8m0(double x, bool saturate, CodeRound round) {
  constexpr std::uint8_t kNanCode = 0xff, kLargest = 0xfe;
  if (std::isnan(x) || x < 0) return kNanCode;
  if (std::isinf(x)) return saturate ? kLargest : kNanCode;
  if (x == 0) return saturate ? 0 : kNanCode;
  int e = 0;
  const double fraction = std::frexp(x, &e);  // in [1/2, 1)
  int power = e - 1;
  if (fraction != 0.5 &&
      (round == CodeRound::up || (round == CodeRound::nearest && fraction >= 0.75)))
    ++power;
  if (power > 127) return saturate ? kLargest : kNanCode;
  if (power < -127) return saturate ? 0 : kNanCode;
  return static_cast<std::uint8_t>(power + 127);
}

}  // namespace

std::string_view name(Code format) {
  constexpr std::string_view kNames[] = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0",
                                         "f4e2m1",   "i4",         "u4",     "i2",         "u2"};
  return kNames[static_cast<std::size_t>(format)];
}

int code_bits(Code format) {
  switch (format) {
    case Code::i2:
    case Code::u2:
      return 2;
    case Code::i4:
    case Code::u4:
    case Code::f4e2m1:
      return 4;
    default:
      return 8;
  }
}

CodeRange code_range(Code format) {
  const int half = 1 << (code_bits(format) - 1);
  if (format == Code::i4 || format == Code::i2) return {-half, half - 1};
  return {0, 2 * half - 1};
}

double code_value(Code format, std::uint8_t byte) {
  if (format == Code::f8e8m0)
    return byte == 0xff ? kNanValue : std::ldexp(1.0, static_cast<int>(byte) - 127);
  const unsigned bits = byte & ((1U << code_bits(format)) - 1);
  if (!is_integer_code(format)) return value_of(format_of_code(format), bits);
  const int value = static_cast<int>(bits), high = code_range(format).high;
  return value > high ? value - (1 << code_bits(format)) : value;
}

std::uint8_t code_of(Code format, double x, bool saturate, CodeRound e8m0) {
  if (format == Code::f8e8m0) return encode_e8m0(x, saturate, e8m0);
  if (!is_integer_code(format))
    return static_cast<std::uint8_t>(encode(format_of_code(format), x, saturate));
  if (std::isnan(x)) return 0;
  const CodeRange ends = code_range(format);
  const double held = std::min<double>(std::max<double>(std::trunc(x), ends.low), ends.high);
  return static_cast<std::uint8_t>(static_cast<int>(held));
}

}  // namespace etalon
