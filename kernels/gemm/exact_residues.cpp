#include "kernels/gemm/exact_residues.h"

#include <algorithm>
#include <mutex>

namespace etalon {
namespace {

struct Opened {  // what the hooks of a block append to
  const ExactTask& task;
  const ExactLanes& lanes;
  std::vector<std::int64_t>& mine;
};
void append_open(void* caller, const ResidueBlock& block, int s, int c,
                 const std::uint16_t* undecided) {
  const auto& opened = *static_cast<Opened*>(caller);
  if (!opened.task.steps.rounding_test) return;
  const std::int64_t at = block.rows[s].at + block.columns[c].at;
  for (int r = 0; r < block.rows[s].rows; ++r)
    for (std::uint32_t u = undecided[r]; u != 0; u &= u - 1)
      opened.mine.push_back(at + r * block.y_row + __builtin_ctz(u));
}
void round_wide(void* caller, const ResidueBlock& block, int s, int c, const ResidueSums& square) {
  const auto& opened = *static_cast<Opened*>(caller);
  const ResidueRows& rows = block.rows[s];
  const ResidueColumns& columns = block.columns[c];
  const double size = std::abs(block.scale);
  for (int r = 0; r < rows.rows; ++r) {  // each with bounds of its own
    const std::int64_t at = rows.at + columns.at + r * block.y_row;
    exact_tile(opened.lanes,
               {.sums = square.sums + r * kResidueTileRows,
                .count = columns.columns,
                .bounds = &size,
                .norms = square.bounds + r * kResidueTileRows,
                .scale = block.scale,
                .slack = block.scale == 1 ? 0.0 : 0x1p-52,
                .added = block.added == nullptr
                             ? nullptr
                             : block.added + rows.added + columns.added + r * block.added_row,
                .y = block.y + at},
               opened.task.truth + at, at, opened.task.steps, opened.mine);
  }
}

}  // namespace

void residues_pass(const ResidueSet& set, const ExactLanes& lanes, const ExactTask& task,
                   const ResidueOperand& b, int threads, std::vector<std::int64_t>& left) {
  const std::int64_t m = task.m, n = task.n;
  thread_local ResidueOperand a;
  pack_residues(set, task.a, m, task.k, false, threads, a);
  const ResidueOperand& packed_a = a;  // the caller's, for all threads
  const double beta = static_cast<double>(task.beta);
  std::vector<std::int64_t> a_steps(static_cast<std::size_t>(b.steps()));
  for (std::size_t t = 0; t < a_steps.size(); ++t)
    a_steps[t] = static_cast<std::int64_t>(t) * kResidueTileBytes;
  const bool shared = task.c != nullptr && task.c_row == 0;
  std::vector<double> every_row(
      static_cast<std::size_t>(shared ? b.strips * kResidueTileRows : std::int64_t{0}));
  for (std::int64_t i = 0; shared && i < n; ++i)
    every_row[static_cast<std::size_t>(i)] = beta * static_cast<double>(task.c[i * task.c_col]);
  const ResidueBlocks cut(packed_a.strips, b.strips, b.steps(), false, threads);
  std::mutex joining;
  parallel_for(cut.tall * cut.wide, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    Opened opened{task, lanes, mine};
    auto* sums = thread_scratch<std::int32_t>(ScratchSlot::tile, kResidueBlockSums);
    const std::int64_t added_row = cut.columns * kResidueTileRows;
    std::vector<double> added(static_cast<std::size_t>(
        task.c != nullptr && !shared ? cut.rows * kResidueTileRows * added_row : std::int64_t{0}));
    set.begin();
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t top = item % cut.tall * cut.rows, first = item / cut.tall * cut.columns;
      ResidueBlock block{.row_strips = static_cast<int>(std::min(cut.rows, packed_a.strips - top)),
                         .column_strips = static_cast<int>(std::min(cut.columns, b.strips - first)),
                         .a_steps = a_steps.data(),
                         .a_plane = packed_a.plane(),
                         .b_plane = b.plane(),
                         .steps = b.steps(),
                         .scale = static_cast<double>(task.alpha),
                         .added = task.c == nullptr ? nullptr
                                  : shared          ? every_row.data()
                                                    : added.data(),
                         .added_row = shared ? 0 : added_row,
                         .y = task.y,
                         .y_row = n,
                         .caller = &opened,
                         .open = append_open,
                         .wide = task.truth == nullptr ? nullptr : round_wide};
      for (int s = 0; s < block.row_strips; ++s) {
        const std::int64_t row = (top + s) * kResidueTileRows;
        block.rows[s] = {
            .a = packed_a.strip(top + s),
            .norms = packed_a.norms_of(top + s),
            .rows = static_cast<int>(std::min<std::int64_t>(kResidueTileRows, m - row)),
            .at = row * n,
            .added = s * kResidueTileRows * block.added_row};
      }
      for (int c = 0; c < block.column_strips; ++c) {
        const std::int64_t column = (first + c) * kResidueTileRows;
        block.columns[c] = {
            .b = b.strip(first + c),
            .norms = b.norms_of(first + c),
            .columns = static_cast<int>(std::min<std::int64_t>(kResidueTileRows, n - column)),
            .at = column,
            .added = shared ? column : c * kResidueTileRows};
      }
      if (!added.empty())
        for (std::int64_t r = top * kResidueTileRows;
             r < std::min(m, (top + block.row_strips) * kResidueTileRows); ++r)
          for (std::int64_t i = first * kResidueTileRows;
               i < std::min(n, (first + block.column_strips) * kResidueTileRows); ++i)
            added[static_cast<std::size_t>((r - top * kResidueTileRows) * added_row + i -
                                           first * kResidueTileRows)] =
                beta * static_cast<double>(task.c[r * task.c_row + i * task.c_col]);
      set.run(block, sums);
    }
    set.end();
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

bool residues_pay(const ExactShape& s) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  const double residues =
      8000 + 4.6 * m * k + (s.b_is_constant ? 0 : 5.3 * n * k) +
      ResidueBlocks(vector_strips(s.m, kResidueTileRows), vector_strips(s.n, kResidueTileRows),
                    vector_strips(s.k, kResidueTileStep), false, 1)
          .cycles();
  // The f64 pass: products of eight lanes; its strips of b, 8 bytes an element, come at 3 bytes a
  // cycle where the second cache does not hold them.
  const double strips = 8 * n * k;
  const double f64 = 2000 + std::max(m * n * k / 12, strips > 0x1p21 ? strips / 3 : 0) +
                     0.5 * (m * k + (s.b_is_constant ? 0 : n * k) + m * n);
  return residues < kResiduesGain * f64;
}

}  // namespace etalon
