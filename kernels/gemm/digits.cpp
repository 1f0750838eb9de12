#include "kernels/gemm/digits.h"

#include <algorithm>

namespace etalon {

const DigitSet* digit_set([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return &amx::digits();
#endif
  return nullptr;
}

void pack_digits(const DigitSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                 bool right, int threads, DigitOperand& to) {
  // Where neighbours in memory are rows, several strips are read at a time, so that memory is read
  // in runs of cache lines; those of a left operand are turned first.
  constexpr std::int64_t kTogether = 4;
  to.k = k;
  const std::int64_t strips = vector_strips(rows, kDigitRows), steps = to.steps();
  auto* planes =
      to.planes.at_least<std::uint8_t>(std::max<std::int64_t>(1, strips * steps) * kStepBytes);
  auto* norms = to.norms.at_least<DigitNorms>(strips);
  if (right && from.row_stride == 1 && from.k_stride != 1) {
    parallel_for((strips + kTogether - 1) / kTogether, threads, 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t s = begin * kTogether; s < std::min(strips, end * kTogether);
                        s += kTogether) {
                     const std::int64_t first = s * kDigitRows;
                     set.pack_columns(
                         from.data + first, from.k_stride,
                         static_cast<int>(std::min(kTogether * kDigitRows, rows - first)), k,
                         planes + s * steps * kStepBytes, norms + s);
                   }
                 });
    return;
  }
  const bool turned = from.k_stride != 1;
  const std::int64_t group = turned ? kTogether : 1, stride = (k + 15) / 16 * 16;
  parallel_for((strips + group - 1) / group, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* copy =
        turned ? thread_scratch<float>(ScratchSlot::turned, group * kDigitRows * stride) : nullptr;
    for (std::int64_t g = begin; g < end; ++g) {
      const std::int64_t first = g * group, count = std::min(group, strips - first);
      if (turned)
        turn_rows(*residue_set(Isa::amx), from, first * kDigitRows, rows, k,
                  static_cast<int>(count), copy);
      for (std::int64_t s = first; s < first + count; ++s) {
        const float* row[kDigitRows];
        for (int r = 0; r < kDigitRows; ++r) {
          const std::int64_t at = s * kDigitRows + r;
          row[r] = at >= rows ? nullptr
                   : turned   ? copy + ((s - first) * kDigitRows + r) * stride
                              : from.data + at * from.row_stride;
        }
        set.pack(row, k, right, planes + s * steps * kStepBytes, norms[s]);
      }
    }
  });
}

}  // namespace etalon
