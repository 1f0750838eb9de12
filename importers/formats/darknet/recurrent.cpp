// Sequences: rnn, crnn, gru, lstm, conv_lstm. Rows stand step by step, [steps * N, ...], and each
// state begins as zero, as in a network that Darknet has just loaded; with time_steps=1 every row
// is a sequence of its own.
//
// What does not hang on the state is taken of all steps at once; the rest is the body of a loop.
// pjreddie's Darknet and AlexeyAB's fork order the weights of gates differently.
#include <array>
#include <functional>

#include "engine/core/error.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

using Values = std::vector<ValueId>;

// Nodes and constants of one step, in the network or in the body of a loop.
struct Place {
  GraphBuilder& g;
  std::string name;

  ValueId op(std::string_view kind, std::string_view role, const Values& in,
             const Fields& fields = {}) const {
    return g.op(kind, fmt::format("{}.{}", name, role), in, fields);
  }
  ValueId write(const Part& part, std::string_view role, ValueId x) const {
    return part.write(g, fmt::format("{}.{}", name, role), x);
  }
  // The function of the sum of all.
  ValueId gate(std::string_view function, const std::string& role, const Values& terms) const {
    ValueId sum = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i)
      sum = op("add", fmt::format("{}.sum{}", role, i), {sum, terms[i]});
    return op(function, role, {sum});
  }
};

// New states from a row of each sequence and the states before; the first state is what is seen.
using Step = std::function<Values(const Place& at, const Values& rows, const Values& states)>;

ValueId over_steps(const Layer& l, const Values& in, std::size_t count, const Step& step) {
  GraphBuilder& g = l.g;
  const auto zero = [&](ValueId like) {
    return l.op("constant_of_shape", "zero", {l.op("shape", "extents", {like})});
  };
  l.g.note(
      "a recurrent section begins with a state of zero; rows stand step by step, time_steps "
      "of them (with 1 each row is a sequence of its own)");
  if (l.steps == 1) {
    const Values states(count, zero(in[0]));
    return step({.g = g, .name = l.name + ".step"}, in, states)[0];
  }
  Values sequences;
  for (const ValueId v : in) {
    Ints shape{l.steps, -1};
    for (int i = 1; i < g.rank(v); ++i) shape.push_back(g.shape(v)[i]);
    sequences.push_back(
        l.op("reshape", fmt::format("sequence{}", sequences.size()), {v}, {{"shape", shape}}));
  }
  const Fields first_axis{{"axis", std::int64_t{0}}};
  const ValueId row =
      l.op("gather", "row", {sequences[0], l.constant("first", ints_tensor({0}).reshaped({}))},
           first_axis);
  const std::string prefix = l.name + ".body";
  GraphBuilder body(prefix);
  const ValueId at = body.input(prefix + ".iteration", DType::i64, {});
  const ValueId goes_on = body.input(prefix + ".goes_on", DType::boolean, {});
  Values states, rows, carried;
  for (std::size_t i = 0; i < count; ++i)
    states.push_back(body.input(fmt::format("{}.state{}", prefix, i), g.sizes(row)));
  for (std::size_t i = 0; i < sequences.size(); ++i)
    carried.push_back(body.input(fmt::format("{}.sequence{}", prefix, i), g.sizes(sequences[i])));
  for (const ValueId v : carried)
    rows.push_back(body.op("gather", prefix + ".row", {v, at}, first_axis));
  const Values next = step({.g = body, .name = prefix}, rows, states);
  body.output(goes_on);
  for (const ValueId v : next) body.output(v);
  for (const ValueId v : carried) body.output(v);
  body.output(body.op("identity", prefix + ".seen", {next[0]}));
  for (std::string& note : body.take_notes()) g.note(std::move(note));

  Values inputs{l.constant("steps", ints_tensor({l.steps}).reshaped({})), kAbsent};
  std::vector<GraphBuilder::Sizes> types(count, g.sizes(row));
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(zero(row));
  for (const ValueId v : sequences) {
    inputs.push_back(v);
    types.push_back(g.sizes(v));
  }
  types.push_back(g.sizes(sequences[0]));
  std::vector<Graph> bodies;
  bodies.push_back(body.finish());
  const Values out = g.control("loop", l.name + ".loop", inputs, std::move(bodies), types);
  Ints shape{-1};
  for (int i = 1; i < g.rank(row); ++i) shape.push_back(g.shape(row)[i]);
  return l.op("reshape", "states", {out.back()}, {{"shape", shape}});
}

std::int64_t count_of(const Section& s, std::string_view key, std::int64_t otherwise) {
  const std::int64_t n = s.integer(key, otherwise);
  if (n < 1) throw bad_input("{}={}", key, n);
  return n;
}

// Filters of a state see it again in the next step.
Window keeping(const Window& k) {
  if (k.rows != 1 || k.columns != 1 || 2 * k.pad != k.size - 1)
    throw bad_input(
        "filters of {} by {} x {}, padded by {}, do not keep the extents of the state; take an odd "
        "size, stride 1 and pad=1",
        k.size, k.rows, k.columns, k.pad);
  return k;
}

// state = input(x) + self(state), of which the output is seen.
ValueId plain_cell(const Layer& l, ValueId x, const std::array<Part, 3>& parts) {
  const Place here{.g = l.g, .name = l.name};
  const bool adds = l.s.integer("shortcut", 0) != 0;
  const ValueId in = here.write(parts[0], "input", x);
  const ValueId state =
      over_steps(l, {in}, 1, [&](const Place& at, const Values& rows, const Values& states) {
        ValueId y = at.op("add", "inputs", {rows[0], at.write(parts[1], "self", states[0])});
        if (adds) y = at.op("add", "shortcut", {states[0], y});
        return Values{y};
      });
  return here.write(parts[2], "output", state);
}

ValueId rnn(const Layer& l) {
  const std::int64_t out = count_of(l.s, "output", 1);
  // pjreddie's has no size of its own for what is hidden.
  const std::int64_t hidden = count_of(l.s, "hidden", l.fork ? 1 : out);
  const std::string kind = l.s.text("activation", "logistic");
  const std::int64_t logistic = l.s.integer("logistic", 0);
  const std::string self = logistic == 2 ? "loggy" : logistic == 1 ? "logistic" : kind;
  const std::int64_t inputs = l.elements();
  Part in = connection(l, inputs, hidden, kind);
  Part again = connection(l, hidden, hidden, self);
  Part last = connection(l, hidden, out, kind);
  return plain_cell(l, l.flat(), {std::move(in), std::move(again), std::move(last)});
}

ValueId crnn(const Layer& l) {
  const Section& s = l.s;
  // pjreddie's has other names for the two, and filters of 3 by 3 with a padding of 1.
  const bool named = s.has("output_filters") || s.has("hidden_filters");
  const std::int64_t hidden = count_of(s, named ? "hidden_filters" : "hidden", 1),
                     out = count_of(s, named ? "output_filters" : "output", 1);
  const ValueId x = l.as_image();
  const std::string kind = s.text("activation", "logistic");
  Window k = window_of(s, hidden, 3), last = window_of(s, out, 3);
  if (named) k.pad = last.pad = 1;
  keeping(k);
  Part in = convolution(l, k, l.g.shape(x)[1], kind);
  Part self = convolution(l, k, hidden, kind);
  return plain_cell(l, x, {std::move(in), std::move(self), convolution(l, last, hidden, kind)});
}

// z, r of inputs and state; h of the inputs and r * state; state = z * state + (1 - z) * h.
ValueId gru(const Layer& l) {
  const std::int64_t out = count_of(l.s, "output", 1), inputs = l.elements();
  std::vector<Part> of_input, of_state;
  for (const bool first : {true, false})
    for (int i = 0; i < 3; ++i) {
      const bool input = first == l.fork;
      (input ? of_input : of_state).push_back(connection(l, input ? inputs : out, out, "linear"));
    }
  // The fork knows no tanh here.
  const std::string_view candidate = l.s.integer("tanh", 0) != 0 && !l.fork ? "tanh" : "sigmoid";
  const Place here{.g = l.g, .name = l.name};
  const ValueId x = l.flat();
  Values in;
  for (std::size_t i = 0; i < 3; ++i)
    in.push_back(here.write(of_input[i], fmt::format("input{}", i), x));
  l.g.note(fmt::format("gru: the candidate's function is the {}; the update gate keeps the state",
                       candidate == "tanh" ? "tanh" : "logistic, unless tanh=1"));
  return over_steps(l, in, 1, [&](const Place& at, const Values& rows, const Values& states) {
    const ValueId z = at.gate("sigmoid", "z",
                              {rows[0], at.write(of_state[0], "state_z", states[0])}),
                  r = at.gate("sigmoid", "r",
                              {rows[1], at.write(of_state[1], "state_r", states[0])});
    const ValueId kept = at.op("mul", "forgot", {states[0], r});
    const ValueId h = at.gate(candidate, "h", {rows[2], at.write(of_state[2], "state_h", kept)});
    const ValueId one = at.g.constant(at.name + ".one", scalar_f32(1));
    const ValueId rest = at.op("sub", "rest", {one, z});
    return Values{at.op("add", "next",
                        {at.op("mul", "old", {z, states[0]}), at.op("mul", "new", {rest, h})})};
  });
}

// Gates f, i, g, o, each of the state and of the inputs; cells of connections or of convolutions.
struct Gates {
  std::array<Part, 4> of_state, of_input;
  std::vector<Part> of_cell;  // f, i, o: peepholes
  float bound = 0;            // of the cell where it is carried on; 0 for none
};

ValueId gated_cell(const Layer& l, ValueId x, const Gates& gates) {
  static constexpr std::array<std::string_view, 4> kNames{"f", "i", "g", "o"};
  const Place here{.g = l.g, .name = l.name};
  Values in;
  for (std::size_t i = 0; i < 4; ++i)
    in.push_back(here.write(gates.of_input[i], fmt::format("input_{}", kNames[i]), x));
  return over_steps(l, in, 2, [&](const Place& at, const Values& rows, const Values& states) {
    const auto gate = [&](std::size_t i, std::size_t peephole, ValueId cell) {
      const std::string role(kNames[i]);
      Values terms{at.write(gates.of_state[i], "state_" + role, states[0]), rows[i]};
      if (peephole < gates.of_cell.size())
        terms.push_back(at.write(gates.of_cell[peephole], "cell_" + role, cell));
      return at.gate(i == 2 ? "tanh" : "sigmoid", role, terms);
    };
    constexpr std::size_t kNone = 3;
    const ValueId f = gate(0, 0, states[1]), i = gate(1, 1, states[1]), g = gate(2, kNone, kAbsent);
    ValueId cell = at.op("add", "cell",
                         {at.op("mul", "kept", {f, states[1]}), at.op("mul", "written", {i, g})});
    const ValueId o = gate(3, 2, cell);
    const ValueId seen = at.op("mul", "seen", {o, at.op("tanh", "tanh", {cell})});
    if (gates.bound > 0)
      cell = at.op("clip", "bounded", {cell}, {{"min", -gates.bound}, {"max", gates.bound}});
    return Values{seen, cell};
  });
}

// The places of f, i, g, o in the file.
constexpr std::array<std::size_t, 4> kForkOrder{0, 1, 2, 3}, kOrder{1, 0, 3, 2};

ValueId lstm(const Layer& l) {
  const std::int64_t out = count_of(l.s, "output", 1), inputs = l.elements();
  Gates gates;
  for (auto* parts : {&gates.of_state, &gates.of_input})
    for (const std::size_t i : l.fork ? kForkOrder : kOrder)
      (*parts)[i] = connection(l, parts == &gates.of_state ? out : inputs, out, "linear");
  l.g.note(
      "lstm: gates stand in the file as f, i, g, o by AlexeyAB's fork (revision 5 of the "
      "weights), as i, f, o, g by pjreddie's");
  return gated_cell(l, l.flat(), gates);
}

ValueId conv_lstm(const Layer& l) {
  const Section& s = l.s;
  for (const char* key : {"bottleneck", "shortcut"}) s.ordinary(key, 0);
  if (const std::string kind = s.text("lstm_activation", "tanh"); kind != "tanh")
    throw bad_input("lstm_activation={}: only tanh, which is what Darknet takes on a CPU",
                    printable(kind));
  s.text("time_normalizer", "");
  const ValueId x = l.as_image();
  const std::int64_t out = count_of(s, "output", 1);
  const Window k = keeping(window_of(s, out, 3));
  const std::string kind = s.text("activation", "linear");
  Gates gates;
  if (s.integer("peephole", 0) != 0)
    for (int i = 0; i < 3; ++i) gates.of_cell.push_back(convolution(l, k, out, kind));
  for (Part& part : gates.of_state) part = convolution(l, k, out, kind);
  for (Part& part : gates.of_input) part = convolution(l, k, l.g.shape(x)[1], kind);
  const std::int64_t bound = s.integer("state_constrain", l.steps * 32);
  if (bound < 0) throw bad_input("state_constrain={}", bound);
  gates.bound = static_cast<float>(bound);
  return gated_cell(l, x, gates);
}

constexpr SectionRow kRows[] = {{"rnn", "rnn", rnn},
                                {"crnn", "crnn", crnn},
                                {"gru", "gru", gru},
                                {"lstm", "lstm", lstm},
                                {"conv_lstm", "conv_lstm", conv_lstm}};

}  // namespace

std::span<const SectionRow> recurrent_sections() { return kRows; }

}  // namespace etalon::darknet
