#include "bench/cli/model_args.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/model_text.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
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
    const std::size_t equals = shape.rfind('=');  // a name may hold one, a type does not
    const bool named = equals != std::string::npos;
    out.push_back({named ? shape.substr(0, equals) : "",
                   parse_tensor_type(std::string_view(shape).substr(named ? equals + 1 : 0))});
  }
  if (!out.empty()) return out;
  for (const std::string& file : files) {
    const auto [name, path] = named_file(file);
    for (const NamedTensor& t : load_tensors(path))
      out.push_back({name.empty() ? t.name : name, t.tensor.type()});
  }
  return out;
}

// What --input-shape says holds: a free extent of the graph's input is what was told, one that the
// file says must be it. The first extent stays free where the reader knew the hints and left it so.
void hold_to(Graph& graph, const std::vector<HintedInput>& told, const InputHints& hints) {
  std::map<std::string, std::int64_t> by_name;  // extents of one name are the same in all inputs
  for (std::size_t i = 0; i < told.size(); ++i) {
    const HintedInput& h = told[i];
    Declaration* d = nullptr;
    for (std::size_t k = 0; k < graph.inputs.size(); ++k)
      if (h.name.empty() ? k == i : graph.value_name(graph.inputs[k].value) == h.name)
        d = &graph.inputs[k];
    if (d == nullptr) {
      if (!h.name.empty() && hints.taken(h.name)) continue;
      throw usage_error("--input-shape {}: the network has no such input; its inputs are {}",
                        h.name.empty() ? to_string(h.type) : h.name, input_names(graph));
    }
    const auto dims = h.type.shape.dims();
    bool fits = d->dtype == h.type.dtype && (!d->ranked || d->dims.size() == dims.size());
    for (std::size_t k = 0; fits && d->ranked && k < dims.size(); ++k)
      fits = d->dims[k] < 0 || d->dims[k] == dims[k];
    if (!fits)
      throw usage_error("--input-shape {}: the file says {} for '{}'", to_string(h.type),
                        declaration_text(*d), graph.value_name(d->value));
    if (!d->ranked) {
      if (hints.read()) continue;
      d->ranked = true;
      d->dims.assign(dims.size(), -1);
      d->dim_names.assign(dims.size(), "");
    }
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (d->dims[k] >= 0 || (k == 0 && hints.read())) continue;
      d->dims[k] = dims[k];
      if (k < d->dim_names.size() && !d->dim_names[k].empty())
        by_name.emplace(d->dim_names[k], dims[k]);
    }
  }
  for (Declaration& d : graph.inputs)
    for (std::size_t k = 0; k < d.dims.size() && k < d.dim_names.size(); ++k)
      if (const auto at = by_name.find(d.dim_names[k]); d.dims[k] < 0 && at != by_name.end())
        d.dims[k] = at->second;
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
                "Type and shape of an input where the file does not say them")
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
  for (const std::string& file : args.with)
    if (!std::filesystem::exists(file))
      throw usage_error("--with {}: no such file; check the path", file);
  const std::vector<HintedInput> told = hints_of(args.shapes, {});
  const InputHints hints(told.empty() ? hints_of({}, inputs) : told);
  if (args.arch.network.empty()) {
    if (!args.arch.weights_of.empty() || !args.arch.places.empty() || args.arch.in_order)
      throw usage_error("--weights-of, --place and --in-order belong to --arch");
    Model model = open_model(args.path, args.with);
    hold_to(*model.graph, told, hints);
    return model;
  }
  Model model = open_with_arch(args.path, args.with, args.arch, args.placed);
  Table table({{"weight"}, {"tensor"}, {"found by"}, {"changed"}});
  for (const Placement& p : args.placed) table.row({p.weight, p.tensor, p.by, p.change});
  table.print();
  fmt::print("\n");
  hold_to(*model.graph, told, hints);
  return model;
}

std::uint64_t seed_of(const std::string& text) {
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, seed);
  if (fault != std::errc() || at != end)
    throw usage_error("--random {}: a seed is a whole number from 0 to {}", text,
                      std::numeric_limits<std::uint64_t>::max());
  return seed;
}

nlohmann::json placement_json(const ModelArgs& args) {
  nlohmann::json out;
  for (const Placement& p : args.placed)
    out.push_back({{"weight", p.weight}, {"tensor", p.tensor}, {"by", p.by}, {"change", p.change}});
  return out;
}

}  // namespace etalon::cli
