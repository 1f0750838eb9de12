#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"
#include "importers/containers/zip.h"
#include "importers/formats/keras.h"
#include "importers/formats/keras/weights.h"

namespace etalon {
namespace keras_format {
namespace {

using nlohmann::json;

void weights_alone(Model& model, const Hdf5File& file, const Hdf5Object& group) {
  for (const auto& [name, dataset] : file.datasets(group))
    if (dataset.type.kind != Hdf5Type::Kind::other)
      model.graph->initializers.emplace(model.graph->add_value(name), file.read(dataset));
}

void build(Model& model, const json& config, const Origin& origin, const WeightsOf& weights,
           const Hdf5File& file, const Hdf5Object& group) {
  try {
    GraphBuilder b("keras");
    build_model(b, config, origin, weights);
    *model.graph = b.finish();
    model.notes = b.take_notes();
  } catch (const UnknownLayer& unknown) {
    model.graph = std::make_shared<Graph>();
    model.notes = {"Weights alone: " + printable(unknown.what) + " has no translation."};
    weights_alone(model, file, group);
  }
}

// Lets go of the pages of a file that were read: kernels have been turned into memory of their own,
// and the tensors that lie in the file are read from it when somebody wants them.
void release(const Blob& file) { MappedFile::forget(file.bytes, file.keeper); }

int major_version(const std::string& text) {
  return !text.empty() && text[0] >= '1' && text[0] <= '3' ? text[0] - '0' : 1;
}

// From tf.keras of TensorFlow 2.2 on ("2.3.0-tf") resizing takes the centres of pixels. Versions
// before it ("2.2.4-tf") were written by TensorFlow 1 and 2, which differ; Keras alone never did.
bool takes_half_pixels(const std::string& version) {
  if (major_version(version) >= 3) return true;
  return version.size() > 3 && version.starts_with("2.") && version[2] >= '3' &&
         (version.find("-tf") != std::string::npos || version[2] >= '4');
}

Model open_h5(const Blob& bytes, const std::string& path) {
  const Hdf5File file(bytes);
  const Hdf5Object root = file.root();
  Model model;
  model.path = path;
  model.format = "keras";
  const auto text = [&](const char* name) -> std::string {
    const Hdf5Value* v = root.attribute(name);
    return v != nullptr && v->texts.size() == 1 ? v->texts[0] : "";
  };
  const std::string version = text("keras_version"), backend = text("backend");
  model.version = "h5";
  model.producer = "keras " + (version.empty() ? "1" : printable(version)) +
                   (backend.empty() ? "" : " on " + printable(backend));
  const Hdf5Object group = file.child(root, "model_weights");
  const json config = parse_json(text("model_config"));
  const Origin origin{.version = major_version(version),
                      .theano = backend == "theano",
                      .cntk = backend == "cntk",
                      .unsaid = backend.empty(),
                      .half_pixels = takes_half_pixels(version),
                      // Keras' own 2.2 has TensorFlow 1's resize_bilinear.
                      .corners = version.starts_with("2.2.") && backend == "tensorflow" &&
                                 version.find("-tf") == std::string::npos};
  build(model, config, origin, h5_weights(file, group), file, group);
  release(bytes);
  return model;
}

Model open_v3(const Blob& bytes, const std::string& path) {
  const ZipReader zip(bytes);
  const auto member = [&](const char* name) {
    const ZipMember* m = zip.find(name);
    if (m == nullptr) throw bad_input("no member {}; the file is damaged", name);
    return zip.read(*m);
  };
  Model model;
  model.path = path;
  model.format = "keras";
  model.version = "keras v3";
  if (const ZipMember* m = zip.find("metadata.json")) {
    const json metadata = parse_json(zip.read(*m).text());
    if (metadata.is_object() && metadata.contains("keras_version"))
      model.producer = "keras " + printable(json_string(metadata, "keras_version"));
  }
  const json config = parse_json(member("config.json").text());
  const Hdf5File file(member("model.weights.h5"));
  release(bytes);  // its checksum was taken
  const Origin origin{.version = 3};
  if (!config.contains("config") || !config["config"].is_object() ||
      !config["config"].contains("layers")) {
    model.notes = {"Weights alone: a subclassed model, whose code is not in the file."};
    weights_alone(model, file, file.root());
    return model;
  }
  build(model, config, origin, v3_weights(file, config), file, file.root());
  release(bytes);
  return model;
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  return is_zip(file.bytes) ? open_v3(file, path) : open_h5(file, path);
}

bool match(const FileView& view) {
  try {
    if (is_zip(view.prefix)) {
      if (first_zip_member(view.prefix).ends_with(".npy")) return false;
      const ZipReader zip(map_file(view.path));
      return zip.find("config.json") != nullptr && zip.find("model.weights.h5") != nullptr;
    }
    if (!is_hdf5(view.prefix)) return false;
    const Hdf5File file(map_file(view.path));
    const Hdf5Object root = file.root();
    return root.attribute("model_config") != nullptr && file.find(root, "model_weights");
  } catch (const Error&) {
    return has_ending(view.path, ".keras");
  }
}

}  // namespace

}  // namespace keras_format

const FormatRow& keras_format_row() {
  static const FormatRow row{
      .name = "keras",
      .endings = ".keras .h5",
      .summary = "Keras 1 to 3: networks with their weights, .h5 and .keras.",
      .match = keras_format::match,
      .open = keras_format::open};
  return row;
}

}  // namespace etalon
