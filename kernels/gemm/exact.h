// Contract exact for products and convolutions on f32: a first pass in f64 whose error is bounded,
// a test whether both ends of the interval round to the same f32, and the definition for the rest.
//
// Products of two f32 are exact in f64, so a chain of K fused multiply-adds is off by at most
// K u / (1 - K u) * sum |a b| <= K u / (1 - K u) * |a| |b| (2-norms, Cauchy-Schwarz), u = 2^-53.
// Nothing under- or overflows: products are multiples of 2^-298 below 2^256. A factor alpha
// multiplies the bound and rounds once more (slack, 2^-52 of the product). NaN and infinities
// fail the test, and so does an interval that holds zero but is not zero; they are left to the
// definition, whose result needs no order: it is the correctly rounded one.
//
// Where the processor has int8 tiles, the first pass goes through residues instead
// (residue_tile.h). What either leaves undecided is summed again in twice the precision
// (exact_settle.h), and only what that leaves goes to the definition.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <optional>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/numerics/fp.h"
#include "kernels/gemm/digits.h"
#include "kernels/gemm/exact_decide.h"
#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/exact_product.h"
#include "kernels/gemm/exact_settle.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/pairs.h"
#include "kernels/gemm/residue_operand.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

// Since the start: outputs, those that the first pass left undecided, and those that only the
// definition decided; tests ask that neither is zero.
struct ExactCounts {
  std::atomic<std::int64_t> outputs{0}, undecided{0}, defined{0};
};
ExactCounts& exact_counts();

// What makes a first pass correctly rounded. No kernel row leaves a part out: a test does, each in
// turn, and asks that wrong bits come out.
struct ExactSteps {
  bool rounding_test = true;
  bool settle = true;
  bool definition = true;
  // In the place of the processor's tiles, and wherever they can: a test's, in software.
  const ResidueSet* residues = nullptr;
  // This form of Winograd's wherever it can, be it fast or not; another form's taps: none of them.
  std::optional<int> winograd = std::nullopt;
  // Of the format that the outputs are rounded to afterwards; run_exact_pass knows.
  const ExactCells* cells = nullptr;
};

// K u / (1 - K u), with room for the rounding of the norms themselves. k counts the roundings that
// a term meets: those of its chain, and one for each chain that is joined to it.
inline double exact_factor(std::int64_t k) {
  return static_cast<double>(k) * 0x1p-53 * (1 + 0x1p-10);
}

// Whether so many items of one size keep all threads busy but for an eighth of their time.
inline bool keep_busy(std::int64_t items, std::int64_t threads) {
  return 8 * ((items + threads - 1) / threads * threads) <= 9 * items;
}

// Bytes that a step of each of so many tiles asks for ahead, of a strip of so many rows.
inline std::int64_t exact_share(std::int64_t rows, std::int64_t tiles) {
  return (rows * std::int64_t{sizeof(double)} + tiles - 1) / tiles;
}
// Outputs of so many terms that a thread settles at a time: some microseconds.
inline std::int64_t exact_settled(std::int64_t k) {
  return std::clamp<std::int64_t>(4096 / std::max<std::int64_t>(1, k), 1, 64);
}
// To the sums of rows that add nothing (ExactEnd).
inline constexpr std::array<double, kMaxTileRows> kNothingAdded = [] {
  std::array<double, kMaxTileRows> zeros{};
  zeros.fill(-0.0);
  return zeros;
}();

// Rounds a tile; appends those of its outputs that are undecided to `left`, the first of them being
// output `at`. truth is laid out as y; nullptr where none is wanted (a wanted one knows no cells).
inline void exact_tile(const ExactLanes& lanes, ExactTile tile, double* truth, std::int64_t at,
                       const ExactSteps& steps, std::vector<std::int64_t>& left) {
  tile.cells = steps.cells;
  std::uint32_t undecided[kResidueTileRows] = {}, any = 0;
  if (truth == nullptr) {
    any = lanes.round(tile, undecided);
  } else {
    for (int r = 0; r < tile.rows; ++r)
      for (int i = 0; i < tile.count; ++i) {
        const double product = tile.scale * tile.sums[r * tile.sums_row + i];
        const double t =
            tile.added == nullptr ? product : product + tile.added[r * tile.added_row + i];
        const double e = tile.bounds[r] * tile.norms[i] + tile.slack * std::abs(product);
        const std::int64_t to = r * tile.y_row + i;
        if (!exact_decide(t, e, tile.y[to], truth + to)) any |= undecided[r] |= 1U << i;
      }
  }
  if (any == 0 || !steps.rounding_test) return;
  for (int r = 0; r < tile.rows; ++r)
    for (std::uint32_t u = undecided[r]; u != 0; u &= u - 1)
      left.push_back(at + r * tile.y_row + __builtin_ctz(u));
}

// As exact_tile, for a tile that was rounded as it was summed.
inline void exact_ended(const ExactEnd& end, int rows, std::int64_t at, const ExactSteps& steps,
                        std::vector<std::int64_t>& left) {
  if (!steps.rounding_test) return;
  for (int r = 0; r < rows; ++r)
    for (std::uint32_t u = end.undecided[r]; u != 0; u &= u - 1)
      left.push_back(at + r * end.y_row + __builtin_ctz(u));
}

enum class ExactFirst { f64, digits, residues, words };  // the first pass

// y = round(alpha * a b + beta * c) on raw matrices.
struct ExactOperand {
  AlignedBuffer strips;       // f32, two vectors of f64 wide
  std::vector<double> norms;  // of every lane of the strips
  // Instead of both, where there are int8 tiles and they pay.
  DigitOperand digits;
  ResidueOperand residues;
  // Instead of all, of bf16: in words (exact_pairs.h).
  AlignedBuffer words;
  std::vector<double> word_norms;
  Magnitudes seen;
  ExactFirst first = ExactFirst::f64;
  // Of the f64 pass, where nothing is packed yet: b is read in place, or packed a panel at a time
  // by who multiplies it, or takes the place of a.
  bool in_place = false, panels = false, turned = false;
};
struct ExactTask {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixView a;                            // rows are m
  MatrixView b;                            // rows are n: b[n * row_stride + k * k_stride]
  const ExactOperand* packed_b = nullptr;  // when b is constant
  float alpha = 1.0F, beta = 1.0F;
  const float* c = nullptr;  // c[m * c_row + n * c_col], strides 0 where broadcast
  std::int64_t c_row = 0, c_col = 0;
  float* y = nullptr;       // [m, n]
  double* truth = nullptr;  // [m, n], or nullptr
  ExactSteps steps;
  // Operands that were bf16, laid out as a and b are, without gaps; or nullptr.
  const std::uint16_t *a_halves = nullptr, *b_halves = nullptr;
};
// Whether a product has so few rows or columns that b is best not packed.
bool exact_is_thin(std::int64_t m, std::int64_t n);
// Appends the outputs, row-major, that are left to the definition; counts the undecided.
void gemm_exact(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left);
// b as gemm_exact wants it for a product of this shape.
struct ExactShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool b_is_constant = false;
  const ResidueSet* residues = nullptr;     // ExactSteps
  const std::uint16_t* b_halves = nullptr;  // ExactTask
};
void pack_exact(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
                ExactOperand& to);
Prepared pack_exact_constant(Isa isa, const ExactShape& shape, const MatrixView& b, int threads);

// As the row does it, but for the steps left out.
void run_gemm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);

template <Isa isa>
KernelRow gemm_exact_row(std::string_view name);

}  // namespace etalon
