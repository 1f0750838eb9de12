// TensorFlow Lite's fixed-point factor: a real number as a multiplier and a shift (tflite.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace etalon::tflite {

template <class Raw>
inline constexpr int kWidth = 8 * static_cast<int>(sizeof(Raw));

// The doubled high half of a product, halves upward; the one that leaves the type is held.
template <class Raw>
Raw product(Raw a, Raw b) {
  constexpr std::int64_t kMin = std::numeric_limits<Raw>::min();
  constexpr std::int64_t kOne = std::int64_t{1} << (kWidth<Raw> - 1);
  if (a == kMin && b == kMin) return std::numeric_limits<Raw>::max();
  const std::int64_t both = std::int64_t{a} * b;
  return static_cast<Raw>((both + (both >= 0 ? kOne / 2 : 1 - kOne / 2)) / kOne);
}

// A real factor as a multiplier and a shift.
struct Multiplier {
  static constexpr std::int64_t kMin = std::numeric_limits<std::int32_t>::min(),
                                kMax = std::numeric_limits<std::int32_t>::max();
  std::int32_t m = 0;
  int shift = 0;

  Multiplier() = default;
  explicit Multiplier(double real) {
    if (real == 0) return;
    if (std::isinf(real)) {  // a quotient of scales beyond f32
      shift = 30;
      m = static_cast<std::int32_t>(kMax);
      return;
    }
    const double fraction = std::frexp(real, &shift);
    auto fixed = static_cast<std::int64_t>(std::round(fraction * 0x1p31));
    if (fixed == std::int64_t{1} << 31) {
      fixed /= 2;
      ++shift;
    }
    if (shift < -31) {
      shift = 0;
      fixed = 0;
    }
    if (shift > 30) {
      shift = 30;
      fixed = kMax;
    }
    m = static_cast<std::int32_t>(fixed);
  }

  // v stays within 32 bits wherever the scales are those of a trained network; beyond, the shift
  // wraps as the reference's unsigned arithmetic does.
  std::int32_t scaled(std::int32_t v) const {
    const auto widened =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(v) << (shift > 0 ? shift : 0));
    return divided_by_power(product(widened, m), shift < 0 ? -shift : 0);
  }
  // Rounds to nearest, halves away from zero.
  static std::int32_t divided_by_power(std::int32_t v, int exponent) {
    const auto mask = static_cast<std::int32_t>((std::int64_t{1} << exponent) - 1);
    const std::int32_t rest = v & mask;
    const std::int32_t threshold = (mask >> 1) + (v < 0 ? 1 : 0);
    return (v >> exponent) + (rest > threshold ? 1 : 0);
  }
  __extension__ using int128 = __int128;
  // v m 2^(shift - 31), rounded once, halves upward; held to 62 bits.
  std::int64_t scaled_once(std::int64_t v) const {
    const int total = 31 - shift;
    constexpr int128 kMost = int128{1} << 62;
    return static_cast<std::int64_t>(
        std::clamp((int128{v} * m + (int128{1} << (total - 1))) >> total, -kMost, kMost));
  }
  // m in 16 bits.
  std::int64_t reduced() const { return m < 0x7FFF0000 ? (m + (1 << 15)) >> 16 : 0x7FFF; }
  // The reference takes shifts below 8, and what leaves 32 bits wraps there; beyond, it is held.
  std::int32_t scaled(std::int64_t v) const {
    constexpr int kReferenceShifts = 8;
    const int total = 15 - shift;
    const int128 wide = int128{v} * reduced();
    const int128 moved =
        total > 0 ? (wide + (int128{1} << (total - 1))) >> total : wide * (int128{1} << -total);
    return static_cast<std::int32_t>(
        shift < kReferenceShifts ? moved : std::clamp<int128>(moved, kMin, kMax));
  }
};

}  // namespace etalon::tflite
