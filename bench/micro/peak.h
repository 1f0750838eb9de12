// What the machine can do at most, measured: the roof that kernels' shares are told against.
//
// Sums of products: the register tile that our products are made of, its operands in the first
// cache, on every thread at once. Everything else: bytes, each read once and written once between
// two arrays, by how much of each thread's work fits a cache. All are the best of a few short runs;
// on a machine with other work they are too low, and what a row reached then stands in their place
// (bench/cli/bench_peaks.h).
#pragma once

#include <vector>

#include "engine/core/cpu.h"

namespace etalon {

struct Peak {
  struct Level {
    double bytes = 0;   // of a thread: both arrays
    double gbytes = 0;  // read plus written, a second, by all threads
  };
  double gflops = 0;          // f32; 0 where there is no vector tile to measure with
  std::vector<Level> levels;  // smallest first; the last is beyond the caches
};

// Measured once for each pair, some 0.2 s.
const Peak& measured_peak(int threads, Isa isa);

}  // namespace etalon
