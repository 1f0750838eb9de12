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
      if (grid) {
        ETALON_UNROLL
        for (int j = 0; j < J; ++j) p[j] = part(e[j], over);
      }
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
  ETALON_HD Part part(const float (&e)[kLanes], float over) const {
    std::uint32_t n[kLanes];
    bool tie[kLanes], odd[kLanes];
    ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      constexpr float kMost = 0x1p25F;  // passes 2^24
      const float scaled = e[i] * over, q = scaled < kMost ? scaled : kMost;
      n[i] = static_cast<std::uint32_t>(static_cast<int>(q));
      const float rest = q - static_cast<float>(static_cast<int>(n[i]));
      tie[i] = rest == 0.5F;
      n[i] += rest > 0.5F ? 1 : 0;
      odd[i] = n[i] % 2 != 0;
    }
    const std::uint32_t ties = w_.ballot(tie), odds = w_.ballot(odd);
    ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      const std::uint32_t below = (1U << w_.lane(i)) - 1;
      // Odd ones after the tie before it, which left an even number, and its own.
      const std::uint32_t since = bits_above(ties & below) & (below * 2 + 1);
      n[i] += tie[i] ? static_cast<std::uint32_t>(count_bits(odds & since)) % 2 : 0;
    }
    const std::uint32_t first = ties & (0 - ties);  // a tie that an odd number turns round
    const int turned = count_bits(odds & (first * 2 - 1)) % 2 != 0 ? -1 : 1;
    return {static_cast<int>(w_.sum(n)), ties == 0 ? 0 : turned};
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
