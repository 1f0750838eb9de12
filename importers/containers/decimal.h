// Decimal numbers in text, whatever the process's locale takes for a decimal point: strtod asks it,
// and a program that calls setlocale(LC_ALL, "") in Germany makes 0 of "0.001".
#pragma once

#include <cstddef>
#include <string_view>

namespace etalon {

struct Decimal {
  double value = 0;      // correctly rounded; beyond the range infinity or zero, with its sign
  std::size_t used = 0;  // characters; 0 where text begins with no number
};

// The number that text begins with: [+-] digits [. digits] [e exponent], inf or nan.
Decimal read_decimal(std::string_view text);

}  // namespace etalon
