#include "importers/formats/darknet/part.h"

#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

// Each weight of a filter becomes plus or minus the mean magnitude of the filter.
Tensor binary(const Tensor& w, std::int64_t filters) {
  Tensor out = w.clone();
  const auto values = out.mutable_data<float>();
  const std::size_t size = filters == 0 ? 0 : values.size() / static_cast<std::size_t>(filters);
  for (std::size_t first = 0; first < values.size(); first += size) {
    float mean = 0;
    for (std::size_t i = 0; i < size; ++i) mean += std::abs(values[first + i]);
    mean /= static_cast<float>(size);
    for (std::size_t i = 0; i < size; ++i) values[first + i] = values[first + i] > 0 ? mean : -mean;
  }
  return out;
}

Fields fields_of(const Window& k, std::int64_t groups) {
  const std::int64_t pad = k.pad * k.dilation;
  Fields f = window_fields({.kernel = {},
                            .strides = {k.rows, k.columns},
                            .dilations = {k.dilation, k.dilation},
                            .pads_begin = {pad, pad},
                            .pads_end = {pad, pad}},
                           false);
  f.emplace_back("groups", groups);
  return f;
}

}  // namespace

Norm norm_of(const Layer& l, std::int64_t channels) {
  Norm out{
      .scale = l.w.take({channels}), .mean = l.w.take({channels}), .var = l.w.take({channels})};
  if (l.fork) {
    out.eps = 1e-5F;
    l.g.note("batch norm adds 1e-5 to the variance, as AlexeyAB's fork of Darknet does");
    return out;
  }
  Tensor var = out.var.clone();
  for (float& v : var.mutable_data<float>()) {
    const float deviation = std::sqrt(v) + 0.000001F;
    v = deviation * deviation;
  }
  out.var = std::move(var);
  l.g.note(
      "batch norm divides by sqrt(variance) + 1e-6: the variance is stored here as the square of "
      "that, eps is 0");
  return out;
}

ValueId normalised(GraphBuilder& g, const std::string& name, ValueId y, const Norm& norm,
                   const Tensor& bias) {
  const auto constant = [&](std::string_view role, const Tensor& t) {
    return g.constant(fmt::format("{}.{}", name, role), t.share());
  };
  return g.op("batch_norm", name + ".norm",
              {y, constant("scale", norm.scale), constant("bias", bias),
               constant("mean", norm.mean), constant("var", norm.var)},
              {{"eps", norm.eps}});
}

ValueId activated(GraphBuilder& g, const std::string& name, const std::string& kind, ValueId v) {
  const auto op = [&](std::string_view what, const std::string& role,
                      const std::vector<ValueId>& in, const Fields& fields = {}) {
    return g.op(what, fmt::format("{}.{}", name, role), in, fields);
  };
  const auto number = [&](std::string_view role, float value) {
    return g.constant(fmt::format("{}.{}", name, role), scalar_f32(value));
  };
  if (kind == "linear") return v;
  struct Same {
    std::string_view kind, op;
  };
  static constexpr Same kSame[] = {{"relu", "relu"},  {"logistic", "sigmoid"}, {"tanh", "tanh"},
                                   {"elu", "elu"},    {"selu", "selu"},        {"mish", "mish"},
                                   {"swish", "silu"}, {"hardtan", "hard_tanh"}};
  for (const Same& same : kSame)
    if (same.kind == kind) return op(same.op, kind, {v});
  struct Leaky {
    std::string_view kind;
    float alpha;
  };
  static constexpr Leaky kLeaky[] = {{"leaky", 0.1F}, {"relie", 0.01F}};
  for (const Leaky& leaky : kLeaky)
    if (leaky.kind == kind) {
      g.note(fmt::format("{} multiplies negatives by {}", kind, leaky.alpha));
      return op("leaky_relu", kind, {v}, {{"alpha", leaky.alpha}});
    }
  if (kind == "relu6") return op("clip", kind, {v}, {{"min", 0.0F}, {"max", 6.0F}});
  if (kind == "ramp")  // x where it is positive, and a tenth of x everywhere
    return op("add", kind,
              {op("relu", "positive", {v}), op("mul", "tenth", {v, number("by", .1F)})});
  if (kind == "loggy")  // 2 / (1 + exp(-x)) - 1
    return op(
        "sub", kind,
        {op("mul", "twice", {op("sigmoid", "logistic", {v}), number("by", 2)}), number("one", 1)});
  throw bad_input("the activation {} is not supported", printable(kind));
}

ValueId Part::write(GraphBuilder& g, const std::string& name, ValueId x) const {
  const auto constant = [&](std::string_view role, Tensor t) {
    return g.constant(fmt::format("{}.{}", name, role), std::move(t));
  };
  const ValueId b = norm ? kAbsent : constant("bias", bias.share());
  ValueId y = kAbsent;
  if (window.empty()) {
    y = fully_connected(g, name, x, constant("weight", weight.share()), b, transposed);
  } else {
    if (binary)
      x = g.op("where", name + ".binary",
               {g.op("greater", name + ".positive", {x, constant("zero", scalar_f32(0))}),
                constant("plus", scalar_f32(1)), constant("minus", scalar_f32(-1))});
    std::vector<ValueId> in{x, constant("weight", weight.share())};
    if (!norm) in.push_back(b);
    y = g.op("conv", name, in, window);
  }
  if (norm) y = normalised(g, name, y, *norm, bias);
  return activated(g, name, activation, y);
}

Part Part::like(const Window& k, std::string kind, std::int64_t channels) const {
  const Shape& w = weight.shape();
  if (w.rank() != 4 || k.filters != w[0] || k.size != w[2] || channels % w[1] != 0)
    throw bad_input("{} filters of {} over {} channels share weights {}", k.filters, k.size,
                    channels, to_string(w));
  Part p;
  p.bias = bias.share();
  p.weight = weight.share();
  if (norm)
    p.norm = Norm{.scale = norm->scale.share(),
                  .mean = norm->mean.share(),
                  .var = norm->var.share(),
                  .eps = norm->eps};
  p.binary = binary;
  p.window = fields_of(k, channels / w[1]);
  p.activation = std::move(kind);
  return p;
}

Part connection(const Layer& l, std::int64_t in, std::int64_t out, const std::string& activation) {
  Part p;
  p.bias = l.w.take({out});
  p.transposed = l.w.transposed;
  p.weight = l.w.take(p.transposed ? Shape{in, out} : Shape{out, in});
  if (l.s.integer("batch_normalize", 0) != 0) p.norm = norm_of(l, out);
  p.activation = activation;
  return p;
}

Window window_of(const Section& s, std::int64_t filters, std::int64_t size) {
  const std::int64_t stride = s.integer("stride", 1), padding = s.integer("padding", 0);
  Window w{.filters = filters,
           .size = s.integer("size", size),
           .rows = s.integer("stride_y", stride),
           .columns = s.integer("stride_x", stride),
           .pad = s.integer("pad", 0),
           .dilation = s.integer("dilation", 1)};
  w.pad = w.pad != 0 ? w.size / 2 : padding;
  if (w.size == 1) w.dilation = 1;
  if (filters < 1 || w.size < 1 || w.rows < 1 || w.columns < 1 || w.pad < 0 || w.dilation < 1)
    throw bad_input("{} filters of {} by {} x {}, padded by {}, dilated by {}", filters, w.size,
                    w.rows, w.columns, w.pad, w.dilation);
  if (w.dilation != 1 && 2 * w.pad != w.size - 1)
    throw bad_input(
        "a filter of {} dilated by {} and padded by {} does not fit the extents that Darknet "
        "counts; pad it by {}",
        w.size, w.dilation, w.pad, (w.size - 1) / 2);
  return w;
}

Part convolution(const Layer& l, const Window& k, std::int64_t channels,
                 const std::string& activation) {
  const std::int64_t groups = l.s.integer("groups", 1);
  if (groups < 1 || channels % groups != 0 || k.filters % groups != 0)
    throw bad_input("{} filters of {} over {} channels in {} groups", k.filters, k.size, channels,
                    groups);
  Part p;
  p.bias = l.w.take({k.filters});
  if (l.s.integer("batch_normalize", 0) != 0) p.norm = norm_of(l, k.filters);
  p.weight = l.w.take({k.filters, channels / groups, k.size, k.size});
  p.binary = l.s.integer("xnor", 0) != 0;
  if (p.binary) {
    p.weight = binary(p.weight, k.filters);
    l.g.note(
        "xnor: weights become plus or minus the mean magnitude of their filter, inputs plus or "
        "minus one");
  }
  p.window = fields_of(k, groups);
  p.activation = activation;
  return p;
}

}  // namespace etalon::darknet
