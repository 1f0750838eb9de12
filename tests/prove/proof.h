// The proof that a function is correctly rounded on every f32 input.
//
// Input by input (ProofMethod::balls) three evaluations meet. The vector kernel's first pass gives
// an interval (Chebyshev polynomials, fma, no tables). The definition's first step gives a second
// one by another way (tables, Taylor polynomials, no fma). Where the second decides a rounding, the
// served value must be that one, and where it does not, MPFR with 800 bits or more decides; the two
// intervals must overlap, and directed roundings of the second lie between those of the first's
// ends.
//
// By laws first (ProofMethod::laws), a twentieth of the time. In chunks of 4096 neighbours:
//   lemma     f is a simple g, or lies on a known side of it nearer than rounding sees (near zero,
//             far out, beyond the largest and below the smallest float);
//   law       f(-x) = +-f(x), and f(2^d x) = 2^k f(x) for roots and the reciprocal, so that served
//             values are proven by those of another chunk, which is proven itself;
//   taylor    a polynomial with a proven error (taylor.h) about one value of the definition's first
//             step gives the interval; the kernel's must overlap it at every input.
// Each proves the nearest mode for what is served, and asks that the interval decides the directed
// modes as well; every input it leaves open goes the way above. What is given up: in the directed
// modes the definition's own value is compared where the interval does not decide, and on the
// sample, not everywhere.
//
// In both a sample of all inputs goes to MPFR besides, in every mode, so that an interval that is
// wrong (a bound too small in both, a formula mistaken in both) is found too. Rounding is done
// here, by hardware and neighbours, not by the code that is proven.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/survey/functions.h"

namespace etalon {

struct ProofCounts {
  std::int64_t inputs = 0;
  std::int64_t exact = 0;  // known without an interval: special or representable
  std::int64_t by_lemma = 0, by_law = 0, by_taylor = 0;
  std::int64_t refused = 0;                 // the vector kernel's first pass gave no interval
  std::array<std::int64_t, 4> undecided{};  // by mode (nearest, zero, up, down): left to MPFR
  std::int64_t sampled = 0;                 // compared with MPFR besides, in all modes
  std::int64_t wrong = 0;                   // served values that are not the rounded ones
  std::int64_t apart = 0;                   // the two intervals do not overlap
  double nearest_midpoint = 1;              // smallest distance of a value from one, in ULP
  std::uint32_t hardest = 0;                // where
  std::vector<std::string> witnesses;       // of what is wrong, at most ten
  Hash128 hash;                             // of the served values of one block
  void add(const ProofCounts& other);       // all but the hash
};

enum class ProofMethod { laws, balls };

// Inputs first .. first + count - 1. Laws are asked for chunks that begin at a multiple of 4096.
ProofCounts prove_block(const SurveyedFunction& f, Isa isa, std::uint32_t first, std::int64_t count,
                        ProofMethod method = ProofMethod::laws);

}  // namespace etalon
