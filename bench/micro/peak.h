// What the machine can do at most, measured: the roof that kernels' shares are told against.
//
// Sums of products: the register tile that our products are made of, its operands in the first
// cache, on every thread at once. Everything else: bytes, each read once and written once between
// arrays too large for the caches. Both are the best of a few short runs; on a machine with other
// work they are too low, and shares too high.
#pragma once

#include "engine/core/cpu.h"

namespace etalon {

struct Peak {
  double gflops = 0;  // f32; 0 where there is no vector tile to measure with
  double gbytes = 0;  // read plus written, a second
};

// Measured once for each pair, some 0.1 s.
const Peak& measured_peak(int threads, Isa isa);

}  // namespace etalon
