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
