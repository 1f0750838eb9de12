// max_pool and avg_pool on f32 for small planes: as many planes as a vector has lanes are turned
// until a vector holds one point of each, windows are walked on such vectors, and the results are
// turned back.
//
// Any window, stride and padding is served alike, without masks: a plane of 2x2 outputs fills a
// quarter of a vector at best where outputs lie in lanes. Same bits: a lane is one plane, whose
// taps are met in the definition's order; taps in the padding are not in the list. Limit: turning,
// one shuffle for every four elements in and out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/window.h"

namespace etalon {

struct PlanesCall {
  const float* x = nullptr;  // the first plane
  float* y = nullptr;
  const float* divisor = nullptr;  // of averages, by output
  int planes = 0;                  // at most a vector's lanes
  std::int64_t in_points = 0, out_points = 0;
  const std::int32_t* taps = nullptr;   // of all outputs, points of the input
  const std::int32_t* first = nullptr;  // of each output in `taps`; out_points + 1
  float* turned_in = nullptr;           // whole vectors for each point
  float* turned_out = nullptr;
};

namespace avx512 {
void max_planes(const PlanesCall& call);
void average_planes(const PlanesCall& call);
}  // namespace avx512
namespace avx2 {
void max_planes(const PlanesCall& call);
void average_planes(const PlanesCall& call);
}  // namespace avx2

class PoolPlanes {
 public:
  // Served where `worthwhile`, and planes are not too large to stay in cache.
  PoolPlanes(const Window& window, int lanes, bool worthwhile);
  bool serves() const { return serves_; }
  int lanes() const { return lanes_; }
  // All but x, y, divisor and planes; its memory is this thread's.
  PlanesCall call() const;

 private:
  int lanes_;
  bool serves_ = false;
  std::int64_t in_points_ = 0, out_points_ = 0;
  std::vector<std::int32_t> taps_, first_;
};

}  // namespace etalon
