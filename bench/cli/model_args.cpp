#include "bench/cli/model_args.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/cli/terminal.h"
#include "engine/core/error.h"
#include "importers/weight_layout.h"

namespace etalon::cli {

Options& model_options(Options& options, const std::string& word, const std::string& help,
                       ModelArgs& args) {
  std::string layouts;
  for (const WeightLayout& l : weight_layouts())
    layouts.append(layouts.empty() ? "" : ", ").append(l.name);
  return options.word(word, args.path, help)
      .repeated("--with", args.with, "FILE", "A further file of the same model")
      .value("--arch", args.arch.network, "NAME|GRAPH",
             "The network that weights without one belong to: model:NAME or a graph's file")
      .value("--weights-of", args.arch.weights_of, "FRAMEWORK",
             fmt::format("Whose layout the weights of --arch have: {}", layouts))
      .repeated("--place", args.arch.places, "WEIGHT=TENSOR",
                "Which tensor a weight of --arch gets, where names and shapes do not tell")
      .flag("--in-order", args.arch.in_order,
            "The file's tensors are the weights of --arch, in the network's order");
}

Model open_model_args(ModelArgs& args) {
  if (args.arch.network.empty()) {
    if (!args.arch.weights_of.empty() || !args.arch.places.empty() || args.arch.in_order)
      throw usage_error("--weights-of, --place and --in-order belong to --arch");
    return open_model(args.path, args.with);
  }
  Model model = open_with_arch(args.path, args.with, args.arch, args.placed);
  Table table({{"weight"}, {"tensor"}, {"found by"}, {"changed"}});
  for (const Placement& p : args.placed) table.row({p.weight, p.tensor, p.by, p.change});
  table.print();
  fmt::print("\n");
  return model;
}

nlohmann::json placement_json(const ModelArgs& args) {
  nlohmann::json out;
  for (const Placement& p : args.placed)
    out.push_back({{"weight", p.weight}, {"tensor", p.tensor}, {"by", p.by}, {"change", p.change}});
  return out;
}

}  // namespace etalon::cli
