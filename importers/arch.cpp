#include "importers/arch.h"

#include <algorithm>
#include <map>

#include "engine/core/error.h"
#include "engine/models/models.h"
#include "importers/containers/bytes.h"

namespace etalon {
namespace {

constexpr std::string_view kPrefixes[] = {
    "module.", "model.", "state_dict.", "model_state_dict.", "state_dict.module.", "model.module."};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > 8 ? text + fmt::format(" and {} more", names.size() - 8) : text;
}

}  // namespace

Model open_with_arch(const std::string& path, std::span<const std::string> with,
                     const std::string& arch, std::vector<Placement>& placed) {
  TensorList tensors;
  const Model source = open_model(path, with);
  for (const auto& [id, tensor] : source.graph->initializers)
    tensors.push_back({source.graph->value_name(id), tensor.share()});
  std::string known = arch;
  if (built_model_name(arch).empty() && find_model(arch) != nullptr) known = "model:" + arch;
  Model model = open_model(known);
  if (model.graph->nodes.empty())
    throw usage_error("--arch {}: it holds no network; name a built one (model:NAME) or a graph",
                      arch);
  const ErrorScope scope(path);
  std::map<std::string, const NamedTensor*, std::less<>> by_name;
  for (const NamedTensor& t : tensors) by_name.emplace(t.name, &t);
  std::map<ValueId, const NamedTensor*> chosen;
  std::vector<const NamedTensor*> used;
  const auto take = [&](ValueId id, const NamedTensor* t, std::string by) {
    chosen[id] = t;
    used.push_back(t);
    placed.push_back({model.graph->value_name(id), t->name, std::move(by)});
  };
  const auto is_used = [&](const NamedTensor* t) {
    return std::ranges::find(used, t) != used.end();
  };
  for (const auto& [id, tensor] : model.graph->initializers) {
    const std::string& name = model.graph->value_name(id);
    std::vector<std::pair<std::string, std::string>> spellings{{name, "name"}};
    for (const std::string_view prefix : kPrefixes)
      spellings.emplace_back(std::string(prefix) + name, "name without " + std::string(prefix));
    for (const auto& [spelling, by] : spellings) {
      const auto found = by_name.find(spelling);
      if (found == by_name.end()) continue;
      if (found->second->tensor.type() != tensor.type())
        throw bad_input("tensor {} is {}, the network's weight {} is {}",
                        printable(found->second->name), to_string(found->second->tensor.type()),
                        name, to_string(tensor.type()));
      take(id, found->second, by);
      break;
    }
  }
  for (const auto& [id, tensor] : model.graph->initializers) {
    if (chosen.contains(id)) continue;
    std::vector<const NamedTensor*> fits;
    for (const NamedTensor& t : tensors)
      if (!is_used(&t) && t.tensor.type() == tensor.type()) fits.push_back(&t);
    std::vector<std::string> rivals, candidates;
    for (const auto& [other, value] : model.graph->initializers)
      if (!chosen.contains(other) && value.type() == tensor.type())
        rivals.push_back(model.graph->value_name(other));
    for (const NamedTensor* t : fits) candidates.push_back(t->name);
    if (fits.empty())
      throw bad_input("no tensor for the network's weight {} of type {}",
                      model.graph->value_name(id), to_string(tensor.type()));
    if (fits.size() > 1 || rivals.size() > 1)
      throw bad_input(
          "tensors {} and weights {} are all {} and have other names; which goes where "
          "cannot be told, rename the tensors",
          listed(candidates), listed(rivals), to_string(tensor.type()));
    take(id, fits[0], "shape");
  }
  for (const NamedTensor& t : tensors)
    if (!is_used(&t)) placed.push_back({"", t.name, "not used"});
  for (auto& [id, tensor] : model.graph->initializers) tensor = chosen.at(id)->tensor.share();
  model.path = path;
  model.producer = source.producer;
  model.notes.push_back(fmt::format("The network is {}; its {} weights are those of a {} file.",
                                    known, chosen.size(), source.format));
  for (const std::string& note : source.notes) model.notes.push_back(note);
  return model;
}

}  // namespace etalon
