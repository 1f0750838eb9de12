// Floating-point primitives: error-free transformations, exact fused multiply-add, one correct
// rounding into any format and mode, ULPs. Scalar, host and device, no libm, no global state.
//
// Formats are f64, f32, bf16, f16; a value of any of them is held in a double, which is exact.
// Every function assumes the default environment (nearest even, subnormals kept) and
// -ffp-contract=off; directed modes are computed, never switched on in the processor. (Vectors are:
// kernels/gemm/rounding_scope.h.)
// NaN: functions that round return the quiet NaN 7ff8..., and storing it writes the canonical NaN
// of the format (7fc00000, 7fc0, 7e00). fma_* return whatever NaN the machine makes: canonicalise
// on store. Flush: a result is rounded into the format, subnormals included; if what was delivered
// lies below the smallest normal number, it becomes a zero of its sign. So a value that rounds up
// to the smallest normal is kept, and any kernel can flush by looking at the result alone.
#pragma once

#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/numerics/contract.h"
#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

__extension__ using uint128 = unsigned __int128;

// ---- bits ---------------------------------------------------------------------------------------

ETALON_HD constexpr std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }
ETALON_HD constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
ETALON_HD constexpr double double_of(std::uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}
ETALON_HD constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline constexpr std::uint32_t kNanF32 = 0x7fc00000U;
inline constexpr std::uint16_t kNanF16 = 0x7e00U;
inline constexpr std::uint16_t kNanBF16 = 0x7fc0U;
inline constexpr std::uint64_t kNanF64 = 0x7ff8000000000000U;
inline constexpr double kNan = __builtin_bit_cast(double, std::uint64_t{0x7ff8000000000000U});
inline constexpr double kInfinity = __builtin_bit_cast(double, std::uint64_t{0x7ff0000000000000U});

ETALON_HD constexpr bool is_nan(double x) { return x != x; }
ETALON_HD constexpr bool is_finite(double x) {
  return (bits_of(x) & 0x7ff0000000000000U) != 0x7ff0000000000000U;
}
ETALON_HD constexpr bool sign_bit(double x) { return (bits_of(x) >> 63) != 0; }
ETALON_HD constexpr double abs_of(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffU); }
ETALON_HD constexpr double with_sign(double magnitude, bool negative) {
  return double_of((bits_of(magnitude) & 0x7fffffffffffffffU) |
                   (static_cast<std::uint64_t>(negative) << 63));
}
ETALON_HD constexpr float canonical(float x) { return x == x ? x : float_of(kNanF32); }
ETALON_HD constexpr double canonical(double x) { return x == x ? x : kNan; }

// 2^e for -1022 <= e <= 1023.
ETALON_HD constexpr double power_of_two(int e) {
  return double_of(static_cast<std::uint64_t>(e + 1023) << 52);
}
// The neighbour of a finite x toward +inf, toward -inf.
ETALON_HD constexpr double next_up(double x) {
  const std::uint64_t b = bits_of(x);
  if (x == 0) return double_of(1);
  return double_of((b >> 63) != 0 ? b - 1 : b + 1);
}
ETALON_HD constexpr double next_down(double x) { return -next_up(-x); }

// ---- error-free transformations
// -------------------------------------------------------------------

// value + error is exactly the operation's real result (no overflow; for products, no underflow).
struct TwoDoubles {
  double value, error;
};
ETALON_HD inline TwoDoubles two_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// Needs |a| >= |b|, or a zero.
ETALON_HD inline TwoDoubles fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
// Without an FMA, Dekker's product over Veltkamp's split: exact while |a|, |b| < 2^995, the product
// does not overflow, and |ab| >= 2^-968 or the factors have few bits.
ETALON_HD inline TwoDoubles two_prod(double a, double b) {
  const double p = a * b;
#if defined(__CUDA_ARCH__)
  return {p, __fma_rn(a, b, -p)};
#elif defined(__FMA__)
  return {p, __builtin_fma(a, b, -p)};
#else
  constexpr double kSplit = 0x1p27 + 1;
  const double ca = kSplit * a, cb = kSplit * b;
  const double ah = ca - (ca - a), bh = cb - (cb - b);
  const double al = a - ah, bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

// The sum of s and e (e the exact error of s, or anything below an ulp of s) rounded to odd: if it
// is not s itself, the neighbour of odd significand that encloses it. Rounding this once more, to a
// format of at most 51 bits, equals rounding the exact sum (Boldo, Melquiond: "Emulation of a FMA
// and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 2008).
ETALON_HD inline double round_to_odd(double s, double e) {
  std::uint64_t b = bits_of(s);
  if (e != 0 && e == e && (b & 1) == 0) b += ((e > 0) == (s > 0)) ? 1U : ~std::uint64_t{0};
  return double_of(b);
}

// ---- rounding
// -------------------------------------------------------------------------------------

struct FloatFormat {
  int precision;     // significand bits, hidden bit included
  int min_exponent;  // of the smallest normal number, 1.x * 2^e
  int max_exponent;
};
ETALON_HD constexpr FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {24, -126, 127};
    case DType::bf16:
      return {8, -126, 127};
    case DType::f16:
      return {11, -14, 15};
    default:
      return {53, -1022, 1023};
  }
}
ETALON_HD constexpr double smallest_normal(DType dtype) {
  return power_of_two(format_of(dtype).min_exponent);
}
ETALON_HD constexpr double smallest_subnormal(DType dtype) {
  if (dtype == DType::f64) return double_of(1);
  return power_of_two(format_of(dtype).min_exponent - format_of(dtype).precision + 1);
}
ETALON_HD constexpr double largest_finite(DType dtype) {
  const FloatFormat f = format_of(dtype);
  return (2.0 - power_of_two(1 - f.precision)) * power_of_two(f.max_exponent);
}

// Rounds (-1)^negative * (m + t) * 2^q, where m has its top bit set and 0 < t < 1 if sticky, else
// t = 0. q may be any exponent. The result is a value of the format, held in a double.
ETALON_HD ETALON_NOINLINE inline double round_scaled(bool negative, std::uint64_t m, std::int64_t q,
                                                     bool sticky, DType to, Round mode,
                                                     Subnormals subnormals) {
  const FloatFormat f = format_of(to);
  const bool away = mode == (negative ? Round::downward : Round::upward);
  std::int64_t e = q + 63;
  if (e > f.max_exponent + 1) e = f.max_exponent + 1;
  if (e < f.min_exponent - f.precision - 2) e = f.min_exponent - f.precision - 2;
  q = e - 63;
  int precision = f.precision;
  if (e < f.min_exponent) precision -= static_cast<int>(f.min_exponent - e);
  const int drop = 64 - precision;  // 11 .. 66
  std::uint64_t kept = 0;
  bool half = false, rest = true;
  if (drop < 64) {
    kept = m >> drop;
    half = ((m >> (drop - 1)) & 1) != 0;
    rest = sticky || (m & ((std::uint64_t{1} << (drop - 1)) - 1)) != 0;
  } else if (drop == 64) {
    half = true;
    rest = sticky || (m << 1) != 0;
  }
  if (mode == Round::nearest_even) {
    kept += (half && (rest || (kept & 1) != 0)) ? 1 : 0;
  } else if (away) {
    kept += (half || rest) ? 1 : 0;
  }
  if (kept == 0) return negative ? -0.0 : 0.0;
  const int scale = static_cast<int>(q) + drop;
  const int top = scale + 63 - __builtin_clzll(kept);
  if (top > f.max_exponent) {
    const bool to_infinity = mode == Round::nearest_even || away;
    return with_sign(to_infinity ? kInfinity : largest_finite(to), negative);
  }
  if (top < f.min_exponent && subnormals == Subnormals::flush) return negative ? -0.0 : 0.0;
  if (top < -1022) return with_sign(double_of(kept), negative);  // f64 only: scale is -1074
  const double whole = static_cast<double>(kept);
  return with_sign(double_of(bits_of(whole) +
                             (static_cast<std::uint64_t>(static_cast<std::int64_t>(scale)) << 52)),
                   negative);
}

// The value of x in format `to`: one rounding. Zeros keep their sign, infinities stay, NaN is
// 7ff8....
ETALON_HD ETALON_NOINLINE inline double round_to(double x, DType to,
                                                 Round mode = Round::nearest_even,
                                                 Subnormals subnormals = Subnormals::keep) {
  if (to == DType::f32 && mode == Round::nearest_even) {
    const float r = static_cast<float>(x);
    if (subnormals == Subnormals::flush && abs_of(r) < 0x1p-126) return with_sign(0.0, sign_bit(x));
    return canonical(static_cast<double>(r));
  }
  const std::uint64_t b = bits_of(x), magnitude = b & 0x7fffffffffffffffU;
  if (magnitude >= 0x7ff0000000000000U) return canonical(x);
  if (magnitude == 0) return x;
  if (to == DType::f64) {
    if (subnormals == Subnormals::flush && magnitude < 0x0010000000000000U)
      return with_sign(0.0, sign_bit(x));
    return x;
  }
  std::uint64_t m = magnitude & 0x000fffffffffffffU;
  std::int64_t e = static_cast<std::int64_t>(magnitude >> 52);
  if (e == 0)
    e = 1;
  else
    m |= std::uint64_t{1} << 52;
  const int shift = __builtin_clzll(m);
  return round_scaled(sign_bit(x), m << shift, e - 1075 - shift, false, to, mode, subnormals);
}

// Rounds the exact sum hi + lo, |lo| <= ulp(hi) / 2 or so (any two doubles whose sum does not
// overflow will do). A zero sum is +0, but -0 rounding down or when both are -0.
ETALON_HD ETALON_NOINLINE inline double round_sum_to(double hi, double lo, DType to,
                                                     Round mode = Round::nearest_even,
                                                     Subnormals subnormals = Subnormals::keep) {
  const TwoDoubles sum = two_sum(hi, lo);
  if (sum.value == 0) {
    if (mode == Round::downward && (sign_bit(hi) || sign_bit(lo))) return -0.0;
    return sum.value;
  }
  if (to != DType::f64) return round_to(round_to_odd(sum.value, sum.error), to, mode, subnormals);
  double r = sum.value;
  if (sum.error != 0 && is_finite(r)) {
    const bool below = sum.error < 0;  // the exact sum lies below r
    if (mode == Round::downward || (mode == Round::toward_zero && r > 0)) {
      if (below) r = next_down(r);
    } else if (mode == Round::upward || (mode == Round::toward_zero && r < 0)) {
      if (!below) r = next_up(r);
    }
  }
  return round_to(r, to, mode, subnormals);
}

// ---- fused multiply-add
// ---------------------------------------------------------------------------

// a * b + c rounded once, with or without an instruction for it, to nearest even where no mode is
// given. The product of two f32 is exact in f64 (48 bits, exponents within range); the sum is
// rounded to odd, then once more.
ETALON_HD inline float fma_f32_emulated(float a, float b, float c) {
  const TwoDoubles s =
      two_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c));
  return static_cast<float>(round_to_odd(s.value, s.error));
}

// In integers: the 106-bit product and c, both with their top bit at 126, are added after the
// smaller was shifted right with its lost bits or-ed into the last. A shift of one or none loses
// nothing (at least 20 low bits are zero); after a longer one at most one leading bit cancels: the
// last bit, far below the rounding position, then only says "not zero".
ETALON_HD inline double fma_f64_emulated(double a, double b, double c,
                                         Round mode = Round::nearest_even) {
  const double zero_sum = mode == Round::downward ? -0.0 : 0.0;  // x - x
  const std::uint64_t ua = bits_of(a), ub = bits_of(b), uc = bits_of(c);
  constexpr std::uint64_t kFraction = 0x000fffffffffffffU, kHidden = 0x0010000000000000U;
  const int ea = static_cast<int>((ua >> 52) & 0x7ff), eb = static_cast<int>((ub >> 52) & 0x7ff),
            ec = static_cast<int>((uc >> 52) & 0x7ff);
  if (ea == 0x7ff || eb == 0x7ff) return a * b + c;
  if (ec == 0x7ff) return c + c;
  // a*b is a zero (if it only underflows, neither factor is zero): IEEE signs decide.
  if (a == 0 || b == 0) {
    if (c != 0) return c;
    return sign_bit(a * b) == sign_bit(c) ? c : zero_sum;
  }
  const std::uint64_t ma = ea == 0 ? ua & kFraction : (ua & kFraction) | kHidden;
  const std::uint64_t mb = eb == 0 ? ub & kFraction : (ub & kFraction) | kHidden;
  const std::uint64_t mc = ec == 0 ? uc & kFraction : (uc & kFraction) | kHidden;
  bool negative = ((ua ^ ub) >> 63) != 0;
  uint128 p = static_cast<uint128>(ma) * mb;
  const auto clz = [](uint128 v) {
    const auto high = static_cast<std::uint64_t>(v >> 64);
    return high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll(static_cast<std::uint64_t>(v));
  };
  int shift = clz(p) - 1;
  p <<= shift;
  int q = (ea == 0 ? 1 : ea) + (eb == 0 ? 1 : eb) - 2150 - shift;
  if (mc != 0) {
    uint128 s = mc;
    shift = clz(s) - 1;
    s <<= shift;
    const int qc = (ec == 0 ? 1 : ec) - 1075 - shift;
    const bool c_negative = (uc >> 63) != 0;
    const bool c_larger = qc > q || (qc == q && s > p);
    const uint128 large = c_larger ? s : p;
    uint128 small = c_larger ? p : s;
    const int distance = c_larger ? qc - q : q - qc;
    if (distance > 126) {
      small = 1;
    } else if (distance > 0) {
      const uint128 kept = small >> distance;
      small = kept | ((kept << distance) != small ? 1U : 0U);
    }
    const bool same = negative == c_negative;
    p = same ? large + small : large - small;
    q = c_larger ? qc : q;
    negative = c_larger ? c_negative : negative;
    if (p == 0) return zero_sum;
  }
  shift = clz(p);
  p <<= shift;
  return round_scaled(negative, static_cast<std::uint64_t>(p >> 64), std::int64_t{q} - shift + 64,
                      static_cast<std::uint64_t>(p) != 0, DType::f64, mode, Subnormals::keep);
}

ETALON_HD inline float fma_f32(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#elif defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return fma_f32_emulated(a, b, c);
#endif
}
ETALON_HD inline double fma_f64(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#elif defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  // Away from the ends of the range Boldo and Melquiond's sum of three does it in floating point.
  const auto inside = [](double x) {
    return static_cast<std::uint32_t>((bits_of(x) >> 52) & 0x7ff) - 623U < 800U;  // 2^-400 .. 2^400
  };
  if (inside(a) && inside(b) && (inside(c) || c == 0)) {
    const TwoDoubles u = two_prod(a, b), t = two_sum(c, u.error), v = two_sum(u.value, t.value);
    const TwoDoubles low = two_sum(t.error, v.error);
    return v.value + round_to_odd(low.value, low.error);
  }
  return fma_f64_emulated(a, b, c);
#endif
}

// Correctly rounded on every machine: IEEE 754 asks for it.
ETALON_HD inline float sqrt_f32(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}
ETALON_HD inline double sqrt_f64(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}
ETALON_HD inline double floor_f64(double x) {
#if defined(__CUDA_ARCH__)
  return ::floor(x);
#else
  return __builtin_floor(x);
#endif
}

// ---- storage
// --------------------------------------------------------------------------------------

ETALON_HD inline float to_float(BFloat16 x) { return float_of(std::uint32_t{x.bits} << 16); }
ETALON_HD inline float to_float(Float16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000U} << 16, magnitude = x.bits & 0x7fffU;
  if (magnitude >= 0x7c00U)
    return float_of(sign | 0x7f800000U | (magnitude - 0x7c00U) << 13);  // NaN keeps its payload
  if (magnitude >= 0x0400U) return float_of(sign | ((magnitude << 13) + 0x38000000U));
  const float small = static_cast<float>(magnitude) * 0x1p-24F;  // exact
  return float_of(sign | bits_of(small));
}
// Rounded to nearest even; NaN becomes canonical.
ETALON_HD inline BFloat16 to_bfloat16(float x) {
  std::uint32_t b = bits_of(x);
  if (x != x) return {kNanBF16};
  b += 0x7fffU + ((b >> 16) & 1);
  return {static_cast<std::uint16_t>(b >> 16)};
}
// From a double that already is a value of the format (any NaN becomes canonical).
ETALON_HD inline Float16 encode_float16(double x) {
  if (x != x) return {kNanF16};
  const std::uint16_t sign = sign_bit(x) ? 0x8000U : 0U;
  const double magnitude = abs_of(x);
  if (magnitude > 65504.0) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x1p-14)
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(magnitude * 0x1p24))};
  return {static_cast<std::uint16_t>(sign |
                                     ((bits_of(magnitude) >> 42) - (std::uint64_t{1008} << 10)))};
}
ETALON_HD inline BFloat16 encode_bfloat16(double x) {
  if (x != x) return {kNanBF16};
  return {static_cast<std::uint16_t>(bits_of(static_cast<float>(x)) >> 16)};
}
ETALON_HD inline Float16 to_float16(float x) {
  return encode_float16(round_to(static_cast<double>(x), DType::f16));
}

ETALON_HD inline double to_double(double x) { return x; }
ETALON_HD inline double to_double(float x) { return static_cast<double>(x); }
ETALON_HD inline double to_double(Float16 x) { return static_cast<double>(to_float(x)); }
ETALON_HD inline double to_double(BFloat16 x) { return static_cast<double>(to_float(x)); }

// ---- units in the last place
// ------------------------------------------------------------------------

// The spacing of the format's values at x: between |x| and the next larger, at least the smallest
// subnormal; at infinity that of the largest finite number; NaN for NaN.
ETALON_HD inline double ulp_of(double x, DType dtype) {
  if (x != x) return kNan;
  const FloatFormat f = format_of(dtype);
  int e = static_cast<int>((bits_of(x) >> 52) & 0x7ff) - 1023;
  if (e < f.min_exponent) e = f.min_exponent;
  if (e > f.max_exponent) e = f.max_exponent;
  e += 1 - f.precision;
  return e >= -1022 ? power_of_two(e) : double_of(std::uint64_t{1} << (e + 1074));
}

// Bits mapped so that they count values in order; both zeros are 0.
ETALON_HD constexpr std::int64_t ordered(double x) {
  const std::uint64_t b = bits_of(x), m = b & 0x7fffffffffffffffU;
  return (b >> 63) != 0 ? -static_cast<std::int64_t>(m) : static_cast<std::int64_t>(m);
}
ETALON_HD constexpr std::int64_t ordered(float x) {
  const std::uint32_t b = bits_of(x);
  const auto m = static_cast<std::int64_t>(b & 0x7fffffffU);
  return (b >> 31) != 0 ? -m : m;
}
ETALON_HD constexpr std::int64_t ordered16(std::uint16_t b) {
  const auto m = static_cast<std::int64_t>(b & 0x7fffU);
  return (b >> 15) != 0 ? -m : m;
}
ETALON_HD constexpr std::int64_t ordered(Float16 x) { return ordered16(x.bits); }
ETALON_HD constexpr std::int64_t ordered(BFloat16 x) { return ordered16(x.bits); }

// How many values of the format lie between a and b, the last included: 0 for equal values and for
// two NaNs, the largest integer if only one is NaN. Infinity counts as the value after the largest.
inline constexpr std::uint64_t kUlpDistanceNan = ~std::uint64_t{0};
template <class T>
ETALON_HD inline std::uint64_t ulp_distance(T a, T b) {
  const bool nan_a = is_nan(to_double(a)), nan_b = is_nan(to_double(b));
  if (nan_a || nan_b) return nan_a == nan_b ? 0 : kUlpDistanceNan;
  const auto x = static_cast<std::uint64_t>(ordered(a)), y = static_cast<std::uint64_t>(ordered(b));
  return ordered(a) < ordered(b) ? y - x : x - y;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
