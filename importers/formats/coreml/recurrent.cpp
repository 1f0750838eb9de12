// Recurrent layers of Core ML's neural network: simpleRecurrent, gru, uniDirectionalLSTM,
// biDirectionalLSTM.
//
// A sequence lies along the first axis: [S,B,C,1,1] or [S,B,C]; with the old mapping of shapes the
// axis that was put before is the sequence, of one batch: [S,C] or [S,C,1,1]. States are [1,B,H] in
// the same forms. Each gate is matrices and a bias of its own; arguments of the gates' and the
// block's functions are held in [-50, 50]. A layer that reads backwards gives its outputs in the
// order in which it makes them (as Keras' go_backwards does); of two directions, both stand in the
// order of the input, the forward one's channels first.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/ops/op.h"
#include "importers/formats/coreml/clipped.h"
#include "importers/formats/coreml/layers.h"

namespace etalon::coreml {
namespace {

constexpr std::int64_t kManySteps = 4096;
constexpr float kClip = 50;  // of arguments; also of an LSTM's cell where the file says nothing

struct Functions {
  std::vector<std::string> names;
  std::vector<float> alpha, beta;

  void add(const PbMessage& a) {
    for (const auto& [field, name] :
         {std::pair{"sigmoid", "sigmoid"}, {"tanh", "tanh"}, {"ReLU", "relu"}})
      if (a.has(field)) return names.emplace_back(name), void();
    // Without numbers each is the one form that the layers know.
    struct Row {
      const char *field, *name;
      float alpha, beta;
    };
    for (const Row& row :
         {Row{"linear", "affine", 1, 0}, Row{"sigmoidHard", "hardsigmoid", 0.2F, 0.5F},
          Row{"scaledTanh", "scaledtanh", 1, 1}}) {
      if (!a.has(row.field)) continue;
      const PbMessage p = a.message(row.field);
      const bool given = p.number("alpha") != 0 || p.number("beta") != 0;
      const float x = given ? p.number("alpha") : row.alpha,
                  y = given ? p.number("beta") : row.beta;
      if (a.has("linear") && x == 1 && y == 0) return names.emplace_back("identity"), void();
      names.emplace_back(row.name);
      alpha.push_back(x);
      beta.push_back(y);
      return;
    }
    throw bad_input("a recurrent layer's function of another kind is not supported");
  }
  void write(Fields& f) const {
    f.emplace_back("activations", names);
    if (alpha.empty()) return;
    f.emplace_back("activation_alpha", alpha);
    f.emplace_back("activation_beta", beta);
  }
};

bool below_one(const std::string& function) {
  return function == "sigmoid" || function == "hardsigmoid" || function == "tanh";
}

class Cell {
 public:
  Cell(const NetworkLayer& n, const PbMessage& p)
      : n_(n), inputs_(p.integer("inputVectorSize")), hidden_(p.integer("outputVectorSize")) {
    if (n.inputs.empty()) throw bad_input("a recurrent layer without an input");
    if (inputs_ < 1 || hidden_ < 1)
      throw bad_input("a recurrent layer of {} inputs and {} outputs", inputs_, hidden_);
    rank_ = n.g.rank(n.inputs[0]);
    if (rank_ < 2 || rank_ > 5)
      throw bad_input("a sequence of rank {}, expected [S,B,C,1,1]", rank_);
  }
  std::int64_t hidden() const { return hidden_; }

  // The sequence, or a state, as [S,B,C].
  ValueId plain(ValueId v, std::int64_t channels) const {
    if (n_.g.rank(v) != rank_)
      throw bad_input("a state of rank {} beside a sequence of rank {}", n_.g.rank(v), rank_);
    const bool with_batch = rank_ == 3 || rank_ == 5;
    return n_.g.reshape(n_.name + ".sequence", v,
                        with_batch ? Ints{0, 0, channels} : Ints{0, 1, channels});
  }
  // [S,B,C] in the form that the input had.
  ValueId shaped(ValueId v) const {
    if (rank_ == 2 || rank_ == 4)
      v = n_.g.op("squeeze", n_.name + ".one_batch", {v}, {{"axes", Ints{1}}});
    if (rank_ < 4) return v;
    return n_.g.op("unsqueeze", n_.name + ".shape", {v},
                   {{"axes", rank_ == 4 ? Ints{2, 3} : Ints{3, 4}}});
  }
  ValueId sequence() const { return plain(n_.inputs[0], inputs_); }
  ValueId state(std::size_t input) const {
    if (input >= n_.inputs.size()) return kAbsent;
    // coremltools writes some as [B,H,1,1,1].
    const Ints dims = n_.g.dims(n_.inputs[input]);
    if (rank_ == 5 && dims.size() == 5 && dims[1] == hidden_ && dims[2] == 1)
      return n_.g.reshape(n_.name + ".state", n_.inputs[input], {1, -1, hidden_});
    return plain(n_.inputs[input], hidden_);
  }

  // Blocks of weights one below the other.
  class Stack {
   public:
    Stack(const Cell& cell, std::int64_t columns) : cell_(cell), columns_(columns) {}
    void add(const PbMessage& holder, const char* field) {
      const std::int64_t h = cell_.hidden_;
      const ValueId v = cell_.n_.weights(holder.message(field), field,
                                         columns_ == 0 ? Shape{h} : Shape{h, columns_});
      const auto data = cell_.n_.g.constant_of(v)->data<float>();
      all_.insert(all_.end(), data.begin(), data.end());
    }
    void fill(float value) {
      all_.resize(all_.size() + static_cast<std::size_t>(cell_.hidden_), value);
    }
    ValueId constant(const char* role, std::int64_t directions) const {
      const auto count = static_cast<std::int64_t>(all_.size()) / directions;
      Tensor t = Tensor::uninitialized(
          DType::f32,
          columns_ == 0 ? Shape{directions, count} : Shape{directions, count / columns_, columns_});
      std::ranges::copy(all_, t.mutable_data<float>().begin());
      return cell_.n_.g.constant(cell_.n_.name + "." + role, std::move(t));
    }

   private:
    const Cell& cell_;
    std::int64_t columns_;  // 0: vectors
    std::vector<float> all_;
  };
  Stack matrices() const { return {*this, inputs_}; }
  Stack recursions() const { return {*this, hidden_}; }
  Stack vectors() const { return {*this, 0}; }

  // Outputs in the order of the input, the last ones, then the states.
  std::vector<ValueId> run(const char* op, const std::vector<ValueId>& in, Fields f, bool sequence,
                           bool backwards, std::int64_t directions) const {
    f.emplace_back("clip", kClip);
    f.emplace_back("direction", std::string(directions == 2 ? "bidirectional"
                                            : backwards     ? "reverse"
                                                            : "forward"));
    const bool lstm = std::string_view(op) == "lstm";
    return outputs(n_.g.nodes(op, n_.name, in, make_params(get_op(op), f), lstm ? 3 : 2), sequence,
                   backwards, directions);
  }
  std::vector<ValueId> outputs(const std::vector<ValueId>& y, bool sequence, bool backwards,
                               std::int64_t directions) const {
    n_.g.note("recurrent layers: arguments of the gates' functions are held in [-50, 50]");
    std::vector<ValueId> out;
    // y is [S,D,B,H], the states [D,B,H].
    ValueId v =
        sequence ? y[0] : n_.g.op("unsqueeze", n_.name + ".last", {y[1]}, {{"axes", Ints{0}}});
    v = n_.g.transpose(n_.name + ".order", v, {0, 2, 1, 3});
    v = n_.g.reshape(n_.name + ".channels", v, {0, 0, directions * hidden_});
    if (sequence && backwards) {
      v = n_.g.op("slice", n_.name + ".backwards", {v},
                  {{"starts", Ints{-1}},
                   {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                   {"axes", Ints{0}},
                   {"steps", Ints{-1}}});
      n_.g.note("a recurrent layer that reads backwards gives its outputs as it makes them");
    }
    out.push_back(shaped(v));
    for (std::int64_t d = 0; d < directions; ++d)
      for (std::size_t s = 1; s < y.size(); ++s)
        out.push_back(
            shaped(n_.g.op("slice", n_.name + ".state", {y[s]},
                           {{"starts", Ints{d}}, {"ends", Ints{d + 1}}, {"axes", Ints{0}}})));
    return out;
  }

 private:
  const NetworkLayer& n_;
  std::int64_t inputs_, hidden_;
  int rank_;
};

std::vector<ValueId> simple(const NetworkLayer& n, const PbMessage& p) {
  const Cell cell(n, p);
  auto w = cell.matrices(), r = cell.recursions(), b = cell.vectors();
  w.add(p, "weightMatrix");
  r.add(p, "recursionMatrix");
  ValueId bias = kAbsent;
  if (p.flag("hasBiasVector")) {
    b.add(p, "biasVector");
    b.fill(0);
    bias = b.constant("b", 1);
  }
  Functions functions;
  functions.add(p.message("activation"));
  Fields f;
  functions.write(f);
  return cell.run(
      "rnn",
      {cell.sequence(), w.constant("w", 1), r.constant("r", 1), bias, kAbsent, cell.state(1)}, f,
      p.flag("sequenceOutput"), p.flag("reverseInput"), 1);
}

std::vector<ValueId> gru(const NetworkLayer& n, const PbMessage& p) {
  const Cell cell(n, p);
  auto w = cell.matrices(), r = cell.recursions(), b = cell.vectors();
  for (const char* field :
       {"updateGateWeightMatrix", "resetGateWeightMatrix", "outputGateWeightMatrix"})
    w.add(p, field);
  for (const char* field :
       {"updateGateRecursionMatrix", "resetGateRecursionMatrix", "outputGateRecursionMatrix"})
    r.add(p, field);
  ValueId bias = kAbsent;
  if (p.flag("hasBiasVectors")) {
    for (const char* field :
         {"updateGateBiasVector", "resetGateBiasVector", "outputGateBiasVector"})
      b.add(p, field);
    for (int gate = 0; gate < 3; ++gate) b.fill(0);
    bias = b.constant("b", 1);
  }
  Functions functions;
  const auto given = p.messages("activations");
  if (given.size() != 2) throw bad_input("{} functions of a GRU, expected 2", given.size());
  for (const PbMessage& a : given) functions.add(a);
  Fields f{{"gates", std::string("zrh")}, {"linear_before_reset", false}};
  functions.write(f);
  n.g.note("GRU: update, reset, output gate; reset before the recurrent product");
  return cell.run(
      "gru",
      {cell.sequence(), w.constant("w", 1), r.constant("r", 1), bias, kAbsent, cell.state(1)}, f,
      p.flag("sequenceOutput"), p.flag("reverseInput"), 1);
}

// Where the file holds the cell.
float cell_limit(const PbMessage& params) {
  const float limit = params.number("cellClipThreshold");
  return limit == 0 ? kClip : limit;
}

// Whether the cell may come as far as the file holds it, which the op does not. A step adds at most
// |i * g|, where neither gate is above 1.
bool may_clip_cell(const NetworkLayer& n, float limit, const Functions& functions) {
  if (!(limit > 0)) throw bad_input("an LSTM with a cell that is held at {}", limit);
  const std::int64_t steps = n.g.dims(n.inputs[0])[0];
  for (std::size_t at = 0; at + 2 < functions.names.size(); at += 3) {
    const std::string &gate = functions.names[at], &block = functions.names[at + 1],
                      &output = functions.names[at + 2];
    // The op holds the output's argument with the others: that must change nothing.
    if (limit > kClip && output != "tanh" && output != "scaledtanh" && output != "hardsigmoid")
      return true;
    const float most = below_one(block) ? 1 : kClip;
    const auto reached = static_cast<std::int64_t>(std::min(limit / most, 1e9F));
    if (!below_one(gate) || steps > reached) return true;
    // Of a free extent the file's own is asked for where the limit is near (import.cpp).
    if (steps < 0 && reached < kManySteps)
      throw bad_input("an LSTM over a free extent that may clip its cell (at {})", limit);
    if (steps < 0 || n.inputs.size() > 2)
      n.g.note(
          fmt::format("LSTM: the file clips the cell at {}, which {} steps from a state of zero "
                      "do not reach; it is not clipped here",
                      limit, reached));
  }
  return false;
}

std::vector<ValueId> lstm(const NetworkLayer& n, const PbMessage& p, bool both) {
  const Cell cell(n, p);
  const PbMessage params = p.message("params");
  const auto weights = p.messages("weightParams");
  const std::size_t directions = both ? 2 : 1;
  if (weights.size() != directions)
    throw bad_input("{} sets of weights, expected {}", weights.size(), directions);
  const bool coupled = params.flag("coupledInputAndForgetGate");
  auto w = cell.matrices(), r = cell.recursions(), b = cell.vectors(), peep = cell.vectors();
  for (const PbMessage& m : weights) {
    // The forget gate of a coupled cell is 1 - i: its own block is not read.
    for (const char* gate : {"input", coupled ? "input" : "forget"}) {
      w.add(m, fmt::format("{}GateWeightMatrix", gate).c_str());
      r.add(m, fmt::format("{}GateRecursionMatrix", gate).c_str());
      if (params.flag("hasBiasVectors"))
        b.add(m, fmt::format("{}GateBiasVector", gate).c_str());
      else
        b.fill(0);
      if (params.flag("hasPeepholeVectors"))
        peep.add(m, fmt::format("{}GatePeepholeVector", gate).c_str());
    }
    w.add(m, "blockInputWeightMatrix");
    w.add(m, "outputGateWeightMatrix");
    r.add(m, "blockInputRecursionMatrix");
    r.add(m, "outputGateRecursionMatrix");
    for (const char* field : {"blockInputBiasVector", "outputGateBiasVector"})
      if (params.flag("hasBiasVectors"))
        b.add(m, field);
      else
        b.fill(0);
    // The recurrent biases: nothing but the forget gate's ones.
    for (int gate = 0; gate < 4; ++gate) b.fill(gate == 1 && params.flag("forgetBias") ? 1 : 0);
    if (params.flag("hasPeepholeVectors")) peep.add(m, "outputGatePeepholeVector");
  }
  if (params.flag("forgetBias")) n.g.note("LSTM: 1 is added to the forget gate's bias");
  Functions functions;
  for (const char* field : both ? std::vector{"activationsForwardLSTM", "activationsBackwardLSTM"}
                                : std::vector{"activations"}) {
    const auto given = p.messages(field);
    if (given.size() != 3) throw bad_input("{} functions of an LSTM, expected 3", given.size());
    for (const PbMessage& a : given) functions.add(a);
  }
  const float limit = cell_limit(params);
  const bool clips = may_clip_cell(n, limit, functions);
  const auto d = static_cast<std::int64_t>(directions);
  const auto state = [&](std::size_t first) {
    const ValueId there = cell.state(first), back = both ? cell.state(first + 2) : kAbsent;
    if (there == kAbsent || !both) return there;
    if (back == kAbsent) throw bad_input("a state for one of two directions");
    return n.g.op("concat", n.name + ".states", {there, back}, {{"axis", std::int64_t{0}}});
  };
  std::vector<ValueId> in{cell.sequence(),
                          w.constant("w", d),
                          r.constant("r", d),
                          b.constant("b", d),
                          kAbsent,
                          state(1),
                          state(2)};
  if (params.flag("hasPeepholeVectors")) in.push_back(peep.constant("p", d));
  const bool backwards = !both && p.flag("reverseInput");
  if (clips) {
    n.g.note(fmt::format("LSTM: its cell is held in [-{0}, {0}], as a scan", limit));
    return cell.outputs(clipped_lstm(n.g, n.name, in,
                                     {.hidden = cell.hidden(),
                                      .directions = d,
                                      .backwards = backwards,
                                      .coupled = coupled,
                                      .held = kClip,
                                      .limit = limit,
                                      .functions = functions.names,
                                      .alpha = functions.alpha,
                                      .beta = functions.beta}),
                        params.flag("sequenceOutput"), backwards, d);
  }
  Fields f{{"gates", std::string("ifco")}, {"input_forget", coupled}};
  functions.write(f);
  return cell.run("lstm", in, f, params.flag("sequenceOutput"), backwards, d);
}

}  // namespace

std::vector<ValueId> translate_recurrent(const NetworkLayer& n) {
  const PbMessage& l = n.message;
  if (l.has("simpleRecurrent")) return simple(n, l.message("simpleRecurrent"));
  if (l.has("gru")) return gru(n, l.message("gru"));
  if (l.has("uniDirectionalLSTM")) return lstm(n, l.message("uniDirectionalLSTM"), false);
  if (l.has("biDirectionalLSTM")) return lstm(n, l.message("biDirectionalLSTM"), true);
  return {};
}

bool is_recurrent(const PbMessage& layer) {
  return layer.has("simpleRecurrent") || layer.has("gru") || layer.has("uniDirectionalLSTM") ||
         layer.has("biDirectionalLSTM");
}

}  // namespace etalon::coreml
