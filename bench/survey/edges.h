// The inputs on which two honest libraries part: those whose exact value lies near a midpoint of
// two floats.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/survey/functions.h"

namespace etalon {

struct Edge {
  std::uint32_t x = 0;  // bits
  double midpoint = 0;  // the rounding boundary
  double distance = 0;  // exact value minus midpoint, in ULP, signed; 0: the value is the midpoint
  float rounded = 0;    // the correctly rounded value
};

struct Edges {
  std::int64_t count = 0;     // all within the distance
  std::vector<Edge> nearest;  // the nearest of them, at most `most`, nearest first
};

// Over all of f32; `within` is in ULP, below 1/4. Exact values that are midpoints count too.
Edges find_edges(const SurveyedFunction& f, double within, std::size_t most, Isa isa, int threads,
                 const std::function<void(int done, int of)>& progress = {});

}  // namespace etalon
