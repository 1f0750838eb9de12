// Whether two sets of times differ, without assuming how times are spread.
//
// Mann and Whitney (1947): the probability, under equal distributions, of ranks at least as far
// apart as those seen. It is counted exactly for sets without ties of at most 25 each, and by the
// normal approximation with the correction for ties otherwise. The interval of the ratio of medians
// is a bootstrap (Efron 1979, percentiles of 2000 drawn pairs); the draws come from Philox, so that
// the same times give the same interval.
#pragma once

#include <span>
#include <vector>

namespace etalon {

// Two-sided; 1 where a set is empty.
double rank_test(std::span<const double> a, std::span<const double> b);

struct Interval {
  double low = 0, high = 0;
};
// Of median(b) / median(a), 95 %.
Interval ratio_interval(std::span<const double> a, std::span<const double> b);

double median_of(std::span<const double> values);  // not empty

// Holm (1979): p-values such that declaring all below alpha errs once with probability alpha.
std::vector<double> corrected(const std::vector<double>& p);

}  // namespace etalon
