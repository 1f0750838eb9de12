#include "kernels/gemm/exact_pairs.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/core/threads.h"
#include "kernels/gemm/exact_squares.h"

#if defined(__x86_64__)
namespace etalon {
namespace {

// Blocks of rows by columns, and of words, whose operands and sums stay in the second cache.
constexpr std::int64_t kBlockRows = 126, kBlockColumns = 128, kBlockWords = 512;
constexpr std::int64_t kNormRows = 16;  // of one item

// The norms of `rows` rows.
std::vector<double> norms_of(const ExactLanes& lanes, const MatrixView& of, std::int64_t rows,
                             std::int64_t k, int threads) {
  std::vector<double> norms(static_cast<std::size_t>(vector_strips(rows, kNormRows) * kNormRows));
  parallel_for(
      vector_strips(rows, kNormRows), threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s) {
          const std::int64_t first = s * kNormRows;
          add_squares(lanes, of, rows, first, static_cast<int>(std::min(kNormRows, rows - first)),
                      0, k, kNormRows, norms.data() + first);
        }
      });
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

// Sixteen rows of words, or columns, that lie side by side, turned along k.
class TurnedWords {
 public:
  explicit TurnedWords(std::int64_t steps)
      : steps_(steps), stride_((steps + kPairLanes - 1) / kPairLanes * kPairLanes) {}
  // Word i of row r at from + i * step + r; `count` rows.
  void bring(const float* from, std::int64_t step, int count) {
    if (from == from_) return;
    from_ = from;
    float* to = copy_.at_least<float>(kPairLanes * stride_);
    for (std::int64_t i = 0; i < steps_; i += kPairLanes)
      pair_tiles().store_transposed(
          from + i * step, step, static_cast<int>(std::min<std::int64_t>(kPairLanes, steps_ - i)),
          count, to + i, stride_);
  }
  const float* row(std::int64_t r) const { return copy_.data<float>() + r * stride_; }

 private:
  std::int64_t steps_, stride_;
  const float* from_ = nullptr;
  AlignedBuffer copy_;
};

// What the tiles of an item left open, each summed once more, and again.
class OpenWords {
 public:
  OpenWords(const ExactTask& task, const MatrixView& a, const float* b, const double* a_norms,
            const double* b_norms)
      : task_(task),
        a_(a),
        b_(b),
        a_norms_(a_norms),
        b_norms_(b_norms),
        steps_(pair_steps(task.k)),
        rows_(steps_),
        columns_(steps_),
        alpha_(static_cast<double>(task.alpha)),
        fine_factor_(exact_factor(steps_ / 16 + 16)),
        factor_(kPairDotRoundings * 0x1p-24 * (1 + 0x1p-10) + fine_factor_) {}
  // Those of one strip of columns; keeps what stays open.
  void settle(std::vector<std::int64_t>& open) {
    const ExactPairSet& set = avx512bf16::exact_pairs();
    const auto left = std::ranges::remove_if(open, [&](std::int64_t at) {
      const std::int64_t r = at / task_.n, c = at % task_.n, strip = c / kPairLanes * kPairLanes;
      columns_.bring(b_ + strip * steps_, kPairLanes, kPairLanes);
      const float *x = row(r), *y = columns_.row(c - strip);
      const double size = std::abs(alpha_) * a_norms_[r] * b_norms_[c];
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
  const float* row(std::int64_t r) {
    if (a_.k_stride == 1) return a_.data + r * a_.row_stride;
    const std::int64_t first = r / kPairLanes * kPairLanes;
    rows_.bring(a_.data + first, a_.k_stride,
                static_cast<int>(std::min<std::int64_t>(kPairLanes, task_.m - first)));
    return rows_.row(r - first);
  }

  const ExactTask& task_;
  const MatrixView& a_;
  const float* b_;
  const double *a_norms_, *b_norms_;
  std::int64_t steps_;
  TurnedWords rows_, columns_;
  double alpha_, fine_factor_, factor_;
};

// Rows of a and strips of b in words.
void sum_words(const ExactTask& f32, const MatrixView& a, const float* b, int threads,
               std::vector<std::int64_t>& left) {
  const std::int64_t m = f32.m, n = f32.n, steps = pair_steps(f32.k);
  const ExactLanes& lanes = *exact_lanes(Isa::avx512);
  const ExactPairSet& products = avx512bf16::exact_pairs();
  constexpr std::int64_t kWidth = 2 * kPairLanes;
  const RowStrips strips(m, kPairRows);
  const double alpha = static_cast<double>(f32.alpha), beta = static_cast<double>(f32.beta);
  const std::int64_t groups = vector_strips(steps, kPairBlock * kPairGroup);
  const double factor =
      ((2 * kPairBlock - 1 + kPairGroup - 1) * 0x1p-24 + static_cast<double>(groups) * 0x1p-53) *
      (1 + 0x1p-10) * std::abs(alpha);
  const std::vector<double> a_norms = norms_of(lanes, f32.a, m, f32.k, threads);
  const std::vector<double> norms = norms_of(lanes, f32.b, n, f32.k, threads);
  float* packed_a = thread_scratch<float>(ScratchSlot::broadcast, m * steps);
  pack_broadcast(pair_tiles(), a, strips, steps, threads, packed_a);

  const std::int64_t columns = vector_strips(n, kWidth), block_width = kBlockColumns / kWidth,
                     column_blocks = vector_strips(columns, static_cast<int>(block_width));
  std::int64_t row_blocks = vector_strips(strips.count, kBlockRows / kPairRows);
  while (!keep_busy(column_blocks * row_blocks, threads) && row_blocks < strips.count) ++row_blocks;
  const std::int64_t k_blocks = std::max<std::int64_t>(1, vector_strips(steps, kBlockWords));
  std::mutex joining;
  parallel_for(column_blocks * row_blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    double* sums = thread_scratch<double>(ScratchSlot::tile, kBlockRows * kBlockColumns);
    double added[kPairRows * kPairLanes] = {};
    double bounds[kPairRows];
    std::vector<std::int64_t> mine, open[kBlockColumns / kPairLanes];
    OpenWords again(f32, a, b, a_norms.data(), norms.data());
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item / row_blocks * block_width,
                         column_end = std::min(columns, column + block_width),
                         strip = item % row_blocks * strips.count / row_blocks,
                         strip_end = (item % row_blocks + 1) * strips.count / row_blocks;
      for (std::int64_t kb = 0; kb < k_blocks; ++kb) {
        // Whole groups, so that no term meets more roundings than counted.
        constexpr std::int64_t kGroup = kPairBlock * kPairGroup;
        const std::int64_t from = kb * groups / k_blocks * kGroup,
                           to = std::min(steps, (kb + 1) * groups / k_blocks * kGroup);
        for (std::int64_t s = strip; s < strip_end; ++s) {
          const int height = strips.height(s);
          const std::int64_t top = strips.first(s);
          for (int r = 0; r < height; ++r)
            bounds[r] = factor * a_norms[static_cast<std::size_t>(top + r)];
          for (std::int64_t v = column; v < column_end; ++v) {
            const std::int64_t first = v * kWidth;
            double* c = sums + (top - strips.first(strip)) * kBlockColumns + (v - column) * kWidth;
            const std::size_t vectors = n - first > kPairLanes ? 2 : 1;
            products.of[vectors][static_cast<std::size_t>(height)](
                {.steps = to - from,
                 .a = packed_a + top * steps + from * height,
                 .b = b + first * steps + from * kPairLanes,
                 .b_vector = kPairLanes * steps,
                 .sums = c,
                 .sums_row = kBlockColumns,
                 .join = kb > 0});
            if (kb + 1 < k_blocks) continue;
            for (std::size_t w = 0; w < vectors; ++w) {
              const std::int64_t at = first + static_cast<std::int64_t>(w) * kPairLanes;
              const int count = static_cast<int>(std::min<std::int64_t>(kPairLanes, n - at));
              if (f32.c != nullptr)
                for (int r = 0; r < height; ++r)
                  for (int i = 0; i < count; ++i)
                    added[r * kPairLanes + i] =
                        beta *
                        static_cast<double>(f32.c[(top + r) * f32.c_row + (at + i) * f32.c_col]);
              exact_tile(lanes,
                         {.sums = c + w * kPairLanes,
                          .sums_row = kBlockColumns,
                          .rows = height,
                          .count = count,
                          .bounds = bounds,
                          .norms = norms.data() + at,
                          .scale = alpha,
                          .slack = alpha == 1 ? 0.0 : 0x1p-52,
                          .added = f32.c == nullptr ? nullptr : added,
                          .added_row = kPairLanes,
                          .y = f32.y + top * n + at,
                          .y_row = n},
                         nullptr, top * n + at, f32.steps,
                         open[(at - column * kWidth) / kPairLanes]);
            }
          }
        }
      }
      for (std::vector<std::int64_t>& strip_open : open) {
        if (f32.steps.settle) again.settle(strip_open);
        mine.insert(mine.end(), strip_open.begin(), strip_open.end());
        strip_open.clear();
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
  const std::int64_t steps = pair_steps(shape.k);
  float* plain = thread_scratch<float>(ScratchSlot::turned, shape.n * steps);
  const PairWords words = pair_words(shape.b_halves, shape.n, shape.k, b.k_stride, threads, plain);
  to.seen = words.seen;
  pack_vector(pair_tiles(), words.view, shape.n, steps, threads,
              to.words.at_least<float>(vector_strips(shape.n, kPairLanes) * kPairLanes * steps));
}

bool words_pass(const ExactTask& task, const ExactOperand& b, int threads,
                std::vector<std::int64_t>& left) {
  float* plain = thread_scratch<float>(ScratchSlot::turned, task.m * pair_steps(task.k));
  const PairWords a = pair_words(task.a_halves, task.m, task.k, task.a.k_stride, threads, plain);
  if (!keeps_order(a.seen, b.seen)) return false;
  sum_words(task, a.view, b.words.data<float>(), threads, left);
  if (static_cast<std::int64_t>(left.size()) * kPairOpen <= task.m * task.n) return true;
  left.clear();
  return false;
}

}  // namespace etalon
#endif
