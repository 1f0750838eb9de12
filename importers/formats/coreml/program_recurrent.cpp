// lstm, gru and rnn of ML programs.
//
// A sequence is [S,B,I], a state [B,D*H], the outputs of all steps [S,B,D*H] or of the last
// [1,B,D*H]. Gates: i, f, o, z of an LSTM, r, o, z of a GRU, which resets before the recurrent
// product unless reset_after says otherwise. One bias stands for the input's and the state's; with
// reset_after it is the state's, and input_bias the input's. A layer that reads backwards gives its
// outputs in the order in which it makes them. scaled_tanh without numbers is tanh.
#include <limits>

#include "engine/core/error.h"
#include "engine/ops/op.h"
#include "importers/formats/coreml/program.h"

namespace etalon::coreml {
namespace {

std::string function_named(const std::string& name) {
  for (const auto& [mil, ours] : {std::pair{"tanh", "tanh"},
                                  {"scaled_tanh", "tanh"},
                                  {"sigmoid", "sigmoid"},
                                  {"relu", "relu"},
                                  {"linear", "identity"},
                                  {"hard_sigmoid", "hardsigmoid"},
                                  {"sigmoid_hard", "hardsigmoid"}})
    if (name == mil) return ours;
  throw bad_input("a recurrent layer with the function {} is not supported", printable(name));
}

class Layer {
 public:
  Layer(Operation& o, std::int64_t gates) : o_(o), gates_(gates) {
    const std::string way = o.text("direction", "forward");
    if (way != "forward" && way != "reverse" && way != "bidirectional")
      throw bad_input("a recurrent layer of the direction {}", printable(way));
    backwards_ = way == "reverse";
    directions_ = way == "bidirectional" ? 2 : 1;
    const Shape r = o.g.shape(o.value("weight_hh"));
    if (r.rank() != 2 || r[1] < 1 || r[0] != gates * r[1])
      throw bad_input("recurrent weights {}, expected [{}H,H]", to_string(r), gates);
    hidden_ = r[1];
    if (o.g.rank(o.value("x")) != 3)
      throw bad_input("a sequence of rank {}, expected [S,B,I]", o.g.rank(o.value("x")));
  }
  // Of both directions one behind the other: [D, ...].
  ValueId weights(const std::string& key) {
    std::vector<ValueId> parts;
    for (std::int64_t d = 0; d < directions_; ++d) {
      const ValueId w = o_.value(d == 0 ? key : key + "_back");
      Ints dims{1};
      for (const std::int64_t n : o_.g.shape(w).dims()) dims.push_back(n);
      parts.push_back(o_.g.reshape(o_.part(key), w, dims));
    }
    return joined(key, parts);
  }
  // The input's bias, then the state's; one that is not there is zero.
  ValueId bias(const char* of_input, const char* of_state) {
    const DType type = o_.g.dtype(o_.value("x"));
    if (!o_.has("bias") && !o_.has("bias_back") && !o_.has("input_bias")) return kAbsent;
    std::vector<ValueId> parts;
    for (std::int64_t d = 0; d < directions_; ++d) {
      const auto one = [&](const char* key) {
        const std::string named = key == nullptr ? "" : d == 0 ? key : std::string(key) + "_back";
        if (key != nullptr && o_.has(named))
          return o_.g.reshape(o_.part(named), o_.value(named), {1, gates_ * hidden_});
        return o_.g.constant(o_.part("zeros"), Tensor::zeros(type, {1, gates_ * hidden_}));
      };
      parts.push_back(o_.g.op("concat", o_.part("biases"), {one(of_input), one(of_state)},
                              {{"axis", std::int64_t{1}}}));
    }
    return joined("bias", parts);
  }
  ValueId peepholes() { return o_.has("peephole") ? weights("peephole") : kAbsent; }
  // [B,D*H] as [D,B,H].
  ValueId state(const char* key) {
    const ValueId v = o_.g.reshape(o_.part(key), o_.value(key), {0, directions_, hidden_});
    return o_.g.transpose(o_.part(key), v, {1, 0, 2});
  }
  std::vector<ValueId> run(std::string_view op, const std::vector<ValueId>& in, Fields f,
                           const std::vector<std::string>& functions) {
    std::vector<std::string> names;
    std::vector<float> alpha, beta;
    for (std::int64_t d = 0; d < directions_; ++d)
      for (const std::string& name : functions) {
        names.push_back(function_named(name));
        if (names.back() != "hardsigmoid") continue;
        alpha.push_back(0.2F);
        beta.push_back(0.5F);
      }
    f.emplace_back("activations", names);
    f.emplace_back("activation_alpha", alpha);
    f.emplace_back("activation_beta", beta);
    f.emplace_back("direction", std::string(directions_ == 2 ? "bidirectional"
                                            : backwards_     ? "reverse"
                                                             : "forward"));
    const auto y = o_.g.nodes(op, o_.name, in, make_params(get_op(op), f), op == "lstm" ? 3 : 2);
    std::vector<ValueId> out;
    if (o_.flag("output_sequence", false)) {
      out.push_back(merged(y[0], {0, 2, 1, 3}, {0, 0, directions_ * hidden_}));
      if (backwards_) {
        out[0] = o_.g.op("slice", o_.part("backwards"), {out[0]},
                         {{"starts", Ints{-1}},
                          {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                          {"axes", Ints{0}},
                          {"steps", Ints{-1}}});
        o_.g.note("a recurrent layer that reads backwards gives its outputs as it makes them");
      }
    }
    for (std::size_t s = 1; s < y.size(); ++s)
      out.push_back(merged(y[s], {1, 0, 2}, {0, directions_ * hidden_}));
    if (!o_.flag("output_sequence", false))
      out.insert(out.begin(), o_.g.op("unsqueeze", o_.part("last"), {out[0]}, {{"axes", Ints{0}}}));
    return out;
  }

 private:
  ValueId joined(const std::string& key, const std::vector<ValueId>& parts) {
    if (parts.size() == 1) return parts[0];
    return o_.g.op("concat", o_.part(key + ".directions"), parts, {{"axis", std::int64_t{0}}});
  }
  ValueId merged(ValueId v, const Ints& perm, const Ints& shape) {
    return o_.g.reshape(o_.part("channels"), o_.g.transpose(o_.part("order"), v, perm), shape);
  }

  Operation& o_;
  std::int64_t gates_, hidden_ = 0, directions_ = 1;
  bool backwards_ = false;
};

std::vector<ValueId> lstm(Operation& o) {
  Layer l(o, 4);
  std::vector<ValueId> in{
      o.value("x"), l.weights("weight_ih"), l.weights("weight_hh"), l.bias("bias", nullptr),
      kAbsent,      l.state("initial_h"),   l.state("initial_c")};
  if (const ValueId p = l.peepholes(); p != kAbsent) in.push_back(p);
  Fields f{{"gates", std::string("ifoc")}};
  if (o.has("clip")) f.emplace_back("cell_clip", o.number("clip", 0));
  return l.run("lstm", in, f,
               {o.text("recurrent_activation", "sigmoid"), o.text("cell_activation", "tanh"),
                o.text("activation", "tanh")});
}

std::vector<ValueId> gru(Operation& o) {
  Layer l(o, 3);
  const bool after = o.flag("reset_after", false);
  o.g.note(fmt::format("GRU: gates r, o, z; reset {} the recurrent product",
                       after ? "after" : "before"));
  return l.run("gru",
               {o.value("x"), l.weights("weight_ih"), l.weights("weight_hh"),
                l.bias("input_bias", "bias"), kAbsent, l.state("initial_h")},
               {{"gates", std::string("rhz")}, {"linear_before_reset", after}},
               {o.text("recurrent_activation", "sigmoid"), o.text("activation", "tanh")});
}

std::vector<ValueId> rnn(Operation& o) {
  Layer l(o, 1);
  return l.run("rnn",
               {o.value("x"), l.weights("weight_ih"), l.weights("weight_hh"),
                l.bias("bias", nullptr), kAbsent, l.state("initial_h")},
               {}, {o.text("activation", "tanh")});
}

}  // namespace

std::vector<ValueId> translate_sequences(Operation& o) {
  if (o.type == "lstm") return lstm(o);
  if (o.type == "gru") return gru(o);
  if (o.type == "rnn") return rnn(o);
  return {};
}

}  // namespace etalon::coreml
