// Fourier transforms: the product with the matrix of roots of unity, axis by axis, which is the
// same sum as any fast transform has, in another sequence. Complex numbers stand in a last axis of
// two.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/roots.h"
#include "importers/formats/translate.h"

namespace etalon::openvino {
namespace {

constexpr std::int64_t kMostPoints = 4096;

std::string part(const Layer& l, const char* role) { return l.name + "." + role; }

struct Way {
  std::int64_t points = 0, length = 0, bins = 0;
  bool inverse = false;
  bool from_real = false, to_real = false;  // one part a number, of input or result
};

// [points * parts, bins * results]: what each part of a point adds to each part of a bin.
Tensor table_of(const Way& w) {
  if (w.length < 1 || w.length > kMostPoints || w.points < 1)
    throw bad_input("a transform of {} points, 1 to {} are read", w.length, kMostPoints);
  const std::int64_t parts = w.from_real ? 1 : 2, results = w.to_real ? 1 : 2;
  const std::vector<Root> roots = roots_of_unity(w.length);
  Tensor t = Tensor::uninitialized(DType::f32, {w.points * parts, w.bins * results});
  auto to = t.mutable_data<float>();
  std::size_t at = 0;
  for (std::int64_t j = 0; j < w.points; ++j) {
    // Half a spectrum: a point that stands for its mirror image, too, counts twice.
    const double often = w.to_real && j != 0 && 2 * j != w.length ? 2 : 1;
    const double share = often / (w.inverse ? static_cast<double>(w.length) : 1.0);
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t k = 0; k < w.bins; ++k) {
        const Root r = roots[static_cast<std::size_t>(j * k % w.length)];
        const double s = w.inverse ? r.sine : -r.sine;
        // (1 or i) (cosine + i s)
        to[at++] = static_cast<float>(share * (part == 0 ? r.cosine : -s));
        if (results == 2) to[at++] = static_cast<float>(share * (part == 0 ? s : r.cosine));
      }
  }
  return t;
}

// x [.., n, ..] (with parts behind) along an axis; the result has its parts in a last axis, or
// none.
ValueId along(const Layer& l, ValueId x, int axis, int rank, std::int64_t extent, Way w) {
  GraphBuilder& g = l.g;
  w.points = std::min(extent, w.to_real ? w.length / 2 + 1 : w.length);
  const std::int64_t parts = w.from_real ? 1 : 2;
  if (w.points < extent)
    x = g.op("slice", part(l, "cut"), {x},
             {{"starts", Ints{0}}, {"ends", Ints{w.points}}, {"axes", Ints{axis}}});
  // The axis moves behind the others, before the parts.
  Ints forth, back(static_cast<std::size_t>(rank)), terms, results;
  for (int i = 0; i < rank; ++i)
    if (i != axis) forth.push_back(i);
  forth.push_back(axis);
  for (std::size_t i = 0; i < forth.size(); ++i)
    back[static_cast<std::size_t>(forth[i])] = static_cast<std::int64_t>(i);
  if (!w.from_real) forth.push_back(rank);
  terms.assign(static_cast<std::size_t>(rank - 1), 0);
  results = terms;
  terms.push_back(w.points * parts);
  results.push_back(w.bins);
  if (!w.to_real) {
    results.push_back(2);
    back.push_back(rank);
  }
  const ValueId rows = g.reshape(part(l, "terms"), g.transpose(part(l, "forth"), x, forth), terms);
  const ValueId y =
      g.op("matmul", part(l, "bins"), {rows, g.constant(part(l, "roots"), table_of(w))});
  return g.transpose(part(l, "back"), g.reshape(part(l, "parts"), y, results), back);
}

// Axes count without that of the parts.
ValueId transform(const Layer& l) {
  const bool inverse = l.type == "IDFT" || l.type == "IRDFT", from_real = l.type == "RDFT",
             to_real = l.type == "IRDFT";
  Ints axes = l.constant(1), sizes = l.has(2) ? l.constant(2) : Ints(axes.size(), -1);
  const Ints dims = l.dims(0);
  const int rank = static_cast<int>(dims.size()) - (from_real ? 0 : 1);
  if (rank < 1 || axes.empty() || sizes.size() != axes.size() || (!from_real && dims.back() != 2))
    throw bad_input("{} of rank {} over {} axes of {} sizes", l.type, dims.size(), axes.size(),
                    sizes.size());
  for (std::int64_t& a : axes) a = normalize_axis(a, rank);
  l.g.note("a Fourier transform is the product with the matrix of roots of unity");
  ValueId y = l.input(0);
  // The last axis named is that of the real numbers: first of a transform from them, last of one to
  // them.
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t k = from_real ? axes.size() - 1 - i : i;
    const std::int64_t extent = l.extent(0, static_cast<int>(axes[k]));
    const bool real = k + 1 == axes.size() && (from_real || to_real);
    Way w{.inverse = inverse, .from_real = real && from_real, .to_real = real && to_real};
    w.length = sizes[k] != -1 ? sizes[k] : w.to_real ? 2 * (extent - 1) : extent;
    w.bins = w.from_real ? w.length / 2 + 1 : w.length;
    y = along(l, y, static_cast<int>(axes[k]), rank, extent, w);
  }
  return y;
}

// Frames of a signal under a window, as the weights of a convolution: [batch, bins, frames, 2], or
// the frames first.
ValueId short_time(const Layer& l) {
  const Tensor* window = l.g.constant_of(l.input(1));
  const Ints size = l.constant(2), step = l.constant(3);
  const int rank = l.rank(0);
  if (window == nullptr || window->shape().rank() != 1 || size.size() != 1 || step.size() != 1)
    throw bad_input("STFT whose window or frames hang on the run");
  const std::int64_t n = size[0], own = window->numel();
  if ((rank != 1 && rank != 2) || n < 1 || n > kMostPoints || own > n || step[0] < 1)
    throw bad_input("STFT of rank {} in frames of {} every {} under {}", rank, n, step[0], own);
  const Tensor values = as_f32(*window);
  const Tensor roots = table_of({.points = n, .length = n, .bins = n / 2 + 1, .from_real = true});
  const std::int64_t columns = 2 * (n / 2 + 1);
  Tensor weights = Tensor::zeros(DType::f32, {columns, 1, n});
  for (std::int64_t j = 0; j < own; ++j)  // a shorter window stands in the middle
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t at = (n - own) / 2 + j;
      weights.mutable_data<float>()[static_cast<std::size_t>(c * n + at)] =
          roots.data<float>()[static_cast<std::size_t>(at * columns + c)] *
          values.data<float>()[static_cast<std::size_t>(j)];
    }
  l.g.note("STFT is a convolution with the roots of unity under its window");
  GraphBuilder& g = l.g;
  const ValueId rows =
      g.op("unsqueeze", part(l, "row"), {l.input(0)}, {{"axes", rank == 1 ? Ints{0, 1} : Ints{1}}});
  const ValueId y =
      g.op("conv", part(l, "frames"), {rows, g.constant(part(l, "weights"), std::move(weights))},
           {{"strides", Ints{step[0]}}});
  const ValueId parts = g.reshape(part(l, "parts"), y, {0, n / 2 + 1, 2, -1});
  const ValueId out =
      g.transpose(part(l, "turned"), parts,
                  l.flag("transpose_frames", false) ? Ints{0, 1, 3, 2} : Ints{0, 3, 1, 2});
  return rank == 1 ? g.op("squeeze", l.name, {out}, {{"axes", Ints{0}}}) : out;
}

}  // namespace

std::vector<ValueId> translate_spectrum(const Layer& l) {
  if (l.type == "DFT" || l.type == "IDFT" || l.type == "RDFT" || l.type == "IRDFT")
    return {transform(l)};
  if (l.type == "STFT") return {short_time(l)};
  return {};
}

}  // namespace etalon::openvino
