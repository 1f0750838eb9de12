#include "kernels/gemm/exact.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "engine/ops/gemm.h"
#include "kernels/gemm/exact_narrow.h"
#include "kernels/gemm/exact_pairs.h"
#include "kernels/gemm/exact_residues.h"
#include "kernels/gemm/exact_squares.h"
#include "kernels/gemm/exact_thin.h"
#include "kernels/gemm/rows.h"

namespace etalon {

ExactCounts& exact_counts() {
  static ExactCounts counts;
  return counts;
}

const ExactLanes* exact_lanes([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exact_lanes();
  if (isa == Isa::avx2) return &avx2::exact_lanes();
#endif
  return nullptr;
}

const ExactProducts* exact_products([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exact_products();
  if (isa == Isa::avx2) return &avx2::exact_products();
#endif
  return nullptr;
}

namespace {

// Whether a tile of digits pays, by a model of both passes in ns (one core of a Sapphire Rapids
// machine): strips of 16 are cut in steps of 64 terms, tiles multiplied and joined; the f64 pass
// packs, multiplies at 60 Gflop/s and rounds. Small products and short sums fill tiles badly. A
// choice of speed alone: the bits are the correctly rounded ones either way.
bool digits_pay(std::int64_t m, std::int64_t n, std::int64_t k, bool b_is_packed) {
  const auto strips = [](std::int64_t rows) {
    return static_cast<double>(vector_strips(rows, kDigitRows));
  };
  const double steps = static_cast<double>(vector_strips(k, kDigitStep)),
               rows = static_cast<double>(m), columns = static_cast<double>(n),
               terms = static_cast<double>(k);
  const double digits = 3000 + (strips(m) + (b_is_packed ? 0 : strips(n))) * (500 + 600 * steps) +
                        strips(m) * strips(n) * (500 + 300 * steps);
  const double f64 = 2000 + 1.2 * rows * terms + (b_is_packed ? 0 : 0.7 * columns * terms) +
                     rows * strips(n) * kDigitRows * terms / 30 + 1.5 * rows * columns;
  return digits < f64;
}
// Residues take eleven products of a tile for the digits' nineteen, but eleven bytes of memory for
// an element of b, not five: where few rows meet each, digits are faster (16x4096x4096 1.1 of
// oneDNN's time, with residues 2.3, in f64 2.2).
constexpr std::int64_t kResidueRows = 48;
ExactFirst first_for(Isa isa, const ExactShape& s) {
#if defined(__x86_64__)
  if (s.residues == nullptr && takes_words(isa, s.b_halves)) return ExactFirst::words;
#endif
  if (s.residues != nullptr && s.k <= kResidueTileMostK) return ExactFirst::residues;
  if (residue_set(isa) == nullptr) return ExactFirst::f64;
  if (std::min(s.m, s.n) >= kResidueRows && s.k <= kResidueTileMostK)
    return residues_pay(s) ? ExactFirst::residues : ExactFirst::f64;
  return digits_pay(s.m, s.n, s.k, s.b_is_constant) ? ExactFirst::digits : ExactFirst::f64;
}
const ResidueSet& residues_of(Isa isa, const ResidueSet* instead) {
  return instead == nullptr ? *residue_set(isa) : *instead;
}
constexpr int kMaxOutputs = 16;  // of a row of a tile
// A b of so many floats stays in the nearest caches as it lies, unless its rows share one set: read
// so as fast as a copy of it, for which threads would wait for each other.
constexpr std::int64_t kSmallElements = 1 << 16, kSetElements = 1024;

// The first pass in digits.
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

// Rows contiguous in k, for dot products one at a time: where they lie, or a copy of 16 at once.
class RowsAlong {
 public:
  RowsAlong(Isa isa, const MatrixView& from, std::int64_t rows, std::int64_t k)
      : set_(residue_set(isa)),
        tiles_(*tile_set_f32(isa)),
        from_(from),
        rows_(rows),
        k_(k),
        stride_((k + 15) / 16 * 16) {}
  const float* of(std::int64_t row) {
    if (from_.k_stride == 1) return from_.data + row * from_.row_stride;
    const std::int64_t strip = row / kResidueTileRows;
    float* copy = copy_.at_least<float>(kResidueTileRows * stride_);
    if (strip != at_) {
      at_ = strip;
      const std::int64_t first = strip * kResidueTileRows;
      if (set_ != nullptr) {
        turn_rows(*set_, from_, first, rows_, k_, 1, copy);
      } else if (from_.row_stride == 1 && rows_ - first >= kResidueTileRows) {
        for (std::int64_t i = 0; i < k_; i += tiles_.lanes)
          for (std::int64_t r = 0; r < kResidueTileRows; r += tiles_.lanes)
            tiles_.store_transposed(from_.data + first + r + i * from_.k_stride, from_.k_stride,
                                    static_cast<int>(std::min<std::int64_t>(tiles_.lanes, k_ - i)),
                                    tiles_.lanes, copy + r * stride_ + i, stride_);
      } else {
        const std::int64_t count = std::min<std::int64_t>(kResidueTileRows, rows_ - first);
        for (std::int64_t i = 0; i < k_; ++i)
          for (std::int64_t r = 0; r < count; ++r)
            copy[r * stride_ + i] = from_.data[(first + r) * from_.row_stride + i * from_.k_stride];
      }
    }
    return copy + row % kResidueTileRows * stride_;
  }

 private:
  const ResidueSet* set_;
  const TileSet& tiles_;
  MatrixView from_;
  std::int64_t rows_, k_, stride_, at_ = -1;
  AlignedBuffer copy_;
};

// Settles what the first pass left, strips of 16 columns by strips of 16 rows; keeps the rest.
void settle(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left) {
  const std::int64_t n = task.n;
  if (left.empty()) return;
  if (task.n > kThin) {
    // A key is divisions: made once. Strips of rows fit 31 bits.
    std::vector<std::pair<std::int64_t, std::int64_t>> keyed;
    keyed.reserve(left.size());
    for (const std::int64_t i : left)
      keyed.emplace_back((i % n / kResidueTileRows << 32) + i / n / kResidueTileRows, i);
    std::ranges::sort(keyed);
    std::ranges::transform(keyed, left.begin(), [](const auto& p) { return p.second; });
  }
  std::vector<std::int64_t> rest;
  std::mutex joining;
  parallel_for(static_cast<std::int64_t>(left.size()), threads, exact_settled(task.k),
               [&](std::int64_t begin, std::int64_t end) {
                 RowsAlong rows(isa, task.a, task.m, task.k), columns(isa, task.b, n, task.k);
                 std::vector<std::int64_t> mine;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t at = left[static_cast<std::size_t>(i)];
                   ExactOutput output{.a = rows.of(at / n),
                                      .b = columns.of(at % n),
                                      .k = task.k,
                                      .scale = static_cast<double>(task.alpha),
                                      .cells = task.steps.cells};
                   if (task.c != nullptr) {
                     output.adds = true;
                     output.added =
                         static_cast<double>(task.beta) *
                         static_cast<double>(task.c[at / n * task.c_row + at % n * task.c_col]);
                   }
                   if (!exact_settle(*exact_lanes(isa), output, task.y[at],
                                     task.truth == nullptr ? nullptr : task.truth + at))
                     mine.push_back(at);
                 }
                 const std::scoped_lock lock(joining);
                 rest.insert(rest.end(), mine.begin(), mine.end());
               });
  left = std::move(rest);
}

// Strips of a b that is read where it lies, with their norms; its last columns, where they fill no
// strip, are a copy. One thread's own.
class Columns {
 public:
  Columns(Isa isa, const ExactTask& task, std::int64_t width)
      : set_(*tile_set_f32(isa)), lanes_(*exact_lanes(isa)), task_(task), width_(width) {}
  // Strips [first, last).
  void bring(std::int64_t first, std::int64_t last) {
    if (first == first_) return;
    first_ = first;
    if (last * width_ > task_.n) {
      const std::int64_t column = (last - 1) * width_;
      tail_.resize(static_cast<std::size_t>(task_.k * width_));
      pack_rows(set_, task_.b, column, static_cast<int>(task_.n - column), set_.lanes, task_.k,
                tail_.data(), width_);
    }
    norms_.assign(static_cast<std::size_t>((last - first) * width_), 0.0);
    for (std::int64_t v = first; v < last; ++v)
      lanes_.squares(at(v), step(v), task_.k, norms_.data() + (v - first) * width_);
    for (double& norm : norms_) norm = std::sqrt(norm);
  }
  const float* at(std::int64_t v) const {
    return whole(v) ? task_.b.data + v * width_ : tail_.data();
  }
  std::int64_t step(std::int64_t v) const { return whole(v) ? task_.b.k_stride : width_; }
  const double* norms(std::int64_t v) const { return norms_.data() + (v - first_) * width_; }

 private:
  bool whole(std::int64_t v) const { return (v + 1) * width_ <= task_.n; }
  const TileSet& set_;
  const ExactLanes& lanes_;
  const ExactTask& task_;
  std::int64_t width_, first_ = -1;
  std::vector<float> tail_;
  std::vector<double> norms_;
};

void f64_pass(Isa isa, const ExactTask& task, const ExactOperand& b, int threads,
              std::vector<std::int64_t>& left) {
  const std::int64_t m = task.m, n = task.n, k = task.k;
  const ExactProducts& products = *exact_products(isa);
  const ExactLanes& lanes = *exact_lanes(isa);
  const int width = 2 * products.lanes;  // of a strip of b
  const RowStrips strips(m, products.rows);
  const double alpha = static_cast<double>(task.alpha), beta = static_cast<double>(task.beta);
  // Blocks of rows by columns whose sums, and the part of a under a block of k and the next, fit
  // the second cache: without blocks of k, strips of more than 500 terms come from the third one
  // again and again. The sums of the blocks are joined rather than chained, so that a term meets
  // the roundings of its own block and one for each block more.
  constexpr std::int64_t kBlockTerms = 256, kBlockColumns = 256, kBlockRows = 132;
  const std::int64_t columns = vector_strips(n, width), block_width = kBlockColumns / width,
                     block_strips = kBlockRows / products.rows;
  const std::int64_t column_blocks = (columns + block_width - 1) / block_width;
  std::int64_t row_blocks = (strips.count + block_strips - 1) / block_strips;
  while (!keep_busy(column_blocks * row_blocks, threads) && row_blocks < strips.count) ++row_blocks;
  const std::int64_t k_blocks = std::max<std::int64_t>(1, (k + kBlockTerms - 1) / kBlockTerms);
  const double factor = exact_factor((k + k_blocks - 1) / k_blocks + k_blocks) * std::abs(alpha);
  std::vector<double> bounds(static_cast<std::size_t>(m));  // sums of squares at first
  const auto square_strip = [&](std::int64_t s, std::int64_t from, std::int64_t terms) {
    add_squares(lanes, task.a, m, strips.first(s), strips.height(s), from, terms, width,
                bounds.data() + strips.first(s));
  };
  const auto bound_strip = [&](std::int64_t s) {
    for (std::int64_t r = strips.first(s); r < strips.first(s + 1); ++r) {
      double& bound = bounds[static_cast<std::size_t>(r)];
      bound = factor * std::sqrt(bound);
    }
  };
  // Where no strip of a is met by two items, each packs its own, a block of k at a time, and
  // neither waits for another nor needs memory for all of a.
  const bool packs_own = column_blocks == 1;
  const double* packed_a = nullptr;
  if (!packs_own) {
    double* packed = thread_scratch<double>(ScratchSlot::broadcast, m * k);
    packed_a = packed;
    pack_broadcast(products, task.a, strips, k, threads, packed, [&](std::int64_t s) {
      square_strip(s, 0, k);
      bound_strip(s);
    });
  }
  const bool usual = task.c == nullptr && alpha == 1 && task.truth == nullptr;
  const std::int64_t c_row = kBlockColumns;
  std::mutex joining;
  parallel_for(column_blocks * row_blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    double* sums = thread_scratch<double>(ScratchSlot::tile, kBlockRows * c_row);
    double* own_a = packs_own
                        ? thread_scratch<double>(ScratchSlot::vector, kMaxTileRows * kBlockTerms)
                        : nullptr;
    double added[kMaxTileRows * kMaxOutputs] = {};
    std::uint32_t open[kMaxTileRows];
    std::vector<std::int64_t> mine;
    Columns own(isa, task, width);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item / row_blocks * block_width,
                         column_end = std::min(columns, column + block_width),
                         strip = item % row_blocks * strips.count / row_blocks,
                         strip_end = (item % row_blocks + 1) * strips.count / row_blocks;
      if (b.in_place) own.bring(column, column_end);
      for (std::int64_t kb = 0; kb < k_blocks; ++kb) {
        const std::int64_t from = kb * k / k_blocks, to = (kb + 1) * k / k_blocks;
        const bool last = kb + 1 == k_blocks;
        for (std::int64_t s = strip; s < strip_end; ++s) {
          const int height = strips.height(s);
          const std::int64_t top = strips.first(s);
          const double* a = packs_own ? own_a : packed_a + top * k + from * height;
          if (packs_own) {
            pack_rows(products,
                      {task.a.data + from * task.a.k_stride, task.a.row_stride, task.a.k_stride},
                      top, height, height, to - from, own_a, height);
            square_strip(s, from, to - from);
            if (last) bound_strip(s);
          }
          // Of the next strip, a share by each tile.
          const bool ahead = !packs_own && s + 1 < strip_end;
          const double* next_a =
              ahead ? packed_a + strips.first(s + 1) * k + from * strips.height(s + 1) : nullptr;
          const std::int64_t share =
              ahead ? exact_share(strips.height(s + 1), column_end - column) : 0;
          for (std::int64_t v = column; v < column_end; ++v) {
            const std::int64_t first = v * width, at = top * n + first;
            const int count = static_cast<int>(std::min<std::int64_t>(width, n - first));
            if (last) lanes.ask(task.y + at, n, height, count);
            const double* norms = b.in_place ? own.norms(v) : b.norms.data() + first;
            const ExactEnd rounding{.bounds = bounds.data() + top,
                                    .norms = norms,
                                    .added = kNothingAdded.data(),
                                    .y = task.y + at,
                                    .y_row = n,
                                    .undecided = open,
                                    .cells = task.steps.cells};
            const bool ends = last && usual && count == width;
            const ExactProduct tile{
                .k = to - from,
                .a = a,
                .b = b.in_place ? own.at(v) + from * own.step(v)
                                : b.strips.data<float>() + first * k + from * width,
                .b_step = b.in_place ? own.step(v) : width,
                .sums = sums + (top - strips.first(strip)) * c_row + (v - column) * width,
                .sums_row = c_row,
                .join = kb > 0,
                .end = ends ? &rounding : nullptr,
                .next = reinterpret_cast<const char*>(next_a) + (v - column) * (to - from) * share,
                .next_step = share};
            const std::size_t vectors = count > products.lanes ? 2 : 1;
            const std::uint32_t any = products.of[vectors][static_cast<std::size_t>(height)](tile);
            if (any != 0) exact_ended(rounding, height, at, task.steps, mine);
            if (!last || ends) continue;
            if (task.c != nullptr)
              for (int r = 0; r < height; ++r)
                for (int i = 0; i < count; ++i)
                  added[r * kMaxOutputs + i] =
                      beta * static_cast<double>(
                                 task.c[(top + r) * task.c_row + (first + i) * task.c_col]);
            exact_tile(lanes,
                       {.sums = tile.sums,
                        .sums_row = c_row,
                        .rows = height,
                        .count = count,
                        .bounds = bounds.data() + top,
                        .norms = norms,
                        .scale = alpha,
                        .slack = alpha == 1 ? 0.0 : 0x1p-52,
                        .added = task.c == nullptr ? nullptr : added,
                        .added_row = kMaxOutputs,
                        .y = task.y + at,
                        .y_row = n},
                       task.truth == nullptr ? nullptr : task.truth + at, at, task.steps, mine);
          }
        }
      }
    }
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

}  // namespace

void pack_exact(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
                ExactOperand& to) {
  const std::int64_t n = shape.n, k = shape.k;
  to.first = first_for(isa, shape);
#if defined(__x86_64__)
  if (to.first == ExactFirst::words) return pack_exact_words(shape, b, threads, to);
#endif
  if (to.first == ExactFirst::digits) {
    pack_digits(*digit_set(isa), b, n, k, true, threads, to.digits);
    return;
  }
  if (to.first == ExactFirst::residues) {
    pack_residues(residues_of(isa, shape.residues), b, n, k, true, threads, to.residues);
    return;
  }
  to.in_place = !shape.b_is_constant && b.row_stride == 1 && n * k <= kSmallElements &&
                b.k_stride % kSetElements != 0;
  if (to.in_place) return;
  const TileSet& set = *tile_set_f32(isa);
  const ExactLanes& lanes = *exact_lanes(isa);
  const std::int64_t columns = vector_strips(n, set.lanes) * set.lanes;
  float* packed = to.strips.at_least<float>(columns * k);
  to.norms.assign(static_cast<std::size_t>(columns), 0.0);
  pack_vector(set, b, n, k, threads, packed, [&](std::int64_t s) {
    double* norms = to.norms.data() + s * set.lanes;
    lanes.squares(packed + s * set.lanes * k, set.lanes, k, norms);
    for (int i = 0; i < set.lanes; ++i) norms[i] = std::sqrt(norms[i]);
  });
}

bool exact_is_thin(std::int64_t m, std::int64_t n) { return std::min(m, n) <= kThin; }

void gemm_exact(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left) {
  if (task.m == 0 || task.n == 0) return;
  if (exact_is_thin(task.m, task.n)) {
    thin_pass(*exact_lanes(isa), task, threads, left);
    exact_counts().undecided += static_cast<std::int64_t>(left.size());
    if (task.steps.settle) settle(isa, task, threads, left);
    return;
  }
  thread_local ExactOperand fresh;  // as thread_scratch: fresh pages cost more than the packing
  ExactShape shape{.m = task.m,
                   .n = task.n,
                   .k = task.k,
                   .residues = task.steps.residues,
                   .b_halves = task.truth == nullptr ? task.b_halves : nullptr};
  const ExactOperand* b = task.packed_b;
  const auto pack = [&] {
    pack_exact(isa, shape, task.b, threads, fresh);
    b = &fresh;
  };
  if (b == nullptr || (b->first == ExactFirst::words && shape.b_halves == nullptr)) pack();
#if defined(__x86_64__)
  if (b->first == ExactFirst::words && !words_pass(task, *b, threads, left)) {
    shape.b_halves = nullptr;
    pack();
  }
#endif
  if (b->first == ExactFirst::digits)
    digits_pass(*digit_set(isa), *exact_lanes(isa), task, b->digits, threads, left);
  else if (b->first == ExactFirst::residues)
    residues_pass(residues_of(isa, task.steps.residues), *exact_lanes(isa), task, b->residues,
                  threads, left);
  else if (b->first == ExactFirst::f64)
    f64_pass(isa, task, *b, threads, left);
  exact_counts().undecided += static_cast<std::int64_t>(left.size());
  if (task.steps.settle) settle(isa, task, threads, left);
}

namespace {

// `call` in f32; `halves`: the call as it was.
void gemm_pass(const KernelCall& call, const KernelCall& halves, Isa isa, const ExactSteps& steps,
               std::vector<std::int64_t>& left) {
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  ExactTask task{.m = g.m,
                 .n = g.n,
                 .k = g.k,
                 .a = {call.input(0).data<float>().data(), g.a_row, g.a_col},
                 .b = {call.input(1).data<float>().data(), g.b_col, g.b_row},
                 .packed_b = static_cast<const ExactOperand*>(call.prepared),
                 .alpha = params.alpha,
                 .beta = params.beta,
                 .y = call.output(0).mutable_data<float>().data(),
                 .steps = steps};
  if (call.has(2)) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    task.c = call.input(2).data<float>().data();
    task.c_row = strides[0];
    task.c_col = strides[1];
  }
  if (!call.truth.empty() && call.truth[0])
    task.truth = call.truth[0].mutable_data<double>().data();
  if (halves.input(0).dtype() == DType::bf16) {
    task.a_halves = bf16_bits(halves.input(0));
    task.b_halves = bf16_bits(halves.input(1));
  }
  gemm_exact(isa, task, call.threads, left);
}

}  // namespace

void run_gemm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  std::vector<std::int64_t> left;
  run_exact_pass(
      call, left,
      [&](const KernelCall& wide, const ExactCells* cells, std::vector<std::int64_t>& open) {
        ExactSteps all = steps;
        all.cells = cells;
        gemm_pass(wide, call, isa, all, open);
      });
  exact_counts().outputs += call.output(0).numel();
  exact_counts().defined += static_cast<std::int64_t>(left.size());
  if (!left.empty() && steps.definition) run_gemm_definition(call, left);
}

namespace {

// `problem` in f32; `halves`: the problem as it was.
Prepared pack_constant(const Problem& problem, const Problem& halves, Isa isa, int threads) {
  const Tensor* b = problem.inputs[1].value;
  if (b == nullptr) return nullptr;
  const auto& params = problem.params->as<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, problem.input(0).shape, problem.input(1).shape);
  if (exact_is_thin(g.m, g.n)) return nullptr;
  auto prepared = std::make_shared<ExactOperand>();
  pack_exact(isa,
             {.m = g.m,
              .n = g.n,
              .k = g.k,
              .b_is_constant = true,
              .b_halves = halves.input(1).dtype == DType::bf16 ? bf16_bits(*halves.inputs[1].value)
                                                               : nullptr},
             {b->data<float>().data(), g.b_col, g.b_row}, threads, *prepared);
  return prepared;
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  return prepare_exact_pass(problem, threads, [&](const Problem& wide) {
    return pack_constant(wide, problem, isa, threads);
  });
}

}  // namespace

template <Isa isa>
KernelRow gemm_exact_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = refuse_unless_exact_narrow,
          .run = [](const KernelCall& call) { run_gemm_exact(call, isa, {}); },
          .prepare = prepare<isa>};
}
template KernelRow gemm_exact_row<Isa::amx>(std::string_view name);
template KernelRow gemm_exact_row<Isa::avx512>(std::string_view name);
template KernelRow gemm_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
