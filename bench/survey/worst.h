// The result of a run of inputs that lies farthest from the real value, in ULP.
//
// Only the exact value says which of two near-equal errors is the larger one, and it costs
// microseconds; where a library is wrong on half of all inputs, or its error grows from one input
// to the next, a running maximum would ask for millions of them. So each wrong result first gets an
// interval that its error surely lies in, from what is known already. What cannot be the largest is
// dropped; the exact value is asked for at the end, for the few that are left. Of errors that the
// same f64 value gives, and of hundreds that agree to the last digits of f64, the first stand for
// all (a library that is wrong by the same on every small input: there f64 values give the same
// error one after the other, and no more than that is asked of most).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "bench/survey/functions.h"

namespace etalon {

class WorstError {
 public:
  explicit WorstError(const SurveyedFunction& f) : f_(f) {}

  // Whether a result so many floats from the right one, both finite, errs by less than one that was
  // added: where its binade is none above, each of them is an ULP of `right` at most, and the real
  // value lies half of one from `right`.
  bool is_less(std::uint64_t floats, float got, float right) const {
    constexpr std::uint32_t kExponent = 0x7f800000U;
    return static_cast<double>(floats) + 0.5 < low_ &&
           (std::bit_cast<std::uint32_t>(got) & kExponent) <=
               (std::bit_cast<std::uint32_t>(right) & kExponent);
  }
  // A finite result `got` for the input x whose correctly rounded value, finite too, is `right`.
  // `value`: what an evaluation in f64 gives, within 2^-12 ULP of the real value; NaN: nothing.
  void add(float x, float got, float right, double value);

  struct Found {
    double ulp = 0;  // 0: none was above `than`
    float x = 0, got = 0, right = 0;
  };
  // The largest of those added, of equal ones the first, if it is above `than` ULP.
  Found largest(double than);

 private:
  struct Candidate {
    double low, high;  // of the error, in ULP
    float x, got, right;
    double value;
  };
  Candidate candidate(float x, float got, float right, double value, double radius) const;
  // As candidate(), of the ball that f64 gives; without a good one the interval of `right`.
  Candidate refined(float x, float got, float right) const;
  void keep(const Candidate& c);
  void prune();

  const SurveyedFunction& f_;
  std::vector<Candidate> candidates_;
  std::size_t next_prune_ = kPrune, alike_ = 0;
  double low_ = 0;  // the largest `low`
  static constexpr std::size_t kPrune = 1024, kAlike = 16;
};

}  // namespace etalon
