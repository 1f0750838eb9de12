// Ops that ONNX defines as functions of simpler ones: windows, grids, gates, crops.
#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

void swiglu(OnnxNode& n) {
  Body b(n);
  const ValueId gate = b.op("silu", {n.required(0)}, {{"alpha", n.number("alpha", 1.0F)}});
  n.give(0, b.mul(gate, n.required(1)));
  n.note("SwiGLU is imported as silu and mul");
}

// a0 - a1 cos(t) + a2 cos(2t), t = i * (2 pi / size), in f32 as ONNX's function body computes it.
void window(OnnxNode& n, float a0, float a1, float a2) {
  Body b(n);
  const ValueId size = b.cast(b.reshape(n.required(0), {}), DType::f32);
  const ValueId span = n.flag("periodic", true) ? size : b.sub(size, b.number(1.0F));
  const ValueId step = b.div(b.number(6.2831855F), span);
  const ValueId t = b.mul(b.op("range", {b.number(0.0F), size, b.number(1.0F)}), step);
  ValueId y = b.sub(b.number(a0), b.mul(b.number(a1), b.op("cos", {t})));
  if (a2 != 0) y = b.add(y, b.mul(b.number(a2), b.op("cos", {b.mul(t, b.number(2.0F))})));
  const std::int64_t type = n.integer("output_datatype", 1);
  n.give(0, b.cast(y, dtype_of_onnx(static_cast<std::int32_t>(type & 0xffff))));
  n.note(fmt::format("{} is imported as its cosines", n.type()));
}

// The entries of x along `axis` (none: of x flattened) where the condition holds; a condition
// shorter than the axis leaves the rest out.
void compress(OnnxNode& n) {
  Body b(n);
  const ValueId kept = b.squeeze(b.op("non_zero", {n.required(1)}), {0});
  if (n.has_attribute("axis")) {
    n.emit("gather", {{"axis", n.integer("axis", 0)}}, {n.required(0), kept}, {n.output(0)});
  } else {
    n.emit("gather", {}, {b.reshape(n.required(0), {-1}), kept}, {n.output(0)});
  }
  n.note("Compress is imported as non_zero and gather");
}

void center_crop_pad(OnnxNode& n) {
  Body b(n);
  const ValueId x = n.required(0), want = n.required(1), two = b.ints({2});
  const bool some = n.has_attribute("axes");
  const Ints axes = n.integers("axes");
  const auto part = [&](ValueId v) {
    const ValueId all = b.shape(v);
    return some ? b.op("gather", {all, b.ints(axes)}) : all;
  };
  const ValueId have = part(x), padded = b.op("max", {have, b.like(want, have)});
  const ValueId more = b.sub(padded, have), left = b.div(more, two);
  const ValueId pads = b.concat({left, b.sub(more, left)}, 0);
  std::vector<ValueId> in{x, pads};
  if (some) {
    in.push_back(kAbsent);
    in.push_back(b.ints(axes));
  }
  const ValueId wide = b.op("pad", in);
  const ValueId start = b.div(b.sub(part(wide), b.like(want, have)), two);
  std::vector<ValueId> cut{wide, start, b.add(start, b.like(want, have))};
  if (some) cut.push_back(b.ints(axes));
  n.emit("slice", {}, cut, {n.output(0)});
  n.note("CenterCropPad is imported as pad and slice");
}

// Coordinates -1 .. 1 of each axis (their centres, or their corners), taken through theta.
void affine_grid(OnnxNode& n) {
  Body b(n);
  const ValueId theta = n.required(0), size = n.required(1);
  const bool corners = n.flag("align_corners", false);
  const auto type = n.type_of(1);
  std::optional<std::int64_t> count;
  if (type && type->shape.rank() == 1) count = type->shape[0];
  if (!count || (*count != 4 && *count != 5))
    throw bad_input("the length of its size is not in the file; 4 (2-D) or 5 (3-D) are defined");
  const std::int64_t axes = *count - 2;
  const auto extent = [&](std::int64_t i) {
    return b.op("slice", {size}, {{"starts", Ints{i}}, {"ends", Ints{i + 1}}});
  };
  const ValueId one = b.number_like(1.0F, theta), two = b.number_like(2.0F, theta),
                minus_one = b.number_like(-1.0F, theta);
  const ValueId space = b.op("slice", {size}, {{"starts", Ints{2}}, {"ends", Ints{*count}}});
  const ValueId zeros = b.like(b.op("constant_of_shape", {space}), theta);
  std::vector<ValueId> coordinates;  // x first: the last axis
  for (std::int64_t i = axes - 1; i >= 0; --i) {
    const ValueId e = extent(2 + i), f = b.like(e, theta);
    const ValueId step = b.div(two, corners ? b.sub(f, one) : f);
    const ValueId start = corners ? minus_one : b.add(minus_one, b.div(step, two));
    // An axis of one point with aligned corners stays at its start: 0 steps of no length.
    ValueId along = b.mul(b.like(b.range(e), theta), step);
    if (corners) along = b.where(b.op("is_nan", {along}), b.number_like(0.0F, theta), along);
    ValueId line = b.add(start, along);
    Ints trailing;
    for (std::int64_t k = i + 1; k < axes; ++k) trailing.push_back(k - i);
    if (!trailing.empty()) line = b.unsqueeze(line, trailing);
    coordinates.push_back(b.unsqueeze(b.add(line, zeros), {axes}));
  }
  coordinates.push_back(b.unsqueeze(b.add(zeros, one), {axes}));
  const ValueId grid = b.reshape(b.concat(coordinates, axes), {-1, axes + 1});
  const ValueId moved = b.op("matmul", {theta, b.transpose(grid, {1, 0})});
  const ValueId to = b.concat({extent(0), space, b.ints({axes})}, 0);
  n.emit("reshape", {}, {b.transpose(moved, {0, 2, 1}), to}, {n.output(0)});
  n.note("AffineGrid is imported as its grid and a matmul");
}

// A depthwise convolution over what lies before: the last K - 1 points of the past come first.
void causal_conv(OnnxNode& n) {
  Body b(n);
  const ValueId x = n.required(0), w = n.required(1);
  const auto type = n.type_of(1);
  if (!type || type->shape.rank() != 3)
    throw bad_input("the shape of its weight is not in the file, and it decides the groups");
  const ValueId before = b.sub(b.extents(w, 2, 3), b.ints({1}));
  ValueId past = n.input(3);
  if (past == kAbsent) {
    const ValueId shape = b.concat({b.extents(x, 0, 2), before}, 0);
    past = b.like(b.op("constant_of_shape", {shape}), x);
  }
  const ValueId padded = b.concat({past, x}, 2);
  std::vector<ValueId> in{padded, w};
  if (n.has(2)) in.push_back(n.input(2));
  const std::string activation = n.text("activation", "none");
  const ValueId y = b.op("conv", in, {{"groups", type->shape[0]}});
  if (activation == "none") {
    n.give(0, y);
  } else if (activation == "silu" || activation == "swish") {
    const ValueId f = b.cast(y, DType::f32);
    n.give(0, b.like(b.mul(f, b.op("sigmoid", {f})), y));
  } else {
    throw bad_input("activation is '{}', expected none, silu or swish", printable(activation));
  }
  if (n.wants(1)) {
    const ValueId end = b.extents(padded, 2, 3);
    n.give(1, b.op("slice", {padded, b.sub(end, before), end, b.ints({2})}));
  }
  n.note("CausalConvWithState is imported as concat, conv and slice");
}

constexpr TranslatorRow kRows[] = {
    {"SwiGLU", swiglu},
    {"HannWindow", [](OnnxNode& n) { window(n, 0.5F, 0.5F, 0.0F); }},
    {"HammingWindow", [](OnnxNode& n) { window(n, 25.0F / 46.0F, 21.0F / 46.0F, 0.0F); }},
    {"BlackmanWindow", [](OnnxNode& n) { window(n, 0.42F, 0.5F, 0.08F); }},
    {"Compress", compress},
    {"CenterCropPad", center_crop_pad},
    {"AffineGrid", affine_grid},
    {"CausalConvWithState", causal_conv},
};

}  // namespace

std::span<const TranslatorRow> function_family() { return kRows; }

}  // namespace etalon::onnx_format
