// Hybrid operators: integer weights under floating activations, which TensorFlow Lite makes
// integers at run time (engine/ops/tflite_hybrid.h). Weights of i8 without a zero point have such
// kernels; other integer weights are read as the real numbers that they stand for.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/tflite/quantised.h"

namespace etalon::tflite {
namespace {

bool given(const Quantised& q, std::size_t i) {
  return i < q.op.inputs.size() && q.op.inputs[i] >= 0;
}

bool is_weight(const Quantised& q, std::size_t i) {
  if (!given(q, i)) return false;
  const TensorInfo& t = q.input(i);
  return t.dtype == DType::i8 && t.quantisation.given() && t.value &&
         std::ranges::all_of(t.quantisation.zeros, [](std::int64_t z) { return z == 0; });
}

ValueId input_or_absent(const Quantised& q, std::size_t i) {
  return given(q, i) ? q.in[i] : kAbsent;
}

ValueId node(const Quantised& q, std::string_view op, std::vector<ValueId> inputs,
             const Fields& fields) {
  while (inputs.back() == kAbsent) inputs.pop_back();
  return q.g.op(op, q.name, inputs, fields);
}

ValueId inner_products(const Quantised& q) {
  const FlatTable& o = q.op.options;
  if (o.get<std::int8_t>(1, 0) != 0)
    throw bad_input("FULLY_CONNECTED with weights in a shuffled layout is not supported");
  ValueId x = q.in[0];
  if (o.get<std::uint8_t>(2, 0) == 0 && (!q.g.known(x) || q.g.rank(x) != 2))
    x = q.g.op("reshape", q.name + "/flat", {x}, {{"shape", Ints{-1, q.g.shape(q.in[1]).dim(-1)}}});
  return node(q, "tflite_hybrid_fully_connected", {x, q.in[1], input_or_absent(q, 2)},
              {{"w_scales", q.input(1).quantisation.scales},
               {"asymmetric", o.get<std::uint8_t>(3, 0) != 0}});
}

// Per channel (and in groups) the image is made integers about a zero of its own; scales that are
// all alike count as one.
ValueId convolution(const Quantised& q, bool depthwise) {
  const FlatTable& o = q.op.options;
  if (q.g.rank(q.in[1]) != 4) throw bad_input("weights of rank {}", q.g.rank(q.in[1]));
  const ValueId x = q.g.channels_first(q.in[0]);
  const ValueId w =
      q.g.transpose(q.name + "/weight", q.in[1], depthwise ? Ints{3, 0, 1, 2} : Ints{0, 3, 1, 2});
  const std::int64_t groups = q.g.shape(x)[1] / std::max<std::int64_t>(1, q.g.shape(w)[1]);
  std::vector<float> scales = q.input(1).quantisation.scales;
  const bool alike =
      std::ranges::all_of(scales, [&](float scale) { return scale == scales.front(); });
  const bool per_channel = depthwise || groups != 1 || !alike;
  if (!per_channel) scales.resize(1);
  if (per_channel && scales.size() == 1 && q.g.shape(w)[0] != 1)
    q.g.note(
        "a hybrid convolution in groups with one scale: TensorFlow Lite's kernel reads as many as "
        "there are channels, which is undefined; the one is taken for all");
  const int dilation = depthwise ? 5 : 4;
  return q.g.channels_last(node(
      q, "tflite_hybrid_conv", {x, w, input_or_absent(q, 2)},
      {{"strides", Ints{o.get<std::int32_t>(2, 1), o.get<std::int32_t>(1, 1)}},
       {"dilations", Ints{o.get<std::int32_t>(dilation + 1, 1), o.get<std::int32_t>(dilation, 1)}},
       {"auto_pad", std::string(o.get<std::int8_t>(0, 0) == 0 ? "same_upper" : "valid")},
       {"groups", groups},
       {"w_scales", scales},
       {"asymmetric", per_channel},
       {"in_turn", per_channel && !depthwise}}));
}

ValueId turned(const Quantised& q, std::size_t i, const char* role) {
  const int rank = q.g.rank(q.in[i]);
  if (rank < 2) throw bad_input("BATCH_MATMUL of rank {}", rank);
  Ints order;
  for (int a = 0; a < rank; ++a) order.push_back(a);
  std::swap(order[static_cast<std::size_t>(rank) - 2], order[static_cast<std::size_t>(rank) - 1]);
  return q.g.transpose(q.name + role, q.in[i], order);
}

ValueId batches(const Quantised& q) {
  const FlatTable& o = q.op.options;
  const ValueId a = o.get<std::uint8_t>(0, 0) != 0 ? turned(q, 0, "/a") : q.in[0],
                b = o.get<std::uint8_t>(1, 0) != 0 ? turned(q, 1, "/b") : q.in[1];
  return node(q, "tflite_hybrid_batch_matmul", {a, b},
              {{"w_scales", q.input(1).quantisation.scales},
               {"asymmetric", o.get<std::uint8_t>(2, 0) != 0}});
}

// Where x is [B,T,I] or one step [B,I], as the ops want it: [T,B,I]; and y back again.
struct Sequence {
  bool step, time_major;
  ValueId in(const Quantised& q) const {
    if (step) return q.g.op("unsqueeze", q.name + "/time", {q.in[0]}, {{"axes", Ints{0}}});
    return time_major ? q.in[0] : q.g.transpose(q.name + "/time", q.in[0], {1, 0, 2});
  }
  ValueId out(const Quantised& q, ValueId y) const {
    if (step) return q.g.op("squeeze", q.name + "/step", {y}, {{"axes", Ints{0}}});
    return time_major ? y : q.g.transpose(q.name + "/batch", y, {1, 0, 2});
  }
};

std::string function(int activation) {
  if (activation == 0) return "identity";
  if (activation == 1) return "relu";
  if (activation == 4) return "tanh";
  throw bad_input("the cell's activation {} is not supported", activation);
}

void say_state(const Quantised& q) {
  q.g.note("a recurrent layer's state is zero when a run starts");
  q.g.note(
      "a hybrid recurrent layer takes the correctly rounded sigmoid and tanh; TensorFlow Lite's "
      "are "
      "Eigen's, whose bits hang on the processor");
}

ValueId rnn(const Quantised& q) {
  const FlatTable& o = q.op.options;
  const bool step = operator_name(q.op.code) == "RNN";
  const Sequence sequence{step, !step && o.get<std::uint8_t>(0, 0) != 0};
  say_state(q);
  return sequence.out(q,
                      node(q, "tflite_hybrid_rnn",
                           {sequence.in(q), q.in[1], input_or_absent(q, 2), input_or_absent(q, 3)},
                           {{"w_scale", q.input(1).quantisation.scale()},
                            {"r_scale", q.input(2).quantisation.scale()},
                            {"activation", function(o.get<std::int8_t>(step ? 0 : 1, 0))},
                            {"asymmetric", o.get<std::uint8_t>(step ? 1 : 2, 0) != 0}}));
}

ValueId lstm(const Quantised& q) {
  const FlatTable& o = q.op.options;
  const std::string_view type = operator_name(q.op.code);
  const bool step = type == "LSTM";
  if (step && o.get<std::int8_t>(3, 0) != 0)
    throw bad_input("LSTM of the basic kind (one matrix for all) is not supported");
  if (!step && o.get<std::uint8_t>(5, 0) != 0)
    throw bad_input("{} with diagonal matrices is not supported", type);
  for (std::size_t i = 20; i < 24; ++i)
    if (given(q, i)) throw bad_input("a hybrid {} with layer normalisation is not supported", type);
  const bool coupled = !given(q, 1);
  const Sequence sequence{step, !step && o.get<std::uint8_t>(3, 0) != 0};
  say_state(q);
  q.g.note("LSTM gates stand in the order i, f, c, o.");
  return sequence.out(
      q, node(q, "tflite_hybrid_lstm",
              {sequence.in(q), stacked(q, "w", {1, 2, 3, 4}, DType::i8),
               stacked(q, "r", {5, 6, 7, 8}, DType::i8),
               stacked(q, "bias", {12, 13, 14, 15}, DType::f32),
               stacked(q, "peephole", {9, 10, 11}, DType::i8), input_or_absent(q, 16),
               input_or_absent(q, 17)},
              {{"w_scales", scales(q, {1, 2, 3, 4})},
               {"r_scales", scales(q, {5, 6, 7, 8})},
               {"peephole_scales", scales(q, {9, 10, 11})},
               {"projection_scale", given(q, 16) ? q.input(16).quantisation.scale() : 1.0F},
               {"cell_clip", o.get<float>(1, 0)},
               {"projection_clip", o.get<float>(2, 0)},
               {"activation", function(o.get<std::int8_t>(0, 0))},
               {"coupled", coupled},
               {"asymmetric", o.get<std::uint8_t>(4, 0) != 0}}));
}

}  // namespace

std::optional<ValueId> hybrid(const Quantised& q) {
  if (!given(q, 0) || q.input(0).dtype != DType::f32 || q.op.inputs.size() < 2) return std::nullopt;
  const std::string_view type = operator_name(q.op.code);
  if (type == "LSTM" || type == "UNIDIRECTIONAL_SEQUENCE_LSTM") {
    // Without an input gate the forget gate's weights are the first.
    if (!is_weight(q, 2) || !is_weight(q, 6)) return std::nullopt;
    return lstm(q);
  }
  if (!is_weight(q, 1)) return std::nullopt;
  if (type == "FULLY_CONNECTED") return inner_products(q);
  if (type == "CONV_2D" || type == "DEPTHWISE_CONV_2D") return convolution(q, type != "CONV_2D");
  if (type == "BATCH_MATMUL") return batches(q);
  if ((type == "RNN" || type == "UNIDIRECTIONAL_SEQUENCE_RNN") && is_weight(q, 2)) return rnn(q);
  return std::nullopt;
}

}  // namespace etalon::tflite
