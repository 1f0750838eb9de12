// The proof input by input (proof.h): two intervals, and MPFR where they do not decide.
#pragma once

#include <cstdint>
#include <string>

#include "bench/survey/functions.h"
#include "tests/prove/proof.h"

namespace etalon {

inline constexpr std::uint32_t kSample = 131101;  // prime: about 32 800 inputs of all

class InputProver {
 public:
  InputProver(const SurveyedFunction& f, ProofCounts& counts) : f_(f), n_(counts) {}

  // What is served for an input, and the vector kernel's first pass: its value and the bound of
  // its error, relative.
  void prove(std::uint32_t bits, float served, double lane, double lane_error);

 private:
  // By MPFR and by the definition itself.
  void check_sample(std::uint32_t bits, double x, float expected, Round mode);
  void compare(std::uint32_t bits, float got, float expected, Round mode, const char* what);
  void between(std::uint32_t bits, float y, float a, float b, Round mode);
  void note_distance(std::uint32_t bits, double v);
  void witness(std::uint32_t bits, std::string text);

  const SurveyedFunction& f_;
  ProofCounts& n_;
  std::int64_t nearest_ = std::int64_t{1} << 29;
};

}  // namespace etalon
