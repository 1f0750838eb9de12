// Philox4x32-10: a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers:
// as easy as 1, 2, 3", SC'11). Element i of a stream depends on (seed, stream, i) alone, so that
// any number of threads, in any order, on any device, draws the same numbers.
#pragma once

#include <array>
#include <cstdint>

#include "engine/numerics/host_device.h"

namespace etalon {

struct Philox {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  // The four 32-bit words of block `counter`.
  ETALON_HD std::array<std::uint32_t, 4> block(std::uint64_t counter) const {
    std::array<std::uint32_t, 4> x{
        static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    std::uint32_t k0 = static_cast<std::uint32_t>(seed),
                  k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * x[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * x[2];
      x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return x;
  }
  ETALON_HD std::uint32_t word(std::uint64_t i) const { return block(i / 4)[i % 4]; }
  // Uniform in [-1, 1), a multiple of 2^-23: exact in f32.
  ETALON_HD float uniform(std::uint64_t i) const {
    return static_cast<float>(static_cast<std::int32_t>(word(i) >> 8) - (1 << 23)) * 0x1p-23F;
  }
};

}  // namespace etalon
