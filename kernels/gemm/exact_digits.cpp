#include "kernels/gemm/exact_digits.h"

#include <algorithm>
#include <mutex>

namespace etalon {

void digits_pass(const DigitSet& set, const ExactLanes& lanes, const ExactTask& task,
                 const DigitOperand& b, int threads, std::vector<std::int64_t>& left) {
  constexpr std::int64_t kBlockBytes = 768 << 10;  // of b, half of a second cache
  const std::int64_t m = task.m, n = task.n;
  thread_local DigitOperand a;
  pack_digits(set, task.a, m, task.k, false, threads, a);
  const DigitOperand& packed_a = a;  // the caller's, for all threads
  const std::int64_t steps = b.steps(), tops = vector_strips(m, kDigitRows),
                     columns = vector_strips(n, kDigitRows);
  const std::int64_t block =
      std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, steps * kStepBytes), 1,
                               (columns + threads - 1) / threads);
  const std::int64_t blocks = (columns + block - 1) / block;
  const double alpha = static_cast<double>(task.alpha), beta = static_cast<double>(task.beta);
  // What every row adds is made once; else it is made for each tile, two of which are on their way.
  const bool shared = task.c != nullptr && task.c_row == 0;
  std::vector<double> every_row(
      static_cast<std::size_t>(shared ? columns * kDigitRows : std::int64_t{0}));
  for (std::int64_t i = 0; shared && i < n; ++i)
    every_row[static_cast<std::size_t>(i)] = beta * static_cast<double>(task.c[i * task.c_col]);
  DigitChoice choice(task.k);
  std::mutex joining;
  parallel_for(blocks * tops, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    DigitPipe pipe;
    DigitSums square;
    // Of two tiles on their way, one of them perhaps the one before the last, and of the next.
    double added[3][kDigitRows * kDigitRows] = {};
    int turn = 0;
    std::vector<std::int64_t> mine;
    int configured = 0;
    const auto configure = [&](int rows) {
      if (rows != configured) set.begin(configured = rows);
    };
    const auto next = [&](const DigitTile* tile) {
      DigitTile again;
      for (;;) {
        if (tile != nullptr) configure(tile->rows);
        set.next(pipe, tile);
        if (!pipe.ready) return;
        choice.saw(pipe.done.dropped, pipe.open);
        if (!DigitChoice::again(pipe.done.dropped, pipe.open)) break;
        again = pipe.done;
        again.dropped = 3;
        tile = &again;
      }
      if (pipe.open != 0 && task.steps.rounding_test)
        for (int r = 0; r < pipe.done.rows; ++r)
          for (std::uint32_t u = pipe.undecided[r]; u != 0; u &= u - 1)
            mine.push_back(pipe.done.at + r * n + __builtin_ctz(u));
    };
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t top = item % tops, first = item / tops * block;
      const int height = static_cast<int>(std::min<std::int64_t>(kDigitRows, m - top * kDigitRows));
      for (std::int64_t s = first; s < std::min(columns, first + block); ++s) {
        const int count = static_cast<int>(std::min<std::int64_t>(kDigitRows, n - s * kDigitRows));
        const std::int64_t corner = top * kDigitRows * n + s * kDigitRows;
        DigitTile tile{.a = packed_a.strip(top),
                       .b = b.strip(s),
                       .steps = steps,
                       .a_norms = &packed_a.norms_of(top),
                       .b_norms = &b.norms_of(s),
                       .rows = height,
                       .columns = count,
                       .dropped = choice.dropped(),
                       .scale = alpha,
                       .y = task.y + corner,
                       .y_row = n,
                       .at = corner};
        if (shared) {
          tile.added = every_row.data() + s * kDigitRows;
        } else if (task.c != nullptr) {
          double* to = added[turn = (turn + 1) % 3];
          for (int r = 0; r < height; ++r)
            for (int i = 0; i < count; ++i)
              to[r * kDigitRows + i] =
                  beta * static_cast<double>(task.c[(top * kDigitRows + r) * task.c_row +
                                                    (s * kDigitRows + i) * task.c_col]);
          tile.added = to;
          tile.added_row = kDigitRows;
        }
        if (task.truth == nullptr) {
          next(&tile);
          continue;
        }
        const std::size_t before = mine.size();
        configure(height);
        set.product(tile, square);
        const double size = std::abs(alpha);
        for (int r = 0; r < height; ++r)  // each with bounds of its own
          exact_tile(lanes,
                     {.sums = square.sums + r * kDigitRows,
                      .count = count,
                      .bounds = &size,
                      .norms = square.bounds + r * kDigitRows,
                      .scale = alpha,
                      .slack = alpha == 1 ? 0.0 : 0x1p-52,
                      .added = tile.added == nullptr ? nullptr : tile.added + r * tile.added_row,
                      .y = task.y + corner + r * n},
                     task.truth + corner + r * n, corner + r * n, task.steps, mine);
        choice.saw(tile.dropped, static_cast<std::int64_t>(mine.size() - before));
      }
    }
    while (pipe.full) next(nullptr);
    set.end();
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

}  // namespace etalon
