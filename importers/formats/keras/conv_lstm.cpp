// ConvLSTM1D, 2D, 3D: an LSTM whose products are convolutions, gates i, f, c, o along the channels.
//
// The convolutions of all steps' inputs are one, of N T samples; each step then adds that of the
// state, which has stride 1 and padding 'same'. Every step rounds.
// Source: keras/src/layers/rnn/conv_lstm.py (3.15); Shi and others, arXiv 1506.04214.
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/control.h"
#include "importers/formats/keras/translator.h"

namespace etalon::keras_format {

ValueId Translator::conv_lstm(int axes) {
  if (origin_.version < 2) throw UnknownLayer{"ConvLSTM of Keras 1"};
  if (!channels_last()) throw UnknownLayer{"ConvLSTM of channels_first"};
  if (mask(0) != kAbsent || !c_.states.empty() || flag("return_state", false))
    throw UnknownLayer{"ConvLSTM with a mask or states"};
  if (flag("stateful", false)) b_.note("A stateful layer starts from zero in every run.");
  const ValueId w = kernel(0, axes), r = kernel(1, axes);
  const Shape s = b_.shape(w), rs = b_.shape(r);
  const std::int64_t f = rs[1];
  if (s[0] != 4 * f || rs[0] != 4 * f)
    throw bad_input("kernels {} and {} of four gates", to_string(s), to_string(rs));
  const Ints extent(s.dims().begin() + 2, s.dims().end());
  const Ints dilation = window("dilation_rate", axes, 1);
  Fields fields{{"strides", strides(axes)}, {"dilations", dilation}};
  pad(fields, axes, extent, dilation);
  std::vector<ValueId> inputs{b_.channels_first(steps_as_batch(b_, name_, x())), w};
  if (has_bias()) inputs.push_back(weight(2));
  // [N T, 4 f, spatial], and by steps
  const ValueId in =
      batch_as_steps(b_, name_, b_.op("conv", name_ + ".input", inputs, fields), x());
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
  const json gate = find("recurrent_activation") != nullptr
                        ? config("recurrent_activation")
                        : json(origin_.version >= 3 ? "sigmoid" : "hard_sigmoid");
  const json inner = find("activation") != nullptr ? config("activation") : json("tanh");
  const json none = json::object();
  const ValueId zero = zeros(name_ + ".start", x(), state);
  ScanInputs scan{{zero, zero}, {in}, {r}, 1, flag("go_backwards", false)};
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
  if (!flag("return_sequences", false)) return b_.channels_last(made.carried[0]);
  ValueId y = made.stacked[0];
  Ints perm{0, 1};
  for (int i = 0; i < axes; ++i) perm.push_back(i + 3);
  perm.push_back(2);
  y = b_.transpose(name_ + ".channels_last", y, perm);
  return flag("go_backwards", false) ? turned(name_ + ".order", y) : y;
}

}  // namespace etalon::keras_format
