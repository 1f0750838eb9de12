// UNIDIRECTIONAL_SEQUENCE_LSTM of integers: x, weights and state of 8 bits, gates and cell of 16.
// The scale of what stands before the projection is that of the operator's fifth intermediate
// tensor; the state and the cell tell theirs though a run begins with zeros.
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

// Tensors of one shape below each other; zeros where one is absent.
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

}  // namespace

ValueId quantised_lstm(const Quantised& q) {
  const FlatTable& f = q.op.options;
  if (f.get<std::int8_t>(0, 0) != 4)
    throw bad_input("a quantised LSTM whose activation is not tanh is not supported");
  if (f.get<float>(1, 0) != 0 || f.get<float>(2, 0) != 0)
    throw bad_input("a quantised LSTM that clips is not supported");
  if (f.get<std::uint8_t>(5, 0) != 0)
    throw bad_input("a quantised LSTM with diagonal matrices is not supported");
  for (std::size_t i = 20; i < 24; ++i)
    if (given(q, i)) throw bad_input("a quantised LSTM with layer normalisation is not supported");
  if (q.op.intermediates.size() != 5 || q.op.intermediates[4] < 0 || !given(q, 18) || !given(q, 19))
    throw bad_input("a quantised LSTM without its states and 5 intermediate tensors");
  const TensorInfo &x = q.input(0), &state = q.input(18), &cell = q.input(19);
  const TensorInfo& hidden = q.file.tensors[static_cast<std::size_t>(q.op.intermediates[4])];
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
  const bool time_major = f.get<std::uint8_t>(3, 0) != 0, coupled = !given(q, 1);
  const ValueId in = time_major ? q.in[0] : q.g.transpose(q.name + "/time", q.in[0], {1, 0, 2});
  const Fields fields{{"x_scale", x.quantisation.scale()},
                      {"x_zero", x.quantisation.zero()},
                      {"y_scale", state.quantisation.scale()},
                      {"y_zero", state.quantisation.zero()},
                      {"hidden_scale", hidden.quantisation.scale()},
                      {"hidden_zero", hidden.quantisation.zero()},
                      {"projection_scale", given(q, 16) ? q.input(16).quantisation.scale() : 1.0F},
                      {"w_scales", scales(q, {1, 2, 3, 4})},
                      {"r_scales", scales(q, {5, 6, 7, 8})},
                      {"peephole_scales", scales(q, {9, 10, 11})},
                      {"cell_power", std::int64_t{power} - 1},
                      {"coupled", coupled}};
  std::vector<ValueId> inputs{in,
                              stacked(q, "w", {1, 2, 3, 4}, DType::i8),
                              stacked(q, "r", {5, 6, 7, 8}, DType::i8),
                              stacked(q, "bias", {12, 13, 14, 15}, DType::i32),
                              stacked(q, "peephole", {9, 10, 11}, DType::i16),
                              given(q, 16) ? q.in[16] : kAbsent,
                              given(q, 17) ? q.in[17] : kAbsent};
  while (inputs.back() == kAbsent) inputs.pop_back();
  q.g.note("a recurrent layer's state is zero when a run starts");
  q.g.note("LSTM gates stand in the order i, f, c, o.");
  const ValueId y = q.g.op("tflite_lstm", q.name, inputs, fields);
  return time_major ? y : q.g.transpose(q.name + "/batch", y, {1, 0, 2});
}

}  // namespace etalon::tflite
