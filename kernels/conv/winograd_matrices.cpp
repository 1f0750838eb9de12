#include "kernels/conv/winograd_matrices.h"

namespace etalon {
namespace {

FractionMatrix zeros(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, std::vector<Fraction>(static_cast<std::size_t>(rows * cols))};
}

// Coefficients, lowest first, of the product of (x - p) over all points but one (-1: all of them).
std::vector<Fraction> product(const std::vector<Fraction>& points, std::int64_t without) {
  std::vector<Fraction> c{{1}};
  for (std::int64_t l = 0; l < std::ssize(points); ++l) {
    if (l == without) continue;
    std::vector<Fraction> next(c.size() + 1);
    for (std::size_t i = 0; i < c.size(); ++i) {
      next[i + 1] = next[i + 1] + c[i];
      next[i] = next[i] - points[static_cast<std::size_t>(l)] * c[i];
    }
    c = std::move(next);
  }
  return c;
}

}  // namespace

WinogradMatrices winograd_matrices(const Algorithm& algorithm) {
  const std::int64_t m = algorithm.m, r = algorithm.r, alpha = algorithm.alpha();
  const std::vector<Fraction>& points = algorithm.points;
  WinogradMatrices w{zeros(m, alpha), zeros(alpha, r), zeros(alpha, alpha)};
  for (std::int64_t j = 0; j + 1 < alpha; ++j) {
    const Fraction& p = points[static_cast<std::size_t>(j)];
    Fraction n{1};
    for (std::int64_t l = 0; l + 1 < alpha; ++l)
      if (l != j) n = n * (p - points[static_cast<std::size_t>(l)]);
    Fraction power{1};
    for (std::int64_t i = 0; i < std::max(m, r); ++i) {
      if (i < m) w.a_t(i, j) = power;
      if (i < r) w.g(j, i) = power / n;
      if (i + 1 < std::max(m, r)) power = power * p;
    }
    const std::vector<Fraction> basis = product(points, j);
    for (std::size_t i = 0; i < basis.size(); ++i)
      w.b_t(j, static_cast<std::int64_t>(i)) = basis[i];
    if (j == 0 && n.p < 0) {
      for (std::int64_t i = 0; i < r; ++i) w.g(0, i) = w.g(0, i) * Fraction{-1};
      for (std::int64_t i = 0; i < alpha; ++i) w.b_t(0, i) = w.b_t(0, i) * Fraction{-1};
    }
  }
  w.a_t(m - 1, alpha - 1) = {1};
  w.g(alpha - 1, r - 1) = {1};
  const std::vector<Fraction> all = product(points, -1);
  for (std::size_t i = 0; i < all.size(); ++i)
    w.b_t(alpha - 1, static_cast<std::int64_t>(i)) = all[i];
  return w;
}

}  // namespace etalon
