#include "kernels/gemm/exact_pairs.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/core/threads.h"
#include "kernels/gemm/packed.h"

#if defined(__x86_64__)
namespace etalon {
namespace {

// Blocks of rows by columns, and of words, whose operands and sums stay in the second cache.
constexpr std::int64_t kBlockRows = 126, kBlockColumns = 256, kBlockWords = 512;
constexpr std::int64_t kWidth = 2 * kPairLanes;  // of a tile
constexpr std::int64_t kSeen = 1 << 15;          // numbers that a thread is worth waking for

// Rows of words along k, an odd number of cache lines apart, so that those of a tile do not meet in
// the same sets of a cache.
std::int64_t row_stride(std::int64_t steps) {
  return (vector_strips(steps, kPairLanes) | 1) * kPairLanes;
}

// words of columns or rows that lie side by side, word i of each at from + i * kPairLanes, along k.
void turn(const float* from, std::int64_t steps, int count, float* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < steps; i += kPairLanes)
    pair_tiles().store_transposed(from + i * kPairLanes, kPairLanes,
                                  static_cast<int>(std::min<std::int64_t>(kPairLanes, steps - i)),
                                  count, to + i, stride);
}

// Rows [first, first + count) of a, along k.
void bring_rows(const ExactTask& task, std::int64_t first, std::int64_t count, float* to) {
  const std::int64_t steps = pair_steps(task.k), stride = row_stride(steps);
  Magnitudes seen;  // known by now
  if (task.a.k_stride == 1) {
    for (std::int64_t r = 0; r < count; ++r)
      avx512bf16::pair_along(task.a_halves + (first + r) * task.k, task.k, to + r * stride, seen);
    return;
  }
  float* strip = thread_scratch<float>(ScratchSlot::vector, kPairLanes * steps);
  for (std::int64_t r = 0; r < count; r += kPairLanes) {
    const int n = static_cast<int>(std::min<std::int64_t>(kPairLanes, count - r));
    avx512bf16::pack_across(
        {.from = task.a_halves + first + r, .row = task.m, .k = task.k, .count = n, .to = strip},
        seen);
    turn(strip, steps, n, to + r * stride, stride);
  }
}

// What the tiles of an item left open, each summed once more, and again.
class OpenWords {
 public:
  OpenWords(const ExactTask& task, const ExactOperand& b)
      : task_(task),
        b_(b),
        steps_(pair_steps(task.k)),
        stride_(row_stride(steps_)),
        alpha_(static_cast<double>(task.alpha)),
        fine_factor_(exact_factor(steps_ / 16 + 16)),
        factor_(kPairDotRoundings * 0x1p-24 * (1 + 0x1p-10) + fine_factor_) {}
  // Those of columns [first, first + 16); row `top` and on at `rows`. Keeps what stays open.
  void settle(std::int64_t first, std::int64_t top, const float* rows, const double* norms,
              std::vector<std::int64_t>& open) {
    if (open.empty()) return;
    const ExactPairSet& set = avx512bf16::exact_pairs();
    float* columns = columns_.at_least<float>(kPairLanes * stride_);
    turn(b_.words.data<float>() + first * steps_, steps_, kPairLanes, columns, stride_);
    const auto left = std::ranges::remove_if(open, [&](std::int64_t at) {
      const std::int64_t r = at / task_.n, c = at % task_.n;
      const float *x = rows + (r - top) * stride_, *y = columns + (c - first) * stride_;
      const double size =
          std::abs(alpha_) * norms[r - top] * b_.word_norms[static_cast<std::size_t>(c)];
      const double added =
          task_.c == nullptr ? 0
                             : static_cast<double>(task_.beta) *
                                   static_cast<double>(task_.c[r * task_.c_row + c * task_.c_col]);
      const auto decides = [&](double sum, double factor) {
        const double product = alpha_ * sum;
        return exact_decide(task_.c == nullptr ? product : product + added,
                            factor * size + 0x1p-52 * std::abs(product), task_.y[at], nullptr,
                            task_.steps.cells);
      };
      return decides(set.dot(x, y, steps_), factor_) ||
             decides(set.fine_dot(x, y, steps_), fine_factor_);
    });
    open.erase(left.begin(), left.end());
  }

 private:
  const ExactTask& task_;
  const ExactOperand& b_;
  std::int64_t steps_, stride_;
  double alpha_, fine_factor_, factor_;
  AlignedBuffer columns_;
};

// Appends what is open.
void sum_words(const ExactTask& task, const ExactOperand& b, int threads,
               std::vector<std::int64_t>& left) {
  const std::int64_t m = task.m, n = task.n, steps = pair_steps(task.k), stride = row_stride(steps);
  const ExactLanes& lanes = *exact_lanes(Isa::avx512);
  const ExactPairSet& set = avx512bf16::exact_pairs();
  const double alpha = static_cast<double>(task.alpha), beta = static_cast<double>(task.beta);
  constexpr std::int64_t kGroup = kPairBlock * kPairGroup;
  const std::int64_t groups = vector_strips(steps, kGroup);
  const double factor =
      ((2 * kPairBlock - 1 + kPairGroup - 1) * 0x1p-24 + static_cast<double>(groups) * 0x1p-53) *
      (1 + 0x1p-10) * std::abs(alpha);
  const std::int64_t columns = vector_strips(n, kWidth), block_width = kBlockColumns / kWidth,
                     column_blocks = vector_strips(columns, static_cast<int>(block_width));
  const RowStrips strips(m, kPairRows);
  std::int64_t row_blocks = vector_strips(strips.count, kBlockRows / kPairRows);
  while (!keep_busy(column_blocks * row_blocks, threads) && row_blocks < strips.count) ++row_blocks;
  const std::int64_t k_blocks = std::max<std::int64_t>(1, vector_strips(steps, kBlockWords));
  std::mutex joining;
  parallel_for(column_blocks * row_blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    // Each brings its own rows: what another processor has written comes slowly.
    float* rows = thread_scratch<float>(ScratchSlot::broadcast, kBlockRows * stride);
    double* sums = thread_scratch<double>(ScratchSlot::tile, kBlockRows * kBlockColumns);
    double added[kPairRows * kPairLanes] = {}, norms[kBlockRows], bounds[kBlockRows];
    std::vector<std::int64_t> mine, open[kBlockColumns / kPairLanes];
    OpenWords again(task, b);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item / row_blocks * block_width,
                         column_end = std::min(columns, column + block_width),
                         strip = item % row_blocks * strips.count / row_blocks,
                         strip_end = (item % row_blocks + 1) * strips.count / row_blocks;
      const std::int64_t top = strips.first(strip), count = strips.first(strip_end) - top;
      bring_rows(task, top, count, rows);
      for (std::int64_t r = 0; r < count; ++r) {
        norms[r] = std::sqrt(set.square(rows + r * stride, steps));
        bounds[r] = factor * norms[r];
      }
      for (std::int64_t kb = 0; kb < k_blocks; ++kb) {
        // Whole groups, so that no term meets more roundings than counted.
        const std::int64_t from = kb * groups / k_blocks * kGroup,
                           to = std::min(steps, (kb + 1) * groups / k_blocks * kGroup);
        for (std::int64_t s = strip; s < strip_end; ++s) {
          const int height = strips.height(s);
          const std::int64_t row = strips.first(s), local = row - top;
          for (std::int64_t v = column; v < column_end; ++v) {
            const std::int64_t first = v * kWidth;
            double* c = sums + local * kBlockColumns + (v - column) * kWidth;
            const std::size_t vectors = n - first > kPairLanes ? 2 : 1;
            set.of[vectors][static_cast<std::size_t>(height)](
                {.steps = to - from,
                 .a = rows + local * stride + from,
                 .a_row = stride,
                 .b = b.words.data<float>() + first * steps + from * kPairLanes,
                 .b_vector = kPairLanes * steps,
                 .sums = c,
                 .sums_row = kBlockColumns,
                 .join = kb > 0});
            if (kb + 1 < k_blocks) continue;
            for (std::size_t w = 0; w < vectors; ++w) {
              const std::int64_t at = first + static_cast<std::int64_t>(w) * kPairLanes;
              const int outputs = static_cast<int>(std::min<std::int64_t>(kPairLanes, n - at));
              if (task.c != nullptr)
                for (int r = 0; r < height; ++r)
                  for (int i = 0; i < outputs; ++i)
                    added[r * kPairLanes + i] =
                        beta *
                        static_cast<double>(task.c[(row + r) * task.c_row + (at + i) * task.c_col]);
              exact_tile(lanes,
                         {.sums = c + w * kPairLanes,
                          .sums_row = kBlockColumns,
                          .rows = height,
                          .count = outputs,
                          .bounds = bounds + local,
                          .norms = b.word_norms.data() + at,
                          .scale = alpha,
                          .slack = alpha == 1 ? 0.0 : 0x1p-52,
                          .added = task.c == nullptr ? nullptr : added,
                          .added_row = kPairLanes,
                          .y = task.y + row * n + at,
                          .y_row = n},
                         nullptr, row * n + at, task.steps,
                         open[(at - column * kWidth) / kPairLanes]);
            }
          }
        }
      }
      for (std::int64_t i = 0; i < std::ssize(open); ++i) {
        std::vector<std::int64_t>& some = open[i];
        if (task.steps.settle)
          again.settle(column * kWidth + i * kPairLanes, top, rows, norms, some);
        mine.insert(mine.end(), some.begin(), some.end());
        some.clear();
      }
    }
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

}  // namespace

bool takes_words(Isa isa, const std::uint16_t* b_halves) {
  return b_halves != nullptr && isa >= Isa::avx512 && !refuse_pairs();
}

void pack_exact_words(const ExactShape& shape, const MatrixView& b, int threads, ExactOperand& to) {
  const std::int64_t n = shape.n, k = shape.k, steps = pair_steps(k),
                     strips = vector_strips(n, kPairLanes);
  float* words = to.words.at_least<float>(strips * kPairLanes * steps);
  to.word_norms.resize(static_cast<std::size_t>(strips * kPairLanes));
  // Two strips together are a cache line of b.
  to.seen = seen_by(
      vector_strips(strips, 2), threads, 1,
      [&](std::int64_t begin, std::int64_t end, Magnitudes& seen) {
        for (std::int64_t s = 2 * begin; s < std::min(strips, 2 * end); s += 2) {
          const std::int64_t first = s * kPairLanes;
          const int count = static_cast<int>(std::min<std::int64_t>(kWidth, n - first));
          float* at = words + first * steps;
          if (b.k_stride == 1) {
            const std::int64_t stride = row_stride(steps);
            float* rows = thread_scratch<float>(ScratchSlot::vector, kWidth * stride);
            for (int r = 0; r < count; ++r)
              avx512bf16::pair_along(shape.b_halves + (first + r) * k, k, rows + r * stride, seen);
            for (int r = 0; r < count; r += kPairLanes)
              pack_rows(pair_tiles(), {rows, stride, 1}, r, std::min<int>(kPairLanes, count - r),
                        kPairLanes, steps, at + r * steps, kPairLanes);
          } else {
            avx512bf16::pack_across({.from = shape.b_halves + first,
                                     .row = n,
                                     .k = k,
                                     .count = count,
                                     .to = at,
                                     .to_strip = kPairLanes * steps},
                                    seen);
          }
          for (int r = 0; r < count; r += kPairLanes) {
            double* norms = to.word_norms.data() + first + r;
            avx512bf16::exact_pairs().squares(at + r * steps, steps, norms);
            for (int i = 0; i < kPairLanes; ++i) norms[i] = std::sqrt(norms[i]);
          }
        }
      });
}

bool words_pass(const ExactTask& task, const ExactOperand& b, int threads,
                std::vector<std::int64_t>& left) {
  const Magnitudes seen = seen_by(task.m * task.k, threads, kSeen,
                                  [&](std::int64_t begin, std::int64_t end, Magnitudes& all) {
                                    avx512bf16::see(task.a_halves + begin, end - begin, all);
                                  });
  if (!keeps_order(seen, b.seen)) return false;
  sum_words(task, b, threads, left);
  if (static_cast<std::int64_t>(left.size()) * kPairOpen <= task.m * task.n) return true;
  left.clear();
  return false;
}

}  // namespace etalon
#endif
