// UNIDIRECTIONAL_SEQUENCE_LSTM and _RNN, BIDIRECTIONAL_SEQUENCE_LSTM and _RNN; LSTM, RNN and SVDF,
// which are one step of a sequence.
//
// An LSTM's gates are separate matrices in the order i, f, c, o, each [H, I] and [H, H]. Without an
// input gate it is 1 - f. States are tensors that the interpreter keeps between runs; a run here
// starts them at zero, as a fresh interpreter does. Of two directions the forward one's inputs come
// first; merged, its outputs stand before the backward one's.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/op.h"
#include "importers/formats/tflite/operators.h"
#include "importers/formats/translate.h"

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

// Parts one below the other, as [directions, rows, columns] or [directions, elements], and `zeros`
// behind those of each direction; `negated` turns the signs round.
struct Part {
  std::size_t input;
  bool negated = false;
};
using Directions = std::vector<std::vector<Part>>;
ValueId stacked(const Operator& o, const char* role, const Directions& directions, int rank,
                std::size_t zeros = 0) {
  std::vector<float> all;
  std::int64_t columns = -1, elements = -1;
  for (const auto& parts : directions) {
    const std::size_t before = all.size();
    for (const Part& p : parts) {
      const Tensor& t = weight(o, p.input);
      if (t.shape().rank() != rank || (columns >= 0 && t.shape().dim(-1) != columns))
        throw bad_input("input {} is {}", p.input, to_string(t.type()));
      columns = t.shape().dim(-1);
      for (const float v : t.data<float>()) all.push_back(p.negated ? -v : v);
    }
    all.resize(all.size() + zeros);
    const auto count = static_cast<std::int64_t>(all.size() - before);
    if (columns < 1) throw bad_input("input {} is empty", parts[0].input);
    if (elements >= 0 && count != elements)
      throw bad_input("{} weights for one direction and {} for the other", elements, count);
    elements = count;
  }
  const auto many = static_cast<std::int64_t>(directions.size());
  Tensor out = Tensor::uninitialized(
      DType::f32, rank == 2 ? Shape{many, elements / columns, columns} : Shape{many, elements});
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

struct Layout {
  bool both = false, time_major = false, merged = true;
  bool step = false;  // x and y are of one time, without its axis
};

// y of the node, [T,D,B,H] or [B,T,D,H], without the axis of directions.
std::vector<ValueId> sequence(const Operator& o, std::string_view op,
                              const std::vector<ValueId>& inputs, Fields fields,
                              const Layout& layout) {
  fields.emplace_back("batch_first", !layout.time_major && !layout.step);
  fields.emplace_back("direction", std::string(layout.both ? "bidirectional" : "forward"));
  o.g.note("a recurrent layer's state is zero when a run starts");
  std::vector<ValueId> in = inputs;
  if (layout.step) in[0] = o.g.op("unsqueeze", o.n.name + "/time", {in[0]}, {{"axes", Ints{0}}});
  const ValueId y =
      o.g.nodes(op, o.n.name + "/" + std::string(op), in, make_params(get_op(op), fields), 1)[0];
  if (layout.step) return {o.g.op("squeeze", o.n.name, {y}, {{"axes", Ints{0, 1}}})};
  const std::int64_t axis = layout.time_major ? 1 : 2;
  if (!layout.both) return {o.g.op("squeeze", o.n.name, {y}, {{"axes", Ints{axis}}})};
  if (!layout.merged) {
    std::vector<ValueId> out = o.g.nodes(
        "split", o.n.name + "/directions", {y},
        make_params(get_op("split"), {{"axis", axis}, {"num_outputs", std::int64_t{2}}}), 2);
    for (ValueId& v : out) v = o.g.op("squeeze", o.n.name, {v}, {{"axes", Ints{axis}}});
    return out;
  }
  const std::int64_t hidden = o.g.shape(y).dim(-1);
  return {o.g.reshape(o.n.name,
                      layout.time_major ? o.g.transpose(o.n.name + "/order", y, {0, 2, 1, 3}) : y,
                      {0, 0, 2 * hidden})};
}

std::vector<ValueId> lstm(const Operator& o, bool both) {
  const FlatTable& f = o.op.options;
  const std::string_view type = operator_name(o.op.code);
  const bool step = type == "LSTM";
  if (step && f.get<std::int8_t>(3, 0) != 0)
    throw bad_input("LSTM of the basic kind (one matrix for all) is not supported");
  if (!both && !step && f.get<std::uint8_t>(5, 0) != 0)
    throw bad_input("{} with diagonal matrices is not supported", type);
  // The backward direction's weights stand 17 further.
  constexpr std::size_t kBack = 17;
  std::vector<std::size_t> refused{16, 17};
  for (std::size_t i = both ? 33 : 20; i < (both ? 35U : 24U); ++i) refused.push_back(i);
  for (std::size_t i = 39; both && i < 48; ++i) refused.push_back(i);
  for (const std::size_t i : refused)
    if (given(o, i))
      throw bad_input("{} with a {} is not supported", type,
                      i < 18 || (both && i < 35) ? "projection"
                      : both                     ? "second input"
                                                 : "layer normalisation");
  const bool coupled = !given(o, 1);
  if (both && given(o, 1 + kBack) == coupled)
    throw bad_input("{} whose directions differ in their gates is not supported", type);
  // The input gate's part is the forget gate's turned round: sigmoid(-s) = 1 - sigmoid(s).
  const auto gates = [&](std::size_t first, std::size_t count = 4) {
    Directions out;
    for (const std::size_t back :
         both ? std::vector<std::size_t>{0, kBack} : std::vector<std::size_t>{0}) {
      out.push_back({coupled ? Part{back + first + 1, true} : Part{back + first}});
      for (std::size_t i = 1; i < count; ++i) out.back().push_back({back + first + i});
    }
    return out;
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
    inputs.push_back(stacked(o, "p", gates(9, 3), 1));
  }
  const std::string act = function(f.get<std::int8_t>(0, 0));
  o.g.note("LSTM gates stand in the order i, f, c, o.");
  std::vector<std::string> acts{"sigmoid", act, act};
  if (both) acts.insert(acts.end(), {"sigmoid", act, act});
  return sequence(
      o, "lstm", inputs,
      {{"gates", std::string("ifco")}, {"activations", acts}, {"cell_clip", f.get<float>(1, 0)}},
      {.both = both,
       .time_major = !step && f.get<std::uint8_t>(both ? 4 : 3, both ? 1 : 0) != 0,
       .merged = f.get<std::uint8_t>(3, 0) != 0,
       .step = step});
}

std::vector<ValueId> rnn(const Operator& o, bool both) {
  const FlatTable& f = o.op.options;
  for (const std::size_t i : {9U, 10U, 11U})
    if (both && given(o, i))
      throw bad_input("{} with a second input is not supported", operator_name(o.op.code));
  const bool step = operator_name(o.op.code) == "RNN";
  const auto hidden = static_cast<std::size_t>(weight(o, 2).shape().dim(0));
  // The backward direction's weights stand 4 further.
  const auto part = [&](std::size_t i) {
    return both ? Directions{{{i}}, {{i + 4}}} : Directions{{{i}}};
  };
  return sequence(
      o, "rnn",
      {o.n.in(0), stacked(o, "w", part(1), 2), stacked(o, "r", part(2), 2),
       stacked(o, "b", part(3), 1, hidden)},
      {{"activations",
        std::vector<std::string>(both ? 2 : 1, function(f.get<std::int8_t>(step ? 0 : 1, 0)))}},
      {.both = both,
       .time_major = !step && f.get<std::uint8_t>(0, 0) != 0,
       .merged = f.get<std::uint8_t>(2, 0) != 0,
       .step = step});
}

// Each of `rank` filters of a unit meets x, the last of its weights over time the result; their sum
// and the bias are activated. The times before are the state, which is zero when a run starts.
ValueId svdf(const Operator& o) {
  const FlatTable& f = o.op.options;
  const bool hybrid = o.n.attributes.contains("hybrid_scale");
  const Tensor& over_time = weight(o, 2);
  const Tensor& over_x = hybrid ? *o.g.constant_of(o.n.in(1)) : weight(o, 1);
  const std::int64_t rank = f.get<std::int32_t>(0, 0);
  if (over_x.shape().rank() != 2 || over_time.shape().rank() != 2 || rank < 1 ||
      over_time.shape()[1] < 1 || over_x.shape()[0] != over_time.shape()[0] ||
      over_x.shape()[0] % rank != 0)
    throw bad_input("SVDF of rank {} with weights {} and {}", rank, to_string(over_x.shape()),
                    to_string(over_time.shape()));
  o.g.note("a recurrent layer's state is zero when a run starts");
  const std::int64_t filters = over_x.shape()[0], memory = over_time.shape()[1];
  Tensor last = Tensor::uninitialized(DType::f32, {filters});
  for (std::int64_t i = 0; i < filters; ++i)
    last.mutable_data<float>()[static_cast<std::size_t>(i)] =
        over_time.data<float>()[static_cast<std::size_t>((i + 1) * memory - 1)];
  const auto part = [&](const char* role) { return o.n.name + "/" + role; };
  ValueId y = kAbsent;
  if (hybrid)
    y = o.g.op("tflite_hybrid_fully_connected", part("filters"), {o.n.in(0), o.n.in(1)},
               {{"w_scales", std::vector<float>{o.n.number("hybrid_scale", 1.0F)}},
                {"asymmetric", f.get<std::uint8_t>(2, 0) != 0}});
  else
    y = fully_connected(o.g, part("filters"), o.n.in(0), o.n.in(1), kAbsent);
  y = o.g.op("mul", part("weighed"), {y, o.g.constant(part("last"), std::move(last))});
  y = o.g.op("reshape", part("units"), {y}, {{"shape", Ints{0, filters / rank, rank}}});
  y = o.g.op("reduce_sum", part("sum"), {y}, {{"axes", Ints{2}}, {"keepdims", false}});
  if (given(o, 3)) y = o.g.op("add", part("bias"), {y, o.n.in(3)});
  const std::string act = function(f.get<std::int8_t>(1, 0));
  return act == "identity" ? y : o.g.op(act, part(act.c_str()), {y});
}

}  // namespace

bool is_recurrent(std::string_view type) {
  return type == "LSTM" || type == "RNN" || type == "SVDF" ||
         type.ends_with("DIRECTIONAL_SEQUENCE_LSTM") || type.ends_with("DIRECTIONAL_SEQUENCE_RNN");
}

std::vector<ValueId> translate_recurrent(const Operator& o) {
  const std::string_view type = operator_name(o.op.code);
  if (type == "SVDF") return {svdf(o)};
  const bool both = type.starts_with("BI");
  return type.ends_with("LSTM") ? lstm(o, both) : rnn(o, both);
}

}  // namespace etalon::tflite
