#include "kernels/conv/algorithm_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/error.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/op_count.h"
#include "kernels/conv/fourier.h"
#include "kernels/conv/winograd_transform.h"

namespace etalon {
namespace {

double as_double(const Fraction& f) { return static_cast<double>(f.p) / static_cast<double>(f.q); }

// Most roundings that a term meets in one row.
double roundings(const FractionMatrix& m, DType format) {
  double most = 0;
  for (std::int64_t i = 0; i < m.rows; ++i) {
    double row = 0;
    bool rounded = false;
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const Fraction& c = m(i, j);
      if (c.is_zero()) continue;
      ++row;
      // A power of two below is exact; anything else is rounded.
      rounded = rounded || (c.q & (c.q - 1)) != 0 || round_to(as_double(c), format) != as_double(c);
    }
    most = std::max(most, row + (rounded ? 1 : 0));
  }
  return most;
}

// Sums of sizes, row by row: |m| times v.
std::vector<double> sizes(const FractionMatrix& m, const std::vector<double>& v) {
  std::vector<double> out(static_cast<std::size_t>(m.rows));
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j)
      out[static_cast<std::size_t>(i)] +=
          std::fabs(as_double(m(i, j))) * v[static_cast<std::size_t>(j)];
  return out;
}

double gamma(double n, double u) { return n * u < 1 ? n * u / (1 - n * u) : kInfinity; }

double fft_levels(std::int64_t n) { return n < 2 ? 0 : std::log2(static_cast<double>(n)); }

void winograd(const Algorithm& a, const ConvTiles& t, double u, DType acc, AlgorithmCost& cost) {
  const WinogradMatrices m = winograd_matrices(a);
  const DType format = a.transform == DType::f64 ? DType::f64 : acc;
  const auto one = [](std::int64_t n) {
    return std::vector<double>(static_cast<std::size_t>(n), 1);
  };
  std::vector<double> spectrum = sizes(m.g, one(a.r));
  const std::vector<double> data = sizes(m.b_t, one(a.alpha()));
  for (std::size_t i = 0; i < spectrum.size(); ++i) spectrum[i] *= data[i];
  const std::vector<double> y = sizes(m.a_t, spectrum);
  const double axis = *std::max_element(y.begin(), y.end());
  const bool vertical = t.axis_y().kernel > 1, horizontal = t.axis_x().kernel > 1;
  const double axes = (vertical ? 1 : 0) + (horizontal ? 1 : 0);
  const auto c = static_cast<double>(t.g.group_in());
  const double sums =
      a.run == 0 || c <= static_cast<double>(a.run)
          ? c
          : static_cast<double>(a.run) + std::ceil(std::log2(c / static_cast<double>(a.run)));
  const double kappa = std::pow(axis, axes);
  const double transforms =
      a.transform == DType::f64
          ? 3
          : axes * (roundings(m.a_t, format) + roundings(m.g, format) + roundings(m.b_t, format));
  cost.roundings = transforms + sums + 1;
  cost.amplification = kappa / std::pow(static_cast<double>(a.r), axes);
  cost.bound = gamma(cost.roundings, u) * c * kappa;
  const auto tiles = static_cast<double>(t.count());
  // Counted over the definition's own text.
  const auto count = [&](const FractionMatrix& matrix, std::int64_t h, std::int64_t w) {
    const SparseRows rows(matrix);
    OpCount ops;
    OpCount::V tile[kMaxAlpha * kMaxAlpha], work[kMaxAlpha * kMaxAlpha];
    transform(ops, vertical ? &rows : nullptr, horizontal ? &rows : nullptr, tile,
              static_cast<int>(h), static_cast<int>(w), work);
    return static_cast<double>(ops.all());
  };
  cost.transforms =
      tiles * (count(m.b_t, t.y.size, t.x.size) * static_cast<double>(t.g.in_channels) +
               count(m.a_t, t.y.size, t.x.size) * static_cast<double>(t.g.out_channels));
  cost.weights =
      count(m.g, t.axis_y().kernel, t.axis_x().kernel) * c * static_cast<double>(t.g.out_channels);
}

// Operations of one transform of n numbers, counted over the definition's own text.
struct TransformOps {
  double real = 0, real_inverse = 0, complex = 0;
};
TransformOps transform_ops(std::int64_t n) {
  using C = ComplexOf<OpCount>;
  const std::vector<double> table(static_cast<std::size_t>(std::max<std::int64_t>(n, 4)));
  const Roots roots{table.data(), table.data(), std::max<std::int64_t>(n, 4), true};
  std::vector<OpCount::V> numbers(static_cast<std::size_t>(n));
  std::vector<C> in(static_cast<std::size_t>(n + 1)), out(static_cast<std::size_t>(n + 1)),
      work(static_cast<std::size_t>(Fourier<OpCount>::room(n, n)));
  const auto count = [&](auto f) {
    OpCount ops;
    f(Fourier<OpCount>(ops, roots));
    return static_cast<double>(ops.all());
  };
  return {
      count([&](const auto& f) { f.real(n, numbers.data(), 1, out.data(), work.data()); }),
      count([&](const auto& f) { f.real_inverse(n, in.data(), numbers.data(), 1, work.data()); }),
      count([&](const auto& f) { f.complex(n, in.data(), 1, out.data(), false); })};
}

void fft(const ConvTiles& t, double u, AlgorithmCost& cost) {
  const double levels = fft_levels(t.y.size) + fft_levels(t.x.size);
  const double h = u + gamma(4, u) * (std::sqrt(2.0) + u);
  const double e = levels * h / (1 - levels * h);
  const auto c = static_cast<double>(t.g.group_in());
  const auto cells = static_cast<double>(t.y.size * t.x.size);
  const auto taps = static_cast<double>(t.g.window.taps());
  cost.roundings = 3 * levels * 3 + 2 * c + 2;
  cost.amplification = std::sqrt(cells);
  cost.bound =
      (std::pow(1 + e, 3) * (1 + gamma(2 * c + 2, u)) - 1 + u) * c * std::sqrt(cells) * taps;
  const TransformOps rows = transform_ops(t.x.size), columns = transform_ops(t.y.size);
  const auto ny = static_cast<double>(t.y.size), half = static_cast<double>(t.x.size / 2 + 1);
  const double forward = ny * rows.real + half * columns.complex;
  const double inverse =
      ny * rows.real_inverse + half * columns.complex + static_cast<double>(t.y.step * t.x.step);
  const auto tiles = static_cast<double>(t.count());
  cost.transforms = tiles * (forward * static_cast<double>(t.g.in_channels) +
                             inverse * static_cast<double>(t.g.out_channels));
  cost.weights = forward * c * static_cast<double>(t.g.out_channels);
}

}  // namespace

AlgorithmCost algorithm_cost(const Problem& problem) {
  const Algorithm a = Algorithm::parse(problem.contract->algo);
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  const double u = power_of_two(-format_of(problem.contract->acc).precision);
  const auto k = static_cast<double>(g.k());
  const auto outputs = static_cast<double>(g.batch * g.out_channels * g.window.out_points());
  AlgorithmCost cost;
  if (a.kind == Algorithm::Kind::direct || a.kind == Algorithm::Kind::im2col) {
    cost.products = outputs * k;
    cost.weight_bytes = 4 * static_cast<double>(g.out_channels) * k;
    if (a.kind == Algorithm::Kind::im2col)
      cost.spectrum_bytes = 4 * k * static_cast<double>(g.groups * g.batch * g.window.out_points());
    cost.roundings = k + 1;
    cost.bound = gamma(k + 1, u) * k;
    return cost;
  }
  if (const Refusal r = refuse_tiles(problem, a)) throw usage_error("{}", *r);
  const ConvTiles t = conv_tiles(g, a);
  const bool is_fft = a.kind == Algorithm::Kind::fft;
  // A product of complex numbers is four of real ones.
  const double positions =
      static_cast<double>(t.y.size) * static_cast<double>(is_fft ? t.x.size / 2 + 1 : t.x.size);
  const double parts = is_fft ? 2 : 1;
  const auto tiles = static_cast<double>(t.count());
  cost.products = positions * parts * parts * tiles * static_cast<double>(g.group_in()) *
                  static_cast<double>(g.out_channels);
  cost.spectrum_bytes =
      4 * positions * parts * tiles * static_cast<double>(g.in_channels + g.out_channels);
  cost.weight_bytes = 4 * positions * parts * parts * static_cast<double>(g.group_in()) *
                      static_cast<double>(g.out_channels);
  if (is_fft)
    fft(t, u, cost);
  else
    winograd(a, t, u, problem.contract->acc, cost);
  return cost;
}

}  // namespace etalon
