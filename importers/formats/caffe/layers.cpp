#include "importers/formats/caffe/layers.h"

#include <algorithm>
#include <map>

#include "engine/core/error.h"
#include "importers/formats/caffe/schema.h"

namespace etalon::caffe {

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
namespace {

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
}  // namespace

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
}  // namespace etalon::caffe
