// Every network, one row each.
#include <array>

#include "engine/core/error.h"
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
    std::string names;
    for (const ModelRow& r : models()) names.append(names.empty() ? "" : ", ").append(r.name);
    throw usage_error("there is no built-in network '{}'; the names are {}", name, names);
  }
  Model model;
  *model.graph = row->build();
  model.format = "built";
  model.version = fmt::format("{}, weights from Philox", row->source);
  model.path = fmt::format("model:{}", row->name);
  return model;
}

}  // namespace etalon
