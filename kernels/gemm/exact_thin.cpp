#include "kernels/gemm/exact_thin.h"

#include <algorithm>
#include <mutex>

#include "kernels/gemm/exact_f64.h"

namespace etalon {
namespace {

constexpr int kOutputs = 16;  // tested at once
// Outputs carried through k: their sums and squares stay in the first cache.
constexpr std::int64_t kCarried = 512;
constexpr std::int64_t kWorth = 1 << 15;  // elements that a thread is worth waking for

// One vector, and all rows of the wide operand.
struct ThinProduct {
  const ExactLanes& lanes;
  const ExactTask& task;
  const MatrixView& wide;
  bool wide_is_a;
  const double* norms = nullptr;  // of wide's rows, where they are known
  std::int64_t line = 0;          // which row or column of the output

  std::int64_t output(std::int64_t i) const {
    return wide_is_a ? i * task.n + line : line * task.n + i;
  }
  // Tests outputs first .. first + count - 1, whose sums and squared norms are given.
  void round(std::int64_t first, int count, const double* sums, const double* squares, double bound,
             std::vector<std::int64_t>& left) const {
    double own[kOutputs] = {}, added[kOutputs] = {}, truth[kOutputs] = {};
    float y[kOutputs];
    for (int i = 0; i < count; ++i)
      own[i] = norms == nullptr ? std::sqrt(squares[i]) : norms[first + i];
    if (task.c != nullptr)
      for (int i = 0; i < count; ++i) {
        const std::int64_t at = output(first + i);
        added[i] = static_cast<double>(task.beta) *
                   static_cast<double>(task.c[at / task.n * task.c_row + at % task.n * task.c_col]);
      }
    std::vector<std::int64_t> open;
    exact_tile(lanes,
               {.sums = sums,
                .count = count,
                .bounds = &bound,
                .norms = own,
                .scale = static_cast<double>(task.alpha),
                .slack = task.alpha == 1 ? 0.0 : 0x1p-52,
                .added = task.c == nullptr ? nullptr : added,
                .y = y},
               task.truth == nullptr ? nullptr : truth, 0, task.steps, open);
    for (int i = 0; i < count; ++i) {
      task.y[output(first + i)] = y[i];
      if (task.truth != nullptr) task.truth[output(first + i)] = truth[i];
    }
    for (const std::int64_t i : open) left.push_back(output(first + i));
  }
};

}  // namespace

void pack_thin(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
               ExactOperand& to) {
  const int width = 2 * exact_products(isa)->lanes;
  const std::int64_t strips = vector_strips(shape.n, width);
  to.norms.assign(static_cast<std::size_t>(strips * width), 0.0);
  parallel_for(strips, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t first = s * width;
      double* norms = to.norms.data() + first;
      const int count = static_cast<int>(std::min<std::int64_t>(width, shape.n - first));
      add_squares(*exact_lanes(isa), b, shape.n, first, count, 0, shape.k, width, norms);
      for (int i = 0; i < count; ++i) norms[i] = std::sqrt(norms[i]);
    }
  });
}

void thin_pass(const ExactLanes& lanes, const ExactTask& task, int threads,
               std::vector<std::int64_t>& left) {
  const bool wide_is_a = task.n < task.m;
  const MatrixView &wide = wide_is_a ? task.a : task.b, &thin = wide_is_a ? task.b : task.a;
  const std::int64_t k = task.k, rows = wide_is_a ? task.m : task.n,
                     lines = wide_is_a ? task.n : task.m;
  const bool along = wide.k_stride == 1;
  const double* norms =
      wide_is_a || task.packed_b == nullptr ? nullptr : task.packed_b->norms.data();
  std::vector<double> v(static_cast<std::size_t>((k + kOutputs - 1) / kOutputs * kOutputs));
  std::mutex joining;
  for (std::int64_t line = 0; line < lines; ++line) {
    double square = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const double x = static_cast<double>(thin.data[line * thin.row_stride + i * thin.k_stride]);
      v[static_cast<std::size_t>(i)] = x;
      square += x * x;
    }
    const std::int64_t roundings = along ? lanes.chain(k) : k;
    const double bound = exact_factor(roundings) * std::sqrt(square) *
                         std::abs(static_cast<double>(task.alpha)) * (1 + 0x1p-10);
    const ThinProduct product{lanes, task, wide, wide_is_a, norms, line};
    const std::int64_t blocks = (rows + kOutputs - 1) / kOutputs;
    const std::int64_t grain =
        std::clamp<std::int64_t>(kWorth / (kOutputs * std::max<std::int64_t>(1, k)), 1, blocks);
    parallel_for(blocks, threads, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> mine;
      double sums[kCarried], made[kCarried];
      double* const squares = norms == nullptr ? made : nullptr;
      const auto behind = [&](std::int64_t i) {
        return squares == nullptr ? nullptr : squares + i;
      };
      const std::int64_t stop = std::min(rows, end * kOutputs), step = along ? kOutputs : kCarried;
      for (std::int64_t first = begin * kOutputs; first < stop; first += step) {
        const std::int64_t count = std::min(step, stop - first);
        if (along) {
          for (std::int64_t i = 0; i < count; i += 4) {
            // The last rows once more, so that there are four.
            const std::int64_t at = std::max<std::int64_t>(0, std::min(i, count - 4));
            if (count >= 4) {
              lanes.dots(v.data(), {wide.data + (first + at) * wide.row_stride, wide.row_stride}, k,
                         sums + at, behind(at));
            } else {
              for (std::int64_t one = 0; one < count; ++one)
                lanes.dots(v.data(), {wide.data + (first + one) * wide.row_stride, 0}, k,
                           sums + one, behind(one));
            }
          }
        } else {
          std::fill_n(sums, count, 0.0);
          std::fill_n(made, count, 0.0);
          for (std::int64_t i = 0; i < k; i += 4)
            lanes.columns(v.data() + i,
                          {wide.data + first * wide.row_stride + i * wide.k_stride, wide.k_stride},
                          static_cast<int>(std::min<std::int64_t>(4, k - i)), count, sums, squares);
        }
        for (std::int64_t i = 0; i < count; i += kOutputs)
          product.round(first + i, static_cast<int>(std::min<std::int64_t>(kOutputs, count - i)),
                        sums + i, behind(i), bound, mine);
      }
      const std::scoped_lock lock(joining);
      left.insert(left.end(), mine.begin(), mine.end());
    });
  }
}

}  // namespace etalon
