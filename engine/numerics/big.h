// Binary floating point of fixed, large precision: the midpoints of exact arithmetic (real.h).
//
// Big<L> is a sign, L 64-bit limbs with the top bit set, and a 64-bit exponent: m * 2^exponent.
// There is no underflow or overflow in practice: exponents are not checked, so operands must stay
// within 2^(+-2^60). Zeros carry a sign, infinities and NaN follow IEEE 754. Every operation
// truncates toward zero: the error is below one unit of the last place, 2^exponent of the result,
// and `inexact` is set (never cleared) exactly when it is not zero. So a run of operations that
// leaves `inexact` false has computed the real number itself. This is what ends the search for a
// correctly rounded result on algebraic ties.
#pragma once

#include <array>
#include <cstdint>

#include "engine/numerics/fp.h"
#include "engine/numerics/superaccumulator.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Unsigned integers of n limbs, least significant first. Not templates: one copy serves every size.
namespace limbs {

using Limb = std::uint64_t;

inline bool is_zero(const Limb* a, int n) {
  for (int i = 0; i < n; ++i)
    if (a[i] != 0) return false;
  return true;
}
inline int compare(const Limb* a, const Limb* b, int n) {
  for (int i = n - 1; i >= 0; --i)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}
// a += b, a -= b; the carry, the borrow.
inline Limb add(Limb* a, const Limb* b, int n) {
  Limb carry = 0;
  for (int i = 0; i < n; ++i) {
    const uint128 t = static_cast<uint128>(a[i]) + b[i] + carry;
    a[i] = static_cast<Limb>(t);
    carry = static_cast<Limb>(t >> 64);
  }
  return carry;
}
inline Limb subtract(Limb* a, const Limb* b, int n) {
  Limb borrow = 0;
  for (int i = 0; i < n; ++i) {
    const uint128 t = static_cast<uint128>(a[i]) - b[i] - borrow;
    a[i] = static_cast<Limb>(t);
    borrow = static_cast<Limb>(t >> 64) & 1;
  }
  return borrow;
}
inline Limb subtract_one(Limb* a, int n) {
  for (int i = 0; i < n; ++i)
    if (a[i]-- != 0) return 0;
  return 1;
}
inline void shift_left(Limb* a, int n, int count) {
  const int whole = count / 64, part = count % 64;
  for (int i = n - 1; i >= 0; --i) {
    const Limb high = i - whole >= 0 ? a[i - whole] : 0;
    const Limb low = i - whole - 1 >= 0 ? a[i - whole - 1] : 0;
    a[i] = part == 0 ? high : high << part | low >> (64 - part);
  }
}
// Returns whether a one was shifted out.
inline bool shift_right(Limb* a, int n, std::int64_t count) {
  if (count >= std::int64_t{64} * n) {
    const bool lost = !is_zero(a, n);
    for (int i = 0; i < n; ++i) a[i] = 0;
    return lost;
  }
  const int whole = static_cast<int>(count / 64), part = static_cast<int>(count % 64);
  bool lost = !is_zero(a, whole);
  if (part != 0) lost |= (a[whole] << (64 - part)) != 0;
  for (int i = 0; i < n; ++i) {
    const Limb low = i + whole < n ? a[i + whole] : 0;
    const Limb high = i + whole + 1 < n ? a[i + whole + 1] : 0;
    a[i] = part == 0 ? low : low >> part | high << (64 - part);
  }
  return lost;
}
inline int leading_zeros(const Limb* a, int n) {
  for (int i = n - 1; i >= 0; --i)
    if (a[i] != 0) return 64 * (n - 1 - i) + __builtin_clzll(a[i]);
  return 64 * n;
}
// r[0, 2n) = a * b.
inline void multiply(Limb* r, const Limb* a, const Limb* b, int n) {
  for (int i = 0; i < 2 * n; ++i) r[i] = 0;
  for (int i = 0; i < n; ++i) {
    if (a[i] == 0) continue;
    Limb carry = 0;
    for (int j = 0; j < n; ++j) {
      const uint128 t = static_cast<uint128>(a[i]) * b[j] + r[i + j] + carry;
      r[i + j] = static_cast<Limb>(t);
      carry = static_cast<Limb>(t >> 64);
    }
    r[i + n] = carry;
  }
}
// Knuth, TAOCP 4.3.1, algorithm D. u[0, n + q] is the dividend, its top limb 0 or small enough that
// the quotient has q limbs; d[0, n) has its top bit set. The remainder is left in u[0, n).
inline void divide(Limb* quotient, Limb* u, const Limb* d, int n, int q) {
  for (int j = q - 1; j >= 0; --j) {
    const uint128 head = static_cast<uint128>(u[j + n]) << 64 | u[j + n - 1];
    uint128 guess, rest;
    if (u[j + n] >= d[n - 1]) {
      guess = ~Limb{0};
      rest = head - guess * d[n - 1];
    } else {
      guess = head / d[n - 1];
      rest = head % d[n - 1];
    }
    if (n > 1)
      while ((rest >> 64) == 0 && guess * d[n - 2] > (rest << 64 | u[j + n - 2])) {
        --guess;
        rest += d[n - 1];
      }
    Limb borrow = 0, carry = 0;
    for (int i = 0; i < n; ++i) {
      const uint128 p = guess * d[i] + carry;
      carry = static_cast<Limb>(p >> 64);
      const uint128 t = static_cast<uint128>(u[i + j]) - static_cast<Limb>(p) - borrow;
      u[i + j] = static_cast<Limb>(t);
      borrow = static_cast<Limb>(t >> 64) & 1;
    }
    const uint128 t = static_cast<uint128>(u[j + n]) - carry - borrow;
    u[j + n] = static_cast<Limb>(t);
    if ((t >> 64) != 0) {
      --guess;
      u[j + n] += add(u + j, d, n);
    }
    quotient[j] = static_cast<Limb>(guess);
  }
}
// root[0, n) = floor(sqrt(a[0, 2n))), bit by bit; a becomes the remainder (a digit of it may exceed
// n limbs). Slow and plainly right; square roots are rare here.
inline void square_root(Limb* root, Limb* a, int n) {
  // Invariant: a = input - root^2. Trying bit b: root^2 grows by 2^b * (2 root + 2^b).
  for (int i = 0; i < n; ++i) root[i] = 0;
  std::array<Limb, 2 * 64> step{};
  for (int b = 64 * n - 1; b >= 0; --b) {
    for (int i = 0; i < 2 * n; ++i) step[static_cast<std::size_t>(i)] = i < n ? root[i] : 0;
    shift_left(step.data(), 2 * n, b + 1);  // root has zeros below bit b, the result fits 2n limbs
    std::array<Limb, 2 * 64> bit{};
    bit[static_cast<std::size_t>(2 * b / 64)] = Limb{1} << (2 * b % 64);
    add(step.data(), bit.data(), 2 * n);
    if (compare(a, step.data(), 2 * n) >= 0) {
      subtract(a, step.data(), 2 * n);
      root[b / 64] |= Limb{1} << (b % 64);
    }
  }
}

}  // namespace limbs

template <int L>
struct Big {
  static_assert(L >= 2 && L <= 64);
  enum class Kind : std::uint8_t { zero, finite, infinity, nan };

  Kind kind = Kind::zero;
  bool negative = false;
  std::int64_t exponent = 0;            // of the last bit
  std::array<std::uint64_t, L> limb{};  // top bit of limb[L - 1] set when finite, all 0 otherwise

  static Big zero(bool negative = false) {
    Big r;
    r.negative = negative;
    return r;
  }
  static Big infinity(bool negative) {
    Big r;
    r.kind = Kind::infinity;
    r.negative = negative;
    return r;
  }
  static Big nan() {
    Big r;
    r.kind = Kind::nan;
    return r;
  }
  // m * 2^q, exact.
  static Big scaled(bool negative, std::uint64_t m, std::int64_t q) {
    if (m == 0) return zero(negative);
    Big r;
    r.kind = Kind::finite;
    r.negative = negative;
    const int shift = __builtin_clzll(m);
    r.limb[L - 1] = m << shift;
    r.exponent = q - shift - 64 * (L - 1);
    return r;
  }
  static Big of(double x) {
    if (x != x) return nan();
    if (!is_finite(x)) return infinity(x < 0);
    const std::uint64_t b = bits_of(x);
    const std::uint64_t e = b >> 52 & 0x7ff, fraction = b & 0x000fffffffffffffU;
    return scaled(sign_bit(x), e == 0 ? fraction : fraction | std::uint64_t{1} << 52,
                  static_cast<std::int64_t>(e == 0 ? 1 : e) - 1075);
  }
  static Big of_integer(std::int64_t n) {
    return scaled(n < 0, n < 0 ? ~static_cast<std::uint64_t>(n) + 1 : static_cast<std::uint64_t>(n),
                  0);
  }
  // The sum in an accumulator; specials as its special().
  static Big of(const Superaccumulator& sum, bool& inexact) {
    if (!sum.finite()) return of(sum.special());
    const Superaccumulator::Digits d = sum.digits();
    if (d.top < 0) return zero();
    std::array<std::uint64_t, Superaccumulator::kChunks / 2> wide;
    for (std::size_t i = 0; i < wide.size(); ++i)
      wide[i] = std::uint64_t{d.digit[2 * i + 1]} << 32 | d.digit[2 * i];
    return normalized(d.negative, wide.data(), static_cast<int>(wide.size()),
                      Superaccumulator::kLowestBit, inexact);
  }
  // The leading limbs of another size, truncated.
  template <int M>
  static Big of(const Big<M>& x, bool& inexact) {
    if (x.kind != Big<M>::Kind::finite) {
      Big r;
      r.kind = static_cast<Kind>(x.kind);
      r.negative = x.negative;
      return r;
    }
    return normalized(x.negative, x.limb.data(), M, x.exponent, inexact);
  }
  // An n-limb integer times 2^q, truncated to L limbs.
  static Big normalized(bool negative, const std::uint64_t* a, int n, std::int64_t q,
                        bool& inexact) {
    const int zeros = limbs::leading_zeros(a, n);
    if (zeros == 64 * n) return zero(negative);
    Big r;
    r.kind = Kind::finite;
    r.negative = negative;
    // Bit k of the result (counted from its top) is bit zeros + k of a (from its top).
    const int whole = zeros / 64, part = zeros % 64;
    // The analyzer loses track of which limbs a loop has written; all n are.
    const auto from_top = [&](int i) -> std::uint64_t {
      return i < n ? a[n - 1 - i] : 0;  // NOLINT(clang-analyzer-core.uninitialized.UndefReturn)
    };
    for (int i = 0; i < L; ++i) {
      const std::uint64_t high = from_top(whole + i), low = from_top(whole + i + 1);
      r.limb[static_cast<std::size_t>(L - 1 - i)] =
          part == 0 ? high : high << part | low >> (64 - part);
    }
    if (part != 0 && (from_top(whole + L) << part) != 0) inexact = true;
    const int below = n - (whole + L) - (part != 0 ? 1 : 0);
    if (below > 0 && !limbs::is_zero(a, below)) inexact = true;
    r.exponent = q + 64 * std::int64_t{n} - zeros - 64 * L;
    return r;
  }

  bool finite() const { return kind == Kind::zero || kind == Kind::finite; }
  bool is_zero() const { return kind == Kind::zero; }
  bool is_nan() const { return kind == Kind::nan; }
  std::int64_t top_exponent() const { return exponent + 64 * L - 1; }  // of the leading bit
  Big operator-() const {
    Big r = *this;
    if (kind != Kind::nan) r.negative = !negative;
    return r;
  }
  Big times_power_of_two(std::int64_t e) const {
    Big r = *this;
    if (kind == Kind::finite) r.exponent += e;
    return r;
  }
  // Whether the value is a double exactly, and which.
  bool as_double(double& x) const {
    if (kind == Kind::zero) {
      x = negative ? -0.0 : 0.0;
      return true;
    }
    if (kind == Kind::nan) x = kNan;
    if (kind == Kind::infinity) x = negative ? -kInfinity : kInfinity;
    if (kind != Kind::finite) return true;
    if (!limbs::is_zero(limb.data(), L - 1) || (limb[L - 1] & 0x7ff) != 0) return false;
    if (top_exponent() > 1023 || top_exponent() < -1074) return false;
    x = round(DType::f64, Round::toward_zero);
    return top_exponent() >= -1022 || of(x).limb == limb;
  }

  // One rounding. nudge: the value is taken to be larger (1) or smaller (-1) in magnitude by less
  // than any bit shows; used for open ends of intervals.
  double round(DType to, Round mode = Round::nearest_even, Subnormals subnormals = Subnormals::keep,
               int nudge = 0) const {
    if (kind == Kind::nan) return kNan;
    if (kind == Kind::infinity) return negative ? -kInfinity : kInfinity;
    if (kind == Kind::zero) {
      if (nudge == 0) return negative ? -0.0 : 0.0;
      return round_scaled(negative, std::uint64_t{1} << 63, -4000, true, to, mode, subnormals);
    }
    bool sticky = !limbs::is_zero(limb.data(), L - 1);
    std::uint64_t m = limb[L - 1];
    std::int64_t q = exponent + 64 * (L - 1);
    if (nudge < 0 && !sticky) {
      // Just below m is m - 1 and a bit; below a power of two the leading bit moves down.
      if (m == std::uint64_t{1} << 63) {
        m = ~std::uint64_t{0};
        --q;
      } else {
        --m;
      }
    }
    return round_scaled(negative, m, q, sticky || nudge != 0, to, mode, subnormals);
  }

  static int compare_magnitude(const Big& a, const Big& b) {  // finite or zero
    if (a.is_zero() || b.is_zero())
      return static_cast<int>(b.is_zero()) - static_cast<int>(a.is_zero());
    if (a.exponent != b.exponent) return a.exponent < b.exponent ? -1 : 1;
    return limbs::compare(a.limb.data(), b.limb.data(), L);
  }
  // Of numbers that are not NaN; the zeros are equal.
  static int compare(const Big& a, const Big& b) {
    if (a.is_zero() && b.is_zero()) return 0;
    const bool na = a.negative && !a.is_zero(), nb = b.negative && !b.is_zero();
    if (na != nb) return na ? -1 : 1;
    if (a.kind == Kind::infinity || b.kind == Kind::infinity) {
      const int larger =
          static_cast<int>(a.kind == Kind::infinity) - static_cast<int>(b.kind == Kind::infinity);
      return na ? -larger : larger;
    }
    const int m = compare_magnitude(a, b);
    return na ? -m : m;
  }

  static Big add(const Big& a, const Big& b, bool& inexact) {
    if (a.is_nan() || b.is_nan()) return nan();
    if (a.kind == Kind::infinity)
      return b.kind == Kind::infinity && b.negative != a.negative ? nan() : a;
    if (b.kind == Kind::infinity) return b;
    if (b.is_zero()) return a.is_zero() ? zero(a.negative && b.negative) : a;
    if (a.is_zero()) return b;
    const bool swap = compare_magnitude(a, b) < 0;
    const Big& large = swap ? b : a;
    const Big& small = swap ? a : b;
    // A limb of guard bits below; a limb for the carry above.
    std::array<std::uint64_t, L + 2> x{}, y{};
    for (std::size_t i = 0; i < L; ++i) {
      x[i + 1] = large.limb[i];
      y[i + 1] = small.limb[i];
    }
    // A bit is lost only from a distance of 65 on, where at most one leading bit can cancel, so the
    // guard limb keeps the truncated difference right.
    const bool lost = limbs::shift_right(y.data(), L + 2, large.exponent - small.exponent);
    if (large.negative == small.negative) {
      limbs::add(x.data(), y.data(), L + 2);
    } else {
      limbs::subtract(x.data(), y.data(), L + 2);
      if (lost) limbs::subtract_one(x.data(), L + 2);
    }
    if (lost) inexact = true;
    const Big r = normalized(large.negative, x.data(), L + 2, large.exponent - 64, inexact);
    return r.is_zero() ? zero() : r;  // x - x is +0
  }
  static Big sub(const Big& a, const Big& b, bool& inexact) { return add(a, -b, inexact); }

  static Big mul(const Big& a, const Big& b, bool& inexact) {
    const bool sign = a.negative != b.negative;
    if (a.is_nan() || b.is_nan()) return nan();
    if (a.kind == Kind::infinity || b.kind == Kind::infinity)
      return a.is_zero() || b.is_zero() ? nan() : infinity(sign);
    if (a.is_zero() || b.is_zero()) return zero(sign);
    std::array<std::uint64_t, 2 * L> p;
    limbs::multiply(p.data(), a.limb.data(), b.limb.data(), L);
    return normalized(sign, p.data(), 2 * L, a.exponent + b.exponent, inexact);
  }

  static Big div(const Big& a, const Big& b, bool& inexact) {
    const bool sign = a.negative != b.negative;
    if (a.is_nan() || b.is_nan()) return nan();
    if (a.kind == Kind::infinity) return b.kind == Kind::infinity ? nan() : infinity(sign);
    if (b.kind == Kind::infinity) return zero(sign);
    if (b.is_zero()) return a.is_zero() ? nan() : infinity(sign);
    if (a.is_zero()) return zero(sign);
    std::array<std::uint64_t, 2 * L + 2> u{};
    for (std::size_t i = 0; i < L; ++i) u[L + 1 + i] = a.limb[i];
    std::array<std::uint64_t, L + 2> q;
    limbs::divide(q.data(), u.data(), b.limb.data(), L, L + 2);
    if (!limbs::is_zero(u.data(), L)) inexact = true;
    return normalized(sign, q.data(), L + 2, a.exponent - b.exponent - 64 * (L + 1), inexact);
  }

  static Big sqrt(const Big& a, bool& inexact) {
    if (a.is_nan() || a.is_zero()) return a;
    if (a.negative) return nan();
    if (a.kind == Kind::infinity) return a;
    std::array<std::uint64_t, 2 * L> x{};
    for (std::size_t i = 0; i < L; ++i) x[L + i] = a.limb[i];
    std::int64_t e = a.exponent - 64 * L;
    if ((e & 1) != 0) {
      if (limbs::shift_right(x.data(), 2 * L, 1)) inexact = true;  // never: zeros below
      ++e;
    }
    std::array<std::uint64_t, L> root;
    limbs::square_root(root.data(), x.data(), L);
    if (!limbs::is_zero(x.data(), 2 * L)) inexact = true;
    return normalized(false, root.data(), L, e / 2, inexact);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
