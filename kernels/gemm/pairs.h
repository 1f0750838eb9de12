// Products of bf16 by VDPBF16PS, two terms an instruction, under contract seq with its very bits.
//
// The instruction adds to an f32 the product of the upper halves of two words of 32 bits, then that
// of the lower ones: two roundings, to nearest even, inputs and results that are subnormal taken
// for zero (the operation of VDPBF16PS in Intel's instruction set reference; AMD's Zen 4 does the
// same, and `adds_in_order` sees for itself). So words that hold terms 2j, upper, and 2j + 1 make a
// chain that walks k upwards, and differ from the fma chain of seq only where a product is not an
// f32 or a result is flushed. Neither happens where all numbers are finite and the magnitudes other
// than zero lie in [2^p, 2^(q+1)) for a, [2^r, 2^(s+1)) for b, with
//   p + r >= -112:  a number of 8 bits is a multiple of 2^-7 of its binade, so every product, and
//                   by induction every sum, is a multiple of 2^(p+r-14) >= 2^-126: a sum that is
//                   not zero is normal, and one below 2^24 of these is exact (rounding a larger one
//                   leaves a multiple);
//   q + s <= 125:   products stay below 2^127.
// Then a zero term changes no sum: one that starts from +0 never is -0, since x + -x is +0 and
// nothing underflows. So an odd k ends on a pair with a zero, and padding is added as the zeros it
// is. Operands outside that range go the way of halves_row.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "engine/backend/kernel.h"
#include "engine/core/threads.h"
#include "kernels/gemm/tile.h"

namespace etalon {

// Of bf16 without their signs, as bits: the least that is not zero, the most.
struct Magnitudes {
  std::uint16_t least = 0x7fff, most = 0;
  void join(const Magnitudes& o) {
    least = std::min(least, o.least);
    most = std::max(most, o.most);
  }
};
// Whether products of such numbers and their sums are as above.
inline bool keeps_order(const Magnitudes& a, const Magnitudes& b) {
  constexpr int kBias = 127, kInfinite = 255;
  const auto exponent = [](std::uint16_t x) { return x >> 7; };
  if (exponent(a.most) == kInfinite || exponent(b.most) == kInfinite) return false;
  if (a.most == 0 || b.most == 0) return true;
  return exponent(a.least) >= 1 && exponent(b.least) >= 1 &&
         exponent(a.least) + exponent(b.least) >= 2 * kBias - 112 &&
         exponent(a.most) + exponent(b.most) <= 2 * kBias + 125;
}

inline std::int64_t pair_steps(std::int64_t k) { return (k + 1) / 2; }

// Why not, in one sentence: the processor lacks the instruction, or it does not do as above.
Refusal refuse_pairs();
Refusal refuse_pairs(const Problem& problem);  // nor where an operand is not bf16

inline const std::uint16_t* bf16_bits(const Tensor& t) {
  return reinterpret_cast<const std::uint16_t*>(t.bytes().data());
}

inline const std::uint16_t* bf16_or_null(const Tensor& t) {
  return t.dtype() == DType::bf16 ? bf16_bits(t) : nullptr;
}

// The tiles of tile_set_f32(Isa::avx512), whose packed elements are words of two terms; masked and
// reading ones are missing. Where refuse_pairs() has nothing against it.
const TileSet& pair_tiles();

namespace avx512bf16 {
bool adds_in_order();
const TileSet& tiles();
// Words of k neighbours, [pair_steps(k)].
void pair_along(const std::uint16_t* from, std::int64_t k, float* to, Magnitudes& seen);
// Words of two rows of n, the second one zeros where it is nullptr.
void pair_across(const std::uint16_t* first, const std::uint16_t* second, std::int64_t n, float* to,
                 Magnitudes& seen);
// Words of up to 32 numbers that lie side by side in k rows, as strips of sixteen: those of the
// first sixteen at to[step * 16 + i], those of the others at to_strip behind; zeros behind `count`.
struct PairsAcross {
  const std::uint16_t* from = nullptr;
  std::int64_t row = 0, k = 0;
  int count = 0;
  float* to = nullptr;
  std::int64_t to_strip = 0;
};
void pack_across(const PairsAcross& pairs, Magnitudes& seen);
void see(const std::uint16_t* from, std::int64_t count, Magnitudes& seen);
}  // namespace avx512bf16

// body(begin, end, seen) over a partition of [0, count); what all have seen.
template <class Body>
Magnitudes seen_by(std::int64_t count, int threads, std::int64_t grain, const Body& body) {
  Magnitudes all;
  std::mutex joining;
  parallel_for(count, threads, grain, [&](std::int64_t begin, std::int64_t end) {
    Magnitudes seen;
    body(begin, end, seen);
    const std::lock_guard<std::mutex> lock(joining);
    all.join(seen);
  });
  return all;
}

KernelRow gemm_pairs_row(std::string_view name);

}  // namespace etalon
