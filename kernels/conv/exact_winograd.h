// The f64 first pass of an exact 3x3 convolution of stride 1 by Winograd's F(2x2, 3x3) (Lavin, Gray
// 2016, section 4): 16 products a channel for four outputs instead of 36.
//
// With d a patch of 4x4 inputs, g the weights, U = G g G^T and V = B^T d B,
//
//     y = A^T (sum over channels of U * V) A,
//
//     B^T = 1  0 -1  0     G = 1   0   0     A^T = 1 1  1  0
//           0  1  1  0         1/2 1/2 1/2         0 1 -1 -1
//           0 -1  1  0         1/2-1/2 1/2
//           0  1  0 -1         0   0   1
//
// **Bound.** u = 2^-53. An entry of U is two passes of at most two additions (halves are exact),
// one of V two passes of one addition: fl(U) is within 4u(1 + 4u) of U relative to |G| |g| |G^T| =:
// U', fl(V) within 2u(1 + 2u) relative to V' := |B^T| |d| |B|. A sum over channels by fused
// multiply-adds, in blocks that are added up, adds C u / (1 - C u) of sums of |U| |V|, C being the
// channels of a block and the number of blocks; the two passes of A^T four additions more. No entry
// of A exceeds 1, so each output is off by at most
//
//     u (1 + 2^-10) sum over the 16 positions and all channels of (C |U| + 16 U') V'
//         <= u (1 + 2^-10) (C |U| + 16 |U'|) |V'|       (2-norms over positions and channels).
//
// |U| and |U'| are made from the weights. An entry of V' sums four |d|, so its square is at most
// four times the sum of their squares, and d(i, j) is met by n(i) n(j) positions, n = (1, 3, 3, 1):
// |V'|^2 <= 4 sum of n(i) n(j) d(i, j)^2. For usual data the bound is 3 to 6 times that of the
// plain sum, which has the same C u but norms over nine products a channel. Nothing under- or
// overflows: sums of four f32, and of products of two of these.
//
// NaN and infinities reach all four outputs of a tile, whose norm they make NaN or infinite: those
// are undecided. A correctly rounded result knows no algorithm.
//
// Tiles lie side by side in lanes, and lanes cross rows of them: each of a patch's four columns is
// an array of its own, of even rows and of odd ones, so that a column of eight neighbouring tiles
// is a load of neighbours.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/gemm/exact.h"
#include "kernels/gemm/tile.h"

namespace etalon {

inline constexpr int kPatch = 4, kPositions = kPatch * kPatch;
// Channels of a group, in and out, from which it applies.
inline constexpr int kWinogradChannels = 8;

// The sums of a position under a block of channels, a strip of output channels by one or two
// vectors of tiles.
struct WinogradSums {
  std::int64_t channels = 0;
  const double* u = nullptr;  // u[channel * rows + row]
  const double* v = nullptr;  // vector w at v + w * v_vector: v[channel * lanes + lane]
  std::int64_t v_vector = 0;
  double* m = nullptr;  // row r, vector w at m + r * m_row + w * lanes
  std::int64_t m_row = 0;
  bool join = false;  // added to m, one rounding
  // Each step, or every second one, asks for two cache lines on behalf of strips to come.
  const double* next = nullptr;
  std::int64_t next_step = 0;  // elements, or 0 where nothing is wanted
};
using WinogradSumsFn = void (*)(const WinogradSums&);

struct WinogradLanes {
  int lanes = 0, rows = 0;  // of a vector, of a tile with two vectors
  // [vectors][rows], rows as kWinogradChannels or more are cut.
  std::array<std::array<WinogradSumsFn, kMaxTileRows + 1>, 3> sums{};
  // U of kernels side by side: tap t of kernel i at g[t * count + i], position p of its U at
  // to[p * stride + i]. Both have room for a vector behind the last.
  void (*weights)(const float* g, std::int64_t count, double* to, std::int64_t stride) = nullptr;
  // Patches of neighbouring tiles of one channel: column j of row i at patch[i][j] + lane. Position
  // p of V goes to to[p * stride + lane]; squares[lane] += the sum of n(i) n(j) d(i, j)^2.
  void (*input)(const float* const (*patch)[kPatch], double* to, std::int64_t stride,
                double* squares) = nullptr;
  // The four outputs of each tile from m[p * stride + lane], plus bias, rounded: row i of the
  // tiles, both columns of each, at y + i * 2 * lanes. Bit 2 * lane + column of undecided[i] is set
  // where the result may be wrong by more than its rounding; bounds[lane] is the sum's.
  void (*output)(const double* m, std::int64_t stride, double bias, double factor,
                 const double* norms, float* y, std::uint32_t* undecided) = nullptr;
};
const WinogradLanes* winograd_lanes(Isa isa);

// The kernels of each strip of output channels, by blocks of input channels: [group][strip][block]
// [tap][channel][row]. Where U is small it is made once, laid out so too with a position for a tap.
// Else it would come from memory again and again, in 14 times the bytes, and is made when a strip
// is due. With it C |U| + 16 |U'| of each output channel.
struct WinogradWeights {
  AlignedBuffer strips;
  bool transformed = false;  // f64, else f32
  std::vector<double> bounds;
};
// Whether it applies and is faster than the plain sum.
bool fits_exact_winograd(Isa isa, const ConvGeometry& g);
void pack_exact_winograd(Isa isa, const ConvGeometry& g, const float* w, int threads,
                         WinogradWeights& to);

struct WinogradTask {
  const float* x = nullptr;
  const WinogradWeights* w = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  ExactSteps steps;
};
// Appends what it leaves undecided.
void exact_winograd(Isa isa, const ConvGeometry& g, const WinogradTask& task, int threads,
                    std::vector<std::int64_t>& undecided);

}  // namespace etalon
namespace etalon::avx512 {
const WinogradLanes& winograd_lanes();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const WinogradLanes& winograd_lanes();
}  // namespace etalon::avx2
