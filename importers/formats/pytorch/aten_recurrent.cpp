// torch.lstm, gru, rnn_tanh, rnn_relu: several layers in one or both directions, weights as a flat
// list (for each layer and direction w_ih, w_hh, the biases of both, and w_hr where the output is
// projected), of a whole sequence or of a packed one. Gives y, h_n and for lstm c_n. And one step
// of each (lstm_cell and kin), whose steps are nodes of their own.
#include <algorithm>
#include <cstring>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr std::array<std::string_view, 14> kArguments{
    "input",   "hx",    "params",        "has_biases",  "num_layers",
    "dropout", "train", "bidirectional", "batch_first",
};
constexpr std::array<std::string_view, 14> kCell{"input", "hx", "w_ih", "w_hh", "b_ih", "b_hh"};
constexpr AtenSignature kSignatures[] = {
    {"lstm", kArguments}, {"gru", kArguments}, {"rnn_tanh", kArguments}, {"rnn_relu", kArguments},
    {"lstm_cell", kCell}, {"gru_cell", kCell}, {"rnn_tanh_cell", kCell}, {"rnn_relu_cell", kCell},
};

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
  if (v == nullptr || v->kind == Kind::zeros) return true;
  if (v->kind == Kind::tensor) {
    const Tensor* t = b.constant_of(v->tensor);
    return t != nullptr &&
           std::ranges::all_of(t->bytes(), [](std::byte byte) { return byte == std::byte{0}; });
  }
  return v->kind == Kind::list &&
         std::ranges::all_of(v->items, [&](const AtenValue& i) { return is_zero(b, &i); });
}

// The states h and c before the first step, [layers * directions, B, H]; empty where they are zero.
std::vector<ValueId> first_states(GraphBuilder& b, const std::string& op, const AtenCall& c,
                                  std::size_t count) {
  const AtenValue* hx = c.find("hx");
  if (is_zero(b, hx)) return {};
  std::vector<AtenValue> given{*hx};
  if (hx->kind == Kind::list) given = hx->items;
  std::vector<ValueId> out;
  for (const AtenValue& v : given) {
    if (v.kind != Kind::tensor) throw AtenUnknown{op + " with a first state of another kind"};
    out.push_back(v.tensor);
  }
  if (out.size() != count) throw bad_input("{} with {} first states", op, out.size());
  return out;
}

Fields cell_fields(const std::string& op, std::int64_t directions, bool batch_first) {
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
  return fields;
}

void note_gates(GraphBuilder& b, const std::string& op) {
  b.note(op == "lstm" ? "LSTM gates stand in the order i, f, g, o, with a bias for input and state."
         : op == "gru" ? "GRU gates stand in the order r, z, n; the reset comes after the product."
                       : "RNN weights have a bias for input and state.");
}

// One step of an LSTM, a GRU or an RNN, gate by gate.
AtenOutputs stepped(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const std::vector<ValueId>& states, const AtenCall& c) {
  const auto sums = [&](const char* role, ValueId v, const char* w, const char* bias) {
    AtenCall call;
    call.args["input"] = AtenValue::of(v);
    call.args["weight"] = AtenValue::of(c.tensor(w));
    if (c.tensor(bias) != kAbsent) call.args["bias"] = AtenValue::of(c.tensor(bias));
    if (c.tensor(w) == kAbsent) throw AtenUnknown{op + " without weights"};
    return translate_inner(b, "linear", name + role, call).at(0);
  };
  const ValueId of_x = sums(".input", x, "w_ih", "b_ih"),
                of_h = sums(".state", states[0], "w_hh", "b_hh");
  const auto calc = [&](const char* what, const std::vector<ValueId>& in) {
    return b.op(what, name + "." + what, in);
  };
  const auto gates = [&](ValueId v, std::size_t count) {
    return b.nodes(
        "split", name + ".gates", {v},
        make_params(get_op("split"), {{"axis", std::int64_t{-1}},
                                      {"num_outputs", static_cast<std::int64_t>(count)}}),
        count);
  };
  b.note("a single step of a recurrent cell is written gate by gate, each step rounds.");
  if (op == "lstm") {
    const auto g = gates(calc("add", {of_x, of_h}), 4);
    const ValueId cell =
        calc("add", {calc("mul", {calc("sigmoid", {g[1]}), states[1]}),
                     calc("mul", {calc("sigmoid", {g[0]}), calc("tanh", {g[2]})})});
    return {calc("mul", {calc("sigmoid", {g[3]}), calc("tanh", {cell})}), cell};
  }
  if (op == "gru") {
    const auto p = gates(of_x, 3), q = gates(of_h, 3);
    const ValueId r = calc("sigmoid", {calc("add", {p[0], q[0]})}),
                  z = calc("sigmoid", {calc("add", {p[1], q[1]})}),
                  n = calc("tanh", {calc("add", {p[2], calc("mul", {r, q[2]})})});
    return {calc("add", {calc("mul", {calc("sub", {states[0], n}), z}), n})};
  }
  const ValueId sum = calc("add", {of_x, of_h});
  return {calc(op == "rnn_relu" ? "relu" : "tanh", {sum})};
}

AtenOutputs cell(GraphBuilder& b, const std::string& op, const std::string& name,
                 const AtenCall& c) {
  const ValueId x = c.tensor("input");
  if (x == kAbsent) throw AtenUnknown{op + "_cell of what is no tensor"};
  std::vector<ValueId> states = first_states(b, op, c, op == "lstm" ? 2 : 1);
  if (states.empty()) {
    const ValueId w = c.tensor("w_hh");
    if (w == kAbsent || b.rank(w) != 2 || b.rank(x) < 1 || b.rank(x) > 2)
      throw AtenUnknown{op + "_cell without weights"};
    // Zeros of [B, H]: as many rows as x has, times zero.
    const std::int64_t h = b.shape(w)[1];
    const ValueId zero = b.constant(name + ".zero", Tensor::zeros(b.dtype(x), {h}));
    Ints dims = b.dims(x);
    dims.back() = h;
    if (std::ranges::any_of(dims, [](std::int64_t n) { return n < 0; }))
      throw AtenUnknown{op + "_cell with states of a free extent"};
    states.assign(op == "lstm" ? 2 : 1, b.op("expand", name + ".zeros", {zero}, {{"shape", dims}}));
  }
  return stepped(b, op, name, x, states, c);
}

// The layers of torch.lstm and kin.
class Layers {
 public:
  Layers(GraphBuilder& b, const std::string& op, const std::string& name, const AtenCall& c)
      : b_(b),
        op_(op),
        name_(name),
        params_(c.tensors("params")),
        biases_(c.flag("has_biases", true)),
        batch_first_(c.flag("batch_first", false)),
        layers_(c.integer("num_layers", 1)),
        directions_(c.flag("bidirectional", false) ? 2 : 1) {
    const float dropout = c.number("dropout", 0);
    if (c.flag("train", false) && dropout != 0) throw AtenUnknown{op + " with dropout in training"};
    each_ = biases_ ? 4 : 2;
    if (layers_ < 1 || layers_ > 1 << 10) throw bad_input("{} layers", layers_);
    const auto all = static_cast<std::size_t>(layers_ * directions_);
    projected_ = op == "lstm" && params_.size() == (each_ + 1) * all;
    if (projected_) ++each_;
    if (params_.size() != each_ * all)
      throw bad_input("{} of {} layers has {} weights, expected {}", op, layers_, params_.size(),
                      each_ * all);
    first_ = first_states(b, op, c, op == "lstm" ? 2 : 1);
    note_gates(b, op);
  }

  AtenOutputs run(ValueId x) {
    if (x == kAbsent || (b_.rank(x) != 3 && b_.rank(x) != 2))
      throw AtenUnknown{op_ + " of an input of another rank"};
    // [T, I] is a sequence without a batch.
    const bool single = b_.rank(x) == 2;
    const std::int64_t batch_axis = batch_first_ ? 0 : 1;
    if (single) {
      x = b_.op("unsqueeze", name_ + ".batch", {x}, {{"axes", Ints{batch_axis}}});
      for (ValueId& v : first_) v = b_.op("unsqueeze", name_ + ".state", {v}, {{"axes", Ints{1}}});
    }
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      x = projected_ ? projected(x, layer) : plain(x, layer);
    AtenOutputs out{
        single ? b_.op("squeeze", name_ + ".sequence", {x}, {{"axes", Ints{batch_axis}}}) : x};
    for (std::size_t s = 0; s < states_.size(); ++s) {
      ValueId all = states_[s].size() == 1 ? states_[s][0]
                                           : b_.op("concat", fmt::format("{}.state{}", name_, s),
                                                   states_[s], {{"axis", std::int64_t{0}}});
      if (single) all = b_.op("squeeze", name_ + ".last", {all}, {{"axes", Ints{1}}});
      out.push_back(all);
    }
    return out;
  }

 private:
  ValueId weight(std::int64_t layer, std::int64_t direction, std::size_t k) const {
    return params_[static_cast<std::size_t>(layer * directions_ + direction) * each_ + k];
  }
  // [directions, B, H] of a layer, as the ops want them.
  ValueId first_of(std::size_t s, std::int64_t layer, std::int64_t from, std::int64_t count,
                   bool batch_first) {
    ValueId v = b_.op("slice", name_ + ".first", {first_[s]},
                      {{"starts", Ints{layer * directions_ + from}},
                       {"ends", Ints{layer * directions_ + from + count}},
                       {"axes", Ints{0}}});
    if (batch_first) v = b_.transpose(name_ + ".rows", v, {1, 0, 2});
    return v;
  }

  ValueId plain(ValueId x, std::int64_t layer) {
    std::array<std::vector<ValueId>, 4> parts;
    for (std::int64_t d = 0; d < directions_; ++d)
      for (std::size_t k = 0; k < each_; ++k) parts[k].push_back(weight(layer, d, k));
    const std::int64_t gates = op_ == "lstm" ? 4 : op_ == "gru" ? 3 : 1;
    const Shape &w = b_.shape(parts[0][0]), &r = b_.shape(parts[1][0]);
    if (w.rank() != 2 || r.rank() != 2 || r[0] != checked_mul(gates, r[1]) || w[0] != r[0])
      throw bad_input("{}: weights {} and {} are not those of {} gates", name_,
                      to_string(b_.type(parts[0][0])), to_string(b_.type(parts[1][0])), gates);
    const std::string base = fmt::format("{}.l{}", name_, layer);
    std::vector<ValueId> in{x, joined(b_, base + ".w", parts[0], {directions_, w[0], w[1]}),
                            joined(b_, base + ".r", parts[1], {directions_, r[0], r[1]})};
    if (biases_) {
      std::vector<ValueId> both;
      for (std::size_t d = 0; d < static_cast<std::size_t>(directions_); ++d) {
        both.push_back(parts[2][d]);
        both.push_back(parts[3][d]);
      }
      in.push_back(joined(b_, base + ".b", both, {directions_, 2 * r[0]}));
    }
    if (!first_.empty()) {
      in.resize(5, kAbsent);
      for (std::size_t s = 0; s < first_.size(); ++s)
        in.push_back(first_of(s, layer, 0, directions_, batch_first_));
    }
    const std::string ours = op_.starts_with("rnn") ? "rnn" : op_;
    const auto y = b_.nodes(ours, base, in,
                            make_params(get_op(ours), cell_fields(op_, directions_, batch_first_)),
                            op_ == "lstm" ? 3 : 2);
    // y: [B, T, D, H], or [T, D, B, H]; its last axes are the features of the next layer.
    ValueId features = y[0];
    if (!batch_first_) features = b_.transpose(base + ".steps", features, {0, 2, 1, 3});
    states_.resize(op_ == "lstm" ? 2 : 1);
    for (std::size_t s = 0; s < states_.size(); ++s)
      states_[s].push_back(
          batch_first_ ? b_.transpose(fmt::format("{}.state{}", base, s), y[s + 1], {1, 0, 2})
                       : y[s + 1]);
    return b_.reshape(base + ".y", features, {0, 0, directions_ * r[1]});
  }

  // An LSTM whose output is projected: step by step, for what it gives enters the next.
  ValueId projected(ValueId x, std::int64_t layer) {
    const int steps_axis = batch_first_ ? 1 : 0;
    const std::int64_t steps = extent_of(b_, x, steps_axis);
    constexpr std::int64_t kSteps = 1 << 12;
    if (steps < 1 || steps > kSteps)
      throw AtenUnknown{"an LSTM with a projection of more than 4096 steps"};
    states_.resize(2);
    std::vector<ValueId> both;
    for (std::int64_t d = 0; d < directions_; ++d) {
      const std::string base = fmt::format("{}.l{}d{}", name_, layer, d);
      const ValueId out = weight(layer, d, each_ - 1), r = weight(layer, d, 1);
      if (b_.rank(r) != 2 || b_.rank(out) != 2) throw bad_input("{}: weights of no matrix", base);
      AtenCall c;
      constexpr const char* kNames[] = {"w_ih", "w_hh", "b_ih", "b_hh"};
      for (std::size_t k = 0; k + 1 < each_; ++k)
        c.args[kNames[k]] = AtenValue::of(weight(layer, d, k));
      const ValueId turned = b_.transpose(base + ".projection", out, {1, 0});
      std::vector<ValueId> state;
      for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
        if (!first_.empty()) {
          state.push_back(b_.op("squeeze", base + ".first", {first_of(s, layer, d, 1, false)},
                                {{"axes", Ints{0}}}));
          continue;
        }
        const std::int64_t n = b_.dims(x)[batch_first_ ? 0 : 1];
        if (n < 0) throw AtenUnknown{"an LSTM with a projection over a free batch"};
        const ValueId zero = b_.constant(base + ".zero", scalar_of(b_.dtype(x), 0));
        state.push_back(b_.op("expand", base + ".zeros", {zero},
                              {{"shape", Ints{n, b_.shape(out)[s == 0 ? 0 : 1]}}}));
      }
      std::vector<ValueId> y(static_cast<std::size_t>(steps));
      for (std::int64_t i = 0; i < steps; ++i) {
        const std::int64_t t = d == 0 ? i : steps - 1 - i;
        const ValueId at = b_.op("gather", base + ".step",
                                 {x, b_.constant(base + ".t", Tensor::of<std::int64_t>({}, {t}))},
                                 {{"axis", std::int64_t{steps_axis}}});
        state = stepped(b_, "lstm", base, at, state, c);
        state[0] = b_.op("matmul", base + ".projected", {state[0], turned});
        y[static_cast<std::size_t>(t)] =
            b_.op("unsqueeze", base + ".y", {state[0]}, {{"axes", Ints{steps_axis}}});
      }
      both.push_back(y.size() == 1 ? y[0]
                                   : b_.op("concat", base + ".sequence", y,
                                           {{"axis", std::int64_t{steps_axis}}}));
      for (const std::size_t s : {std::size_t{0}, std::size_t{1}})
        states_[s].push_back(b_.op("unsqueeze", base + ".last", {state[s]}, {{"axes", Ints{0}}}));
    }
    return both.size() == 1 ? both[0]
                            : b_.op("concat", name_ + ".both", both, {{"axis", std::int64_t{2}}});
  }

  GraphBuilder& b_;
  std::string op_, name_;
  std::vector<ValueId> params_, first_;
  bool biases_, batch_first_, projected_ = false;
  std::int64_t layers_, directions_;
  std::size_t each_ = 4;
  std::vector<std::vector<ValueId>> states_;
};

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op.ends_with("_cell")) return cell(b, op.substr(0, op.size() - 5), name, c);
  return Layers(b, op, name, c).run(c.tensor("input"));
}

}  // namespace

AtenFamily recurrent_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
