#include <algorithm>
#include <cmath>

#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {

void Translator::convolution(bool transposed) {
  const PbMessage p = l_->params.message("convolution_param");
  const auto axes = static_cast<std::size_t>(std::max(g.rank(x()) - 2, 0));
  if (p.integer("axis", 1) != 1) throw bad_input("a convolution along another axis than 1");
  const Ints kernel = pair(p, "kernel_size", "kernel_h", "kernel_w", 0, axes);
  const Ints pad = pair(p, "pad", "pad_h", "pad_w", 0, axes);
  const Ints stride = pair(p, "stride", "stride_h", "stride_w", 1, axes);
  const Ints dilation = pair(p, "dilation", nullptr, nullptr, 1, axes);
  const std::int64_t groups =
      l_->type == "ConvolutionDepthwise" || l_->type == "DepthwiseConvolution"
          ? g.shape(x())[1]
          : p.integer("group", 1);
  const std::int64_t out = p.integer("num_output"), in = g.shape(x())[1];
  if (groups < 1 || in % groups != 0 || out % groups != 0 || out < 1)
    throw bad_input("{} channels to {} in {} groups", in, out, groups);
  Ints dims = transposed ? Ints{in, out / groups} : Ints{out, in / groups};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  std::vector<ValueId> inputs{x(), weight(0, Shape(dims))};
  if (p.flag("bias_term", true)) inputs.push_back(weight(1, Shape{out}));
  Fields f = window_fields(
      {.strides = stride, .dilations = dilation, .pads_begin = pad, .pads_end = pad}, false);
  f.emplace_back("groups", groups);
  top(op(transposed ? "conv_transpose" : "conv", inputs, f));
}

void Translator::pooling() {
  const PbMessage p = l_->params.message("pooling_param");
  const std::string kind = p.text("pool", "MAX");
  if (kind != "MAX" && kind != "AVE" && kind != "STOCHASTIC")
    throw bad_input("{} pooling is not supported", kind);
  if (p.flag("global_pooling") && kind == "STOCHASTIC") {
    const auto spatial = g.shape(x()).dims().subspan(2);
    const Ints all(spatial.begin(), spatial.end());
    stochastic(window_fields(
        {.kernel = all, .strides = {}, .dilations = {}, .pads_begin = {}, .pads_end = {}}, true));
    return;
  }
  if (p.flag("global_pooling")) {
    top(op(kind == "MAX" ? "global_max_pool" : "global_avg_pool", {x()}));
    return;
  }
  const auto axes = static_cast<std::size_t>(std::max(g.rank(x()) - 2, 0));
  const Ints pad = pair(p, "pad", "pad_h", "pad_w", 0, axes);
  Fields f = window_fields({.kernel = pair(p, "kernel_size", "kernel_h", "kernel_w", 0, axes),
                            .strides = pair(p, "stride", "stride_h", "stride_w", 1, axes),
                            .dilations = {},
                            .pads_begin = pad,
                            .pads_end = pad},
                           true);
  // ceil_mode is how some branches of Caffe say it; their files write it as text.
  const bool ceil =
      p.has("ceil_mode") ? p.flag("ceil_mode") : p.text("round_mode", "CEIL") == "CEIL";
  f.emplace_back("ceil_mode", ceil);
  if (ceil)
    g.note(
        "Caffe's pooling rounds the output extent up (ceil_mode); a last window must begin "
        "inside the input or its padding");
  if (kind == "STOCHASTIC") {
    if (std::ranges::any_of(pad, [](std::int64_t n) { return n != 0; }))
      throw bad_input("STOCHASTIC pooling with padding, which Caffe does not have");
    stochastic(f);
  } else if (kind == "AVE") {
    f.emplace_back("count_include_pad", true);
    g.note(
        "Caffe's average pooling divides by the window's elements inside input and padding, "
        "not by those that rounding up adds");
    top(op("avg_pool", {x()}, f));
  } else {
    if (l_->tops.size() > 1) throw bad_input("the mask of a max pooling is not supported");
    top(op("max_pool", {x()}, f));
  }
}

// At test time: the mean of a window weighted by its own elements, sum(x*x) / sum(x), and 0 where
// the sum is not above 0.
void Translator::stochastic(const Fields& window) {
  Fields f = window;
  f.emplace_back("divisor_override", std::int64_t{1});
  const ValueId squares = g.op("mul", l_->name + ".squares", {x(), x()});
  const ValueId sum = g.op("avg_pool", l_->name + ".sum", {x()}, f),
                weighted = g.op("avg_pool", l_->name + ".weighted", {squares}, f);
  const ValueId zero = g.constant(l_->name + ".zero", scalar_f32(0));
  g.note(
      "stochastic pooling at test time: sum(x*x) / sum(x) of each window, 0 where the sum is not "
      "above 0");
  top(op("where", {g.op("greater", l_->name + ".above", {sum, zero}),
                   g.op("div", l_->name + ".mean", {weighted, sum}), zero}));
}

void Translator::inner_product() {
  const PbMessage p = l_->params.message("inner_product_param");
  const std::int64_t from = axis(p.integer("axis", 1), x()), out = p.integer("num_output");
  const Shape& shape = g.shape(x());
  const std::int64_t in = shape.product(static_cast<int>(from), shape.rank());
  const bool transposed = p.flag("transpose");
  if (out < 1) throw bad_input("num_output is {}", out);
  const ValueId w = weight(0, transposed ? Shape{in, out} : Shape{out, in});
  const ValueId b = p.flag("bias_term", true) ? weight(1, Shape{out}) : kAbsent;
  ValueId flat = x();
  if (shape.rank() != 2 || from != 1)
    flat = g.op("flatten", l_->name + ".flatten", {flat}, {{"axis", from}});
  if (shape.rank() > 2)
    g.note("inner products flatten their input row-major, channels outermost (NCHW)");
  ValueId y = fully_connected(g, l_->name, flat, w, b, transposed);
  if (from != 1) {
    Ints dims(static_cast<std::size_t>(from), 0);
    dims[0] = -1;
    for (std::size_t i = 1; i < dims.size(); ++i) dims[i] = shape[static_cast<int>(i)];
    dims.push_back(out);
    y = g.reshape(l_->name + ".shape", y, dims);
  }
  top(y);
}

// With the statistics of the batch it is given: of each channel over images and places.
void Translator::batch_statistics(float eps) {
  const ValueId in = x();
  Ints axes{0};
  for (int i = 2; i < g.rank(in); ++i) axes.push_back(i);
  const Fields each{{"axes", axes}, {"keepdims", true}};
  const auto part = [&](const char* role, std::string_view name, const std::vector<ValueId>& of,
                        const Fields& f = {}) {
    return g.op(name, fmt::format("{}.{}", l_->name, role), of, f);
  };
  const ValueId from = part("from_mean", "sub", {in, part("mean", "reduce_mean", {in}, each)});
  const ValueId variance =
      part("variance", "reduce_mean", {part("square", "mul", {from, from})}, each);
  const ValueId root = part(
      "root", "sqrt", {part("and_eps", "add", {variance, g.constant("eps", scalar_f32(eps))})});
  g.note(fmt::format(
      "BatchNorm with use_global_stats false: eps {}, and the statistics are those of the batch it "
      "is given, not the stored ones",
      eps));
  top(op("div", {from, root}));
}

// Exp: base^(scale x + shift) as base^shift * exp(ln(base) scale x). Log: log(scale x + shift) to
// the base.
void Translator::exponential() {
  const bool exp = l_->type == "Exp";
  const PbMessage p = l_->params.message(exp ? "exp_param" : "log_param");
  const float base = p.number("base", -1), scale = p.number("scale", 1),
              shift = p.number("shift", 0);
  if (base != -1 && !(base > 0)) throw bad_input("{} to the base {}", l_->type, base);
  const double log_base = base == -1 ? 1 : std::log(static_cast<double>(base));
  if (!exp && log_base == 0) throw bad_input("Log to the base 1");
  ValueId y = x();
  const auto by = [&](const char* name, const char* role, float v) {
    y = g.op(name, fmt::format("{}.{}", l_->name, role), {y, g.constant(role, scalar_f32(v))});
  };
  const float inner = exp ? static_cast<float>(log_base) * scale : scale;
  if (inner != 1) by("mul", "scale", inner);
  if (!exp && shift != 0) by("add", "shift", shift);
  y = g.op(exp ? "exp" : "log", l_->name, {y});
  const double outer = !exp         ? 1 / log_base
                       : shift == 0 ? 1
                       : base == -1
                           ? std::exp(static_cast<double>(shift))
                           : std::pow(static_cast<double>(base), static_cast<double>(shift));
  if (outer != 1) by("mul", "factor", static_cast<float>(outer));
  top(y);
}

void Translator::scale(bool with_scale, const char* name) {
  const PbMessage p = l_->params.message(name);
  const ValueId in = x();
  const std::int64_t at = axis(p.integer("axis", 1), in);
  ValueId y = in;
  if (l_->bottoms.size() > 1) {
    const ValueId factor = x(1);
    const Ints dims = against(g.shape(factor), at, g.rank(in));
    y = op(with_scale ? "mul" : "add", {in, g.reshape(l_->name + ".axis", factor, dims)});
    if (with_scale && p.flag("bias_term")) {
      const Shape& own = g.shape(factor);
      y = g.op("add", l_->name + ".bias",
               {y, g.reshape(l_->name + ".0", weight(0, own), against(own, at, g.rank(in)))});
    }
    top(y);
    return;
  }
  const auto axes = p.integer("num_axes", 1);
  const std::int64_t end = axes < 0 ? g.rank(in) : at + axes;
  if (end > g.rank(in))
    throw bad_input("num_axes {} from axis {} of rank {}", axes, at, g.rank(in));
  const auto dims =
      g.shape(in).dims().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at));
  const Shape own(dims);
  const auto broadcast = [&](std::size_t i) {
    return g.reshape(fmt::format("{}.{}", l_->name, i), weight(i, own),
                     against(own, at, g.rank(in)));
  };
  if (with_scale) {
    y = g.op("mul", l_->name, {y, broadcast(0)});
    if (p.flag("bias_term")) y = g.op("add", l_->name + ".bias", {y, broadcast(1)});
    g.note(
        "Scale layers stay a product and a sum of their own (Caffe rounds after each), not "
        "folded into the BatchNorm before them");
  } else {
    y = g.op("add", l_->name, {y, broadcast(0)});
  }
  top(y);
}

void Translator::lrn() {
  const PbMessage p = l_->params.message("lrn_param");
  const std::int64_t size = p.integer("local_size", 5);
  const float alpha = p.number("alpha", 1), beta = p.number("beta", 0.75F), k = p.number("k", 1);
  if (size < 1 || size % 2 == 0) throw bad_input("local_size {} must be odd", size);
  if (p.text("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS") {
    g.note("LRN: alpha is divided by the window's size, k is added to the sum");
    top(op(
        "lrn", {x()},
        {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", k}, {"alpha_divided", true}}));
    return;
  }
  g.note(
      "LRN within a channel: x * (1 + alpha * mean of squares over the window, padding "
      "counted)^-beta, step by step as Caffe's layers do");
  const Ints window(static_cast<std::size_t>(g.rank(x()) - 2), size),
      pad(window.size(), (size - 1) / 2);
  Fields f = window_fields(
      {.kernel = window, .strides = {}, .dilations = {}, .pads_begin = pad, .pads_end = pad}, true);
  f.emplace_back("count_include_pad", true);
  ValueId s = g.op("mul", l_->name + ".square", {x(), x()});
  s = g.op("avg_pool", l_->name + ".mean", {s}, f);
  s = g.op("mul", l_->name + ".alpha", {s, g.constant("alpha", scalar_f32(alpha))});
  s = g.op("add", l_->name + ".one", {s, g.constant("one", scalar_f32(1))});
  s = g.op("pow", l_->name + ".power", {s, g.constant("minus_beta", scalar_f32(-beta))});
  top(op("mul", {x(), s}));
}

void Translator::eltwise() {
  const PbMessage p = l_->params.message("eltwise_param");
  const std::string kind = p.text("operation", "SUM");
  const std::vector<float> coeff = p.numbers("coeff");
  if (!coeff.empty() && (kind != "SUM" || coeff.size() != l_->bottoms.size()))
    throw bad_input("{} coefficients for {} bottoms", coeff.size(), l_->bottoms.size());
  ValueId y = kAbsent;
  for (std::size_t i = 0; i < l_->bottoms.size(); ++i) {
    ValueId in = x(i);
    if (!coeff.empty() && coeff[i] != 1)
      in = g.op("mul", l_->name + ".coeff", {in, g.constant("coeff", scalar_f32(coeff[i]))});
    y = i == 0 ? in : op(kind == "SUM" ? "add" : kind == "PROD" ? "mul" : "max", {y, in});
  }
  if (l_->bottoms.size() < 2) y = op("identity", {x()});
  top(y);
}

void Translator::reshape() {
  const PbMessage p = l_->params.message("reshape_param");
  const Ints want = p.message("shape").integers("dim");
  const int rank = g.rank(x());
  std::int64_t from = p.integer("axis", 0);
  if (from < 0) from += rank + 1;
  const std::int64_t count = p.integer("num_axes", -1);
  const std::int64_t to = count < 0 ? rank : from + count;
  if (from < 0 || from > rank || to > rank) throw bad_input("axis {} of rank {}", from, rank);
  Ints dims(static_cast<std::size_t>(from), 0);
  for (std::size_t i = 0; i < want.size(); ++i)
    dims.push_back(want[i] == 0 && from + static_cast<std::int64_t>(i) < rank
                       ? g.shape(x())[static_cast<int>(from) + static_cast<int>(i)]
                       : want[i]);
  if (from == 0 && !want.empty() && want[0] == 0) dims[0] = 0;
  for (std::int64_t i = to; i < rank; ++i) dims.push_back(g.shape(x())[static_cast<int>(i)]);
  top(op("reshape", {x()}, {{"shape", dims}}));
}
}  // namespace etalon::caffe
