// DFT and STFT, as products with their roots of unity: a sum over the points for each bin, which is
// their definition, and no fast transform, whose order would be one library's own. A bin's error
// is therefore of the size of its terms, not of what is left when they cancel.
#include <array>
#include <cmath>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "engine/numerics/real.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

// Numbers of a table; a longer transform would ask for more memory than a file of its size may.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22;

struct Root {
  double cosine, sine;
};

// cos and sin of 2 pi k/n, correctly rounded to f64. 0 and +-1 are exact and known: no interval
// ever tells a 0 from what lies beside it.
Root root(std::int64_t k, std::int64_t n) {
  const std::int64_t quarters = 4 * k;
  if (quarters % n == 0) {
    static constexpr std::array<Root, 4> kExact{{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}};
    return kExact[static_cast<std::size_t>(quarters / n % 4)];
  }
  const auto of = [&](Function f) {
    return correctly_rounded(
        [&](auto& a) {
          const auto eighth = a.call(Function::atan, a.constant(1));
          return a.call(f, a.mul(eighth, a.ratio(8 * k, n)));
        },
        DType::f64);
  };
  return {of(Function::cos), of(Function::sin)};
}

std::vector<Root> roots(std::int64_t n) {
  std::vector<Root> out;
  for (std::int64_t k = 0; k < n; ++k) out.push_back(root(k, n));
  return out;
}

ValueId table(OnnxNode& n, const Shape& shape, DType dtype, const std::vector<double>& values) {
  Tensor out = Tensor::uninitialized(dtype, shape);
  if (dtype == DType::f64) {
    std::copy(values.begin(), values.end(), out.mutable_data<double>().begin());
  } else {
    auto to = out.mutable_data<float>();
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = static_cast<float>(values[i]);
  }
  return n.constant_value("roots", std::move(out));
}

void limit(std::int64_t points, std::int64_t bins) {
  if (points < 1 || bins < 1 || points > kMostNumbers / 4 / bins)
    throw bad_input("a transform of {} points to {} bins; at most {} numbers of a table are made",
                    points, bins, kMostNumbers);
}

// Roots of the sum over `points` (each with `parts` numbers, real and imaginary) for each bin.
struct Transform {
  std::int64_t length = 0, points = 0, parts = 1, bins = 0;
  bool inverse = false;
  bool halved = false;  // the points are the first half of a symmetric spectrum, the bins real

  std::int64_t results() const { return halved ? 1 : 2; }
  // [points, parts, bins, results]
  std::vector<double> numbers() const {
    limit(points * parts, bins * results());
    const std::vector<Root> w = roots(length);
    std::vector<double> out;
    for (std::int64_t j = 0; j < points; ++j)
      for (std::int64_t part = 0; part < parts; ++part)
        for (std::int64_t k = 0; k < bins; ++k) {
          const Root r = w[static_cast<std::size_t>(j * k % length)];
          const double s = inverse ? r.sine : -r.sine;
          // (1 or i) (cosine + i s); a bin that stands for its mirror image, too, counts twice.
          const double often = halved && j != 0 && 2 * j != length ? 2 : 1;
          out.push_back(often * (part == 0 ? r.cosine : -s));
          if (!halved) out.push_back(part == 0 ? s : r.cosine);
        }
    return out;
  }
};

DType computed(DType x) { return x == DType::f64 ? DType::f64 : DType::f32; }

void dft(OnnxNode& n) {
  Body b(n);
  const auto type = n.type_of(0);
  if (!type)
    throw bad_input("the extents of its input are not in the file, and they decide what it is");
  const Shape& shape = type->shape;
  const int rank = shape.rank();
  const std::int64_t axis_given = n.opset() < 20 ? n.integer("axis", 1)
                                  : n.has(2)     ? n.constant_integers(2, "axis").at(0)
                                                 : -2;
  const int axis = normalize_axis(axis_given, rank);
  const bool inverse = n.flag("inverse", false), onesided = n.flag("onesided", false);
  const std::int64_t parts = shape[rank - 1], there = shape[axis];
  if (axis == rank - 1 || (parts != 1 && parts != 2))
    throw bad_input("axis {} of {}; the last axis holds real and imaginary parts", axis,
                    to_string(shape));
  const bool halved = inverse && onesided;
  const std::int64_t length = n.has(1) ? n.constant_integers(1, "length").at(0)
                              : halved ? 2 * (there - 1)
                                       : there;
  if (length < 1 || length > kMostNumbers) throw bad_input("a length of {}", length);
  Transform t{.length = length, .parts = parts, .inverse = inverse, .halved = halved};
  t.points = std::min(there, halved ? length / 2 + 1 : length);
  t.bins = onesided && !inverse ? length / 2 + 1 : length;
  const DType in = computed(type->dtype);
  const ValueId roots = table(n, {t.points * parts, t.bins * t.results()}, in, t.numbers());
  // The axis moves before the parts, both become one axis of terms.
  Ints forth, back(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank - 1; ++i)
    if (i != axis) forth.push_back(i);
  forth.push_back(axis);
  forth.push_back(rank - 1);
  for (std::size_t i = 0; i < forth.size(); ++i)
    back[static_cast<std::size_t>(forth[i])] = static_cast<std::int64_t>(i);
  ValueId x = in != type->dtype ? b.cast(n.required(0), in) : n.required(0);
  if (t.points < there)
    x = b.op("slice", {x}, {{"starts", Ints{0}}, {"ends", Ints{t.points}}, {"axes", Ints{axis}}});
  Ints rows(static_cast<std::size_t>(rank - 2), 0);
  Ints terms = rows, results = rows;
  terms.push_back(t.points * parts);
  results.push_back(t.bins);
  results.push_back(t.results());
  ValueId y = b.op("matmul", {b.reshape(b.transpose(x, forth), terms), roots});
  if (inverse) y = b.div(y, b.number_like(static_cast<float>(length), y));
  y = b.transpose(b.reshape(y, results), back);
  n.give(0, in != type->dtype ? b.like(y, n.required(0)) : y);
  n.note("DFT is imported as a product with its roots of unity: a sum for each bin");
}

void stft(OnnxNode& n) {
  Body b(n);
  const auto type = n.type_of(0);
  const int rank = n.rank_of(0, "where real and imaginary parts lie");
  const std::int64_t parts = rank == 2 ? 1 : type ? type->shape[2] : 0;
  if (parts != 1 && parts != 2)
    throw bad_input("its signal's last extent, 1 for real and 2 for complex, is not in the file");
  const std::int64_t step = n.constant_integers(1, "step").at(0);
  const Tensor* window = n.constant(2);
  if (n.has(2) && window == nullptr)
    throw bad_input("its window is computed while the network runs");
  const std::int64_t length = n.has(3)            ? n.constant_integers(3, "length").at(0)
                              : window != nullptr ? window->numel()
                                                  : 0;
  if (step < 1 || length < 1 || (window != nullptr && window->numel() != length))
    throw bad_input("frames of {} every {} points under a window of {}", length, step,
                    window != nullptr ? window->numel() : length);
  const bool onesided = n.flag("onesided", true);
  const DType given = n.dtype_of(0).value_or(DType::f32), in = computed(given);
  const Transform t{.length = length,
                    .points = length,
                    .parts = parts,
                    .bins = onesided ? length / 2 + 1 : length};
  // As the weights of a convolution: [bins * 2, parts, length].
  const std::vector<double> numbers = t.numbers();
  std::vector<double> weights(numbers.size());
  const std::int64_t results = t.bins * 2;
  for (std::int64_t j = 0; j < length; ++j) {
    const double w = window == nullptr ? 1.0 : load_as_double(*window, j);
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t k = 0; k < results; ++k)
        weights[static_cast<std::size_t>((k * parts + part) * length + j)] =
            w * numbers[static_cast<std::size_t>((j * parts + part) * results + k)];
  }
  ValueId x = n.required(0);
  if (given != in) x = b.cast(x, in);
  x = rank == 2 ? b.unsqueeze(x, {1}) : b.transpose(x, {0, 2, 1});
  ValueId y =
      b.op("conv", {x, table(n, {results, parts, length}, in, weights)}, {{"strides", Ints{step}}});
  y = b.transpose(b.reshape(y, {0, t.bins, 2, -1}), {0, 3, 1, 2});
  n.give(0, given != in ? b.like(y, n.required(0)) : y);
  n.note("STFT is imported as a convolution with its roots of unity under the window");
}

constexpr TranslatorRow kRows[] = {{"DFT", dft}, {"STFT", stft}};

}  // namespace

std::span<const TranslatorRow> signal_family() { return kRows; }

}  // namespace etalon::onnx_format
