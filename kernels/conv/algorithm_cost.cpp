#include "kernels/conv/algorithm_cost.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/numerics/fp.h"
#include "kernels/conv/winograd_matrices.h"

namespace etalon {
namespace {

double as_double(const Fraction& f) { return static_cast<double>(f.p) / static_cast<double>(f.q); }

struct MatrixFacts {
  double entries = 0;  // not zero
  double chain = 0;    // most roundings of one row
};

MatrixFacts facts(const FractionMatrix& m, DType format) {
  MatrixFacts f;
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
    f.entries += row;
    f.chain = std::max(f.chain, row + (rounded ? 1 : 0));
  }
  return f;
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
  const MatrixFacts fa = facts(m.a_t, format), fg = facts(m.g, format), fb = facts(m.b_t, format);
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
  const double transforms = a.transform == DType::f64 ? 3 : axes * (fa.chain + fg.chain + fb.chain);
  cost.roundings = transforms + sums + 1;
  cost.amplification = kappa / std::pow(static_cast<double>(a.r), axes);
  cost.bound = gamma(cost.roundings, u) * c * kappa;
  const auto tiles = static_cast<double>(t.count());
  const auto ny = static_cast<double>(t.y.size), nx = static_cast<double>(t.x.size);
  const auto my = static_cast<double>(t.y.step);
  const auto ky = static_cast<double>(t.axis_y().kernel);
  // The vertical matrix meets each column, then the horizontal one each row.
  const double input = (vertical ? fb.entries * nx : 0) + (horizontal ? fb.entries * ny : 0);
  const double output = (vertical ? fa.entries * nx : 0) + (horizontal ? fa.entries * my : 0);
  const double kernel = (vertical ? fg.entries * static_cast<double>(t.axis_x().kernel) : 0) +
                        (horizontal ? fg.entries * (vertical ? ny : ky) : 0);
  cost.transforms = tiles * (input * static_cast<double>(t.g.in_channels) +
                             output * static_cast<double>(t.g.out_channels));
  cost.weights = kernel * c * static_cast<double>(t.g.out_channels);
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
  // A butterfly of two complex numbers: 2 products, 2 multiply-adds, 4 additions, for half of the
  // outputs (real input).
  const double transform = cells / 2 * levels * 4;
  const auto tiles = static_cast<double>(t.count());
  cost.transforms = tiles * transform * static_cast<double>(t.g.in_channels + t.g.out_channels);
  cost.weights = transform * c * static_cast<double>(t.g.out_channels);
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
