// Windows, normalisation and recurrent ops: those whose conventions take several attributes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

void pads(NodeWriter& w, pb::NodeProto& n) {
  Ints begin = w.integers("pads_begin"), end = w.integers("pads_end");
  begin.resize(std::max(begin.size(), end.size()), 0);
  end.resize(begin.size(), 0);
  begin.insert(begin.end(), end.begin(), end.end());
  if (!begin.empty()) set(n, "pads", begin);
}

void steps(NodeWriter& w, pb::NodeProto& n) {
  for (const std::string_view field : {"strides", "dilations"})
    if (!w.integers(field).empty()) set(n, field, w.integers(field));
}

void window(NodeWriter& w, pb::NodeProto& n, bool ceil_mode) {
  const std::string& auto_pad = w.text("auto_pad");
  if (auto_pad == "explicit")
    pads(w, n);
  else
    set(n, "auto_pad",
        auto_pad == "valid"        ? "VALID"
        : auto_pad == "same_upper" ? "SAME_UPPER"
                                   : "SAME_LOWER");
  steps(w, n);
  if (ceil_mode) set(n, "ceil_mode", std::int64_t{w.flag("ceil_mode")});
}

void conv(NodeWriter& w) {
  pb::NodeProto& n = w.write("Conv");
  window(w, n, false);
  set(n, "group", w.integer("groups"));
}

// Conv between two transpositions: ONNX's channels come first.
void conv_channels_last(NodeWriter& w) {
  const std::optional<Shape> weights = w.shape(1);
  if (!weights)
    throw usage_error("conv_channels_last with weights of unknown rank has no form in ONNX");
  Ints first{0, weights->rank() - 1}, last{0};
  for (std::int64_t i = 1; i + 1 < weights->rank(); ++i) {
    first.push_back(i);
    last.push_back(i + 1);
  }
  last.push_back(1);
  std::vector<std::string> in = w.inputs();
  const std::string x = w.new_name("first"), y = w.new_name("convolved");
  set(w.write("Transpose", {in[0]}, {x}), "perm", first);
  in[0] = x;
  pb::NodeProto& n = w.write("Conv", in, {y});
  window(w, n, false);
  set(n, "group", w.integer("groups"));
  set(w.write("Transpose", {y}, w.outputs()), "perm", last);
}

pb::NodeProto& pool(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type);
  set(n, "kernel_shape", w.integers("kernel"));
  window(w, n, true);
  return n;
}

void max_pool(NodeWriter& w) {
  const bool indices = w.node().outputs.size() > 1 && w.node().outputs[1] != kAbsent;
  if (indices && w.text("indices") != "tensor")
    throw usage_error("max_pool indices within a plane have no form in ONNX");
  set(pool(w, "MaxPool"), "storage_order", std::int64_t{w.flag("column_major")});
}

void avg_pool(NodeWriter& w) {
  if (const std::int64_t divisor = w.integer("divisor_override"); divisor != 0) {
    if (w.flag("ceil_mode"))
      throw usage_error("avg_pool with a divisor of its own and ceil_mode has no form in ONNX");
    // The mean over the whole window, times its points.
    double points = 1;
    for (const std::int64_t k : w.integers("kernel")) points *= static_cast<double>(k);
    const std::string mean = w.new_name("mean");
    pb::NodeProto& n = w.write("AveragePool", {w.input(0)}, {mean});
    set(n, "kernel_shape", w.integers("kernel"));
    window(w, n, true);
    set(n, "count_include_pad", std::int64_t{1});
    w.write("Mul",
            {mean, w.number_constant("points",
                                     static_cast<float>(points / static_cast<double>(divisor)))},
            w.outputs());
    return;
  }
  set(pool(w, "AveragePool"), "count_include_pad", std::int64_t{w.flag("count_include_pad")});
}

std::int64_t whole_norm(NodeWriter& w) {
  const float p = w.number("p");
  if (p != std::trunc(p) || std::abs(p) > 1e6F)
    throw usage_error("a norm of order {} has no form in ONNX, which takes whole orders", p);
  return static_cast<std::int64_t>(p);
}

void gemm(NodeWriter& w) {
  pb::NodeProto& n = w.write("Gemm");
  set(n, "alpha", w.number("alpha"));
  set(n, "beta", w.number("beta"));
  set(n, "transA", std::int64_t{w.flag("trans_a")});
  set(n, "transB", std::int64_t{w.flag("trans_b")});
}

void conv_transpose(NodeWriter& w) {
  pb::NodeProto& n = w.write("ConvTranspose");
  window(w, n, false);
  set(n, "group", w.integer("groups"));
  for (const std::string_view field : {"output_padding", "output_shape"})
    if (!w.integers(field).empty()) set(n, field, w.integers(field));
}

void col2im(NodeWriter& w) {
  std::vector<std::string> in{w.input(0)};
  for (const auto& [i, field] : {std::pair{1U, "image_shape"}, {2U, "block_shape"}})
    in.push_back(w.has(i) ? w.input(i) : w.constant(field, w.integers(field)));
  pb::NodeProto& n = w.write("Col2Im", in, w.outputs());
  pads(w, n);
  steps(w, n);
}

// Along another axis, or with statistics for each place.
void batch_norm_in_steps(NodeWriter& w) {
  const auto along = [&](std::size_t i) {
    if (!w.flag("spatial")) return w.input(i);
    const auto rank = static_cast<std::int64_t>(w.extents(0).size());
    const std::int64_t axis = w.integer("axis") + (w.integer("axis") < 0 ? rank : 0);
    Ints shape(static_cast<std::size_t>(rank - axis), 1);
    shape[0] = -1;
    return w.step("Reshape", {w.input(i), w.constant("shape", shape)});
  };
  const std::string eps = w.number_constant("eps", w.number("eps"));
  const std::string root = w.step("Sqrt", {w.step("Add", {along(4), eps})});
  const std::string factor = w.step("Div", {along(1), root});
  const std::string apart = w.step("Sub", {w.input(0), along(3)});
  w.write("Add", {w.step("Mul", {apart, factor}), along(2)}, w.outputs());
}

void batch_norm(NodeWriter& w) {
  if (w.integer("axis") != 1 || !w.flag("spatial")) return batch_norm_in_steps(w);
  set(w.write("BatchNormalization"), "epsilon", w.number("eps"));
}

// One number for each group as one for each channel, which opset 21 takes.
std::string by_channel(NodeWriter& w, std::size_t i, std::int64_t groups, std::int64_t channels) {
  const std::string column = w.step("Reshape", {w.input(i), w.constant("column", Ints{groups, 1})});
  const std::string wide =
      w.step("Expand", {column, w.constant("wide", Ints{groups, channels / groups})});
  return w.step("Reshape", {wide, w.constant("channels", Ints{channels})});
}

void group_norm(NodeWriter& w) {
  std::vector<std::string> in = w.inputs();
  const std::int64_t groups = w.integer("groups");
  if (w.flag("scale_per_group")) {
    const auto x = w.shape(0);
    if (!x || groups < 1 || x->rank() < 2)
      throw usage_error("group_norm with a scale for each group needs the input's channels known");
    for (const std::size_t i : {1U, 2U})
      if (w.has(i)) in[i] = by_channel(w, i, groups, x->dim(1));
  }
  pb::NodeProto& n = w.write("GroupNormalization", in, w.outputs());
  set(n, "num_groups", groups);
  set(n, "epsilon", w.number("eps"));
}

// RMSNormalization came with opset 23; for a model of an older one it is its steps.
void rms_norm(NodeWriter& w) {
  if (w.came_with(23) && w.has(1)) {
    w.need_opset(23);
    pb::NodeProto& n = w.write("RMSNormalization");
    set(n, "axis", w.integer("axis"));
    set(n, "epsilon", w.number("eps"));
    return;
  }
  std::int64_t axis = w.integer("axis");
  if (axis >= 0) axis -= static_cast<std::int64_t>(w.extents(0).size());
  Ints axes;
  for (; axis < 0; ++axis) axes.push_back(axis);
  const std::string square = w.step("Mul", {w.input(0), w.input(0)});
  const std::string mean = w.step("ReduceMean", {square, w.constant("axes", axes)});
  const std::string root =
      w.step("Sqrt", {w.step("Add", {mean, w.number_constant("eps", w.number("eps"))})});
  const bool scaled = w.has(1);
  if (!scaled) {
    w.write("Div", {w.input(0), root}, w.outputs());
    return;
  }
  w.write("Mul", {w.step("Div", {w.input(0), root}), w.input(1)}, w.outputs());
}

void lrn(NodeWriter& w) {
  // A window that is longer below is one of the channels turned about.
  const bool turned = w.flag("longer_below");
  const auto about = [&](const std::string& x) {
    return std::vector<std::string>{
        x, w.constant("start", Ints{-1}),
        w.constant("end", Ints{std::numeric_limits<std::int64_t>::min()}),
        w.constant("axis", Ints{1}), w.constant("step", Ints{-1})};
  };
  const std::string y = turned ? w.new_name("turned") : w.output(0);
  pb::NodeProto& n =
      w.write("LRN", {turned ? w.step("Slice", about(w.input(0))) : w.input(0)}, {y});
  if (turned) w.write("Slice", about(y), w.outputs());
  const auto size = w.integer("size");
  set(n, "size", size);
  // alpha as ONNX divides it; exact where size is a power of two, else one rounding.
  set(n, "alpha",
      w.flag("alpha_divided") ? w.number("alpha") : w.number("alpha") * static_cast<float>(size));
  set(n, "beta", w.number("beta"));
  set(n, "bias", w.number("bias"));
}

// A row whose norm is 0 keeps its zeros.
void lp_norm(NodeWriter& w) {
  const std::int64_t p = whole_norm(w);
  const Ints& axes = w.integers("axes");
  const float eps = w.number("eps");
  if (axes.size() == 1 && eps == 0 && (p == 1 || p == 2)) {
    pb::NodeProto& n = w.write("LpNormalization");
    set(n, "axis", axes[0]);
    set(n, "p", p);
    return;
  }
  const std::string x = w.input(0), order = w.number_constant("order", static_cast<float>(p));
  const std::string size = w.step("Abs", {x});
  const std::string powers = p == 1   ? size
                             : p == 2 ? w.step("Mul", {x, x})
                                      : w.step("Pow", {size, order});
  std::string sum = w.step("ReduceSum", {powers, w.constant("axes", axes)});
  const std::string least = w.number_constant("eps", eps);
  const std::string& where = w.text("eps_in");
  if (eps != 0 && where != "norm_max")
    sum = w.step(where == "sum_add" ? "Add" : "Max", {sum, least});
  std::string norm = p == 1   ? sum
                     : p == 2 ? w.step("Sqrt", {sum})
                              : w.step("Pow", {sum, w.step("Reciprocal", {order})});
  if (eps != 0 && where == "norm_max") norm = w.step("Max", {norm, least});
  const std::string none = w.step("Equal", {norm, w.number_constant("zero", 0)});
  w.write("Where", {none, x, w.step("Div", {x, norm})}, w.outputs());
}

void mean_variance(NodeWriter& w) {
  if (w.flag("normalize_variance") && w.number("eps") == 1e-9F) {
    set(w.write("MeanVarianceNormalization"), "axes", w.integers("axes"));
    return;
  }
  const std::string axes = w.constant("axes", w.integers("axes"));
  const std::vector<std::string> apart{w.input(0), w.step("ReduceMean", {w.input(0), axes})};
  if (!w.flag("normalize_variance")) {
    w.write("Sub", apart, w.outputs());
    return;
  }
  const std::string d = w.step("Sub", apart);
  const std::string variance = w.step("ReduceMean", {w.step("Mul", {d, d}), axes});
  const std::string root =
      w.step("Add", {w.step("Sqrt", {variance}), w.number_constant("eps", w.number("eps"))});
  w.write("Div", {d, root}, w.outputs());
}

// A scale of ones, or a bias of zeros, where ONNX demands one: as long as the channels, or as what
// is normalised.
std::string given_or(NodeWriter& w, std::size_t i, float value, const Ints& extents) {
  if (w.has(i)) return w.input(i);
  if (std::ranges::find(extents, -1) != extents.end())
    throw usage_error("a norm without its scale over a free extent has no form in ONNX");
  return w.step("Expand", {w.number_constant("value", value), w.constant("extents", extents)});
}

void instance_norm(NodeWriter& w) {
  const Ints channels{w.extents(0).at(1)};
  set(w.write("InstanceNormalization",
              {w.input(0), given_or(w, 1, 1, channels), given_or(w, 2, 0, channels)}, w.outputs()),
      "epsilon", w.number("eps"));
}

void layer_norm(NodeWriter& w) {
  std::vector<std::string> in = w.inputs();
  in.resize(3);
  if (!w.has(1)) {
    const Ints all = w.extents(0);
    const std::int64_t axis =
        w.integer("axis") + (w.integer("axis") < 0 ? static_cast<std::int64_t>(all.size()) : 0);
    in[1] = given_or(w, 1, 1, Ints(all.begin() + axis, all.end()));
  }
  pb::NodeProto& n = w.write("LayerNormalization", in, w.outputs());
  set(n, "axis", w.integer("axis"));
  set(n, "epsilon", w.number("eps"));
}

void quantize(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type);
  set(n, "axis", w.integer("axis"));
  set(n, "block_size", w.integer("block_size"));
  if (!w.text("output_dtype").empty() && type == "QuantizeLinear")
    set(n, "output_dtype", w.dtype_of("output_dtype"));
}

void resize(NodeWriter& w) {
  const std::string& where = w.text("coordinate_transformation_mode");
  // Where coordinates are rounded to f32 decides which element is the nearest, and else last bits.
  if (where == "tf_half_pixel_for_nn" ||
      (w.text("coordinates") != "f64" && w.text("mode") == "nearest"))
    throw usage_error("resize with these coordinates has no form in ONNX's opset 21");
  const auto floats = [&](std::size_t i, std::string_view field) {
    const auto& values = w.param<std::vector<float>>(field);
    if (w.has(i)) return w.input(i);
    if (values.empty()) return std::string();
    return w.constant(field, Tensor::of<float>({static_cast<std::int64_t>(values.size())},
                                               std::span<const float>(values)));
  };
  const std::string roi = floats(1, "roi"), scales = floats(2, "scales");
  pb::NodeProto& n =
      w.write("Resize", {w.input(0), roi, scales, w.input_or(3, "sizes")}, w.outputs());
  for (const std::string_view field :
       {"mode", "coordinate_transformation_mode", "nearest_mode", "keep_aspect_ratio_policy"})
    set(n, field, w.text(field));
  set(n, "cubic_coeff_a", w.number("cubic_coeff_a"));
  set(n, "exclude_outside", std::int64_t{w.flag("exclude_outside")});
  set(n, "antialias", std::int64_t{w.flag("antialias")});
  set(n, "extrapolation_value", w.number("extrapolation_value"));
  if (!w.integers("axes").empty()) set(n, "axes", w.integers("axes"));
}

constexpr WriterRow kRows[] = {
    {"conv", conv},
    {"conv_channels_last", conv_channels_last},
    {"conv_transpose", conv_transpose},
    {"col2im", col2im},
    {"batch_norm", batch_norm},
    {"instance_norm", instance_norm},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"group_norm", group_norm},
    {"lrn", lrn},
    {"lp_norm", lp_norm},
    {"mean_variance_normalization", mean_variance},
    {"quantize_linear", [](NodeWriter& w) { quantize(w, "QuantizeLinear"); }},
    {"dequantize_linear", [](NodeWriter& w) { quantize(w, "DequantizeLinear"); }},
    {"resize", resize},
    {"gemm", gemm},
    {"matmul", [](NodeWriter& w) { w.write("MatMul"); }},
    {"max_pool", max_pool},
    {"avg_pool", avg_pool},
    {"lp_pool", [](NodeWriter& w) { set(pool(w, "LpPool"), "p", whole_norm(w)); }},
    {"global_max_pool", [](NodeWriter& w) { w.write("GlobalMaxPool"); }},
    {"global_avg_pool", [](NodeWriter& w) { w.write("GlobalAveragePool"); }},
    {"global_lp_pool", [](NodeWriter& w) { set(w.write("GlobalLpPool"), "p", whole_norm(w)); }},
};

}  // namespace

std::span<const WriterRow> window_writers() { return kRows; }

}  // namespace etalon::onnx_format
