#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {

bool Translator::flag_of(const json& config, const char* key, bool missing) {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return missing;
  if (!at->is_boolean()) throw bad_input("'{}' must be true or false", key);
  return at->get<bool>();
}

// The cells of a layer, the first one nearest to its input.
std::vector<Translator::Cell> Translator::cells(const std::string& type, const json& config,
                                                std::size_t first_weight) {
  if (type.starts_with("CuDNN")) return {{type.substr(5), config, first_weight, true}};
  if (type != "RNN") return {{type, config, first_weight}};
  std::vector<Cell> out;
  const auto add = [&](const json& cell) {
    std::string of = json_string(cell, "class_name");
    if (!of.ends_with("Cell")) throw UnknownLayer{"an RNN of " + of};
    of.resize(of.size() - 4);
    if (of != "LSTM" && of != "GRU" && of != "SimpleRNN") throw UnknownLayer{"an RNN of " + of};
    const json& cfg = json_member(cell, "config");
    out.push_back({of, cfg, first_weight});
    first_weight += flag_of(cfg, "use_bias", true) ? 3 : 2;
  };
  const json& cell = json_member(config, "cell");
  if (json_string(cell, "class_name") == "StackedRNNCells")
    for (const json& one : json_array(json_member(cell, "config"), "cells")) add(one);
  else
    add(cell);
  if (out.empty()) throw bad_input("an RNN without a cell");
  return out;
}

// The values of a layer in one direction; its states go to states_. `turn`: what goes backwards
// comes out in the order in which it was made.
ValueId Translator::recurrent(const std::string& type, const json& config, std::size_t first_weight,
                              const std::string& label, Along along, bool turn) {
  if (flag_of(config, "time_major", false)) throw UnknownLayer{type + " with time_major"};
  if (flag_of(config, "stateful", false))
    b_.note("A stateful layer starts from zero in every run.");
  along.zeroed = flag_of(config, "zero_output_for_mask", false);
  const std::vector<Cell> all = cells(type, config, first_weight);
  const bool states = flag_of(config, "return_state", false);
  if (all.size() > 1 && (states || !along.states.empty()))
    throw UnknownLayer{"the states of stacked cells"};
  Sequence y;
  for (std::size_t i = 0; i < all.size(); ++i) {
    y = run_cell(all[i], i == 0 ? label : fmt::format("{}.{}", label, i), along);
    along.x = y.values;
  }
  if (states) states_.insert(states_.end(), y.states.begin(), y.states.end());
  if (!flag_of(config, "return_sequences", false)) return y.last;
  return along.backwards && turn ? turned(label + ".order", y.values) : y.values;
}

ValueId Translator::recurrent_layer() {
  return recurrent(c_.type, c_.config, 0, name_,
                   {x(), mask(0), c_.states, flag_of(c_.config, "go_backwards", false)}, true);
}

// The layer of the other direction may be one of its own: its settings must be the same.
void Translator::same_cell(const json& there, const json& back) const {
  for (const char* key : {"units", "activation", "recurrent_activation", "use_bias", "reset_after",
                          "return_sequences", "stateful"}) {
    const auto a = there.find(key), b = back.find(key);
    if ((a == there.end()) != (b == back.end()) || (a != there.end() && *a != *b))
      throw UnknownLayer{fmt::format("Bidirectional whose layers differ in {}", key)};
  }
}

ValueId Translator::bidirectional() {
  const json& layer = config("layer");
  const std::string type = json_string(layer, "class_name");
  const json& cfg = json_member(layer, "config");
  if (const json* back = find("backward_layer"); back != nullptr) {
    if (json_string(*back, "class_name") != type)
      throw UnknownLayer{"Bidirectional with layers of two classes"};
    same_cell(cfg, json_member(*back, "config"));
  }
  if (const auto at = cfg.find("go_backwards"); at != cfg.end() && *at == true)
    throw UnknownLayer{"Bidirectional of a layer that goes backwards"};
  if (c_.weights.size() % 2 != 0) throw bad_input("an odd number of weights for two directions");
  if (c_.states.size() % 2 != 0) throw bad_input("{} states for two directions", c_.states.size());
  const auto half = c_.states.begin() + static_cast<std::ptrdiff_t>(c_.states.size() / 2);
  const ValueId there =
      recurrent(type, cfg, 0, name_, {x(), mask(0), {c_.states.begin(), half}, false}, false);
  const ValueId back = recurrent(type, cfg, c_.weights.size() / 2, name_ + ".back",
                                 {x(), mask(0), {half, c_.states.end()}, true}, false);
  if (const auto at = c_.config.find("merge_mode"); at != c_.config.end() && at->is_null()) {
    states_.insert(states_.begin(), back);  // both, each a value of its own
    return there;
  }
  const std::string how = text("merge_mode", "concat");
  if (how == "concat") return b_.op("concat", name_, {there, back}, {{"axis", std::int64_t{-1}}});
  if (how == "sum") return b_.op("add", name_, {there, back});
  if (how == "mul") return b_.op("mul", name_, {there, back});
  if (how == "ave") return b_.op("mean", name_, {there, back});
  throw UnknownLayer{"merge_mode " + how};
}

// A layer of the last axis alone is the same at every step as it stands.
ValueId Translator::time_distributed() {
  const json& layer = config("layer");
  const std::string type = json_string(layer, "class_name");
  const json& cfg = json_member(layer, "config");
  const bool as_it_stands = type == "Dense" || type == "Activation" || is_identity(type);
  const ValueId in = as_it_stands ? x() : steps_as_batch(b_, name_, x());
  const LayerCall call{type, name_, cfg, {in}, c_.weights};
  Translator inner(b_, origin_, call);
  const ValueId y = inner.run();
  if (!inner.take_states().empty()) throw UnknownLayer{"TimeDistributed " + type + " with states"};
  return as_it_stands ? y : batch_as_steps(b_, name_, y, x());
}

ValueId steps_as_batch(GraphBuilder& b, const std::string& name, ValueId x) {
  Ints dims = b.dims(x);
  if (dims.size() < 3) throw UnknownLayer{"TimeDistributed of other than sequences of samples"};
  dims.erase(dims.begin());
  dims[0] = -1;
  for (std::size_t i = 1; i < dims.size(); ++i)
    if (dims[i] < 0) throw UnknownLayer{"TimeDistributed over samples of free extents"};
  return b.reshape(name + ".samples", x, dims);
}

ValueId batch_as_steps(GraphBuilder& b, const std::string& name, ValueId y, ValueId like) {
  Ints dims = b.dims(y);
  const std::int64_t steps = b.dims(like)[1];
  dims[0] = steps;
  for (const std::int64_t d : dims)
    if (d < 0) throw UnknownLayer{"TimeDistributed over steps or samples of free extents"};
  dims.insert(dims.begin(), -1);
  return b.reshape(name + ".steps", y, dims);
}

}  // namespace etalon::keras_format
