// GridSample, TensorScatter and MaxUnpool, by the gathers and scatters that they are.
#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

// One axis of a sampled image: for each tap its place (an integer, as a float) and its weight.
struct Tap {
  ValueId place, weight;  // weight kAbsent: 1
};

class Sampling {
 public:
  Sampling(Body& body, ValueId image, ValueId type)
      : b(body),
        x_(image),
        type_(type),
        zero_(number(0.0F)),
        one_(number(1.0F)),
        half_(number(0.5F)) {
    OnnxNode& n = b.n;
    corners_ = n.flag("align_corners", false);
    padding_ = n.text("padding_mode", "zeros");
    mode_ = n.text("mode", n.opset() >= 20 ? "linear" : "bilinear");
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection")
      throw bad_input("padding_mode is '{}'", printable(padding_));
    if (mode_ == "bilinear") mode_ = "linear";
    if (mode_ == "bicubic") mode_ = "cubic";
    if (mode_ != "linear" && mode_ != "nearest" && mode_ != "cubic")
      throw bad_input("mode is '{}'", printable(mode_));
  }

  std::vector<Tap> taps(ValueId grid, std::int64_t axis) {
    const ValueId extent = b.like(b.extents(x_, 2 + axis, 3 + axis), type_);
    last_ = b.sub(extent, one_);
    low_ = corners_ ? zero_ : number(-0.5F);
    span_ = corners_ ? last_ : extent;
    const ValueId beyond = b.add(grid, one_);
    ValueId x = corners_ ? b.mul(b.mul(beyond, half_), last_)
                         : b.mul(b.sub(b.mul(beyond, extent), one_), half_);
    if (mode_ == "nearest") x = b.op("round", {x});
    if (padding_ == "border") x = held(x);
    if (padding_ == "reflection") x = reflected(x);
    if (mode_ == "nearest") return {tap(x, kAbsent)};
    const ValueId first = b.op("floor", {x}), f = b.sub(x, first), g = b.sub(one_, f);
    if (mode_ == "linear") return {tap(first, g), tap(b.add(first, one_), f)};
    // Keys' kernel with a = -3/4, at distances 1 + f, f, 1 - f, 2 - f.
    return {tap(b.sub(first, one_), far(b.add(f, one_))), tap(first, near(f)),
            tap(b.add(first, one_), near(g)), tap(b.add(first, number(2.0F)), far(b.add(g, one_)))};
  }

 private:
  ValueId number(float v) { return b.number_like(v, type_); }
  ValueId held(ValueId x) { return b.op("min", {b.op("max", {x, zero_}), last_}); }
  // To and fro between the borders: the distance from the first, modulo twice the span.
  ValueId reflected(ValueId x) {
    const ValueId twice = b.mul(span_, number(2.0F));
    const ValueId t = b.op("mod", {b.op("abs", {b.sub(x, low_)}), twice}, {{"fmod", true}});
    const ValueId back = b.op("min", {t, b.sub(twice, t)});
    return b.add(low_, back);
  }
  ValueId far(ValueId d) {
    // ((a d - 5a) d + 8a) d - 4a
    ValueId v = b.add(b.mul(number(-0.75F), d), number(3.75F));
    v = b.add(b.mul(v, d), number(-6.0F));
    return b.add(b.mul(v, d), number(3.0F));
  }
  ValueId near(ValueId d) {
    // ((a + 2) d - (a + 3)) d d + 1
    const ValueId v = b.sub(b.mul(number(1.25F), d), number(2.25F));
    return b.add(b.mul(b.mul(v, d), d), one_);
  }
  Tap tap(ValueId place, ValueId weight) {
    if (padding_ == "reflection") place = reflected(place);
    if (padding_ == "zeros") {
      const ValueId inside = b.op(
          "and", {b.op("less_or_equal", {zero_, place}), b.op("less_or_equal", {place, last_})});
      weight = b.where(inside, weight == kAbsent ? one_ : weight, zero_);
    }
    return {held(place), weight};
  }

  Body& b;
  ValueId x_, type_, zero_, one_, half_;
  ValueId last_ = kAbsent, low_ = kAbsent, span_ = kAbsent;
  bool corners_ = false;
  std::string padding_, mode_;
};

void grid_sample(OnnxNode& n) {
  Body b(n);
  const ValueId x = n.required(0), grid = n.required(1);
  const int rank = n.rank_of(0, "how many axes are sampled");
  if (rank < 3) throw bad_input("x must have batch, channels and space, got rank {}", rank);
  const std::int64_t axes = rank - 2;
  Sampling sampling(b, x, grid);
  const ValueId flat = b.reshape(x, {0, 0, -1}), points = b.reshape(grid, {0, -1, axes});
  const ValueId all = b.concat({b.extents(x, 0, 2), b.extents(points, 1, 2)}, 0);
  // Place in the flat image and weight of every combination of taps, axis by axis.
  std::vector<Tap> met{{kAbsent, kAbsent}};
  for (std::int64_t d = 0; d < axes; ++d) {
    const ValueId g =
        b.op("gather", {points, b.integer(axes - 1 - d)}, {{"axis", std::int64_t{2}}});
    const ValueId extent = b.extents(x, 2 + d, 3 + d);
    std::vector<Tap> next;
    for (const Tap& t : sampling.taps(g, d)) {
      const ValueId place = b.cast(t.place, DType::i64);
      for (const Tap& m : met) {
        Tap both{m.place == kAbsent ? place : b.add(b.mul(m.place, extent), place), m.weight};
        if (t.weight != kAbsent)
          both.weight = m.weight == kAbsent ? t.weight : b.mul(m.weight, t.weight);
        next.push_back(both);
      }
    }
    met = std::move(next);
  }
  ValueId sum = kAbsent;
  for (const Tap& m : met) {
    const ValueId at = b.op("expand", {b.unsqueeze(m.place, {1}), all});
    ValueId v = b.op("gather_elements", {flat, at}, {{"axis", std::int64_t{2}}});
    if (m.weight != kAbsent) v = b.mul(v, b.like(b.unsqueeze(m.weight, {1}), x));
    sum = sum == kAbsent ? v : b.add(sum, v);
  }
  const ValueId shape = b.concat({b.extents(x, 0, 2), b.extents(grid, 1, axes + 1)}, 0);
  n.emit("reshape", {}, {sum, shape}, {n.output(0)});
  n.note("GridSample is imported as its weighted gathers");
}

// The update goes into the cache along `axis` from each sample's write index on.
void tensor_scatter(OnnxNode& n) {
  Body b(n);
  const ValueId past = n.required(0), update = n.required(1);
  const int rank = n.rank_of(1, "along which axis the update lies");
  const int axis = normalize_axis(n.integer("axis", -2), rank);
  if (axis == 0) throw bad_input("axis 0 is the batch; the update cannot lie along it");
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    throw bad_input("mode is '{}', expected linear or circular", printable(mode));
  Ints along;
  for (int k = 0; k < rank; ++k)
    if (k != axis) along.push_back(k);
  ValueId at = b.unsqueeze(b.range(b.extents(update, axis, axis + 1)), along);
  if (n.has(2)) {
    Ints trailing;
    for (int k = 1; k < rank; ++k) trailing.push_back(k);
    at = b.add(at, b.unsqueeze(n.input(2), trailing));
  }
  if (mode == "circular") at = b.op("mod", {at, b.extents(past, axis, axis + 1)});
  const ValueId indices = b.op("expand", {at, b.shape(update)});
  n.emit("scatter_elements", {{"axis", std::int64_t{axis}}}, {past, indices, update},
         {n.output(0)});
  n.note("TensorScatter is imported as scatter_elements");
}

// Zeros, with each x where the flat index of the whole tensor says.
void max_unpool(OnnxNode& n) {
  Body b(n);
  const Ints kernel = n.integers("kernel_shape");
  Ints pads = n.integers("pads"), strides = n.integers("strides");
  const ValueId x = n.required(0);
  pads.resize(2 * kernel.size(), 0);
  strides.resize(kernel.size(), 1);
  // The extents that the pool had; indices count in these. Where output_shape asks
  // for more, zeros follow at the ends.
  std::vector<ValueId> dims{b.extents(x, 0, 2)};
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    const ValueId in = b.extents(x, 2 + axis, 3 + axis);
    dims.push_back(b.add(b.mul(b.sub(in, b.ints({1})), b.ints({strides[d]})),
                         b.ints({kernel[d] - pads[d] - pads[d + kernel.size()]})));
  }
  const ValueId shape = b.concat(dims, 0);
  const ValueId zeros = b.like(b.op("constant_of_shape", {shape}), x);
  const ValueId flat =
      b.op("scatter_elements",
           {b.reshape(zeros, {-1}), b.reshape(n.required(1), {-1}), b.reshape(x, {-1})});
  ValueId y = b.op("reshape", {flat, shape});
  if (n.has(2)) {
    const ValueId more = b.sub(n.input(2), shape);
    y = b.op("pad", {y, b.concat({b.sub(more, more), more}, 0)});
  }
  n.give(0, y);
  n.note("MaxUnpool is imported as scatter_elements");
}

constexpr TranslatorRow kRows[] = {
    {"GridSample", grid_sample},
    {"TensorScatter", tensor_scatter},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const TranslatorRow> sampling_family() { return kRows; }

}  // namespace etalon::onnx_format
