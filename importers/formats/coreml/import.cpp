// Core ML's neural network (Model fields 303, 403, 500): layers over named values. Weights are f32,
// f16 or quantised (1 to 8 bits, linear by channel or a table of values) and read as f32. With the
// exact mapping of shapes a value is what its description says; with the old one (rank 5) it lacks
// the batch, which is put before it. Pipelines of networks are one graph. Refused by name: trees
// and other models, layers whose type is Refused in schema.cpp, normalised variances (mvn).
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/containers/pbtree.h"
#include "importers/formats/coreml.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/coreml/schema.h"
#include "importers/formats/coreml/translator.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace coreml {
namespace {

struct Part {
  PbMessage net;
  std::vector<std::string> outputs;  // what the next one may read
};

// The networks of a model, one behind the other.
std::vector<Part> networks(const PbMessage& m, int depth) {
  if (depth > 4) throw bad_input("pipelines nest deeper than 4 levels");
  for (const char* kind : {"neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor"})
    if (m.has(kind) && m.message(kind).has("layers")) {
      Part part{m.message(kind), {}};
      for (const PbMessage& f : m.message("description").messages("output"))
        part.outputs.push_back(f.text("name"));
      return {std::move(part)};
    }
  PbMessage pipeline = m.message("pipeline");
  for (const char* kind : {"pipelineClassifier", "pipelineRegressor"})
    if (m.has(kind)) pipeline = m.message(kind).message("pipeline");
  std::vector<Part> out;
  for (const PbMessage& inner :
       pipeline.count("models") != 0 ? pipeline.messages("models") : std::vector<PbMessage>{})
    for (Part& part : networks(inner, depth + 1)) out.push_back(std::move(part));
  if (out.empty())
    throw bad_input("no neural network in it (another kind of model); convert it to one");
  return out;
}

void translate(Translator& t, const std::vector<Part>& parts, const PbMessage& description,
               std::int64_t lead) {
  const bool exact = parts[0].net.integer("arrayInputShapeMapping") == 1;
  std::set<std::string> states;
  for (const Part& part : parts)
    for (const PbMessage& l : part.net.messages("layers"))
      if (is_recurrent(l)) {
        const std::vector<std::string> names = l.texts("input");
        for (std::size_t i = 1; i < names.size(); ++i) states.insert(names[i]);
      }
  if (!states.empty())
    t.g.note("states of recurrent layers are inputs and outputs of their own: feed zeros first");
  for (const PbMessage& f : description.messages("input"))
    t.input(f, exact, states.contains(f.text("name")) ? 1 : lead);
  if (parts.size() > 1)
    t.g.note(fmt::format("a pipeline of {} networks is read as one graph", parts.size()));
  for (const Part& part : parts) {
    if (part.net.has("preprocessing"))
      t.g.note(
          "the file's preprocessing of images (scale, bias by channel) is no part of the network: "
          "feed what it makes");
    t.begin();
    for (const PbMessage& l : part.net.messages("layers")) t.layer(l);
    t.end(part.outputs);
  }
  for (const PbMessage& f : description.messages("output")) {
    const std::string name = f.text("name");
    // A classifier's label is chosen from its probabilities, outside the network.
    if (f.message("type").has("multiArrayType") || description.count("output") == 1)
      t.g.output(t.value(name), name);
  }
  // Its probabilities are a dictionary of what the layer gives that the network names, or the last.
  const std::string label = description.text("predictedFeatureName"),
                    shares = description.text("predictedProbabilitiesName");
  if (label.empty() || shares.empty() || shares == label || description.count("output") == 1)
    return;
  const PbMessage& net = parts.back().net;
  std::string from = net.text("labelProbabilityLayerName");
  const auto layers = net.messages("layers");
  if (from.empty() && !layers.empty() && layers.back().count("output") != 0)
    from = layers.back().texts("output")[0];
  t.g.output(t.value(from), shares);
  t.g.note(fmt::format("the label {} is that of the greatest of {}, no part of the graph",
                       printable(label), printable(shares)));
}

Model open_model_file(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const PbMessage m = PbMessage::from_wire(schema().type("Model"), file);
  if (holds_program(file)) return open_program(file, path, folder_of(path));
  const PbMessage description = m.message("description");
  const auto parts = networks(m, 0);
  std::optional<GraphBuilder> g(stem_of(path));
  try {
    Translator t(*g);
    translate(t, parts, description, -1);
  } catch (const Error&) {
    // The extent in front is no batch: as it stands in the file.
    g.emplace(stem_of(path));
    Translator t(*g);
    translate(t, parts, description, 0);
    g->note("the first extents of inputs are fixed, as in the file: the network asks for them");
  }
  std::string producer;
  for (const PbMessage& e : description.message("metadata").messages("userDefined"))
    if (e.text("key").ends_with("coremltools.version")) producer = "coremltools " + e.text("value");
  return finish_model(*g, path, "coreml",
                      fmt::format("specification {}", m.integer("specificationVersion")), producer);
}

// A package is a folder: its manifest names the model under Data/.
Model open(const std::string& path, std::span<const std::string>) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return open_model_file(path);
  const std::string manifest = path + "/Manifest.json";
  std::string item;
  {
    const Blob blob = map_file(manifest);
    const ErrorScope scope(manifest);
    const nlohmann::json json = parse_json(blob.text());
    const std::string root = json_string(json, "rootModelIdentifier");
    item = json_string(json_member(json_member(json, "itemInfoEntries"), root), "path");
  }
  const ErrorScope scope(path);
  Model model = open_model_file(resolve_inside(path, "Data/" + item));
  model.path = path;
  return model;
}

bool match_package(const std::string& folder) {
  std::error_code failed;
  const std::string manifest = folder + "/Manifest.json";
  if (!std::filesystem::is_regular_file(manifest, failed) ||
      std::filesystem::file_size(manifest, failed) > 1 << 20)
    return false;
  return map_file(manifest).text().find("rootModelIdentifier") != std::string_view::npos;
}

// A version of 1 to 20, then the description, whose first field is an input.
bool match(const FileView& file) {
  if (file.is_folder) return match_package(file.path);
  if (has_ending(file.path, ".mlmodel")) return true;
  const auto f = peek_fields(file.prefix, 2);
  if (f.size() < 2 || f[0].number != 1 || f[0].wire != 0 || f[0].value < 1 || f[0].value > 20 ||
      f[1].number != 2 || f[1].wire != 2)
    return false;
  const auto description = peek_fields(f[1].payload, 1);
  return !description.empty() && description[0].number == 1 && description[0].wire == 2;
}

}  // namespace
}  // namespace coreml

const FormatRow& coreml_format() {
  static const FormatRow row{.name = "coreml",
                             .endings = ".mlmodel .mlpackage",
                             .summary = "Core ML neural network, pipeline or ML program.",
                             .match = coreml::match,
                             .open = coreml::open};
  return row;
}

}  // namespace etalon
