// DynamicQuantizeLSTM: an LSTM whose products read 8-bit codes, made anew for all of x once and for
// the hidden state of all rows at each step, as ONNX Runtime's kernel does where it does not split
// the batch over threads.
//
//   s = x_t W * (sx sw) + h R * (sh sr) + (bW + bR);  i, o, f = sigmoid(s_i, s_o, s_f);
//   c' = f c + i tanh(s_c);  h' = o tanh(c')
#include "engine/core/error.h"
#include "importers/formats/onnx/integers.h"

namespace etalon::onnx_format {
namespace {

// What a product reads of one direction: [in, 4 hidden] as i32 differences, and its scales.
struct Weights {
  ValueId differences, scale;
};

Weights weights_of(Body& b, std::size_t w, std::size_t scale, std::int64_t direction) {
  OnnxNode& n = b.n;
  const auto mine = [&](std::size_t i) {
    return b.squeeze(b.part(n.required(i), 0, direction, direction + 1), {0});
  };
  const ValueId zero = b.cast(mine(scale + 1), DType::i32);
  return {b.sub(b.cast(mine(w), DType::i32), zero), mine(scale)};
}

// x W in f32 by 8-bit codes of x.
ValueId product(Body& b, ValueId x, ValueId differences, ValueId scale) {
  const DynamicCodes codes = dynamic_codes(b, x);
  const ValueId left =
      b.sub(b.cast(b.op("quantize_linear", {x, codes.scale, codes.zero}), DType::i32),
            b.cast(codes.zero, DType::i32));
  const ValueId sum = b.op("matmul", {left, differences});
  return b.mul(b.cast(sum, DType::f32), b.mul(codes.scale, scale));
}

struct Sequence {
  ValueId y, h, c;  // [steps, batch, hidden]; [batch, hidden]
};

ValueId reversed(Body& b, ValueId x) {
  return b.op("slice", {x, b.ints({-1}), b.ints({std::numeric_limits<std::int64_t>::min()}),
                        b.ints({0}), b.ints({-1})});
}

Sequence run(Body& b, std::int64_t direction, bool backwards, std::int64_t hidden) {
  OnnxNode& n = b.n;
  const ValueId x = backwards ? reversed(b, n.required(0)) : n.required(0);
  const Weights w = weights_of(b, 1, 8, direction), r = weights_of(b, 2, 10, direction);
  const ValueId input = product(b, x, w.differences, w.scale);
  ValueId bias = b.number(0.0F);
  if (n.has(3)) {
    const ValueId both = b.part(n.input(3), 0, direction, direction + 1);
    bias = b.squeeze(b.add(b.part(both, 1, 0, 4 * hidden), b.part(both, 1, 4 * hidden, 8 * hidden)),
                     {0});
  }
  const auto initial = [&](std::size_t i) {
    if (n.has(i)) return b.squeeze(b.part(n.input(i), 0, direction, direction + 1), {0});
    return b.op("constant_of_shape", {b.concat({b.extents(x, 1, 2), b.ints({hidden})}, 0)});
  };
  const auto step = n.make_graph(
      fmt::format("step{}", direction), {DType::f32, DType::f32, DType::f32},
      {DType::f32, DType::f32, DType::f32}, [&](OnnxNode& inner, const auto& in) {
        Body s(inner);
        const ValueId sums = s.add(
            s.add(in[2], product(s, in[0], inner.around(r.differences), inner.around(r.scale))),
            inner.around(bias));
        const auto gate = [&](std::int64_t g, std::string_view function) {
          return s.op(function, {s.part(sums, 1, g * hidden, (g + 1) * hidden)});
        };
        const ValueId i = gate(0, "sigmoid"), o = gate(1, "sigmoid"), f = gate(2, "sigmoid");
        const ValueId cell = s.add(s.mul(in[1], f), s.mul(i, gate(3, "tanh")));
        const ValueId h = s.mul(o, s.op("tanh", {cell}));
        return OnnxNode::Values{h, cell, s.op("identity", {h})};
      });
  const auto out = n.step_control("scan", {{"scan_inputs", std::int64_t{1}}},
                                  {initial(5), initial(6), input}, {step}, 3);
  return {backwards ? reversed(b, out[2]) : out[2], out[0], out[1]};
}

void dynamic_quantize_lstm(OnnxNode& n) {
  Body b(n);
  const std::string direction = n.text("direction", "forward");
  const bool both = direction == "bidirectional";
  if (!both && direction != "forward" && direction != "reverse")
    throw bad_input("direction is '{}', expected forward, reverse or bidirectional",
                    printable(direction));
  const std::int64_t hidden = n.integer("hidden_size", 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (hidden < 1 || hidden > kMost) throw bad_input("hidden_size is {}", hidden);
  if (n.has(4) || n.has(7))
    throw bad_input("{}; quantise the model without, or read it before quantize_dynamic",
                    n.has(4) ? "it has sequence_lens" : "it has peepholes");
  const std::vector<std::string> functions = n.texts("activations");
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (functions[i] != (i % 3 == 0 ? "Sigmoid" : "Tanh"))
      throw bad_input("activation {} is '{}'; Sigmoid, Tanh, Tanh are defined here", i,
                      printable(functions[i]));
  n.ignore("activation_alpha");
  n.ignore("activation_beta");
  if (n.number("clip", 0.0F) != 0 || n.flag("input_forget", false))
    throw bad_input("clip or input_forget; read the model before quantize_dynamic");
  std::vector<Sequence> runs;
  for (std::int64_t d = 0; d < (both ? 2 : 1); ++d)
    runs.push_back(run(b, d, both ? d == 1 : direction == "reverse", hidden));
  const auto joined = [&](std::size_t i, std::int64_t axis, auto member) {
    if (!n.wants(i)) return;
    std::vector<ValueId> parts;
    for (const Sequence& s : runs) parts.push_back(b.unsqueeze(s.*member, {axis}));
    n.give(i, b.concat(parts, axis));
  };
  joined(0, 1, &Sequence::y);
  joined(1, 0, &Sequence::h);
  joined(2, 0, &Sequence::c);
  n.note(
      "DynamicQuantizeLSTM is imported as a scan; the codes of the hidden state have one scale for "
      "all rows of the batch (ONNX Runtime may make them for the rows of each thread)");
}

constexpr TranslatorRow kRows[] = {
    {"com.microsoft.DynamicQuantizeLSTM", dynamic_quantize_lstm},
};

}  // namespace

std::span<const TranslatorRow> quantised_lstm_family() { return kRows; }

}  // namespace etalon::onnx_format
