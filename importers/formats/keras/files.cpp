#include "importers/formats/keras/files.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/containers/zip.h"
#include "importers/formats/keras/weights.h"
#include "importers/formats/tf/checkpoint.h"

namespace etalon::keras_format {
namespace {

using nlohmann::json;

int major_version(const std::string& text) {
  return !text.empty() && text[0] >= '1' && text[0] <= '3' ? text[0] - '0' : 1;
}

// "2.13.1" gives 13.
int minor_version(const std::string& text) {
  int minor = 0;
  const std::size_t dot = text.find('.');
  if (dot != std::string::npos)
    std::from_chars(text.data() + dot + 1, text.data() + text.size(), minor);
  return minor;
}

Origin origin_of(const std::string& version, const std::string& backend) {
  const int major = major_version(version), minor = minor_version(version);
  const bool tf = version.find("-tf") != std::string::npos;
  Origin out{.version = major,
             .theano = backend == "theano",
             .cntk = backend == "cntk",
             .unsaid = backend.empty() && major < 3};
  // From tf.keras of TensorFlow 2.2 on ("2.3.0-tf") resizing takes the centres of pixels. Versions
  // before it ("2.2.4-tf") were written by TensorFlow 1 and 2, which differ; Keras alone never did.
  out.half_pixels = major >= 3 || (major == 2 && (minor >= 4 || (minor == 3 && tf)));
  // Keras' own 2.2 has TensorFlow 1's resize_bilinear.
  out.corners = major == 2 && minor == 2 && backend == "tensorflow" && !tf;
  return out;
}

std::string producer_of(const std::string& version, const std::string& backend) {
  return "keras " + (version.empty() ? "1" : printable(version)) +
         (backend.empty() ? "" : " on " + printable(backend));
}

std::string text_of(const Hdf5Object& object, const char* name) {
  const Hdf5Value* v = object.attribute(name);
  return v != nullptr && v->texts.size() == 1 ? v->texts[0] : "";
}

// A list of texts, cut in pieces where it is long.
std::vector<std::string> texts_of(const Hdf5Object& object, const std::string& name) {
  std::vector<std::string> out;
  if (const Hdf5Value* v = object.attribute(name)) out = v->texts;
  for (int part = 0;; ++part) {
    const Hdf5Value* v = object.attribute(name + std::to_string(part));
    if (v == nullptr) return out;
    out.insert(out.end(), v->texts.begin(), v->texts.end());
  }
}

bool lists_layers(const Hdf5Object& group) {
  return group.attribute("layer_names") != nullptr || group.attribute("layer_names0") != nullptr;
}

// Keras 3 keeps the weights of a layer as vars/0, vars/1 and on.
bool has_places(const Hdf5File& file) {
  return std::ranges::any_of(file.datasets(file.root()), [](const auto& d) {
    return d.first.starts_with("vars/") || d.first.find("/vars/") != std::string::npos;
  });
}

Piece h5_piece(const Blob& bytes) {
  Piece out;
  out.bytes = bytes;
  out.version = "h5";
  auto file = std::make_shared<Hdf5File>(bytes);
  const Hdf5Object root = file->root();
  const std::string config = text_of(root, "model_config");
  const bool both = root.attribute("model_config") != nullptr;
  out.group = both ? file->child(root, "model_weights") : root;
  out.listed = both || lists_layers(root);
  const std::string version = text_of(both ? root : out.group, "keras_version"),
                    backend = text_of(both ? root : out.group, "backend");
  out.producer = out.listed ? producer_of(version, backend) : "keras 3";
  if (both) out.network = Network{parse_json(config), origin_of(version, backend)};
  out.weights = std::move(file);
  return out;
}

Piece zip_piece(const Blob& bytes) {
  const ZipReader zip(bytes);
  const auto member = [&](const char* name) {
    const ZipMember* m = zip.find(name);
    if (m == nullptr) throw bad_input("no member {}; the file is damaged", name);
    constexpr std::uint64_t kLarge = 1 << 20;  // stays on the disk until it is used
    return m->bytes > kLarge ? zip.view(*m) : zip.read(*m);
  };
  Piece out;
  out.bytes = bytes;
  out.version = "keras v3";
  std::string version = "3";
  if (const ZipMember* m = zip.find("metadata.json")) {
    const json metadata = parse_json(zip.read(*m).text());
    if (metadata.is_object() && metadata.contains("keras_version"))
      version = json_string(metadata, "keras_version");
  }
  out.producer = producer_of(version, "");
  // Versions 2.12 to 2.15 write this format, too, and mean their own layers.
  out.network = Network{parse_json(member("config.json").text()), origin_of(version, "tensorflow")};
  out.weights = std::make_shared<Hdf5File>(member("model.weights.h5"));
  out.group = out.weights->root();
  return out;
}

Piece json_piece(const Blob& bytes) {
  Piece out;
  out.bytes = bytes;
  out.version = "json";
  json config = parse_json(bytes.text());
  const auto text = [&](const char* key) {
    return config.contains(key) ? json_string(config, key) : std::string();
  };
  std::string version = text("keras_version");
  if (version.empty() && config.contains("module")) version = "3";
  const std::string backend = text("backend");
  out.producer = producer_of(version, backend);
  out.network = Network{std::move(config), origin_of(version, backend)};
  return out;
}

bool is_configuration(const FileView& view) {
  const std::string_view text = view.text();
  if (text.empty() || text[0] != '{' || text.find("\"class_name\"") == text.npos ||
      text.find("\"modelTopology\"") != text.npos)
    return false;
  const json all = parse_json(map_file(view.path).text());
  return all.is_object() && all.contains("class_name") && all.contains("config");
}

}  // namespace

bool is_piece(const FileView& view) {
  try {
    if (is_zip(view.prefix)) {
      if (first_zip_member(view.prefix).ends_with(".npy")) return false;
      const ZipReader zip(map_file(view.path));
      return zip.find("config.json") != nullptr && zip.find("model.weights.h5") != nullptr;
    }
    if (!is_hdf5(view.prefix)) return is_configuration(view);
    const Hdf5File file(map_file(view.path));
    const Hdf5Object root = file.root();
    if (root.attribute("model_config") != nullptr)
      return file.find(root, "model_weights").has_value();
    return lists_layers(root) || has_places(file);
  } catch (const Error&) {
    return has_ending(view.path, ".keras");
  }
}

Piece piece_of(const std::string& path) {
  if (has_ending(path, ".index")) {
    Piece out;
    out.path = path;
    out.version = "checkpoint";
    out.variables = tf::read_checkpoint(path);
    return out;
  }
  const Blob bytes = map_file(path);
  const ErrorScope scope(path);
  Piece out;
  if (is_zip(bytes.bytes)) {
    out = zip_piece(bytes);
  } else if (is_hdf5(bytes.bytes)) {
    out = h5_piece(bytes);
  } else if (bytes.text().starts_with('{')) {
    out = json_piece(bytes);
  } else {
    throw bad_input("no Keras file; it is a network's .json, .h5 or .keras, or weights in .h5");
  }
  out.path = path;
  return out;
}

TensorList all_weights(const Piece& piece) {
  auto rest = piece.weights->datasets(piece.group);
  std::erase_if(rest, [](const auto& d) { return d.second.type.kind == Hdf5Type::Kind::other; });
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < rest.size(); ++i) places.emplace(rest[i].first, i);
  TensorList out;
  const auto take = [&](const std::string& name) {
    const auto at = places.find(name);
    if (at == places.end()) return;
    out.push_back({name, piece.weights->read(rest[at->second].second)});
    places.erase(at);
  };
  if (piece.listed)
    for (const std::string& layer : texts_of(piece.group, "layer_names"))
      if (const auto group = piece.weights->find(piece.group, layer))
        for (const std::string& weight : texts_of(*group, "weight_names"))
          take(layer + "/" + weight);
  for (const auto& [name, dataset] : rest)
    if (places.contains(name)) out.push_back({name, piece.weights->read(dataset)});
  return out;
}

}  // namespace etalon::keras_format
