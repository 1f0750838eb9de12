// The chain of a row's terms by one warp, where none is negative: 32 terms at a time instead of one
// (kernels/softmax/cuda_rows.h), contract seq.
//
// Same bits, as integers. While the chain stays within a binade, it is a number S of units u, 2^23
// <= S <= 2^24, and adding a term e gives S + n, n = e / u rounded to an integer, unless e / u ends
// in one half: then it gives the even one of two. What 32 terms add is so a sum of integers, in any
// order. After a tie S is even; so which of two integers a tie takes follows from how many odd ones
// stand between it and the tie before it, or the beginning, where it follows from S. If S + sum
// passes 2^24, these 32 are added one after the other, and the next have a larger unit: of a row of
// n equal terms log2 n times.
//
// Host and device: `Warp` has kLanes lanes in a thread, one on a device and all 32 on the host.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// max, NaN where one is; which of two zeros is not said.
ETALON_HD inline float larger_of(float a, float b) {
#if defined(__CUDA_ARCH__)
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
#else
  return a != a ? a : b != b ? b : a < b ? b : a;
#endif
}
ETALON_HD inline int count_bits(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return __popc(x);
#else
  return std::popcount(x);
#endif
}
// Bits above the highest that is set, of all if none is.
ETALON_HD inline std::uint32_t bits_above(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(~std::uint64_t{0} << (32 - __clz(static_cast<int>(x))));
#else
  return static_cast<std::uint32_t>(~std::uint64_t{0} << std::bit_width(x));
#endif
}

template <class Warp>
class WarpChain {
 public:
  static constexpr int kLanes = Warp::kLanes;
  ETALON_HD explicit WarpChain(const Warp& warp, float chain = 0) : w_(warp), chain_(chain) {}
  ETALON_HD float value() const { return chain_; }

  // Terms [32 j + lane], of which those from `count` on are 0.
  template <int J>
  ETALON_HD void add(const float (&e)[J][kLanes], int count = 32 * J) {
    for (int done = 0; done < J && 32 * done < count;) {
      const std::uint32_t exponent = bits_of(chain_) >> 23;
      const bool grid = exponent >= 24;  // unit and 1 / unit are normal
      const float over = float_of((grid ? 277 - exponent : 127) << 23),
                  unit = float_of((grid ? exponent - 23 : 127) << 23);
      Part p[J] = {};
      if (grid) parts(e, over, p);
      int s = static_cast<int>((bits_of(chain_) & 0x7fffffU) | 0x800000U);
      const int first = grid ? done : J;
      ETALON_UNROLL
      for (int j = 0; j < J; ++j) {
        const int next = s + p[j].sum + (s % 2 != 0 ? p[j].odd : 0);
        if (j < first || j != done || next > 1 << 24) continue;
        s = next;
        ++done;
      }
      if (grid) chain_ = static_cast<float>(s) * unit;
      if (done == J) break;
      float one[kLanes];
      ETALON_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        one[i] = e[0][i];
        ETALON_UNROLL
        for (int j = 1; j < J; ++j) one[i] = j == done ? e[j][i] : one[i];
      }
      one_by_one(one, count - 32 * done);
      ++done;
    }
  }

 private:
  // What 32 terms add to an even number of units; and to an odd one more.
  struct Part {
    int sum, odd;
  };
  // Step by step of all J, so that their latencies hide one another.
  template <int J>
  ETALON_HD void parts(const float (&e)[J][kLanes], float over, Part (&p)[J]) const {
    std::uint32_t n[J][kLanes], ties[J], any = 0;
    bool tie[J][kLanes];
    ETALON_UNROLL
    for (int j = 0; j < J; ++j) ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      // Where a number below 2^22 ends in one half, the even one of two; of others none fits.
      constexpr float kWhole = 0x1p23F, kMost = 0x1p22F;
      const float q = e[j][i] * over, shifted = q + kWhole, rest = q - (shifted - kWhole);
      const bool fits = q < kMost;
      tie[j][i] = fits && (rest == 0.5F || rest == -0.5F);
      n[j][i] = fits ? (bits_of(shifted) & 0x7fffffU) - (rest == -0.5F ? 1 : 0) : 1U << 25;
    }
    ETALON_UNROLL
    for (int j = 0; j < J; ++j) any |= ties[j] = w_.ballot(tie[j]);
    if (any != 0) {
      ETALON_UNROLL
      for (int j = 0; j < J; ++j) turn(ties[j], tie[j], n[j], p[j]);
    }
    ETALON_UNROLL
    for (int j = 0; j < J; ++j) p[j].sum = static_cast<int>(w_.sum(n[j]));
  }
  // The even one of two: as many odd numbers as stand between a tie and the one before it, which
  // left an even number.
  ETALON_HD void turn(std::uint32_t ties, const bool (&tie)[kLanes], std::uint32_t (&n)[kLanes],
                      Part& p) const {
    bool odd[kLanes];
    ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) odd[i] = n[i] % 2 != 0;
    const std::uint32_t odds = w_.ballot(odd);
    ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      const std::uint32_t below = (1U << w_.lane(i)) - 1,
                          since = bits_above(ties & below) & (below * 2 + 1);
      if (tie[i]) n[i] += static_cast<std::uint32_t>(count_bits(odds & since)) % 2;
    }
    const std::uint32_t first = ties & (0 - ties);
    p.odd = ties == 0 ? 0 : count_bits(odds & (first * 2 - 1)) % 2 != 0 ? -1 : 1;
  }
  ETALON_HD void one_by_one(const float (&e)[kLanes], int count) {
    for (int first = 0; first < 32 && first < count; first += 8) ETALON_UNROLL
    for (int i = 0; i < 8; ++i) chain_ = chain_ + w_.from(e, first + i);
  }

  const Warp& w_;
  float chain_;
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
