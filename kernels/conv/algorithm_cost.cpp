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

// Numbers that know of a coefficient whether it is worth a multiplication, and of a sum whether
// something is in it yet.
struct HandCount {
  struct V {
    bool nothing = false, unit = false;
  };
  double multiplications = 0, additions = 0;
  V input(double) { return {.nothing = true}; }
  V ratio(std::int64_t p, std::int64_t q) { return {.unit = p == q || p == -q}; }
  V fma(V coefficient, V, V sum) {
    multiplications += coefficient.unit ? 0 : 1;
    additions += sum.nothing ? 0 : 1;
    return {};
  }
};

void winograd(const Algorithm& a, const ConvTiles& t, double u, DType acc, AlgorithmCost& cost) {
  const WinogradMatrices m = winograd_matrices(a);
  const DType format = a.transform == DType::f64 ? DType::f64 : acc;
  const auto one = [](std::int64_t n) {
    return std::vector<double>(static_cast<std::size_t>(n), 1);
  };
  std::vector<double> spectrum = sizes(m.g, one(a.r));
  const std::vector<double> data = sizes(m.b_t, one(a.alpha()));
  for (std::size_t i = 0; i < spectrum.size(); ++i) spectrum[i] *= data[i];
  const std::vector<double> result = sizes(m.a_t, spectrum);
  const double axis = *std::max_element(result.begin(), result.end());
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
  const auto in = static_cast<double>(t.g.in_channels), out = static_cast<double>(t.g.out_channels);
  // Counted over the definition's own text.
  const auto run = [&](auto ops, const FractionMatrix& matrix, std::int64_t h, std::int64_t w) {
    const SparseRows rows(matrix);
    typename decltype(ops)::V tile[kMaxAlpha * kMaxAlpha], work[kMaxAlpha * kMaxAlpha];
    transform(ops, vertical ? &rows : nullptr, horizontal ? &rows : nullptr, tile,
              static_cast<int>(h), static_cast<int>(w), work);
    return ops;
  };
  const auto count = [&](const FractionMatrix& matrix, std::int64_t h, std::int64_t w) {
    return static_cast<double>(run(OpCount{}, matrix, h, w).all());
  };
  cost.transforms =
      tiles * (count(m.b_t, t.y.size, t.x.size) * in + count(m.a_t, t.y.size, t.x.size) * out);
  cost.weights = count(m.g, t.axis_y().kernel, t.axis_x().kernel) * c * out;
  const HandCount x = run(HandCount{}, m.b_t, t.y.size, t.x.size),
                  y = run(HandCount{}, m.a_t, t.y.size, t.x.size);
  cost.multiplications += tiles * (x.multiplications * in + y.multiplications * out);
  cost.additions += tiles * (x.additions * in + y.additions * out);
}

// Operations of one transform of n numbers, counted over the definition's own text.
struct TransformOps {
  OpCount real, real_inverse, complex;
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
    return ops;
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
  const std::int64_t spectrum = t.x.size / 2 + 1;  // of a real row
  const auto ny = static_cast<double>(t.y.size), half = static_cast<double>(spectrum);
  const auto tiles = static_cast<double>(t.count());
  const auto in = static_cast<double>(t.g.in_channels), out = static_cast<double>(t.g.out_channels);
  // `of` says what is counted of a transform's operations. The scaling is a multiplication.
  const auto forward = [&](auto of) { return ny * of(rows.real) + half * of(columns.complex); };
  const auto inverse = [&](auto of) {
    return ny * of(rows.real_inverse) + half * of(columns.complex);
  };
  const double scaling = static_cast<double>(t.y.step * t.x.step);
  const auto all = [](const OpCount& ops) { return static_cast<double>(ops.all()); };
  cost.transforms = tiles * (forward(all) * in + (inverse(all) + scaling) * out);
  cost.weights = forward(all) * c * out;
  const auto multiplied = [](const OpCount& ops) {
    return static_cast<double>(ops.products + ops.fused);
  };
  const auto added = [](const OpCount& ops) {
    return static_cast<double>(ops.additions + ops.fused);
  };
  cost.multiplications +=
      tiles * (forward(multiplied) * in + (inverse(multiplied) + scaling) * out);
  cost.additions += tiles * (forward(added) * in + inverse(added) * out);
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
    cost.products = cost.multiplications = outputs * k;
    cost.additions = outputs * std::max(0.0, k - 1);
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
  // Each sum over the channels begins with a product.
  cost.multiplications = cost.products;
  cost.additions = cost.products - positions * parts * tiles * static_cast<double>(g.out_channels);
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
