#include "importers/formats/pytorch/saved.h"

#include <algorithm>
#include <utility>

#include "engine/core/error.h"

namespace etalon::pytorch_format {
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
    if (storages_.append(v, name.empty() ? "tensor" : name, saved.tensors)) return;
    if (v.entries) return entries(v, name);
    if (v.args != nullptr && v.text.find("defaultdict") != std::string_view::npos)
      return entries(v, name);
    const PickleValue* state = v.state;
    if (state != nullptr && state->is(PickleKind::tuple) && !state->items.empty()) {
      if (!state->items.back()->is(PickleKind::dict)) return own_state(*state, name);
      state = state->items.back();
    }
    if (state == nullptr) {
      for (std::size_t i = 0; i < v.items.size(); ++i)
        collect(*v.items[i], joined(name, std::to_string(i)));
      return;
    }
    if (state->find("_modules") != nullptr && state->find("_parameters") != nullptr) {
      if (std::ranges::find(saved.classes, v.text) == saved.classes.end())
        saved.classes.emplace_back(v.text);
      for (const char* part : {"_parameters", "_buffers", "_modules"})
        if (const PickleValue* p = state->find(part)) collect(*p, name);
      return;
    }
    if (state->is(PickleKind::dict)) entries(*state, name);
  }

  SavedTensors saved;

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
  // What a class of TorchScript keeps for itself, in sequence: of the quantised layers the
  // settings, the weight and the bias.
  void own_state(const PickleValue& state, const std::string& name) {
    bool weighed = false, biased = false;
    for (std::size_t i = 0; i < state.items.size(); ++i) {
      const PickleValue& item = *state.items[i];
      const bool quantised = item.is_object("torch._utils._rebuild_qtensor"),
                 tensor = item.is(PickleKind::object) &&
                          item.text.starts_with("torch._utils._rebuild_tensor");
      std::string part = std::to_string(i);
      if (quantised && !std::exchange(weighed, true))
        part = "weight";
      else if (tensor && weighed && !std::exchange(biased, true))
        part = "bias";
      collect(item, joined(name, part));
    }
  }
  PickleWalk walk_;
  Storages& storages_;
};

}  // namespace

SavedTensors collect_tensors(const Pickle& pickle, Storages& storages) {
  Collector c(pickle, storages);
  c.collect(pickle.root(), "");
  return std::move(c.saved);
}

const ZipMember* root_member(const ZipReader& zip, std::string_view leaf) {
  for (const ZipMember& m : zip.members())
    if (m.name == leaf ||
        (m.name.ends_with(leaf) && m.name[m.name.size() - leaf.size() - 1] == '/' &&
         m.name.find('/') == m.name.size() - leaf.size() - 1))
      return &m;
  return nullptr;
}

TensorList tensors_of_member(const ZipReader& zip, const ZipMember& member) {
  const ErrorScope scope("member " + printable(member.name));
  if (member.method != 0)
    throw bad_input("an archive inside the archive is packed; repack the file with it stored");
  const Blob bytes = zip.view(member);
  const ZipReader inner(bytes);
  const ZipMember* data = root_member(inner, "data.pkl");
  if (data == nullptr)
    throw bad_input("no data.pkl in this archive, where the program's tensors should be");
  const std::string folder = data->name.substr(0, data->name.size() - 8);
  if (const ZipMember* order = inner.find(folder + "byteorder");
      order != nullptr && inner.read(*order).text() == "big")
    throw bad_input("written on a big-endian machine; save it again on another");
  ZipStorages storages(inner, folder + "data/", bytes.bytes.size());
  const Pickle pickle(inner.read(*data));
  return collect_tensors(pickle, storages).tensors;
}

}  // namespace etalon::pytorch_format
