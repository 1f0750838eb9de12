// The operands of kernels/gemm/digit_tile.h, and which of its tiles to run.
#pragma once

#include <atomic>

#include "engine/core/cpu.h"
#include "kernels/gemm/digit_tile.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/residue_operand.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

struct DigitOperand {
  AlignedBuffer planes, norms;  // bytes; DigitNorms of each strip
  std::int64_t k = 0;
  std::int64_t steps() const { return (k + kDigitStep - 1) / kDigitStep; }
  const std::uint8_t* strip(std::int64_t s) const {
    return planes.data<std::uint8_t>() + s * steps() * kStepBytes;
  }
  const DigitNorms& norms_of(std::int64_t s) const { return norms.data<DigitNorms>()[s]; }
};

// nullptr where the instruction set has no int8 tiles.
const DigitSet* digit_set(Isa isa);

// All strips of an operand.
void pack_digits(const DigitSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                 bool right, int threads, DigitOperand& to);

// How many products a tile takes: 15 while what they leave undecided costs less than the other
// four. Settling an output alone takes about 600 ns and 1 ns a term, four products of a tile 0.4 ns
// a term. A choice of speed alone: the bits are the correctly rounded ones either way.
class DigitChoice {  // shared by the threads of a call
 public:
  explicit DigitChoice(std::int64_t k)
      : limit_(0.4 * static_cast<double>(k) / (600 + static_cast<double>(k))) {}
  int dropped() const { return few_ || waited_ >= kRetry ? 4 : 3; }
  // Of a tile that was rounded. Some are on their way still, so a single tile decides nothing.
  void saw(int dropped, std::int64_t undecided) {
    if (dropped == 3) {
      ++waited_;
      return;
    }
    waited_ = 0;
    const auto tiles = static_cast<double>(++tiles_),
               left = static_cast<double>(undecided_ += undecided);
    few_ = left <= 1 + limit_ * tiles;
  }
  // Whether a tile is better multiplied again, with 19 products, than its outputs settled.
  static bool again(int dropped, std::int64_t undecided) { return dropped == 4 && undecided >= 2; }

 private:
  static constexpr int kRetry = 256;  // tiles
  double limit_;
  std::atomic<std::int64_t> tiles_{0}, undecided_{0};
  std::atomic<bool> few_{true};
  std::atomic<int> waited_{0};
};

}  // namespace etalon
