#include "importers/formats/pickled_arrays.h"

#include <deque>
#include <unordered_set>

#include "engine/core/error.h"
#include "importers/containers/pickle_arrays.h"

namespace etalon {
namespace {

constexpr std::size_t kMaxDepth = 64;

struct Place {
  const PickleValue* value;
  std::string name;
  std::size_t depth;
};

}  // namespace

// Breadth first, so that a tensor's first path is a shortest one.
PickledArrays pickled_arrays(const std::shared_ptr<const Pickle>& pickle) {
  PickledArrays found;
  std::deque<Place> open{{&pickle->root(), "", 0}};
  std::unordered_set<const PickleValue*> seen;
  const auto enter = [&](const PickleValue* v, const Place& from, std::string_view key) {
    if (v == nullptr || from.depth == kMaxDepth || key.size() > 256) return;
    if (v->kind != PickleKind::object && v->items.empty()) return;
    const bool both = !from.name.empty() && !key.empty();
    open.push_back({v, from.name + (both ? "." : "") + std::string(key), from.depth + 1});
  };
  while (!open.empty()) {
    const Place p = std::move(open.front());
    open.pop_front();
    const PickleValue& v = *p.value;
    if (!seen.insert(p.value).second) continue;
    if (v.is(PickleKind::object)) {
      const ErrorScope scope("array " + printable(p.name.empty() ? "of the file" : p.name));
      if (auto t = numpy_array(v, pickle)) {
        found.arrays.push_back({p.name, std::move(*t)});
        continue;
      }
      found.theano = found.theano || v.text.starts_with("theano.");
      if (v.text.starts_with("numpy.random.")) continue;  // its arrays are no weights
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
      const PickleValue* objects = v.text.ends_with(".multiarray._reconstruct") &&
                                           state != nullptr && state->is(PickleKind::tuple) &&
                                           state->items.size() > 4
                                       ? state->items[4]
                                       : nullptr;
      if (objects != nullptr && objects->is(PickleKind::list)) {  // an array of objects
        for (std::size_t i = 0; i < objects->items.size(); ++i)
          enter(objects->items[i], p, objects->items.size() == 1 ? "" : std::to_string(i));
        continue;
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
  return found;
}

}  // namespace etalon
