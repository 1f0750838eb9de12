// LSTM, GRU, RNN. ONNX's rows of gates stand in the sequence iofc (LSTM) and zrh (GRU); the biases
// of W come before those of R; the peepholes stand as iof.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

Fields cell(OnnxNode& n, std::string_view gates) {
  const std::string direction = n.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    throw bad_input("direction is '{}', expected forward, reverse or bidirectional",
                    printable(direction));
  n.ignore("output_sequence");  // opset 1: whether Y is wanted, which its name says too
  Fields f{{"hidden_size", n.integer("hidden_size", 0)},
           {"direction", direction},
           {"gates", std::string(gates)},
           {"activations", n.texts("activations")},
           {"activation_alpha", n.numbers("activation_alpha")},
           {"activation_beta", n.numbers("activation_beta")},
           {"clip", n.number("clip", 0.0F)}};
  if (n.opset() >= 14) f.emplace_back("batch_first", n.flag("layout", false));
  if (gates.size() > 1)
    n.note(fmt::format("{}: gates in the sequence {}, as ONNX stores them", n.type(), gates));
  return f;
}

constexpr TranslatorRow kRows[] = {
    {"RNN", [](OnnxNode& n) { n.emit("rnn", cell(n, "h")); }},
    {"GRU",
     [](OnnxNode& n) {
       Fields f = cell(n, "zrh");
       f.emplace_back("linear_before_reset",
                      n.opset() >= 3 && n.flag("linear_before_reset", false));
       n.emit("gru", f);
     }},
    {"LSTM",
     [](OnnxNode& n) {
       Fields f = cell(n, "iofc");
       f.emplace_back("input_forget", n.flag("input_forget", false));
       n.emit("lstm", f);
     }},
};

}  // namespace

std::span<const TranslatorRow> recurrent_family() { return kRows; }

}  // namespace etalon::onnx_format
