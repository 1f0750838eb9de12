#include "kernels/gemm/residue_operand.h"

#include <algorithm>

namespace etalon {

const ResidueSet* residue_set([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return &amx::residues();
#endif
  return nullptr;
}

void pack_residue_strips(const ResidueSet& set, const MatrixView& from, std::int64_t rows,
                         std::int64_t k, bool right, std::int64_t first, std::int64_t count,
                         std::uint8_t* to, std::int64_t plane, ResidueNorms* norms) {
  const std::int64_t strip_bytes = residue_strip_bytes(k);
  if (right && from.k_stride != 1 && from.row_stride == 1) {
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t at = (first + s) * kResidueTileRows;
      set.pack_across(from.data + at, from.k_stride,
                      static_cast<int>(std::min<std::int64_t>(kResidueTileRows, rows - at)), k,
                      to + s * strip_bytes, plane, norms[s]);
    }
    return;
  }
  // Where neighbours in memory are rows, several strips are turned at a time, so that memory is
  // read in runs of cache lines.
  constexpr std::int64_t kTogether = 4;
  const bool turned = from.k_stride != 1;
  const std::int64_t stride = (k + 15) / 16 * 16;
  float* copy =
      turned ? thread_scratch<float>(ScratchSlot::turned, kTogether * kResidueTileRows * stride)
             : nullptr;
  for (std::int64_t s = 0; s < count; ++s) {
    if (turned && s % kTogether == 0)
      turn_rows(set, from, (first + s) * kResidueTileRows, rows, k,
                static_cast<int>(std::min(kTogether, count - s)), copy);
    const float* row[kResidueTileRows];
    for (int r = 0; r < kResidueTileRows; ++r) {
      const std::int64_t at = (first + s) * kResidueTileRows + r;
      row[r] = at >= rows ? nullptr
               : turned   ? copy + (s % kTogether * kResidueTileRows + r) * stride
                          : from.data + at * from.row_stride;
    }
    set.pack(row, k, right, to + s * strip_bytes, plane, norms[s]);
  }
}

void pack_residues(const ResidueSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                   bool right, int threads, ResidueOperand& to) {
  constexpr std::int64_t kTogether = 4;
  to.k = k;
  to.strips = vector_strips(rows, kResidueTileRows);
  auto* planes =
      to.planes.at_least<std::uint8_t>(std::max<std::int64_t>(1, kResiduePlanes * to.plane()));
  auto* norms = to.norms.at_least<ResidueNorms>(to.strips);
  parallel_for((to.strips + kTogether - 1) / kTogether, threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::int64_t first = begin * kTogether,
                                    count = std::min(end * kTogether, to.strips) - first;
                 pack_residue_strips(set, from, rows, k, right, first, count,
                                     planes + first * residue_strip_bytes(k), to.plane(),
                                     norms + first);
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
