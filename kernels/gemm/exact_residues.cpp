// One operand was packed beforehand and stays; strips of the other pass by in blocks, each packed
// by the thread that multiplies it, so that its bytes, eleven for an element, go no further than
// the second cache.
#include "kernels/gemm/exact_residues.h"

#include <algorithm>
#include <mutex>

namespace etalon {
namespace {

// How strips are cut into blocks. From the third cache a product gets its operands at
// kThirdCacheBytes a cycle, and uses up a tile of each: so a block of passing strips, all planes of
// it, is to stay in the second one, of 2 MiB, beside the sums (11 KiB a tile), while the others are
// read as rarely as it has strips. Where k is so long that it would have fewer than four, the two
// panels of one plane stay, and the sums are as many as may be.
struct Blocks {
  std::int64_t passing = 2, staying = 2;  // strips of a block, at most
  std::int64_t count = 0;                 // of passing blocks
  std::int64_t parts = 1;                 // of the others, for threads to share
  bool block_stays = true;

  Blocks(std::int64_t passing_strips, std::int64_t staying_strips, std::int64_t k, int threads)
      : strips_(passing_strips), pairs_((passing_strips + 1) / 2) {
    constexpr std::int64_t kPanelBytes = 768 << 10;
    const std::int64_t bytes = std::max<std::int64_t>(1, kResiduePlanes * residue_strip_bytes(k));
    std::int64_t most = std::min<std::int64_t>(kResidueBlockRows, kPanelBytes / bytes);
    block_stays = most >= 4;
    if (!block_stays) most = 8;
    // Threads are to have equal shares: of blocks, or of parts of them.
    const std::int64_t at_a_time = std::max<std::int64_t>(1, most / 2),
                       least = (pairs_ + at_a_time - 1) / at_a_time;
    count = std::min(pairs_, (least + threads - 1) / threads * threads);
    passing = count == 0 ? 2 : (pairs_ + count - 1) / count * 2;
    const std::int64_t columns =
        std::min<std::int64_t>(kResidueBlockColumns, kResidueBlockTiles / passing);
    while (count * parts % threads != 0 && parts < threads && 2 * parts < staying_strips) ++parts;
    const std::int64_t share = (staying_strips + parts - 1) / parts,
                       pieces = std::max<std::int64_t>(1, (share + columns - 1) / columns);
    staying = std::min(columns, ((share + pieces - 1) / pieces + 1) / 2 * 2);
    staying = std::max<std::int64_t>(2, staying);
  }
  // The first strip of passing block `at`.
  std::int64_t first(std::int64_t at) const { return std::min(strips_, at * pairs_ / count * 2); }

 private:
  std::int64_t strips_, pairs_;
};
static_assert(kResidueBlockRows == kResidueBlockColumns);  // either operand passes

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
    double same[kResidueTileRows];
    if (block.row_added != nullptr)
      std::fill_n(same, kResidueTileRows, block.row_added[rows.added + r]);
    exact_tile(opened.lanes,
               {.sums = square.sums + r * kResidueTileRows,
                .count = columns.columns,
                .bounds = &size,
                .norms = square.bounds + r * kResidueTileRows,
                .scale = block.scale,
                .slack = block.scale == 1 ? 0.0 : 0x1p-52,
                .added = block.row_added != nullptr ? same
                         : block.added == nullptr
                             ? nullptr
                             : block.added + rows.added + columns.added + r * block.added_row,
                .y = block.y + at},
               opened.task.truth + at, at, opened.task.steps, opened.mine);
  }
}

// What is added to products: one number a row or a column, made once for the call; else
// `square`, one an output, made for each block.
struct Added {
  std::vector<double> rows, columns;
  bool square = false;

  Added(const ExactTask& task, std::int64_t column_strips) {
    if (task.c == nullptr) return;
    const auto beta = static_cast<double>(task.beta);
    if (task.c_row == 0) {
      columns.resize(static_cast<std::size_t>(column_strips * kResidueTileRows));
      for (std::int64_t i = 0; i < task.n; ++i)
        columns[static_cast<std::size_t>(i)] = beta * static_cast<double>(task.c[i * task.c_col]);
    } else if (task.c_col == 0) {
      rows.resize(static_cast<std::size_t>(task.m));
      for (std::int64_t r = 0; r < task.m; ++r)
        rows[static_cast<std::size_t>(r)] = beta * static_cast<double>(task.c[r * task.c_row]);
    } else {
      square = true;
    }
  }
};

}  // namespace

void residues_pass(const ResidueSet& set, const ExactLanes& lanes, const ExactTask& task,
                   const ResidueOperand& stays, bool left_stays, int threads,
                   std::vector<std::int64_t>& left) {
  const std::int64_t m = task.m, n = task.n, k = task.k, steps = residue_steps(k),
                     strip_bytes = residue_strip_bytes(k);
  const MatrixView& from = left_stays ? task.b : task.a;
  const std::int64_t rows = left_stays ? n : m, strips = vector_strips(rows, kResidueTileRows);
  std::vector<std::int64_t> a_steps(static_cast<std::size_t>(steps));
  for (std::size_t t = 0; t < a_steps.size(); ++t)
    a_steps[t] = static_cast<std::int64_t>(t) * kResidueTileBytes;
  const Added sent(task, vector_strips(n, kResidueTileRows));
  const Blocks cut(strips, stays.strips, k, threads);
  std::mutex joining;
  parallel_for(cut.count * cut.parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    Opened opened{task, lanes, mine};
    auto* sums = thread_scratch<std::int32_t>(ScratchSlot::tile, kResidueBlockSums);
    auto* planes = thread_scratch<std::uint8_t>(
        ScratchSlot::broadcast,
        std::max<std::int64_t>(1, kResiduePlanes * cut.passing * strip_bytes));
    auto* norms = thread_scratch<ResidueNorms>(ScratchSlot::norms, cut.passing);
    const std::int64_t added_row = (left_stays ? cut.passing : cut.staying) * kResidueTileRows;
    std::vector<double> added(static_cast<std::size_t>(
        sent.square ? cut.passing * cut.staying * kResidueTileSums : std::int64_t{0}));
    std::int64_t packed = -1;
    set.begin();
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t at = item / cut.parts, part = item % cut.parts, passed = cut.first(at),
                         count = cut.first(at + 1) - passed;
      if (at != packed)
        pack_residue_strips(set, from, rows, k, left_stays, passed, count, planes,
                            count * strip_bytes, norms);
      packed = at;
      for (std::int64_t stay = part * stays.strips / cut.parts,
                        stop = (part + 1) * stays.strips / cut.parts;
           stay < stop; stay += cut.staying) {
        const std::int64_t staying = std::min(cut.staying, stop - stay),
                           top = left_stays ? stay : passed, first = left_stays ? passed : stay;
        ResidueBlock block{.row_strips = static_cast<int>(left_stays ? staying : count),
                           .column_strips = static_cast<int>(left_stays ? count : staying),
                           .a_steps = a_steps.data(),
                           .a_plane = left_stays ? stays.plane() : count * strip_bytes,
                           .b_plane = left_stays ? count * strip_bytes : stays.plane(),
                           .steps = steps,
                           .scale = static_cast<double>(task.alpha),
                           .row_added = sent.rows.empty() ? nullptr : sent.rows.data(),
                           .added = sent.square            ? added.data()
                                    : sent.columns.empty() ? nullptr
                                                           : sent.columns.data(),
                           .added_row = sent.square ? added_row : 0,
                           .y = task.y,
                           .y_row = n,
                           .caller = &opened,
                           .open = append_open,
                           .wide = task.truth == nullptr ? nullptr : round_wide};
        for (int s = 0; s < block.row_strips; ++s) {
          const std::int64_t row = (top + s) * kResidueTileRows;
          block.rows[s] = {
              .a = left_stays ? stays.strip(top + s) : planes + s * strip_bytes,
              .norms = left_stays ? stays.norms_of(top + s) : norms + s,
              .rows = static_cast<int>(std::min<std::int64_t>(kResidueTileRows, m - row)),
              .at = row * n,
              .added = sent.square         ? s * kResidueTileRows * added_row
                       : sent.rows.empty() ? 0
                                           : row};
        }
        for (int c = 0; c < block.column_strips; ++c) {
          const std::int64_t column = (first + c) * kResidueTileRows;
          block.columns[c] = {
              .b = left_stays ? planes + c * strip_bytes : stays.strip(first + c),
              .norms = left_stays ? norms + c : stays.norms_of(first + c),
              .columns = static_cast<int>(std::min<std::int64_t>(kResidueTileRows, n - column)),
              .at = column,
              .added = sent.square ? c * kResidueTileRows : column};
        }
        if (sent.square)
          for (std::int64_t r = top * kResidueTileRows;
               r < std::min(m, (top + block.row_strips) * kResidueTileRows); ++r)
            for (std::int64_t i = first * kResidueTileRows;
                 i < std::min(n, (first + block.column_strips) * kResidueTileRows); ++i)
              added[static_cast<std::size_t>((r - top * kResidueTileRows) * added_row + i -
                                             first * kResidueTileRows)] =
                  static_cast<double>(task.beta) *
                  static_cast<double>(task.c[r * task.c_row + i * task.c_col]);
        set.run(block, sums);
      }
    }
    set.end();
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

double residues_cycles(std::int64_t passing, std::int64_t staying, std::int64_t k) {
  const std::int64_t strips = vector_strips(passing, kResidueTileRows),
                     others = vector_strips(staying, kResidueTileRows);
  const Blocks cut(strips, others, k, 1);
  const auto tiles = static_cast<double>(strips * others),
             steps = static_cast<double>(residue_steps(k));
  const double strip_bytes = kResiduePlanes * kResidueTileBytes * steps;
  // What the second cache does not hold comes again for each block.
  const double others_bytes = strip_bytes * static_cast<double>(others),
               again = others_bytes > 0x1p20 ? static_cast<double>(cut.count) : 1,
               bytes = others_bytes * again +
                       (cut.block_stays ? 0
                                        : strip_bytes * static_cast<double>(strips) *
                                              std::ceil(static_cast<double>(others) /
                                                        static_cast<double>(cut.staying)));
  return kResidueCutCycles * static_cast<double>(passing * k) +
         std::max(tiles * kResiduePlanes * (kResidueProductCycles * steps + kResidueStoreCycles),
                  bytes / kThirdCacheBytes) +
         tiles * kResidueTileSums * kResidueJoinCycles;
}

bool residues_pay(const ExactShape& s) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  const double residues =
      6000 + residues_cycles(s.m, s.n, s.k) + (s.b_is_constant ? 0 : kResidueCutCycles * n * k);
  // The f64 pass: products of eight lanes; its strips of b, 8 bytes an element, come at 3 bytes a
  // cycle where the second cache does not hold them.
  const double strips = 8 * n * k;
  const double f64 = 2000 + std::max(m * n * k / 12, strips > 0x1p21 ? strips / 3 : 0) +
                     0.5 * (m * k + (s.b_is_constant ? 0 : n * k) + m * n);
  return residues < kResiduesGain * f64;
}

}  // namespace etalon
