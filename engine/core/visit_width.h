// Bits that are moved or counted without a meaning: an element by its size alone.
#pragma once

#include <cstdint>

namespace etalon {

// f(T{}) for the unsigned type of so many bytes: 1, 2, 4 or 8.
template <class F>
void visit_width(int bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace etalon
