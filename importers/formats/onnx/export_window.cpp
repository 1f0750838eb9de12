// Windows, normalisation and recurrent ops: those whose conventions take several attributes.
#include <algorithm>
#include <cmath>

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
  if (w.integer("divisor_override") != 0)
    throw usage_error("avg_pool with a divisor of its own has no form in ONNX");
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

void batch_norm(NodeWriter& w) {
  if (w.integer("axis") != 1 || !w.flag("spatial"))
    throw usage_error("batch_norm along axis {}{} has no form in ONNX", w.integer("axis"),
                      w.flag("spatial") ? "" : " with statistics for each place");
  set(w.write("BatchNormalization"), "epsilon", w.number("eps"));
}

void norm_from_axis(NodeWriter& w, std::string_view type) {
  pb::NodeProto& n = w.write(type);
  set(n, "axis", w.integer("axis"));
  set(n, "epsilon", w.number("eps"));
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

// RMSNormalization came with opset 23; here it is its steps.
void rms_norm(NodeWriter& w) {
  std::int64_t axis = w.integer("axis");
  if (axis >= 0) {
    const auto x = w.shape(0);
    if (!x) throw usage_error("rms_norm from axis {} on needs the input's rank known", axis);
    axis -= x->rank();
  }
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
  if (w.flag("longer_below"))
    throw usage_error("lrn over a window that is longer below has no form in ONNX");
  pb::NodeProto& n = w.write("LRN");
  const auto size = w.integer("size");
  set(n, "size", size);
  // alpha as ONNX divides it; exact where size is a power of two, else one rounding.
  set(n, "alpha",
      w.flag("alpha_divided") ? w.number("alpha") : w.number("alpha") * static_cast<float>(size));
  set(n, "beta", w.number("beta"));
  set(n, "bias", w.number("bias"));
}

void lp_norm(NodeWriter& w) {
  if (w.integers("axes").size() != 1 || w.number("eps") != 0)
    throw usage_error("lp_norm over several axes or with an epsilon has no form in ONNX");
  const std::int64_t p = whole_norm(w);
  if (p != 1 && p != 2) throw usage_error("lp_norm of order {} has no form in ONNX", p);
  pb::NodeProto& n = w.write("LpNormalization");
  set(n, "axis", w.integers("axes")[0]);
  set(n, "p", p);
}

void mean_variance(NodeWriter& w) {
  if (!w.flag("normalize_variance") || w.number("eps") != 1e-9F)
    throw usage_error("mean_variance_normalization of this form has no form in ONNX");
  set(w.write("MeanVarianceNormalization"), "axes", w.integers("axes"));
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
  if (where == "tf_half_pixel_for_nn" || w.text("coordinates") != "f64")
    throw usage_error("resize with these coordinates has no form in opset 21");
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
    {"instance_norm",
     [](NodeWriter& w) {
       if (!w.has(1) || !w.has(2))
         throw usage_error(
             "instance_norm without scale and bias has no form in ONNX, which demands both");
       set(w.write("InstanceNormalization"), "epsilon", w.number("eps"));
     }},
    {"layer_norm",
     [](NodeWriter& w) {
       if (!w.has(1))
         throw usage_error("layer_norm without a scale has no form in ONNX, which demands one");
       norm_from_axis(w, "LayerNormalization");
     }},
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
