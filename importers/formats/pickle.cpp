// Pickles of NumPy arrays: Theano's parameter lists, layers and shared variables, Lasagne's values,
// and theano.misc.pkl_utils' zip files (arrays as members without an ending, and a pickle).
//
// A tensor's name is the shortest path to it: keys and places joined by dots; a shared variable
// (SharedVariable, CudaNdarray ones too) is its value. An array that is reached twice is taken
// once. Python 2's texts are bytes. Everything else in the pickle (graphs, functions) is passed
// over: a network in it is Python code, which is not in the file; --arch says what the weights
// belong to. Theano stores convolution kernels for true convolution, that is flipped: that is the
// graph's affair (a note says so where the file is known to be Theano's).
#include <deque>
#include <unordered_set>

#include "engine/core/error.h"
#include "importers/containers/npy.h"
#include "importers/containers/pickle_arrays.h"
#include "importers/containers/zip.h"
#include "importers/formats/neon.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr const char* kFlipped =
    "Theano's convolution flips its kernels: weights of such layers are stored for that and are "
    "read as stored; --arch turns them.";

struct Place {
  const PickleValue* value;
  std::string name;
  std::size_t depth;
};

// Breadth first, so that a tensor's first path is a shortest one.
void collect(const std::shared_ptr<const Pickle>& pickle, Model& model) {
  std::deque<Place> open{{&pickle->root(), "", 0}};
  std::unordered_set<const PickleValue*> seen;
  bool theano = false;
  const auto enter = [&](const PickleValue* v, const Place& from, std::string_view key) {
    if (v == nullptr || from.depth == kMaxDepth || key.size() > 256) return;
    if (v->kind != PickleKind::object && v->items.empty()) return;
    open.push_back({v, from.name.empty() ? std::string(key) : from.name + "." + std::string(key),
                    from.depth + 1});
  };
  while (!open.empty()) {
    const Place p = std::move(open.front());
    open.pop_front();
    const PickleValue& v = *p.value;
    if (!seen.insert(p.value).second) continue;
    if (v.is(PickleKind::object)) {
      const ErrorScope scope("array " + printable(p.name.empty() ? "of the file" : p.name));
      if (auto t = numpy_array(v, pickle)) {
        model.graph->initializers.emplace(model.graph->add_value(p.name.empty() ? "arr_0" : p.name),
                                          std::move(*t));
        continue;
      }
      theano = theano || v.text.starts_with("theano.");
      const PickleValue* state = v.state;
      if (state != nullptr && v.text.find("SharedVariable") != std::string_view::npos &&
          state->is(PickleKind::dict)) {
        const PickleValue* container = state->find("container");
        if (container != nullptr && container->state != nullptr) {
          const PickleValue* storage = container->state->find("storage");
          if (storage != nullptr && storage->items.size() == 1) {
            open.push_front({storage->items[0], p.name, p.depth + 1});
            continue;
          }
        }
      }
      if (state != nullptr && state->is(PickleKind::tuple)) {
        for (std::size_t i = 0; i < state->items.size(); ++i)
          enter(state->items[i], p, std::to_string(i));
      } else if (state != nullptr) {
        open.push_front({state, p.name, p.depth + 1});
      }
      if (v.args != nullptr)
        for (std::size_t i = 0; i < v.args->items.size(); ++i)
          enter(v.args->items[i], p, std::to_string(i));
    }
    if (v.is(PickleKind::dict) || (v.is(PickleKind::object) && v.entries)) {
      for (std::size_t i = 0; i + 1 < v.items.size(); i += 2) {
        if (v.items[i]->is_text()) enter(v.items[i + 1], p, v.items[i]->text);
        if (v.items[i]->is(PickleKind::integer))
          enter(v.items[i + 1], p, std::to_string(v.items[i]->integer));
      }
    } else {
      for (std::size_t i = 0; i < v.items.size(); ++i) enter(v.items[i], p, std::to_string(i));
    }
  }
  if (theano) {
    model.producer = "theano";
    model.notes.emplace_back(kFlipped);
  }
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const auto pickle = std::make_shared<const Pickle>(file);
  if (is_neon(*pickle)) return open_neon(pickle, path);
  Model model;
  model.path = path;
  model.format = "pickle";
  collect(pickle, model);
  if (model.graph->initializers.empty())
    throw bad_input("the pickle holds no array of numbers; nothing in it is a weight");
  return model;
}

bool match(const FileView& file) { return is_pickle(file.prefix) || has_ending(file.path, ".pkl"); }

Model open_theano_zip(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const ZipReader zip(file);
  Model model;
  model.path = path;
  model.format = "theano-zip";
  for (const ZipMember& m : zip.members()) {
    const ErrorScope member(fmt::format("member {}", printable(m.name)));
    const Blob bytes = zip.view(m);
    if (is_npy(bytes.bytes.first(std::min<std::size_t>(bytes.bytes.size(), 16))))
      model.graph->initializers.emplace(model.graph->add_value(m.name), read_npy(bytes));
  }
  model.notes.emplace_back(kFlipped);
  return model;
}

bool match_theano_zip(const FileView& file) {
  if (!is_zip(file.prefix) || first_zip_member(file.prefix).ends_with(".npy")) return false;
  try {
    const ZipReader zip(map_file(file.path));
    return zip.find("pkl") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

const FormatRow& pickle_format() {
  static const FormatRow row{.name = "pickle",
                             .endings = ".pkl .p .prm",
                             .summary = "Pickled NumPy arrays: Theano, Lasagne; Neon's models.",
                             .match = match,
                             .open = open};
  return row;
}

const FormatRow& theano_zip_format() {
  static const FormatRow row{.name = "theano-zip",
                             .endings = ".zip",
                             .summary = "Arrays of theano.misc.pkl_utils.dump.",
                             .match = match_theano_zip,
                             .open = open_theano_zip};
  return row;
}

}  // namespace etalon
