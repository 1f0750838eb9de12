// Convolutions, pools, resizing.
//
// An op that is named for its axes (conv2d) takes an input with a batch, or one without, which gets
// a batch of one. An adaptive pool whose windows differ is a mean (or maximum) of
// each window.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"_convolution",
     {"input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
      "groups", "benchmark", "deterministic", "cudnn_enabled", "allow_tf32"}},
    {"convolution",
     {"input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
      "groups"}},
    {"_convolution_mode", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv1d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv2d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv3d", {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}},
    {"conv_transpose1d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"conv_transpose2d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"conv_transpose3d",
     {"input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"}},
    {"max_pool1d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool2d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool3d", {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool2d_with_indices",
     {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool1d_with_indices",
     {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"max_pool3d_with_indices",
     {"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
    {"avg_pool1d", {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"}},
    {"avg_pool2d",
     {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
      "divisor_override"}},
    {"avg_pool3d",
     {"self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
      "divisor_override"}},
    {"adaptive_avg_pool1d", {"self", "output_size"}},
    {"adaptive_avg_pool2d", {"self", "output_size"}},
    {"adaptive_avg_pool3d", {"self", "output_size"}},
    {"_adaptive_avg_pool2d", {"self", "output_size"}},
    {"_adaptive_avg_pool3d", {"self", "output_size"}},
    {"adaptive_max_pool1d", {"self", "output_size"}},
    {"adaptive_max_pool2d", {"self", "output_size"}},
    {"adaptive_max_pool3d", {"self", "output_size"}},
    {"col2im", {"self", "output_size", "kernel_size", "dilation", "padding", "stride"}},
    {"upsample_nearest1d", {"self", "output_size", "scale_factors"}},
    {"upsample_nearest2d", {"self", "output_size", "scale_factors"}},
    {"upsample_nearest3d", {"self", "output_size", "scale_factors"}},
    {"_upsample_nearest_exact1d", {"self", "output_size", "scale_factors"}},
    {"_upsample_nearest_exact2d", {"self", "output_size", "scale_factors"}},
    {"_upsample_nearest_exact3d", {"self", "output_size", "scale_factors"}},
    {"upsample_linear1d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_bilinear2d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_trilinear3d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"upsample_bicubic2d", {"self", "output_size", "align_corners", "scale_factors"}},
    {"_upsample_bilinear2d_aa", {"self", "output_size", "align_corners", "scale_factors"}},
    {"_upsample_bicubic2d_aa", {"self", "output_size", "align_corners", "scale_factors"}},
};

Ints spread(Ints v, std::size_t axes) {
  if (v.size() == 1) v.resize(axes, v[0]);
  return v;
}

// The spatial axes of x, as the op's name counts them (conv2d has two).
std::size_t spatial_axes(GraphBuilder& b, const std::string& op, ValueId x) {
  const int axes = b.rank(x) - 2;
  for (const char digit : {'1', '2', '3'})
    if (op.find(std::string(1, digit) + "d") != op.npos && axes != digit - '0')
      throw AtenUnknown{fmt::format("{} of an input of rank {}", op, b.rank(x))};
  if (axes < 1 || axes > 3) throw bad_input("{} of an input of rank {}", op, b.rank(x));
  return static_cast<std::size_t>(axes);
}

ValueId convolution(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  const std::size_t axes = spatial_axes(b, op, x);
  std::vector<ValueId> in{x, c.tensor("weight")};
  if (c.tensor("bias") != kAbsent) in.push_back(c.tensor("bias"));
  Fields fields{{"strides", spread(c.ints("stride", {1}), axes)},
                {"dilations", spread(c.ints("dilation", {1}), axes)},
                {"groups", c.integer("groups", 1)}};
  const AtenValue* padding = c.find("padding");
  if (padding != nullptr && padding->kind == Kind::text) {
    // "same" pads the odd element at the end; "valid" pads nothing.
    if (padding->text == "same") fields.emplace_back("auto_pad", std::string("same_upper"));
  } else {
    const Ints pad = spread(c.ints("padding", {0}), axes);
    fields.emplace_back("pads_begin", pad);
    fields.emplace_back("pads_end", pad);
  }
  const bool transposed = op.starts_with("conv_transpose") || c.flag("transposed", false);
  if (transposed)
    fields.emplace_back("output_padding", spread(c.ints("output_padding", {0}), axes));
  return b.op(transposed ? "conv_transpose" : "conv", name, in, fields);
}

ValueId pooling(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                const AtenCall& c) {
  const std::size_t axes = spatial_axes(b, op, x);
  const Ints kernel = spread(c.ints("kernel_size", {1}), axes),
             pad = spread(c.ints("padding", {0}), axes);
  Fields fields{{"kernel", kernel},
                {"strides", spread(c.ints("stride", kernel), axes)},
                {"pads_begin", pad},
                {"pads_end", pad},
                {"ceil_mode", c.flag("ceil_mode", false)}};
  if (op.starts_with("max")) {
    fields.emplace_back("dilations", spread(c.ints("dilation", {1}), axes));
    return b.op("max_pool", name, {x}, fields);
  }
  fields.emplace_back("count_include_pad", c.flag("count_include_pad", true));
  fields.emplace_back("divisor_override", c.integer("divisor_override", 0));
  return b.op("avg_pool", name, {x}, fields);
}

using Scales = std::vector<double>;

// Of the spatial axes: a list, or scales_h and scales_w; empty where there are none.
Scales scales_of(const AtenCall& c) {
  Scales out;
  const auto add = [&](const AtenValue& v) {
    if (v.kind != Kind::number && (v.kind != Kind::integer || v.free))
      throw AtenUnknown{"a scale that is no known number"};
    out.push_back(v.kind == Kind::number ? v.number : static_cast<double>(v.integer));
  };
  if (const AtenValue* v = c.find("scale_factors"); v != nullptr) {
    if (v->kind != Kind::list) throw AtenUnknown{"scales that are no list"};
    for (const AtenValue& i : v->items) add(i);
  }
  for (const char* key : {"scales", "scales_d", "scales_h", "scales_w"})
    if (const AtenValue* v = c.find(key); v != nullptr) add(*v);
  return out;
}

// scales of the last axes, or their sizes.
ValueId resize(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
               const AtenCall& c) {
  const auto axes = static_cast<std::int64_t>(spatial_axes(b, op, x));
  const bool nearest = op.find("nearest") != op.npos, cubic = op.find("cubic") != op.npos,
             exact = op.find("exact") != op.npos, smooth = op.ends_with("_aa");
  Fields f{{"mode", std::string(nearest ? "nearest"
                                : cubic ? "cubic"
                                        : "linear")},
           {"coordinate_transformation_mode",
            std::string(exact                            ? "half_pixel"
                        : nearest                        ? "asymmetric"
                        : c.flag("align_corners", false) ? "align_corners"
                                                         : "half_pixel")}};
  // The pixel below the middle: floor((i + 0.5) / scale), which is (i + 0.5) / scale - 0.5 rounded,
  // halves up.
  if (nearest) f.emplace_back("nearest_mode", std::string(exact ? "round_prefer_ceil" : "floor"));
  if (cubic) f.emplace_back("cubic_coeff_a", smooth ? -0.5F : -0.75F);
  if (smooth) {
    f.emplace_back("antialias", true);
    f.emplace_back("exclude_outside", true);
  }
  Ints last;
  for (std::int64_t a = 0; a < axes; ++a) last.push_back(2 + a);
  f.emplace_back("axes", last);
  const Scales scales = scales_of(c);
  const AtenValue* sizes_given = c.find("output_size");
  if (!scales.empty() && sizes_given == nullptr) {
    f.emplace_back("scales", std::vector<float>(scales.begin(), scales.end()));
  } else {
    const Ints sizes = free_extents(c, "output_size"), dims = b.dims(x);
    if (static_cast<std::int64_t>(sizes.size()) != axes ||
        std::ranges::any_of(sizes, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{"a resize to a free extent"};
    // A scale beside the size is what places the pixels; here the sizes do.
    for (std::size_t a = 0; a < scales.size(); ++a)
      if (a + 2 >= dims.size() || dims[a + 2] < 1 ||
          static_cast<double>(sizes[a]) != scales[a] * static_cast<double>(dims[a + 2]))
        throw AtenUnknown{op + " whose scales are not those of its sizes"};
    f.emplace_back("sizes", sizes);
  }
  b.note(fmt::format("{}: {}", op,
                     exact     ? "pixels by floor((i + 0.5) / scale)"
                     : nearest ? "pixels by floor(i / scale)"
                     : c.flag("align_corners", false)
                         ? "corners are aligned"
                         : "centres of pixels are aligned (align_corners false)"));
  return b.op("resize", name, {x}, f);
}

ValueId adaptive(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                 const AtenCall& c, bool average) {
  const std::size_t axes = spatial_axes(b, op, x);
  Ints out = c.ints("output_size", {1});
  const Ints dims = b.dims(x);
  out.resize(axes, out[0]);
  if (std::ranges::all_of(out, [](std::int64_t o) { return o == 1; }))
    return b.op(average ? "global_avg_pool" : "global_max_pool", name, {x});
  std::int64_t windows = 1;
  bool even = true;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t in = dims[a + 2];
    if (in < 1 || in > 1LL << 40) throw AtenUnknown{"an adaptive pool of a free extent"};
    if (out[a] < 1 || out[a] > 4096) throw bad_input("{} windows", out[a]);
    even = even && in % out[a] == 0;
    windows *= out[a];
  }
  if (!even && windows > 1024)
    throw AtenUnknown{"an adaptive pool of more than 1024 uneven windows"};
  return adaptive_pool(b, name, x, out, average);
}

// A pool, and beside it one that names the places in their plane; where nobody reads these it is
// dropped.
AtenOutputs with_indices(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                         const AtenCall& c) {
  const std::size_t axes = spatial_axes(b, op, x);
  const Ints kernel = spread(c.ints("kernel_size", {1}), axes),
             pad = spread(c.ints("padding", {0}), axes);
  const Fields fields{{"kernel", kernel},
                      {"strides", spread(c.ints("stride", kernel), axes)},
                      {"dilations", spread(c.ints("dilation", {1}), axes)},
                      {"pads_begin", pad},
                      {"pads_end", pad},
                      {"ceil_mode", c.flag("ceil_mode", false)},
                      {"indices", std::string("plane")}};
  return {pooling(b, op, name, x, c), b.nodes("max_pool", name + ".places", {x},
                                              make_params(get_op("max_pool"), fields), 2)[1]};
}

// An input without a batch: a batch of one, which is taken away again.
AtenOutputs batched(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  AtenCall one = c;
  one.args[c.args.contains("self") ? "self" : "input"] =
      AtenValue::of(b.op("unsqueeze", name + ".batch", {x}, {{"axes", Ints{0}}}));
  AtenOutputs made = translate_inner(b, op, name, one);
  for (ValueId& v : made)
    if (v != kAbsent) v = b.op("squeeze", name + ".sample", {v}, {{"axes", Ints{0}}});
  return made;
}

// How many axes an op's name says, without a batch but with channels; 0 where it says none.
int named_rank(std::string_view op) {
  for (const char digit : {'1', '2', '3'})
    if (op.find(std::string(1, digit) + "d") != op.npos) return digit - '0' + 1;
  return 0;
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  const ValueId x = first_tensor(c, op);
  if (named_rank(op) == b.rank(x) && op.find("upsample") == op.npos)
    return batched(b, op, name, x, c);
  if (op == "_convolution_mode") return {convolution(b, op, name, x, c)};
  if (op.starts_with("conv") || op == "_convolution") return {convolution(b, op, name, x, c)};
  if (op.ends_with("_with_indices")) return with_indices(b, op, name, x, c);
  if (op.starts_with("max_pool") || op.starts_with("avg_pool")) return {pooling(b, op, name, x, c)};
  if (op.find("adaptive_avg") != op.npos) return {adaptive(b, op, name, x, c, true)};
  if (op.find("adaptive_max") != op.npos) return {adaptive(b, op, name, x, c, false), kAbsent};
  if (op.find("upsample") != op.npos) return {resize(b, op, name, x, c)};
  if (op == "col2im") {
    const Ints pads = spread(c.ints("padding", {0, 0}), 2);
    return {b.op("col2im", name, {x},
                 {{"image_shape", c.ints("output_size", {})},
                  {"block_shape", spread(c.ints("kernel_size", {}), 2)},
                  {"strides", spread(c.ints("stride", {1, 1}), 2)},
                  {"dilations", spread(c.ints("dilation", {1, 1}), 2)},
                  {"pads_begin", pads},
                  {"pads_end", pads}})};
  }
  throw AtenUnknown{op};
}

}  // namespace

AtenFamily window_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
