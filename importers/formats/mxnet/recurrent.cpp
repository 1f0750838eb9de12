// The fused operator RNN: data [T,N,I], one vector of parameters, the states [L*D,N,H].
//
// The vector holds, layer by layer and in each the forward direction first, the weights of the
// input [G*H,I] and of the state [G*H,H]; behind all of them, in the same sequence, the biases of
// the input [G*H] and of the state [G*H]. Gates: LSTM i, f, g, o; GRU r, z, n with the reset behind
// the product (linear_before_reset); rnn_relu, rnn_tanh one. The input of a layer is the states of
// both directions of the layer below. Outputs: [T,N,D*H], and with state_outputs the last states.
// Source: MXNet's documentation of the operator RNN; its layout is cuDNN's.
#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/symbol.h"

namespace etalon::mxnet {
namespace {

// `count` numbers at `at`, which moves on.
Tensor part(const Tensor& all, std::int64_t& at, const Shape& shape) {
  const std::int64_t count = shape.numel();
  if (count > all.numel() - at)
    throw bad_input("{} parameters, more are needed than that", all.numel());
  Tensor out = Tensor::uninitialized(DType::f32, shape);
  std::ranges::copy_n(all.data<float>().begin() + at, count, out.mutable_data<float>().begin());
  at += count;
  return out;
}

Tensor joined(const std::vector<Tensor>& parts, const Shape& shape) {
  Tensor out = Tensor::uninitialized(DType::f32, shape);
  auto to = out.mutable_data<float>().begin();
  for (const Tensor& p : parts) to = std::ranges::copy(p.data<float>(), to).out;
  return out;
}

}  // namespace

// Gluon keeps the parts apart and joins them in the graph.
ValueId Translator::parameters_of_rnn() {
  std::vector<Tensor> parts;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const Tensor* t = g.constant_of(x(i));
    if (t == nullptr || t->dtype() != DType::f32)
      throw bad_input("its parameters are computed, not stored");
    parts.push_back(t->share());
    count += t->numel();
  }
  return g.constant(n_->name, joined(parts, {count}));
}

// How many features an RNN reads; 0 where its weights do not tell. Those of the input are a matrix
// of their own (Gluon), or what is left of the vector.
std::int64_t Translator::features_of_rnn(const SymbolNode& n) const {
  if (n.inputs.size() < 2) return 0;
  std::size_t source = n.inputs[1].first;
  while (symbol_.nodes[source].op != "null" && !symbol_.nodes[source].inputs.empty())
    source = symbol_.nodes[source].inputs[0].first;
  const auto w = weights_.find(symbol_.nodes[source].name);
  if (w == weights_.end()) return 0;
  if (w->second.shape().rank() == 2) return w->second.shape()[1];
  const auto text = [&](const char* key) {
    const auto at = n.attributes.find(key);
    return at == n.attributes.end() ? std::string() : at->second;
  };
  const std::string mode = text("mode"), both = text("bidirectional");
  const std::int64_t gates = mode == "lstm"  ? 4
                             : mode == "gru" ? 3
                                             : 1,
                     h = first_of(text("state_size")),
                     d = both == "True" || both == "1" || both == "true" ? 2 : 1,
                     layers = first_of(text("num_layers"));
  if (h < 1 || h > 1 << 20 || layers < 1 || layers > 1024)
    throw bad_input("{} layers of {} units", layers, h);
  const std::int64_t rows = d * gates * h, parameters = w->second.numel(),
                     rest = parameters - layers * rows * (2 + h) - (layers - 1) * rows * d * h;
  if (rest < rows || rest % rows != 0)
    throw bad_input("{} parameters are not those of {} layers of {} units", parameters, layers, h);
  return rest / rows;
}

std::vector<ValueId> Translator::recurrent() {
  const std::string mode = attribute("mode");
  const std::int64_t gates = mode == "lstm"                             ? 4
                             : mode == "gru"                            ? 3
                             : mode == "rnn_tanh" || mode == "rnn_relu" ? 1
                                                                        : 0;
  if (gates == 0) throw bad_input("RNN of mode {} is not supported", printable(mode));
  if (!attribute("projection_size").empty() && attribute("projection_size") != "None")
    throw bad_input("RNN with projection_size is not supported");
  for (const char* key : {"lstm_state_clip_min", "lstm_state_clip_max", "lstm_state_clip_nan"})
    refuse(key);
  const std::int64_t h = integer("state_size", 0), layers = integer("num_layers", 1),
                     d = flag("bidirectional", false) ? 2 : 1;
  if (h < 1 || h > 1 << 20 || layers < 1 || layers > 1024)
    throw bad_input("{} layers of {} units", layers, h);
  const Tensor* all = g.constant_of(x(1));
  if (all == nullptr || all->dtype() != DType::f32)
    throw bad_input("its parameters are computed, not stored");
  ValueId in = x(0);
  if (g.rank(in) != 3) throw bad_input("data of rank {}, expected [T,N,I]", g.rank(in));
  std::int64_t width = g.dims(in)[2];
  if (width < 1) throw bad_input("data whose features are not known");
  const bool lstm = gates == 4;
  const auto state_of = [&](std::size_t i, std::int64_t layer) {
    if (i >= in_.size() || in_[i] == kAbsent) return kAbsent;
    if (layers == 1) return in_[i];
    return g.op("slice", n_->name + ".first", {in_[i]},
                {{"starts", Ints{layer * d}}, {"ends", Ints{(layer + 1) * d}}, {"axes", Ints{0}}});
  };
  const bool length_given = flag("use_sequence_length", false);
  const ValueId lengths = length_given ? g.op("cast", n_->name + ".lengths", {x(lstm ? 4 : 3)},
                                              {{"to", std::string("i64")}})
                                       : kAbsent;
  const auto count = static_cast<std::size_t>(layers);
  std::vector<std::vector<Tensor>> w(count), r(count), b(count);
  std::int64_t at = 0;
  for (std::size_t l = 0; l < w.size(); ++l)
    for (std::int64_t k = 0; k < d; ++k) {
      w[l].push_back(part(*all, at, {gates * h, l == 0 ? width : d * h}));
      r[l].push_back(part(*all, at, {gates * h, h}));
    }
  for (std::vector<Tensor>& layer : b)
    for (std::int64_t k = 0; k < d; ++k) layer.push_back(part(*all, at, {2 * gates * h}));
  if (at != all->numel())
    throw bad_input("{} parameters, {} layers of {} units take {}", all->numel(), layers, h, at);
  Fields f{{"hidden_size", h}, {"direction", std::string(d == 2 ? "bidirectional" : "forward")}};
  if (lstm) f.emplace_back("gates", std::string("ifco"));
  if (gates == 3) {
    f.emplace_back("gates", std::string("rzh"));
    f.emplace_back("linear_before_reset", true);
  }
  if (mode == "rnn_relu")
    f.emplace_back("activations", std::vector<std::string>(static_cast<std::size_t>(d), "Relu"));
  g.note(lstm ? "RNN of mode lstm: gates i, f, g, o, a bias for the input and one for the state"
         : gates == 3 ? "RNN of mode gru: gates r, z, n; the reset comes behind the product"
                      : "RNN: a bias for the input and one for the state");
  std::vector<std::vector<ValueId>> states(lstm ? 2 : 1);
  for (std::int64_t l = 0; l < layers; ++l) {
    const std::string name = fmt::format("{}.l{}", n_->name, l);
    const auto layer = static_cast<std::size_t>(l);
    std::vector<ValueId> inputs{
        in,
        g.constant(name + ".w", joined(w[layer], {d, gates * h, l == 0 ? width : d * h})),
        g.constant(name + ".r", joined(r[layer], {d, gates * h, h})),
        g.constant(name + ".b", joined(b[layer], {d, 2 * gates * h})),
        lengths,
        state_of(2, l)};
    if (lstm) inputs.push_back(state_of(3, l));
    const std::string op_name = lstm ? "lstm" : gates == 3 ? "gru" : "rnn";
    const auto y = g.nodes(op_name, name, inputs, make_params(get_op(op_name), f), lstm ? 3 : 2);
    in = g.reshape(name + ".y", g.transpose(name + ".steps", y[0], {0, 2, 1, 3}), {0, 0, d * h});
    for (std::size_t s = 0; s < states.size(); ++s) states[s].push_back(y[s + 1]);
  }
  std::vector<ValueId> out{in};
  if (flag("state_outputs", false))
    for (std::size_t s = 0; s < states.size(); ++s)
      out.push_back(states[s].size() == 1 ? states[s][0]
                                          : g.op("concat", fmt::format("{}.state{}", n_->name, s),
                                                 states[s], {{"axis", std::int64_t{0}}}));
  return out;
}

}  // namespace etalon::mxnet
