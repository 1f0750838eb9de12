// Spectrograms, there and back: a convolution with the roots of unity that a window weighs, and the
// transposed one divided by the sum of the windows' squares. Source: ncnn's public documentation
// ("operators").
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"
#include "importers/formats/roots.h"

namespace etalon::ncnn {
namespace {

// Numbers of a table: 2048 points, twice.
constexpr std::int64_t kMostPoints = 2048;

struct Frames {
  std::int64_t points, hop;
  bool centred;
  std::vector<double> window;
  float norm = 1;  // of a forward transform; its inverse multiplies by the reciprocal
};

Frames frames_of(const Layer& l) {
  Frames f{.points = l.integer(0, 0), .hop = 0, .centred = l.integer(5, 1) != 0, .window = {}};
  f.hop = l.integer(2, f.points / 4);
  const std::int64_t length = l.integer(3, f.points), kind = l.integer(4, 0),
                     norm = l.integer(7, 0);
  if (f.points < 1 || f.points > kMostPoints)
    throw bad_input("a transform of {} points, 1 to {} are supported", f.points, kMostPoints);
  if (f.hop < 1 || length < 1 || length > f.points)
    throw bad_input("windows of {} of {} points, {} apart", length, f.points, f.hop);
  if (kind < 0 || kind > 2 || norm < 0 || norm > 2)
    throw bad_input("a window of kind {} with the norm {}", kind, norm);
  f.window.assign(static_cast<std::size_t>(f.points), 0);
  const auto first = static_cast<std::size_t>((f.points - length) / 2);
  double squares = 0;
  const std::vector<Root> roots = roots_of_unity(length);
  for (std::int64_t i = 0; i < length; ++i) {
    const double c = roots[static_cast<std::size_t>(i)].cosine;
    const double w = kind == 0 ? 1 : kind == 1 ? 0.5 * (1 - c) : 0.54 - 0.46 * c;
    f.window[first + static_cast<std::size_t>(i)] = static_cast<float>(w);
    squares += static_cast<float>(w) * static_cast<double>(static_cast<float>(w));
  }
  if (norm == 1) f.norm = static_cast<float>(1 / std::sqrt(static_cast<double>(f.points)));
  if (norm == 2) f.norm = static_cast<float>(1 / std::sqrt(squares));
  return f;
}

std::int64_t bins_of(std::int64_t points) { return points / 2 + 1; }

ValueId spectrogram(const Layer& l, Weights&) {
  const Frames f = frames_of(l);
  const std::int64_t power = l.integer(1, 0), padding = l.integer(6, 2), n = f.points,
                     bins = l.integer(8, 1) != 0 ? bins_of(n) : n;
  if (power < 0 || power > 2 || padding < 0 || padding > 2)
    throw bad_input("a power of {} with padding of kind {}", power, padding);
  ValueId x = l.input();
  if (l.g.rank(x) != 2) throw bad_input("a signal of rank {}", l.g.rank(x) - 1);
  if (f.centred) {
    static constexpr const char* kModes[] = {"constant", "edge", "reflect"};
    x = l.g.op(
        "pad", l.name + ".padded", {x},
        {{"pads", Ints{n / 2, n / 2}}, {"axes", Ints{1}}, {"mode", std::string(kModes[padding])}});
  }
  const std::vector<Root> roots = roots_of_unity(n);
  Tensor w = Tensor::uninitialized(DType::f32, {2 * bins, 1, n});
  auto to = w.mutable_data<float>();
  for (std::int64_t i = 0; i < bins; ++i)
    for (std::int64_t k = 0; k < n; ++k) {
      const Root& r = roots[static_cast<std::size_t>(i * k % n)];
      const double by = f.window[static_cast<std::size_t>(k)];
      to[static_cast<std::size_t>(i * n + k)] = static_cast<float>(by * r.cosine);
      to[static_cast<std::size_t>((bins + i) * n + k)] = static_cast<float>(-by * r.sine);
    }
  l.g.note("a spectrogram is a convolution with the roots of unity, its window multiplied in");
  const ValueId rows = l.g.op("unsqueeze", l.name + ".row", {x}, {{"axes", Ints{1}}});
  ValueId y =
      l.g.op("conv", l.name + ".bins", {rows, l.g.constant(l.name + ".roots", std::move(w))},
             {{"strides", Ints{f.hop}}});
  if (f.norm != 1)
    y = l.g.op("mul", l.name + ".normed", {y, l.g.constant(l.name + ".norm", scalar_f32(f.norm))});
  const auto part = [&](std::int64_t from, const char* role) {
    return l.g.op("slice", fmt::format("{}.{}", l.name, role), {y},
                  {{"starts", Ints{from}}, {"ends", Ints{from + bins}}, {"axes", Ints{1}}});
  };
  const ValueId re = part(0, "real"), im = part(bins, "imaginary");
  if (power == 0) {
    const auto last = [&](ValueId v, const char* role) {
      return l.g.op("unsqueeze", fmt::format("{}.{}", l.name, role), {v}, {{"axes", Ints{3}}});
    };
    return l.g.op("concat", l.name, {last(re, "real.part"), last(im, "imaginary.part")},
                  {{"axis", std::int64_t{3}}});
  }
  const ValueId sum = l.g.op("add", l.name + ".power",
                             {l.g.op("mul", l.name + ".real.square", {re, re}),
                              l.g.op("mul", l.name + ".imaginary.square", {im, im})});
  return power == 2 ? sum : l.g.op("sqrt", l.name, {sum});
}

// Of bins [F, frames, 2], all or those up to the middle, of which the others are the conjugates.
ValueId inverse(const Layer& l, Weights&) {
  const Frames f = frames_of(l);
  const std::int64_t returns = l.integer(1, 0), n = f.points;
  const ValueId x = l.input();
  const Ints dims = l.g.dims(x);
  if (returns < 0 || returns > 2) throw bad_input("a result of kind {}", returns);
  if (dims.size() != 4 || dims[3] != 2 || (dims[1] != n && dims[1] != bins_of(n)))
    throw bad_input("a spectrogram {} for {} points", to_string(l.g.shape(x)), n);
  const std::int64_t bins = dims[1], frames = dims[2];
  if (frames < 1)
    throw bad_input("a spectrogram of an unknown number of frames; the Input says it");
  const std::int64_t whole = (frames - 1) * f.hop + n;
  if (frames > 1 << 20 || whole > 1 << 24) throw bad_input("a signal of {} numbers", whole);
  // Weights of the real and the imaginary parts of the bins for both parts of the signal.
  const std::vector<Root> roots = roots_of_unity(n);
  Tensor w = Tensor::zeros(DType::f32, {2 * bins, 2, n});
  auto to = w.mutable_data<float>();
  const double by_points = 1.0 / static_cast<double>(n) / static_cast<double>(f.norm);
  for (std::int64_t k = 0; k < bins; ++k) {
    const bool twice = bins != n && k != 0 && 2 * k != n;  // the conjugate, too
    for (std::int64_t i = 0; i < n; ++i) {
      const Root& r = roots[static_cast<std::size_t>(i * k % n)];
      const double by = f.window[static_cast<std::size_t>(i)] * by_points;
      const auto put = [&](std::int64_t in, std::int64_t out, double v) {
        to[static_cast<std::size_t>((in * 2 + out) * n + i)] = static_cast<float>(v);
      };
      put(k, 0, by * r.cosine * (twice ? 2 : 1));
      put(bins + k, 0, -by * r.sine * (twice ? 2 : 1));
      put(k, 1, twice ? 0 : by * r.sine);
      put(bins + k, 1, twice ? 0 : by * r.cosine);
    }
  }
  const auto part = [&](std::int64_t i, const char* role) {
    const ValueId v = l.g.op("slice", fmt::format("{}.{}.part", l.name, role), {x},
                             {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"axes", Ints{3}}});
    return l.g.op("squeeze", fmt::format("{}.{}", l.name, role), {v}, {{"axes", Ints{3}}});
  };
  const ValueId parts = l.g.op("concat", l.name + ".parts", {part(0, "real"), part(1, "imaginary")},
                               {{"axis", std::int64_t{1}}});
  ValueId y =
      l.g.op("conv_transpose", l.name + ".signal",
             {parts, l.g.constant(l.name + ".roots", std::move(w))}, {{"strides", Ints{f.hop}}});
  const std::int64_t first = f.centred ? n / 2 : 0,
                     length = f.centred ? (frames - 1) * f.hop + n % 2 : whole;
  if (length < 1) throw bad_input("a signal of {} numbers", length);
  std::vector<double> squares(static_cast<std::size_t>(whole), 0);
  for (std::int64_t j = 0; j < frames; ++j)
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = f.window[static_cast<std::size_t>(i)];
      squares[static_cast<std::size_t>(j * f.hop + i)] += v * v;
    }
  Tensor sums = Tensor::uninitialized(DType::f32, {length});
  for (std::int64_t i = 0; i < length; ++i) {
    const auto v = static_cast<float>(squares[static_cast<std::size_t>(first + i)]);
    sums.mutable_data<float>()[static_cast<std::size_t>(i)] = v == 0 ? 1 : v;
  }
  y = l.g.op("slice", l.name + ".middle", {y},
             {{"starts", Ints{first}}, {"ends", Ints{first + length}}, {"axes", Ints{2}}});
  y = l.g.op("div", l.name + ".level", {y, l.g.constant(l.name + ".squares", std::move(sums))});
  l.g.note("an inverse spectrogram divides by the sum of the windows' squares where it is not 0");
  if (returns == 0) return l.g.transpose(l.name, y, {0, 2, 1});
  const ValueId one =
      l.g.op("slice", l.name + ".one", {y},
             {{"starts", Ints{returns - 1}}, {"ends", Ints{returns}}, {"axes", Ints{1}}});
  return l.g.op("squeeze", l.name, {one}, {{"axes", Ints{1}}});
}

}  // namespace

std::span<const LayerRow> signal_rows() {
  static constexpr LayerRow kRows[] = {{"InverseSpectrogram", inverse},
                                       {"Spectrogram", spectrogram}};
  return kRows;
}

}  // namespace etalon::ncnn
