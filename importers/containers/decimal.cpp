#include "importers/containers/decimal.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace etalon {

Decimal read_decimal(std::string_view text) {
  const std::size_t plus = text.starts_with('+') && !text.starts_with("+-") ? 1 : 0;
  const std::string_view from = text.substr(plus);
  Decimal d;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), d.value);
  if (error == std::errc::invalid_argument) return {};
  const std::string_view number = from.substr(0, static_cast<std::size_t>(end - from.data()));
  d.used = plus + number.size();
  if (error == std::errc::result_out_of_range) {
    // Which end of the range it lies beyond is not said: a first digit says it, or the exponent.
    const std::size_t e = number.find_first_of("eE");
    const std::string_view whole = number.substr(0, std::min(number.find('.'), e));
    const bool small = e != std::string_view::npos
                           ? number.substr(e + 1).starts_with('-')
                           : whole.find_first_of("123456789") == std::string_view::npos;
    d.value = small ? 0.0 : std::numeric_limits<double>::infinity();
    if (number.starts_with('-')) d.value = -d.value;
  }
  return d;
}

}  // namespace etalon
