// The weights of exact_winograd.h: in strips, transformed or not, and what the bound has of them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/conv/exact_winograd.h"

namespace etalon {
namespace {

// Taps of kernel (o, c) of the layer, of an output channel and one of its group's inputs with its
// remainders.
void layer_taps(const ConvGeometry& g, const WinogradLayer& layer, const float* w, std::int64_t o,
                std::int64_t c, float* taps) {
  const std::int64_t stride = layer.stride, remainders = stride * stride,
                     height = g.window.axes[1].kernel, width = g.window.axes[2].kernel;
  const float* kernel = w + (o * g.group_in() + c / remainders) * height * width;
  for (std::int64_t i = 0; i < layer.f().taps; ++i)
    for (std::int64_t j = 0; j < layer.f().taps; ++j) {
      const std::int64_t y = i * stride + c % remainders / stride, x = j * stride + c % stride;
      *taps++ = y < height && x < width ? kernel[y * width + x] : 0.0F;
    }
}

// Of a strip of output channels: the sums over input channels of the squares of U, by position, and
// of the taps.
struct StripSquares {
  double u[kMostPatch * kMostPatch][kMaxTileRows] = {},
                        taps[kMostWinogradTaps * kMostWinogradTaps][kMaxTileRows] = {};

  // Kernel i of `count` is of output channel i % height.
  template <class T>
  static void add(const T* x, std::int64_t count, std::int64_t height, double* sums) {
    for (std::int64_t i = 0; i < count; i += height)
      for (std::int64_t r = 0; r < height; ++r) {
        const auto value = static_cast<double>(x[i + r]);
        sums[r] += value * value;
      }
  }
  // The 2-norms of U and, at least, of U' of output channel r, as output (i, j) of a tile weights
  // them. A norm over channels of a sum is at most the sum of the norms (Minkowski), so that of U'
  // follows from those of the taps; it comes out a fifth larger for usual weights.
  std::pair<double, double> norms(const WinogradForm& f, std::int64_t r, int i, int j) const {
    double sum = 0, magnitude = 0;
    for (int p = 0; p < f.patch; ++p)
      for (int q = 0; q < f.patch; ++q) {
        const double weight = f.at[i][p] * f.at[j][q], square = weight * weight;
        double size = 0;
        for (int y = 0; y < f.taps; ++y)
          for (int x = 0; x < f.taps; ++x)
            size += std::abs(f.g[p][y] * f.g[q][x]) * std::sqrt(taps[y * f.taps + x][r]);
        sum += square * u[p * f.patch + q][r];
        magnitude += square * size * size;
      }
    return {std::sqrt(sum), std::sqrt(magnitude)};
  }
};

}  // namespace

void pack_exact_winograd(Isa isa, const ConvGeometry& g, const WinogradLayer& layer, const float* w,
                         int threads, WinogradWeights& to) {
  const WinogradLanes& set = *winograd_lanes(isa);
  const WinogradForm& f = layer.f();
  const std::int64_t in = layer.in, out = layer.out, taps = std::int64_t{f.taps} * f.taps,
                     positions = f.positions();
  const RowStrips strips(out, set.rows);
  const WinogradBlocks blocks(layer);
  const std::int64_t kernels = g.out_channels * in;
  to.transformed = layer.keeps_transformed(g.groups);
  double* all_u = to.transformed ? to.strips.at_least<double>(positions * kernels) : nullptr;
  float* all_g =
      to.transformed ? nullptr : to.strips.at_least<float>(taps * kernels + kWinogradLanes);
  // A term meets the roundings of its own block and one for each block more.
  const auto chain = static_cast<double>(blocks.largest() + blocks.count + f.end_roundings);
  const int places = f.outputs * f.outputs;
  to.bounds.resize(static_cast<std::size_t>(g.out_channels * 2 * places));
  parallel_for(g.groups * strips.count, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    AlignedBuffer one, made;
    float kernel[kMostWinogradTaps * kMostWinogradTaps];
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t s = item % strips.count, height = strips.height(s),
                         first = item / strips.count * out + strips.first(s);
      StripSquares squares;
      for (std::int64_t block = 0; block < blocks.count; ++block) {
        const std::int64_t from = blocks.first(block), count = blocks.size(block) * height,
                           at = first * in + from * height, stride = count + kWinogradLanes;
        float* g_taps = one.at_least<float>(taps * count + kWinogradLanes);
        for (std::int64_t r = 0; r < height; ++r)
          for (std::int64_t c = 0; c < blocks.size(block); ++c) {
            layer_taps(g, layer, w, first + r, from + c, kernel);
            for (std::int64_t tap = 0; tap < taps; ++tap)
              g_taps[tap * count + c * height + r] = kernel[tap];
          }
        double* u = made.at_least<double>(positions * stride);
        set.transforms[layer.form].weights(g_taps, count, u, stride);
        for (std::int64_t tap = 0; tap < taps; ++tap)
          StripSquares::add(g_taps + tap * count, count, height, squares.taps[tap]);
        for (std::int64_t p = 0; p < positions; ++p)
          StripSquares::add(u + p * stride, count, height, squares.u[p]);
        if (to.transformed)
          for (std::int64_t p = 0; p < positions; ++p)
            std::copy_n(u + p * stride, count, all_u + positions * at + p * count);
        else
          std::copy_n(g_taps, taps * count, all_g + taps * at);
      }
      for (std::int64_t r = 0; r < height; ++r) {
        double* bounds = to.bounds.data() + (first + r) * 2 * places;
        for (int place = 0; place < places; ++place) {
          const auto [u, size] = squares.norms(f, r, place / f.outputs, place % f.outputs);
          bounds[place] = chain * u;
          bounds[places + place] = f.roundings * size;
        }
      }
    }
  });
}

}  // namespace etalon
