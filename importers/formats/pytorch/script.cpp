#include "importers/formats/pytorch/script.h"

#include <set>

#include "engine/core/error.h"
#include "importers/formats/pytorch/input_guess.h"
#include "importers/formats/pytorch/script_walker.h"
#include "importers/input_hints.h"

namespace etalon::pytorch_format {
namespace {

constexpr int kMaxDepth = 64;

// The first weight in the order in which modules were made, and its module's class.
bool first_weight(const PickleValue& v, ScriptArchive& a, int depth,
                  std::set<const PickleValue*>& seen, WantedInputs& wanted) {
  const PickleValue* state = v.state;
  if (!seen.insert(&v).second) return false;
  if (depth > kMaxDepth || state == nullptr || !state->is(PickleKind::dict)) return false;
  for (const char* name : {"weight", "weight_ih_l0"})
    if (const PickleValue* w = state->find(name); w != nullptr && w->is(PickleKind::object)) {
      auto t = a.storages.tensor(*w);
      if (t && t->shape().rank() >= 2) {
        wanted.first_weight = t->shape();
        wanted.first = name[6] == '_' ? FirstModule::recurrent
                       : v.text.find(".Embedding") != std::string_view::npos
                           ? FirstModule::embedding
                           : FirstModule::other;
        return true;
      }
    }
  for (std::size_t i = 0; i + 1 < state->items.size(); i += 2)
    if (state->items[i + 1]->is(PickleKind::object) &&
        first_weight(*state->items[i + 1], a, depth + 1, seen, wanted))
      return true;
  return false;
}

// The arguments of forward, of the tensors that were made for them.
std::vector<ScriptValue> arguments_of(const std::vector<ScriptParameter>& parameters,
                                      const std::vector<ValueId>& tensors) {
  std::vector<ScriptValue> out;
  std::size_t at = 0;
  for (const ScriptParameter& p : parameters) {
    if (at == tensors.size()) break;
    const std::size_t n = p.type.find("Tuple[") == std::string::npos
                              ? 0
                              : std::min(tensors_in(p.type), tensors.size() - at);
    if (n == 0 && p.type.find("List[") == std::string::npos) {
      out.push_back(plain(AtenValue::of(tensors[at++])));
      continue;
    }
    ScriptItems list;
    for (std::size_t i = 0; i < std::max<std::size_t>(n, 1); ++i)
      list.push_back(plain(AtenValue::of(tensors[at++])));
    out.push_back(list_of(std::move(list)));
  }
  return out;
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
    WantedInputs wanted{.arguments = forward_parameters(archive, pickle.root())};
    std::set<const PickleValue*> seen;
    first_weight(pickle.root(), archive, 0, seen, wanted);
    const bool told = !InputHints::given().empty();
    for (const InputGuesses& guess : input_guesses(wanted)) {
      try {
        GraphBuilder b("script");
        std::vector<ValueId> tensors;
        for (const InputGuess& in : guess.inputs)
          tensors.push_back(b.input(in.name, in.dtype, in.dims, in.nominal));
        const std::vector<ScriptOutput> out = walk_script(archive, b, file_bytes, pickle.root(),
                                                          arguments_of(wanted.arguments, tensors));
        for (std::size_t i = 0; i < out.size(); ++i)
          b.output(out[i].value, !out[i].name.empty() ? out[i].name
                                 : out.size() == 1    ? "output"
                                                      : fmt::format("output{}", i));
        *model.graph = b.finish();
        model.notes = b.take_notes();
        model.notes.push_back(guess.said);
        return true;
      } catch (const Error& e) {
        // Of the freest extents that are guessed; of all of them where they were told.
        if (why.empty() || told) why = e.what();
      } catch (const AtenUnknown& unknown) {
        if (why.empty() || told) why = unknown.what;
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
