// A library's function on all 2^32 inputs against the correctly rounded values.
//
// The range falls into 256 pieces; a piece is 2^23 consecutive positive inputs (by their bits) and
// the same with the other sign, so that symmetry can be seen. A result is wrong where its bits are
// not the correctly rounded ones (two NaN are equal whatever they carry). Errors of wrong results
// are counted in floats between the two, and the largest is measured in ULP from the correctly
// rounded f64. What "breaks" means: neighbouring inputs whose results go against the
// function's own direction; f(-x) that is not f(x) or -f(x); an input whose result changes when it
// is computed in an array of another length or at another position.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/survey/peers.h"

namespace etalon {

struct SurveyWitness {
  std::uint32_t x = 0, got = 0, expected = 0;  // bits
  bool given = false;
};

struct SurveyCounts {
  std::int64_t inputs = 0, wrong = 0;
  // Of the wrong: distances 1, 2, 3-4, 5-8, ..., 2^22 and more, in floats.
  std::array<std::int64_t, 24> histogram{};
  std::int64_t nan_wrong = 0, infinity_wrong = 0, zero_sign_wrong = 0, flushed = 0;
  std::int64_t regular = 0;  // inputs whose correct value is finite and not zero
  double max_ulp = 0.5;      // of finite results
  std::int64_t order_breaks = 0, symmetry_breaks = 0, place_breaks = 0, place_tried = 0;
  SurveyWitness worst, special, order, symmetry, place;
  double seconds = 0, library_seconds = 0;  // of all pieces, whenever they ran; in the library
  void add(const SurveyCounts& other);
};

nlohmann::json to_json(const SurveyCounts& c);
SurveyCounts survey_counts_from_json(const nlohmann::json& j);

struct SurveyOptions {
  int threads = 1;
  Isa isa = detect_isa();
  int pieces = 256;   // fewer: a sample, chosen_pieces() in survey.cpp
  std::string state;  // folder of resumable state; empty: none
  std::function<void(int done, int of)> progress;
};

SurveyCounts survey(const SurveyedFunction& f, SurveyPeer& peer, const SurveyOptions& options);

}  // namespace etalon
