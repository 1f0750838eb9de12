// What a tensor core computes: products of narrow formats, summed in blocks by a fixed-point adder.
//
//   y = step(c, a_1 b_1, ..., a_L b_L), y the c of the next block; c of the first block is +0
//
// The unit does not round term by term. Products are exact. Each term (c too) has an exponent: that
// of c, and of a product the sum of its factors' exponents, so that its significand lies below 4
// and is not normalised. All are shifted to the largest exponent and cut, toward zero, to F
// fractional bits; what is left is added exactly and the sum is cut toward zero to f32 (rounded to
// nearest even where the accumulator is f16). So a term's share depends on its neighbours: sums are
// neither commutative over blocks nor monotonic.
//
//                  block L                               F                     result
//   volta          f16 4                                 23                    f32 cut, f16 rounded
//   ampere         f16, bf16 8; tf32 4                   24                    likewise
//   ada            as ampere; f8 16                      24; f8 13             f8: f32 cut to 13
//   bits hopper         f16, bf16 16; tf32 8; f8 32 (wgmma)   25; f8 13             likewise
//
// (Ampere's and Ada's instructions have twice that k and do two steps.) A subnormal has the least
// exponent of its format and a leading zero; a zero has exponent -126 and so never moves the
// others. A sum of zero is +0; a result beyond the format is infinite; a term that is not finite
// leaves the unit's adder: the result is what IEEE 754 says of the sum. The hardware's NaN is
// 7fffffff, ours, as everywhere, the canonical one.
//
// Factors that are no number of the format are first made one: f32 becomes tf32 by dropping its low
// 13 bits, as the unit does; f16, bf16, f8e5m2 round to nearest even with overflow to infinity;
// f8e4m3 (its "fn" form) likewise, but what rounds beyond 448 is NaN, for it has no infinity.
//
// Sources: Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS
// 7:e330, 2021 (Volta to Ampere: alignment, truncation, extra bits, no normalisation); Li et al.,
// "FTTN: Feature-Targeted Testing for Numerical Properties of NVIDIA and AMD Matrix Accelerators",
// CCGRID 2024; Xie, Wang, Yang, Yang, "MMA-Sim", arXiv 2511.10909, 2025 (blocks, f8, subnormals,
// checked there against the hardware); Khattak, Mikaitis, "Accurate Models of NVIDIA Tensor Cores",
// arXiv 2512.07004, 2025. An H100 gave these bits in 10^8 hostile cases a format (docs/gpu.md).
#pragma once

#include "engine/core/dtype.h"
#include "engine/numerics/contract.h"
#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// What a tensor of this type is multiplied as, where the contract does not say.
ETALON_HD constexpr TensorCoreFormat tensor_core_format(DType dtype) {
  return dtype == DType::f16    ? TensorCoreFormat::f16
         : dtype == DType::bf16 ? TensorCoreFormat::bf16
                                : TensorCoreFormat::tf32;
}

// A factor: significand * 2^(exponent - (precision - 1)), |significand| < 2^precision; where not
// finite, `special` holds what it is.
struct TensorCoreFactor {
  std::int32_t significand = 0;
  std::int32_t exponent = -126;
  double special = 0;  // a NaN or an infinity, else 0
};

struct TensorCoreModel {
  int block = 0;            // L; 0: the architecture does not multiply this format
  int fraction_bits = 0;    // F
  int result_bits = 23;     // fractional bits of an f32 result
  bool f16_result = false;  // acc=f16
  TensorCoreFormat format = TensorCoreFormat::f16;
  int precision = 11, min_exponent = -14, max_exponent = 15;

  ETALON_HD static TensorCoreModel of(TensorCoreArch arch, TensorCoreFormat format, DType acc) {
    TensorCoreModel m;
    m.format = format;
    const bool f8 = format == TensorCoreFormat::f8e4m3 || format == TensorCoreFormat::f8e5m2;
    const bool tf32 = format == TensorCoreFormat::tf32, bf16 = format == TensorCoreFormat::bf16;
    m.f16_result = acc == DType::f16;
    if (bf16 || tf32) {
      m.precision = bf16 ? 8 : 11;
      m.min_exponent = -126;
      m.max_exponent = 127;
    } else if (format == TensorCoreFormat::f8e4m3) {
      m.precision = 4;
      m.min_exponent = -6;
      m.max_exponent = 8;
    } else if (f8) {
      m.precision = 3;
    }
    // An f16 accumulator goes with f16 and f8 products only.
    if ((acc != DType::f32 && acc != DType::f16) || (m.f16_result && (bf16 || tf32))) return m;
    switch (arch) {
      case TensorCoreArch::volta:
        if (format == TensorCoreFormat::f16) m.block = 4;
        m.fraction_bits = 23;
        break;
      case TensorCoreArch::ampere:
      case TensorCoreArch::ada:
        m.block = tf32 ? 4 : 8;
        if (f8) m.block = arch == TensorCoreArch::ada ? 16 : 0;
        m.fraction_bits = 24;
        break;
      case TensorCoreArch::hopper:
        m.block = tf32 ? 8 : f8 ? 32 : 16;
        m.fraction_bits = 25;
        break;
    }
    if (f8) m.fraction_bits = m.result_bits = 13;
    return m;
  }

  ETALON_HD TensorCoreFactor factor(double x) const {
    if (format == TensorCoreFormat::tf32) {
      x = static_cast<double>(float_of(bits_of(static_cast<float>(x)) & 0xffffe000U));
      if (x != x) x = kNan;
    }
    TensorCoreFactor f;
    std::uint64_t b = bits_of(x);
    if (!is_finite(x)) {
      f.special = canonical(x);
      return f;
    }
    const int e = static_cast<int>((b >> 52) & 0x7ff) - 1023;
    if (e == -1023 || e < min_exponent - precision) return f;  // f64's subnormals: below any format
    const std::uint64_t m = (b & 0x000fffffffffffffU) | 0x0010000000000000U;
    f.exponent = e < min_exponent ? min_exponent : e;
    const int drop = 53 - precision + (f.exponent - e);  // 29 .. 62
    std::uint64_t kept = m >> drop;
    const std::uint64_t rest = m & ((std::uint64_t{1} << drop) - 1),
                        half = std::uint64_t{1} << (drop - 1);
    kept += (rest > half || (rest == half && (kept & 1) != 0)) ? 1U : 0U;
    if ((kept >> precision) != 0) {
      kept >>= 1;
      ++f.exponent;
    }
    if (format == TensorCoreFormat::f8e4m3 ? f.exponent > 8 || (f.exponent == 8 && kept > 14)
                                           : f.exponent > max_exponent) {
      f.special = format == TensorCoreFormat::f8e4m3 ? kNan : with_sign(kInfinity, x < 0);
      return f;
    }
    if (kept == 0) return {};
    f.significand = static_cast<std::int32_t>(x < 0 ? -static_cast<std::int64_t>(kept)
                                                    : static_cast<std::int64_t>(kept));
    return f;
  }

  // The factor's value, exactly.
  ETALON_HD double value(const TensorCoreFactor& f) const {
    if (f.special != 0) return f.special;
    return static_cast<double>(f.significand) * power_of_two(f.exponent - precision + 1);
  }

  // term * 2^shift cut toward zero; shift may be any number below 32.
  ETALON_HD static std::int64_t aligned(std::int64_t term, int shift) {
    if (shift >= 0) return term * (std::int64_t{1} << shift);
    if (shift < -62) return 0;
    const std::int64_t magnitude = (term < 0 ? -term : term) >> -shift;
    return term < 0 ? -magnitude : magnitude;
  }

  // c as the adder sees it: significand * 2^(exponent - 23), whichever format it has.
  struct Addend {
    std::int64_t significand = 0;
    int exponent = -126;
  };
  ETALON_HD Addend addend(double c) const {
    if (c == 0) return {};
    const int least = f16_result ? -14 : -126;
    int e = static_cast<int>((bits_of(c) >> 52) & 0x7ff) - 1023;
    if (e < least) e = least;
    // Exact: c has at most 24 bits from e down.
    return {static_cast<std::int64_t>(c * power_of_two(23 - e)), e};
  }

  // sum * 2^(exponent - F) as the accumulator's format holds it.
  ETALON_HD double result(std::int64_t sum, int exponent) const {
    if (sum == 0) return 0.0;
    // Exact: at most 40 bits, exponent - F from -151 to 256.
    const double exact = static_cast<double>(sum) * power_of_two(exponent - fraction_bits);
    if (f16_result) {
      const double rounded = round_to(exact, DType::f16);
      return rounded == 0 ? 0.0 : rounded;
    }
    const double size = abs_of(exact);
    if (size >= 0x1p128) return with_sign(kInfinity, exact < 0);
    int e = static_cast<int>((bits_of(size) >> 52) & 0x7ff) - 1023;
    if (e < -126) e = -126;
    const auto kept = static_cast<std::int64_t>(size * power_of_two(result_bits - e));
    const double cut = static_cast<double>(kept) * power_of_two(e - result_bits);
    return kept == 0 ? 0.0 : with_sign(cut, exact < 0);
  }

  // One block; n factors, at most L.
  ETALON_HD double step(double c, const TensorCoreFactor* a, const TensorCoreFactor* b,
                        int n) const {
    bool special = !is_finite(c);
    const Addend first = special ? Addend{} : addend(c);
    int largest = first.exponent;
    for (int k = 0; k < n; ++k) {
      special = special || a[k].special != 0 || b[k].special != 0;
      const int e = a[k].exponent + b[k].exponent;
      largest = e > largest ? e : largest;
    }
    if (special) {
      double s = c;
      for (int k = 0; k < n; ++k) s += value(a[k]) * value(b[k]);
      return canonical(s);
    }
    const int scale = fraction_bits - largest;
    std::int64_t sum = aligned(first.significand, first.exponent + scale - 23);
    for (int k = 0; k < n; ++k)
      sum += aligned(std::int64_t{a[k].significand} * b[k].significand,
                     a[k].exponent + b[k].exponent + scale - 2 * (precision - 1));
    return result(sum, largest);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
