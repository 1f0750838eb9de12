// Recurrent ops. Rows of gates that stand in another sequence than ONNX's are moved: constants
// here, by a slice and concat of the graph otherwise.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

// Input i with its blocks along axis 1 moved from the sequence `from` to `to`; `sets` times the
// blocks (the biases hold two sets).
std::string reordered(NodeWriter& w, std::size_t i, std::string_view from, std::string_view to,
                      int sets) {
  std::string name = w.input(i);
  if (name.empty() || from == to) return name;
  std::vector<std::string> blocks;
  const auto gates = static_cast<std::int64_t>(from.size()) * sets;
  std::vector<std::string> pieces;
  for (std::int64_t g = 0; g < gates; ++g) pieces.push_back(w.new_name("gate"));
  pb::NodeProto& cut = w.write("Split", {name}, pieces);
  set(cut, "axis", std::int64_t{1});
  set(cut, "num_outputs", gates);
  for (int s = 0; s < sets; ++s)
    for (const char gate : to) {
      const std::size_t at = from.find(gate);
      if (at == std::string_view::npos) throw usage_error("gates '{}' lack '{}'", from, gate);
      blocks.push_back(pieces[static_cast<std::size_t>(s) * from.size() + at]);
    }
  return w.step("Concat", blocks, "axis", 1);
}

// Names as ONNX writes them. `identity` is its Affine by 1 and 0, where no other one takes numbers.
void name_activations(NodeWriter& w, pb::NodeProto& n) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"affine", "Affine"},
      {"elu", "Elu"},
      {"hardsigmoid", "HardSigmoid"},
      {"leakyrelu", "LeakyRelu"},
      {"relu", "Relu"},
      {"scaledtanh", "ScaledTanh"},
      {"sigmoid", "Sigmoid"},
      {"softplus", "Softplus"},
      {"softsign", "Softsign"},
      {"tanh", "Tanh"},
      {"thresholdedrelu", "ThresholdedRelu"},
      {"identity", "Affine"}};
  std::vector<std::string> names = w.param<std::vector<std::string>>("activations");
  std::vector<float> alpha = w.param<std::vector<float>>("activation_alpha"),
                     beta = w.param<std::vector<float>>("activation_beta");
  const auto identities = static_cast<std::size_t>(std::ranges::count(names, "identity"));
  if (identities != 0) {
    if (!alpha.empty() || !beta.empty())
      throw usage_error(
          "a recurrent cell's identity beside functions with numbers has no form in ONNX");
    alpha.assign(identities, 1);
    beta.assign(identities, 0);
  }
  for (std::string& name : names)
    for (const auto& [ours, theirs] : kNames)
      if (name == ours) {
        name = theirs;
        break;
      }
  if (!names.empty()) set(n, "activations", names);
  if (!alpha.empty()) set(n, "activation_alpha", alpha);
  if (!beta.empty()) set(n, "activation_beta", beta);
}

std::string turned(NodeWriter& w, const std::string& x, const Ints& perm) {
  if (x.empty()) return x;
  std::string y = w.new_name("turned");
  set(w.write("Transpose", {x}, {y}), "perm", perm);
  return y;
}

// ONNX Runtime has no batch-first layers: what goes in and comes out is turned. `write` is given
// the names of both.
template <class Write>
void batch_second(NodeWriter& w, const Write& write) {
  std::vector<std::string> in = w.inputs(), out = w.outputs();
  in.resize(8);
  if (!w.flag("batch_first")) return write(in, out);
  for (const std::size_t i : {0U, 5U, 6U}) in[i] = turned(w, in[i], {1, 0, 2});
  std::vector<std::string> made;
  for (const std::string& name : out) made.push_back(name.empty() ? "" : w.new_name("made"));
  write(in, made);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!out[i].empty())
      set(w.write("Transpose", {made[i]}, {out[i]}), "perm",
          i == 0 ? Ints{2, 0, 1, 3} : Ints{1, 0, 2});
}

void recurrent(NodeWriter& w, std::string_view type, std::string_view gates,
               std::vector<std::string> in, const std::vector<std::string>& out) {
  const std::string& own = w.text("gates");
  in[1] = reordered(w, 1, own, gates, 1);
  in[2] = reordered(w, 2, own, gates, 1);
  in[3] = reordered(w, 3, own, gates, 2);
  if (!in[7].empty()) {
    std::string p(own);
    std::erase(p, 'c');
    in[7] = reordered(w, 7, p, "iof", 1);
  }
  // The split pieces above are written before the node itself.
  std::int64_t hidden = w.integer("hidden_size");
  if (hidden == 0) {
    const auto r = w.shape(2);
    if (!r) throw usage_error("hidden_size is neither given nor to be told from r");
    hidden = r->dim(-1);
  }
  pb::NodeProto& n = w.write(type, in, out);
  set(n, "hidden_size", hidden);
  set(n, "direction", w.text("direction"));
  if (w.number("clip") > 0) set(n, "clip", w.number("clip"));
  name_activations(w, n);
  if (type == "GRU") set(n, "linear_before_reset", std::int64_t{w.flag("linear_before_reset")});
  if (type == "LSTM") set(n, "input_forget", std::int64_t{w.flag("input_forget")});
}

// ONNX's LSTM does not clip its cell: such a layer is a Scan over its steps, for each direction.
class ClippedLstm {
 public:
  ClippedLstm(NodeWriter& w, const std::vector<std::string>& in) : w_(w), in_(in) {
    const auto& functions = w.param<std::vector<std::string>>("activations");
    const std::vector<std::string> plain{"sigmoid", "tanh", "tanh"};
    for (std::size_t i = 0; i < functions.size(); ++i)
      if (functions[i] != plain[i % 3])
        throw usage_error("lstm with cell_clip and the function {} has no form in ONNX",
                          functions[i]);
    if (!in_[4].empty())
      throw usage_error("lstm with cell_clip and lengths of its sequences has no form in ONNX");
  }

  // y [T,B,H], h and c [B,H] of one direction.
  std::vector<std::string> direction(std::int64_t d, bool reverse) {
    const std::string at = w_.constant("direction", Tensor::of<std::int64_t>({}, {d}));
    const auto of = [&](std::size_t i) {
      return in_[i].empty() ? "" : w_.step("Gather", {in_[i], at}, "axis", 0);
    };
    weights_ = w_.step("Transpose", {of(1)});
    recurrent_ = w_.step("Transpose", {of(2)});
    bias_ = peephole_ = "";
    if (!in_[3].empty())
      bias_ = w_.step("ReduceSum",
                      {w_.step("Reshape", {of(3), w_.constant("two", Ints{2, -1})}),
                       w_.constant("sets", Ints{0})},
                      "keepdims", 0);
    if (!in_[7].empty()) peephole_ = of(7);
    std::vector<std::string> in, out;
    for (const std::size_t i : {5U, 6U}) in.push_back(in_[i].empty() ? zeros() : of(i));
    in.push_back(in_[0]);
    for (int i = 0; i < 3; ++i) out.push_back(w_.new_name("direction"));
    pb::NodeProto& n = w_.write("Scan", in, out);
    set(n, "num_scan_inputs", std::int64_t{1});
    set(n, "scan_input_directions", Ints{reverse ? 1 : 0});
    set(n, "scan_output_directions", Ints{reverse ? 1 : 0});
    NodeWriter body = w_.inside(n, "body");
    step(body);
    return {out[2], out[0], out[1]};
  }

 private:
  std::string zeros() {
    const std::string batch = w_.new_name("batch");
    pb::NodeProto& n = w_.write("Shape", {in_[0]}, {batch});
    set(n, "start", std::int64_t{1});
    set(n, "end", std::int64_t{2});
    const std::string units = w_.constant("units", Ints{w_.extents(2).at(2)});
    return w_.step("Expand",
                   {w_.number_constant("zero", 0), w_.step("Concat", {batch, units}, "axis", 0)});
  }

  void step(NodeWriter& b) {
    const DType dtype = w_.dtype();
    const std::string h = w_.new_name("h"), c = w_.new_name("c"), x = w_.new_name("x");
    for (const std::string& name : {h, c, x}) b.take(name, dtype);
    const auto clipped = [&](const std::string& v, float by) {
      if (!(by > 0)) return v;
      return b.step("Clip", {v, b.number_constant("low", -by), b.number_constant("high", by)});
    };
    const auto split = [&](const std::string& v, std::size_t parts) {
      std::vector<std::string> out;
      for (std::size_t i = 0; i < parts; ++i) out.push_back(w_.new_name("gate"));
      pb::NodeProto& n = b.write("Split", {v}, out);
      set(n, "axis", std::int64_t{-1});
      set(n, "num_outputs", static_cast<std::int64_t>(parts));
      return out;
    };
    std::string sum =
        b.step("Add", {b.step("MatMul", {x, weights_}), b.step("MatMul", {h, recurrent_})});
    if (!bias_.empty()) sum = b.step("Add", {sum, bias_});
    const std::vector<std::string> arguments = split(sum, 4);
    std::string gates = w_.text("gates"), seen = gates;
    std::erase(seen, 'c');
    const auto peepholes = peephole_.empty() ? std::vector<std::string>() : split(peephole_, 3);
    const auto argument = [&](char gate, const std::string& cell) {
      std::string v = arguments.at(gates.find(gate));
      if (!peepholes.empty() && gate != 'c')
        v = b.step("Add", {v, b.step("Mul", {peepholes.at(seen.find(gate)), cell})});
      return clipped(v, w_.number("clip"));
    };
    const auto sigmoid = [&](char gate, const std::string& cell) {
      return b.step("Sigmoid", {argument(gate, cell)});
    };
    const std::string i = sigmoid('i', c);
    const std::string f =
        w_.flag("input_forget") ? b.step("Sub", {b.number_constant("one", 1), i}) : sigmoid('f', c);
    const std::string update = b.step("Tanh", {argument('c', c)});
    const std::string cell = clipped(
        b.step("Add", {b.step("Mul", {f, c}), b.step("Mul", {i, update})}), w_.number("cell_clip"));
    const std::string y = b.step("Mul", {sigmoid('o', cell), b.step("Tanh", {cell})});
    b.yield(y, dtype);
    b.yield(cell, dtype);
    const std::string again = b.step("Identity", {y});
    b.yield(again, dtype);
  }

  NodeWriter& w_;
  const std::vector<std::string>& in_;
  std::string weights_, recurrent_, bias_, peephole_;
};

void clipped_lstm(NodeWriter& w, const std::vector<std::string>& in,
                  const std::vector<std::string>& out) {
  ClippedLstm lstm(w, in);
  const std::string& direction = w.text("direction");
  const int directions = direction == "bidirectional" ? 2 : 1;
  std::vector<std::string> all[3];
  for (int d = 0; d < directions; ++d) {
    const auto made = lstm.direction(d, d == 1 || direction == "reverse");
    for (std::size_t i = 0; i < 3; ++i)
      all[i].push_back(w.step("Unsqueeze", {made[i], w.constant("axis", Ints{i == 0 ? 1 : 0})}));
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!out[i].empty())
      set(w.write("Concat", all[i], {out[i]}), "axis", std::int64_t{i == 0 ? 1 : 0});
}

void lstm(NodeWriter& w) {
  batch_second(w, [&](const auto& in, const auto& out) {
    if (w.number("cell_clip") > 0)
      clipped_lstm(w, in, out);
    else
      recurrent(w, "LSTM", "iofc", in, out);
  });
}

template <bool Gru>
void of_one_state(NodeWriter& w) {
  batch_second(w, [&](const auto& in, const auto& out) {
    recurrent(w, Gru ? "GRU" : "RNN", Gru ? "zrh" : "h", in, out);
  });
}

constexpr WriterRow kRows[] = {
    {"rnn", of_one_state<false>},
    {"gru", of_one_state<true>},
    {"lstm", lstm},
};

}  // namespace

std::span<const WriterRow> recurrent_writers() { return kRows; }

}  // namespace etalon::onnx_format
