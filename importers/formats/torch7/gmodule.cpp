#include "importers/formats/torch7/gmodule.h"

#include "engine/core/error.h"

namespace etalon::torch7 {
namespace {

constexpr int kMaxDepth = 2000;

std::vector<const T7Object*> parents(const T7Object& data) {
  std::vector<const T7Object*> out;
  if (const T7Object* list = data.find_object("mapindex"))
    for (const T7Value* v : list->list())
      if (v->object) out.push_back(v->object.get());
  return out;
}

bool ends(std::string_view type, std::string_view name) {
  return type.substr(type.rfind('.') + 1) == name;
}

// The node that gives all of the network's inputs, or passes them on.
bool is_source(const T7Object* data) {
  for (int i = 0; i < kMaxDepth; ++i) {
    const auto from = parents(*data);
    if (from.empty()) return true;
    const T7Object* module = data->find_object("module");
    if (from.size() != 1 || (module != nullptr && !ends(module->type, "Identity")) ||
        data->find("selectindex") != nullptr)
      return false;
    data = from[0];
  }
  return false;
}

}  // namespace

GModule::GModule(const T7Object& module, Apply apply, Tables& tables)
    : module_(module), apply_(std::move(apply)), tables_(tables) {
  // Who reads whom, from the output back.
  const T7Object* out = module.find_object("outnode");
  const T7Object* data = out == nullptr ? nullptr : out->find_object("data");
  if (data == nullptr) throw bad_input("a gModule without an outnode");
  std::vector<const T7Object*> open{data};
  std::set<const T7Object*> seen{data};
  while (!open.empty()) {
    const T7Object* at = open.back();
    open.pop_back();
    const auto from = parents(*at);
    if (const double select = at->number("selectindex", 0);
        from.size() == 1 && select > split_ && is_source(from[0]))
      split_ = select;
    for (const T7Object* p : from) {
      readers_[p].push_back(at);
      if (seen.insert(p).second) open.push_back(p);
    }
  }
}

std::size_t GModule::input_count() const {
  const double given = module_.number("nInputs", 1), n = given == 1 ? split_ : given;
  if (!(n >= 1 && n <= 1000)) throw bad_input("a gModule of {} inputs", n);
  return static_cast<std::size_t>(n);
}

GModule::Values GModule::run(const Values& in) {
  given_ = in;
  return outputs();
}

GModule::Values GModule::run(const Input& input) {
  given_.assign(input_count(), kAbsent);
  input_ = &input;
  return outputs();
}

GModule::Values GModule::outputs() {
  return values_of(*module_.find_object("outnode")->find_object("data"), 0);
}

const GModule::Values& GModule::values_of(const T7Object& data, int depth) {
  if (const auto at = made_.find(&data); at != made_.end()) return at->second;
  if (depth > kMaxDepth) throw bad_input("a gModule of more than {} nodes in a row", kMaxDepth);
  if (!open_.insert(&data).second) throw bad_input("a gModule whose nodes read one another");
  const auto from = parents(data);
  const double select = data.number("selectindex", 0);
  Values in;
  if (from.empty()) {
    in = given_;
  } else if (from.size() == 1 && select >= 1 && input_ != nullptr && is_source(from[0])) {
    const auto index = static_cast<std::size_t>(select) - 1;
    if (select > static_cast<double>(given_.size()))
      throw bad_input("input {} of {}", select, given_.size());
    if (given_[index] == kAbsent) given_[index] = find_input(data, index, depth);
    in = {given_[index]};
  } else {
    for (const T7Object* p : from) {
      const Values& read = values_of(*p, depth + 1);
      if (from.size() == 1 && select >= 1) {
        if (select > static_cast<double>(read.size()))
          throw bad_input("value {} of {}", select, read.size());
        in = tables_.open(read[static_cast<std::size_t>(select) - 1]);
      } else if (from.size() == 1) {
        in = read;
      } else {
        in.push_back(tables_.pack(read));
      }
    }
  }
  if (const T7Object* module = data.find_object("module"))
    in = apply_(*module, in, static_cast<int>(data.number("forwardNodeId", 0)));
  open_.erase(&data);
  return made_.emplace(&data, std::move(in)).first->second;
}

// Forward through modules that keep a shape, to the first that tells it.
ValueId GModule::find_input(const T7Object& data, std::size_t index, int depth) {
  std::vector<const T7Object*> next = readers_[&data];
  std::set<const T7Object*> seen;
  while (!next.empty()) {
    const T7Object* at = next.back();
    next.pop_back();
    if (!seen.insert(at).second) continue;
    const T7Object* module = at->find_object("module");
    if (module != nullptr &&
        (module->find_object("weight") != nullptr || ends(module->type, "OneHot")))
      return (*input_)(index, module, kAbsent);
    if (module != nullptr && (ends(module->type, "CAddTable") || ends(module->type, "CMulTable"))) {
      for (const T7Object* p : parents(*at)) {
        if (open_.contains(p) || seen.contains(p)) continue;
        const Values& other = values_of(*p, depth + 1);
        if (other.size() == 1) return (*input_)(index, nullptr, other[0]);
      }
      continue;
    }
    const bool keeps = module == nullptr || ends(module->type, "Identity") ||
                       ends(module->type, "Tanh") || ends(module->type, "Sigmoid") ||
                       ends(module->type, "ReLU") || ends(module->type, "Dropout");
    if (!keeps) continue;
    const auto& readers = readers_[at];
    next.insert(next.end(), readers.begin(), readers.end());
  }
  throw bad_input("nothing behind input {} tells its shape", index + 1);
}

}  // namespace etalon::torch7
