// The register tile of in_place.h: up to 14 neighbouring outputs by one or two vectors of channels,
// one accumulator each, which walks its terms in order and meets no other. As gemm's tiles
// (kernels/gemm/tile.h), but the broadcast side is an image: term k of output r is
// x[steps[k].x + r * x_step].
#pragma once

#include <array>
#include <cstdint>

namespace etalon {

// Steps that stand behind the last, to be asked for ahead.
inline constexpr std::int64_t kStepsAhead = 16;

struct TapStep {
  std::int32_t x = 0, w = 0;  // elements from the first output's input, and from the weights
};

struct InPlaceTileCall {
  std::int64_t k = 0;
  const TapStep* steps = nullptr;  // k of them and kStepsAhead more
  const float* x = nullptr;
  std::int64_t x_step = 1;
  const float* w = nullptr;  // vector v at w + v * w_vector
  std::int64_t w_vector = 0;
  const float* bias = nullptr;  // of each channel, added last
  float* y = nullptr;           // output r, vector v at y + r * y_row + v * lanes
  std::int64_t y_row = 0;
  int last_lanes = 0;
  bool report_zero = false;
};
// Returns, with report_zero, a bit for each output in which some sum (before the bias) is zero.
using InPlaceTile = std::uint32_t (*)(const InPlaceTileCall&);

inline constexpr int kInPlaceRows = 14, kInPlaceVectors = 2;
using InPlaceTiles =
    std::array<std::array<InPlaceTile, kInPlaceRows + 1>, kInPlaceVectors + 1>;  // [vectors][rows]

namespace avx512 {
const InPlaceTiles& in_place_tiles();
// y[lane * y_stride + row] = c[row * c_row + lane] for 16 rows of 16 lanes.
void store_square(const float* c, std::int64_t c_row, float* y, std::int64_t y_stride);
}  // namespace avx512

}  // namespace etalon
