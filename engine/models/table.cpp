// Every network, one row each.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/nearest.h"
#include "engine/core/threads.h"
#include "engine/models/networks.h"

namespace etalon {

std::span<const ModelRow> models() {
  static const std::array kTable{
      lenet_model(),    alexnet_model(),   alexnet_plain_model(), vgg_a_model(),
      resnet50_model(), mobilenet_model(), lstm_model(),
  };
  return kTable;
}

const ModelRow* find_model(std::string_view name) {
  for (const ModelRow& row : models())
    if (row.name == name) return &row;
  return nullptr;
}

std::string_view built_model_name(std::string_view path) {
  constexpr std::string_view kPrefix = "model:";
  return path.starts_with(kPrefix) ? path.substr(kPrefix.size()) : std::string_view();
}

Model build_model(std::string_view name) {
  const DefaultFpEnvironment fp;
  const ModelRow* row = find_model(name);
  if (row == nullptr) {
    std::vector<std::string_view> names;
    for (const ModelRow& r : models()) names.push_back(r.name);
    throw usage_error(
        "there is no built-in network '{}'{}", name,
        did_you_mean(name, names, fmt::format("; the names are {}", fmt::join(names, ", "))));
  }
  Model model;
  *model.graph = row->build();
  model.format = "built";
  model.version = fmt::format("{}, weights from Philox", row->source);
  model.path = fmt::format("model:{}", row->name);
  return model;
}

}  // namespace etalon
