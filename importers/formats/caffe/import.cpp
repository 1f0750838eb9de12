// A Caffe network is a list of layers over named blobs; a layer whose top is its bottom works in
// place, which here is a new value of the same blob. Layers carry their weights by name: those of a
// .caffemodel are given to the layers of a prototxt, or to its own.
//
// V0 (layers { layer { type: "conv" } }) and V1 (layers { type: CONVOLUTION }) are read as V2.
// Conventions, each with a note: pooling rounds its extent up and counts padding (not what lies
// beyond it); a batch norm's statistics are divided by their third blob; its scale is a layer of
// its own; LRN divides alpha by the window; inner products flatten from an axis on.
#include <algorithm>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/hdf5.h"
#include "importers/formats/caffe.h"
#include "importers/formats/caffe/schema.h"
#include "importers/formats/companion.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace caffe {
namespace {

struct Layer {
  std::string name, type;
  std::vector<std::string> bottoms, tops, shared;  // shared: names of weights, "" where none
  PbMessage params;
  std::vector<PbMessage> blobs;
};

Shape shape_of(const PbMessage& blob) {
  if (blob.has("shape")) return Shape(blob.message("shape").integers("dim"));
  if (!blob.has("num") && !blob.has("channels")) return Shape{0};
  return Shape{blob.integer("num", 1), blob.integer("channels", 1), blob.integer("height", 1),
               blob.integer("width", 1)};
}

Tensor tensor_of(const PbMessage& blob) {
  const bool wide = blob.has("double_data");
  Tensor flat = blob.tensor(wide ? "double_data" : "data");
  const Shape shape = shape_of(blob);
  if (shape.numel() != flat.numel())
    throw bad_input("a blob {} holds {} elements; the file is damaged", to_string(shape),
                    flat.numel());
  return flat.reshaped(shape);
}

// A V0 layer in the words of V2.
PbMessage v0_params(const PbMessage& old, std::string& type) {
  static const std::map<std::string, std::string, std::less<>> kTypes{
      {"conv", "Convolution"},
      {"relu", "ReLU"},
      {"pool", "Pooling"},
      {"lrn", "LRN"},
      {"innerproduct", "InnerProduct"},
      {"softmax", "Softmax"},
      {"softmax_loss", "SoftmaxWithLoss"},
      {"dropout", "Dropout"},
      {"concat", "Concat"},
      {"data", "Data"},
      {"images", "ImageData"},
      {"tanh", "TanH"},
      {"sigmoid", "Sigmoid"},
      {"flatten", "Flatten"},
      {"bnll", "BNLL"},
      {"split", "Split"},
      {"accuracy", "Accuracy"},
      {"padding", "Padding"},
      {"power", "Power"},
      {"eltwise", "Eltwise"},
      {"hdf5_data", "HDF5Data"},
      {"euclidean_loss", "EuclideanLoss"},
      {"window_data", "WindowData"}};
  const std::string was = old.text("type");
  const auto known = kTypes.find(was);
  type = known == kTypes.end() ? was : known->second;
  std::string text;
  const auto put = [&](const char* to, const char* from) {
    if (old.has(from)) text += fmt::format("{}: {}\n", to, old.integer(from));
  };
  const auto put_number = [&](const char* to, const char* from) {
    if (old.has(from)) text += fmt::format("{}: {}\n", to, old.number(from));
  };
  if (type == "Convolution" || type == "InnerProduct") {
    text += type == "Convolution" ? "convolution_param {\n" : "inner_product_param {\n";
    put("num_output", "num_output");
    put("bias_term", "biasterm");
    if (type == "Convolution") {
      put("pad", "pad");
      put("kernel_size", "kernelsize");
      put("group", "group");
      put("stride", "stride");
    }
    text += "}\n";
  } else if (type == "Pooling") {
    text += "pooling_param {\n";
    if (old.has("pool")) text += "pool: " + old.text("pool") + "\n";
    put("kernel_size", "kernelsize");
    put("stride", "stride");
    put("pad", "pad");
    text += "}\n";
  } else if (type == "LRN") {
    text += "lrn_param {\n";
    put("local_size", "local_size");
    put_number("alpha", "alpha");
    put_number("beta", "beta");
    put_number("k", "k");
    text += "}\n";
  } else if (type == "Concat") {
    text += "concat_param {\n";
    put("concat_dim", "concat_dim");
    text += "}\n";
  } else if (type == "Data" || type == "ImageData") {
    text += "transform_param {\n";
    put("crop_size", "cropsize");
    text += "}\n";
  }
  return PbMessage::from_text(schema().type("LayerParameter"), text);
}

// Whether a rule lets the layer into a network for inference.
bool allows(const PbMessage& rule) {
  if (rule.has("phase") && rule.text("phase") != "TEST") return false;
  if (rule.has("stage") && rule.text("stage") != "deploy") return false;
  return rule.integer("min_level", 0) <= 0;
}

bool included(const PbMessage& layer) {
  const auto include = layer.messages("include"), exclude = layer.messages("exclude");
  if (!include.empty() && std::ranges::none_of(include, allows)) return false;
  return std::ranges::none_of(exclude, allows);
}

std::vector<Layer> layers_of(const PbMessage& net, std::string& version, bool all) {
  std::vector<Layer> layers;
  for (const PbMessage& m : net.messages("layer")) {
    version = "V2";
    if (!all && !included(m)) continue;
    Layer l{m.text("name"),     m.text("type"), m.texts("bottom"), m.texts("top"), {}, m,
            m.messages("blobs")};
    for (const PbMessage& p : m.messages("param")) l.shared.push_back(p.text("name"));
    layers.push_back(std::move(l));
  }
  for (const PbMessage& m : net.messages("layers")) {
    version = m.has("layer") ? "V0" : "V1";
    if (!all && !included(m)) continue;
    Layer l{m.text("name"),     m.text("type"), m.texts("bottom"), m.texts("top"), {}, m,
            m.messages("blobs")};
    if (m.has("layer")) {
      const PbMessage old = m.message("layer");
      l.name = old.text("name");
      l.params = v0_params(old, l.type);
      l.blobs = old.messages("blobs");
    } else {
      static const std::map<std::string, std::string, std::less<>> kUpper{
          {"ACCURACY", "Accuracy"},
          {"CONCAT", "Concat"},
          {"CONVOLUTION", "Convolution"},
          {"DATA", "Data"},
          {"DROPOUT", "Dropout"},
          {"EUCLIDEAN_LOSS", "EuclideanLoss"},
          {"FLATTEN", "Flatten"},
          {"HDF5_DATA", "HDF5Data"},
          {"HDF5_OUTPUT", "HDF5Output"},
          {"IMAGE_DATA", "ImageData"},
          {"INNER_PRODUCT", "InnerProduct"},
          {"POOLING", "Pooling"},
          {"RELU", "ReLU"},
          {"SIGMOID", "Sigmoid"},
          {"SOFTMAX", "Softmax"},
          {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
          {"SPLIT", "Split"},
          {"TANH", "TanH"},
          {"WINDOW_DATA", "WindowData"},
          {"ELTWISE", "Eltwise"},
          {"POWER", "Power"},
          {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
          {"HINGE_LOSS", "HingeLoss"},
          {"MEMORY_DATA", "MemoryData"},
          {"ARGMAX", "ArgMax"},
          {"THRESHOLD", "Threshold"},
          {"DUMMY_DATA", "DummyData"},
          {"SLICE", "Slice"},
          {"ABSVAL", "AbsVal"},
          {"SILENCE", "Silence"},
          {"EXP", "Exp"},
          {"DECONVOLUTION", "Deconvolution"}};
      if (const auto at = kUpper.find(l.type); at != kUpper.end()) l.type = at->second;
      l.shared = m.texts("param");
    }
    layers.push_back(std::move(l));
  }
  return layers;
}

class Translator {
 public:
  Translator(const std::string& name, std::map<std::string, std::vector<Tensor>> weights)
      : g(name), weights_(std::move(weights)) {}

  GraphBuilder g;

  void input(const std::string& blob, Ints dims) {
    if (!dims.empty()) dims[0] = -1;
    for (const std::int64_t d : dims)
      if (d == 0 || d < -1) throw bad_input("input {}: an extent of {}", printable(blob), d);
    blobs_[blob] = g.input(blob, DType::f32, dims);
  }
  void layer(const Layer& l);
  void outputs() {
    for (const std::string& blob : order_)
      if (unread_.contains(blob)) g.output(blobs_.at(blob), blob);
  }
  bool has(const std::string& blob) const { return blobs_.contains(blob); }

 private:
  ValueId x(std::size_t i = 0) const {
    if (i >= l_->bottoms.size()) throw bad_input("{} needs bottom {}", l_->type, i);
    const auto at = blobs_.find(l_->bottoms[i]);
    if (at == blobs_.end())
      throw bad_input("nothing before it makes the blob {}", printable(l_->bottoms[i]));
    return at->second;
  }
  void top(ValueId v, std::size_t i = 0) {
    if (i >= l_->tops.size()) throw bad_input("{} needs a top", l_->type);
    const std::string& blob = l_->tops[i];
    blobs_[blob] = v;
    if (std::ranges::find(order_, blob) == order_.end()) order_.push_back(blob);
    unread_.insert(blob);
  }
  std::size_t weight_count() const {
    const auto at = weights_.find(l_->name);
    return at == weights_.end() ? 0 : at->second.size();
  }
  const Tensor& weight_tensor(std::size_t i) const {
    const auto at = weights_.find(l_->name);
    if (at == weights_.end() || i >= at->second.size())
      throw bad_input(
          "{} has no weights {}: name the .caffemodel beside the prototxt or give it "
          "with --with",
          l_->type, i);
    return at->second[i];
  }
  // Weights as the op wants them; 4-D blobs of old files stand for shorter shapes.
  ValueId weight(std::size_t i, const Shape& shape) {
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
  Ints pair(const PbMessage& p, const char* both, const char* h, const char* w,
            std::int64_t otherwise, std::size_t axes) const {
    if (p.has(h) || p.has(w)) return {p.integer(h, otherwise), p.integer(w, otherwise)};
    Ints values = p.integers(both);
    if (values.empty()) values.push_back(otherwise);
    if (values.size() == 1) values.resize(axes, values[0]);
    if (values.size() != axes)
      throw bad_input("{} has {} values for {} axes", both, values.size(), axes);
    return values;
  }
  void convolution(bool transposed);
  void pooling();
  void inner_product();
  void scale(bool with_scale, const char* params);
  void lrn();
  void eltwise();
  void reshape();
  ValueId op(std::string_view name, const std::vector<ValueId>& in, const Fields& f = {}) {
    return g.op(name, l_->name, in, f);
  }
  std::int64_t axis(std::int64_t a, ValueId v) const { return normalize_axis(a, g.rank(v)); }
  // [C] against axis `axis` of rank `rank`: [C, 1, ...]
  Ints against(const Shape& shape, std::int64_t axis, int rank) const {
    Ints dims(shape.dims().begin(), shape.dims().end());
    while (static_cast<std::int64_t>(dims.size()) + axis < rank) dims.push_back(1);
    return dims;
  }

  const Layer* l_ = nullptr;
  std::map<std::string, std::vector<Tensor>> weights_;
  std::map<std::string, ValueId> blobs_, shared_;
  std::vector<std::string> order_;
  std::set<std::string> unread_;
};

void Translator::convolution(bool transposed) {
  const PbMessage p = l_->params.message("convolution_param");
  const auto axes = static_cast<std::size_t>(std::max(g.rank(x()) - 2, 0));
  if (p.integer("axis", 1) != 1) throw bad_input("a convolution along another axis than 1");
  const Ints kernel = pair(p, "kernel_size", "kernel_h", "kernel_w", 0, axes);
  const Ints pad = pair(p, "pad", "pad_h", "pad_w", 0, axes);
  const Ints stride = pair(p, "stride", "stride_h", "stride_w", 1, axes);
  const Ints dilation = pair(p, "dilation", "dilation", "dilation", 1, axes);
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
  if (kind != "MAX" && kind != "AVE") throw bad_input("{} pooling is not supported", kind);
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
  const bool ceil = p.text("round_mode", "CEIL") == "CEIL";
  f.emplace_back("ceil_mode", ceil);
  if (ceil)
    g.note(
        "Caffe's pooling rounds the output extent up (ceil_mode); a last window must begin "
        "inside the input or its padding");
  if (kind == "AVE") {
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

void Translator::scale(bool with_scale, const char* name) {
  const PbMessage p = l_->params.message(name);
  const ValueId in = x();
  const std::int64_t at = axis(p.integer("axis", 1), in);
  ValueId y = in;
  if (l_->bottoms.size() > 1) {
    const ValueId factor = x(1);
    const Ints dims = against(g.shape(factor), at, g.rank(in));
    y = op(with_scale ? "mul" : "add", {in, g.reshape(l_->name + ".axis", factor, dims)});
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

bool is_data(std::string_view type) {
  return type == "Data" || type == "ImageData" || type == "HDF5Data" || type == "MemoryData" ||
         type == "DummyData" || type == "WindowData" || type == "AnnotatedData";
}

void Translator::layer(const Layer& l) {
  l_ = &l;
  const ErrorScope where(fmt::format("node {}", printable(l.name)));
  const PbMessage& m = l.params;
  const std::string& t = l.type;
  // Training's own layers read labels that inference does not have.
  if (t == "Accuracy" || t == "Silence" || t == "HDF5Output" || t == "EuclideanLoss" ||
      t == "HingeLoss" || t == "InfogainLoss" || t == "MultinomialLogisticLoss" ||
      t == "ContrastiveLoss" || t == "MultiBoxLoss") {
    g.note(fmt::format("{} {} serves training and is left out", t, l.name));
    return;
  }
  if (is_data(t)) {
    const PbMessage transform = m.message("transform_param");
    Ints dims;
    if (t == "MemoryData") {
      const PbMessage p = m.message("memory_data_param");
      dims = {1, p.integer("channels"), p.integer("height"), p.integer("width")};
    } else if (t == "DummyData" && m.message("dummy_data_param").has("shape")) {
      dims = m.message("dummy_data_param").message("shape").integers("dim");
    } else if (transform.has("crop_size")) {
      dims = {1, 3, transform.integer("crop_size"), transform.integer("crop_size")};
      g.note("the data layer does not say how many channels its images have; 3 are assumed");
    } else {
      throw bad_input("{} does not say how large its data are; give the deploy prototxt", t);
    }
    if (l.tops.empty()) throw bad_input("a data layer without a top");
    if (transform.has("scale") || transform.has("mean_value") || transform.has("mean_file"))
      g.note("the data layer subtracts the mean and scales before the network: feed what it makes");
    input(l.tops[0], dims);
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
  for (std::size_t i = 0; i < l.bottoms.size() && (i == 0 || !loss); ++i) {
    x(i);
    unread_.erase(l.bottoms[i]);
  }
  if (t == "Convolution" || t == "ConvolutionDepthwise" || t == "DepthwiseConvolution") {
    convolution(false);
  } else if (t == "Deconvolution") {
    convolution(true);
  } else if (t == "Pooling") {
    pooling();
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
  } else if (t == "Sigmoid" || t == "SigmoidCrossEntropyLoss") {
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
  } else if (t == "Softmax" || t == "SoftmaxWithLoss") {
    if (loss) g.note(fmt::format("{} {} gives its softmax; the loss is training's", t, l.name));
    const std::int64_t at = loss ? 1 : m.message("softmax_param").integer("axis", 1);
    const ValueId y = op("softmax", {x()}, {{"axis", axis(at, x())}});
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
    const float eps = p.number("eps", 1e-5F);
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
    const PbMessage p = m.message(t == "Exp" ? "exp_param" : "log_param");
    if (p.number("base", -1) != -1) throw bad_input("{} with a base other than e", t);
    ValueId y = x();
    const float scale = p.number("scale", 1), shift = p.number("shift", 0);
    if (scale != 1) y = g.op("mul", l.name + ".scale", {y, g.constant("scale", scalar_f32(scale))});
    if (shift != 0) y = g.op("add", l.name + ".shift", {y, g.constant("shift", scalar_f32(shift))});
    top(op(t == "Exp" ? "exp" : "log", {y}));
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
  } else if (t == "Padding") {
    throw bad_input(
        "a V0 padding layer; merge it into the convolution after it with Caffe's "
        "upgrade_net_proto_text");
  } else {
    throw bad_input("{} is not supported{}", printable(t),
                    t == "LSTM" || t == "RNN" ? ": its sequence markers are data" : "");
  }
}

// .caffemodel.h5: data/LAYER/0, 1, ...
std::map<std::string, std::vector<Tensor>> read_h5(const Blob& bytes) {
  const Hdf5File file(bytes);
  std::map<std::string, std::vector<Tensor>> weights;
  const auto data = file.find(file.root(), "data");
  if (!data) throw bad_input("no group 'data' in it; it holds no Caffe weights");
  for (const auto& [layer, address] : data->children) {
    const ErrorScope where(fmt::format("tensor {}", printable(layer)));
    const Hdf5Object group = file.child(*data, layer);
    for (std::size_t i = 0; i < group.children.size(); ++i)
      weights[layer].push_back(file.read(file.child(group, std::to_string(i))));
  }
  return weights;
}

Model open(const std::string& path, std::span<const std::string> with) {
  const auto is_text = [](const Blob& file) {
    const std::string_view text = file.text().substr(0, 512);
    return std::ranges::all_of(text, [](char c) {
      return c == '\n' || c == '\r' || c == '\t' || static_cast<unsigned char>(c) >= 32;
    });
  };
  const Blob named = map_file(path);
  std::string net_path, weights_path;
  if (is_text(named)) {
    net_path = path;
    weights_path = companion(path, with, {".caffemodel", ".caffemodel.h5"});
  } else {
    weights_path = path;
    const bool h5 = has_ending(path, ".h5");
    net_path = companion(h5 ? path.substr(0, path.size() - 3) : path, with, {".prototxt"});
    if (h5 && net_path.empty())
      throw bad_input("{}: holds weights alone; name its prototxt with --with", path);
  }
  std::string version;
  std::map<std::string, std::vector<Tensor>> weights;
  PbMessage net;
  if (has_ending(weights_path, ".h5")) {
    const ErrorScope scope(weights_path);
    weights = read_h5(map_file(weights_path));
  } else if (!weights_path.empty()) {
    const ErrorScope scope(weights_path);
    net = PbMessage::from_wire(schema().type("NetParameter"), map_file(weights_path));
    for (const Layer& l : layers_of(net, version, true)) {
      if (l.blobs.empty()) continue;
      const ErrorScope where(fmt::format("tensor {}", printable(l.name)));
      std::vector<Tensor>& list = weights[l.name];
      if (!list.empty()) throw bad_input("two layers of that name have weights");
      for (const PbMessage& b : l.blobs) list.push_back(tensor_of(b));
    }
  }
  const ErrorScope scope(net_path.empty() ? path : net_path);
  if (!net_path.empty())
    net = PbMessage::from_text(schema().type("NetParameter"), map_file(net_path).text());
  const std::vector<Layer> layers = layers_of(net, version, false);
  if (layers.empty()) throw bad_input("no layer in it; it is no Caffe network or damaged");
  Translator t(net.text("name"), std::move(weights));
  const std::vector<std::string> inputs = net.texts("input");
  const Ints flat = net.integers("input_dim");
  const auto shapes = net.messages("input_shape");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < shapes.size())
      t.input(inputs[i], shapes[i].integers("dim"));
    else if (flat.size() >= 4 * i + 4)
      t.input(inputs[i], {flat[4 * i], flat[4 * i + 1], flat[4 * i + 2], flat[4 * i + 3]});
    else
      throw bad_input("input {} has no shape", printable(inputs[i]));
  }
  t.g.note(
      "inputs are NCHW; by Caffe's custom images are BGR with the training set's mean "
      "subtracted, which is no part of the network");
  for (const Layer& l : layers) t.layer(l);
  t.outputs();
  return finish_model(t.g, path, "caffe", version, "");
}

bool match(const FileView& file) {
  if (file.is_folder) return false;
  const std::string_view text = file.text();
  if (has_ending(file.path, ".prototxt") || has_ending(file.path, ".pt")) {
    for (const char* word :
         {"layer {", "layers {", "layer{", "layers{", "input_dim", "input_shape"})
      if (text.find(word) != std::string_view::npos) return true;
  }
  if (has_ending(file.path, ".caffemodel") || has_ending(file.path, ".caffemodel.h5")) return true;
  const auto fields = peek_fields(file.prefix);
  std::size_t at = 0;
  if (at < fields.size() && fields[at].number == 1 && fields[at].wire == 2 &&
      std::ranges::all_of(fields[at].payload, [](std::byte b) { return b >= std::byte{32}; }))
    ++at;
  // Then a layer of V2, whose number no other format uses.
  return at < fields.size() && fields[at].wire == 2 && fields[at].number == 100;
}

TensorList load_blob(const std::string& path) {
  const ErrorScope scope(path);
  TensorList tensors;
  tensors.push_back(
      {"mean", tensor_of(PbMessage::from_wire(schema().type("BlobProto"), map_file(path)))});
  return tensors;
}

TensorList load_solver(const std::string& path) {
  const ErrorScope scope(path);
  const PbMessage state = PbMessage::from_wire(schema().type("SolverState"), map_file(path));
  TensorList tensors;
  tensors.push_back({"iter", Tensor::of<std::int64_t>({}, {state.integer("iter")})});
  tensors.push_back(
      {"current_step", Tensor::of<std::int64_t>({}, {state.integer("current_step")})});
  for (const PbMessage& blob : state.messages("history"))
    tensors.push_back({fmt::format("history.{}", tensors.size() - 2), tensor_of(blob)});
  return tensors;
}

// num, channels, height, width as numbers, then the packed data.
bool match_blob(const FileView& file) {
  if (has_ending(file.path, ".binaryproto")) return !file.is_folder;
  const auto fields = peek_fields(file.prefix, 5);
  for (std::size_t i = 0; i < 4; ++i)
    if (i >= fields.size() || fields[i].number != i + 1 || fields[i].wire != 0) return false;
  return fields.size() > 4 && fields[4].number == 5 && fields[4].wire == 2;
}

}  // namespace
}  // namespace caffe

const FormatRow& caffe_format() {
  static const FormatRow row{.name = "caffe",
                             .endings = ".caffemodel .prototxt",
                             .summary = "Caffe network, prototxt V0 to V2, weights beside it.",
                             .match = caffe::match,
                             .open = caffe::open};
  return row;
}

const FormatRow& caffe_blob_format() {
  static const FormatRow row{.name = "caffe-blob",
                             .endings = ".binaryproto",
                             .summary = "One Caffe blob: the mean of a training set.",
                             .match = caffe::match_blob,
                             .load = caffe::load_blob};
  return row;
}

const FormatRow& caffe_solver_format() {
  static const FormatRow row{
      .name = "caffe-solver",
      .endings = ".solverstate",
      .summary = "State of Caffe's solver: iteration and momenta.",
      .match = [](const FileView& f) { return !f.is_folder && has_ending(f.path, ".solverstate"); },
      .load = caffe::load_solver};
  return row;
}

}  // namespace etalon
