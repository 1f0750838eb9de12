// LSTM and RNN: a sequence [T,N,...], markers [T,N] that are 0 where a sequence begins and 1 where
// it goes on, an input that stays [N,...], and with expose_hidden the states [1,N,D].
//
// Weights: of the sequence, its bias, of the input that stays (where there is one), of the state;
// an RNN's output has its own matrix and bias. An LSTM's gates stand in the order i, f, o, g. The
// markers are data, so each step is written by itself: the state times its marker, then one step of
// the cell. Source: Caffe's layer documentation (recurrent_param, LSTMLayer, RNNLayer).
#include <algorithm>

#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {
namespace {

constexpr std::int64_t kMaxSteps = 4096;

}  // namespace

void Translator::recurrent() {
  const PbMessage p = l_->params.message("recurrent_param");
  const bool lstm = l_->type == "LSTM", exposed = p.flag("expose_hidden");
  const std::int64_t hidden = p.integer("num_output"), gates = lstm ? 4 : 1;
  const std::size_t states = !exposed ? 0 : lstm ? 2 : 1;
  if (hidden < 1) throw bad_input("num_output is {}", hidden);
  const std::int64_t gate_rows = checked_mul(gates, hidden);
  if (l_->bottoms.size() < 2 + states || l_->bottoms.size() > 3 + states)
    throw bad_input("{} of {} bottoms", l_->type, l_->bottoms.size());
  const bool stays = l_->bottoms.size() == 3 + states;
  if (g.rank(x()) < 2)
    throw bad_input("a sequence {}, expected [T,N,...]", to_string(g.shape(x())));
  const std::int64_t steps = g.dims(x())[0];
  if (steps < 1 || steps > kMaxSteps)
    throw bad_input("{} of {} steps, 1 to {} are supported", l_->type, steps, kMaxSteps);
  if (g.rank(x(1)) != 2 || g.dims(x(1))[0] != steps)
    throw bad_input("{} markers beside a sequence {}", to_string(g.shape(x(1))),
                    to_string(g.shape(x())));
  const std::int64_t batch = g.shape(x())[1];
  const auto features = [&](ValueId v, int from) { return g.shape(v).product(from, g.rank(v)); };
  // Matrices of what comes in, one beside the other: [1, G*D, I].
  const std::int64_t inputs = features(x(), 2), more = stays ? features(x(2), 1) : 0;
  const auto matrix = [&](std::size_t i, std::int64_t columns) {
    return g.reshape(l_->name + ".matrix", weight(i, Shape{gate_rows, columns}),
                     {1, gate_rows, columns});
  };
  std::size_t next = 2;
  ValueId w = matrix(0, inputs);
  ValueId in = g.reshape(l_->name + ".rows", x(), {0, 0, inputs});
  if (stays) {
    w = g.op("concat", l_->name + ".both", {w, matrix(next++, more)}, {{"axis", std::int64_t{2}}});
    const ValueId rows = g.reshape(l_->name + ".stays", x(2), {1, batch, more});
    const ValueId all =
        g.op("tile", l_->name + ".every_step", {rows}, {{"repeats", Ints{steps, 1, 1}}});
    in = g.op("concat", l_->name + ".inputs", {in, all}, {{"axis", std::int64_t{2}}});
  }
  const ValueId r = matrix(next++, hidden);
  const Tensor& bias = weight_tensor(1);
  if (bias.numel() != gate_rows || bias.dtype() != DType::f32)
    throw bad_input("weights 1 are {}, expected [{}]", to_string(bias.type()), gate_rows);
  Tensor both = Tensor::zeros(DType::f32, {1, 2 * gate_rows});
  std::ranges::copy(bias.data<float>(), both.mutable_data<float>().begin());
  const ValueId b = g.constant(l_->name + ".1", std::move(both));
  const auto part = [&](ValueId v, std::int64_t t) {
    return g.op("slice", l_->name + ".step", {v},
                {{"starts", Ints{t}}, {"ends", Ints{t + 1}}, {"axes", Ints{0}}});
  };
  const ValueId zero =
      g.constant(l_->name + ".start", Tensor::zeros(DType::f32, {1, batch, hidden}));
  std::vector<ValueId> state(lstm ? 2 : 1, zero), made;
  for (std::size_t s = 0; s < states; ++s) state[s] = x(2 + (stays ? 1 : 0) + s);
  const Fields f{{"gates", std::string(lstm ? "ifoc" : "h")}};
  const ValueId markers = g.reshape(l_->name + ".markers", x(1), {0, 0, 1});
  for (std::int64_t t = 0; t < steps; ++t) {
    const ValueId goes_on = part(markers, t);
    for (ValueId& v : state) v = g.op("mul", l_->name + ".goes_on", {v, goes_on});
    std::vector<ValueId> step{part(in, t), w, r, b, kAbsent, state[0]};
    if (lstm) step.push_back(state[1]);
    const std::string_view cell = lstm ? "lstm" : "rnn";
    const auto y =
        g.nodes(cell, l_->name + ".cell", step, make_params(get_op(cell), f), lstm ? 3 : 2);
    for (std::size_t s = 0; s < state.size(); ++s) state[s] = y[1 + s];
    made.push_back(state[0]);
  }
  g.note(
      fmt::format("{}: a marker of 0 begins a sequence anew; the {} steps are written one by one, "
                  "from a state of zero{}",
                  l_->type, steps, exposed ? " or the one given" : ""));
  if (lstm) g.note("LSTM gates stand in the order i, f, o, g.");
  ValueId y = g.op("concat", l_->name, made, {{"axis", std::int64_t{0}}});
  if (!lstm) {
    const ValueId out = g.transpose(l_->name + ".out", weight(next, Shape{hidden, hidden}), {1, 0});
    y = g.op("add", l_->name + ".sum",
             {g.op("matmul", l_->name + ".product", {y, out}), weight(next + 1, Shape{hidden})});
    y = g.op("tanh", l_->name + ".tanh", {y});
  }
  top(y);
  for (std::size_t s = 0; s < states; ++s) top(state[s], 1 + s);
}

}  // namespace etalon::caffe
