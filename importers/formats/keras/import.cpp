#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/bytes.h"
#include "importers/formats/companion.h"
#include "importers/formats/keras.h"
#include "importers/formats/keras/files.h"
#include "importers/formats/keras/weights.h"

namespace etalon {
namespace keras_format {
namespace {

using nlohmann::json;

void weights_alone(Model& model, const Piece& piece) {
  model.graph = std::make_shared<Graph>();
  if (!piece.weights) return;
  for (NamedTensor& t : all_weights(piece))
    model.graph->initializers.emplace(model.graph->add_value(std::move(t.name)),
                                      std::move(t.tensor));
}

// Lets go of the pages of a file that were read: what was joined or split (gates) has memory of its
// own, and the tensors that lie in the file are read from it when somebody wants them.
void release(const Blob& file) { MappedFile::forget(file.bytes, file.keeper); }

// Layers as a list, or below a name.
bool has_layers(const json& config) {
  return config.contains("config") &&
         (config["config"].is_array() || config["config"].contains("layers"));
}

TensorList share(const TensorList& tensors) {
  TensorList out;
  for (const NamedTensor& t : tensors) out.push_back({t.name, t.tensor.share()});
  return out;
}

void build(Model& model, const Network& network, const Piece& weights) {
  if (!has_layers(network.config)) {
    model.notes = {"Weights alone: a subclassed model, whose code is not in the file."};
    weights_alone(model, weights);
    return;
  }
  try {
    GraphBuilder b("keras");
    build_model(b, network.config, network.origin,
                !weights.weights ? checkpoint_weights(share(weights.variables), network.config)
                : weights.listed ? h5_weights(*weights.weights, weights.group, network.config)
                                 : v3_weights(*weights.weights, network.config));
    *model.graph = b.finish();
    model.notes = b.take_notes();
  } catch (const UnknownLayer& unknown) {
    model.notes = {"Weights alone: " + printable(unknown.what) + " has no translation."};
    weights_alone(model, weights);
  }
}

Model open(const std::string& path, std::span<const std::string> with) {
  std::vector<Piece> pieces;
  pieces.push_back(piece_of(path));
  for (const std::string& w : with) pieces.push_back(piece_of(w));
  if (with.empty() && !pieces[0].weights)
    if (const std::string beside = companion(path, with, {".weights.h5", ".h5", ".hdf5"});
        !beside.empty())
      pieces.push_back(piece_of(beside));
  const ErrorScope scope(path);
  const Network* network = nullptr;
  for (const Piece& p : pieces)
    if (!network && p.network) network = &*p.network;
  // Weights in a file of their own count before those that stand beside the network.
  auto weights = std::ranges::find_if(
      pieces, [](const Piece& p) { return (p.weights || !p.variables.empty()) && !p.network; });
  if (weights == pieces.end())
    weights = std::ranges::find_if(pieces, [](const Piece& p) { return !!p.weights; });
  if (weights == pieces.end())
    throw bad_input("a network without its weights; name their file by --with");
  Model model;
  model.path = path;
  model.format = "keras";
  model.version = pieces[0].version;
  model.producer = pieces[0].producer;
  if (network) {
    build(model, *network, *weights);
  } else {
    model.notes = {
        "Weights alone: the network stands in another file (.json, .keras, .h5); name it by "
        "--with."};
    weights_alone(model, *weights);
  }
  for (const Piece& p : pieces) release(p.bytes);
  return model;
}

}  // namespace

}  // namespace keras_format

const FormatRow& keras_format_row() {
  static const FormatRow row{
      .name = "keras",
      .endings = ".keras .h5 .json",
      .summary = "Keras 1 to 3: networks with their weights (.h5, .keras), or in two files.",
      .match = keras_format::is_piece,
      .open = keras_format::open,
      .takes_more = true};
  return row;
}

}  // namespace etalon
