// Sums in f64 for the first pass of exact rows: reductions, means, statistics of a row.
//
// Terms go to eight chains in blocks of 256, the chains are joined, the blocks added up: a term
// meets at most 32 + 3 + b additions, b the number of blocks, each with a relative error of u =
// 2^-53, so that
//   |computed - sum| <= gamma(35 + b) * sum |t|,     gamma(m) = m u / (1 - m u),
// and the factor below, with 64 for 35, leaves room for 1 - m u and for the rounding of the sizes
// themselves up to b = 2^28; longer sums are refused. Squares of f32 are exact in f64, and neither
// they nor their sums over- or underflow: 2^-298 to 2^(256 + 28).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "engine/backend/kernel.h"

namespace etalon {

inline constexpr std::int64_t kMostExactTerms = std::int64_t{1} << 28;

inline Refusal refuse_too_many_terms(const Problem& problem) {
  const std::int64_t elements = problem.input(0).shape.numel();
  if (elements <= kMostExactTerms) return std::nullopt;
  return "sums at most 2^28 terms: beyond, its bound would not hold; x has " +
         std::to_string(elements) + " elements";
}

struct BoundedSum {
  double sum = 0, size = 0;  // of terms, and of their magnitudes
  std::int64_t blocks = 0;

  double error() const { return (64 + static_cast<double>(blocks)) * 0x1p-53 * size; }
};

// Adds term(0) .. term(n - 1), doubles.
template <class Term>
void add_terms(BoundedSum& to, std::int64_t n, const Term& term) {
  constexpr std::int64_t kBlock = 256;
  constexpr int kChains = 8;
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t end = std::min(n, first + kBlock);
    double s[kChains] = {}, size[kChains] = {};
    std::int64_t k = first;
    for (; k + kChains <= end; k += kChains)
      for (int c = 0; c < kChains; ++c) {
        const double t = term(k + c);
        s[c] += t;
        size[c] += std::abs(t);
      }
    for (int c = 0; k < end; ++k, ++c) {
      const double t = term(k);
      s[c] += t;
      size[c] += std::abs(t);
    }
    const auto join = [](const double(&p)[kChains]) {
      return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
    };
    to.sum += join(s);
    to.size += join(size);
    ++to.blocks;
  }
}

}  // namespace etalon
