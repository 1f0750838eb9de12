// The proof that a function is correctly rounded on every f32 input, in the four modes.
//
// Three evaluations meet on each input. The vector kernel's first pass gives an interval (Chebyshev
// polynomials, fma, no tables). The definition's first step gives a second one by another way
// (tables, Taylor polynomials, no fma). Where the second decides a rounding, the served value must
// be that one, and where it does not, MPFR with 800 bits or more decides; the two intervals must
// overlap, and directed roundings of the second lie between those of the first's ends. A sample of
// all inputs goes to MPFR besides, in every mode, so that an interval that is wrong (a bound too
// small in both, a formula mistaken in both) is found too. Rounding is done here, by hardware and
// neighbours, not by the code that is proven.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/survey/functions.h"

namespace etalon {

struct ProofCounts {
  std::int64_t inputs = 0;
  std::int64_t exact = 0;                   // known without an interval: special or representable
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

// Inputs first .. first + count - 1.
ProofCounts prove_block(const SurveyedFunction& f, Isa isa, std::uint32_t first,
                        std::int64_t count);

}  // namespace etalon
