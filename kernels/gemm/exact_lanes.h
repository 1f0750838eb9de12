// The parts of the exact rows that run once for every output: norms and the rounding test.
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

// What decides an output. An f32 wants both ends of its interval, as f32, to be one number. Where a
// narrower format is made of it (exact_narrow.h), an f32 between the same two midpoints of that
// format as the real value will do, or one on such a midpoint, which is looked at again there. So
// the ends need only lie in one cell: numbers whose bits agree under `mask`, both with `half` added
// and with one less. Cells lie between midpoints; each of these, which the two sums take to
// different sides, is a cell of its own. They are numbers of f32, so rounding an end to f32 takes
// it past none. Cells of their own are also numbers whose bits without the sign, times two, lie
// below `least`: there the format's are further apart than its bits tell. Where a pointer to cells
// is null, each f32 is one.
struct ExactCells {
  std::uint32_t half = 0, mask = 0, least = 0;
};
inline constexpr ExactCells kExactF16{0x1000, 0xffffe000, 0x71000000},  // 2^-14
    kExactBF16{0x8000, 0xffff0000, 0};

// A tile of first-pass sums: the output of row r, lane i is scale * sums[r][i] + added[r][i],
// rounded once. Its f64 value is off by at most bounds[r] * norms[i] + slack * |scale *
// sums[r][i]|, and by the rounding of the addition.
struct ExactTile {
  const double* sums = nullptr;
  std::int64_t sums_row = 0;
  int rows = 1, count = 0;  // count <= 32
  const double *bounds = nullptr, *norms = nullptr;
  double scale = 1, slack = 0;
  const double* added = nullptr;  // nullptr: nothing is added
  std::int64_t added_row = 0;
  float* y = nullptr;
  std::int64_t y_row = 0;
  const ExactCells* cells = nullptr;
};

// high + low is off by at most error from a real sum; NaN where an operand is NaN or infinite.
struct ExactSum {
  double high = 0, low = 0, error = 0;
};

// Windows side by side: output i is the sum over k of x[offset[k] + i] * w[k], plus `added`.
struct ExactTaps {
  const float* x = nullptr;
  const std::int64_t* offset = nullptr;
  const float* w = nullptr;
  std::int64_t k = 0;
  double added = 0;
  const ExactCells* cells = nullptr;
};

// Sums and squared norms, each by chains of fused multiply-adds.
struct ExactRows {
  const float* x = nullptr;
  std::int64_t stride = 0;  // from row to row
};

// One column of a tile: sums over k of a[k * height + r] * b[k * b_step].
struct ExactColumn {
  const double* a = nullptr;
  int height = 0;  // at most kMaxTileRows
  const float* b = nullptr;
  std::int64_t b_step = 0, k = 0;
  double* c = nullptr;  // that of row r at c + r * c_row
  std::int64_t c_row = 0;
  bool join = false;  // added to c, one rounding
};

struct ExactLanes {
  // squares[i] += the sum of b[k * step + i]^2 over k, for two vectors of outputs i.
  void (*squares)(const float* b, std::int64_t step, std::int64_t k, double* squares) = nullptr;
  // The sum of squares of k values.
  double (*square)(const float* x, std::int64_t k) = nullptr;
  // y = the f64 values rounded. Bit i of undecided[r] is set where the interval does not round to
  // one f32, or one cell; returns them all in one. All arrays but y and bounds are read in whole
  // vectors.
  std::uint32_t (*round)(const ExactTile& tile, std::uint32_t* undecided) = nullptr;
  // Asks for the lines of y of a tile to come, to be written.
  void (*ask)(const float* y, std::int64_t y_row, int rows, int count) = nullptr;
  // No term meets more than k roundings, beside the one of a joined sum.
  void (*column)(const ExactColumn& column) = nullptr;
  // A row of sums of few terms, which are made here, with the sum of their magnitudes for a
  // bound.
  std::uint32_t (*taps)(const ExactTaps& taps, int count, float* y) = nullptr;
  // For rows r < 4: sums[r] = the sum of v[i] x[r * stride + i], squares[r] that of their squares.
  // No term meets more than chain(k) roundings. v is read in whole vectors. squares may be nullptr,
  // here and in `columns`.
  void (*dots)(const double* v, const ExactRows& rows, std::int64_t k, double* sums,
               double* squares) = nullptr;
  std::int64_t (*chain)(std::int64_t k) = nullptr;
  // sums[i] += v[r] x[r * stride + i] for i < count and rows r < height upwards, squares[i]
  // likewise.
  void (*columns)(const double* v, const ExactRows& rows, int height, std::int64_t count,
                  double* sums, double* squares) = nullptr;
  // The sum of a[i] b[i] by chains in f64, bounded by that of the magnitudes: low is 0.
  ExactSum (*sum)(const float* a, const float* b, std::int64_t k) = nullptr;
  // Likewise, in twice the precision of f64.
  ExactSum (*dot)(const float* a, const float* b, std::int64_t k) = nullptr;
};

const ExactLanes* exact_lanes(Isa isa);  // nullptr where the set is not compiled in

}  // namespace etalon
namespace etalon::avx512 {
const ExactLanes& exact_lanes();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const ExactLanes& exact_lanes();
}  // namespace etalon::avx2
