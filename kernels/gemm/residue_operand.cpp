#include "kernels/gemm/residue_operand.h"

#include <algorithm>

#include "kernels/gemm/digits.h"

namespace etalon {

const ResidueSet* residue_set([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return &amx::residues();
#endif
  return nullptr;
}

ResidueBlocks::ResidueBlocks(std::int64_t row_strips, std::int64_t column_strips,
                             std::int64_t steps, bool overlaps, int threads) {
  constexpr std::int64_t kPanelBytes = 1 << 20;
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, steps) * kResiduePlanes * kResidueTileBytes;
  std::int64_t most_columns = kResidueBlockColumns, most_rows = kResidueBlockTiles / most_columns;
  if (most_columns * strip_bytes <= kPanelBytes) {
    most_rows = 4;
  } else if (overlaps) {
    most_columns = 4;
    most_rows = most_columns * strip_bytes <= kPanelBytes ? 8 : kResidueBlockRows;
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
            turn_rows(*set.digits, from, first * kResidueTileRows, rows, k, static_cast<int>(count),
                      copy);
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

}  // namespace etalon
