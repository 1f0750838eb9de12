#include "importers/arch.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "engine/models/models.h"
#include "importers/arch_names.h"
#include "importers/containers/bytes.h"
#include "importers/formats/translate.h"
#include "importers/weight_layout.h"

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

// "conv1/W", "conv1.kernel" and "conv1.weight" are one name; so are "b" and "bias".
std::string plain_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '/', '.');
  const std::size_t dot = out.rfind('.');
  const std::string leaf = dot == std::string::npos ? out : out.substr(dot + 1);
  const std::string layer = dot == std::string::npos ? "" : out.substr(0, dot + 1);
  if (leaf == "W" || leaf == "kernel" || leaf == "weights") return layer + "weight";
  if (leaf == "b" || leaf == "biases") return layer + "bias";
  return out;
}

class Matcher {
 public:
  Matcher(const Graph& graph, const TensorList& tensors, const WeightLayout* layout,
          std::vector<Placement>& placed)
      : graph_(graph), tensors_(tensors), layout_(layout), placed_(placed) {
    std::set<std::string, std::less<>> names;
    for (const NamedTensor& t : tensors) names.insert(t.name);
    for (const auto& [id, tensor] : graph.initializers) {
      roles_.emplace(id, role_of(graph, id));
      own_names_ = own_names_ || names.contains(name(id));
      for (const std::string_view prefix : kPrefixes)
        own_names_ = own_names_ || names.contains(std::string(prefix) + name(id));
    }
  }

  void by_places(const std::vector<std::string>& places) {
    for (const std::string& place : places) {
      const std::size_t equals = place.find('=');
      const ValueId id = equals == std::string::npos
                             ? kAbsent
                             : graph_.find_value(std::string_view(place).substr(0, equals));
      if (!graph_.initializers.contains(id))
        throw usage_error("--place {}: no such weight in the network; WEIGHT=TENSOR", place);
      const auto t = std::ranges::find(tensors_, place.substr(equals + 1), &NamedTensor::name);
      if (t == tensors_.end()) throw usage_error("--place {}: no such tensor in the file", place);
      if (chosen_.contains(id)) throw usage_error("--place {}: this weight has a place", place);
      take_or_refuse(id, *t, "placed");
    }
  }

  // Where every weight that has no place yet has a tensor of that naming's.
  void by_naming(std::string_view network) {
    std::map<std::string, const NamedTensor*, std::less<>> there;
    for (const NamedTensor& t : tensors_)
      if (!used_.contains(&t)) there.emplace(t.name, &t);
    for (const WeightNaming& naming : weight_namings()) {
      if (naming.network != network) continue;
      std::vector<std::string> prefixes{""};
      prefixes.insert(prefixes.end(), std::begin(kPrefixes), std::end(kPrefixes));
      for (const std::string& prefix : prefixes) {
        std::vector<std::pair<ValueId, const NamedTensor*>> found;
        for (const auto& [id, tensor] : graph_.initializers) {
          if (chosen_.contains(id)) continue;
          const auto at = there.find(prefix + naming.tensor_of(name(id)));
          if (at == there.end()) break;
          found.emplace_back(id, at->second);
        }
        if (found.empty() || found.size() + chosen_.size() != graph_.initializers.size()) continue;
        if (layout_ == nullptr) layout_ = &find_weight_layout(naming.layout);
        for (const auto& [id, tensor] : found)
          take_or_refuse(id, *tensor, fmt::format("{}'s name", naming.whose));
        return;
      }
    }
  }

  void by_order() {
    // Counters (PyTorch's num_batches_tracked) are no weights.
    const bool floating = std::ranges::all_of(
        graph_.initializers, [](const auto& w) { return is_floating(w.second.dtype()); });
    const std::vector<ValueId> weights = weights_in_order();
    const std::string list = the_list(weights.size() - chosen_.size());
    auto t = tensors_.begin();
    for (const ValueId id : weights) {
      if (chosen_.contains(id)) continue;
      while (t != tensors_.end() &&
             (used_.contains(&*t) || (!list.empty() && list_of(t->name) != list) ||
              (floating && !is_floating(t->tensor.dtype()))))
        ++t;
      if (t == tensors_.end())
        throw bad_input("no tensor is left for the network's weight {}", name(id));
      take_or_refuse(id, *t, "order");
    }
  }

  void by_name() {
    std::map<std::string, const NamedTensor*, std::less<>> exact, plain;
    for (const NamedTensor& t : tensors_) {
      exact.emplace(t.name, &t);
      const auto [at, fresh] = plain.emplace(plain_name(t.name), &t);
      if (!fresh) at->second = nullptr;
    }
    for (const auto& [id, tensor] : graph_.initializers) {
      if (chosen_.contains(id)) continue;
      std::vector<std::pair<std::string, std::string>> spellings{{name(id), "name"}};
      for (const std::string_view prefix : kPrefixes)
        spellings.emplace_back(std::string(prefix) + name(id),
                               "name without " + std::string(prefix));
      for (const auto& [spelling, by] : spellings) {
        const auto found = exact.find(spelling);
        if (found == exact.end() || used_.contains(found->second)) continue;
        take_or_refuse(id, *found->second, by);
        break;
      }
      if (chosen_.contains(id)) continue;
      const auto found = plain.find(plain_name(name(id)));
      if (found != plain.end() && found->second != nullptr && !used_.contains(found->second))
        take_or_refuse(id, *found->second, "spelling");
    }
  }

  void by_shape() {
    for (const auto& [id, tensor] : graph_.initializers) {
      if (chosen_.contains(id)) continue;
      std::vector<const NamedTensor*> fits;
      std::vector<std::string> rivals, candidates;
      for (const NamedTensor& t : tensors_)
        if (!used_.contains(&t) && laid_out(id, t)) {
          fits.push_back(&t);
          candidates.push_back(t.name);
        }
      if (fits.empty())
        throw bad_input("no tensor for the network's weight {} of type {}{}", name(id),
                        to_string(tensor.type()),
                        layout_ == nullptr ? "; --weights-of FRAMEWORK says how matrices lie" : "");
      for (const auto& [other, value] : graph_.initializers)
        if (!chosen_.contains(other) && laid_out(other, *fits[0])) rivals.push_back(name(other));
      if (fits.size() > 1 || rivals.size() > 1)
        throw bad_input(
            "tensors {} and weights {} are all {} and have other names; which goes where "
            "cannot be told, say it by --place WEIGHT=TENSOR, or by --in-order that the file's "
            "order is the network's",
            listed(candidates), listed(rivals), to_string(tensor.type()));
      take_or_refuse(id, *fits[0], "shape");
    }
  }

  const WeightLayout* layout() const { return layout_; }

  std::map<ValueId, Tensor> finish() {
    for (const NamedTensor& t : tensors_)
      if (!used_.contains(&t)) placed_.push_back({"", t.name, "not used", ""});
    return std::move(chosen_);
  }

 private:
  // "param values.3": the list "param values".
  static std::string list_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    const bool numbered = dot != std::string::npos && dot + 1 < name.size() &&
                          name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
    return numbered ? name.substr(0, dot) : "";
  }
  // The only list that has one tensor for each weight, where the file holds more than that.
  std::string the_list(std::size_t count) const {
    if (tensors_.size() == count) return "";
    std::map<std::string, std::size_t> sizes;
    for (const NamedTensor& t : tensors_) ++sizes[list_of(t.name)];
    sizes.erase("");
    std::string found;
    for (const auto& [list, size] : sizes) {
      if (size != count) continue;
      if (!found.empty()) return "";
      found = list;
    }
    return found;
  }

  // Where the layout has a batch norm's beta before its gamma, these two change places.
  std::vector<ValueId> weights_in_order() const {
    std::vector<ValueId> order;
    for (const auto& [id, tensor] : graph_.initializers) order.push_back(id);
    if (layout_ == nullptr || !layout_->inverse_deviation) return order;
    for (const Node& n : graph_.nodes) {
      if (n.op->name != "batch_norm" || n.inputs.size() < 3) continue;
      const auto gamma = std::ranges::find(order, n.inputs[1]),
                 beta = std::ranges::find(order, n.inputs[2]);
      if (gamma != order.end() && beta != order.end() && gamma < beta) std::iter_swap(gamma, beta);
    }
    return order;
  }

  const std::string& name(ValueId id) const { return graph_.value_name(id); }

  std::optional<LaidOut> laid_out(ValueId id, const NamedTensor& t) const {
    const TensorType& wanted = graph_.initializers.at(id).type();
    const ErrorScope scope("tensor " + printable(t.name));
    if (layout_ != nullptr) return lay_out(t.tensor, *layout_, roles_.at(id), wanted);
    if (t.tensor.type() != wanted) return std::nullopt;
    return LaidOut{t.tensor.share(), ""};
  }

  // What a layout that nobody named would leave open.
  bool needs_layout(ValueId id) const {
    const WeightRole& role = roles_.at(id);
    const Shape& shape = graph_.initializers.at(id).shape();
    switch (role.kind) {
      case WeightRole::Kind::plain:
        return false;
      case WeightRole::Kind::recurrent:
        return shape.rank() > 1;
      case WeightRole::Kind::inner:
        return shape.rank() == 2 && shape[0] == shape[1];
      default:
        return shape.rank() > 2 && shape.numel() > shape[0] * shape[1];
    }
  }

  void take_or_refuse(ValueId id, const NamedTensor& t, const std::string& by) {
    std::optional<LaidOut> laid = laid_out(id, t);
    if (!laid)
      throw bad_input(
          "tensor {} is {}, the network's weight {} is {}{}", printable(t.name),
          to_string(t.tensor.type()), name(id), to_string(graph_.initializers.at(id).type()),
          layout_ == nullptr ? "; where another framework laid it out, say which by --weights-of"
                             : fmt::format(", in the layout of {}", layout_->name));
    if (layout_ == nullptr && !own_names_ && needs_layout(id))
      throw bad_input(
          "tensor {} fits the network's weight {}, but not whose it is: kernels are flipped and "
          "matrices transposed in some frameworks; say which by --weights-of",
          printable(t.name), name(id));
    placed_.push_back({name(id), t.name, by, laid->change});
    used_.insert(&t);
    chosen_.emplace(id, std::move(laid->tensor));
  }

  const Graph& graph_;
  const TensorList& tensors_;
  const WeightLayout* layout_;  // nullptr: nobody said
  std::vector<Placement>& placed_;
  std::map<ValueId, WeightRole> roles_;
  std::map<ValueId, Tensor> chosen_;
  std::set<const NamedTensor*> used_;
  bool own_names_ = false;  // the file has names of the network's: it is laid out as that is
};

// The network of a file that names the layers whose weights the other one has.
Model open_with_layers(const std::string& network, const std::string& weights,
                       const Model& source) {
  Model model = open_model(network, std::vector{weights});
  if (model.graph->nodes.empty()) return model;  // its notes say why
  model.path = weights;
  model.producer = source.producer;
  model.notes.push_back(fmt::format("The network is {}; its {} weights were found by its layers.",
                                    network, model.graph->initializers.size()));
  return model;
}

}  // namespace

Model open_with_arch(const std::string& path, std::span<const std::string> with,
                     const ArchOptions& arch, std::vector<Placement>& placed) {
  const Model source = open_model(path, with);
  const WeightLayout* layout =
      arch.weights_of.empty() ? weight_layout_of(source) : &find_weight_layout(arch.weights_of);
  if (!arch.weights_of.empty() && !source.graph->nodes.empty())
    throw usage_error("--weights-of {}: {} holds a graph, its weights are laid out already",
                      arch.weights_of, path);
  std::string known = arch.network;
  if (built_model_name(known).empty() && find_model(known) != nullptr) known = "model:" + known;
  // Keras finds weights by its layers, which a graph no longer has.
  const bool of_layers = (source.format == "keras" && source.graph->nodes.empty()) ||
                         (source.format == "tensorflow-checkpoint" && path.ends_with(".index"));
  if (of_layers && built_model_name(known).empty() && format_of(known).name == "keras")
    return open_with_layers(known, path, source);
  Model model = open_model(known);
  if (model.graph->nodes.empty())
    throw usage_error("--arch {}: it holds no network; name a built one (model:NAME) or a graph",
                      arch.network);
  const ErrorScope scope(path);
  std::set<DType> held;
  for (const auto& [id, tensor] : model.graph->initializers) held.insert(tensor.dtype());
  TensorList tensors;
  std::set<DType> rounded;
  for (const auto& [id, tensor] : source.graph->initializers) {
    const DType dtype = tensor.dtype();
    const bool other = is_floating(dtype) && !held.contains(dtype) && held.contains(DType::f32);
    if (other) rounded.insert(dtype);
    tensors.push_back({source.graph->value_name(id), other ? as_f32(tensor) : tensor.share()});
  }
  Matcher matcher(*model.graph, tensors, layout, placed);
  matcher.by_places(arch.places);
  if (arch.in_order) {
    matcher.by_order();
  } else {
    // A file of another implementation may have a few names in common: all or none of its naming.
    matcher.by_naming(built_model_name(known));
    matcher.by_name();
    matcher.by_shape();
  }
  model.graph->initializers = matcher.finish();
  model.path = path;
  model.producer = source.producer;
  model.notes.push_back(fmt::format("The network is {}; its {} weights are those of a {} file.",
                                    known, model.graph->initializers.size(), source.format));
  for (const DType dtype : rounded)
    model.notes.push_back(fmt::format(
        "Weights of {} are f32 here, as the network has them, rounded once.", name(dtype)));
  std::map<std::string, int> changes;
  for (const Placement& p : placed)
    if (!p.change.empty()) ++changes[p.change];
  for (const auto& [change, count] : changes)
    model.notes.push_back(
        fmt::format("Laid out by {}: {} weights {}.", matcher.layout()->name, count, change));
  for (const std::string& note : source.notes) model.notes.push_back(note);
  return model;
}

}  // namespace etalon
