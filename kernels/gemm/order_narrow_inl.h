// Values of f16 and bf16 in registers of f32: what order_chains_inl.h computes with where a
// contract rounds to them.
//
// An operation is computed in f32 and that rounded to the narrow format, of q bits. Toward one side
// (round=rz, ru, rd; the processor is set to it) two roundings are one, as every narrow number is
// an f32. To nearest, the result changes at the midpoints of narrow numbers, which are f32 too: the
// first rounding takes nothing across one, but may end on one. It does not for
//   quotients, roots: f32 has 2q + 2 bits or more (Figueroa, "When is double rounding innocuous?",
//     SIGNUM 30(3), 1995)
//   sums: if 24 bits do not hold a + b, then |b| < 2^(e - 12) with e the exponent of a, and lacks
//     2^(e - 12 - q) or more of that; no midpoint is that near to a on either side, so the sum in
//     f32, rounded any way, rounds to a, as the real one does
//   products: of 2q bits, exact. Where f32 holds fewer, below 2^-126 in bf16, an inexact one is
//     M 2^-150 or smaller, M = m n <= 255 * 255: below the least midpoint 2^-134 = 65536 2^-150 by
//     511 steps or more, so that it becomes a zero either way, as it must
// A fused multiply-add can end on one. It is rounded to odd (fma_odd): not a multiple of the last
// bit's double if inexact, so on no midpoint, and on the side where the real result is (Boldo,
// Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008).
#pragma once

#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Format: narrow(x) of an f32, as the contract rounds; fma_odd where that is to nearest, else fma;
// flush, and flush_in_mode where the processor takes subnormal operands for zeros, as it does
// wherever a contract flushes; kLikeF32: what is subnormal in it is so in f32; of that to nearest,
// what Quick needs.
template <class Format, bool Fused, bool Flush>
struct Narrow : Format {
  using Reg = typename Format::Reg;
  using Mask = typename Format::Mask;
  static constexpr bool kSettles = true, kFlush = Flush, kFlushedByUse = Flush && Format::kLikeF32;
  // To nearest, sums are -0 only where products fused to them underflow or flushing leaves it.
  static constexpr bool kNegativeZeros = Fused || Flush;
  ETALON_INLINE static Reg take(const float* p) {
    Reg x = Format::raw(p);
    if constexpr (Flush && Format::kLikeF32) x = Format::flush_f32(x);  // else they vanish below
    return flushed(Format::narrow(Format::canonical(x)));
  }
  ETALON_INLINE static Reg flushed(Reg v) {
    if constexpr (Flush)
      return Format::flush(v);
    else
      return v;
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return done(Format::add(a, b)); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return done(Format::sub(a, b)); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return done(Format::mul(a, b)); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return done(Format::div(a, b)); }
  ETALON_INLINE static Reg sqrt(Reg a) { return done(Format::sqrt(a)); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    if constexpr (!Fused)
      return add(c, mul(a, b));
    else if constexpr (Flush && !kFlushedByUse)
      return Format::flush_in_mode(Format::narrow(Format::fma_odd(a, b, c)));
    else
      return done(Format::fma_odd(a, b, c));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return Format::select(m, fma(a, b, c), c);
  }
  // fma(a, b, +0): of a product, and adding zero is exact.
  ETALON_INLINE static Reg first_term(Reg a, Reg b) {
    if constexpr (Fused)
      return done(Format::fma(a, b, Format::zero()));
    else
      return Format::add_zero(mul(a, b));
  }

 private:
  ETALON_INLINE static Reg done(Reg v) {
    if constexpr (Flush && !kFlushedByUse)
      return Format::flush(Format::narrow(v));
    else
      return Format::narrow(v);
  }
};

// Narrow to nearest, nothing flushed, in half its time. nearest(x, m) is narrow(x), but +0 for any
// zero. m is the power of two that x begins with, or the least normal number; adding
// 1.5 * 2^(24 - q) m rounds x to a multiple of the last bit that it has in the narrow format, ties
// to the even one, as that sum of 24 bits has its last one there and 1.5 * 2^23 of them are even;
// subtracting that is exact. What is less than normal of a sum needs no rounding: any smaller m
// leaves it as it is.
//
// Sums are right where the last one is finite, up to the sign of zeros: registers hold numbers
// times kQuickScale, so that from 2^15 (f16) or 2^111 (bf16) on that addition is infinite, and
// whatever is added to it is infinite or NaN.
template <class Format, bool Fused>
struct Quick : Narrow<Format, Fused, false> {
  using Reg = typename Format::Reg;
  static constexpr float kScale = Format::kQuickScale;
  // The largest product that rounds to zero: half of the least number.
  static constexpr float kVanishing =
      Format::kLeastNormal * (Format::kQuickFactor / 1.5F) * 0x1p-24F;
  // Products fused to a sum are not rounded before.
  static constexpr bool kChains = !Fused;

  ETALON_INLINE static Reg load(const float* p) { return times<kScale>(Format::load(p)); }
  ETALON_INLINE static void store(float* p, Reg v) { Format::store(p, times<1 / kScale>(v)); }
  ETALON_INLINE static Reg first_term(Reg a, Reg b) {
    const Reg p = Format::mul(a, b);
    return nearest(
        p, Format::larger_bits(Format::power(p), Format::set1(Format::kLeastNormal * kScale)));
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) {
    const Reg x = Format::add(a, b);
    return nearest(x, Format::power(x));
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    static_assert(kChains);
    return add(c, first_term(a, b));
  }

 private:
  ETALON_INLINE static Reg nearest(Reg x, Reg m) {
    const Reg by = Format::set1(Format::kQuickFactor);
    return Format::fnma(m, by, Format::fma(m, by, x));
  }
  template <float By>
  ETALON_INLINE static Reg times(Reg v) {
    if constexpr (By == 1)
      return v;
    else
      return Format::mul(v, Format::set1(By));
  }
};

// The same for f16, flushed. Registers hold numbers times kScale, at which what is subnormal in f16
// is so in f32 and read as zero by the processor, if as an operand: a product's bits are rounded as
// they are, since f32's subnormal numbers are as evenly spaced as f16's, 2^13 of theirs to one; it
// is exact from half of the least normal number on, and below that rounds to nothing that is
// normal. A sum below the least normal number is exact, so that it may be taken for zero before it
// is rounded.
//
// No sum is infinite here, so that the powers of two that numbers begin with are watched. Of a
// chain: as long as sums are below 2^15, products were below 2^16. Of a tree of eight terms or
// fewer: products below 2^12 keep all sums at 2^15 or below, and so it is enough to watch them by
// bounds, and what is stored. Zeros are +0, where they may have to be -0.
template <class Format, bool Fused>
struct QuickFlushed : Format {
  using Plain = Format;
  using Reg = typename Format::Reg;
  static constexpr float kScale = 0x1p-126F / Format::kLeastNormal;
  // Products fused to a sum are not rounded before.
  static constexpr bool kChains = !Fused;

  ETALON_INLINE static Reg load(const float* p) { return held(Format::load(p)); }
  ETALON_INLINE static Reg take(const float* p) {
    return held(Narrow<Format, Fused, true>::take(p));
  }
  ETALON_INLINE static void store(float* p, Reg v) {
    Format::store(p, Format::mul(v, Format::set1(1 / kScale)));
  }
  // The largest magnitude of an operand's terms.
  ETALON_INLINE static Reg bound() { return Format::zero(); }
  ETALON_INLINE static Reg bound(Reg most, Reg x) { return meet(most, Format::abs(x)); }
  ETALON_INLINE static Reg meet(Reg one, Reg other) { return Format::larger_bits(one, other); }
  // What `load` makes of a number.
  ETALON_INLINE static Reg held(Reg v) { return Format::mul(v, Format::set1(kScale)); }
  // v, NaN where products of terms of these bounds may be too large; b as it is held.
  ETALON_INLINE static Reg marked(Reg v, Reg a, Reg b) {
    const Reg most = Format::mul(a, Format::mul(b, Format::set1(0x1p3F)));
    return Format::nan_above(v, Format::power(most), Format::set1(0x1p14F * kScale));
  }
  ETALON_INLINE static Reg watch(Reg x, Reg most) {
    return Format::larger_bits(most, Format::power(x));
  }
  ETALON_INLINE static Reg first_term(Reg a, Reg b) {
    return Format::template round_bits<13>(Format::mul(a, b));
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) {
    const Reg x = Format::add(a, b);
    return nearest(x, Format::power(x));
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c, Reg& most) {
    static_assert(kChains);
    const Reg x = Format::add(c, first_term(a, b)), m = Format::power(x);
    most = Format::larger_bits(most, m);
    return nearest(x, m);
  }
  // What is stored at p, NaN where it or `most` is too large.
  ETALON_INLINE static void check(float* p, Reg most) {
    const Reg v = Format::load(p);
    most = watch(Format::mul(v, Format::set1(kScale)), most);
    Format::store(p, Format::nan_above(v, most, Format::set1(0x1p14F * kScale)));
  }
  // Stores a tree's sum, NaN where it is too large.
  ETALON_INLINE static void store_tree(float* p, Reg v) {
    Format::store(p, Format::nan_above(Format::mul(v, Format::set1(1 / kScale)), Format::power(v),
                                       Format::set1(0x1p14F * kScale)));
  }

 private:
  ETALON_INLINE static Reg nearest(Reg x, Reg m) {
    const Reg by = Format::set1(Format::kQuickFactor);
    return Format::fnma(m, by, Format::fma(m, by, x));
  }
};

// The same for bf16, flushed: trees only. The processor reads subnormal operands as zero, which is
// all that flushing does to a sum, for below the least normal number sums are exact. It is not to a
// product just below, which may round to that number: so the least operands that are not zero are
// kept, whose product bounds all others. Overflow shows as in Quick. Zeros are +0, where they may
// have to be -0.
template <class Format>
struct QuickFlushedWide : Format {
  using Plain = Format;
  using Reg = typename Format::Reg;
  static constexpr bool kChains = false;

  ETALON_INLINE static Reg take(const float* p) { return Narrow<Format, true, true>::take(p); }
  // One bit less than the least magnitude: of zero, the most that there is.
  ETALON_INLINE static Reg bound() { return Format::set1(1); }
  ETALON_INLINE static Reg bound(Reg least, Reg x) {
    return meet(least, Format::bits_before(Format::abs(x)));
  }
  ETALON_INLINE static Reg meet(Reg one, Reg other) { return Format::smaller_bits(one, other); }
  ETALON_INLINE static Reg held(Reg v) { return v; }
  // v, NaN where some product may be below the least normal number.
  ETALON_INLINE static Reg marked(Reg v, Reg a, Reg b) {
    return Format::nan_above(v, Format::set1(2 * Format::kLeastNormal), Format::mul(a, b));
  }
  ETALON_INLINE static Reg first_term(Reg a, Reg b) { return nearest(Format::mul(a, b)); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return nearest(Format::add(a, b)); }
  ETALON_INLINE static void store_tree(float* p, Reg v) { Format::store(p, v); }

 private:
  ETALON_INLINE static Reg nearest(Reg x) {
    const Reg by = Format::set1(Format::kQuickFactor), m = Format::power(x);
    return Format::fnma(m, by, Format::fma(m, by, x));
  }
};

}  // namespace etalon::simd
