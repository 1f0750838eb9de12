// UNIDIRECTIONAL_SEQUENCE_LSTM and LSTM of integers: x, weights and state of 8 bits, gates and cell
// of 16. The scale of what stands before the projection is that of the operator's fifth
// intermediate tensor, those of gates that are normalised the first four; the state and the cell
// tell theirs though a run begins with zeros. SVDF of integers likewise.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/tflite/quantised.h"

namespace etalon::tflite {
namespace {

bool given(const Quantised& q, std::size_t i) {
  return i < q.op.inputs.size() && q.op.inputs[i] >= 0;
}

const Tensor& weight(const Quantised& q, std::size_t i, DType dtype) {
  const Tensor* t = given(q, i) ? q.g.constant_of(q.in[i]) : nullptr;
  if (t == nullptr || t->dtype() != dtype)
    throw bad_input("{} whose input {} is no constant of {} is not supported",
                    operator_name(q.op.code), i, name(dtype));
  return *t;
}

}  // namespace

ValueId stacked(const Quantised& q, const char* role, const std::vector<std::size_t>& inputs,
                DType dtype) {
  const Tensor* like = nullptr;
  for (const std::size_t i : inputs)
    if (given(q, i)) like = &weight(q, i, dtype);
  if (like == nullptr) return kAbsent;
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(inputs.size())};
  for (int a = 0; a < like->shape().rank(); ++a) dims.push_back(like->shape()[a]);
  Tensor out = Tensor::zeros(dtype, Shape(std::span<const std::int64_t>(dims)));
  std::size_t at = 0;
  for (const std::size_t i : inputs) {
    if (given(q, i)) {
      const Tensor& t = weight(q, i, dtype);
      if (t.shape() != like->shape())
        throw bad_input("input {} is {} beside {}", i, to_string(t.shape()),
                        to_string(like->shape()));
      std::ranges::copy(t.bytes(), out.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(at));
    }
    at += like->bytes().size();
  }
  return q.g.constant(q.name + "/" + role, std::move(out));
}

std::vector<float> scales(const Quantised& q, const std::vector<std::size_t>& inputs) {
  std::vector<float> out;
  for (const std::size_t i : inputs)
    out.push_back(given(q, i) ? q.input(i).quantisation.scale() : 1.0F);
  return out;
}

ValueId quantised_lstm(const Quantised& q) {
  const FlatTable& f = q.op.options;
  const bool step = operator_name(q.op.code) == "LSTM";
  if (step && f.get<std::int8_t>(3, 0) != 0)
    throw bad_input("a quantised LSTM of the basic kind is not supported");
  if (f.get<std::int8_t>(0, 0) != 4)
    throw bad_input("a quantised LSTM whose activation is not tanh is not supported");
  if (!step && f.get<std::uint8_t>(5, 0) != 0)
    throw bad_input("a quantised LSTM with diagonal matrices is not supported");
  if (q.op.intermediates.size() == 12)
    throw bad_input(
        "a quantised LSTM of 12 intermediate tensors (int8x8_8) is not defined: its reference "
        "kernel reads a scale from behind the list of them");
  if (q.op.intermediates.size() != 5 || q.op.intermediates[4] < 0 || !given(q, 18) || !given(q, 19))
    throw bad_input("a quantised LSTM without its states and 5 intermediate tensors");
  const TensorInfo &x = q.input(0), &state = q.input(18), &cell = q.input(19);
  const auto between = [&](std::size_t i) -> const Quantisation& {
    if (q.op.intermediates[i] < 0) throw bad_input("the intermediate tensor {} is absent", i);
    return q.file.tensors[static_cast<std::size_t>(q.op.intermediates[i])].quantisation;
  };
  if (x.dtype != DType::i8 || state.dtype != DType::i8 || cell.dtype != DType::i16)
    throw bad_input("an LSTM of {}, states {} and {} is not supported", name(x.dtype),
                    name(state.dtype), name(cell.dtype));
  // The reference kernel takes the outputs' number for that of the units there, and so one sequence
  // for another.
  for (std::size_t i = 9; i < 12; ++i)
    if (given(q, i) && given(q, 16) &&
        weight(q, 16, DType::i8).shape().dim(0) != weight(q, i, DType::i16).numel())
      throw bad_input("a quantised LSTM with peepholes and a projection onto {} of {} units",
                      weight(q, 16, DType::i8).shape().dim(0), weight(q, i, DType::i16).numel());
  int power = 0;
  if (std::frexp(cell.quantisation.scale(), &power) != 0.5F)
    throw bad_input("a cell on the scale {}, which is no power of two", cell.quantisation.scale());
  const bool coupled = !given(q, 1), normed = given(q, 21);
  std::vector<float> gates(4, 0x1p-12F);
  for (std::size_t g = coupled ? 1 : 0; normed && g < 4; ++g) gates[g] = between(g).scale();
  // A limit is so many steps of what it holds. The kernel of one step ignores one of 1 and more.
  const auto steps = [](float limit, float scale, float most) {
    return limit > 0 ? static_cast<std::int64_t>(std::min(limit / scale, most)) : 0;
  };
  const auto cell_limit = f.get<float>(1, 0);
  const bool time_major = !step && f.get<std::uint8_t>(3, 0) != 0;
  ValueId in = q.in[0];
  if (step)
    in = q.g.op("unsqueeze", q.name + "/time", {in}, {{"axes", Ints{0}}});
  else if (!time_major)
    in = q.g.transpose(q.name + "/time", in, {1, 0, 2});
  const Fields fields{
      {"x_scale", x.quantisation.scale()},
      {"x_zero", x.quantisation.zero()},
      {"y_scale", state.quantisation.scale()},
      {"y_zero", state.quantisation.zero()},
      {"hidden_scale", between(4).scale()},
      {"hidden_zero", between(4).zero()},
      {"projection_scale", given(q, 16) ? q.input(16).quantisation.scale() : 1.0F},
      {"w_scales", scales(q, {1, 2, 3, 4})},
      {"r_scales", scales(q, {5, 6, 7, 8})},
      {"peephole_scales", scales(q, {9, 10, 11})},
      {"gate_scales", gates},
      {"norm_scales", scales(q, {20, 21, 22, 23})},
      {"cell_power", std::int64_t{power} - 1},
      {"cell_clip",
       step && cell_limit >= 1 ? 0 : steps(cell_limit, cell.quantisation.scale(), 32767)},
      {"projection_clip", steps(f.get<float>(2, 0), q.output().quantisation.scale(), 127)},
      {"coupled", coupled}};
  std::vector<ValueId> inputs{in,
                              stacked(q, "w", {1, 2, 3, 4}, DType::i8),
                              stacked(q, "r", {5, 6, 7, 8}, DType::i8),
                              stacked(q, "bias", {12, 13, 14, 15}, DType::i32),
                              stacked(q, "peephole", {9, 10, 11}, DType::i16),
                              given(q, 16) ? q.in[16] : kAbsent,
                              given(q, 17) ? q.in[17] : kAbsent,
                              stacked(q, "norm", {20, 21, 22, 23}, DType::i16)};
  while (inputs.back() == kAbsent) inputs.pop_back();
  q.g.note("a recurrent layer's state is zero when a run starts");
  q.g.note("LSTM gates stand in the order i, f, c, o.");
  const ValueId y = q.g.op("tflite_lstm", q.name, inputs, fields);
  if (step) return q.g.op("squeeze", q.name + "/step", {y}, {{"axes", Ints{0}}});
  return time_major ? y : q.g.transpose(q.name + "/batch", y, {1, 0, 2});
}

ValueId quantised_svdf(const Quantised& q) {
  const Tensor& over_x = weight(q, 1, DType::i8);
  const DType narrow = q.input(2).dtype == DType::i8 ? DType::i8 : DType::i16;
  const Tensor& over_time = weight(q, 2, narrow);
  if (!given(q, 4)) throw bad_input("SVDF without its state");
  const Quantisation &x = q.input(0).quantisation, &state = q.input(4).quantisation,
                     &y = q.output().quantisation;
  if (q.op.options.get<std::int8_t>(1, 0) != 1)
    throw bad_input("a quantised SVDF whose activation is not relu is not supported");
  if (over_time.shape().rank() != 2 || over_time.shape()[1] < 1 || over_x.shape().rank() != 2 ||
      over_x.shape()[0] != over_time.shape()[0])
    throw bad_input("SVDF with weights {} and {}", to_string(over_x.shape()),
                    to_string(over_time.shape()));
  const std::int64_t filters = over_time.shape()[0], memory = over_time.shape()[1];
  const auto size = static_cast<std::int64_t>(over_time.bytes().size()) / (filters * memory);
  Tensor last = Tensor::uninitialized(narrow, {filters});
  for (std::int64_t i = 0; i < filters; ++i)
    std::ranges::copy(
        over_time.bytes().subspan(static_cast<std::size_t>(((i + 1) * memory - 1) * size),
                                  static_cast<std::size_t>(size)),
        last.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(i * size));
  std::vector<ValueId> inputs{q.in[0], q.in[1], q.g.constant(q.name + "/last", std::move(last))};
  if (given(q, 3)) inputs.push_back(q.in[3]);
  q.g.note("a recurrent layer's state is zero when a run starts");
  if (narrow == DType::i8) q.g.note("SVDF whose state is i8 is what TensorFlow Lite Micro defines");
  return q.g.op("tflite_svdf", q.name, inputs,
                {{"x_scale", x.scale()},
                 {"x_zero", x.zero()},
                 {"w_scale", q.input(1).quantisation.scale()},
                 {"state_scale", state.scale()},
                 {"state_zero", narrow == DType::i8 ? state.zero() : 0},
                 {"time_scale", q.input(2).quantisation.scale()},
                 {"y_scale", y.scale()},
                 {"y_zero", y.zero()},
                 {"rank", std::int64_t{q.op.options.get<std::int32_t>(0, 0)}}});
}

}  // namespace etalon::tflite
