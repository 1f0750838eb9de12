#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/control.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {

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

Translator::CellOp Translator::cell_op(const Cell& cell, const std::string& label) {
  const json& cfg = cell.config;
  const bool lstm = cell.type == "LSTM", gru = cell.type == "GRU";
  const std::int64_t gates = lstm ? 4 : gru ? 3 : 1;
  const auto [w, r, bias] = cell_weights(cell, label);
  const std::int64_t h = b_.shape(r).dim(0);
  const auto matrix = [&](ValueId m, const char* part) {
    m = b_.transpose(label + "." + part + "_order", m, {1, 0});
    const Shape s = b_.shape(m);
    return b_.reshape(label + "." + part, m, {1, s[0], s[1]});
  };
  const bool after = gru && (cell.cudnn || flag_of(cfg, "reset_after", false));
  CellOp out{lstm ? "lstm" : gru ? "gru" : "rnn", {matrix(w, "w"), matrix(r, "r")}, h, {}};
  out.weights.push_back(kAbsent);
  if (bias != kAbsent) {
    const Tensor* t = b_.constant_of(bias);
    if (t == nullptr || t->dtype() != DType::f32)
      throw UnknownLayer{"a recurrent bias that is not f32"};
    const std::int64_t want = (t->shape().rank() == 2 ? 2 : 1) * gates * h;
    if (t->numel() != want)
      throw bad_input("a recurrent bias {} for {} units", to_string(t->type()), h);
    Tensor both = Tensor::zeros(DType::f32, {1, 2 * gates * h});
    std::ranges::copy(t->data<float>(), both.mutable_data<float>().begin());
    out.weights.back() = b_.constant(label + ".b", std::move(both));
  }
  std::vector<float> alpha, beta;
  std::vector<std::string> functions;
  const char* gate_missing = origin_.version >= 3 || cell.cudnn ? "sigmoid" : "hard_sigmoid";
  const char* gate_key = origin_.version == 1 ? "inner_activation" : "recurrent_activation";
  if (lstm || gru)
    functions.push_back(recurrent_function(cfg, gate_key, gate_missing, alpha, beta));
  functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
  if (lstm) functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
  out.fields = {{"activations", functions}, {"batch_first", true}};
  if (!alpha.empty()) {
    out.fields.emplace_back("activation_alpha", alpha);
    out.fields.emplace_back("activation_beta", beta);
  }
  if (lstm) {
    out.fields.emplace_back("gates", std::string("ifco"));
    b_.note("LSTM gates stand in the order i, f, c, o.");
  }
  if (gru) {
    out.fields.emplace_back("gates", std::string("zrh"));
    out.fields.emplace_back("linear_before_reset", after);
    b_.note(after ? "GRU gates stand in the order z, r, h; reset after the recurrent product."
                  : "GRU gates stand in the order z, r, h; reset before the recurrent product.");
  }
  return out;
}

ValueId Translator::zeros(const std::string& name, ValueId like, const Ints& extents) {
  const ValueId batch = b_.op("slice", name + ".batch", {b_.op("shape", name + ".extents", {like})},
                              {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{0}}});
  const ValueId to =
      b_.op("concat", name + ".shape", {batch, b_.constant(name + ".sample", ints_tensor(extents))},
            {{"axis", std::int64_t{0}}});
  const Shape one(Ints(extents.size() + 1, 1));
  return b_.op("expand", name, {b_.constant(name + ".zero", Tensor::zeros(DType::f32, one)), to});
}

ValueId Translator::turned(const std::string& name, ValueId sequence) {
  return b_.op("slice", name, {sequence},
               {{"starts", Ints{-1}},
                {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                {"axes", Ints{1}},
                {"steps", Ints{-1}}});
}

Translator::Sequence Translator::run_cell(const Cell& cell, const std::string& label,
                                          const Along& along) {
  CellOp op = cell_op(cell, label);
  const std::size_t states = cell.type == "LSTM" ? 2 : 1;
  if (!along.states.empty() && along.states.size() != states)
    throw bad_input("{} initial states of {}", along.states.size(), cell.type);
  if (along.mask != kAbsent) return run_masked(op, label, along);
  std::vector<ValueId> in{along.x};
  in.insert(in.end(), op.weights.begin(), op.weights.end());
  if (!along.states.empty()) {
    in.push_back(kAbsent);  // lengths
    for (std::size_t i = 0; i < states; ++i)
      in.push_back(b_.op("unsqueeze", fmt::format("{}.from{}", label, i), {along.states[i]},
                         {{"axes", Ints{1}}}));
  } else if (in.back() == kAbsent) {
    in.pop_back();
  }
  op.fields.emplace_back("direction", std::string(along.backwards ? "reverse" : "forward"));
  const std::vector<ValueId> y =
      b_.nodes(op.op, label, in, make_params(get_op(op.op), op.fields), 1 + states);
  Sequence out{b_.op("squeeze", label + ".sequence", {y[0]}, {{"axes", Ints{2}}}), kAbsent, {}};
  for (std::size_t i = 1; i <= states; ++i)
    out.states.push_back(
        b_.op("squeeze", i == 1 ? label + ".last" : label + ".cell", {y[i]}, {{"axes", Ints{1}}}));
  out.last = out.states[0];
  return out;
}

// Over a masked step the state stays, and the output is the one before, or zeros: step by step, so
// that masked steps may stand anywhere.
Translator::Sequence Translator::run_masked(const CellOp& cell, const std::string& label,
                                            const Along& along) {
  const std::size_t states = cell.op == "lstm" ? 2 : 1;
  ScanInputs in;
  in.axis = 1;
  in.backwards = along.backwards;
  in.sequences = {along.x, along.mask};
  in.carried.push_back(zeros(label + ".before", along.x, {cell.units}));  // the output
  for (std::size_t i = 0; i < states; ++i)
    in.carried.push_back(along.states.empty() ? in.carried[0] : along.states[i]);
  for (const ValueId w : cell.weights)
    if (w != kAbsent) in.read.push_back(w);
  const ScanOutputs made =
      write_scan(b_, label, in, [&](GraphBuilder& g, const std::vector<ValueId>& v) {
        const std::string step = label + ".step";
        const auto longer = [&](const std::string& name, ValueId x) {
          return g.op("unsqueeze", step + name, {x}, {{"axes", Ints{1}}});
        };
        const ValueId x = longer(".x", v[1 + states]), mask = longer(".mask", v[2 + states]);
        std::vector<ValueId> inputs{x};
        for (std::size_t i = 3 + states; i < v.size(); ++i) inputs.push_back(v[i]);
        inputs.resize(5, kAbsent);  // no bias, no lengths
        for (std::size_t i = 0; i < states; ++i)
          inputs.push_back(longer(".from" + std::to_string(i), v[1 + i]));
        const std::vector<ValueId> y =
            g.nodes(cell.op, step, inputs, make_params(get_op(cell.op), cell.fields), 1 + states);
        std::vector<ValueId> next;
        for (std::size_t i = 0; i < states; ++i) {
          const std::string part = std::to_string(i);
          const ValueId fresh =
              g.op("squeeze", step + ".to" + part, {y[1 + i]}, {{"axes", Ints{1}}});
          next.push_back(g.op("where", step + ".kept" + part, {mask, fresh, v[1 + i]}));
          if (i > 0) continue;
          const ValueId else_gives =
              along.zeroed ? g.constant(step + ".none", scalar_of(DType::f32, 0)) : v[0];
          next.insert(next.begin(), g.op("where", step + ".output", {mask, fresh, else_gives}));
        }
        next.push_back(g.op("identity", step + ".value", {next[0]}));
        return next;
      });
  return {made.stacked[0], made.carried[0], {made.carried.begin() + 1, made.carried.end()}};
}

}  // namespace etalon::keras_format
