// TensorFlow Lite's recurrent layers (engine/ops/tflite_recurrent.h, tflite_hybrid.h) as Scans over
// their steps.
#include "engine/core/error.h"
#include "engine/ops/tflite_hybrid.h"
#include "engine/ops/tflite_lstm_factors.h"
#include "importers/formats/onnx/export_fixed.h"
#include "importers/formats/onnx/export_hybrid.h"

namespace etalon::onnx_format {
namespace {

using tflite::Multiplier;
using Name = Whole::Name;

// One value for each sequence and unit.
Name filled(NodeWriter& w, std::int64_t units, const Tensor& value) {
  const Name batch = w.new_name("batch");
  pb::NodeProto& n = w.write("Shape", {w.input(0)}, {batch});
  set(n, "start", std::int64_t{1});
  set(n, "end", std::int64_t{2});
  const Name shape = w.step("Concat", {batch, w.constant("units", Ints{units})}, "axis", 0);
  return w.step("Expand", {w.constant("state", value), shape});
}

struct State {
  Name first;
  DType dtype = DType::f32;
};

// y [T, ..] from x [T, ..]: step(inside, states, x) gives the states behind it; the first of them
// is also that of y.
template <class Step>
void scan(NodeWriter& w, const std::vector<State>& states, const Step& step) {
  std::vector<Name> in, out, now;
  for (const State& s : states) {
    in.push_back(s.first);
    out.push_back(w.new_name("last"));
    now.push_back(w.new_name("now"));
  }
  in.push_back(w.input(0));
  out.push_back(w.output(0));
  pb::NodeProto& n = w.write("Scan", in, out);
  set(n, "num_scan_inputs", std::int64_t{1});
  NodeWriter inside = w.inside(n, "body");
  const Name x = w.new_name("x");
  for (std::size_t i = 0; i < states.size(); ++i) inside.take(now[i], states[i].dtype);
  inside.take(x, w.dtype());
  const std::vector<Name> next = step(inside, now, x);
  for (std::size_t i = 0; i < states.size(); ++i) inside.yield(next[i], states[i].dtype);
  const Name y = inside.step("Identity", {next[0]});
  inside.yield(y, states[0].dtype);
}

// Block g of a tensor whose first axis counts the gates.
Name gate_of(NodeWriter& w, Whole& m, std::size_t input, std::size_t g) {
  return w.step("Gather", {w.input(input), m.number(static_cast<std::int64_t>(g))}, "axis", 0);
}

Name activated(Whole& m, HybridActivation function, const Name& v) {
  if (function == HybridActivation::identity) return v;
  return m.step(function == HybridActivation::relu ? "Relu" : "Tanh", {v});
}

void hybrid_rnn(NodeWriter& w) {
  const auto& p = w.node().params.as<TfliteHybridRnnParams>();
  const std::int64_t hidden = w.extents(1).at(0);
  scan(w, {{filled(w, hidden, Tensor::of<float>({}, {0})), DType::f32}},
       [&](NodeWriter& in, const std::vector<Name>& state, const Name& x) {
         Whole m(in);
         const Name of_x = hybrid_part(in, m, x, w.input(1), {p.w_scale}, p.asymmetric),
                    of_state = hybrid_part(in, m, state[0], w.input(2), {p.r_scale}, p.asymmetric);
         const Name bias = w.has(3) ? w.input(3) : m.real(0);
         return std::vector{activated(m, p.activation, m.add(m.add(bias, of_x), of_state))};
       });
}

void hybrid_lstm(NodeWriter& w) {
  const auto& p = w.node().params.as<TfliteHybridLstmParams>();
  const std::int64_t hidden = w.extents(1).at(1), outputs = w.extents(2).at(2);
  const Tensor zero = Tensor::of<float>({}, {0});
  const auto step = [&](NodeWriter& in, const std::vector<Name>& state, const Name& x) {
    Whole m(in);
    const auto held = [&](const Name& v, float by) {
      return by > 0 ? m.step("Clip", {v, m.real(-by), m.real(by)}) : v;
    };
    const auto argument = [&](std::size_t g, const Name& cell) {
      constexpr std::size_t kPeepholes[] = {0, 1, 3, 2};
      const Name of_x = hybrid_part(in, m, x, gate_of(in, m, 1, g), {p.w_scales[g]}, p.asymmetric);
      const Name of_state =
          hybrid_part(in, m, state[0], gate_of(in, m, 2, g), {p.r_scales[g]}, p.asymmetric);
      Name v = m.add(m.add(gate_of(in, m, 3, g), of_x), of_state);
      if (!in.has(4) || g == 2) return v;
      const Name weight = m.cast(gate_of(in, m, 4, kPeepholes[g]), DType::f32);
      return m.add(v, m.mul(m.mul(weight, m.real(p.peephole_scales[kPeepholes[g]])), cell));
    };
    const auto sigmoid = [&](const Name& v) { return m.step("Sigmoid", {v}); };
    const Name f = sigmoid(argument(1, state[1]));
    const Name i = p.coupled ? m.sub(m.real(1), f) : sigmoid(argument(0, state[1]));
    const Name update = activated(m, p.activation, argument(2, state[1]));
    const Name cell = held(m.add(m.mul(f, state[1]), m.mul(update, i)), p.cell_clip);
    const Name o = sigmoid(argument(3, cell));
    Name out = m.mul(o, activated(m, p.activation, cell));
    if (in.has(5)) {
      const Name part = hybrid_part(in, m, out, in.input(5), {p.projection_scale}, p.asymmetric);
      out = held(m.add(in.has(6) ? in.input(6) : m.real(0), part), p.projection_clip);
    }
    return std::vector{out, cell};
  };
  scan(w, {{filled(w, outputs, zero), DType::f32}, {filled(w, hidden, zero), DType::f32}}, step);
}

// The sum over the rows of x about `zero`, of weights i8 [O, K].
Name sums_of(NodeWriter& w, Whole& m, const Name& x, std::int64_t zero, const Name& weights) {
  const Name turned = w.step("Transpose", {weights});
  return m.sums(m.bytes_of(x, DType::i8, zero), m.bytes_of(turned, DType::i8, 0),
                [&](auto&&... in) { return w.step("MatMulInteger", {in...}); });
}

Ints gate_table(bool is_tanh, int bits) {
  Ints table;
  for (std::int32_t v = -32768; v < 32768; ++v) {
    const auto raw = static_cast<std::int16_t>(v);
    table.push_back(is_tanh ? tflite::tanh(raw, bits) : tflite::sigmoid(raw, bits));
  }
  return table;
}

Name held_word(Whole& m, const Name& v) { return m.held(v, -32768, 32767); }
Name held_byte(Whole& m, const Name& v) { return m.held(v, -128, 127); }

// Tables stand outside of the body, once.
struct GateTables {
  Name sigmoid, tanh, cell;
};

class Lstm {
 public:
  explicit Lstm(NodeWriter& w)
      : p_(w.node().params.as<TfliteLstmParams>()),
        f_(p_),
        hidden_(w.extents(1).at(1)),
        outputs_(w.extents(2).at(2)) {
    Whole m(w);
    tables_ = {m.table(gate_table(false, tflite::LstmFactors::kGateBits)),
               m.table(gate_table(true, tflite::LstmFactors::kGateBits)),
               m.table(gate_table(true, static_cast<int>(15 + p_.cell_power)))};
  }
  std::vector<State> states(NodeWriter& w) const {
    const auto zero = static_cast<std::int8_t>(p_.y_zero);
    return {{filled(w, outputs_, Tensor::of<std::int8_t>({}, {zero})), DType::i8},
            {filled(w, hidden_, Tensor::of<std::int64_t>({}, {0})), DType::i64}};
  }

  std::vector<Name> step(NodeWriter& w, const std::vector<Name>& state, const Name& x) const {
    Whole m(w);
    const Name f = gate(w, m, 1, x, state[0], state[1]);
    const Name i = p_.coupled ? m.sub(m.number(32767), f) : gate(w, m, 0, x, state[0], state[1]);
    const Name update = gate(w, m, 2, x, state[0], state[1]);
    const Name kept = m.nearest(m.mul(f, state[1]), Ints{15}, 0);
    const Name taken = m.nearest(m.mul(i, update), Ints{30 + p_.cell_power}, 0);
    Name cell = held_word(m, m.add(kept, taken));
    if (p_.cell_clip > 0) cell = m.held(cell, -p_.cell_clip, p_.cell_clip);
    const Name o = gate(w, m, 3, x, state[0], cell);
    const Name squashed = m.step("Gather", {tables_.cell, m.add(cell, 32768)});
    const Name inner =
        held_byte(m, m.add(m.scaled(m.mul(o, squashed), f_.by_hidden), p_.hidden_zero));
    Name out = inner;
    if (w.has(5)) {
      Name sum = sums_of(w, m, m.cast(inner, DType::i8), p_.hidden_zero, w.input(5));
      if (w.has(6)) sum = m.add(sum, m.cast(w.input(6), DType::i64));
      out = held_byte(m, m.add(m.scaled(sum, f_.by_projection), p_.y_zero));
      if (p_.projection_clip > 0) out = m.held(out, -p_.projection_clip, p_.projection_clip);
    }
    return {m.cast(out, DType::i8), cell};
  }

 private:
  Name gate(NodeWriter& w, Whole& m, std::size_t g, const Name& x, const Name& state,
            const Name& cell) const {
    const bool normal = w.has(7);
    Name sum = sums_of(w, m, x, p_.x_zero, gate_of(w, m, 1, g));
    if (w.has(3) && !normal) sum = m.add(sum, m.cast(gate_of(w, m, 3, g), DType::i64));
    Name v = held_word(m, m.scaled(sum, f_.by_x[g]));
    const Name recurrent = sums_of(w, m, state, p_.y_zero, gate_of(w, m, 2, g));
    v = held_word(m, m.add(m.scaled(recurrent, f_.by_state[g]), v));
    if (w.has(4) && g != 2) {
      const std::size_t i = tflite::LstmFactors::kPeepholes[g];
      const Name seen = m.mul(m.cast(gate_of(w, m, 4, i), DType::i64), cell);
      v = held_word(m, m.add(m.scaled(seen, f_.by_cell[i]), v));
    }
    if (normal) v = normalised(w, m, g, v);
    return m.step("Gather", {g == 2 ? tables_.tanh : tables_.sigmoid, m.add(v, 32768)});
  }

  Name normalised(NodeWriter& w, Whole& m, std::size_t g, const Name& v) const {
    const Name sum = m.reduced("ReduceSum", v, {-1}, true),
               squares = m.reduced("ReduceSum", m.mul(v, v), {-1}, true);
    const Name mean = m.div(m.mul(sum, 1024), hidden_);
    const Name spread = m.sub(m.mul(squares, (1 << 20) / hidden_), m.mul(mean, mean));
    const Name variance = m.div(spread, 1 << 20);
    const Name real = m.chosen(m.at_least(variance, 1), variance, m.number(f_.least_variance[g]));
    const Name normal = InverseRoot(m, real).scaled(m, m.sub(m.mul(v, 1024), mean), 0);
    Name biased = m.mul(normal, m.cast(gate_of(w, m, 7, g), DType::i64));
    if (w.has(3)) biased = m.add(biased, m.cast(gate_of(w, m, 3, g), DType::i64));
    return held_word(m, m.scaled(m.nearest(biased, Ints{10}, 0), f_.by_norm[g]));
  }

  const TfliteLstmParams& p_;
  tflite::LstmFactors f_;
  std::int64_t hidden_, outputs_;
  GateTables tables_;
};

void lstm(NodeWriter& w) {
  const Lstm cell(w);
  scan(w, cell.states(w), [&](NodeWriter& in, const std::vector<Name>& state, const Name& x) {
    return cell.step(in, state, x);
  });
}

void svdf(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteSvdfParams>();
  const DType of_state = w.dtype(2);
  const TfliteEnds ends(of_state, kActLowest, kActHighest);
  const Multiplier by_x(static_cast<double>(p.x_scale * p.w_scale / p.state_scale)),
      by_time(static_cast<double>(p.state_scale * p.time_scale / p.y_scale));
  const Name sum = sums_of(w, m, w.input(0), p.x_zero, w.input(1));
  Name state = m.held(m.scaled(sum, by_x), ends.low, ends.high);
  if (of_state == DType::i8)
    state = m.add(m.cast(m.cast(m.add(state, p.state_zero), DType::i8), DType::i64), -p.state_zero);
  const Name terms = m.mul(state, m.cast(w.input(2), DType::i64));
  const Name neighbours = w.step("Reshape", {terms, w.constant("shape", Ints{0, -1, p.rank})});
  Name all = m.reduced("ReduceSum", neighbours, {-1}, false);
  if (w.has(3)) all = m.add(all, m.cast(w.input(3), DType::i64));
  m.give(held_byte(m, m.add(m.scaled(all, by_time), p.y_zero)), DType::i8);
}

constexpr WriterRow kRows[] = {
    {"tflite_hybrid_rnn", hybrid_rnn},
    {"tflite_hybrid_lstm", hybrid_lstm},
    {"tflite_lstm", lstm},
    {"tflite_svdf", svdf},
};

}  // namespace

std::span<const WriterRow> tflite_recurrent_writers() { return kRows; }

}  // namespace etalon::onnx_format
