// TensorFlow Lite's hybrid kernels (engine/ops/tflite_hybrid.h) as ONNX: activations made integers
// by elementary operators of f32, exact sums of bytes, scales in the kernels' sequence.
#include "importers/formats/onnx/export_hybrid.h"

#include "engine/core/error.h"
#include "engine/ops/tflite_hybrid.h"

namespace etalon::onnx_format {

using Name = Whole::Name;

HybridRuns::HybridRuns(Whole& m, const Name& x, const Ints& axes, bool asymmetric) {
  const Name none = m.real(0);
  if (!asymmetric) {
    const Name most = m.reduced("ReduceMax", m.step("Abs", {x}), axes, true);
    // Zeros alone: a scale of 1.
    const Name range = m.chosen(m.step("Equal", {most, none}), m.real(127), most);
    scale_ = m.div(range, m.real(127));
    q_ = m.held(m.rounded(m.mul(x, m.div(m.real(127), range))), -127, 127);
    return;
  }
  const Name least = m.step("Min", {m.reduced("ReduceMin", x, axes, true), none}),
             most = m.step("Max", {m.reduced("ReduceMax", x, axes, true), none});
  const Name empty = m.step("Equal", {m.sub(most, least), none});
  const Name step =
      m.chosen(empty, m.real64(1), m.div(m.cast(m.sub(most, least), DType::f64), m.real64(255)));
  const Name low = m.div(m.cast(least, DType::f64), step),
             high = m.div(m.cast(most, DType::f64), step);
  const Name from_least = m.step("Less", {m.add(m.step("Abs", {low}), m.real64(128)),
                                          m.add(m.step("Abs", {high}), m.real64(127))});
  const Name place = m.chosen(from_least, m.sub(m.real64(-128), low), m.sub(m.real64(127), high));
  const Name held = m.step("Clip", {place, m.real64(-128), m.real64(127)});
  const Name whole =
      m.mul(m.step("Sign", {held}), m.step("Floor", {m.add(m.step("Abs", {held}), m.real64(0.5))}));
  zero_ = m.chosen(empty, m.number(0), m.cast(whole, DType::i64));
  scale_ = m.cast(step, DType::f32);
  const Name finer = m.div(m.real(1), scale_);
  const Name at = m.add(m.cast(zero_, DType::f32), m.mul(x, finer));
  q_ = m.held(m.rounded(at), -128, 127);
}

std::vector<Bytes> HybridRuns::bytes(Whole& m) const {
  return {{m.cast(m.add(q_, 128), DType::u8), 128, 1}};
}

Name hybrid_part(NodeWriter& w, Whole& m, const Name& x, const Name& weights,
                 const std::vector<float>& w_scales, bool asymmetric) {
  const HybridRuns runs(m, x, {-1}, asymmetric);
  const Name turned = w.step("Transpose", {weights});
  Name sum = m.sums(runs.bytes(m), m.bytes_of(turned, DType::i8, 0),
                    [&](auto&&... in) { return w.step("MatMulInteger", {in...}); });
  if (!runs.zero().empty()) {
    const Name all = m.reduced("ReduceSum", m.cast(weights, DType::i64), {1}, false);
    sum = m.sub(sum, m.mul(runs.zero(), all));
  }
  return m.mul(m.cast(sum, DType::f32), m.mul(runs.scale(), m.reals(w_scales, 0)));
}

namespace {

void fully_connected(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteHybridParams>();
  const Name part = hybrid_part(w, m, w.input(0), w.input(1), p.w_scales, p.asymmetric);
  if (w.has(2))
    w.write("Add", {w.input(2), part}, w.outputs());
  else
    w.write("Identity", {part}, w.outputs());
}

// A run is an image; taps outside are none, so zero points meet the weights inside.
void conv(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteHybridConvParams>();
  const Ints weight = w.extents(1);
  const int spatial = static_cast<int>(weight.size()) - 2;
  Ints axes;
  for (std::int64_t a = 1; a < static_cast<std::int64_t>(weight.size()); ++a) axes.push_back(a);
  const HybridRuns runs(m, w.input(0), axes, p.asymmetric);
  const auto sums = [&](const std::vector<Bytes>& x) {
    return m.sums(x, m.bytes_of(1, 0), [&](auto&&... in) {
      Name y = w.new_name("sum");
      pb::NodeProto& n = w.write("ConvInteger", {in...}, {y});
      write_window(w, n, Ints(weight.begin() + 2, weight.end()));
      set(n, "group", p.groups);
      return y;
    });
  };
  Name sum = sums(runs.bytes(m));
  if (!runs.zero().empty()) {
    const Name one = w.constant("one", Ints{1}), rest = w.step("Shape", {w.input(0)}, "start", 1);
    const Name ones = w.step("Expand", {m.byte(1), w.step("Concat", {one, rest}, "axis", 0)});
    sum = m.sub(sum, m.mul(runs.zero(), sums({{ones, 0, 1}})));
  }
  const Name whole = m.cast(sum, DType::f32), scales = m.reals(p.w_scales, spatial);
  const Name y = p.in_turn ? m.mul(m.mul(whole, scales), runs.scale())
                           : m.mul(whole, m.mul(runs.scale(), scales));
  if (!w.has(2)) {
    w.write("Identity", {y}, w.outputs());
    return;
  }
  Ints shape(static_cast<std::size_t>(spatial) + 1, 1);
  shape[0] = -1;
  w.write("Add", {y, w.step("Reshape", {w.input(2), w.constant("shape", shape)})}, w.outputs());
}

// What belongs to the rows of a [.., M, K]: of the matrix that the reference looks up
// (tflite_hybrid.h); with one batch axis at most it is the row's own.
Name looked_up(NodeWriter& w, const Name& of_rows) {
  const Ints a = w.extents(0);
  if (a.size() <= 3) return of_rows;
  if (std::ranges::find(a, -1) != a.end() || a.size() < w.extents(1).size())
    throw usage_error("a hybrid product over several batch axes, one free, has no form in ONNX");
  const std::int64_t rows = a[a.size() - 2];
  Ints shape(a.begin(), a.end() - 1), places;
  shape.push_back(1);
  const std::int64_t all = Shape(shape).numel();
  constexpr std::int64_t kMost = 1 << 20;
  if (all > kMost) throw usage_error("a hybrid product of {} rows has no form in ONNX", all);
  for (std::int64_t i = 0; i < all; ++i) {
    std::int64_t sum = 0, batch = i / rows;
    for (std::size_t axis = a.size() - 2; axis-- > 0; batch /= a[axis])
      sum += a[axis] == 1 ? 0 : batch % a[axis];
    places.push_back(sum * rows + i % rows);
  }
  const Name flat = w.step("Reshape", {of_rows, w.constant("flat", Ints{-1})});
  return w.step(
      "Gather",
      {flat, w.constant("places", Tensor::of<std::int64_t>(
                                      Shape(shape), std::span<const std::int64_t>(places)))});
}

void batch_matmul(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteHybridParams>();
  const HybridRuns runs(m, w.input(0), {-1}, p.asymmetric);
  const Name sum = m.sums(runs.bytes(m), m.bytes_of(1, 0),
                          [&](auto&&... in) { return w.step("MatMulInteger", {in...}); });
  Name total = m.cast(sum, DType::f32);
  if (!runs.zero().empty()) {
    const Name of_b = m.reduced("ReduceSum", m.cast(w.input(1), DType::i64), {-2}, true);
    const Name zero = m.cast(looked_up(w, runs.zero()), DType::f32);
    total = m.sub(total, m.mul(m.cast(of_b, DType::f32), zero));
  }
  const Name cut = m.cast(m.cast(total, DType::i64), DType::f32);
  const Name y = m.mul(m.mul(looked_up(w, runs.scale()), m.reals(p.w_scales, 0)), cut);
  w.write("Add", {y, m.real(0)}, w.outputs());
}

constexpr WriterRow kRows[] = {
    {"tflite_hybrid_fully_connected", fully_connected},
    {"tflite_hybrid_conv", conv},
    {"tflite_hybrid_batch_matmul", batch_matmul},
};

}  // namespace

std::span<const WriterRow> hybrid_writers() { return kRows; }

}  // namespace etalon::onnx_format
