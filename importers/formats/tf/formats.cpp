#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "engine/core/error.h"
#include "importers/formats/companion.h"
#include "importers/formats/tensorflow.h"
#include "importers/formats/tf/checkpoint.h"
#include "importers/formats/tf/graph.h"
#include "importers/formats/tf/importer.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace tf {
namespace {

namespace fs = std::filesystem;

std::size_t fill_budget(const Blob& file) { return file.bytes.size() * 16 + (1 << 20); }

std::string version_of(const PbMessage& graph) {
  const PbMessage v = graph.message("versions");
  return v.has("producer") ? fmt::format("graph version {}", v.integer("producer")) : "";
}

Model open_graph(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const bool text = has_ending(path, ".pbtxt");
  GraphSource source;
  source.graph = text ? PbMessage::from_text(schema().type("GraphDef"), file.text())
                      : PbMessage::from_wire(schema().type("GraphDef"), file);
  source.fill_budget = fill_budget(file);
  const std::string version = version_of(source.graph);
  if (!source.graph.has("node")) throw bad_input("no node in it; it is no GraphDef");
  GraphBuilder g(stem_of(path));
  translate_graph(g, std::move(source));
  return finish_model(g, path, "tensorflow", version, "");
}

// Names of the object graph: variable "conv1/kernel" -> key "layer/kernel/.ATTRIBUTES/...".
std::map<std::string, std::vector<std::string>> object_keys(const PbMessage& objects) {
  std::map<std::string, std::vector<std::string>> keys;
  const auto nodes = objects.messages("nodes");
  std::vector<std::pair<std::size_t, std::string>> open{{0, ""}};
  std::vector<bool> seen(nodes.size(), false);
  std::size_t characters = 0;
  // Breadth first: the shortest path is the one that the saver writes.
  for (std::size_t at = 0; at < open.size() && !nodes.empty(); ++at) {
    const auto [index, path] = open[at];
    if (seen[index]) continue;
    seen[index] = true;
    for (const PbMessage& child : nodes[index].messages("children")) {
      const auto to = static_cast<std::size_t>(child.integer("node_id"));
      if (to >= nodes.size()) throw bad_input("the object graph names object {}", to);
      std::string name = child.text("local_name");
      std::string escaped;
      for (const char c : name) escaped += c == '/' ? ".S" : c == '.' ? ".." : std::string(1, c);
      const std::string full = path.empty() ? escaped : path + "/" + escaped;
      // A variable has several names; the saver wrote one of them.
      if (nodes[to].has("variable"))
        keys[nodes[to].message("variable").text("name")].push_back(full +
                                                                   "/.ATTRIBUTES/VARIABLE_VALUE");
      characters += full.size();
      if (!seen[to]) {
        open.emplace_back(to, full);
        if (characters > std::size_t{64} << 20)
          throw bad_input("the object graph's paths are too long");
      }
    }
  }
  return keys;
}

// TensorFlow 2 restores variables in a function: RestoreV2 with a list of keys, an AssignVariableOp
// for each. Which node of the main graph is meant is said by the arguments of the call.
std::map<std::string, std::string> restored_keys(const PbMessage& graph) {
  std::map<std::string, std::map<std::string, std::string>> of_function;  // argument -> key
  for (const PbMessage& f : graph.message("library").messages("function")) {
    std::map<std::string, PbMessage> nodes;
    for (const PbMessage& n : f.messages("node_def")) nodes.emplace(n.text("name"), n);
    for (const auto& [name, n] : nodes) {
      if (n.text("op") != "AssignVariableOp" || n.count("input") < 2) continue;
      std::string source = n.texts("input")[1];
      for (int step = 0; step < 8; ++step) {
        const auto at = nodes.find(source.substr(0, source.find(':')));
        if (at == nodes.end()) break;
        const std::string op = at->second.text("op");
        if (op == "Identity" && at->second.has("input")) {
          source = at->second.texts("input")[0];
          continue;
        }
        if (op != "RestoreV2" || at->second.count("input") < 2) break;
        const std::string list = at->second.texts("input")[1];
        const auto keys_node = nodes.find(list.substr(0, list.find(':')));
        const std::string number = source.substr(source.rfind(':') + 1);
        if (keys_node == nodes.end() || number.empty() || number.size() > 6 ||
            number.find_first_not_of("0123456789") != std::string::npos)
          break;
        for (const PbMessage& entry : keys_node->second.messages("attr")) {
          if (entry.text("key") != "value") continue;
          const auto keys = entry.message("value").message("tensor").texts("string_val");
          const std::size_t k = std::stoul(number);
          const std::string argument = n.texts("input")[0];
          if (k < keys.size()) of_function[f.message("signature").text("name")][argument] = keys[k];
        }
        break;
      }
    }
  }
  std::map<std::string, std::string> out;
  if (of_function.empty()) return out;
  std::map<std::string, PbMessage> functions;
  for (const PbMessage& f : graph.message("library").messages("function"))
    functions.emplace(f.message("signature").text("name"), f);
  for (const PbMessage& n : graph.messages("node")) {
    if (n.text("op") != "StatefulPartitionedCall" && n.text("op") != "PartitionedCall") continue;
    for (const PbMessage& entry : n.messages("attr")) {
      if (entry.text("key") != "f") continue;
      const std::string name = entry.message("value").message("func").text("name");
      const auto keys = of_function.find(name);
      if (keys == of_function.end()) continue;
      const auto arguments = functions.at(name).message("signature").messages("input_arg");
      const auto inputs = n.texts("input");
      for (std::size_t i = 0; i < arguments.size() && i < inputs.size(); ++i)
        if (const auto key = keys->second.find(arguments[i].text("name"));
            key != keys->second.end())
          out[inputs[i].substr(0, inputs[i].find(':'))] = key->second;
    }
  }
  return out;
}

// A part of a variable, as the nodes that restore it say: its name in the checkpoint, and of each
// axis where it begins and how long it is ("7 4 0,3:0,4": rows 0 to 2 of 7 by 4).
struct Part {
  std::string key;
  Ints begin, extent;
};
std::optional<Part> part_of(const std::string& key, const std::string& text) {
  Part part{key, {}, {}};
  const std::size_t cut = text.rfind(' ');
  if (cut == std::string::npos) return std::nullopt;
  std::int64_t number = -1;
  for (std::size_t i = cut + 1; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ':';
    if (c >= '0' && c <= '9' && number < std::int64_t{1} << 40) {
      number = std::max<std::int64_t>(number, 0) * 10 + (c - '0');
    } else if (c == ',' && number >= 0 && part.begin.size() == part.extent.size()) {
      part.begin.push_back(number);
      number = -1;
    } else if (c == ':' && number >= 0 && part.begin.size() == part.extent.size() + 1) {
      part.extent.push_back(number);
      number = -1;
    } else {
      return std::nullopt;
    }
  }
  return part;
}

// By the node of the variable.
std::map<std::string, Part> restored_parts(const PbMessage& graph) {
  std::map<std::string, PbMessage> nodes;
  for (const PbMessage& n : graph.messages("node")) nodes.emplace(n.text("name"), n);
  // All variables may be restored by one node.
  std::map<std::string, std::vector<std::string>> read;
  const auto words = [&](const std::string& name) -> const std::vector<std::string>& {
    const auto [all, is_new] = read.try_emplace(name.substr(0, name.find(':')));
    if (const auto at = is_new ? nodes.find(all->first) : nodes.end(); at != nodes.end())
      all->second = attribute(at->second, "value").message("tensor").texts("string_val");
    return all->second;
  };
  std::map<std::string, Part> out;
  for (const auto& [name, n] : nodes) {
    const std::string op = n.text("op");
    if ((op != "Assign" && op != "AssignVariableOp") || n.count("input") < 2) continue;
    const auto inputs = n.texts("input");
    std::string source = inputs[1];
    auto from = nodes.find(source.substr(0, source.find(':')));
    if (from != nodes.end() && from->second.text("op") == "Identity" &&
        from->second.count("input") > 0) {
      source = from->second.texts("input")[0];
      from = nodes.find(source.substr(0, source.find(':')));
    }
    constexpr std::size_t kMostInputs = 64;  // three, and nodes that it waits for
    if (from == nodes.end() || from->second.text("op") != "RestoreV2" ||
        from->second.count("input") < 3 || from->second.count("input") > kMostInputs)
      continue;
    const auto restore = from->second.texts("input");
    const std::size_t k = reference(source).output;
    const auto &keys = words(restore[1]), &slices = words(restore[2]);
    if (k >= keys.size() || k >= slices.size() || slices[k].empty()) continue;
    if (auto part = part_of(keys[k], slices[k])) out.emplace(inputs[0], *std::move(part));
  }
  return out;
}

Tensor cut_of(const Tensor& whole, const Part& part) {
  const int rank = whole.shape().rank();
  if (part.begin.size() != static_cast<std::size_t>(rank)) return {};
  for (int a = 0; a < rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    if (part.begin[i] > whole.shape()[a] || part.extent[i] > whole.shape()[a] - part.begin[i])
      throw bad_input("a part of {} from {} of {}", part.extent[i], part.begin[i],
                      to_string(whole.shape()));
  }
  Tensor out = Tensor::uninitialized(whole.dtype(), Shape(part.extent));
  const auto strides = strides_of(whole.shape()), own = strides_of(out.shape());
  const auto size = static_cast<std::size_t>(size_bytes(whole.dtype()));
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < part.begin.size(); ++a)
      at += (part.begin[a] + i / own[a] % part.extent[a]) * strides[a];
    std::ranges::copy(whole.bytes().subspan(static_cast<std::size_t>(at) * size, size),
                      out.mutable_bytes().begin() +
                          static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(size));
  }
  return out;
}

Model open_meta(const std::string& path, const Blob& file, const PbMessage& meta,
                const std::string& checkpoint, const std::string& format) {
  std::map<std::string, Tensor> variables;
  if (!checkpoint.empty())
    for (NamedTensor& t : read_checkpoint(checkpoint))
      variables.emplace(t.name, std::move(t.tensor));
  const ErrorScope scope(path);
  const auto keys = object_keys(meta.message("object_graph_def"));
  GraphSource source;
  source.graph = meta.message("graph_def");
  source.fill_budget = fill_budget(file);
  const auto restored = restored_keys(source.graph);
  const auto parts = restored_parts(source.graph);
  source.variable = [&](const std::string& name) {
    if (const auto key = restored.find(name); key != restored.end())
      if (const auto at = variables.find(key->second); at != variables.end())
        return at->second.share();
    if (const auto at = variables.find(name); at != variables.end()) return at->second.share();
    if (const auto part = parts.find(name); part != parts.end())
      if (const auto at = variables.find(part->second.key); at != variables.end())
        return cut_of(at->second, part->second);
    if (const auto key = keys.find(name); key != keys.end())
      for (const std::string& k : key->second)
        if (const auto at = variables.find(k); at != variables.end()) return at->second.share();
    return Tensor();
  };
  GraphBuilder g(stem_of(path));
  const auto signatures = meta.messages("signature_def");
  const PbMessage* chosen = nullptr;
  std::string names;
  std::vector<PbMessage> usable;
  for (const PbMessage& s : signatures) {
    if (s.text("key") == "__saved_model_init_op" || s.text("key") == "__saved_model_train_op")
      continue;
    usable.push_back(s);
    names += (names.empty() ? "" : ", ") + s.text("key");
  }
  for (const PbMessage& s : usable)
    if (s.text("key") == "serving_default") chosen = &s;
  if (chosen == nullptr && usable.size() == 1) chosen = &usable[0];
  // Without that one: the first whose signature reads tensors rather than serialised examples.
  if (chosen == nullptr)
    for (const PbMessage& s : usable) {
      bool strings = false;
      for (const PbMessage& in : s.message("value").messages("inputs"))
        strings = strings || in.message("value").integer("dtype") == 7;
      if (!strings && chosen == nullptr) chosen = &s;
    }
  if (chosen != nullptr) {
    if (usable.size() > 1) g.note(fmt::format("signature {} of {}", chosen->text("key"), names));
    const auto ports = [](const std::vector<PbMessage>& entries) {
      std::vector<Port> list;
      for (const PbMessage& e : entries)
        list.push_back({e.text("key"), e.message("value").text("name"),
                        e.message("value").integer("dtype"),
                        e.message("value").message("tensor_shape")});
      std::ranges::sort(list, {}, &Port::name);
      return list;
    };
    source.inputs = ports(chosen->message("value").messages("inputs"));
    source.outputs = ports(chosen->message("value").messages("outputs"));
  }
  const std::string version = meta.message("meta_info_def").text("tensorflow_version");
  translate_graph(g, std::move(source));
  return finish_model(g, path, format, "",
                      version.empty() ? "tensorflow" : "tensorflow " + version);
}

Model open_saved_model(const std::string& path, std::span<const std::string>) {
  const std::string folder = fs::is_directory(path) ? path : folder_of(path);
  const std::string pb = (fs::path(folder) / "saved_model.pb").string();
  const Blob file = map_file(pb);
  const ErrorScope scope(pb);
  const PbMessage saved = PbMessage::from_wire(schema().type("SavedModel"), file);
  const auto metas = saved.messages("meta_graphs");
  if (metas.empty()) throw bad_input("no graph in it; the file is damaged");
  const PbMessage* serve = &metas[0];
  for (const PbMessage& m : metas)
    if (std::ranges::count(m.message("meta_info_def").texts("tags"), "serve") != 0) serve = &m;
  const std::string index = (fs::path(folder) / "variables" / "variables.index").string();
  Model model =
      open_meta(path, file, *serve, fs::exists(index) ? index : "", "tensorflow-saved-model");
  model.path = path;
  return model;
}

Model open_meta_graph(const std::string& path, std::span<const std::string> with) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const PbMessage meta = PbMessage::from_wire(schema().type("MetaGraphDef"), file);
  const std::string checkpoint = find_checkpoint(with.empty() ? path : with[0]);
  if (checkpoint.empty())
    throw bad_input("no checkpoint lies beside it; name its .index with --with");
  return open_meta(path, file, meta, checkpoint, "tensorflow-meta");
}

// First field 1 holds a NodeDef: a name (printable), then the op.
bool match_graph(const FileView& file) {
  if (file.is_folder) return false;
  const auto fields = peek_fields(file.prefix);
  if (has_ending(file.path, ".pbtxt")) return file.text().find("node {") != std::string_view::npos;
  if (fields.empty() || fields[0].number != 1 || fields[0].wire != 2) return false;
  const auto node = peek_fields(fields[0].payload);
  return node.size() >= 2 && node[0].number == 1 && node[0].wire == 2 && node[1].number == 2 &&
         node[1].wire == 2 && !node[1].payload.empty() && node[1].payload[0] >= std::byte{'A'} &&
         node[1].payload[0] <= std::byte{'_'};
}

}  // namespace
}  // namespace tf

const FormatRow& tensorflow_graph_format() {
  static const FormatRow row{.name = "tensorflow",
                             .endings = ".pb .pbtxt",
                             .summary = "Frozen TensorFlow graph.",
                             .match = tf::match_graph,
                             .open = tf::open_graph};
  return row;
}

const FormatRow& tensorflow_saved_model_format() {
  static const FormatRow row{
      .name = "tensorflow-saved-model",
      .endings = "saved_model.pb",
      .summary = "TensorFlow SavedModel: a folder with saved_model.pb and variables.",
      .match =
          [](const FileView& f) {
            if (f.is_folder)
              return std::filesystem::exists(std::filesystem::path(f.path) / "saved_model.pb");
            return has_ending(f.path, "saved_model.pb");
          },
      .open = tf::open_saved_model};
  return row;
}

const FormatRow& tensorflow_meta_format() {
  static const FormatRow row{
      .name = "tensorflow-meta",
      .endings = ".meta",
      .summary = "TensorFlow graph of a checkpoint, variables beside it.",
      .match = [](const FileView& f) { return !f.is_folder && has_ending(f.path, ".meta"); },
      .open = tf::open_meta_graph,
      .takes_more = true};
  return row;
}

const FormatRow& tensorflow_checkpoint_format() {
  static const FormatRow row{.name = "tensorflow-checkpoint",
                             .endings = ".index",
                             .summary = "TensorFlow checkpoint, V1 or V2: variables by name.",
                             .match =
                                 [](const FileView& f) {
                                   if (f.is_folder) return !tf::find_checkpoint(f.path).empty();
                                   return has_ending(f.path, ".index") ||
                                          f.path.find(".data-0") != std::string::npos ||
                                          f.path.find("-of-0") != std::string::npos ||
                                          // Under any name: a table's magic is its end.
                                          tf::find_checkpoint(f.path) == f.path;
                                 },
                             .load =
                                 [](const std::string& path) {
                                   const std::string file = tf::find_checkpoint(path);
                                   if (file.empty())
                                     throw bad_input("{}: no checkpoint's table lies here", path);
                                   return tf::read_checkpoint(file);
                                 }};
  return row;
}

}  // namespace etalon
