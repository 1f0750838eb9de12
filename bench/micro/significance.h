// Whether two programs differ in speed, from several runs of each.
//
// The unit is a run, a process of its own. Repetitions within one run share its memory layout and
// its minutes on the machine: two runs of one program differ by more than their repetitions do, and
// a test over repetitions calls that a change (measured: 3 of 5 rows). So a run counts as one
// number, the logarithm of a time, and what runs of one side differ by among themselves is the
// yardstick: Welch's test (1947), which does not ask that both sides vary alike.
//
// That time is the fastest repetition. Other programs only ever add to a time: on a busy machine
// the fastest of five repetitions differed between runs by a factor of 1.2, the median by 1.5
// (standard deviation of the logarithm over runs of one program, median over 138 rows: 0.18 and
// 0.38), so a change has to be far larger to be seen through medians. The fastest of more
// repetitions is faster, so only runs of as many repetitions are held against each other.
#pragma once

#include <span>
#include <vector>

namespace etalon {

// Fewer runs of a side say too little about how runs differ.
inline constexpr int kLeastRuns = 3;

// P(|T| >= |t|) of Student's distribution.
double student_tails(double t, double degrees);
// The t > 0 with student_tails(t) = p.
double student_quantile(double p, double degrees);

// Of times b over times a. p, low and high mean something where `tested`.
struct TimeRatio {
  double ratio = 1;          // of the geometric means
  bool tested = false;       // both sides have kLeastRuns
  double p = 1;              // two-sided
  double low = 0, high = 0;  // 95 %
};
TimeRatio compare_runs(std::span<const double> a, std::span<const double> b);

double median_of(std::span<const double> values);  // not empty

// Holm (1979): p-values such that declaring all below alpha errs once with probability alpha.
std::vector<double> corrected(const std::vector<double>& p);

}  // namespace etalon
