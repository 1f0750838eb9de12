// Steps of row-wise f32 operators (softmax, layer_norm, rms_norm) over rows that lie contiguous in
// memory: sums in the contract's order, the largest element, and what is done to each element
// apart.
//
// Same bits: under order=seq a row is one chain; the chains of as many rows as a vector has lanes
// run side by side, their terms turned in squares so that a lane is a row. Under order=lanes:N the
// lanes are the contract's own, in registers where N is a few vectors. The largest element does not
// depend on the order it is looked for in, but for the sign of a zero, which nobody here sees: x -
// (+0) and x - (-0) differ for x = -0 alone, and e^(+0) = e^(-0).
#pragma once

#include <cstdint>

namespace etalon {

// Most lanes of a sum.
inline constexpr std::int64_t kMostLanes = 4096;
// Rows that are summed side by side at best.
inline constexpr std::int64_t kRowsAtOnce = 16;

// y = (x - mean) / root, then fma(y, scale, bias), y * scale, or as it is where both are nullptr; a
// bias without a scale is added to y * 1. NaN canonical. y may be x. A mean of +0 changes no x.
struct RowAffine {
  const float* x = nullptr;
  float mean = 0, root = 1;
  const float* scale = nullptr;
  const float* bias = nullptr;
  bool finite = false;  // all of scale and bias are known to be finite: fewer looks for NaN
  // Every x - mean is known to be +0 or of a size from 2^-60 to 2^60, and root to be in that range:
  // no element is asked whether the quick way divides it right.
  bool quick = false;
  float* y = nullptr;
  std::int64_t n = 0;
};

// What RowSteps::chains_and_squares works on: the sums of one group of kRowsAtOnce rows and, beside
// them, the squares of the group before. Either may be left out.
struct RowGroups {
  const float* x = nullptr;  // the first row to be summed, or none
  std::int64_t stride = 0, n = 0;
  std::int64_t rows = 0;         // to be summed; lanes beyond them repeat the last
  float* sums = nullptr;         // kRowsAtOnce
  const float* means = nullptr;  // of the rows before, or none: kRowsAtOnce
  float* squares = nullptr;      // kRowsAtOnce
  float* turned = nullptr;       // kRowsAtOnce * n aligned floats: the rows before, then these
};

struct RowSteps {
  // sums[r] for r < rows: the chain over row r's terms, x[r * stride + k], or, with means, over the
  // squares of x[r * stride + k] - means[r], fused.
  void (*chains)(const float* means, const float* x, std::int64_t stride, std::int64_t rows,
                 std::int64_t n, float* sums);
  // The same two chains, of rows that are turned once: a chain of squares waits for its additions,
  // turning for shuffles, so that both together take little longer than either.
  void (*chains_and_squares)(const RowGroups& groups);
  // The sum of one row, term k in lane k mod `lanes`, then a tree by halving distance.
  float (*lanes)(const float* mean, const float* x, std::int64_t n, std::int64_t lanes);
  // NaN if there is one, -inf of nothing.
  float (*largest)(const float* x, std::int64_t n);
  void (*subtract)(const float* x, float m, float l, float* y, std::int64_t n);  // y = (x - m) - l
  void (*affine)(const RowAffine& row);
  bool (*finite)(const float* x, std::int64_t n);  // neither infinity nor NaN
};

const RowSteps& row_steps_avx2();
// For AMD's processors or for others: the same bits.
const RowSteps& row_steps_avx512(bool amd);

}  // namespace etalon
