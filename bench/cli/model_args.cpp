#include "bench/cli/model_args.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/cli/terminal.h"
#include "bench/op_text.h"
#include "engine/core/error.h"
#include "importers/importers.h"
#include "importers/input_hints.h"
#include "importers/weight_layout.h"

namespace etalon::cli {
namespace {

// "NAME=TYPE" or "TYPE"; of files, "NAME=FILE" or a file, the arrays they hold.
std::vector<HintedInput> hints_of(const std::vector<std::string>& shapes,
                                  const std::vector<std::string>& files) {
  std::vector<HintedInput> out;
  for (const std::string& shape : shapes) {
    const std::size_t equals = shape.find('=');
    const bool named = equals != std::string::npos;
    out.push_back({named ? shape.substr(0, equals) : "",
                   parse_tensor_type(std::string_view(shape).substr(named ? equals + 1 : 0))});
  }
  if (!out.empty()) return out;
  for (const std::string& file : files) {
    const std::size_t equals = std::filesystem::exists(file) ? std::string::npos : file.find('=');
    const bool named = equals != std::string::npos;
    for (const NamedTensor& t : load_tensors(named ? file.substr(equals + 1) : file))
      out.push_back({named ? file.substr(0, equals) : t.name, t.tensor.type()});
  }
  return out;
}

}  // namespace

Options& model_options(Options& options, const std::string& word, const std::string& help,
                       ModelArgs& args) {
  std::string layouts;
  for (const WeightLayout& l : weight_layouts())
    layouts.append(layouts.empty() ? "" : ", ").append(l.name);
  return options.word(word, args.path, help)
      .repeated("--with", args.with, "FILE", "A further file of the same model")
      .repeated("--input-shape", args.shapes, "NAME=f32[1,3,224,224]",
                "Type and shape of an input that the file does not say (TorchScript)")
      .value("--arch", args.arch.network, "NAME|GRAPH",
             "The network that weights without one belong to: model:NAME or a graph's file")
      .value("--weights-of", args.arch.weights_of, "FRAMEWORK",
             fmt::format("Whose layout the weights of --arch have: {}", layouts))
      .repeated("--place", args.arch.places, "WEIGHT=TENSOR",
                "Which tensor a weight of --arch gets, where names and shapes do not tell")
      .flag("--in-order", args.arch.in_order,
            "The file's tensors are the weights of --arch, in the network's order");
}

Model open_model_args(ModelArgs& args, const std::vector<std::string>& inputs) {
  const InputHints hints(hints_of(args.shapes, inputs));
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
