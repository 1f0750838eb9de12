// torch.lstm, gru, rnn_tanh, rnn_relu: several layers in one or both directions, weights as a flat
// list (for each layer and direction w_ih, w_hh and the biases of both), states that begin at zero.
// Gives y, h_n and for lstm c_n.
#include <algorithm>
#include <cstring>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"

namespace etalon::pytorch_format {
namespace {

constexpr std::array<std::string_view, 14> kArguments{
    "input",   "hx",    "params",        "has_biases",  "num_layers",
    "dropout", "train", "bidirectional", "batch_first",
};
constexpr AtenSignature kSignatures[] = {
    {"lstm", kArguments}, {"gru", kArguments}, {"rnn_tanh", kArguments}, {"rnn_relu", kArguments}};

// Constants of one type, one behind the other, under a new shape.
ValueId joined(GraphBuilder& b, const std::string& name, const std::vector<ValueId>& parts,
               const Shape& shape) {
  Tensor out = Tensor::uninitialized(DType::f32, shape);
  auto to = out.mutable_bytes();
  std::size_t at = 0;
  for (const ValueId p : parts) {
    const Tensor* t = b.constant_of(p);
    if (t == nullptr || t->dtype() != DType::f32)
      throw AtenUnknown{"a recurrent layer whose weights are not f32 constants"};
    if (t->size_bytes() > to.size() - at)
      throw bad_input("{}: weights do not fit {}", name, to_string(out.type()));
    std::memcpy(to.data() + at, t->bytes().data(), t->size_bytes());
    at += t->size_bytes();
  }
  if (at != to.size()) throw bad_input("{}: weights do not fit {}", name, to_string(out.type()));
  return b.constant(name, std::move(out));
}

bool is_zero(GraphBuilder& b, const AtenValue* v) {
  if (v == nullptr || v->kind == AtenValue::Kind::zeros) return true;
  if (v->kind == AtenValue::Kind::tensor) {
    const Tensor* t = b.constant_of(v->tensor);
    return t != nullptr &&
           std::ranges::all_of(t->bytes(), [](std::byte byte) { return byte == std::byte{0}; });
  }
  return v->kind == AtenValue::Kind::list &&
         std::ranges::all_of(v->items, [&](const AtenValue& i) { return is_zero(b, &i); });
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (!is_zero(b, c.find("hx"))) throw AtenUnknown{op + " whose first state is not zero"};
  const float dropout = c.number("dropout", 0);
  if (c.flag("train", false) && dropout != 0) throw AtenUnknown{op + " with dropout in training"};
  const std::vector<ValueId> params = c.tensors("params");
  const bool biases = c.flag("has_biases", true), batch_first = c.flag("batch_first", false);
  const std::int64_t layers = c.integer("num_layers", 1);
  const std::int64_t directions = c.flag("bidirectional", false) ? 2 : 1;
  const std::int64_t gates = op == "lstm" ? 4 : op == "gru" ? 3 : 1;
  const std::size_t each = biases ? 4 : 2;
  if (layers < 1 || layers > 1 << 10 ||
      params.size() != each * static_cast<std::size_t>(layers * directions))
    throw AtenUnknown{op + " with another number of weights (a projection)"};
  ValueId x = c.tensor("input");
  if (x == kAbsent || b.rank(x) != 3) throw AtenUnknown{op + " of an input without a batch"};
  Fields fields{{"direction", std::string(directions == 2 ? "bidirectional" : "forward")},
                {"batch_first", batch_first}};
  if (op == "lstm") fields.emplace_back("gates", std::string("ifco"));
  if (op == "gru") {
    fields.emplace_back("gates", std::string("rzh"));
    fields.emplace_back("linear_before_reset", true);
  }
  if (op == "rnn_relu")
    fields.emplace_back("activations",
                        std::vector<std::string>(static_cast<std::size_t>(directions), "Relu"));
  b.note(op == "lstm" ? "LSTM gates stand in the order i, f, g, o, with a bias for input and state."
         : op == "gru" ? "GRU gates stand in the order r, z, n; the reset comes after the product."
                       : "RNN weights have a bias for input and state.");
  const std::string ours = op.starts_with("rnn") ? "rnn" : op;
  std::vector<std::vector<ValueId>> states(op == "lstm" ? 2 : 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::array<std::vector<ValueId>, 4> parts;
    for (std::int64_t d = 0; d < directions; ++d)
      for (std::size_t k = 0; k < each; ++k)
        parts[k].push_back(params[static_cast<std::size_t>(layer * directions + d) * each + k]);
    const Shape &w = b.shape(parts[0][0]), &r = b.shape(parts[1][0]);
    if (w.rank() != 2 || r.rank() != 2 || r[0] != checked_mul(gates, r[1]) || w[0] != r[0])
      throw bad_input("{}: weights {} and {} are not those of {} gates", name,
                      to_string(b.type(parts[0][0])), to_string(b.type(parts[1][0])), gates);
    const std::string base = fmt::format("{}.l{}", name, layer);
    std::vector<ValueId> in{x, joined(b, base + ".w", parts[0], {directions, w[0], w[1]}),
                            joined(b, base + ".r", parts[1], {directions, r[0], r[1]})};
    if (biases) {
      std::vector<ValueId> both;
      for (std::size_t d = 0; d < static_cast<std::size_t>(directions); ++d) {
        both.push_back(parts[2][d]);
        both.push_back(parts[3][d]);
      }
      in.push_back(joined(b, base + ".b", both, {directions, 2 * r[0]}));
    }
    const auto y = b.nodes(ours, base, in, make_params(get_op(ours), fields), op == "lstm" ? 3 : 2);
    // y: [B, T, D, H], or [T, D, B, H]; its last axes are the features of the next layer.
    ValueId features = y[0];
    if (!batch_first) features = b.transpose(base + ".steps", features, {0, 2, 1, 3});
    x = b.reshape(base + ".y", features, {0, 0, directions * r[1]});
    for (std::size_t s = 0; s < states.size(); ++s)
      states[s].push_back(batch_first
                              ? b.transpose(fmt::format("{}.state{}", base, s), y[s + 1], {1, 0, 2})
                              : y[s + 1]);
  }
  std::vector<ValueId> out{x};
  for (std::size_t s = 0; s < states.size(); ++s)
    out.push_back(states[s].size() == 1 ? states[s][0]
                                        : b.op("concat", fmt::format("{}.state{}", name, s),
                                               states[s], {{"axis", std::int64_t{0}}}));
  return out;
}

}  // namespace

AtenFamily recurrent_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
