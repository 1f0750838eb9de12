// The first pass of contract exact where the processor multiplies int8 matrices (AMX): each operand
// as five planes of digits, whose products are exact integers.
//
// **Digits.** A row of K values x is scaled by a power of two, z = x / unit, so that its largest
// magnitude lies below 0.99 * 2^39, and rounded to integers, z = X + r, |r| <= 1/2 (values within
// 2^15 of the largest have no r: an f32 has 24 bits). X = sum over i = 0..4 of 256^i X_i with
// digits in [-128, 127]: they are the bytes of X + 0x8080808080, each minus 128.
//
// **Products.** A tile instruction takes 16 rows by 64 digits of one plane of a and as much of b
// and adds 16x16 sums to int32 accumulators. Planes i and j go to the accumulator of level i + j.
// Levels below t are left out: t = 3 leaves 19 products for six accumulators, t = 4 leaves 15 for
// five. A level holds at most five products, so |level| <= 5 K 2^14 < 2^31 while K <= 2^14: there k
// is cut.
//
// **Bound.** With z_a = X + r, z_b = Y + q and Y' (m) = sum over j < m of 256^j Y_j, the real
// scaled sum differs from S, the sum of the levels kept, by
//
//     sum over i < t of 256^i X_i . Y'(t - i)  +  X . q  +  r . z_b.
//
// Cauchy-Schwarz on each dot product, and once more on the sum over i, gives |real - S| <=
//
//     high(a) low(b) + |X| |q| + |r| |z_b|,   high = sqrt(sum over i < t of |X_i|^2),
//                                             low = sqrt(sum over i < t of (256^i |Y'(t - i)|)^2),
//
// where |Y'(m)| <= sum of 256^j |Y_j|, |X| <= |z_a| + |r|. The norms are measured, the digits' in
// integers. The second use of Cauchy-Schwarz loses nothing on usual data, where the digits below
// the first two are as good as uniform and all terms equal.
//
// **Join.** Levels are joined in f64, smallest first: one rounding a level, one more for each
// further block of k, each of a partial sum of magnitude at most sum |X_i 256^i| |Y_j 256^j|. A
// number with top digit m satisfies |X| >= 0.498 * 256^m |X_m|, and what lies below it is at most
// 0.502 * 256^m, so sum over i of |X_i 256^i| <= 3.03 |X| and the partial sum <= 9.2 |X| |Y|. So
// the join costs at most (6 + blocks) * 10 * 2^-53 |X| |Y|.
//
// Nothing overflows: |S| < 2^78 K, units are 2^-188 to 2^90. A row with NaN or infinity has no
// digits and a bound of NaN, which decides nothing. A row with wild magnitudes has large |r|: its
// outputs are left undecided, not wrong.
#pragma once

#include <cstdint>

namespace etalon {

inline constexpr int kDigits = 5, kDigitRows = 16, kDigitStep = 64, kMaxLevels = 6;
// An operand is packed as strips of 16 rows. The left one's planes are [row][64 digits], the right
// one's [digits / 4][row][4], as the tile instruction wants them; step s of k and plane d of a
// strip lie at s * kStepBytes + d * kPlaneBytes.
inline constexpr std::int64_t kPlaneBytes = std::int64_t{kDigitRows} * kDigitStep,
                              kStepBytes = kDigits * kPlaneBytes, kDigitBlock = 1 << 14;

// Of 16 rows, in the units of x: |z| + |r|; |r|; |r| and the operand's share of the join; high and
// low for t = 3 and t = 4. The sums of digits are in units of the product of two `unit`s.
struct DigitNorms {
  double unit[kDigitRows], norm[kDigitRows], rest[kDigitRows], rest_join[kDigitRows];
  double high[2][kDigitRows], low[2][kDigitRows];
};

// Rows [first, first + count) of a tile are neighbours in the output, the first of them at `at`.
struct DigitRun {
  int first = 0, count = 0;
  std::int64_t at = 0;
};

struct DigitTile {
  // Row r of plane d of step s lies at a + a_steps[s] + d * a_plane + r * a_row: packed as above,
  // or in planes that hold the rows of many tiles.
  const std::uint8_t* a = nullptr;
  const std::int64_t* a_steps = nullptr;
  std::int64_t a_plane = kPlaneBytes, a_row = kDigitStep;
  const std::uint8_t* b = nullptr;
  std::int64_t steps = 0;
  const DigitNorms* a_norms = nullptr;
  const DigitNorms* b_norms = nullptr;
  int rows = kDigitRows, columns = kDigitRows;  // of a, of b
  int dropped = 3;                              // t: 3 or 4
  // Output (r, i) is scale * sum + added[r * added_row + i], rounded, at y[r * y_row + i]; with
  // runs, at y[i * y_row + run.at + r - run.first], and rows of no run are nobody's. added is read
  // in whole vectors.
  double scale = 1;
  const double* added = nullptr;
  std::int64_t added_row = 0;
  float* y = nullptr;
  std::int64_t y_row = 0;
  const DigitRun* runs = nullptr;
  int run_count = 0;
  std::int64_t at = 0;  // the caller's: where y lies in the output
};

// Two tiles on their way: while the tile unit multiplies one, the vector units join and round the
// one before it, row by row between the products. Everything a tile points to must last until it
// is rounded.
struct DigitPipe {
  alignas(64) std::int32_t levels[2][kMaxLevels * kDigitRows * kDigitRows];
  alignas(64) double carry[2][kDigitRows * kDigitRows];
  alignas(64) float square[kDigitRows * kDigitRows];
  DigitTile tile[2];
  bool carried[2] = {};
  int turn = 0;        // of the tile that is multiplied next
  bool full = false;   // whether tile[1 - turn] waits to be rounded
  int row = 0;         // of it, the next to be rounded
  DigitTile done;      // the tile that was rounded last: bit i of undecided[r] is set where output
  bool ready = false;  // (r, i) may be wrong; `open` is their number
  int open = 0;
  std::uint16_t undecided[kDigitRows] = {};
};

// Where sums and bounds themselves are wanted: [rows][16] each, |real - sum| <= bound.
struct DigitSums {
  alignas(64) double sums[kDigitRows * kDigitRows], bounds[kDigitRows * kDigitRows];
};

struct DigitSet {
  // Digits and norms of up to 16 rows of k values, row r at rows[r] (nullptr: zeros).
  void (*pack)(const float* const* rows, std::int64_t k, bool right, std::uint8_t* planes,
               DigitNorms& norms) = nullptr;
  // The same of a right operand of at most 64 rows that are neighbours in memory, k values `stride`
  // apart: strips one after the other, norms of each.
  void (*pack_columns)(const float* from, std::int64_t stride, int columns, std::int64_t k,
                       std::uint8_t* planes, DigitNorms* norms) = nullptr;
  // to[i * to_stride + j] = from[j * from_stride + i] for 16 i (lanes of them there, the others 0)
  // and k values of j, rounded up to 16 of them in `to`.
  void (*transpose)(const float* from, std::int64_t from_stride, int lanes, std::int64_t k,
                    float* to, std::int64_t to_stride) = nullptr;
  // Around the products of one thread.
  void (*begin)(int rows) = nullptr;
  void (*end)() = nullptr;
  // Multiplies a tile (nullptr: none) and stores the outputs of the one before it, which is `done`
  // afterwards where `ready` says so.
  void (*next)(DigitPipe&, const DigitTile*) = nullptr;
  // Sums and bounds of a tile; scale, added and y are not read.
  void (*product)(const DigitTile&, DigitSums&) = nullptr;
};

}  // namespace etalon
namespace etalon::amx {
const DigitSet& digits();
}  // namespace etalon::amx
