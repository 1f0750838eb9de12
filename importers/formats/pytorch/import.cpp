// PyTorch's files: state_dicts, checkpoints and whole modules, as zip archives (1.6 on) or legacy
// files (0.1.10 to 1.5); exported programs, .pt2 (exported.h); TorchScript (script.h).
//
// Names are paths: keys of dicts joined by dots, and of a module what its state_dict would say. A
// module's code is not in the file (only the names of its classes), so a whole module whose classes
// are not all of torch.nn (module.h) gives weights: --arch says what network they belong to.
// Entries that are no tensors are passed over.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/pytorch.h"
#include "importers/formats/pytorch/exported.h"
#include "importers/formats/pytorch/module.h"
#include "importers/formats/pytorch/script.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon {
namespace pytorch_format {
namespace {

class Collector {
 public:
  Collector(const Pickle& pickle, Storages& storages) : walk_(pickle), storages_(storages) {}

  void collect(const PickleValue& v, const std::string& name) {
    const PickleWalk::Level level(walk_);
    switch (v.kind) {
      case PickleKind::dict:
        return entries(v, name);
      case PickleKind::tuple:
      case PickleKind::list:
        for (std::size_t i = 0; i < v.items.size(); ++i)
          collect(*v.items[i], joined(name, std::to_string(i)));
        return;
      case PickleKind::object:
        break;
      default:
        return;
    }
    if (storages_.append(v, name.empty() ? "tensor" : name, tensors)) return;
    if (v.entries) return entries(v, name);
    if (v.args != nullptr && v.text.find("defaultdict") != std::string_view::npos)
      return entries(v, name);
    const PickleValue* state = v.state;
    if (state != nullptr && state->is(PickleKind::tuple) && !state->items.empty())
      state = state->items.back();
    if (state == nullptr) {
      for (std::size_t i = 0; i < v.items.size(); ++i)
        collect(*v.items[i], joined(name, std::to_string(i)));
      return;
    }
    if (state->find("_modules") != nullptr && state->find("_parameters") != nullptr) {
      if (std::ranges::find(classes, v.text) == classes.end()) classes.emplace_back(v.text);
      for (const char* part : {"_parameters", "_buffers", "_modules"})
        if (const PickleValue* p = state->find(part)) collect(*p, name);
      return;
    }
    if (state->is(PickleKind::dict)) entries(*state, name);
  }

  TensorList tensors;
  std::vector<std::string> classes;  // of modules

 private:
  static std::string joined(const std::string& name, std::string_view part) {
    return name.empty() ? std::string(part) : name + "." + std::string(part);
  }
  void entries(const PickleValue& v, const std::string& name) {
    for (std::size_t i = 0; i + 1 < v.items.size(); i += 2) {
      const PickleValue& key = *v.items[i];
      if (key.is_text())
        collect(*v.items[i + 1], joined(name, key.text));
      else if (key.is(PickleKind::integer))
        collect(*v.items[i + 1], joined(name, std::to_string(key.integer)));
    }
  }
  PickleWalk walk_;
  Storages& storages_;
};

void add_weights(Model& model, const Pickle& pickle, Storages& storages) {
  if (open_module(pickle, storages, model)) return;
  Collector c(pickle, storages);
  c.collect(pickle.root(), "");
  for (NamedTensor& t : c.tensors)
    model.graph->initializers.emplace(model.graph->add_value(t.name), std::move(t.tensor));
  if (!c.classes.empty()) {
    std::string names;
    for (const std::string& n : c.classes) names += (names.empty() ? "" : ", ") + printable(n);
    model.notes.push_back(
        "A whole module, whose code is not in the file: weights only, of the classes " + names +
        "; --arch names their network.");
  }
  for (const std::string& note : storages.notes()) model.notes.push_back(note);
}

const ZipMember* root_member(const ZipReader& zip, std::string_view leaf) {
  for (const ZipMember& m : zip.members())
    if (m.name == leaf ||
        (m.name.ends_with(leaf) && m.name[m.name.size() - leaf.size() - 1] == '/' &&
         m.name.find('/') == m.name.size() - leaf.size() - 1))
      return &m;
  return nullptr;
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  Model model;
  model.path = path;
  model.format = "pytorch";
  if (!is_zip(file.bytes)) {
    LegacyFile legacy(file);
    model.version = "legacy, protocol 1001";
    add_weights(model, legacy.pickle(), legacy);
    return model;
  }
  const ZipReader zip(file);
  if (is_exported(zip)) return open_exported(zip, path);
  const ZipMember* data = root_member(zip, "data.pkl");
  if (data == nullptr) throw bad_input("no data.pkl in the archive; not a file of PyTorch's");
  const std::string folder = data->name.substr(0, data->name.size() - 8);
  if (const ZipMember* order = zip.find(folder + "byteorder");
      order != nullptr && zip.read(*order).text() == "big")
    throw bad_input("written on a big-endian machine; save it again on another");
  if (const ZipMember* version = zip.find(folder + "version"))
    model.version = "zip, version " + printable(zip.read(*version).text().substr(0, 8));
  while (!model.version.empty() &&
         (model.version.back() == '\n' || model.version.ends_with("\\x0a")))
    model.version.resize(model.version.size() - (model.version.back() == '\n' ? 1 : 4));
  ZipStorages storages(zip, folder + "data/", file.bytes.size());
  const Pickle pickle(zip.read(*data));
  const bool script = std::ranges::any_of(
      zip.members(), [&](const ZipMember& m) { return m.name.starts_with(folder + "code/"); });
  if (script) {
    model.version += ", TorchScript";
    if (open_script(zip, folder, pickle, storages, file.bytes.size(), model)) return model;
  }
  add_weights(model, pickle, storages);
  return model;
}

bool match(const FileView& file) {
  if (is_legacy(file.prefix)) return true;
  if (!is_zip(file.prefix)) return false;
  // The first member's name tells most archives apart; the directory tells the rest.
  try {
    const ZipReader zip(map_file(file.path));
    return root_member(zip, "data.pkl") != nullptr || is_exported(zip);
  } catch (const Error&) {
    return has_ending(file.path, ".pt") || has_ending(file.path, ".pth") ||
           has_ending(file.path, ".pt2");
  }
}

}  // namespace
}  // namespace pytorch_format

const FormatRow& pytorch_format_row() {
  static const FormatRow row{
      .name = "pytorch",
      .endings = ".pt .pth .pt2",
      .summary = "PyTorch 0.1.10 to 2: weights, TorchScript and exported programs.",
      .match = pytorch_format::match,
      .open = pytorch_format::open};
  return row;
}

}  // namespace etalon
