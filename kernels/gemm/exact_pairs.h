// The first pass of contract exact for products of bf16 by VDPBF16PS (pairs.h): sums in f32 of few
// terms, joined in f64. It has four times the rate of sums in f64, and a bound that decides most
// roundings to bf16, though few to f32.
//
// **Bound.** u = 2^-24. Where the operands' magnitudes keep order (pairs.h) every product is an f32
// and nothing is flushed, so a sum errs by its additions alone. A block is a chain of kPairBlock
// words, so its terms meet 2 kPairBlock - 1 roundings (the first term is added to zero); the blocks
// of a group are added up in f32, kPairGroup - 1 roundings more; groups in f64. With n roundings in
// f32 and j in f64 a sum is off by at most (n u + j 2^-53)(1 + 2^-10) times the sum of |a b|, which
// is at most |a| |b|. Sums that overflow are infinite or NaN, which is never decided.
//
// What a usual sum of k terms is, |a| |b| / sqrt(k), lies within the bound of a midpoint of bf16
// once in some 450 / sqrt(k) times. Those are summed once more, each along k by chains of two
// words: 3 roundings in f32 for 22; those still open by products apart, added up in f64. What that
// leaves is settled as always (exact_settle.h). Where it is more than one in kPairOpen of all, as
// with sums that are small beside |a| |b|, sums in f64 are the quicker way.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/exact.h"
#include "kernels/gemm/exact_pair_tile.h"
#include "kernels/gemm/pairs.h"

namespace etalon {

inline constexpr std::int64_t kPairOpen = 16;

// Whether products may go this way.
bool takes_words(Isa isa, const std::uint16_t* b_halves);
// b in strips of words, and what its magnitudes are.
void pack_exact_words(const ExactShape& shape, const MatrixView& b, int threads, ExactOperand& to);
// Appends the outputs that are left open; task.steps.cells are those of bf16. Returns whether it
// did: else the operands are none whose order the instruction keeps, or too much was open.
bool words_pass(const ExactTask& task, const ExactOperand& b, int threads,
                std::vector<std::int64_t>& left);

}  // namespace etalon
