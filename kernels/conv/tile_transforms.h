// The transforms of Winograd and FFT over vectors of tiles, for one instruction set each.
//
// A lane is a tile, so a transform is the definition's scalar program carried out on registers: no
// lane ever meets another, and the bits are the definition's whatever the length of a vector.
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"
#include "engine/numerics/algorithm.h"

namespace etalon {

// Rows of coefficients that are not zero, in the transform's format.
template <class T>
struct Coefficients {
  int rows = 0;
  int start[kMaxAlpha + 1] = {};
  int column[kMaxAlpha * kMaxAlpha] = {};
  T value[kMaxAlpha * kMaxAlpha] = {};
};

// V = B^T d B of a vector of tiles that are neighbours along x.
template <class T>
struct WinogradInput {
  const Coefficients<T>* b_t = nullptr;
  const float* x = nullptr;  // element (i, j) of the first tile at x + i * row + column[j]
  std::int64_t row = 0;
  const std::int64_t* column = nullptr;
  float* v = nullptr;  // position (i, j) at v + (i * size + j) * position
  std::int64_t position = 0;
  int count = 0;  // tiles stored; loads may read up to a vector behind the last
};

// Y = A^T S A of a vector of tiles, the bias added, NaN canonical.
template <class T>
struct WinogradOutput {
  const Coefficients<T>* a_t = nullptr;
  const float* s = nullptr;
  std::int64_t position = 0;
  float bias = 0;
  bool has_bias = false;
  float* y = nullptr;  // [m, m, lanes]
};

struct FftTwiddles {
  const double* cosine = nullptr;
  const double* sine = nullptr;
  std::int64_t n = 1;
};

// Spectra of a vector of tiles: re at v + position * p, im `part` behind it.
struct FftInput {
  FftTwiddles roots;
  std::int64_t ny = 1, nx = 1;
  const float* const* tile = nullptr;  // first element of each lane's tile
  std::int64_t row = 0;                // loads may read up to a vector behind a row's end
  float* v = nullptr;
  std::int64_t position = 0, part = 0;
  float* work = nullptr;  // fft_work floats a lane
};

struct FftOutput {
  FftTwiddles roots;
  std::int64_t ny = 1, nx = 1;
  const float* s = nullptr;
  std::int64_t position = 0, part = 0;
  float scale = 1, bias = 0;
  bool has_bias = false;
  std::int64_t step_y = 1, step_x = 1;
  float* const* y = nullptr;           // first output of each lane's tile
  const std::int64_t* rows = nullptr;  // outputs that exist, of each lane; 0: an idle lane
  const std::int64_t* columns = nullptr;
  std::int64_t y_row = 0;
  float* work = nullptr;
};

inline std::int64_t fft_work(std::int64_t ny, std::int64_t nx) {
  return ny * ((nx + 15) / 16 * 16) + 2 * (ny * (nx / 2 + 1) + 2 * (ny > nx ? ny : nx) + 64);
}

struct TileTransforms {
  int lanes = 0;
  // By the tile's size, 4, 6 or 8; nullptr for others. f32 and f64 transforms.
  void (*input_f32[9])(const WinogradInput<float>&) = {};
  void (*input_f64[9])(const WinogradInput<double>&) = {};
  // By size and number of outputs.
  void (*output_f32[9][9])(const WinogradOutput<float>&) = {};
  void (*output_f64[9][9])(const WinogradOutput<double>&) = {};
  // u = G g G^T rounded to f32, of an r x r kernel: size * size values.
  void (*weights_f32)(const Coefficients<float>& g, int r, const float* w, float* u) = nullptr;
  void (*weights_f64)(const Coefficients<double>& g, int r, const float* w, float* u) = nullptr;
  void (*fft_input)(const FftInput&) = nullptr;
  void (*fft_output)(const FftOutput&) = nullptr;
  // Spectrum of a kernel at the corner of zeros: re and im interleaved. work: fft_work floats.
  void (*fft_weights)(const FftTwiddles& roots, std::int64_t ny, std::int64_t nx, const float* w,
                      std::int64_t kh, std::int64_t kw, float* u, float* work) = nullptr;
  void (*add)(float* to, const float* from, std::int64_t count) = nullptr;
};

// nullptr where the set is not compiled in.
const TileTransforms* tile_transforms(Isa isa);

namespace avx512 {
const TileTransforms& transforms();
}
namespace avx2 {
const TileTransforms& transforms();
}

}  // namespace etalon
