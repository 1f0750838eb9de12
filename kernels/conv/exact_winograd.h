// The f64 first pass of an exact convolution by Winograd's minimal filtering (Lavin, Gray 2016,
// section 4), in the forms F(m x m, r x r) of exact_winograd_form.h: 16 products a channel for four
// outputs of 3x3 taps instead of 36, or 36 for sixteen instead of 144.
//
// With d a patch of P x P inputs, g the weights, U = G g G^T and V = B^T d B,
//
//     y = A^T (sum over channels of U * V) A.
//
// A convolution of stride s is one of stride 1 over the s^2 remainders of its coordinates as
// channels, each with every s-th tap: 11x11 taps of stride 4 are 3x3 taps of 16 times the channels,
// zeros where a remainder has less. (`WinogradLayer`.)
//
// **Bound.** u = 2^-53. Let a transform of two passes err by at most T roundings relative to the
// same transform of magnitudes: fl(U) is within T_G u (1 + T_G u) of U relative to U' := |G| |g|
// |G^T|, fl(V) likewise of V' := |B^T| |d| |B|. A sum over channels by fused multiply-adds, in
// blocks that are added up, adds C u / (1 - C u) of sums of |U| |V|, C being the channels of a
// block and the number of blocks; the two passes of A^T add T_A u. So output (i, j) is off by at
// most
//
//     u (1 + 2^-10) sum over positions p, q and all channels of
//         |A(i, p)| |A(j, q)| ((C + T_A) |U| |V| + (T_G + T_B) U' V')
//       <= u (1 + 2^-10) ((C + E) |W_ij U| |V| + T |W_ij U'| |V'|)   (2-norms),
//
// W_ij being the weights |A(i, p)| |A(j, q)|, T the form's `roundings` and E its `end_roundings`.
// First factors are made from the weights, for each output channel and place in a tile; |V| is
// measured; |V'|^2 is at most the sum of squares(i) squares(j) d(i, j)^2 over a patch. Of
// normal data with 256 channels one output in 2300 is undecided under F(2x2, 3x3), one in 500 under
// F(4x4, 3x3), and costs its window's sum again. Nothing under- or overflows: sums of
// f32, and of products of two of these, times powers of two between 2^-10 and 2^10.
//
// NaN and infinities reach all outputs of a tile, whose norm they make NaN or infinite: those
// are undecided. A correctly rounded result knows no algorithm.
//
// Tiles lie side by side in lanes, and lanes cross rows of them: the columns of a patch are arrays
// of their own, and so are its rows, so that a column of eight neighbouring tiles is a load of
// neighbours.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/conv/exact_winograd_form.h"
#include "kernels/gemm/exact.h"
#include "kernels/gemm/tile.h"

namespace etalon {

// Channels of a group, in (with remainders) and out, from which it applies.
inline constexpr int kWinogradChannels = 8;
inline constexpr int kWinogradLanes = 8;  // of a vector, at most

// A group of a convolution as one of stride 1.
struct WinogradLayer {
  int form = 0;  // of kWinogradForms
  std::int64_t stride = 1, in = 0, out = 0;
  double cycles = 0;  // of it and an image, at one fused operation on eight doubles each
  const WinogradForm& f() const { return kWinogradForms[form]; }
  // Whether U of all groups is made once: 16 MiB at most.
  bool keeps_transformed(std::int64_t groups) const {
    return groups * in * out * f().positions() * std::int64_t{sizeof(double)} <= 16 << 20;
  }
};
// The fastest, by a model; none where the plain sum is faster. Or that of a form, if it can.
std::optional<WinogradLayer> exact_winograd_layer(Isa isa, const ConvGeometry& g,
                                                  std::optional<int> form = std::nullopt);

// The blocks of a group's input channels; sums under each are joined. A patch of 36 positions takes
// twice the memory, and its bound has more to gain from short chains.
struct WinogradBlocks {
  std::int64_t in, count;
  explicit WinogradBlocks(const WinogradLayer& layer)
      : in(layer.in), count((in + most(layer) - 1) / most(layer)) {}
  static std::int64_t most(const WinogradLayer& layer) { return layer.f().patch == 4 ? 128 : 64; }
  std::int64_t first(std::int64_t block) const { return block * in / count; }
  std::int64_t size(std::int64_t block) const { return first(block + 1) - first(block); }
  std::int64_t largest() const { return (in + count - 1) / count; }
};

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

// The transforms of a form, `lanes` side by side.
struct WinogradTransforms {
  // U of kernels side by side: tap t of kernel i at g[t * count + i], position p of its U at
  // to[p * stride + i]. Both have room for a vector behind the last.
  void (*weights)(const float* g, std::int64_t count, double* to, std::int64_t stride) = nullptr;
  // Patches of neighbouring tiles of one channel: row i, column j at from[patch[i * P + j] + lane].
  // Position p of V goes to to[p * stride + lane]; squares[lane] += the squares of V, squares[lanes
  // + lane] += what bounds |V'|^2.
  void (*input)(const float* from, const std::int64_t* patch, double* to, std::int64_t stride,
                double* squares) = nullptr;
  // The m x m outputs of each tile from sums[p * stride + lane], plus bias, rounded: row i of the
  // tiles, all columns of each, at y + i * y_row. Bit m * lane + column of undecided[i] is set
  // where the result may be wrong by more than its rounding; factors[i * m + column] * norms[lane]
  // + factors[m * m + i * m + column] * norms[lanes + lane] bounds the sum's error.
  void (*output)(const double* sums, std::int64_t stride, double bias, const double* factors,
                 const double* norms, const ExactCells* cells, float* y, std::int64_t y_row,
                 std::uint32_t* undecided) = nullptr;
};

struct WinogradLanes {
  int lanes = 0, rows = 0;  // of a vector, of a tile with two vectors
  // [vectors][rows], rows as kWinogradChannels or more are cut.
  std::array<std::array<WinogradSumsFn, kMaxTileRows + 1>, 3> sums{};
  WinogradTransforms transforms[kWinogradFormCount];
};
const WinogradLanes* winograd_lanes(Isa isa);

// The kernels of each strip of output channels, by blocks of input channels: [group][strip][block]
// [tap][channel][row]. Where U is small it is made once, laid out so too with a position for a tap.
// Else it would come from memory again and again, in 8 to 14 times the bytes, and is made when a
// strip is due. With it the first factors of the bound, of |V| and of |V'|, for each output channel
// and place in a tile.
struct WinogradWeights {
  AlignedBuffer strips;
  bool transformed = false;  // f64, else f32
  std::vector<double> bounds;
};
void pack_exact_winograd(Isa isa, const ConvGeometry& g, const WinogradLayer& layer, const float* w,
                         int threads, WinogradWeights& to);

struct WinogradTask {
  const float* x = nullptr;
  const WinogradWeights* w = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  ExactSteps steps;
};
// Appends what it leaves undecided.
void exact_winograd(Isa isa, const ConvGeometry& g, const WinogradLayer& layer,
                    const WinogradTask& task, int threads, std::vector<std::int64_t>& undecided);

}  // namespace etalon
namespace etalon::avx512 {
const WinogradLanes& winograd_lanes();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const WinogradLanes& winograd_lanes();
}  // namespace etalon::avx2
