#include "kernels/gemm/residue_operand.h"

#include <algorithm>

namespace etalon {

const ResidueSet* residue_set([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return &amx::residues();
#endif
  return nullptr;
}

ResidueBlocks::ResidueBlocks(std::int64_t row_strips, std::int64_t column_strips,
                             std::int64_t steps, bool overlaps, int threads)
    : row_strips_(row_strips), column_strips_(column_strips), steps_(steps), overlaps_(overlaps) {
  constexpr std::int64_t kPanelBytes = 1 << 20;
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, steps) * kResiduePlanes * kResidueTileBytes;
  std::int64_t most_columns = kResidueBlockColumns, most_rows = kResidueBlockTiles / most_columns;
  if (most_columns * strip_bytes <= kPanelBytes) {
    most_rows = 4;
    panel_stays_ = true;
  } else if (overlaps) {
    most_columns = 4;
    panel_stays_ = most_columns * strip_bytes <= kPanelBytes;
    most_rows = panel_stays_ ? 8 : kResidueBlockRows;
  }
  // Nearly equal parts, of pairs.
  const auto even = [](std::int64_t count, std::int64_t most) {
    const std::int64_t pieces = std::max<std::int64_t>(1, (count + most - 1) / most);
    return std::max<std::int64_t>(2, std::min(most, ((count + pieces - 1) / pieces + 1) / 2 * 2));
  };
  columns = even(column_strips, most_columns);
  wide = (column_strips + columns - 1) / columns;
  // All threads are to have blocks.
  most_rows = std::min(most_rows, (row_strips * wide + threads - 1) / threads);
  rows = even(row_strips, std::max<std::int64_t>(2, most_rows / 2 * 2));
  tall = (row_strips + rows - 1) / rows;
}

double ResidueBlocks::cycles() const {
  // Of a tile: a product takes 40 cycles where others use tiles too, the store of its sums 60;
  // joining and rounding 7 an output. Windows that overlap are read from the third cache a fifth as
  // often.
  const double tiles = static_cast<double>(row_strips_ * column_strips_),
               steps = static_cast<double>(steps_);
  const double bytes =
      kResiduePlanes * kResidueTileBytes * steps *
      (static_cast<double>(row_strips_ * wide) * (overlaps_ ? 0.2 : 1) +
       static_cast<double>(column_strips_) * (panel_stays_ ? 1 : static_cast<double>(tall)));
  return std::max(tiles * kResiduePlanes * (40 * steps + 60), bytes / kThirdCacheBytes) +
         tiles * kResidueTileSums * 7;
}

void pack_residues(const ResidueSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                   bool right, int threads, ResidueOperand& to) {
  // Where neighbours in memory are rows, several strips are turned at a time, so that memory is
  // read in runs of cache lines.
  constexpr std::int64_t kTogether = 4;
  to.k = k;
  to.strips = vector_strips(rows, kResidueTileRows);
  auto* planes =
      to.planes.at_least<std::uint8_t>(std::max<std::int64_t>(1, kResiduePlanes * to.plane()));
  auto* norms = to.norms.at_least<ResidueNorms>(to.strips);
  const bool turned = from.k_stride != 1;
  const std::int64_t group = turned ? kTogether : 1, stride = (k + 15) / 16 * 16;
  parallel_for(
      (to.strips + group - 1) / group, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        float* copy =
            turned ? thread_scratch<float>(ScratchSlot::turned, group * kResidueTileRows * stride)
                   : nullptr;
        for (std::int64_t g = begin; g < end; ++g) {
          const std::int64_t first = g * group, count = std::min(group, to.strips - first);
          if (turned)
            turn_rows(set, from, first * kResidueTileRows, rows, k, static_cast<int>(count), copy);
          for (std::int64_t s = first; s < first + count; ++s) {
            const float* row[kResidueTileRows];
            for (int r = 0; r < kResidueTileRows; ++r) {
              const std::int64_t at = s * kResidueTileRows + r;
              row[r] = at >= rows ? nullptr
                       : turned   ? copy + ((s - first) * kResidueTileRows + r) * stride
                                  : from.data + at * from.row_stride;
            }
            set.pack(row, k, right, planes + s * to.steps() * kResidueTileBytes, to.plane(),
                     norms[s]);
          }
        }
      });
}

void turn_rows(const ResidueSet& set, const MatrixView& from, std::int64_t first, std::int64_t rows,
               std::int64_t k, int strips, float* to) {
  constexpr std::int64_t kRun = 64;
  const std::int64_t stride = (k + 15) / 16 * 16;
  if (from.row_stride != 1) {
    for (std::int64_t r = 0; r < std::min<std::int64_t>(strips * kResidueTileRows, rows - first);
         ++r)
      for (std::int64_t i = 0; i < k; ++i)
        to[r * stride + i] = from.data[(first + r) * from.row_stride + i * from.k_stride];
    return;
  }
  for (std::int64_t i = 0; i < k; i += kRun)
    for (int s = 0; s < strips; ++s) {
      const std::int64_t row = first + std::int64_t{s} * kResidueTileRows;
      set.transpose(from.data + row + i * from.k_stride, from.k_stride,
                    static_cast<int>(std::min<std::int64_t>(kResidueTileRows, rows - row)),
                    std::min(kRun, k - i), to + std::int64_t{s} * kResidueTileRows * stride + i,
                    stride);
    }
}

}  // namespace etalon
