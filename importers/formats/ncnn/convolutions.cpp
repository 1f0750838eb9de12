// Convolutions of 1, 2 and 3 axes and products with a matrix, of floating or of 8-bit weights.
// Source: ncnn's public documentation ("operators", "quantized int8 inference").
//
// 8 bits: the input times its scale, halves away from zero, held at +-127, times the weights in
// i32; that as f32 over both scales, the bias, the activation; and, where the file says so, times a
// scale of the output into 8 bits again, which the next such layer takes as they are.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {

ValueId activated(const Layer& l, ValueId y, int kind_id, int params_id) {
  const std::int64_t kind = l.integer(kind_id, 0);
  const std::vector<float> p = l.numbers(params_id);
  const auto param = [&](std::size_t i) {
    if (i >= p.size()) throw bad_input("an activation without its numbers");
    return p[i];
  };
  const std::string name = l.name + ".activation";
  switch (kind) {
    case 0:
      return y;
    case 1:
      return l.g.op("relu", name, {y});
    case 2:
      return l.g.op("leaky_relu", name, {y}, {{"alpha", param(0)}});
    case 3:
      return l.g.op("clip", name, {y}, {{"min", param(0)}, {"max", param(1)}});
    case 4:
      return l.g.op("sigmoid", name, {y});
    case 5:
      return l.g.op("mish", name, {y});
    case 6:
      return l.g.op("mul", name,
                    {y, l.g.op("hard_sigmoid", name + ".gate", {y},
                               {{"alpha", param(0)}, {"beta", param(1)}})});
    default:
      throw bad_input("the activation {} is not known", kind);
  }
}

namespace {

constexpr std::int64_t kSameUpper = -233, kSameLower = -234;

// The settings of an axis, from w on.
struct AxisIds {
  int kernel, dilation, stride, before, behind, more, extent;
};
constexpr AxisIds kAxes[] = {
    {1, 2, 3, 4, 15, 18, 20}, {11, 12, 13, 14, 16, 19, 21}, {21, 22, 23, 24, 17, 20, 0}};

struct Spatial {
  Ints kernel;
  Fields fields;
  bool same = false;
};

Spatial spatial(const Layer& l, std::size_t axes) {
  Spatial out;
  Ints strides, dilations, before, behind;
  const auto outermost = [](Ints& to, std::int64_t n) { to.insert(to.begin(), n); };
  const std::int64_t left = l.integer(4, 0);
  out.same = left == kSameUpper || left == kSameLower;
  for (std::size_t i = 0; i < axes; ++i) {
    const AxisIds& ids = kAxes[i];
    const std::int64_t k = l.integer(ids.kernel, i == 0 ? 0 : out.kernel.back());
    if (k < 1 || k > 1 << 16) throw bad_input("a kernel of {}", k);
    outermost(out.kernel, k);
    outermost(dilations, l.integer(ids.dilation, i == 0 ? 1 : dilations.back()));
    outermost(strides, l.integer(ids.stride, i == 0 ? 1 : strides.back()));
    outermost(before, l.integer(ids.before, left));
    outermost(behind, l.integer(ids.behind, before.front()));
    for (const std::int64_t p : {before.front(), behind.front()})
      if (!out.same && (p < 0 || p > 1 << 20)) throw bad_input("a pad of {}", p);
  }
  out.fields = {{"strides", strides}, {"dilations", dilations}};
  if (out.same) {
    out.fields.emplace_back("auto_pad",
                            std::string(left == kSameUpper ? "same_upper" : "same_lower"));
    l.g.note("SAME padding: the odd element stands where the file says");
  } else {
    out.fields.emplace_back("pads_begin", before);
    out.fields.emplace_back("pads_end", behind);
  }
  return out;
}

ValueId scalar(const Layer& l, const char* role, float v) {
  return l.g.constant(fmt::format("{}.{}", l.name, role), scalar_f32(v));
}

// x * scale, halves away from zero, at most 127: what is cut off behind x + 1/2 is what is rounded,
// were it not for the number below 1/2, which therefore stands in its place.
ValueId quantized(const Layer& l, ValueId x, ValueId scale, const std::string& name) {
  x = l.g.op("mul", name + ".scaled", {x, scale});
  x = l.g.op("clip", name + ".held", {x}, {{"min", -127.0F}, {"max", 127.0F}});
  const ValueId half = scalar(l, "half", std::nextafter(0.5F, 0.0F));
  const ValueId by = l.g.op("mul", name + ".half", {l.g.op("sign", name + ".sign", {x}), half});
  x = l.g.op("add", name + ".moved", {x, by});
  return l.g.op("cast", name, {x}, {{"to", std::string("i8")}});
}

struct Codes {
  Tensor weights;               // i8
  std::vector<float> scales;    // of the weights, one for each group of rows
  float input = 1, output = 0;  // output 0: it stays f32
};

// Weights of a file that were not quantized are so when they are read.
Tensor codes_of(const Tensor& w, const std::vector<float>& scales) {
  if (w.dtype() == DType::i8) return w.share();
  Tensor out = Tensor::uninitialized(DType::i8, w.shape());
  const auto from = w.data<float>();
  auto to = out.mutable_data<std::int8_t>();
  const std::size_t each = from.size() / scales.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float v = std::round(from[i] * scales[i / each]);
    to[i] = static_cast<std::int8_t>(std::isnan(v) ? 0.0F : std::clamp(v, -127.0F, 127.0F));
  }
  return out;
}

float one_scale(Weights& weights) { return weights.plain(1).data<float>()[0]; }

// Behind the bias: scales of the weights, of the input, and where the term says so of the output.
Codes read_codes(Weights& weights, Tensor w, std::int64_t term, std::int64_t groups) {
  const Tensor scales = weights.plain(groups);
  Codes out;
  out.scales.assign(scales.data<float>().begin(), scales.data<float>().end());
  out.input = one_scale(weights);
  if (term > 100) out.output = one_scale(weights);
  for (const float s : out.scales)
    if (!std::isfinite(s)) throw bad_input("a scale of {}", s);
  for (const float s : {out.input, out.output})
    if (!std::isfinite(s)) throw bad_input("a scale of {}", s);
  out.weights = codes_of(w, out.scales);
  return out;
}

// The convolution of codes: in i32, then f32 by output channel, bias, activation, codes again.
ValueId convolved(const Layer& l, const Codes& c, const Tensor& bias, ValueId x, const Fields& f,
                  bool rows = false) {
  if (l.g.dtype(x) != DType::i8)
    x = quantized(l, x, scalar(l, "scale", c.input), l.name + ".codes");
  const std::int64_t out = c.weights.shape()[0];
  const int r = l.g.rank(x);
  Ints dims(static_cast<std::size_t>(r - 1), 1);
  dims[0] = out;
  Tensor back = Tensor::uninitialized(DType::f32, Shape(std::span(dims)));
  auto to = back.mutable_data<float>();
  const std::size_t each = static_cast<std::size_t>(out) / c.scales.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float s = c.scales[i / each];
    to[i] = s == 0 ? 0.0F : 1.0F / (c.input * s);
  }
  ValueId y = l.g.op("conv_integer", l.name + ".sums",
                     {x, l.g.constant(l.name + ".weight", c.weights.share())}, f);
  y = l.g.op("cast", l.name + ".f32", {y}, {{"to", std::string("f32")}});
  y = l.g.op("mul", l.name, {y, l.g.constant(l.name + ".back", std::move(back))});
  if (bias.numel() != 0)
    y = l.g.op("add", l.name + ".sum",
               {y, l.g.constant(l.name + ".bias", bias.reshaped(Shape(std::span(dims))))});
  if (rows) y = l.g.transpose(l.name + ".rows", y, {0, 2, 1});
  y = activated(l, y, 9, 10);
  l.g.note("8-bit layers: halves away from zero, +-127, sums in i32, as ncnn's own");
  return c.output == 0 ? y : quantized(l, y, scalar(l, "output", c.output), l.name + ".quantized");
}

ValueId convolution(const Layer& l, Weights& weights) {
  const bool up = l.type.starts_with("Deconvolution");
  const std::size_t axes = l.type.ends_with("1D") ? 1 : l.type.ends_with("3D") ? 3 : 2;
  const std::int64_t out = l.integer(0, 0), size = l.integer(6, 0), groups = l.integer(7, 1),
                     term = l.integer(8, 0);
  if (l.integer(up ? 28 : 19, 0) != 0) throw bad_input("weights that come as an input");
  if (!up && l.number(18, 0) != 0) throw bad_input("padding with another value than 0");
  Spatial s = spatial(l, axes);
  std::int64_t taps = 1;
  for (const std::int64_t k : s.kernel) taps *= k;
  if (out < 1 || groups < 1 || out % groups != 0 || out > 1 << 24 || size < 1 || taps > size ||
      size % taps != 0 || size / taps % out != 0)
    throw bad_input("{} weights for {} maps of {} taps in {} groups", size, out, taps, groups);
  const std::int64_t in = size / taps / out;  // channels of a group
  Ints dims{out, in};
  dims.insert(dims.end(), s.kernel.begin(), s.kernel.end());
  s.fields.emplace_back("groups", groups);
  const bool biased = l.integer(5, 0) != 0;
  if (term != 0) {
    const bool by_group = l.type == "ConvolutionDepthWise";
    if (up || axes != 2 || term < 0) throw bad_input("{} of int8 is not supported", l.type);
    if (by_group && term % 100 != 1 && term % 100 != 2) throw bad_input("an int8 term of {}", term);
    Tensor w = weights.tagged_codes(size, Shape(std::span(dims)));
    const Tensor bias = weights.plain(biased ? out : 0);
    const std::int64_t scales = !by_group ? out : term % 100 == 1 ? groups : 1;
    return convolved(l, read_codes(weights, std::move(w), term, scales), bias, l.input(), s.fields);
  }
  ValueId kernel = l.g.constant(l.name + ".weight", weights.tagged(size, Shape(std::span(dims))));
  if (up) {  // [G][O/G][C/G] there, [C][O/G] here
    Ints more, extents;
    for (std::size_t i = 0; i < axes; ++i) {
      more.insert(more.begin(), l.integer(kAxes[i].more, i == 0 ? 0 : more.back()));
      const int id = axes == 3 ? 25 + static_cast<int>(i) : kAxes[i].extent;
      extents.insert(extents.begin(), l.integer(id, i == 0 ? 0 : extents.back()));
    }
    s.fields.emplace_back("output_padding", more);
    // Its extents cut the output where the padding is SAME, and there alone.
    if (s.same != (extents.back() > 0))
      throw bad_input("a transposed convolution of SAME padding or of an extent alone");
    if (s.same) s.fields.emplace_back("output_shape", extents);
    Ints split{groups, out / groups, in}, joined{groups * in, out / groups}, perm{0, 2, 1};
    for (std::size_t i = 0; i < axes; ++i) {
      split.push_back(s.kernel[i]);
      joined.push_back(s.kernel[i]);
      perm.push_back(static_cast<std::int64_t>(i) + 3);
    }
    kernel = l.g.reshape(l.name + ".groups", kernel, split);
    kernel = l.g.transpose(l.name + ".turned", kernel, perm);
    kernel = l.g.reshape(l.name + ".kernel", kernel, joined);
  }
  std::vector<ValueId> inputs{l.input(), kernel};
  if (biased) inputs.push_back(l.g.constant(l.name + ".bias", weights.plain(out)));
  return activated(l, l.g.op(up ? "conv_transpose" : "conv", l.name, inputs, s.fields), 9, 10);
}

ValueId inner_product(const Layer& l, Weights& weights) {
  const std::int64_t out = l.integer(0, 0), size = l.integer(2, 0), term = l.integer(8, 0);
  if (out < 1 || size < 1 || size % out != 0) throw bad_input("{} weights for {}", size, out);
  const std::int64_t in = size / out;
  ValueId x = l.input();
  if (l.g.rank(x) > 2 && l.g.shape(x)[l.g.rank(x) - 1] != in)
    x = l.g.op("flatten", l.name + ".flat", {x});
  const bool biased = l.integer(1, 0) != 0;
  if (term != 0) {  // a convolution of one tap, over the rows where there are some
    if (l.g.rank(x) > 3) throw bad_input("int8 products of rank {}", l.g.rank(x) - 1);
    Tensor w = weights.tagged_codes(size, {out, in, 1});
    const Tensor bias = weights.plain(biased ? out : 0);
    const bool rows = l.g.rank(x) == 3;
    x = rows ? l.g.transpose(l.name + ".columns", x, {0, 2, 1})
             : l.g.op("unsqueeze", l.name + ".column", {x}, {{"axes", Ints{2}}});
    const Codes codes = read_codes(weights, std::move(w), term, out);
    const ValueId y = convolved(l, codes, bias, x, {}, rows);
    return rows ? y : l.g.op("squeeze", l.name + ".row", {y}, {{"axes", Ints{2}}});
  }
  const ValueId w = l.g.constant(l.name + ".weight", weights.tagged(size, {out, in}));
  const ValueId b = biased ? l.g.constant(l.name + ".bias", weights.plain(out)) : kAbsent;
  if (l.g.rank(x) == 2) return activated(l, fully_connected(l.g, l.name, x, w, b), 9, 10);
  ValueId y = l.g.op("matmul", l.name, {x, l.g.transpose(l.name + ".turned", w, {1, 0})});
  if (b != kAbsent) y = l.g.op("add", l.name + ".sum", {y, b});
  return activated(l, y, 9, 10);
}

// A scale for all, or one for each channel, row or element: the outermost axis.
ValueId quantize(const Layer& l, Weights& weights) {
  const std::int64_t n = l.integer(0, 1);
  if (n < 1 || (n != 1 && n != l.g.shape(l.input())[1]))
    throw bad_input("{} scales for {}", n, to_string(l.g.shape(l.input())));
  Ints dims(static_cast<std::size_t>(std::max(l.g.rank(l.input()) - 1, 1)), 1);
  dims[0] = n;
  const Tensor scales = weights.plain(n);
  return quantized(l, l.input(),
                   l.g.constant(l.name + ".scale", scales.reshaped(Shape(std::span(dims)))),
                   l.name);
}

}  // namespace

std::span<const LayerRow> convolution_rows() {
  static constexpr LayerRow kRows[] = {
      {"Convolution", convolution},
      {"Convolution1D", convolution},
      {"Convolution3D", convolution},
      {"ConvolutionDepthWise", convolution},
      {"ConvolutionDepthWise1D", convolution},
      {"ConvolutionDepthWise3D", convolution},
      {"Deconvolution", convolution},
      {"Deconvolution1D", convolution},
      {"Deconvolution3D", convolution},
      {"DeconvolutionDepthWise", convolution},
      {"DeconvolutionDepthWise1D", convolution},
      {"DeconvolutionDepthWise3D", convolution},
      {"InnerProduct", inner_product},
      {"Quantize", quantize},
  };
  return kRows;
}

}  // namespace etalon::ncnn
