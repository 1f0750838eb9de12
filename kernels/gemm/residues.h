// Sums of products through residues: an integer sum v, |v| < M / 2, is known by what it leaves
// modulo each of eleven numbers without a common factor, whose product is M (the Chinese remainder
// theorem), and modulo a number below 2^8 a sum of products of int8 says what it leaves. So eleven
// products of int8 matrices give sums of 86 bits. Source: K. Ozaki, Y. Uchino, T. Imamura, "Ozaki
// Scheme II: A GEMM-oriented emulation of floating-point matrix multiplication using an integer
// modular technique", 2025. Host and device; the GPU's row is cuda_residues.h.
//
// Cut. A row x of a has a unit p, a power of two above ||x|| (1 + 2^-9) / 2^43, so that x / p = X +
// r with X integers, |r_k| <= 1/2 each, and ||X|| <= ||x|| / p + sqrt(k) / 2 < 2^43 (1 - 2^-10) +
// 2^7.5 < 2^43. Both X and r are exact in f64: x has 24 bits. Few r are not zero: those of elements
// that end below p. Sixteen places of a row are kept, and the norms of all r and of those that are
// not kept. With a column y of b, y / q = Y + e,
//     sum xy = p q (v + sum r (Y + e) + sum X e),   v = sum XY,   |v| <= ||X|| ||Y|| < 2^86
// and 2^86 < 0.972 M / 2.
//
// Residues. Plane i of a holds X inv_i modulo m_i, of b Y, both moved into [-128, 127], where inv_i
// is the inverse of M / m_i modulo m_i; a sum of fewer than 2^17 products of them is one of int32.
// Then v = sum S_i M / m_i modulo M, with the sums S_i.
//
// Join. With c_i = 2^64 / m_i rounded and t_i = S_i modulo m_i, |t_i| <= 255, the integer
// s = sum t_i c_i modulo 2^64, read as signed, differs from 2^64 v / M by at most 11 * 255 / 2 <
// 1403; nothing wraps, for |v| 2^64 / M < 0.972 * 2^63. In f64 s M 2^-64 rounds three times (s, M
// 2^-64, their product), by 2^-53 of it at most each; units are powers of two. So the sum is off by
//     ||p r|| ||y|| + (||x|| + ||p r||) ||q e||  +  1404 M 2^-64 p q  +  2^-51 |it|
// at most (Cauchy, Schwarz), which decides the rounding of nearly every output.
//
// Settle. For an output that is open, v itself comes from the residues in 128-bit integers, as
// high + low in f64, exactly; products of kept r and e with 24-bit elements, of at most 48 bits,
// are exact too. What is left are 34 roundings of small numbers, and the norms of those not kept;
// where there is no r or e, nothing: so midpoints between two floats are decided here.
//
// Range. |x| lies in [2^-149, 2^128), p in [2^-191, 2^94], x / p is 2^-243 at least: squares,
// norms, units and their products are normal numbers of f64 all. A row of zeros has unit, X and
// norms 0: its sums are +0 with bound 0. A row with NaN or infinity has X = 0 and norms NaN: its
// bounds decide nothing.
#pragma once

#include "engine/numerics/fp.h"
#include "kernels/gemm/cuda_task.h"
#include "kernels/gemm/digit_cut.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kResidues = 11;
inline constexpr std::uint32_t kResidueModuli[kResidues] = {256, 255, 253, 251, 247, 241,
                                                            239, 233, 229, 227, 223};
// -128 * -128 summed so often is less than 2^31.
inline constexpr std::int64_t kResidueMostK = (1 << 17) - 1;
inline constexpr int kResidueNormBits = 43;  // ||X|| < 2^43
inline constexpr int kResidueKept = 16;      // places of a row

// How the low 48 bits of X + 2^47 become X times a factor, modulo m: by a sum of six
// bytes times 256^j * factor modulo m, and one addend, which adds the bits of kResidueFloat.
inline constexpr float kResidueFloat = 0x1.8p23F;  // and an integer in its last bits
struct ResidueBytes {
  std::uint32_t low = 0, high = 0, add = 0;
};
struct ResidueForm {
  std::uint32_t m[kResidues] = {}, minus_m[kResidues] = {};
  float size[kResidues] = {}, over[kResidues] = {};  // m and 1 / m rounded
  std::uint32_t over_sum[kResidues] = {};  // 2^39 / m rounded down: near x / m for x < 2^32
  ResidueBytes a[kResidues] = {}, b[kResidues] = {};
  std::uint64_t c[kResidues] = {};        // 2^64 / m rounded
  std::uint32_t start[kResidues] = {};    // 2^31 modulo m
  std::uint64_t start_sum = 0;            // of start * c
  std::uint64_t part[kResidues][2] = {};  // M / m, low and high
  std::uint64_t product[2] = {};          // M, low and high
  double scale = 0, join_error = 0;       // M 2^-64, and 1404 of it
};
ETALON_HD constexpr uint128 wide_of(const std::uint64_t (&halves)[2]) {
  return (static_cast<uint128>(halves[1]) << 64) | halves[0];
}
constexpr ResidueForm residue_form() {
  ResidueForm f;
  uint128 product = 1;
  for (const std::uint32_t m : kResidueModuli) product *= m;
  const auto halve = [](uint128 v, std::uint64_t(&to)[2]) {
    to[0] = static_cast<std::uint64_t>(v);
    to[1] = static_cast<std::uint64_t>(v >> 64);
  };
  halve(product, f.product);
  f.scale = static_cast<double>(product) * 0x1p-64;
  f.join_error = 1404 * f.scale;
  for (int i = 0; i < kResidues; ++i) {
    const std::uint64_t m = kResidueModuli[i];
    f.m[i] = kResidueModuli[i];
    f.minus_m[i] = 0 - f.m[i];
    f.size[i] = static_cast<float>(m);
    f.over[i] = 1 / static_cast<float>(m);
    f.over_sum[i] = static_cast<std::uint32_t>((std::uint64_t{1} << 39) / m);
    f.c[i] = static_cast<std::uint64_t>(((uint128{1} << 64) + m / 2) / m);
    f.start[i] = static_cast<std::uint32_t>((std::uint64_t{1} << 31) % m);
    f.start_sum += f.start[i] * f.c[i];
    halve(product / m, f.part[i]);
    std::uint64_t inverse = 0;
    for (std::uint64_t t = 1; t < m; ++t)
      if (t * static_cast<std::uint64_t>(product / m % m) % m == 1) inverse = t;
    const auto bytes = [m](std::uint64_t factor) {
      ResidueBytes s;
      std::uint64_t weight = factor;
      for (int j = 0; j < 6; ++j, weight = weight * 256 % m)
        (j < 4 ? s.low : s.high) |= static_cast<std::uint32_t>(weight) << (8 * (j % 4));
      s.add = bits_of(kResidueFloat) +
              static_cast<std::uint32_t>((m - (std::uint64_t{1} << 47) % m * factor % m) % m);
      return s;
    };
    f.a[i] = bytes(inverse);
    f.b[i] = bytes(1);
  }
  return f;
}
inline constexpr ResidueForm kResidueForm = residue_form();
static_assert(wide_of(kResidueForm.product) / 2 >
              (uint128{1} << (2 * kResidueNormBits)) / 972 * 1000);

// ---- cut ----------------------------------------------------------------------------------------

// Of a row whose squares sum to this; 0 where they do to nothing, or to no finite number.
ETALON_HD inline double residue_unit(double squares) {
  if (!(squares > 0) || !is_finite(squares)) return 0;
  // The sum is off by fewer than 2^17 roundings, 2^-36 of it.
  const std::uint64_t exponent = bits_of(sqrt_f64(squares) * (1 + 0x1p-9)) >> 52;
  return double_of((exponent + 1 - kResidueNormBits) << 52);
}
ETALON_HD inline double residue_inverse(double unit) { return unit == 0 ? 0 : 1 / unit; }

// X and r of z = x / u.
struct ResidueCut {
  std::uint64_t bits;  // the low 48: X + 2^47
  double whole, rest;
};
ETALON_HD inline ResidueCut residue_cut(double z) {
  constexpr double kMiddle = 0x1.8p52 + 0x1p47;
  const double t = z + kMiddle, whole = t - kMiddle;
  return {bits_of(t), whole, z - whole};
}

ETALON_HD inline std::uint32_t dot_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t sum) {
#if defined(__CUDA_ARCH__)
  return __dp4a(a, b, sum);
#else
  for (int i = 0; i < 32; i += 8) sum += ((a >> i) & 255) * ((b >> i) & 255);
  return sum;
#endif
}
ETALON_HD inline std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(a) * b) >> 32);
#endif
}
// The residue in the low eight bits, from -m / 2 to m / 2. The sum x is below 6 * 255^2 + 255 <
// 2^19, so that all is exact but x * over, which is x / m within 2^-12, and x / m, if it is not
// half of an odd number (m = 256, whose over is exact), is 1 / (2 m) from one. 128 is -128 modulo
// 256.
ETALON_HD inline std::uint32_t residue_bits(std::uint64_t bits, const ResidueBytes& s, float m,
                                            float over) {
  const auto high = static_cast<std::uint32_t>(bits >> 32);
  const float x =
      float_of(dot_bytes(static_cast<std::uint32_t>(bits), s.low, dot_bytes(high, s.high, s.add)));
  const float quotient = fma_f32(x - kResidueFloat, over, kResidueFloat) - kResidueFloat;
  return bits_of(fma_f32(quotient, -m, x));
}
// The low eight bits of each.
ETALON_HD inline std::uint32_t residue_pack(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                            std::uint32_t d) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
  return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
#endif
}
// sum + 2^31 less a multiple of m: a byte. The quotient is right or one too small, which it is only
// where u modulo m < u (2^39 modulo m) / 2^39 < m / 128: the byte is then m or m + 1, and m = 255,
// where 2^39 modulo m is 128, leaves only m.
ETALON_HD inline std::uint32_t residue_of_sum(std::int32_t sum, std::uint32_t minus_m,
                                              std::uint32_t over_sum) {
  const std::uint32_t u = static_cast<std::uint32_t>(sum) ^ 0x80000000U;
  return u + (multiply_high(u, over_sum) >> 7) * minus_m;
}

// What the bounds take of a row. In the numbers of x, not in units.
struct ResidueNorm {
  double unit, norm, rest,
      left;  // norm: of x and of u r, summed; rest: of u r; left: of those not kept
};
ETALON_HD inline ResidueNorm residue_norm(double squares, double rests, double left) {
  constexpr double kRoom = 1 + 0x1p-9;  // for what rounds here and where bounds are made
  if (!is_finite(squares)) return {0, kNan, kNan, kNan};
  ResidueNorm n;
  n.unit = residue_unit(squares);
  n.rest = sqrt_f64(rests) * kRoom * n.unit;
  n.left = sqrt_f64(left) * kRoom * n.unit;
  n.norm = (sqrt_f64(squares) + n.rest) * kRoom;
  return n;
}

// Byte j of a word.
ETALON_HD inline std::uint32_t byte_of_word(std::uint32_t word, int j) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(word, 0, 0x4440 + static_cast<unsigned>(j));
#else
  return (word >> (8 * j)) & 255;
#endif
}

// ---- join ---------------------------------------------------------------------------------------

// The sum in units of a.unit * b.unit, byte(i) = residue_of_sum of plane i.
template <class Byte>
ETALON_HD double residue_join(const ResidueForm& f, Byte&& byte) {
  // Of t c the lower word goes with its carry, of the upper one what 2^64 leaves: two operations.
  std::uint64_t s = 0 - f.start_sum;
  std::uint32_t upper = 0;
  ETALON_UNROLL
  for (int i = 0; i < kResidues; ++i) {
    const std::uint32_t t = byte(i);
    s += std::uint64_t{t} * static_cast<std::uint32_t>(f.c[i]);
    upper += t * static_cast<std::uint32_t>(f.c[i] >> 32);
  }
  s += std::uint64_t{upper} << 32;
  return static_cast<double>(static_cast<std::int64_t>(s)) * f.scale;
}
// Of the sum that residue_join gives, times units.
ETALON_HD inline double residue_bound(const ResidueForm& f, const ResidueNorm& a,
                                      const ResidueNorm& b, double sum) {
  const double joined = fma_f64(0x1p-51, abs_of(sum), f.join_error * (a.unit * b.unit));
  return fma_f64(a.rest, b.norm, fma_f64(a.norm, b.rest, joined)) * (1 + 0x1p-40);
}

// ---- settle -------------------------------------------------------------------------------------

// The integer sum itself: high + low, exactly.
template <class Byte>
ETALON_HD TwoDoubles residue_sum(const ResidueForm& f, Byte&& byte) {
  const uint128 product = wide_of(f.product);
  uint128 s = 0;
  for (int i = 0; i < kResidues; ++i)
    s += wide_of(f.part[i]) * ((byte(i) + f.m[i] - f.start[i]) % f.m[i]);
  while (s >= product) s -= product;  // ten times at most
  const bool negative = s > product / 2;
  const uint128 size = negative ? product - s : s;
  // Both halves of 53 bits are exact: size < 2^87.
  const double high = static_cast<double>(static_cast<std::uint64_t>(size >> 44)) * 0x1p44;
  const double low =
      static_cast<double>(static_cast<std::uint64_t>(size) & ((std::uint64_t{1} << 44) - 1));
  return two_sum(negative ? -high : high, negative ? -low : low);
}
// Products of rests that are kept: their sum, and their magnitudes'.
struct ResidueFix {
  double sum = 0, size = 0;
  ETALON_HD void add(double term) {
    sum += term;
    size += abs_of(term);
  }
  ETALON_HD void merge(const ResidueFix& o) {
    sum += o.sum;
    size += o.size;
  }
};
// Fixes of a are r times z of b; of b, X of a times s.
ETALON_HD inline WideSum residue_wide(const TwoDoubles& whole, const ResidueFix& fix,
                                      const ResidueNorm& a, const ResidueNorm& b) {
  const double units = a.unit * b.unit;
  const double rounds = fix.size == 0 ? 0 : 0x1p-47 * (fix.size + abs_of(whole.error)) * units;
  return {whole.value * units, (whole.error + fix.sum) * units,
          rounds + fma_f64(a.left, b.norm, a.norm * b.left)};
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
