// DFT and STFT, as products with their roots of unity: a sum over the points for each bin, which is
// their definition, and no fast transform, whose order would be one library's own. A bin's error
// is therefore of the size of its terms, not of what is left when they cancel.
#include <cmath>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/onnx/body.h"
#include "importers/formats/roots.h"

namespace etalon::onnx_format {
namespace {

// Numbers of a table: 2048 real points, as numbers of 4 bytes as much as a small file may ask for.
constexpr std::int64_t kMostNumbers = 2048 * 2050;
constexpr std::int64_t kMostPoints = 1 << 16;

// Roots of the sum over `points` (each with `parts` numbers, real and imaginary) for each bin.
struct Transform {
  std::int64_t length = 0, points = 0, parts = 1, bins = 0;
  bool inverse = false;
  bool halved = false;  // the points are the first half of a symmetric spectrum, the bins real

  std::int64_t results() const { return halved ? 1 : 2; }
  std::int64_t columns() const { return bins * results(); }

  // A constant of them: place(point, part, column) says where each stands, column = bin *
  // results() + result; weight(point) is a factor.
  template <class Place, class Weight>
  ValueId table(OnnxNode& n, const Shape& shape, Place&& place, Weight&& weight) const {
    const std::int64_t rows = points * parts;
    if (rows < 1 || columns() < 1 || length > kMostPoints || rows > kMostNumbers / columns())
      throw bad_input(
          "a transform of {} points to {} bins; its table may have {} numbers, and {} points",
          points, bins, kMostNumbers, kMostPoints);
    const std::vector<Root> w = roots_of_unity(length);
    Tensor out = Tensor::uninitialized(DType::f32, shape);
    float* to = out.mutable_data<float>().data();
    for (std::int64_t j = 0; j < points; ++j) {
      // A point that stands for its mirror image, too, counts twice.
      const double often = weight(j) * (halved && j != 0 && 2 * j != length ? 2 : 1);
      for (std::int64_t k = 0; k < bins; ++k) {
        const Root r = w[static_cast<std::size_t>(j * k % length)];
        const double s = inverse ? r.sine : -r.sine;
        for (std::int64_t part = 0; part < parts; ++part) {
          // (1 or i) (cosine + i s)
          const double both[] = {part == 0 ? r.cosine : -s, part == 0 ? s : r.cosine};
          for (std::int64_t i = 0; i < results(); ++i)
            to[place(j, part, k * results() + i)] = static_cast<float>(often * both[i]);
        }
      }
    }
    return n.constant_value("roots", std::move(out));
  }
};

std::int64_t one_integer(const OnnxNode& n, std::size_t input, std::string_view what) {
  const Ints values = n.constant_integers(input, what);
  if (values.size() != 1) throw bad_input("its {} is {} numbers", what, values.size());
  return values[0];
}

void dft(OnnxNode& n) {
  Body b(n);
  const auto type = n.type_of(0);
  if (!type)
    throw bad_input("the extents of its input are not in the file, and they decide what it is");
  const Shape& shape = type->shape;
  const int rank = shape.rank();
  const std::int64_t axis_given = n.opset() < 20 ? n.integer("axis", 1)
                                  : n.has(2)     ? one_integer(n, 2, "axis")
                                                 : -2;
  const int axis = normalize_axis(axis_given, rank);
  const bool inverse = n.flag("inverse", false), onesided = n.flag("onesided", false);
  const std::int64_t parts = shape[rank - 1], there = shape[axis];
  if (axis == rank - 1 || (parts != 1 && parts != 2))
    throw bad_input("axis {} of {}; the last axis holds real and imaginary parts", axis,
                    to_string(shape));
  const bool halved = inverse && onesided;
  const std::int64_t length = n.has(1) ? one_integer(n, 1, "length")
                              : halved ? 2 * (there - 1)
                                       : there;
  if (length < 1) throw bad_input("a length of {}", length);
  Transform t{.length = length, .parts = parts, .inverse = inverse, .halved = halved};
  t.points = std::min(there, halved ? length / 2 + 1 : length);
  t.bins = onesided && !inverse ? length / 2 + 1 : length;
  const ValueId table = t.table(
      n, {t.points * parts, t.columns()},
      [&](std::int64_t j, std::int64_t part, std::int64_t column) {
        return (j * parts + part) * t.columns() + column;
      },
      [](std::int64_t) { return 1.0; });
  // The axis moves before the parts, both become one axis of terms.
  Ints forth, back(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank - 1; ++i)
    if (i != axis) forth.push_back(i);
  forth.push_back(axis);
  forth.push_back(rank - 1);
  for (std::size_t i = 0; i < forth.size(); ++i)
    back[static_cast<std::size_t>(forth[i])] = static_cast<std::int64_t>(i);
  ValueId x = b.cast(n.required(0), DType::f32);
  if (t.points < there)
    x = b.op("slice", {x}, {{"starts", Ints{0}}, {"ends", Ints{t.points}}, {"axes", Ints{axis}}});
  Ints rows(static_cast<std::size_t>(rank - 2), 0);
  Ints terms = rows, results = rows;
  terms.push_back(t.points * parts);
  results.push_back(t.bins);
  results.push_back(t.results());
  ValueId y = b.op("matmul", {b.reshape(b.transpose(x, forth), terms), table});
  if (inverse) y = b.div(y, b.number_like(static_cast<float>(length), y));
  y = b.transpose(b.reshape(y, results), back);
  n.give(0, b.like(y, n.required(0)));
  n.note("DFT is imported as a product with its roots of unity: a sum for each bin");
}

void stft(OnnxNode& n) {
  Body b(n);
  const auto type = n.type_of(0);
  const int rank = n.rank_of(0, "where real and imaginary parts lie");
  const std::int64_t parts = rank == 2 ? 1 : rank == 3 && type ? type->shape[2] : 0;
  if (parts != 1 && parts != 2)
    throw bad_input("its signal's last extent, 1 for real and 2 for complex, is not in the file");
  const std::int64_t step = one_integer(n, 1, "step");
  const Tensor* window = n.constant(2);
  if (n.has(2) && window == nullptr)
    throw bad_input("its window is computed while the network runs");
  const std::int64_t length = n.has(3)            ? one_integer(n, 3, "length")
                              : window != nullptr ? window->numel()
                                                  : 0;
  if (step < 1 || length < 1 || (window != nullptr && window->numel() != length))
    throw bad_input("frames of {} every {} points under a window of {}", length, step,
                    window != nullptr ? window->numel() : length);
  const bool onesided = n.flag("onesided", true);
  const Transform t{.length = length,
                    .points = length,
                    .parts = parts,
                    .bins = onesided ? length / 2 + 1 : length};
  // As the weights of a convolution.
  const ValueId table = t.table(
      n, {t.columns(), parts, length},
      [&](std::int64_t j, std::int64_t part, std::int64_t column) {
        return (column * parts + part) * length + j;
      },
      [&](std::int64_t j) { return window == nullptr ? 1.0 : load_as_double(*window, j); });
  ValueId x = b.cast(n.required(0), DType::f32);
  x = rank == 2 ? b.unsqueeze(x, {1}) : b.transpose(x, {0, 2, 1});
  ValueId y = b.op("conv", {x, table}, {{"strides", Ints{step}}});
  y = b.transpose(b.reshape(y, {0, t.bins, 2, -1}), {0, 3, 1, 2});
  n.give(0, b.like(y, n.required(0)));
  n.note("STFT is imported as a convolution with its roots of unity under the window");
}

constexpr TranslatorRow kRows[] = {{"DFT", dft}, {"STFT", stft}};

}  // namespace

std::span<const TranslatorRow> signal_family() { return kRows; }

}  // namespace etalon::onnx_format
