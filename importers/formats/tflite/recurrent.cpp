// UNIDIRECTIONAL_SEQUENCE_LSTM and UNIDIRECTIONAL_SEQUENCE_RNN.
//
// An LSTM's gates are separate matrices in the order i, f, c, o, each [H, I] and [H, H]. Without an
// input gate it is 1 - f. States are tensors that the interpreter keeps between runs; a run here
// starts them at zero, as a fresh interpreter does.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/op.h"
#include "importers/formats/tflite/operators.h"

namespace etalon::tflite {
namespace {

const Tensor& weight(const Operator& o, std::size_t i) {
  const ValueId v = i < o.n.inputs.size() ? o.n.inputs[i] : kAbsent;
  const Tensor* t = v == kAbsent ? nullptr : o.g.constant_of(v);
  if (t == nullptr || t->dtype() != DType::f32)
    throw bad_input("{} whose input {} is no constant of floats is not supported",
                    operator_name(o.op.code), i);
  return *t;
}

bool given(const Operator& o, std::size_t i) {
  return i < o.n.inputs.size() && o.n.inputs[i] != kAbsent;
}

// Parts one below the other, as [1, rows, columns] or [1, elements]; `negated` turns the signs
// round.
struct Part {
  std::size_t input;
  bool negated = false;
};
ValueId stacked(const Operator& o, const char* role, const std::vector<Part>& parts, int rank,
                std::size_t zeros = 0) {
  std::vector<float> all;
  std::int64_t columns = -1;
  for (const Part& p : parts) {
    const Tensor& t = weight(o, p.input);
    if (t.shape().rank() != rank || (columns >= 0 && t.shape().dim(-1) != columns))
      throw bad_input("input {} is {}", p.input, to_string(t.type()));
    columns = t.shape().dim(-1);
    for (const float v : t.data<float>()) all.push_back(p.negated ? -v : v);
  }
  all.resize(all.size() + zeros);
  const auto count = static_cast<std::int64_t>(all.size());
  if (columns < 1) throw bad_input("input {} is empty", parts[0].input);
  Tensor out = Tensor::uninitialized(
      DType::f32, rank == 2 ? Shape{1, count / columns, columns} : Shape{1, count});
  std::ranges::copy(all, out.mutable_data<float>().begin());
  return o.g.constant(o.n.name + "/" + role, std::move(out));
}

std::string function(int activation) {
  switch (activation) {
    case 0:
      return "identity";
    case 1:
      return "relu";
    case 4:
      return "tanh";
    default:
      throw bad_input("the cell's activation {} is not supported", activation);
  }
}

// y of the node, [T,1,B,H] or [B,T,1,H], without the axis of directions.
ValueId sequence(const Operator& o, std::string_view op, const std::vector<ValueId>& inputs,
                 Fields fields, bool time_major) {
  fields.emplace_back("batch_first", !time_major);
  o.g.note("a recurrent layer's state is zero when a run starts");
  const auto y =
      o.g.nodes(op, o.n.name + "/" + std::string(op), inputs, make_params(get_op(op), fields), 1);
  return o.g.op("squeeze", o.n.name, {y[0]}, {{"axes", Ints{time_major ? 1 : 2}}});
}

ValueId lstm(const Operator& o) {
  const FlatTable& f = o.op.options;
  if (f.get<float>(1, 0) != 0 || f.get<float>(2, 0) != 0)
    throw bad_input("UNIDIRECTIONAL_SEQUENCE_LSTM that clips its cell is not supported");
  if (f.get<std::uint8_t>(5, 0) != 0)
    throw bad_input("UNIDIRECTIONAL_SEQUENCE_LSTM with diagonal matrices is not supported");
  for (const std::size_t i : {16U, 17U, 20U, 21U, 22U, 23U})
    if (given(o, i))
      throw bad_input("UNIDIRECTIONAL_SEQUENCE_LSTM with a {} is not supported",
                      i < 18 ? "projection" : "layer normalisation");
  const bool coupled = !given(o, 1);
  // The input gate's part is the forget gate's turned round: sigmoid(-s) = 1 - sigmoid(s).
  const auto gates = [&](std::size_t first) {
    return std::vector<Part>{
        coupled ? Part{first + 1, true} : Part{first}, {first + 1}, {first + 2}, {first + 3}};
  };
  if (coupled)
    o.g.note(
        "an LSTM without an input gate takes 1 - f: the forget gate's weights with their signs "
        "turned");
  const auto hidden = static_cast<std::size_t>(weight(o, 6).shape().dim(0));
  std::vector<ValueId> inputs{o.n.in(0), stacked(o, "w", gates(1), 2), stacked(o, "r", gates(5), 2),
                              stacked(o, "b", gates(12), 1, 4 * hidden)};
  if (given(o, 10)) {
    inputs.insert(inputs.end(), 3, kAbsent);
    inputs.push_back(stacked(o, "p", {coupled ? Part{10, true} : Part{9}, {10}, {11}}, 1));
  }
  const std::string act = function(f.get<std::int8_t>(0, 0));
  o.g.note("LSTM gates stand in the order i, f, c, o.");
  return sequence(o, "lstm", inputs,
                  {{"gates", std::string("ifco")},
                   {"activations", std::vector<std::string>{"sigmoid", act, act}}},
                  f.get<std::uint8_t>(3, 0) != 0);
}

ValueId rnn(const Operator& o) {
  const FlatTable& f = o.op.options;
  const auto hidden = static_cast<std::size_t>(weight(o, 2).shape().dim(0));
  return sequence(o, "rnn",
                  {o.n.in(0), stacked(o, "w", {{1}}, 2), stacked(o, "r", {{2}}, 2),
                   stacked(o, "b", {{3}}, 1, hidden)},
                  {{"activations", std::vector<std::string>{function(f.get<std::int8_t>(1, 0))}}},
                  f.get<std::uint8_t>(0, 0) != 0);
}

}  // namespace

bool is_recurrent(std::string_view type) {
  return type == "UNIDIRECTIONAL_SEQUENCE_LSTM" || type == "UNIDIRECTIONAL_SEQUENCE_RNN";
}

std::optional<ValueId> translate_recurrent(const Operator& o) {
  const std::string_view type = operator_name(o.op.code);
  if (type == "UNIDIRECTIONAL_SEQUENCE_LSTM") return lstm(o);
  if (type == "UNIDIRECTIONAL_SEQUENCE_RNN") return rnn(o);
  return std::nullopt;
}

}  // namespace etalon::tflite
