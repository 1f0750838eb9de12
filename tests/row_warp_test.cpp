// Claim of kernels/backends/cuda/row_warp.h: a warp's chain of terms, none negative, is the chain
// of f32 additions one after the other, over ties of either parity, terms near the chain and far
// below it, powers of two that it passes, zeros, subnormals.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/core/philox.h"
#include "tests/host_warp.h"

namespace etalon {
namespace {

float by_warp(const std::vector<float>& terms) {
  constexpr int kEach = 8;
  const HostRowWarp warp;
  WarpChain<HostRowWarp> chain(warp);
  for (std::size_t k = 0; k < terms.size(); k += 32 * kEach) {
    float e[kEach][32] = {};
    for (std::size_t i = 0; i < 32 * kEach && k + i < terms.size(); ++i)
      e[i / 32][i % 32] = terms[k + i];
    chain.add(e, static_cast<int>(terms.size() - k));
  }
  return chain.value();
}
float one_by_one(const std::vector<float>& terms) {
  float chain = 0;
  for (const float e : terms) chain = chain + e;
  return chain;
}

}  // namespace

TEST_CASE("a warp's chain of terms is the chain of f32 additions") {
  const Philox random{3, 9};
  std::uint64_t at = 0;
  constexpr int kKinds = 9;
  for (int kind = 0; kind < kKinds; ++kind)
    for (std::size_t n = 1; n < 4000; n += 1 + n / 3)
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<float> terms(n);
        for (std::size_t i = 0; i < n; ++i) {
          const std::uint32_t word = random.word(at++);
          const float u = static_cast<float>(word >> 8) * 0x1p-24F;
          const auto few = static_cast<int>(word % 64);
          const float choices[kKinds] = {
              u,
              std::ldexp(1.0F, -few / 4),                              // powers: many ties
              std::ldexp(static_cast<float>(few + 1), -12),            // halves of the units
              std::ldexp(1 + u, -few),                                 // wide
              i == 0 ? 1.0F : 0x1p-24F * static_cast<float>(few % 4),  // at one unit's half
              std::ldexp(u, -126 - few / 3),                           // subnormal
              few < 40 ? 0.0F : 1.0F,
              i % 50 == 7 ? 1024 * u : 0x1p-14F,
              std::ldexp(1.0F, static_cast<int>(i % 200) - 149)};  // passes every power
          terms[i] = choices[kind];
        }
        CAPTURE(kind);
        CAPTURE(n);
        REQUIRE(bits_of(by_warp(terms)) == bits_of(one_by_one(terms)));
      }
}

}  // namespace etalon
