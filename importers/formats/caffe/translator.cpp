#include "importers/formats/caffe/translator.h"

#include <algorithm>

namespace etalon::caffe {

void Translator::input(const std::string& blob, Ints dims) {
  if (!dims.empty() && !fixed_) dims[0] = -1;
  for (const std::int64_t d : dims)
    if (d == 0 || d < -1) throw bad_input("input {}: an extent of {}", printable(blob), d);
  blobs_[blob] = g.input(blob, DType::f32, dims);
}

ValueId Translator::x(std::size_t i) const {
  if (i >= l_->bottoms.size()) throw bad_input("{} needs bottom {}", l_->type, i);
  const auto at = blobs_.find(l_->bottoms[i]);
  if (at == blobs_.end())
    throw bad_input("nothing before it makes the blob {}", printable(l_->bottoms[i]));
  return at->second;
}

void Translator::top(ValueId v, std::size_t i) {
  if (i >= l_->tops.size()) throw bad_input("{} needs a top", l_->type);
  const std::string& blob = l_->tops[i];
  blobs_[blob] = v;
  if (ordered_.insert(blob).second) order_.push_back(blob);
  unread_.insert(blob);
}

const Tensor& Translator::weight_tensor(std::size_t i) const {
  const auto at = weights_.find(l_->name);
  if (at == weights_.end() || i >= at->second.size())
    throw bad_input(
        "{} has no weights {}: name the .caffemodel beside the prototxt or give it "
        "with --with",
        l_->type, i);
  return at->second[i];
}

ValueId Translator::weight(std::size_t i, const Shape& shape) {
  const std::string shared = i < l_->shared.size() ? l_->shared[i] : "";
  if (!shared.empty())
    if (const auto at = shared_.find(shared); at != shared_.end()) {
      g.note(fmt::format("weights '{}' are shared between layers, once in memory", shared));
      return at->second;
    }
  const Tensor& t = weight_tensor(i);
  if (t.numel() != shape.numel())
    throw bad_input("weights {} are {}, expected {}", i, to_string(t.shape()), to_string(shape));
  const ValueId v = g.constant(fmt::format("{}.{}", l_->name, i), as_f32(t).reshaped(shape));
  if (!shared.empty()) shared_.emplace(shared, v);
  return v;
}

Ints Translator::pair(const PbMessage& p, const char* both, const char* h, const char* w,
                      std::int64_t otherwise, std::size_t axes) const {
  if (h != nullptr && (p.has(h) || p.has(w)))
    return {p.integer(h, otherwise), p.integer(w, otherwise)};
  Ints values = p.integers(both);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(axes, values[0]);
  if (values.size() != axes)
    throw bad_input("{} has {} values for {} axes", both, values.size(), axes);
  return values;
}

void Translator::layer(const Layer& l) {
  l_ = &l;
  const ErrorScope where(fmt::format("node {}", printable(l.name)));
  const PbMessage& m = l.params;
  const std::string& t = l.type;
  if (t == "Silence") {  // its blobs are no outputs of the network
    for (const std::string& blob : l.bottoms) unread_.erase(blob);
    return;
  }
  // Training's own layers read labels that inference does not have.
  if (t == "Accuracy" || t == "HDF5Output" || t == "EuclideanLoss" || t == "HingeLoss" ||
      t == "InfogainLoss" || t == "MultinomialLogisticLoss" || t == "ContrastiveLoss" ||
      t == "MultiBoxLoss") {
    g.note(fmt::format("{} {} serves training and is left out", t, l.name));
    return;
  }
  if (is_data(t)) {
    data(l);
    return;
  }
  if (t == "Input") {
    const auto shapes = m.message("input_param").messages("shape");
    if (shapes.empty()) throw bad_input("an Input layer without a shape");
    for (std::size_t i = 0; i < l.tops.size(); ++i)
      input(l.tops[i], shapes[std::min(i, shapes.size() - 1)].integers("dim"));
    return;
  }
  const bool loss = t == "SoftmaxWithLoss" || t == "SigmoidCrossEntropyLoss";
  if (!loss && std::ranges::any_of(l.bottoms, [&](const std::string& b) {
        return labels_.contains(b) && !blobs_.contains(b);
      })) {
    g.note(fmt::format("{} {} reads labels and is left out", t, l.name));
    labels_.insert(l.tops.begin(), l.tops.end());
    return;
  }
  for (std::size_t i = 0; i < l.bottoms.size() && (i == 0 || !loss); ++i) {
    x(i);
    unread_.erase(l.bottoms[i]);
  }
  if (t == "Convolution" || t == "ConvolutionDepthwise" || t == "DepthwiseConvolution") {
    convolution(false);
  } else if (t == "Deconvolution") {
    convolution(true);
  } else if (t == "LSTM" || t == "RNN") {
    recurrent();
  } else if (t == "Pooling") {
    pooling();
  } else if (t == "ArgMax") {
    arg_max();
  } else if (t == "SPP") {
    spatial_pyramid();
  } else if (t == "PriorBox") {
    prior_box();
  } else if (t == "DetectionOutput") {
    detection_output();
  } else if (t == "BatchReindex") {
    top(op("gather", {x(), g.op("cast", l.name + ".which", {x(1)}, {{"to", std::string("i64")}})},
           {{"axis", std::int64_t{0}}}));
  } else if (t == "Parameter") {
    top(weight(0, Shape(m.message("parameter_param").message("shape").integers("dim"))));
  } else if (t == "InnerProduct") {
    inner_product();
  } else if (t == "ReLU") {
    const float slope = m.message("relu_param").number("negative_slope", 0);
    top(slope == 0 ? op("relu", {x()}) : op("leaky_relu", {x()}, {{"alpha", slope}}));
  } else if (t == "ReLU6") {
    top(op("clip", {x()}, {{"min", 0.0F}, {"max", 6.0F}}));
  } else if (t == "PReLU") {
    const Tensor& w = weight_tensor(0);
    const Shape one{w.numel()};
    top(op("prelu", {x(), g.reshape(l.name + ".0", weight(0, one), against(one, 1, g.rank(x())))}));
  } else if (t == "ELU") {
    top(op("elu", {x()}, {{"alpha", m.message("elu_param").number("alpha", 1)}}));
  } else if (t == "Sigmoid") {
    top(op("sigmoid", {x()}));
  } else if (t == "TanH") {
    top(op("tanh", {x()}));
  } else if (t == "AbsVal") {
    top(op("abs", {x()}));
  } else if (t == "BNLL") {
    top(op("softplus", {x()}));
  } else if (t == "Swish") {
    top(op("silu", {x()}, {{"alpha", m.message("swish_param").number("beta", 1)}}));
  } else if (t == "Clip") {
    const PbMessage p = m.message("clip_param");
    top(op("clip", {x()}, {{"min", p.number("min")}, {"max", p.number("max")}}));
  } else if (t == "Dropout") {
    g.note("dropout does nothing at inference (Caffe scales while it trains)");
    top(op("identity", {x()}));
  } else if (t == "Split") {
    for (std::size_t i = 0; i < l.tops.size(); ++i) top(g.op("identity", l.tops[i], {x()}), i);
  } else if (t == "Softmax" || loss) {
    const bool each = t == "SigmoidCrossEntropyLoss";
    if (loss)
      g.note(fmt::format("{} {} gives its {}; the loss is training's", t, l.name,
                         each ? "sigmoid" : "softmax"));
    const std::int64_t at = m.message("softmax_param").integer("axis", 1);
    const ValueId y = each ? op("sigmoid", {x()}) : op("softmax", {x()}, {{"axis", axis(at, x())}});
    if (l.tops.empty()) {
      blobs_[l.name] = y;
      order_.push_back(l.name);
      unread_.insert(l.name);
    } else {
      top(y);
    }
  } else if (t == "LRN") {
    lrn();
  } else if (t == "BatchNorm") {
    const PbMessage p = m.message("batch_norm_param");
    const float eps = p.number("eps", 1e-5F);
    if (!p.flag("use_global_stats", true)) {
      batch_statistics(eps);
      return;
    }
    const std::int64_t c = g.shape(x())[1];
    Tensor mean = as_f32(weight_tensor(0)), var = as_f32(weight_tensor(1));
    const float factor = weight_count() > 2 ? as_f32(weight_tensor(2)).data<float>()[0] : 1.0F;
    const float by = factor == 0 ? 0 : 1 / factor;
    if (mean.numel() != c || var.numel() != c)
      throw bad_input("statistics of {} channels for {}", mean.numel(), c);
    if (by != 1) {
      mean = mean.clone();
      var = var.clone();
      for (float& v : mean.mutable_data<float>()) v *= by;
      for (float& v : var.mutable_data<float>()) v *= by;
      g.note("BatchNorm: stored sums are divided by the third blob (the moving average's weight)");
    }
    g.note(fmt::format(
        "BatchNorm: eps {} from the layer, scale 1 and bias 0 (a Scale layer follows where "
        "there are others)",
        eps));
    top(op("batch_norm",
           {x(), g.constant(l.name + ".scale", filled_f32(c, 1)),
            g.constant(l.name + ".bias", filled_f32(c, 0)),
            g.constant(l.name + ".mean", mean.reshaped({c})),
            g.constant(l.name + ".var", var.reshaped({c}))},
           {{"eps", eps}}));
  } else if (t == "Scale") {
    scale(true, "scale_param");
  } else if (t == "Bias") {
    scale(false, "bias_param");
  } else if (t == "Eltwise") {
    eltwise();
  } else if (t == "Concat") {
    const PbMessage p = m.message("concat_param");
    std::vector<ValueId> in;
    for (std::size_t i = 0; i < l.bottoms.size(); ++i) in.push_back(x(i));
    top(op("concat", in,
           {{"axis", axis(p.has("axis") ? p.integer("axis") : p.integer("concat_dim", 1), x())}}));
  } else if (t == "Slice") {
    const PbMessage p = m.message("slice_param");
    const std::int64_t at =
        axis(p.has("axis") ? p.integer("axis") : p.integer("slice_dim", 1), x());
    if (l.tops.empty()) throw bad_input("a slice without tops");
    Ints sizes;
    std::int64_t last = 0;
    for (const std::int64_t point : p.integers("slice_point")) {
      sizes.push_back(point - last);
      last = point;
    }
    const std::int64_t extent = g.shape(x())[static_cast<int>(at)];
    if (sizes.empty())
      sizes.assign(l.tops.size() - 1, extent / static_cast<std::int64_t>(l.tops.size()));
    for (last = extent; const std::int64_t s : sizes) last -= s;
    sizes.push_back(last);
    if (sizes.size() != l.tops.size())
      throw bad_input("{} pieces for {} tops", sizes.size(), l.tops.size());
    const auto pieces =
        g.nodes("split", l.name, {x()},
                make_params(get_op("split"), {{"axis", at}, {"split", sizes}}), sizes.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) top(pieces[i], i);
  } else if (t == "Flatten") {
    const PbMessage p = m.message("flatten_param");
    const std::int64_t a = axis(p.integer("axis", 1), x()),
                       b = axis(p.integer("end_axis", -1), x());
    if (a > b) throw bad_input("flatten from axis {} to {}", a, b);
    Ints dims;
    for (int i = 0; i < a; ++i) dims.push_back(i == 0 ? 0 : g.shape(x())[i]);
    if (a == 0)
      dims.push_back(-1);
    else
      dims.push_back(g.shape(x()).product(static_cast<int>(a), static_cast<int>(b) + 1));
    for (int i = static_cast<int>(b) + 1; i < g.rank(x()); ++i) dims.push_back(g.shape(x())[i]);
    top(op("reshape", {x()}, {{"shape", dims}}));
  } else if (t == "Reshape") {
    reshape();
  } else if (t == "Permute") {
    Ints order = m.message("permute_param").integers("order");
    for (std::int64_t i = 0; i < g.rank(x()); ++i)
      if (std::ranges::find(order, i) == order.end()) order.push_back(i);
    top(op("transpose", {x()}, {{"perm", order}}));
  } else if (t == "Power") {
    const PbMessage p = m.message("power_param");
    ValueId y = x();
    const float scale = p.number("scale", 1), shift = p.number("shift", 0),
                power = p.number("power", 1);
    if (scale != 1) y = g.op("mul", l.name + ".scale", {y, g.constant("scale", scalar_f32(scale))});
    if (shift != 0) y = g.op("add", l.name + ".shift", {y, g.constant("shift", scalar_f32(shift))});
    if (power != 1) y = g.op("pow", l.name, {y, g.constant("power", scalar_f32(power))});
    if (y == x()) y = op("identity", {y});
    top(y);
  } else if (t == "Exp" || t == "Log") {
    exponential();
  } else if (t == "Threshold") {
    const ValueId limit =
        g.constant("threshold", scalar_f32(m.message("threshold_param").number("threshold", 0)));
    top(op("cast", {g.op("greater", l.name + ".greater", {x(), limit})},
           {{"to", std::string("f32")}}));
  } else if (t == "Reduction") {
    const PbMessage p = m.message("reduction_param");
    const std::string kind = p.text("operation", "SUM");
    Ints axes;
    for (std::int64_t i = axis(p.integer("axis", 0), x()); i < g.rank(x()); ++i) axes.push_back(i);
    const char* name = kind == "SUM"     ? "reduce_sum"
                       : kind == "ASUM"  ? "reduce_l1"
                       : kind == "SUMSQ" ? "reduce_sum_square"
                                         : "reduce_mean";
    ValueId y = g.op(name, l.name, {x()}, {{"axes", axes}, {"keepdims", false}});
    if (const float c = p.number("coeff", 1); c != 1)
      y = g.op("mul", l.name + ".coeff", {y, g.constant("coeff", scalar_f32(c))});
    top(y);
  } else if (t == "Tile") {
    const PbMessage p = m.message("tile_param");
    Ints repeats(static_cast<std::size_t>(g.rank(x())), 1);
    repeats[static_cast<std::size_t>(axis(p.integer("axis", 1), x()))] = p.integer("tiles");
    top(op("tile", {x()}, {{"repeats", repeats}}));
  } else if (t == "Embed") {
    const PbMessage p = m.message("embed_param");
    const std::int64_t in = p.integer("input_dim"), out = p.integer("num_output");
    const ValueId ids = g.op("cast", l.name + ".ids", {x()}, {{"to", std::string("i64")}});
    ValueId y = op("gather", {weight(0, {in, out}), ids});
    if (p.flag("bias_term", true)) y = g.op("add", l.name + ".bias", {y, weight(1, {out})});
    top(y);
  } else if (t == "Crop") {
    const PbMessage p = m.message("crop_param");
    const std::int64_t from = axis(p.integer("axis", 2), x());
    const Ints offset = p.integers("offset");
    Ints starts, ends, axes;
    for (std::int64_t i = from; i < g.rank(x()); ++i) {
      const auto k = static_cast<std::size_t>(i - from);
      const std::int64_t o = offset.empty() ? 0 : offset[std::min(k, offset.size() - 1)];
      starts.push_back(o);
      ends.push_back(o + g.shape(x(1))[static_cast<int>(i)]);
      axes.push_back(i);
    }
    top(op("slice", {x()}, {{"starts", starts}, {"ends", ends}, {"axes", axes}}));
  } else if (t == "MVN") {
    const PbMessage p = m.message("mvn_param");
    Ints axes;
    for (std::int64_t i = p.flag("across_channels") ? 1 : 2; i < g.rank(x()); ++i)
      axes.push_back(i);
    g.note("MVN divides by sqrt(variance) + eps: eps stands outside the root");
    top(op("mean_variance_normalization", {x()},
           {{"axes", axes},
            {"normalize_variance", p.flag("normalize_variance", true)},
            {"eps", p.number("eps", 1e-9F)}}));
  } else if (t == "Normalize") {
    const PbMessage p = m.message("norm_param");
    const Ints axes = p.flag("across_spatial", true) ? Ints{1, 2, 3} : Ints{1};
    ValueId y = g.op("lp_norm", l.name + ".norm", {x()},
                     {{"p", 2.0F},
                      {"axes", axes},
                      {"eps", p.number("eps", 1e-10F)},
                      {"eps_in", std::string("sum_add")}});
    const Shape own = p.flag("channel_shared", true) ? Shape{1} : Shape{g.shape(x())[1]};
    y = op("mul", {y, g.reshape(l.name + ".0", weight(0, own), against(own, 1, g.rank(x())))});
    g.note("Normalize: eps is added to the sum of squares, then the root is taken");
    top(y);
  } else if (t == "Python") {
    const PbMessage p = m.message("python_param");
    throw bad_input(
        "Python is not supported: {} of module {} is code, which is not run; take it out",
        printable(p.text("layer")), printable(p.text("module")));
  } else if (!branch_layer()) {
    throw bad_input("{} is not supported", printable(t));
  }
}
}  // namespace etalon::caffe
