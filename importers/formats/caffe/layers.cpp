#include "importers/formats/caffe/layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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

// A V0 layer in the words of V2; `padding`: of a layer of its own before it.
PbMessage v0_params(const PbMessage& old, std::string& type, std::int64_t padding) {
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
      {"hdf5_output", "HDF5Output"},
      {"im2col", "Im2col"},
      {"infogain_loss", "InfogainLoss"},
      {"multinomial_logistic_loss", "MultinomialLogisticLoss"},
      {"hinge_loss", "HingeLoss"},
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
  const auto put_pad = [&] {
    if (const std::int64_t n = checked_add(old.integer("pad"), padding); n != 0)
      text += fmt::format("pad: {}\n", n);
  };
  if (type == "Convolution" || type == "InnerProduct") {
    text += type == "Convolution" ? "convolution_param {\n" : "inner_product_param {\n";
    put("num_output", "num_output");
    put("bias_term", "biasterm");
    if (type == "Convolution") {
      put_pad();
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
    put_pad();
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

// What rules are asked against: a network for inference is of phase TEST, of the level and stages
// that the file itself names, and of the stage "deploy".
struct State {
  std::int64_t level = 0;
  std::vector<std::string> stages;

  bool has(const std::string& stage) const {
    return std::ranges::find(stages, stage) != stages.end();
  }
};

bool allows(const PbMessage& rule, const State& state) {
  if (rule.has("phase") && rule.text("phase") != "TEST") return false;
  const auto stages = rule.texts("stage"), others = rule.texts("not_stage");
  const auto is_ours = [&](const std::string& s) { return state.has(s); };
  return std::ranges::all_of(stages, is_ours) && std::ranges::none_of(others, is_ours) &&
         (!rule.has("min_level") || rule.integer("min_level") <= state.level) &&
         (!rule.has("max_level") || rule.integer("max_level") >= state.level);
}

bool included(const PbMessage& layer, const State& state) {
  const auto include = layer.messages("include"), exclude = layer.messages("exclude");
  const auto applies = [&](const PbMessage& rule) { return allows(rule, state); };
  if (!include.empty() && std::ranges::none_of(include, applies)) return false;
  return std::ranges::none_of(exclude, applies);
}

// Where the rules leave out every layer that makes a blob (data for stages of a test that this is
// none of), the last of these layers that are data comes back.
void put_back_data(std::vector<Layer>& layers, const std::vector<Layer>& left_out,
                   const std::vector<std::string>& inputs) {
  std::map<std::string, const Layer*> sources;
  for (const Layer& d : left_out)
    if (is_data(d.type))
      for (const std::string& blob : d.tops) sources[blob] = &d;
  if (sources.empty()) return;
  std::set<std::string, std::less<>> made(inputs.begin(), inputs.end());
  std::vector<Layer> back;
  for (const Layer& l : layers) {
    for (const std::string& blob : l.bottoms) {
      if (made.contains(blob)) continue;
      const auto data = sources.find(blob);
      if (data == sources.end()) continue;
      made.insert(data->second->tops.begin(), data->second->tops.end());
      back.push_back(*data->second);
    }
    made.insert(l.tops.begin(), l.tops.end());
  }
  layers.insert(layers.begin(), back.begin(), back.end());
}
}  // namespace

bool is_data(std::string_view type) {
  return type == "Data" || type == "ImageData" || type == "HDF5Data" || type == "MemoryData" ||
         type == "DummyData" || type == "WindowData" || type == "AnnotatedData";
}

std::vector<Layer> layers_of(const PbMessage& net, std::string& version, bool all) {
  const PbMessage own = net.message("state");
  State state{own.integer("level"), own.texts("stage")};
  state.stages.emplace_back("deploy");
  std::vector<Layer> layers, left_out;
  const auto put = [&](const PbMessage& m, Layer l) {
    (all || included(m, state) ? layers : left_out).push_back(std::move(l));
  };
  for (const PbMessage& m : net.messages("layer")) {
    version = "V2";
    Layer l{m.text("name"),     m.text("type"), m.texts("bottom"), m.texts("top"), {}, m,
            m.messages("blobs")};
    for (const PbMessage& p : m.messages("param")) l.shared.push_back(p.text("name"));
    put(m, std::move(l));
  }
  // V0: blobs of padding layers, the blob each pads and by how much.
  std::map<std::string, std::pair<std::string, std::int64_t>, std::less<>> padded;
  for (const PbMessage& m : net.messages("layers")) {
    version = m.has("layer") ? "V0" : "V1";
    Layer l{m.text("name"),     m.text("type"), m.texts("bottom"), m.texts("top"), {}, m,
            m.messages("blobs")};
    if (m.has("layer")) {
      const PbMessage old = m.message("layer");
      l.name = old.text("name");
      const ErrorScope where(fmt::format("node {}", printable(l.name)));
      if (old.text("type") == "padding") {
        if (l.bottoms.size() != 1 || l.tops.size() != 1)
          throw bad_input("a padding layer of {} bottoms", l.bottoms.size());
        padded[l.tops[0]] = {l.bottoms[0], old.integer("pad")};
        continue;
      }
      std::int64_t padding = 0;
      for (std::string& blob : l.bottoms)
        if (const auto at = padded.find(blob); at != padded.end())
          std::tie(blob, padding) = at->second;
      l.params = v0_params(old, l.type, padding);
      if (padding != 0 && l.type != "Convolution" && l.type != "Pooling")
        throw bad_input("{} behind a padding layer, which pads convolutions and poolings",
                        printable(l.type));
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
          {"DECONVOLUTION", "Deconvolution"},
          {"CONTRASTIVE_LOSS", "ContrastiveLoss"},
          {"INFOGAIN_LOSS", "InfogainLoss"},
          {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
          {"IM2COL", "Im2col"}};
      if (const auto at = kUpper.find(l.type); at != kUpper.end()) l.type = at->second;
      l.shared = m.texts("param");
    }
    put(m, std::move(l));
  }
  put_back_data(layers, left_out, net.texts("input"));
  return layers;
}
}  // namespace etalon::caffe
