// The products of one call, as a GPU's kernels take them: where elements lie, what follows the sum.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "engine/backend/strided.h"
#include "engine/numerics/fp.h"
#include "engine/ops/window.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Sums stay in registers only if every index into them is known when this is compiled.
#if defined(__CUDACC__)
#define ETALON_UNROLL _Pragma("unroll")
#else
#define ETALON_UNROLL
#endif

inline constexpr int kTilePanel = 8;       // tiles of rows that blocks go down at a time
inline constexpr int kTileMostTaps = 128;  // of a convolution's window

// y[m, n] = sum over k of a[m, k] * b[k, n]. Extents are below 2^31.
struct TileTask {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0;
  // One product for each element: matrices of a batch, groups of a convolution.
  Shape batch;
  std::array<std::int64_t, kMaxRank> a_batch{}, b_batch{};
  std::int64_t y_batch = 0;
  // gemm: y = fma(beta, c, alpha * s).
  const float* c = nullptr;
  std::int64_t c_row = 0, c_col = 0;
  float alpha = 1, beta = 1;
  // conv: a is the group's weights, b its image, column n a pixel of all images; bias by row.
  bool padded = false;
  Window window;
  const float* bias = nullptr;
  std::int64_t image = 0;      // elements from one image of b to the next
  std::int64_t out_image = 0;  // and of y

  // What the tiles of cuda_tile.h know besides (cuda_tile_choice.h).
  std::int64_t y_row = 0, y_col = 1;  // places of y; of a convolution's windows y_row alone
  // Neighbours in y, of a row or of a column, lie by fours at multiples of 16 bytes.
  bool y_fours = false;
  std::int64_t bias_products = 1;  // bias is by row of product modulo this
};

// p[0 .. 3], which lie at a multiple of 16 bytes.
ETALON_HD inline void load_four(const float* p, float* to) {
#if defined(__CUDA_ARCH__)
  const float4 v = *reinterpret_cast<const float4*>(p);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
#else
  for (int i = 0; i < 4; ++i) to[i] = p[i];
#endif
}

ETALON_HD inline void store_four(float* p, const float* from) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<float4*>(p) = make_float4(from[0], from[1], from[2], from[3]);
#else
  for (int i = 0; i < 4; ++i) p[i] = from[i];
#endif
}
// The lowest bit that is set.
template <class Bits>
ETALON_HD int first_bit(Bits bits) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return std::countr_zero(bits);
#endif
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
