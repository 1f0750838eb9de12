// lrn on f32, contract seq, beta = 0.75 (the value of every published network that uses it).
//
// Same bits: the sum over channels is the definition's fma chain, in its own lane. The power
// b^(3/4), correctly rounded by contract, is sqrt(b) * sqrt(sqrt(b)) in f64: three roundings and
// half of one carried through the inner root, so a relative error below 3.5 * 2^-53 < 2^-51. Where
// both ends of an interval of 2^-50 round to one f32, that is the result; elsewhere, and for b that
// is not positive, the definition computes it. Before that the roots are taken in f32 and corrected
// (lrn_inl.h), since f64 ones are the slowest thing here: on AVX-512 two roots and a division are
// left, as in a kernel that promises no bits, on AVX2 three.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace etalon {

// Channels that a call takes at best: windows of neighbours share what they load. Pixels at most:
// the rows of a window stay in the first cache.
inline constexpr std::int64_t kLrnChannels = 4, kLrnPixels = 256;

// n <= kLrnPixels neighbouring elements of each of `channels` channels, all with windows of the
// same distances; the elements of the channel at distance d lie at x + d * step, their outputs at y
// + d * step.
struct LrnCall {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t n = 0;
  std::int64_t first = 0, last = 0;  // distances of the channels in the sum
  std::int64_t step = 0;
  std::int64_t channels = 1;  // at most kLrnChannels
  // Distances, from an element of x and an output, of what the next call loads and stores: no
  // prefetcher of the processor sees a jump from channel to channel.
  std::int64_t next_x = 0, next_y = 0;
  float factor = 0, bias = 0;
  float (*power)(float base) = nullptr;  // the definition's
};

namespace avx2 {
// Returns how many elements `power` computed.
std::int64_t lrn(const LrnCall& call);
}  // namespace avx2
namespace avx512 {
std::int64_t lrn(const LrnCall& call);
}

template <Isa isa>
KernelRow lrn_f32_row(std::string_view name);

}  // namespace etalon
