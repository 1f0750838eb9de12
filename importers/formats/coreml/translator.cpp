#include "importers/formats/coreml/translator.h"

#include <algorithm>

#include "importers/formats/coreml/schema.h"

namespace etalon::coreml {

ValueId Translator::activation(const PbMessage& a, ValueId x) {
  for (const auto& [field, op] : {std::pair{"ReLU", "relu"},
                                  {"tanh", "tanh"},
                                  {"sigmoid", "sigmoid"},
                                  {"softsign", "softsign"},
                                  {"softplus", "softplus"}})
    if (a.has(field)) return g.op(op, name_, {x});
  if (a.has("leakyReLU"))
    return g.op("leaky_relu", name_, {x}, {{"alpha", a.message("leakyReLU").number("alpha")}});
  if (a.has("ELU")) return g.op("elu", name_, {x}, {{"alpha", a.message("ELU").number("alpha")}});
  if (a.has("sigmoidHard")) {
    const PbMessage h = a.message("sigmoidHard");
    return g.op("hard_sigmoid", name_, {x},
                {{"alpha", h.number("alpha")}, {"beta", h.number("beta")}});
  }
  if (a.has("thresholdedReLU"))
    return g.op("thresholded_relu", name_, {x},
                {{"alpha", a.message("thresholdedReLU").number("alpha")}});
  if (a.has("scaledTanh")) {
    const PbMessage h = a.message("scaledTanh");
    const ValueId y =
        g.op("mul", name_ + ".beta", {x, g.constant("beta", scalar_f32(h.number("beta")))});
    return g.op(
        "mul", name_,
        {g.op("tanh", name_ + ".tanh", {y}), g.constant("alpha", scalar_f32(h.number("alpha")))});
  }
  if (a.has("parametricSoftplus")) {
    const PbMessage h = a.message("parametricSoftplus");
    const auto by_channel = [&](const char* field) {
      const PbMessage w = h.message(field);
      const auto at = static_cast<std::size_t>(std::max(g.rank(x) - 3, 0));
      const std::int64_t channels = g.rank(x) < 3 ? -1 : g.dims(x)[at];
      // One number, or one for each channel.
      return weights(w, field,
                     w.numbers("floatValue").size() == 1 ? Shape{} : Shape{channels, 1, 1});
    };
    const ValueId y = g.op("mul", name_ + ".beta", {x, by_channel("beta")});
    return g.op("mul", name_, {g.op("softplus", name_ + ".softplus", {y}), by_channel("alpha")});
  }
  if (a.has("linear")) {
    const PbMessage h = a.message("linear");
    const ValueId y =
        g.op("mul", name_ + ".alpha", {x, g.constant("alpha", scalar_f32(h.number("alpha")))});
    return g.op("add", name_, {y, g.constant("beta", scalar_f32(h.number("beta")))});
  }
  for (const PbField& f : schema().type("Activation").fields)
    if (a.has(f.name)) throw bad_input("the activation {} is not supported", f.name);
  throw bad_input("an activation without a kind");
}

void Translator::layer(const PbMessage& l) {
  name_ = l.text("name");
  const ErrorScope where(fmt::format("node {}", printable(name_)));
  std::vector<ValueId> in;
  for (const std::string& name : l.texts("input")) in.push_back(value(name));
  const auto outputs = l.texts("output");
  if (l.has("branch")) return branch(l);
  if (l.has("loop")) return loop(l);
  const auto more = translate_layer({g, l, name_, in, outputs.size(),
                                     [&](const PbMessage& w, const char* role, const Shape& shape) {
                                       return weights(w, role, shape);
                                     }});
  if (!more.empty()) {
    if (more.size() < outputs.size()) throw bad_input("{} outputs", outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) values_[outputs[i]] = more[i];
    return;
  }
  for (const PbField& f : schema().type("Layer").fields)
    if (f.type == &schema().type("Refused") && l.has(f.name))
      throw bad_input("a layer {} is not supported", f.name);
  if (in.empty() || outputs.size() != 1)
    throw bad_input("{} inputs and {} outputs", in.size(), outputs.size());
  const ValueId x = in[0];
  ValueId y = kAbsent;
  if (l.has("convolution")) {
    const PbMessage p = l.message("convolution");
    const std::int64_t out = p.integer("outputChannels"), in_channels = p.integer("kernelChannels"),
                       groups = std::max<std::int64_t>(1, p.integer("nGroups", 1));
    Ints kernel = p.integers("kernelSize");
    if (kernel.empty()) kernel = {3, 3};
    const bool transposed = p.flag("isDeconvolution");
    Ints dims = transposed ? Ints{in_channels, out / groups} : Ints{out, in_channels};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    Fields f{{"strides", p.integers("stride")},
             {"dilations", p.integers("dilationFactor")},
             {"groups", groups}};
    padding(p, f);
    if (transposed && p.has("outputShape"))
      f.emplace_back("output_shape", p.integers("outputShape"));
    std::vector<ValueId> inputs{x, weights(p.message("weights"), "weights", Shape(dims))};
    if (p.flag("hasBias")) inputs.push_back(weights(p.message("bias"), "bias", {out}));
    y = g.op(transposed ? "conv_transpose" : "conv", name_, inputs, f);
  } else if (l.has("pooling")) {
    const PbMessage p = l.message("pooling");
    const auto kind = p.integer("type");
    if (kind < 0 || kind > 2) throw bad_input("the pooling {} is not supported", kind);
    if (p.flag("globalPooling")) {
      constexpr const char* kGlobal[] = {"global_max_pool", "global_avg_pool", "global_lp_pool"};
      y = g.op(kGlobal[kind], name_, {x});
    } else {
      constexpr const char* kPools[] = {"max_pool", "avg_pool", "lp_pool"};
      Ints kernel = p.integers("kernelSize");
      if (kernel.empty()) kernel = {3, 3};
      Fields f{{"kernel", kernel}, {"strides", p.integers("stride")}};
      if (p.has("includeLastPixel")) {
        const Ints pads = p.message("includeLastPixel").integers("paddingAmounts");
        f.emplace_back("pads_begin", pads);
        f.emplace_back("pads_end", pads);
        f.emplace_back("ceil_mode", true);
        g.note("includeLastPixel: the output extent is rounded up, as Caffe's is");
      } else {
        padding(p, f);
      }
      if (kind == 1) f.emplace_back("count_include_pad", !p.flag("avgPoolExcludePadding"));
      y = g.op(kPools[kind], name_, {x}, f);
    }
  } else if (l.has("activation")) {
    y = activation(l.message("activation"), x);
  } else if (l.has("innerProduct")) {
    const PbMessage p = l.message("innerProduct");
    const std::int64_t c = p.integer("inputChannels"), out = p.integer("outputChannels");
    const ValueId w = weights(p.message("weights"), "weights", {out, c}),
                  b = p.flag("hasBias") ? weights(p.message("bias"), "bias", {out}) : kAbsent;
    // Of rank 3 over the last axis, as of vectors; images are vectors of all of their elements.
    if (g.rank(x) == 3 && g.dims(x).back() == c) {
      y = g.op("matmul", b == kAbsent ? name_ : name_ + ".product",
               {x, g.transpose(name_ + ".weights", w, {1, 0})});
      if (b != kAbsent) y = g.op("add", name_, {y, b});
    } else {
      const ValueId flat = g.rank(x) == 2 ? x : g.op("flatten", name_ + ".flatten", {x});
      y = fully_connected(g, name_, flat, w, b);
    }
  } else if (l.has("batchnorm")) {
    const PbMessage p = l.message("batchnorm");
    const bool instance = p.flag("computeMeanVar") && p.flag("instanceNormalization");
    if (p.flag("computeMeanVar") && !instance)
      throw bad_input("statistics of the whole batch are not supported");
    const Shape c{p.integer("channels")};
    const float eps = p.number("epsilon", 1e-5F);
    g.note(fmt::format("{} norm: eps {}", instance ? "instance" : "batch", eps));
    std::vector<ValueId> all{x, weights(p.message("gamma"), "gamma", c),
                             weights(p.message("beta"), "beta", c)};
    if (!instance) {
      all.push_back(weights(p.message("mean"), "mean", c));
      all.push_back(weights(p.message("variance"), "variance", c));
    }
    y = g.op(instance ? "instance_norm" : "batch_norm", name_, all, {{"eps", eps}});
  } else if (l.has("softmax")) {
    y = g.op("softmax", name_, {x},
             {{"axis", std::int64_t{g.rank(x) >= 3 ? g.rank(x) - 3 : g.rank(x) - 1}}});
  } else if (l.has("bias")) {
    const PbMessage p = l.message("bias");
    Ints dims = p.integers("shape");
    if (dims.size() == 1 && g.rank(x) >= 3) dims.insert(dims.end(), {1, 1});
    y = g.op("add", name_, {x, weights(p.message("bias"), "bias", Shape(dims))});
  } else if (l.has("softmaxND")) {
    y = g.op("softmax", name_, {x}, {{"axis", l.message("softmaxND").integer("axis")}});
  } else if (l.has("lrn")) {
    const PbMessage p = l.message("lrn");
    g.note("LRN: alpha is divided by the window's size");
    y = g.op("lrn", name_, {x},
             {{"size", p.integer("localSize", 5)},
              {"alpha", p.number("alpha")},
              {"beta", p.number("beta")},
              {"bias", p.number("k", 1)}});
  } else if (l.has("add") || l.has("multiply")) {
    const bool add = l.has("add");
    y = x;
    for (std::size_t i = 1; i < in.size(); ++i) y = g.op(add ? "add" : "mul", name_, {y, in[i]});
    if (in.size() == 1) {
      const float alpha = l.message(add ? "add" : "multiply").number("alpha");
      y = g.op(add ? "add" : "mul", name_, {x, g.constant(name_ + ".alpha", scalar_f32(alpha))});
    }
  } else if (l.has("concat")) {
    const int back = l.message("concat").flag("sequenceConcat") ? 5 : 3;
    if (g.rank(x) < back) throw bad_input("a concatenation of rank {}", g.rank(x));
    y = g.op("concat", name_, in, {{"axis", std::int64_t{g.rank(x) - back}}});
  } else if (l.has("flatten")) {
    const bool last = l.message("flatten").integer("mode") == 1;
    if (last && g.rank(x) != 4)
      throw bad_input("a flatten of channels last of rank {} is not supported", g.rank(x));
    if (last) g.note("flatten: channels last, written as a transpose");
    y = g.op("flatten", name_, {last ? g.transpose(name_ + ".last", x, {0, 2, 3, 1}) : x});
  } else if (l.has("reshapeStatic")) {
    Ints shape = l.message("reshapeStatic").integers("targetShape");
    // The shape was traced at the batch of the file; the batch stays free where it leads.
    if (!shape.empty() && g.known(x) && g.rank(x) > 0 && g.dims(x)[0] == -1 && shape[0] > 0)
      shape[0] = -1;
    y = g.op("reshape", name_, {x}, {{"shape", shape}});
  } else {
    throw bad_input("a layer of a kind that this specification does not have is not supported");
  }
  values_[outputs[0]] = y;
}

}  // namespace etalon::coreml
