#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/translator.h"

namespace etalon::keras_format {

// ---- sequences ----
std::string Translator::recurrent_function(const json& config_of, std::string_view key,
                                           std::string_view missing, std::vector<float>& alpha,
                                           std::vector<float>& beta) {
  const auto at = config_of.find(std::string(key));
  if (at != config_of.end() && !at->is_string() && !at->is_null())
    throw UnknownLayer{"a recurrent activation that is a layer of its own"};
  std::string f = at == config_of.end() ? std::string(missing)
                  : at->is_null()       ? "linear"
                                        : at->get<std::string>();
  if (f == "hard_sigmoid") {
    alpha.push_back(origin_.version >= 3 ? 1.0F / 6 : 0.2F);
    beta.push_back(0.5F);
    b_.note(origin_.version >= 3 ? "hard_sigmoid is clip(x/6 + 0.5, 0, 1), as from Keras 3 on."
                                 : "hard_sigmoid is clip(0.2 x + 0.5, 0, 1), as up to Keras 2.");
    return "hardsigmoid";
  }
  if (f == "tanh" || f == "sigmoid" || f == "relu") return f;
  if (f == "linear") return "identity";
  throw UnknownLayer{"recurrent activation " + f};
}

ValueId Translator::recurrent(const std::string& type, const json& cfg, std::size_t first_weight,
                              bool reverse) {
  const auto flag_of = [&](const char* key, bool missing) {
    const auto at = cfg.find(key);
    if (at == cfg.end() || at->is_null()) return missing;
    if (!at->is_boolean()) throw bad_input("'{}' must be true or false", key);
    return at->get<bool>();
  };
  if (flag_of("time_major", false)) throw UnknownLayer{type + " with time_major"};
  if (flag_of("stateful", false)) b_.note("A stateful layer starts from zero in every run.");
  const bool bias = flag_of("use_bias", true);
  const bool lstm = type == "LSTM", gru = type == "GRU";
  const std::int64_t gates = lstm ? 4 : gru ? 3 : 1;
  if (origin_.version == 1) throw UnknownLayer{"recurrent layers of Keras 1"};
  ValueId w = weight(first_weight), r = weight(first_weight + 1);
  const std::int64_t h = b_.shape(r).dim(0);
  const auto matrix = [&](ValueId m, const char* part) {
    m = b_.transpose(name_ + "." + part + "_order", m, {1, 0});
    const Shape s = b_.shape(m);
    return b_.reshape(name_ + "." + part + (reverse ? "_back" : ""), m, {1, s[0], s[1]});
  };
  const bool after = gru && flag_of("reset_after", false);
  std::vector<ValueId> inputs{x(), matrix(w, "w"), matrix(r, "r")};
  if (bias) {
    ValueId bv = weight(first_weight + 2);
    const Tensor* t = b_.constant_of(bv);
    if (t == nullptr || t->dtype() != DType::f32)
      throw UnknownLayer{"a recurrent bias that is not f32"};
    const std::int64_t want = (t->shape().rank() == 2 ? 2 : 1) * gates * h;
    if (t->numel() != want)
      throw bad_input("a recurrent bias {} for {} units", to_string(t->type()), h);
    Tensor both = Tensor::zeros(DType::f32, {1, 2 * gates * h});
    std::ranges::copy(t->data<float>(), both.mutable_data<float>().begin());
    inputs.push_back(b_.constant(name_ + ".b", std::move(both)));
  }
  std::vector<float> alpha, beta;
  std::vector<std::string> functions;
  const char* gate_missing = origin_.version >= 3 ? "sigmoid" : "hard_sigmoid";
  if (lstm || gru)
    functions.push_back(recurrent_function(cfg, "recurrent_activation", gate_missing, alpha, beta));
  functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
  if (lstm) {
    functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
  }
  const bool backwards = flag_of("go_backwards", false) != reverse;
  Fields fields{{"activations", functions},
                {"batch_first", true},
                {"direction", std::string(backwards ? "reverse" : "forward")}};
  if (!alpha.empty()) {
    fields.emplace_back("activation_alpha", alpha);
    fields.emplace_back("activation_beta", beta);
  }
  if (lstm) {
    fields.emplace_back("gates", std::string("ifco"));
    b_.note("LSTM gates stand in the order i, f, c, o.");
  }
  if (gru) {
    fields.emplace_back("gates", std::string("zrh"));
    fields.emplace_back("linear_before_reset", after);
    b_.note(after ? "GRU gates stand in the order z, r, h; reset after the recurrent product."
                  : "GRU gates stand in the order z, r, h; reset before the recurrent product.");
  }
  const std::string op = lstm ? "lstm" : gru ? "gru" : "rnn";
  const std::string label = reverse ? name_ + ".back" : name_;
  const std::vector<ValueId> y = b_.nodes(op, label, inputs, make_params(get_op(op), fields), 2);
  const bool sequences = flag_of("return_sequences", false);
  if (flag_of("return_state", false)) throw UnknownLayer{"return_state"};
  if (!sequences) return b_.op("squeeze", label + ".last", {y[1]}, {{"axes", Ints{1}}});
  const ValueId seq = b_.op("squeeze", label + ".sequence", {y[0]}, {{"axes", Ints{2}}});
  // Keras gives a layer that goes backwards its outputs in the order in which it made them;
  // Bidirectional turns them round again.
  if (backwards && !reverse)
    return b_.op("slice", label + ".order", {seq},
                 {{"starts", Ints{-1}},
                  {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                  {"axes", Ints{1}},
                  {"steps", Ints{-1}}});
  return seq;
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
  const ValueId there = recurrent(type, cfg, 0, false);
  const ValueId back = recurrent(type, cfg, c_.weights.size() / 2, true);
  const std::string how = text("merge_mode", "concat");
  if (how == "concat") return b_.op("concat", name_, {there, back}, {{"axis", std::int64_t{-1}}});
  if (how == "sum") return b_.op("add", name_, {there, back});
  if (how == "mul") return b_.op("mul", name_, {there, back});
  if (how == "ave") return b_.op("mean", name_, {there, back});
  throw UnknownLayer{"merge_mode " + how};
}

ValueId Translator::time_distributed() {
  const json& layer = config("layer");
  const std::string type = json_string(layer, "class_name");
  if (type != "Dense" && type != "Activation" && !is_identity(type))
    throw UnknownLayer{"TimeDistributed " + type};
  const LayerCall call{type, name_, json_member(layer, "config"), c_.inputs, c_.weights};
  return Translator(b_, origin_, call).run();
}

}  // namespace etalon::keras_format
