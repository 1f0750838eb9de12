#include "importers/formats/pytorch/script.h"

#include <set>

#include "engine/core/error.h"
#include "importers/formats/pytorch/input_guess.h"
#include "importers/formats/pytorch/script_walker.h"

namespace etalon::pytorch_format {
namespace {

constexpr int kMaxDepth = 64;

// The first weight in the order in which modules were made, and its module's class.
bool first_weight(const PickleValue& v, ScriptArchive& a, int depth,
                  std::set<const PickleValue*>& seen, Shape& shape, FirstModule& module) {
  const PickleValue* state = v.state;
  if (!seen.insert(&v).second) return false;
  if (depth > kMaxDepth || state == nullptr || !state->is(PickleKind::dict)) return false;
  for (const char* name : {"weight", "weight_ih_l0"})
    if (const PickleValue* w = state->find(name); w != nullptr && w->is(PickleKind::object)) {
      auto t = a.storages.tensor(*w);
      if (t && t->shape().rank() >= 2) {
        shape = t->shape();
        module = name[6] == '_'                                        ? FirstModule::recurrent
                 : v.text.find(".Embedding") != std::string_view::npos ? FirstModule::embedding
                                                                       : FirstModule::other;
        return true;
      }
    }
  for (std::size_t i = 0; i + 1 < state->items.size(); i += 2)
    if (state->items[i + 1]->is(PickleKind::object) &&
        first_weight(*state->items[i + 1], a, depth + 1, seen, shape, module))
      return true;
  return false;
}

}  // namespace

bool open_script(const ZipReader& zip, const std::string& folder, const Pickle& pickle,
                 Storages& storages, std::size_t file_bytes, Model& model) {
  ScriptArchive archive{.zip = zip, .folder = folder, .storages = storages};
  std::string why;
  try {
    if (const ZipMember* m = zip.find(folder + "constants.pkl")) {
      archive.constants.emplace(zip.read(*m));
      archive.constant_storages =
          std::make_unique<ZipStorages>(zip, folder + "constants/", file_bytes);
    }
    Shape w;
    FirstModule first = FirstModule::other;
    std::set<const PickleValue*> seen;
    if (!first_weight(pickle.root(), archive, 0, seen, w, first))
      throw AtenUnknown{"a network whose first weight does not tell its input"};
    for (const InputGuess& in : input_guesses(w, first)) {
      try {
        GraphBuilder b("script");
        const ValueId x = b.input("input", in.dtype, in.dims, in.nominal);
        const std::vector<ValueId> out = walk_script(archive, b, file_bytes, pickle.root(), x);
        for (std::size_t i = 0; i < out.size(); ++i)
          b.output(out[i], out.size() == 1 ? "output" : fmt::format("output{}", i));
        *model.graph = b.finish();
        model.notes = b.take_notes();
        model.notes.push_back(in.said);
        return true;
      } catch (const Error& e) {
        if (why.empty()) why = e.what();  // of the freest extents
      } catch (const AtenUnknown& unknown) {
        if (why.empty()) why = unknown.what;
      }
    }
  } catch (const AtenUnknown& unknown) {
    why = unknown.what;
  }
  model.notes.push_back("TorchScript, weights alone: no graph, for " + printable(why) +
                        "; --arch names their network.");
  return false;
}

}  // namespace etalon::pytorch_format
