// ConvLSTM1D, 2D, 3D: an LSTM whose products are convolutions, gates i, f, c, o along the channels.
//
// The convolutions of all steps' inputs are one, of N T samples; each step then adds that of the
// state, which has stride 1 and padding 'same'. Every step rounds. Keras 1 keeps the kernels of
// each gate apart, in the order i, c, f, o. Source: keras/src/layers/rnn/conv_lstm.py (3.15),
// keras/layers/convolutional_recurrent.py (1.2); Shi and others, arXiv 1506.04214.
#include <array>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/control.h"
#include "importers/formats/keras/translator.h"

namespace etalon::keras_format {

// Weight `part` (kernel, recurrent kernel, bias) of all gates beside each other.
ValueId Translator::gates_beside(std::size_t part) {
  constexpr std::array<std::size_t, 4> kGates{0, 2, 1, 3};  // where i, f, c, o stand
  std::vector<const Tensor*> gates;
  for (const std::size_t g : kGates) gates.push_back(&constant_weight(3 * g + part));
  const Shape& one = gates[0]->shape();
  const std::int64_t width = one.rank() == 0 ? 0 : one.dim(-1);
  Ints extents(one.dims().begin(), one.dims().end());
  if (width < 1 || width > 1 << 20) throw bad_input("a gate's weight {}", to_string(one));
  extents.back() = 4 * width;
  Tensor t = Tensor::uninitialized(DType::f32, Shape(extents));
  const auto to = t.mutable_data<float>();
  for (std::size_t g = 0; g < gates.size(); ++g) {
    if (gates[g]->shape() != one)
      throw bad_input("gates of {} and {}", to_string(one), to_string(gates[g]->shape()));
    const auto from = gates[g]->data<float>();
    for (std::int64_t i = 0; i < one.numel(); ++i)
      to[static_cast<std::size_t>(i / width * 4 * width + static_cast<std::int64_t>(g) * width +
                                  i % width)] = from[static_cast<std::size_t>(i)];
  }
  return b_.constant(fmt::format("{}.gates{}", name_, part), std::move(t));
}

ValueId Translator::conv_lstm(int axes) {
  const bool old = origin_.version == 1;
  if (old && !channels_last()) throw UnknownLayer{"ConvLSTM2D of Keras 1 and channels first"};
  if (mask(0) != kAbsent) throw UnknownLayer{"ConvLSTM with a mask"};
  if (c_.states.size() != 0 && c_.states.size() != 2)
    throw bad_input("{} states for a ConvLSTM", c_.states.size());
  if (flag("stateful", false)) b_.note("A stateful layer starts from zero in every run.");
  // [N, T, C, spatial] is [N, T, spatial, C] inside.
  Ints inwards{0, 1};
  for (int i = 0; i < axes; ++i) inwards.push_back(i + 3);
  inwards.push_back(2);
  const ValueId sequence =
      channels_last() ? x() : b_.transpose(name_ + ".channels_behind", x(), inwards);
  const ValueId w = old ? turned_kernel(gates_beside(0), axes) : kernel(0, axes);
  const ValueId r = old ? turned_kernel(gates_beside(1), axes) : kernel(1, axes);
  const Shape s = b_.shape(w), rs = b_.shape(r);
  const std::int64_t f = rs[1];
  if (s[0] != 4 * f || rs[0] != 4 * f)
    throw bad_input("kernels {} and {} of four gates", to_string(s), to_string(rs));
  const Ints extent(s.dims().begin() + 2, s.dims().end());
  const Ints dilation = window("dilation_rate", axes, 1);
  Fields fields{{"strides", strides(axes)}, {"dilations", dilation}};
  pad(fields, axes, extent, dilation);
  std::vector<ValueId> inputs{b_.channels_first(steps_as_batch(b_, name_, sequence)), w};
  if (old)
    inputs.push_back(gates_beside(2));
  else if (has_bias())
    inputs.push_back(weight(2));
  // [N T, 4 f, spatial], and by steps
  const ValueId in =
      batch_as_steps(b_, name_, b_.op("conv", name_ + ".input", inputs, fields), sequence);
  Fields own;
  Ints before, behind;
  for (int i = 0; i < axes; ++i) {
    const std::int64_t reach = rs[i + 2] - 1;
    const std::int64_t odd = origin_.theano || origin_.cntk ? (reach + 1) / 2 : reach / 2;
    before.push_back(odd);
    behind.push_back(reach - odd);
  }
  own.emplace_back("pads_begin", before);
  own.emplace_back("pads_end", behind);

  Ints state = b_.dims(in);
  state.erase(state.begin(), state.begin() + 2);
  state[0] = f;
  for (const std::int64_t d : state)
    if (d < 0) throw UnknownLayer{"ConvLSTM of samples of free extents"};
  const char* gate_key = old ? "inner_activation" : "recurrent_activation";
  const json gate = find(gate_key) != nullptr
                        ? config(gate_key)
                        : json(origin_.version >= 3 ? "sigmoid" : "hard_sigmoid");
  const json inner = find("activation") != nullptr ? config("activation") : json("tanh");
  const json none = json::object();
  std::vector<ValueId> start;
  for (const ValueId given : c_.states) start.push_back(first(given));
  if (start.empty()) start = std::vector<ValueId>(2, zeros(name_ + ".start", x(), state));
  ScanInputs scan{start, {in}, {r}, 1, flag("go_backwards", false)};
  const ScanOutputs made =
      write_scan(b_, name_, scan, [&](GraphBuilder& g, const std::vector<ValueId>& v) {
        const std::string step = name_ + ".step";
        const ValueId sum =
            g.op("add", step + ".sum", {v[2], g.op("conv", step + ".state", {v[0], v[3]}, own)});
        const auto part = [&](std::int64_t k, const json& how) {
          const LayerCall call{"Activation", fmt::format("{}.gate{}", step, k), none, {}, {}};
          const ValueId p =
              g.op("slice", call.name + ".part", {sum},
                   {{"starts", Ints{k * f}}, {"ends", Ints{(k + 1) * f}}, {"axes", Ints{1}}});
          return Translator(g, origin_, call).activation(p, how);
        };
        const ValueId i = part(0, gate), forget = part(1, gate), fresh = part(2, inner),
                      o = part(3, gate);
        const ValueId c = g.op(
            "add", step + ".cell",
            {g.op("mul", step + ".kept", {forget, v[1]}), g.op("mul", step + ".new", {i, fresh})});
        const LayerCall out{"Activation", step + ".out", none, {}, {}};
        const ValueId h =
            g.op("mul", step + ".h", {o, Translator(g, origin_, out).activation(c, inner)});
        return std::vector<ValueId>{h, c, g.op("identity", step + ".value", {h})};
      });
  if (flag("return_state", false))
    for (const ValueId end : made.carried) states_.push_back(last(end));
  if (!flag("return_sequences", false)) return last(made.carried[0]);
  ValueId y = made.stacked[0];
  if (channels_last()) y = b_.transpose(name_ + ".channels_last", y, inwards);
  return flag("go_backwards", false) ? turned(name_ + ".order", y) : y;
}

}  // namespace etalon::keras_format
