// The proof of tests/prove on a thin sample of every function; etalon_prove runs it on all 2^32
// inputs. And that it can fail: a kernel without its rounding test is caught.
#include <doctest/doctest.h>

#include "engine/numerics/fp.h"
#include "tests/prove/proof.h"

using namespace etalon;

TEST_CASE("proof: every function holds on runs of inputs in each part of its range") {
  // Zero and subnormals, small, around 1, large, infinity; both signs.
  constexpr std::uint32_t kStarts[] = {0x00000000, 0x33800000, 0x3c413a00, 0x3f7ffc00,
                                       0x41200000, 0x42b17000, 0x4f000000, 0x7f7ffe00};
  int functions = 0;
  for (const SurveyedFunction& f : surveyed_functions()) {
    ProofCounts counts;
    for (const std::uint32_t start : kStarts)
      for (const std::uint32_t sign : {0U, 0x80000000U})
        counts.add(prove_block(f, detect_isa(), start | sign, 1100));
    CHECK_MESSAGE(counts.wrong == 0, f.name);
    CHECK_MESSAGE(counts.apart == 0, f.name);
    for (const auto& w : counts.witnesses) FAIL_CHECK(w);
    CHECK(counts.inputs == 16 * 1100);
    ++functions;
  }
  CHECK(functions == 40);
}

TEST_CASE("proof: a value one unit off is found, and the hard case of log is met") {
  SurveyedFunction wrong = surveyed_function("log");
  const std::uint32_t hard = bits_of(0x1.827a74p-7F);
  const ProofCounts right = prove_block(wrong, detect_isa(), hard, 1);
  CHECK(right.wrong == 0);
  CHECK(right.undecided[0] == 1);
  // Taken for the logarithm to base 2 by its lanes.
  wrong.lane = LaneFunction::log2;
  const ProofCounts counts = prove_block(wrong, detect_isa(), 0x40000000, 64);
  if (detect_isa() >= Isa::avx2) {
    CHECK(counts.wrong > 60);
    CHECK(counts.apart > 60);
  }
}
