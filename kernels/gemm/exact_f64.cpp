#include "kernels/gemm/exact_f64.h"

#include <algorithm>
#include <mutex>

namespace etalon {
namespace {

constexpr int kMaxOutputs = 16;  // of a row of a tile
// A b of so many floats stays in the nearest caches as it lies, unless its rows share one set: read
// so as fast as a copy of it, for which threads would wait for each other.
constexpr std::int64_t kSmallElements = 1 << 16, kSetElements = 1024;
// Threads share no copy of an a of so many.
constexpr std::int64_t kSharedElements = 1 << 19;

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

// A panel of b, a block of k of some strips, packed when it is due; and the strips' norms, which
// are whole after the last block.
class Panel {
 public:
  Panel(Isa isa, const ExactTask& task, std::int64_t width)
      : set_(*tile_set_f32(isa)), lanes_(*exact_lanes(isa)), task_(task), width_(width) {}
  void bring(std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to) {
    first_ = first;
    terms_ = to - from;
    packed_ = thread_scratch<float>(ScratchSlot::padded, (last - first) * width_ * terms_);
    if (from == 0) norms_.assign(static_cast<std::size_t>((last - first) * width_), 0.0);
    const MatrixView block{task_.b.data + from * task_.b.k_stride, task_.b.row_stride,
                           task_.b.k_stride};
    for (std::int64_t v = first; v < last; ++v) {
      float* strip = packed_ + (v - first) * width_ * terms_;
      pack_rows(set_, block, v * width_, static_cast<int>(std::min(width_, task_.n - v * width_)),
                static_cast<int>(width_), terms_, strip, width_);
      lanes_.squares(strip, width_, terms_, norms_.data() + (v - first) * width_);
    }
    if (to == task_.k)
      for (double& norm : norms_) norm = std::sqrt(norm);
  }
  const float* at(std::int64_t v) const { return packed_ + (v - first_) * width_ * terms_; }
  const double* norms(std::int64_t v) const { return norms_.data() + (v - first_) * width_; }

 private:
  const TileSet& set_;
  const ExactLanes& lanes_;
  const ExactTask& task_;
  std::int64_t width_, first_ = 0, terms_ = 0;
  float* packed_ = nullptr;
  std::vector<double> norms_;
};

constexpr std::int64_t kBlockTerms = 256, kBlockColumns = 256, kBlockRows = 132;

// Appends the outputs that are undecided.
void sum_f64(Isa isa, const ExactTask& task, const ExactOperand& b, int threads,
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
  const std::int64_t columns = vector_strips(n, width), block_width = kBlockColumns / width,
                     block_strips = kBlockRows / products.rows;
  std::int64_t column_blocks = (columns + block_width - 1) / block_width;
  std::int64_t row_blocks = (strips.count + block_strips - 1) / block_strips;
  // A panel is packed once, so its rows stay together.
  while (!keep_busy(column_blocks * row_blocks, threads) && row_blocks < strips.count && !b.panels)
    ++row_blocks;
  while (!keep_busy(column_blocks * row_blocks, threads) && column_blocks < columns)
    ++column_blocks;
  const std::int64_t k_blocks = std::max<std::int64_t>(1, (k + kBlockTerms - 1) / kBlockTerms);
  const double factor = exact_factor((k + k_blocks - 1) / k_blocks + k_blocks) * std::abs(alpha);
  std::vector<double> bounds(static_cast<std::size_t>(m));  // sums of squares at first
  const auto square_strip = [&](std::int64_t s, std::int64_t from, std::int64_t terms, double* to) {
    add_squares(lanes, task.a, m, strips.first(s), strips.height(s), from, terms, width,
                to + strips.first(s));
  };
  const auto bound_strip = [&](std::int64_t s, double* to) {
    for (std::int64_t r = strips.first(s); r < strips.first(s + 1); ++r)
      to[r] = factor * std::sqrt(to[r]);
  };
  // Where no strip of a is met by two items, each packs its own, a block of k at a time, and
  // neither waits for another nor needs memory for all of a. Threads that share a small a do so,
  // too, for each block of columns: that is some hundredth of its products.
  const bool packs_own = column_blocks == 1 || (threads > 1 && m * k <= kSharedElements);
  const double* packed_a = nullptr;
  if (!packs_own) {
    double* packed = thread_scratch<double>(ScratchSlot::broadcast, m * k);
    packed_a = packed;
    pack_broadcast(products, task.a, strips, k, threads, packed, [&](std::int64_t s) {
      square_strip(s, 0, k, bounds.data());
      bound_strip(s, bounds.data());
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
    std::vector<double> own_bounds(static_cast<std::size_t>(packs_own ? m : 0));
    double* const row_bounds = packs_own ? own_bounds.data() : bounds.data();
    Columns own(isa, task, width);
    Panel panel(isa, task, width);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item / row_blocks * columns / column_blocks,
                         column_end = (item / row_blocks + 1) * columns / column_blocks,
                         strip = item % row_blocks * strips.count / row_blocks,
                         strip_end = (item % row_blocks + 1) * strips.count / row_blocks;
      if (b.in_place) own.bring(column, column_end);
      for (std::int64_t kb = 0; kb < k_blocks; ++kb) {
        const std::int64_t from = kb * k / k_blocks, to = (kb + 1) * k / k_blocks;
        const bool last = kb + 1 == k_blocks;
        if (b.panels) panel.bring(column, column_end, from, to);
        for (std::int64_t s = strip; s < strip_end; ++s) {
          const int height = strips.height(s);
          const std::int64_t top = strips.first(s);
          const double* a = packs_own ? own_a : packed_a + top * k + from * height;
          if (packs_own) {
            pack_rows(products,
                      {task.a.data + from * task.a.k_stride, task.a.row_stride, task.a.k_stride},
                      top, height, height, to - from, own_a, height);
            if (kb == 0) std::fill_n(row_bounds + top, height, 0.0);
            square_strip(s, from, to - from, row_bounds);
            if (last) bound_strip(s, row_bounds);
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
            const double* norms = b.panels     ? panel.norms(v)
                                  : b.in_place ? own.norms(v)
                                               : b.norms.data() + first;
            const ExactEnd rounding{.bounds = row_bounds + top,
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
                .b = b.panels     ? panel.at(v)
                     : b.in_place ? own.at(v) + from * own.step(v)
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
                        .bounds = row_bounds + top,
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

// Strips of b, where they are not read in place, and their norms.
void pack_rows_of(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
                  ExactOperand& to) {
  const std::int64_t n = shape.n, k = shape.k;
  to.in_place = !shape.b_is_constant && b.row_stride == 1 && n * k <= kSmallElements &&
                b.k_stride % kSetElements != 0;
  // Few rows: one block of them meets each panel.
  to.panels = !shape.b_is_constant && !to.in_place && shape.m <= kBlockRows;
  if (to.in_place || to.panels) return;
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

// Of few columns a vector of outputs has lanes to spare, and all of a would be turned and widened
// for them. So rows and columns change places: columns of b are a tile's rows, and rows of a its
// lanes. Of sums of 500 000 terms packing all of a at once costs more.
constexpr std::int64_t kTurnedColumns = 24, kTurnedTerms = 64, kTurnedElements = 1 << 24;
bool is_turned(const ExactShape& s) {
  return s.n <= kTurnedColumns && s.n < s.m && s.k >= kTurnedTerms && s.m * s.k <= kTurnedElements;
}
// Rows [first, first + count).
void turned_rows(Isa isa, const ExactTask& task, std::int64_t first, std::int64_t count,
                 std::vector<std::int64_t>& left) {
  thread_local ExactOperand rows;
  const std::int64_t n = task.n;
  const TileSet& set = *tile_set_f32(isa);
  // Turned back, its last row is read in whole vectors.
  float* y = thread_scratch<float>(ScratchSlot::turned, count * n + set.lanes);
  std::vector<double> truth(static_cast<std::size_t>(task.truth == nullptr ? 0 : count * n));
  ExactTask turned = task;
  turned.a = task.b;
  turned.b = {task.a.data + first * task.a.row_stride, task.a.row_stride, task.a.k_stride};
  turned.m = n;
  turned.n = count;
  if (task.c != nullptr) turned.c = task.c + first * task.c_row;
  std::swap(turned.c_row, turned.c_col);
  turned.y = y;
  if (task.truth != nullptr) turned.truth = truth.data();
  pack_rows_of(isa, {.m = n, .n = count, .k = task.k}, turned.b, 1, rows);
  std::vector<std::int64_t> mine;
  sum_f64(isa, turned, rows, 1, mine);
  for (std::int64_t r = 0; r < count; r += set.lanes)
    for (std::int64_t c = 0; c < n; c += set.lanes)
      set.store_transposed(y + c * count + r, count,
                           static_cast<int>(std::min<std::int64_t>(set.lanes, n - c)),
                           static_cast<int>(std::min<std::int64_t>(set.lanes, count - r)),
                           task.y + (first + r) * n + c, n);
  const auto place = [&](std::int64_t at) { return (first + at % count) * n + at / count; };
  for (std::size_t i = 0; i < truth.size(); ++i)
    task.truth[place(static_cast<std::int64_t>(i))] = truth[i];
  for (const std::int64_t at : mine) left.push_back(place(at));
}
// A part of the rows for each thread, which meet once; in smaller ones the columns would be packed
// too often.
void turned_pass(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left) {
  const int lanes = 2 * exact_products(isa)->lanes;
  const std::int64_t strips = vector_strips(task.m, lanes),
                     parts = std::min<std::int64_t>(strips, threads);
  std::mutex joining;
  parallel_for(parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = part * strips / parts * lanes,
                         last = std::min(task.m, (part + 1) * strips / parts * lanes);
      turned_rows(isa, task, first, last - first, mine);
    }
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
}

}  // namespace

void add_squares(const ExactLanes& lanes, const MatrixView& v, std::int64_t rows, std::int64_t top,
                 int height, std::int64_t from, std::int64_t terms, int width, double* sums) {
  const float* at = v.data + top * v.row_stride + from * v.k_stride;
  if (v.k_stride == 1) {
    for (int r = 0; r < height; ++r) sums[r] += lanes.square(at + r * v.row_stride, terms);
  } else if (v.row_stride == 1 && top + width <= rows) {
    double wide[kResidueTileRows] = {};
    lanes.squares(at, v.k_stride, terms, wide);
    for (int r = 0; r < height; ++r) sums[r] += wide[r];
  } else {
    for (std::int64_t i = 0; i < terms; ++i)
      for (int r = 0; r < height; ++r) {
        const double x = static_cast<double>(at[r * v.row_stride + i * v.k_stride]);
        sums[r] += x * x;
      }
  }
}

void pack_f64(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
              ExactOperand& to) {
  to.turned = is_turned(shape);
  if (!to.turned) pack_rows_of(isa, shape, b, threads, to);
}

void f64_pass(Isa isa, const ExactTask& task, const ExactOperand& b, int threads,
              std::vector<std::int64_t>& left) {
  if (b.turned)
    turned_pass(isa, task, threads, left);
  else
    sum_f64(isa, task, b, threads, left);
}

}  // namespace etalon
