// A Caffe network is a list of layers over named blobs; a layer whose top is its bottom works in
// place, which here is a new value of the same blob. Layers carry their weights by name: those of a
// .caffemodel are given to the layers of a prototxt, or to its own.
//
// V0 (layers { layer { type: "conv" } }) and V1 (layers { type: CONVOLUTION }) are read as V2.
// Conventions, each with a note: pooling rounds its extent up and counts padding (not what lies
// beyond it); a batch norm's statistics are divided by their third blob; its scale is a layer of
// its own; LRN divides alpha by the window; inner products flatten from an axis on.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/hdf5.h"
#include "importers/formats/caffe.h"
#include "importers/formats/caffe/layers.h"
#include "importers/formats/caffe/schema.h"
#include "importers/formats/caffe/translator.h"
#include "importers/formats/companion.h"
#include "importers/formats/extents.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace caffe {
namespace {

constexpr std::size_t kMostWeights = 64;  // of a layer

// .caffemodel.h5: data/LAYER/0, 1, ...
Translator::Weights read_h5(const Blob& bytes) {
  const Hdf5File file(bytes);
  Translator::Weights weights;
  const auto data = file.find(file.root(), "data");
  if (!data) throw bad_input("no group 'data' in it; it holds no Caffe weights");
  for (const auto& [layer, address] : data->children) {
    const ErrorScope where(fmt::format("tensor {}", printable(layer)));
    const Hdf5Object group = file.child(*data, layer);
    // A weight that another layer owns is not stored again: the places before it may be empty.
    std::vector<Tensor>& list = weights[layer];
    for (const auto& [place, at] : group.children) {
      std::size_t i = 0;
      const auto [end, failed] = std::from_chars(place.data(), place.data() + place.size(), i);
      if (failed != std::errc{} || end != place.data() + place.size() || i > kMostWeights)
        throw bad_input("'{}' is no weight's place, expected 0, 1, ...", printable(place));
      while (list.size() <= i) list.push_back(Tensor::zeros(DType::f32, {0}));
      list[i] = file.read(file.child(group, place));
    }
  }
  return weights;
}

// The usual extents; the largest of them first, which a network without inner products takes.
constexpr auto kExtents = [] {
  std::array<std::int64_t, kUsualExtents.size() + 1> out{224};
  std::ranges::copy(kUsualExtents, out.begin() + 1);
  return out;
}();

Model translated(Translator& t, const PbMessage& net, const std::vector<Layer>& layers,
                 const std::string& path, const std::string& version) {
  if (std::ranges::any_of(layers,
                          [](const Layer& l) { return l.type == "LSTM" || l.type == "RNN"; }))
    t.fix_first_extent();
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

Model weights_alone(const Translator::Weights& weights, const std::string& path,
                    const std::string& version, const std::string& why) {
  Model m;
  m.path = path;
  m.format = "caffe";
  m.version = version;
  m.notes.push_back(
      fmt::format("weights alone: the network that trained them cannot be run ({}); give the "
                  "deploy prototxt with "
                  "--with",
                  why));
  for (const auto& [layer, list] : weights)
    for (std::size_t i = 0; i < list.size(); ++i)
      m.graph->initializers.emplace(m.graph->add_value(fmt::format("{}.{}", layer, i)),
                                    list[i].share());
  return m;
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
  Translator::Weights weights;
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
  // Data layers may not say how large their images are: what the weights fit is looked for.
  std::string first_error;
  for (const std::int64_t extent : kExtents) {
    Translator t(net.text("name"), layers, weights, extent);
    try {
      return translated(t, net, layers, path, version);
    } catch (const Error& e) {
      if (first_error.empty()) first_error = e.what();
      if (!t.extents_tried()) break;
    }
  }
  // A training's own network, without a prototxt of what it was trained for.
  if (net_path.empty() &&
      std::ranges::any_of(layers, [](const Layer& l) { return is_data(l.type); }))
    return weights_alone(weights, path, version, first_error);
  throw Error(ErrorKind::bad_input, first_error);
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
                             .open = caffe::open,
                             .takes_more = true};
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
