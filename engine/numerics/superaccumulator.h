// Exact sums and dot products of doubles, of any length and range, rounded once.
//
// The sum is kept as an integer multiple of 2^-2176 in 32-bit digits, each in a signed 64-bit
// chunk, so that a term is added by two integer additions without a carry; carries are passed on
// after 900 terms (R. Neal: "Fast exact summation using small and large superaccumulators", arXiv
// 1505.05571). A double spans two chunks, a product of two doubles, taken exactly as a 106-bit
// integer, four. The range holds 2^63 terms or products of any finite doubles, so nothing overflows
// or is lost before the one rounding.
//
// Special values: NaN or infinities of both signs give NaN, one infinity gives itself; 0 * inf is
// NaN. The sum starts at +0: a zero sum is +0, or -0 rounding down unless every term was +0.
// Negating, scaling by a power of two and adding accumulators are exact.
#pragma once

#include <array>
#include <cstdint>

#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

class Superaccumulator {
 public:
  static constexpr int kLowestBit = -2176;  // of chunk 0; the lowest bit of a product is -2148
  static constexpr int kChunks = 136;       // 2^(32 * 136 - 2176) = 2^2176 > 2^63 * 2^2048

  void add(double x) {
    const std::uint64_t b = bits_of(x);
    const std::uint32_t e = static_cast<std::uint32_t>(b >> 52) & 0x7ffU;
    not_plus_zero_ |= b;
    std::uint64_t m = b & 0x000fffffffffffffU;
    if (e - 1 >= 0x7feU) [[unlikely]] {  // 0 or 0x7ff
      if (e == 0x7ff) return add_special(x);
      if (m == 0) return;
      add_magnitude(m, 1 - 1075 - kLowestBit, (b >> 63) != 0);
    } else {
      m |= std::uint64_t{1} << 52;
      add_magnitude(m, e + static_cast<std::uint32_t>(-1075 - kLowestBit), (b >> 63) != 0);
    }
  }
  void add(float x) { add(static_cast<double>(x)); }

  // a * b, exactly. For f32, f16 and bf16 the product is exact in f64, one addition of a double.
  void add_product(float a, float b) { add(static_cast<double>(a) * static_cast<double>(b)); }
  void add_product(double a, double b) {
    const std::uint64_t ua = bits_of(a), ub = bits_of(b);
    std::uint32_t ea = static_cast<std::uint32_t>(ua >> 52) & 0x7ffU;
    std::uint32_t eb = static_cast<std::uint32_t>(ub >> 52) & 0x7ffU;
    if (ea == 0x7ff || eb == 0x7ff) return add_special(a * b);
    std::uint64_t ma = ua & 0x000fffffffffffffU, mb = ub & 0x000fffffffffffffU;
    if (ea == 0)
      ea = 1;
    else
      ma |= std::uint64_t{1} << 52;
    if (eb == 0)
      eb = 1;
    else
      mb |= std::uint64_t{1} << 52;
    const uint128 p = static_cast<uint128>(ma) * mb;
    const bool negative = ((ua ^ ub) >> 63) != 0;
    not_plus_zero_ |= static_cast<std::uint64_t>(p != 0 || negative);
    const std::uint32_t position = ea + eb + static_cast<std::uint32_t>(-2150 - kLowestBit);
    const std::uint32_t i = position >> 5, s = position & 31;
    // Digits of p * 2^s: 106 + 31 bits are five of 32, the last two joined.
    const auto low = static_cast<std::uint64_t>(p), high = static_cast<std::uint64_t>(p >> 64);
    const std::uint64_t rest = low >> (32 - s);  // s <= 31
    add_chunk(i, (low << s) & kMask, negative);
    add_chunk(i + 1, rest & kMask, negative);
    add_chunk(i + 2, (rest >> 32) + ((high << s) & kMask), negative);
    add_chunk(i + 3, high >> (32 - s), negative);
    count();
  }

  void add(const Superaccumulator& other) {
    Superaccumulator copy = other;
    copy.propagate();
    propagate();
    for (std::size_t i = 0; i < kChunks; ++i) chunk_[i] += copy.chunk_[i];
    propagate();
    nan_ |= other.nan_;
    plus_infinity_ |= other.plus_infinity_;
    minus_infinity_ |= other.minus_infinity_;
    not_plus_zero_ |= other.not_plus_zero_;
  }

  bool finite() const { return !(nan_ || plus_infinity_ || minus_infinity_); }
  // The sum where it is not finite: NaN or an infinity.
  double special() const {
    if (nan_ || (plus_infinity_ && minus_infinity_)) return kNan;
    return plus_infinity_ ? kInfinity : -kInfinity;
  }

  // The finite sum as sign and 32-bit digits, least significant first; digit i weighs
  // 2^(32 i + kLowestBit). top is the index of the highest digit that is not zero, -1 for a zero
  // sum.
  struct Digits {
    std::array<std::uint32_t, kChunks> digit;
    int top = -1;
    bool negative = false;
  };
  Digits digits() const {
    Digits d;
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < kChunks; ++i) {
      const std::int64_t v = chunk_[i] + carry;
      d.digit[i] = static_cast<std::uint32_t>(v);
      carry = v >> 32;
    }
    d.negative = carry < 0;
    if (d.negative) {
      std::uint64_t borrow = 1;
      for (std::uint32_t& digit : d.digit) {
        borrow += static_cast<std::uint32_t>(~digit);
        digit = static_cast<std::uint32_t>(borrow);
        borrow >>= 32;
      }
    }
    for (int i = kChunks - 1; i >= 0 && d.top < 0; --i)
      if (d.digit[static_cast<std::size_t>(i)] != 0) d.top = i;
    return d;
  }

  // One rounding of the exact sum, times 2^scale.
  double round(DType to, Round mode = Round::nearest_even, Subnormals subnormals = Subnormals::keep,
               std::int64_t scale = 0) const {
    if (!finite()) return special();
    const Digits d = digits();
    if (d.top < 0) return mode == Round::downward && not_plus_zero_ != 0 ? -0.0 : 0.0;
    const Head h = head(d);
    return round_scaled(d.negative, h.m, h.q + scale, h.sticky, to, mode, subnormals);
  }

  // The sum in f64 (nearest even) and on which side of it the exact sum lies: -1 below, 0 equal, 1.
  struct Nearest {
    double value;
    int residual_sign;
  };
  Nearest nearest() const {
    const double value = round(DType::f64);
    if (!is_finite(value)) return {value, 0};
    Superaccumulator rest = *this;
    rest.add(-value);
    return {value, rest.sign()};
  }
  int sign() const {  // of a finite sum
    const Digits d = digits();
    return d.top < 0 ? 0 : d.negative ? -1 : 1;
  }

 private:
  static constexpr std::uint64_t kMask = 0xffffffffU;

  struct Head {
    std::uint64_t m;  // the leading 64 bits, top bit set
    std::int64_t q;
    bool sticky;
  };
  static Head head(const Digits& d) {
    const auto digit = [&](int i) -> std::uint64_t {
      return i < 0 ? 0 : d.digit[static_cast<std::size_t>(i)];
    };
    const std::uint64_t low = digit(d.top - 2);
    const int shift = __builtin_clz(static_cast<std::uint32_t>(digit(d.top)));
    Head h;
    h.m = (digit(d.top) << 32 | digit(d.top - 1)) << shift | (low << shift) >> 32;
    h.q = std::int64_t{32} * (d.top - 1) + kLowestBit - shift;
    h.sticky = ((low << shift) & kMask) != 0;
    for (int i = d.top - 3; i >= 0 && !h.sticky; --i) h.sticky = digit(i) != 0;
    return h;
  }

  void add_chunk(std::uint32_t i, std::uint64_t magnitude, bool negative) {
    const std::uint64_t sign = negative ? ~std::uint64_t{0} : 0;
    chunk_[i] += static_cast<std::int64_t>((magnitude ^ sign) - sign);
  }
  void add_magnitude(std::uint64_t m, std::uint32_t position, bool negative) {
    const std::uint32_t i = position >> 5, s = position & 31;
    add_chunk(i, (m << s) & kMask, negative);
    add_chunk(i + 1, m >> (32 - s), negative);
    count();
  }
  void add_special(double x) {
    if (x != x)
      nan_ = true;
    else if (x > 0)
      plus_infinity_ = true;
    else
      minus_infinity_ = true;
  }
  // A term adds less than 2^53 to a chunk, which holds less than 2^32 after propagate().
  void count() {
    if (++pending_ >= 900) [[unlikely]]
      propagate();
  }
  void propagate() {
    std::int64_t carry = 0;
    for (std::size_t i = 0; i + 1 < kChunks; ++i) {
      const std::int64_t v = chunk_[i] + carry;
      carry = v >> 32;
      chunk_[i] = v & static_cast<std::int64_t>(kMask);
    }
    chunk_[kChunks - 1] += carry;
    pending_ = 0;
  }

  std::array<std::int64_t, kChunks> chunk_{};
  int pending_ = 0;
  bool nan_ = false, plus_infinity_ = false, minus_infinity_ = false;
  std::uint64_t not_plus_zero_ = 0;
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
