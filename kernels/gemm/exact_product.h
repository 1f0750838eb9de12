// The f64 sums of exact products and convolutions, where they are made: tiles of up to `rows` rows
// by two vectors of outputs. Rows are packed and widened beforehand, since a widened broadcast is
// two instructions for two fma; the other operand stays the f32 that it was, half the bytes in
// every cache, and is widened as it is loaded, which hides behind the fma. Sums over k come in
// blocks that are joined. The last block of a usual tile is rounded in registers.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/tile.h"

namespace etalon {

// The rounding of a whole tile (ExactTile) of products as they are: neither scaled nor added to,
// but for a number to each row.
struct ExactEnd {
  const double *bounds = nullptr, *norms = nullptr;
  const double* added = nullptr;  // by row; -0 adds nothing
  float* y = nullptr;
  std::int64_t y_row = 0;
  std::uint32_t* undecided = nullptr;  // by row
  const ExactCells* cells = nullptr;
};

struct ExactProduct {
  std::int64_t k = 0;
  const double* a = nullptr;  // a[k * rows + row]
  const float* b = nullptr;   // b[k * b_step + output]
  std::int64_t b_step = 0;
  double* sums = nullptr;  // vector w of row r at sums + r * sums_row + w * lanes
  std::int64_t sums_row = 0;
  bool join = false;              // added to the sums, one rounding
  const ExactEnd* end = nullptr;  // where given, sums are not stored; two vectors only
  // Each step asks for a cache line on behalf of tiles to come.
  const void* next = nullptr;
  std::int64_t next_step = 0;  // bytes, or 0 where nothing is wanted
};
// Returns whether any output is undecided, as the bits of all.
using ExactProductFn = std::uint32_t (*)(const ExactProduct&);

struct ExactProducts {
  int lanes = 0, rows = 0;                                           // of a vector, of a tile
  std::array<std::array<ExactProductFn, kMaxTileRows + 1>, 3> of{};  // [vectors][rows]
  // Of the rows.
  PackFn<double> pack_contiguous = nullptr, pack_strided = nullptr;
};
const ExactProducts* exact_products(Isa isa);  // nullptr where the set is not compiled in

}  // namespace etalon
namespace etalon::avx512 {
const ExactProducts& exact_products();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const ExactProducts& exact_products();
}  // namespace etalon::avx2
