// The proof of tests/prove on a thin sample of every function, by its laws and input by input;
// etalon_prove runs it on all 2^32 inputs. And that it can fail: other functions' values are caught
// by every law, and no polynomial claims more than MPFR says.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/numerics/fp.h"
#include "tests/function_oracle.h"
#include "tests/prove/check.h"
#include "tests/prove/input_prover.h"
#include "tests/prove/proof.h"
#include "tests/prove/taylor.h"

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

TEST_CASE("proof: what MPFR is asked for holds in all four modes, over the whole range") {
  // Every 677th of the inputs that the proof on all of them takes to MPFR, whatever decided them.
  for (const SurveyedFunction& f : surveyed_functions()) {
    ProofCounts counts;
    for (std::uint64_t bits = 0; bits >> 32 == 0; bits += 677 * std::uint64_t{kSample})
      counts.add(prove_block(f, detect_isa(), static_cast<std::uint32_t>(bits), 1));
    CHECK(counts.sampled == 49);
    for (const auto& w : counts.witnesses) FAIL_CHECK(w);
  }
}

TEST_CASE("proof: a ball whose only double is a midpoint does not decide") {
  // The f64 quotient is the midpoint of two floats, the real one lies 2^-61 of itself below it.
  const ProofCounts counts =
      prove_block(surveyed_function("softsign"), detect_isa(), bits_of(0x1.17022cp-7F), 1);
  for (const auto& w : counts.witnesses) FAIL_CHECK(w);
  CHECK(counts.undecided[0] == 1);
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

TEST_CASE("proof: laws and balls agree, and every law is met") {
  // Whole chunks: zero, tiny, below and above 2^-14, around 1, far out, infinity.
  constexpr std::uint32_t kStarts[] = {0x00000000, 0x30000000, 0x38801000, 0x3f3ff000, 0x3f800000,
                                       0x40b00000, 0x42b17000, 0x50000000, 0x7f800000};
  ProofCounts met;
  for (const SurveyedFunction& f : surveyed_functions())
    for (const std::uint32_t start : kStarts) {
      const std::uint32_t first = start | (start & 0x10000000U) << 3;  // some of them negative
      const ProofCounts laws = prove_block(f, detect_isa(), first, 4096);
      for (const auto& w : laws.witnesses) FAIL_CHECK(w);
      CHECK(laws.wrong + laws.apart == 0);
      CHECK(laws.inputs == 4096);
      met.add(laws);
      if (start != 0x3f800000) continue;
      const ProofCounts balls = prove_block(f, detect_isa(), first, 4096, ProofMethod::balls);
      CHECK(balls.wrong + balls.apart == 0);
      CHECK(laws.hash == balls.hash);
      CHECK(balls.by_lemma + balls.by_law + balls.by_taylor == 0);
    }
  CHECK(met.exact > 50 * 4096);
  CHECK(met.by_lemma > 50 * 4000);
  CHECK(met.by_law > 8 * 4000);
  if (detect_isa() >= Isa::avx2) CHECK(met.by_taylor > 50 * 4000);
}

TEST_CASE("proof: every law finds values of another function") {
  if (detect_isa() < Isa::avx2) return;
  struct Planted {
    const char* name;
    LaneFunction served;
    std::uint32_t first;
  };
  // By symmetry, by scaling, by a polynomial, outside the domain. A lemma asks by the same name as
  // the kernel, so that its test is planted with wrong values below.
  for (const auto& [name, served, first] : {Planted{"erf", LaneFunction::erfc, 0xbf000000},
                                            {"rsqrt", LaneFunction::exp, 0x41000000},
                                            {"tanh", LaneFunction::atan, 0x3f000000},
                                            {"acosh", LaneFunction::cosh, 0x3e000000}}) {
    const SurveyedFunction& f = surveyed_function(name);
    ProofCounts counts = prove_block(f, detect_isa(), first, 4096);
    CHECK(counts.wrong == 0);
    SurveyedFunction other = f;
    other.lane = served;
    // The law of the one on the values of the other: the name decides the ball, the lane the rest,
    // so that the two no longer speak of one function.
    counts = prove_block(other, detect_isa(), first, 4096);
    CHECK_MESSAGE(counts.wrong > 4000, name);
  }
}

TEST_CASE("proof: polynomials lie where MPFR says, within their error") {
  int met = 0;
  for (const SurveyedFunction& f : surveyed_functions()) {
    Function function{};
    bool elementary = false;
    for (int i = 0; i < kFunctionCount; ++i)
      if (name(static_cast<Function>(i)) == f.name) {
        function = static_cast<Function>(i);
        elementary = true;
      }
    for (const double centre : {0x1.8p-20, -0x1.8p-20, 0.3, -0.7, 1.5, -2.75, 7.0, 40.0, -60.0})
      for (const double r : {0x1p-12, 0x1p-16}) {
        Taylor p;
        if (!expand(f, centre, r * std::fabs(centre), p)) continue;
        ++met;
        CHECK(p.error >= std::fabs(p.a0) * 0x1p-45);
        for (const double t : {-1.0, -0.625, 0.375, 1.0}) {
          const double x = centre + std::ldexp(std::round(t * r * std::fabs(centre) * 0x1p40), -40);
          if (elementary) {
            const double y = mpfr_function(function, x, DType::f64, Round::nearest_even);
            CHECK_MESSAGE(std::fabs(p.at(x) - y) <= p.error + std::fabs(y) * 0x1p-53, f.name, " ",
                          x);
          } else {
            bool undecided = false;
            const RealF64::V y = f.ball(x, undecided);
            CHECK_MESSAGE(std::fabs(p.at(x) - y.mid) <= p.error + y.rad, f.name, " ", x);
          }
        }
      }
  }
  CHECK(met > 300);
}

TEST_CASE("proof: vectors and scalars test roundings alike") {
  if (detect_isa() < Isa::avx512) return;
  float x[17], y[17], other[17];
  double lanes[17];
  for (int i = 0; i < 17; ++i) {
    x[i] = 1 + static_cast<float>(i) * 0x1p-23F;
    lanes[i] = static_cast<double>(x[i]) * 0.75 + 0x1p-40;
    y[i] = static_cast<float>(lanes[i]);
    other[i] = -y[i];
  }
  const double p[] = {1, 0.75 + 0x1p-40, 0.75, 0, 0};
  for (const ChunkChecks* c : {&scalar::checks, &avx512::checks}) {
    const auto tested = [&](double error) { return c->taylor(p, error, 0x1p-46, x, y, lanes, 17); };
    CHECK(!tested(0x1p-24));  // no interval that tells
    CHECK(c->taylor(p, 0x1p-44, 0x1p-46, x + 1, y + 1, lanes + 1, 3) ==
          scalar::checks.taylor(p, 0x1p-44, 0x1p-46, x + 1, y + 1, lanes + 1, 3));
    CHECK(c->mirrored(y, other, 0x80000000U, 17));
    CHECK(!c->mirrored(y, other, 0, 17));
    CHECK(c->lemma(0, 1, 1 - 0x1p-27, 0, false, x, x, 17));
    CHECK(!c->lemma(0, 1, 1 - 0x1p-24, 0, false, x, x, 17));
    CHECK(c->lemma(0.5, 0, 1, 0, true, x, std::array<float, 17>{}.data(), 0));
    for (int wrong = 0; wrong < 17; ++wrong) {
      const float kept = other[wrong];
      other[wrong] = -kept * (1 + 0x1p-23F);
      CHECK(!c->mirrored(y, other, 0x80000000U, 17));
      other[wrong] = kept;
      float one_off[17];
      std::copy(x, x + 17, one_off);
      one_off[wrong] = std::nextafter(x[wrong], 2.0F);
      CHECK(!c->lemma(0, 1, 1 - 0x1p-27, 0, false, x, one_off, 17));
      CHECK(!c->lemma(0, 1, 1, 0, true, x, one_off, 17));
      std::copy(y, y + 17, one_off);
      one_off[wrong] = std::nextafter(y[wrong], 2.0F);
      CHECK(!c->taylor(p, 0x1p-44, 0x1p-46, x, one_off, lanes, 17));
    }
  }
}
