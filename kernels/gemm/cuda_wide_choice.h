// Which tile of cuda_wide.h a call takes, how many blocks share an output's k, and its task. The
// bits are the correctly rounded ones with any: only time depends on the choice.
//
// A term of k takes a block that has its SM to itself `alone` ns, where it waits for its own reads,
// and `full` where the SM has others to go on with; its begin and its end take as long as `ends`
// terms. The estimate is what the busiest SM has: blocks over SMs, rounded up; and what the second
// launch takes where k is shared: its own, the sums' way, and settling. Fitted to times on an H200
// at 1980 MHz, of 16 products of matrices and 21 convolutions.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/gemm/cuda_wide_thin.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <int I>
struct WideShapes;
template <>
struct WideShapes<0> : WideTile<2, 2, 1, 2, 4, 32, 3, 2, true> {};  // 64 x 64, 128 threads
template <>
struct WideShapes<1> : WideTile<1, 2, 2, 2, 4, 32, 3, 3, true> {};  // 32 x 64, 128
template <>
struct WideShapes<2> : WideTile<2, 1, 4, 2, 4, 64, 3, 1, false> {};  // 64 x 32, 256
template <>
struct WideShapes<3> : WideTile<1, 1, 4, 2, 4, 64, 3, 2, true> {};  // 32 x 32, 128
template <>
struct WideShapes<4> : WideTile<1, 1, 8, 1, 4, 128, 3, 2, false> {};  // 16 x 32, 256
template <>
struct WideShapes<5> : WideTile<1, 1, 4, 1, 4, 64, 4, 4, false> {};  // 16 x 32, 128
template <>
struct WideShapes<6> : WideTile<1, 1, 4, 1, 2, 64, 4, 4, false> {};  // 16 x 16, 128
inline constexpr int kWideShapes = 7;

struct WideTimes {
  double alone = 0, full = 0, ends = 0;
};
// `any`: takes operands too that do not come by fours; of matrices, a that is not along k.
struct WideFacts {
  int rows, cols, k, groups;
  bool folded, any_matrices, any_windows;
  WideTimes matrices, windows;
};
template <int I>
constexpr WideFacts wide_facts(bool any_matrices, bool any_windows, const WideTimes& matrices,
                               const WideTimes& windows) {
  using S = WideShapes<I>;
  return {S::kRows,     S::kCols,    S::kK,    S::kGroups, S::kFolded,
          any_matrices, any_windows, matrices, windows};
}
inline constexpr WideFacts kWideFacts[kWideShapes] = {
    wide_facts<0>(true, true, {43.3, 20.0, 110}, {45.5, 26.0, 190}),
    wide_facts<1>(false, true, {22.2, 12.1, 156}, {44.5, 19.3, 140}),
    wide_facts<2>(false, false, {17.8, 12.6, 218}, {21.5, 17.7, 258}),
    wide_facts<3>(true, true, {13.1, 7.5, 239}, {11.8, 11.8, 204}),
    wide_facts<4>(false, false, {7.4, 5.2, 345}, {14.4, 6.3, 351}),
    wide_facts<5>(false, false, {10.2, 5.4, 195}, {13.2, 8.3, 167}),
    wide_facts<6>(false, false, {8.0, 3.0, 276}, {7.0, 4.7, 169})};

inline void set_wide_shape(WideTask& task, int shape, const WideFacts& f, std::int64_t splits) {
  const TileTask& t = task.t;
  task.shape = shape, task.rows = f.rows, task.cols = f.cols;
  task.down = static_cast<int>((t.m + f.rows - 1) / f.rows);
  task.across = static_cast<int>((t.n + f.cols - 1) / f.cols);
  splits = std::max<std::int64_t>({1, splits, (t.k + kWideMostShare - 1) / kWideMostShare});
  const std::int64_t slices = (t.k + f.k - 1) / f.k;
  task.share = static_cast<int>(std::max<std::int64_t>(1, (slices + splits - 1) / splits) * f.k);
  task.splits = std::max<std::int64_t>(1, (t.k + task.share - 1) / task.share);
  const int terms = task.share / f.groups;  // of a thread's sum
  task.depth = (f.folded && terms > kWideFold ? kWideFold + terms / kWideFold + 1 : terms) +
               f.groups + static_cast<int>(task.splits);
  task.chain = terms / 4;
  task.taps = std::max(1, static_cast<int>(t.window.taps()));
  task.slice_channels = f.k / task.taps, task.slice_taps = f.k % task.taps;
}
inline void wide_sides(WideTask& task, bool conv) {
  const TileTask& t = task.t;
  const auto side = [&](const float* from, std::int64_t lines, std::int64_t line_stride,
                        std::int64_t k_stride, const std::array<std::int64_t, kMaxRank>& batch,
                        bool& k_major) {
    k_major = k_stride == 1;
    return SliceSide{.from = from,
                     .lines = static_cast<int>(lines),
                     .line_stride = line_stride,
                     .k_stride = k_stride,
                     .batch = batch,
                     .fours = (k_major || line_stride == 1) &&
                              slices_by_fours(from, k_major ? t.k : lines, k_major ? lines : t.k,
                                              k_major ? line_stride : k_stride, t.batch, batch)};
  };
  task.a = side(t.a, t.m, t.a_row, t.a_col, t.a_batch, task.a_k_major);
  if (conv) {
    // Windows of one tap that go from pixel to pixel are the columns of a matrix.
    const Window& w = t.window;
    const std::int64_t points = w.in_points();
    task.b = {.from = t.b,
              .lines = static_cast<int>(t.n),
              .line_stride = 1,
              .k_stride = points,
              .batch = t.b_batch};
    task.b.fours = w.taps() == 1 && !t.padded && points == w.out_points() && points % 4 == 0 &&
                   t.image % 4 == 0 &&
                   slices_by_fours(t.b, points, t.k, points, t.batch, t.b_batch);
    for (const WindowAxis& axis : w.axes)
      task.b.fours = task.b.fours && axis.pad_begin == 0 && (axis.stride == 1 || axis.out == 1);
  } else {
    task.b = side(t.b, t.n, t.b_col, t.b_row, t.b_batch, task.b_k_major);
  }
}

inline double wide_ns(const WideTask& task, const WideFacts& f, bool windows, int processors) {
  constexpr double kFinish = 2000, kSum = 0.0028, kSettleMatrices = 4.1e-5,
                   kSettleWindows = 0.75e-5;
  const WideTimes& t = windows ? f.windows : f.matrices;
  const auto outputs = static_cast<double>(task.outputs());
  const std::int64_t rounds = (task.blocks() + processors - 1) / processors;
  const double products = std::max(t.alone, static_cast<double>(rounds) * t.full) *
                          (static_cast<double>(task.share) + t.ends);
  if (task.splits == 1) return products;
  return products + kFinish + kSum * outputs * static_cast<double>(task.splits) +
         (windows ? kSettleWindows : kSettleMatrices) * outputs * static_cast<double>(task.t.k);
}

// `shape` of no negative number is taken as it is, for tests.
inline void choose_wide(WideTask& task, bool windows, int shape = -1) {
  constexpr int kProcessors = 132, kMostRounds = 4;
  constexpr std::int64_t kLeastShare = 64, kMostSplits = 64, kLongK = 2048;
  const TileTask& t = task.t;
  const auto takes = [&](const WideFacts& f) {
    return windows ? f.any_windows || task.a.fours
                   : f.any_matrices || (task.a_k_major && task.a.fours && task.b.fours);
  };
  if (shape >= 0 && takes(kWideFacts[shape])) {
    set_wide_shape(task, shape, kWideFacts[shape], 1);
    return;
  }
  if (!windows && choose_thin(task)) return;
  double least = 0;
  int best = -1;
  std::int64_t best_splits = 1;
  const auto attempt = [&](int i, std::int64_t splits) {
    set_wide_shape(task, i, kWideFacts[i], splits);
    const double ns = wide_ns(task, kWideFacts[i], windows, kProcessors);
    if (best < 0 || ns < least) least = ns, best = i, best_splits = splits;
  };
  for (int i = 0; i < kWideShapes; ++i) {
    const WideFacts& f = kWideFacts[i];
    if (!takes(f)) continue;
    attempt(i, 1);
    const std::int64_t tiles = std::max<std::int64_t>(1, task.blocks());
    const std::int64_t most = std::min(kMostSplits, t.k / std::max<std::int64_t>(f.k, kLeastShare));
    for (int round = 1; round <= kMostRounds; ++round)
      if (const std::int64_t splits = (round * kProcessors + tiles - 1) / tiles;
          splits <= most || t.k >= kLongK)
        attempt(i, std::min(splits, most));
  }
  set_wide_shape(task, best, kWideFacts[best], best_splits);
}

inline WideTask wide_task(const KernelCall& call, const cuda::WideMemory& memory, int shape = -1) {
  WideTask task;
  task.t = tile_task(
      call, reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  const bool windows = call.problem->op->name == "conv";
  wide_sides(task, windows);
  choose_wide(task, windows, shape);
  task.forecast = memory.forecast;
  task.most_foreseen = memory.most_foreseen;
  if (memory.sums == nullptr) return task;  // for its extents, which say how much memory it needs
  task.sums = static_cast<double*>(memory.sums);
  task.lines = task.sums + task.splits * task.outputs();
  return task;
}
inline std::int64_t wide_sum_bytes(const WideTask& t) {
  return t.splits == 1 ? 0
                       : t.splits * (t.outputs() + t.products() * (t.t.m + t.t.n)) *
                             static_cast<std::int64_t>(sizeof(double));
}

inline Refusal refuse_wide(const Problem& problem) {
  if (Refusal r = refuse_digits(problem)) return r;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (std::size_t i = 0; i < 2; ++i)
    if (problem.input(i).shape.numel() > kMost) return "takes operands of up to 2^30 elements";
  return std::nullopt;
}

// f.template operator()<Shape>() of the shape that a task names.
template <class Products, bool Conv, class F>
auto with_wide_shape(const WideTask& task, F&& f) {
  const bool fours = task.a.fours && task.b.fours;
  const auto of = [&]<int I>() {
    using S = WideShapes<I>;
    if constexpr (Conv) {
      if constexpr (kWideFacts[I].any_windows)
        if (!task.a.fours)
          return f.template operator()<WideShape<S, true, false, false, false, true>>();
      if (!fours) return f.template operator()<WideShape<S, true, false, true, false, true>>();
      return f.template operator()<WideShape<S, true, false, true, true>>();
    } else {
      if constexpr (kWideFacts[I].any_matrices) {
        if (!fours) {
          if (task.a_k_major && task.b_k_major)
            return f.template operator()<WideShape<S, true, true, false, false>>();
          if (task.a_k_major)
            return f.template operator()<WideShape<S, true, false, false, false>>();
          if (task.b_k_major)
            return f.template operator()<WideShape<S, false, true, false, false>>();
          return f.template operator()<WideShape<S, false, false, false, false>>();
        }
        if (!task.a_k_major)
          return task.b_k_major ? f.template operator()<WideShape<S, false, true, true, true>>()
                                : f.template operator()<WideShape<S, false, false, true, true>>();
      }
      return task.b_k_major ? f.template operator()<WideShape<S, true, true, true, true>>()
                            : f.template operator()<WideShape<S, true, false, true, true>>();
    }
  };
  const auto find = [&]<int I>(const auto& self) {
    if constexpr (I + 1 < kWideShapes)
      if (task.shape != I) return self.template operator()<I + 1>(self);
    return of.template operator()<I>();
  };
  return find.template operator()<0>(find);
}

// ---- the host's form ----------------------------------------------------------------------------

#if !defined(__CUDACC__)
template <class Thread>
struct HostWideWarp {
  Thread* threads;
  bool leads() const { return true; }
  // mma.sync.m16n8k8 of f64: fragments to matrices, product, fragments.
  void mma(int i, int j) const {
    double left[16][8], right[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int e = 0; e < 4; ++e) left[g + e % 2 * 8][t + e / 2 * 4] = threads[lane].a[i][e];
      for (int e = 0; e < 2; ++e) right[t + e * 4][g] = threads[lane].b[j][e];
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e) {
        double& sum = threads[lane].sum[i][j][e];
        // The product is exact: this is an fma.
        for (int k = 0; k < 8; ++k)
          sum = sum + left[lane / 4 + e / 2 * 8][k] * right[k][lane % 4 * 2 + e % 2];
      }
  }
  template <class Sum, class F>
  Sum join(F&& share) const {
    Sum lanes[32];
    for (int lane = 0; lane < 32; ++lane) lanes[lane] = share(lane);
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) lanes[lane].merge(lanes[lane + step]);
    return lanes[0];
  }
};

// Threads and warps backwards: a phase may lean on none before it.
template <class Thread, int Threads>
struct HostWideBlock {
  static constexpr int kWarps = Threads / 32;
  Thread* r;
  template <class F>
  void threads(F&& f) const {
    for (int tid = Threads; tid-- > 0;) f(r[tid], tid);
  }
  template <class F>
  void warps(F&& f) const {
    for (int warp = kWarps; warp-- > 0;) {
      HostWideWarp<Thread> w{r + warp * 32};
      f(warp, w);
    }
  }
  void begin() const {}
  int take(int& count) const { return count++; }
  void barrier() const {}
  template <int>
  void arrived() const {}
};

// What the launches do. open(at) is told of what the bound left open, undecided(at) takes what is
// the host's.
template <class Products, bool Conv, class Open, class Undecided>
void run_wide_on_host(const WideTask& task, Open&& open, Undecided&& undecided) {
  struct None {};
  if constexpr (!Conv)
    if (task.thin > 0) {
      std::vector<None> threads(kThinThreads);
      ThinShared shared;
      for (std::int64_t block = task.blocks(); block-- > 0;) {
        std::memset(static_cast<void*>(&shared), 0xA5, sizeof shared);
        const HostWideBlock<None, kThinThreads> all{threads.data()};
        if (task.a.fours && task.b.fours)
          run_thin<true>(task, static_cast<std::uint32_t>(block), shared, all, open, undecided);
        else
          run_thin<false>(task, static_cast<std::uint32_t>(block), shared, all, open, undecided);
      }
      return;
    }
  with_wide_shape<Products, Conv>(task, [&]<class Shape>() {
    using Thread = typename Shape::Thread;
    const auto shared = std::make_unique<typename Shape::Shared>();
    std::vector<Thread> threads(Shape::kThreads);
    for (std::int64_t block = task.blocks(); block-- > 0;) {
      std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
      WideBlock<Shape, Products, Conv>::run(task, static_cast<std::uint32_t>(block), *shared,
                                            HostWideBlock<Thread, Shape::kThreads>{threads.data()},
                                            open, undecided);
    }
  });
  if (task.splits == 1) return;
  std::vector<None> threads(kWideFinish);
  WideFinishShared shared;
  for (std::int64_t first = (task.outputs() - 1) / kWideFinish * kWideFinish; first >= 0;
       first -= kWideFinish)
    wide_finish<Products>(task, first, shared, HostWideBlock<None, kWideFinish>{threads.data()},
                          open, undecided);
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
