// The register tile of in_place.h: neighbouring outputs of a row by one to three vectors of
// channels, one accumulator each, which walks its terms in order and meets no other.
//
// Terms come in groups of up to three neighbouring taps of a row of the window. Within a group each
// input is broadcast once, for all outputs that it is under: input j of a row stands under tap s of
// output (j - s) / step. Going through j upwards, an output meets its taps upwards too, so the
// chains are those of one tap after the other, with 14 broadcasts for 72 fma where that took 36.
// The fewer loads and instructions show where two programs share a core. Sets of sixteen registers
// broadcast for each tap.
#pragma once

#include <array>
#include <cstdint>

namespace etalon {

inline constexpr int kGroupTaps = 3;
// Groups that stand behind the last, to be asked for ahead.
inline constexpr std::int64_t kGroupsAhead = 6;

struct TapGroup {
  std::int32_t x = 0, w = 0;  // elements from the first output's input, and from the weights
  std::int32_t taps = 1;
};

struct InPlaceTileCall {
  std::int64_t count = 0;
  const TapGroup* groups = nullptr;  // count of them and kGroupsAhead more
  const float* x = nullptr;
  std::int64_t x_step = 1;
  // 3, 5: a window of three columns with one column of padding, of five with two, in groups of
  // three and two taps. left leaves out the inputs before the first output's own and right those
  // behind the last one's, which are padding. 0: any window, and nothing is left out. Of steps 1
  // and 2, up to rows[2] outputs; step 2 has windows of three and no right: even images have no
  // padding there.
  int columns = 0;
  bool left = false, right = false;
  const float* w = nullptr;  // vector v at w + v * w_vector
  std::int64_t w_vector = 0;
  const float* bias = nullptr;  // of each channel, added last
  bool resume = false;          // accumulators start from y, else from +0
  float* y = nullptr;           // output r, vector v at y + r * y_row + v * lanes
  std::int64_t y_row = 0;
  int last_lanes = 0;
  bool report_zero = false;
  bool ask_outputs = false;  // y comes from far: its lines are asked for before the sums are made
  // A cache line is asked for at each group, on behalf of who comes next.
  const float* next = nullptr;
  std::int64_t next_step = 0;  // elements from one to the next; 0 where nothing is wanted
};
// Returns, with report_zero, a bit for each output in which some sum (before the bias) is zero.
using InPlaceTile = std::uint32_t (*)(const InPlaceTileCall&);

// The largest tile of any set, and vectors of a tile.
inline constexpr int kInPlaceMost = 14, kInPlaceVectors = 3;
// Steps with a tile of their own; 0: any, in groups of one tap.
inline constexpr int kInPlaceSteps = 2;

struct InPlaceTiles {
  // Outputs of the largest tile by its vectors, whose accumulators leave room for weights; 0: none.
  std::array<int, kInPlaceVectors + 1> rows{};
  using Rows = std::array<std::array<InPlaceTile, kInPlaceMost + 1>,
                          kInPlaceVectors + 1>;  // [vectors][outputs], from half of rows[2] on
  std::array<Rows, kInPlaceSteps + 1> of;        // [step]
  // y[lane * y_stride + row] = c[row * c_row + lane] for as many rows as a vector has lanes.
  void (*square)(const float* c, std::int64_t c_row, float* y, std::int64_t y_stride) = nullptr;
  // rows[c * stride + i] = x[3 * i + c] for i < count: pixels of three channels to a row of each.
  void (*three)(const float* x, std::int64_t count, float* rows, std::int64_t stride) = nullptr;
};

namespace avx512 {
const InPlaceTiles& in_place_tiles();
}
namespace avx2 {
const InPlaceTiles& in_place_tiles();
}

}  // namespace etalon
