// Products of integers, and the linear quantisation around them.
//
// MatMulInteger is a matmul of differences in i32. QLinearMatMul and QLinearConv scale the i32 sum
// by the f32 number a_scale * b_scale / y_scale and round half to even, as ONNX Runtime does:
// quantize_linear with a scale of 1.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/onnx/integers.h"

namespace etalon::onnx_format {

ValueId difference(Body& b, std::size_t x, std::size_t zero, bool rows) {
  OnnxNode& n = b.n;
  const ValueId wide = b.cast(n.required(x), DType::i32);
  if (!n.has(zero)) return wide;
  ValueId z = b.cast(n.input(zero), DType::i32);
  if (rows && n.rank_of(zero).value_or(0) == 1) {
    const auto type = n.type_of(zero);
    if (!type || type->shape[0] != 1) z = b.unsqueeze(z, {1});
  }
  return b.sub(wide, z);
}

DynamicCodes dynamic_codes(Body& b, ValueId x) {
  const ValueId zero = b.number(0.0F), most = b.number(255.0F);
  const ValueId low = b.op("min", {b.reduce("reduce_min", x, {}, false), zero}),
                high = b.op("max", {b.reduce("reduce_max", x, {}, false), zero});
  const ValueId scale = b.div(b.sub(high, low), most);
  const ValueId at = b.op("clip", {b.sub(zero, b.div(low, scale)), zero, most});
  return {scale, b.cast(b.op("round", {at}), DType::u8)};
}

namespace {

// round(sum * (a * b / y)) + zero, held at the ends of the type of `zero`. `along` gives the scales
// the shape in which they meet the sum; the result's axes are moved by `perm`, where it is given.
template <class Along>
void requantize(Body& b, ValueId sum, std::size_t scale_a, std::size_t scale_b, std::size_t scale_y,
                std::size_t zero, const Along& along, const Ints& perm = {}) {
  OnnxNode& n = b.n;
  const auto scale = [&](std::size_t i) { return b.cast(n.required(i), DType::f32); };
  const ValueId factor =
      b.div(b.mul(along(scale(scale_a), 0), along(scale(scale_b), 1)), scale(scale_y));
  const ValueId real = b.mul(b.cast(sum, DType::f32), factor);
  const std::vector<ValueId> in{real, b.number(1.0F), b.reshape(n.required(zero), {})};
  if (perm.empty())
    n.emit("quantize_linear", {}, in, {n.output(0)});
  else
    n.emit("transpose", {{"perm", perm}}, {b.op("quantize_linear", in)}, {n.output(0)});
}

void matmul_integer(OnnxNode& n) {
  Body b(n);
  n.emit("matmul", {}, {difference(b, 0, 2, true), difference(b, 1, 3, false)}, {n.output(0)});
  n.note("MatMulInteger is imported as a matmul of i32 differences");
}

void qlinear_matmul(OnnxNode& n) {
  Body b(n);
  const ValueId sum = b.op("matmul", {difference(b, 0, 2, true), difference(b, 3, 5, false)});
  requantize(b, sum, 1, 4, 6, 7, [&](ValueId s, int operand) {
    const auto type = n.type_of(operand == 0 ? 1 : 4);
    return operand == 0 && type && type->shape.rank() == 1 && type->shape[0] != 1
               ? b.unsqueeze(s, {1})
               : s;
  });
  n.note("QLinearMatMul is imported as a matmul of i32 differences, scaled in f32");
}

Fields conv_fields(OnnxNode& n) {
  Fields f = window_fields(n);
  f.emplace_back("dilations", n.integers("dilations"));
  f.emplace_back("groups", n.integer("group", 1));
  n.ignore("kernel_shape");  // the weight's own extents decide
  return f;
}

void conv_integer(OnnxNode& n) {
  n.emit("conv_integer", conv_fields(n), n.inputs(), {n.output(0)});
}

}  // namespace

void qlinear_conv(OnnxNode& n, bool channels_last) {
  Body b(n);
  const int rank = n.rank_of(3, "along which axis the channels lie");
  Ints channels(static_cast<std::size_t>(rank), 1);
  channels[1] = -1;
  // Weights are mostly symmetric; a zero point of zeros says nothing.
  const Tensor* zero = n.constant(5);
  const auto bytes = zero == nullptr ? std::span<const std::byte>() : zero->bytes();
  const bool symmetric =
      zero != nullptr && std::ranges::all_of(bytes, [](std::byte v) { return v == std::byte{0}; });
  const ValueId x = channels_last ? b.channels_first(n.required(0), rank) : n.required(0);
  ValueId sum =
      b.op("conv_integer", {x, n.required(3), n.required(2), symmetric ? kAbsent : n.required(5)},
           conv_fields(n));
  if (n.has(8)) sum = b.add(sum, b.reshape(n.input(8), channels));
  requantize(
      b, sum, 1, 4, 6, 7,
      [&](ValueId s, int operand) { return b.reshape(s, operand == 0 ? Ints{} : channels); },
      channels_last ? b.to_channels_last(rank) : Ints{});
  n.note("QLinearConv is imported as conv_integer, scaled in f32");
}

namespace {

void dynamic_quantize(OnnxNode& n) {
  Body b(n);
  const DynamicCodes codes = dynamic_codes(b, n.required(0));
  n.emit("quantize_linear", {}, {n.required(0), codes.scale, codes.zero}, {n.output(0)});
  n.give(1, codes.scale);
  n.give(2, codes.zero);
  n.note("DynamicQuantizeLinear is imported as its definition by reduce_min and reduce_max");
}

constexpr TranslatorRow kRows[] = {
    {"MatMulInteger", matmul_integer},
    {"QLinearMatMul", qlinear_matmul},
    {"ConvInteger", conv_integer},
    {"QLinearConv", [](OnnxNode& n) { qlinear_conv(n, false); }},
    {"DynamicQuantizeLinear", dynamic_quantize},
};

}  // namespace

std::span<const TranslatorRow> integer_family() { return kRows; }

}  // namespace etalon::onnx_format
