// conv, f32, contract seq, one input channel a group: a sum has few terms and packing would cost
// more than adding them, so vectors of output pixels read the image in place.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/kernel.h"
#include "kernels/conv/plan.h"

namespace etalon {

// One output channel of one image. Rows of outputs are cut into vectors of `lanes`. Pools walk
// their windows the same way (kernels/pool/fast.cpp): w is then nullptr.
struct DepthwiseCall {
  const float* x = nullptr;  // the input channel, laid out as the plan says (conv/plan.h)
  const float* w = nullptr;  // [taps]
  const float* bias = nullptr;
  float* y = nullptr;
  std::int64_t out_rows = 0, out_width = 0;
  // Of output row r: where its first window starts, and which taps have their row inside:
  // taps[first[r]] ... taps[first[r + 1] - 1], ascending.
  const std::int64_t* row_base = nullptr;
  const std::int64_t* first = nullptr;
  const std::int32_t* taps = nullptr;
  const std::int64_t* offset = nullptr;  // [taps]
  // Of vector v: the lanes whose column is inside under each tap, [v][taps]; inner[v] when all
  // lanes of all taps are.
  const std::uint16_t* lanes_inside = nullptr;
  const char* inner = nullptr;
  std::int64_t tap_count = 0;
  const float* divisor = nullptr;  // average pooling: of each output
};
using DepthwiseFn = void (*)(const DepthwiseCall&);

namespace avx512 {
void depthwise(const DepthwiseCall& call);
void max_pool(const DepthwiseCall& call);
void average_pool(const DepthwiseCall& call);
}  // namespace avx512
namespace avx2 {
void depthwise(const DepthwiseCall& call);
void max_pool(const DepthwiseCall& call);
void average_pool(const DepthwiseCall& call);
}  // namespace avx2

// What a DepthwiseCall needs beyond pointers, for one geometry and vector length.
struct WindowRows {
  ConvPlan plan;
  std::vector<std::int64_t> row_base, first;
  std::vector<std::int32_t> taps;
  std::vector<std::uint16_t> lanes_inside;
  std::vector<char> inner;

  WindowRows(const ConvGeometry& g, int lanes);
  // All but x, w, bias, y and divisor.
  DepthwiseCall call() const;
  // Where one channel is read: `x` itself, or this thread's copy of it with strided columns apart.
  const float* channel(const float* x) const;
};

template <Isa isa>
KernelRow depthwise_f32_row(std::string_view name);

}  // namespace etalon
