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

void recurrent(NodeWriter& w, std::string_view type, std::string_view gates) {
  const std::string& own = w.text("gates");
  std::vector<std::string> in = w.inputs();
  in.resize(8);
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
  pb::NodeProto& n = w.write(type, in, w.outputs());
  set(n, "hidden_size", hidden);
  set(n, "direction", w.text("direction"));
  if (type == "LSTM" && w.number("cell_clip") > 0)
    throw usage_error("lstm with cell_clip: ONNX's LSTM does not clip its cell");
  if (w.number("clip") > 0) set(n, "clip", w.number("clip"));
  if (w.flag("batch_first")) set(n, "layout", std::int64_t{1});
  name_activations(w, n);
  if (type == "GRU") set(n, "linear_before_reset", std::int64_t{w.flag("linear_before_reset")});
  if (type == "LSTM") set(n, "input_forget", std::int64_t{w.flag("input_forget")});
}

constexpr WriterRow kRows[] = {
    {"rnn", [](NodeWriter& w) { recurrent(w, "RNN", "h"); }},
    {"gru", [](NodeWriter& w) { recurrent(w, "GRU", "zrh"); }},
    {"lstm", [](NodeWriter& w) { recurrent(w, "LSTM", "iofc"); }},
};

}  // namespace

std::span<const WriterRow> recurrent_writers() { return kRows; }

}  // namespace etalon::onnx_format
