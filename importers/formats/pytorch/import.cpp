// PyTorch's files: state_dicts, checkpoints and whole modules, as zip archives (1.6 on) or legacy
// files (0.1.10 to 1.5); exported programs, .pt2 (exported.h); TorchScript (script.h).
//
// A module's code is not in the file (only the names of its classes), so a whole module whose
// classes are not all of torch.nn (module.h) gives weights (saved.h): --arch says what network they
// belong to.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/pytorch.h"
#include "importers/formats/pytorch/exported.h"
#include "importers/formats/pytorch/module.h"
#include "importers/formats/pytorch/saved.h"
#include "importers/formats/pytorch/script.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon {
namespace pytorch_format {
namespace {

void add_weights(Model& model, const Pickle& pickle, Storages& storages) {
  if (open_module(pickle, storages, model)) return;
  SavedTensors c = collect_tensors(pickle, storages);
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
  const std::string_view first = first_zip_member(file.prefix);
  if (first.ends_with("/data.pkl") && first.find('/') == first.size() - 9) return true;
  if (first.ends_with(".npy")) return false;
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
