// How the first pass of an exact convolution is cut between threads: in blocks of pixels, which
// read all weights of their group, and in parts of a group's channels, which make their pixels
// ready again. Where pixels are few, parts let each thread read its own weights alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace etalon {

struct ExactCut {
  std::int64_t blocks = 1, parts = 1;
};

// The cut under which the busiest thread has least to do. Blocks are made of `tiles` of two
// vectors, `vectors` in all, and the second cache wants `fewest` blocks or more; cost(parts) is
// what a vector of a part costs.
template <class Cost>
ExactCut cheapest_cut(std::int64_t groups, double vectors, std::int64_t tiles, std::int64_t fewest,
                      std::int64_t most_parts, std::int64_t threads, const Cost& cost) {
  ExactCut best{.blocks = fewest};
  double least = 0;
  const std::int64_t even = std::min(tiles, (fewest + threads - 1) / threads * threads);
  for (std::int64_t parts = 1; parts <= std::min(threads, most_parts); ++parts)
    for (const std::int64_t blocks : {fewest, even}) {
      const std::int64_t shares = groups * parts;  // each over all pixels
      const std::int64_t whole = shares / threads,
                         rounds = (shares * blocks + threads - 1) / threads,
                         block = (tiles + blocks - 1) / blocks * 2;
      const double busiest = shares % threads == 0 ? static_cast<double>(whole) * vectors
                                                   : static_cast<double>(rounds * block);
      const double all = busiest * cost(parts);
      if (least != 0 && all >= least) continue;
      least = all;
      best = {.blocks = blocks, .parts = parts};
    }
  return best;
}

}  // namespace etalon
