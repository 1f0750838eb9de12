// A matrix of one row times one whose k lies side by side, correctly rounded (cuda_wide.h): to read
// b is all the work. One to eight warps share a column's k, four neighbours a lane; products and
// sums are f64's, squares f32's, and then bound, rounding test and settling are those of the tiles.
#pragma once

#include "kernels/gemm/cuda_wide.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kThinThreads = 256, kThinWarps = kThinThreads / 32;

struct ThinSum {
  double sum = 0, a = 0, b = 0;  // a, b: no less than the squares' sums
  ETALON_HD void merge(const ThinSum& o) {
    sum += o.sum;
    a += o.a;
    b += o.b;
  }
};
struct ThinShared {
  struct Part {
    double sum, a, b;
  };
  Part parts[kThinWarps];
  WideOpen<kThinWarps> open;
};

// A lane's share of a column, one of `shares`.
template <bool Fours>
ETALON_HD ThinSum thin_share(const WideTask& task, const float* a, const float* b, int share,
                             int shares) {
  constexpr int kEach = Fours ? 4 : 1;
  ThinSum s;
  float squares_a = 0, squares_b = 0;
  std::uint32_t any_a = 0, any_b = 0;
  const int k = static_cast<int>(task.t.k);
#if defined(__CUDACC__)
#pragma unroll 4
#endif
  for (int at = share * kEach; at < k; at += shares * kEach) {
    float x[kEach], y[kEach];
    if constexpr (Fours) {
      load_four(a + at, x);
      load_four(b + at, y);
    } else {
      x[0] = a[at * task.t.a_col];
      y[0] = b[at];
    }
    ETALON_UNROLL
    for (int i = 0; i < kEach; ++i) {
      s.sum = fma_f64(static_cast<double>(x[i]), static_cast<double>(y[i]), s.sum);
      squares_a = fma_f32(x[i], x[i], squares_a);
      squares_b = fma_f32(y[i], y[i], squares_b);
      any_a |= bits_of(x[i]);
      any_b |= bits_of(y[i]);
    }
  }
  s.a = wide_over(task, squares_a, (any_a & 0x7fffffffU) == 0);
  s.b = wide_over(task, squares_b, (any_b & 0x7fffffffU) == 0);
  return s;
}

// The columns of block_id, by so many warps each.
template <bool Fours, class Block, class Open, class Undecided>
ETALON_HD void run_thin(const WideTask& task, std::uint32_t block_id, ThinShared& s,
                        const Block& block, Open&& open, Undecided&& undecided) {
  const TileTask& t = task.t;
  const int warps = task.thin, columns = kThinWarps / warps;
  const auto tiles = static_cast<std::uint32_t>(task.across);
  const std::int64_t product = block_id / tiles, first = std::int64_t{block_id % tiles} * columns;
  const float* const a = t.a + strided_offset(product, t.batch, t.a_batch);
  const float* const b = t.b + strided_offset(product, t.batch, t.b_batch);
  block.begin();
  block.warps([&](int warp, auto& w) {
    const std::int64_t column = first + warp / warps;
    if (column >= t.n) return;
    const ThinSum sum = w.template join<ThinSum>([&](int lane) {
      return thin_share<Fours>(task, a, b + column * t.b_col, warp % warps * 32 + lane, warps * 32);
    });
    if (w.leads()) s.parts[warp] = {sum.sum, sum.a, sum.b};
  });
  block.threads([&](auto&, int tid) {
    if (tid == 0) s.open.count = 0;
  });
  block.barrier();
  const auto at = [&](int number) { return product * t.y_batch + first + number; };
  block.threads([&](auto&, int tid) {
    if (tid >= columns || first + tid >= t.n) return;
    ThinSum sum;
    for (int part = 0; part < warps; ++part) {
      const auto& share = s.parts[tid * warps + part];
      ThinSum more;
      more.sum = share.sum, more.a = share.a, more.b = share.b;
      sum.merge(more);
    }
    if (wide_decide<MatrixProducts>(task, {product, 0, first + tid}, at(tid), sum.sum,
                                    sqrt_f64(sum.a), sqrt_f64(sum.b)))
      return;
    open(at(tid));
    s.open.numbers[block.take(s.open.count)] = static_cast<std::uint16_t>(tid);
  });
  block.barrier();
  wide_settle<MatrixProducts>(task, s.open, block, at, undecided);
}

// Whether a task is one, and which.
inline bool choose_thin(WideTask& task) {
  const TileTask& t = task.t;
  if (t.m != 1 || !task.b_k_major || t.k > kWideMostShare) return false;
  // Terms of a warp; columns that are few want more of them.
  constexpr std::int64_t kTerms = 1024, kLeastTerms = 256, kFew = 1024;
  int warps = 1;
  while (warps < kThinWarps && t.k / (2 * warps) >= (t.n * warps < kFew ? kLeastTerms : kTerms))
    warps *= 2;
  task.thin = warps;
  task.rows = 1, task.cols = kThinWarps / warps;
  task.down = 1, task.across = static_cast<int>((t.n + task.cols - 1) / task.cols);
  task.share = static_cast<int>(t.k);
  task.chain = task.share / (warps * 32) + 4;
  task.depth = task.chain + 5 + warps;
  return true;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
