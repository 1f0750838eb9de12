#include "importers/formats/tflite/quantised.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/scalar.h"

namespace etalon::tflite {
namespace {

bool scaled(const TensorInfo& t) { return !is_floating(t.dtype) && t.quantisation.given(); }

// What a fused activation holds the result to, in the output's own steps.
void limits(Fields& f, const TensorInfo& y, DType dtype, int activation) {
  if (is_floating(dtype))
    throw bad_input("the output '{}' is declared as {}, where integers come out", printable(y.name),
                    name(dtype));
  const auto lowest = dtype == DType::u8 ? 0 : dtype == DType::i16 ? -32768 : -128;
  const auto highest = dtype == DType::u8 ? 255 : dtype == DType::i16 ? 32767 : 127;
  std::int64_t low = lowest, high = highest;
  const auto step = [&](float real) {
    // A scale may be so small that the step lies beyond all integers; the ends hold it then.
    const float steps = std::clamp(real / y.quantisation.scale(), -0x1p30F, 0x1p30F);
    return y.quantisation.zero() + static_cast<std::int64_t>(std::round(steps));
  };
  if (activation == 1 || activation == 3) low = std::max<std::int64_t>(low, step(0));
  if (activation == 2) low = std::max<std::int64_t>(low, step(-1));
  if (activation == 2) high = std::min<std::int64_t>(high, step(1));
  if (activation == 3) high = std::min<std::int64_t>(high, step(6));
  if (activation > 3) throw bad_input("a fused activation {} on integers", activation);
  f.emplace_back("act_min", low);
  f.emplace_back("act_max", high);
}

void weights(Fields& f, const TensorInfo& x, const TensorInfo& w) {
  f.emplace_back("x_scale", x.quantisation.scale());
  f.emplace_back("x_zero", x.quantisation.zero());
  f.emplace_back("w_scales", w.quantisation.scales);
  f.emplace_back("w_zero", w.quantisation.zero());
}

std::string same_or_valid(int padding) { return padding == 0 ? "same_upper" : "valid"; }

ValueId conv(const Quantised& q, bool depthwise) {
  const TensorInfo &x = q.input(0), &w = q.input(1);
  const FlatTable& o = q.op.options;
  const auto act = o.get<std::int8_t>(depthwise ? 4 : 3, 0);
  const int dilation = depthwise ? 5 : 4;
  Fields f{
      {"strides", Ints{o.get<std::int32_t>(2, 1), o.get<std::int32_t>(1, 1)}},
      {"dilations", Ints{o.get<std::int32_t>(dilation + 1, 1), o.get<std::int32_t>(dilation, 1)}},
      {"auto_pad", same_or_valid(o.get<std::int8_t>(0, 0))}};
  const ValueId in = q.g.channels_first(q.in[0]);
  if (q.g.rank(q.in[1]) != 4) throw bad_input("weights of rank {}", q.g.rank(q.in[1]));
  const ValueId weight =
      q.g.transpose(q.name + "/weight", q.in[1], depthwise ? Ints{3, 0, 1, 2} : Ints{0, 3, 1, 2});
  f.emplace_back("groups", q.g.shape(in)[1] / std::max<std::int64_t>(1, q.g.shape(weight)[1]));
  weights(f, x, w);
  limited_output(f, q.output(), act);
  std::vector<ValueId> inputs{in, weight};
  if (q.in.size() > 2 && q.in[2] != kAbsent) inputs.push_back(q.in[2]);
  return q.g.channels_last(q.g.op("tflite_conv", q.name, inputs, f));
}

ValueId fully_connected(const Quantised& q) {
  if (q.op.options.get<std::int8_t>(1, 0) != 0)
    throw bad_input("FULLY_CONNECTED with weights in a shuffled layout is not supported");
  const TensorInfo &x = q.input(0), &w = q.input(1);
  Fields f;
  weights(f, x, w);
  limited_output(f, q.output(), q.op.options.get<std::int8_t>(0, 0));
  ValueId in = q.in[0];
  if (!q.op.options.get<std::uint8_t>(2, 0) && q.g.rank(in) != 2)
    in = q.g.reshape(q.name + "/flat", in, {-1, q.g.shape(q.in[1])[1]});
  std::vector<ValueId> inputs{in, q.in[1]};
  if (q.in.size() > 2 && q.in[2] != kAbsent) inputs.push_back(q.in[2]);
  return q.g.op("tflite_fully_connected", q.name, inputs, f);
}

ValueId binary(const Quantised& q, std::string_view op) {
  const TensorInfo &a = q.input(0), &b = q.input(1);
  Fields f{{"a_scale", a.quantisation.scale()},
           {"a_zero", a.quantisation.zero()},
           {"b_scale", b.quantisation.scale()},
           {"b_zero", b.quantisation.zero()}};
  f.emplace_back("y_scale", q.output().quantisation.scale());
  f.emplace_back("y_zero", q.output().quantisation.zero());
  // TensorFlow Lite gives the result the type of the operands, whatever the file declares.
  limits(f, q.output(), q.g.dtype(q.in[0]), q.op.options.get<std::int8_t>(0, 0));
  return q.g.elementwise(op, q.name, {q.in[0], q.in[1]}, f);
}

ValueId unary(const Quantised& q, std::string_view op, const Fields& more = {}) {
  const TensorInfo& x = q.input(0);
  Fields f = more;
  if (scaled(x)) {
    f.emplace_back("x_scale", x.quantisation.scale());
    f.emplace_back("x_zero", x.quantisation.zero());
  }
  f.emplace_back("y_scale", q.output().quantisation.scale());
  f.emplace_back("y_zero", q.output().quantisation.zero());
  return q.g.elementwise(op, q.name, {q.in[0]}, f);
}

ValueId pool(const Quantised& q, bool max) {
  const FlatTable& o = q.op.options;
  Fields f{{"strides", Ints{o.get<std::int32_t>(2, 1), o.get<std::int32_t>(1, 1)}},
           {"kernel", Ints{o.get<std::int32_t>(4, 1), o.get<std::int32_t>(3, 1)}},
           {"auto_pad", same_or_valid(o.get<std::int8_t>(0, 0))}};
  const auto act = o.get<std::int8_t>(5, 0);
  const ValueId in = q.g.channels_first(q.in[0]);
  if (max) {
    ValueId y = q.g.channels_last(q.g.op("max_pool", q.name, {in}, f));
    if (act != 0) {
      Fields limit;
      limits(limit, q.output(), q.output().dtype, act);
      y = q.g.elementwise("clip", q.name + "/activation", {y},
                          {{"min", static_cast<float>(std::get<std::int64_t>(limit[0].second))},
                           {"max", static_cast<float>(std::get<std::int64_t>(limit[1].second))}});
    }
    return y;
  }
  limits(f, q.output(), q.output().dtype, act);
  return q.g.channels_last(q.g.op("tflite_avg_pool", q.name, {in}, f));
}

// As a convolution: zeros (of the scale) stand between the input's elements and around them, the
// filter is turned round.
ValueId transpose_conv(const Quantised& q) {
  const FlatTable& o = q.op.options;
  const TensorInfo &w = q.input(1), &x = q.input(2);
  const ValueId in = q.g.channels_first(q.in[2]);
  const Tensor* filter = q.g.constant_of(q.in[1]);
  // A free batch is one of the extents that are computed; those of the window count alone.
  const auto [sizes, other] = q.g.known_elements(q.in[0]);
  if (filter == nullptr || filter->shape().rank() != 4)
    throw bad_input("TRANSPOSE_CONV needs constant weights of rank 4");
  if (sizes == nullptr || sizes->numel() != 4)
    throw bad_input("TRANSPOSE_CONV whose output's extents are not constant is not supported");
  if (q.g.rank(in) != 4) throw bad_input("TRANSPOSE_CONV of rank {}", q.g.rank(in));
  const Ints extents = to_int64_values(*sizes), others = to_int64_values(*other);
  const std::int64_t steps[] = {o.get<std::int32_t>(2, 1), o.get<std::int32_t>(1, 1)};
  const auto zero = static_cast<float>(x.quantisation.zero());
  Ints apart{0, 0}, between(12, 0), together{0, 0}, pads(8, 0);
  for (int i = 0; i < 2; ++i) {
    const std::int64_t extent = q.g.shape(in)[2 + i], step = steps[i], k = filter->shape()[1 + i],
                       out = extents[static_cast<std::size_t>(1 + i)];
    if (out != others[static_cast<std::size_t>(1 + i)] ||
        q.g.dims(in)[2 + static_cast<std::size_t>(i)] < 0)
      throw bad_input("TRANSPOSE_CONV of pictures whose extents are free is not supported");
    if (step < 1 || step > 1 << 16 || out < 1 || out > 1 << 24 || k < 1)
      throw bad_input("TRANSPOSE_CONV by {} to {}", step, out);
    // The padding of the convolution that this one turns round.
    const std::int64_t steps_of_it =
        o.get<std::int8_t>(0, 0) == 0 ? (out + step - 1) / step : (out - k + step) / step;
    const std::int64_t padded = std::max<std::int64_t>(0, (steps_of_it - 1) * step + k - out) / 2;
    const auto at = static_cast<std::size_t>(i);
    apart.insert(apart.end(), {extent, 1});
    between[6 + 3 + 2 * at] = step - 1;
    together.push_back(checked_mul(extent, step));
    pads[2 + at] = k - 1 - padded;
    pads[6 + at] = out + k - 1 - pads[2 + at] - together.back();
  }
  ValueId wide = q.g.op("reshape", q.name + "/apart", {in}, {{"shape", apart}});
  wide = q.g.op("pad", q.name + "/between", {wide}, {{"pads", between}, {"value", zero}});
  wide = q.g.op("reshape", q.name + "/together", {wide}, {{"shape", together}});
  wide = q.g.op("pad", q.name + "/around", {wide}, {{"pads", pads}, {"value", zero}});
  Tensor turned = Tensor::uninitialized(filter->dtype(), filter->shape());
  const std::int64_t last = filter->shape()[3], plane = filter->shape()[1] * filter->shape()[2];
  const auto from = filter->bytes();
  const auto to = turned.mutable_bytes();
  for (std::int64_t i = 0; i < filter->numel(); ++i) {
    const std::int64_t c = i % last, p = i / last % plane, n = i / last / plane;
    to[static_cast<std::size_t>((n * plane + plane - 1 - p) * last + c)] =
        from[static_cast<std::size_t>(i)];
  }
  const ValueId weight = q.g.transpose(
      q.name + "/weight", q.g.constant(q.name + "/turned", std::move(turned)), {0, 3, 1, 2});
  Fields f;
  weights(f, x, w);
  limited_output(f, q.output(), o.get<std::int8_t>(3, 0));
  std::vector<ValueId> inputs{wide, weight};
  if (q.in.size() > 3 && q.in[3] != kAbsent) inputs.push_back(q.in[3]);
  return q.g.channels_last(q.g.op("tflite_conv", q.name, inputs, f));
}

ValueId mean(const Quantised& q) {
  const TensorInfo& x = q.input(0);
  const Tensor* axes = q.in.size() > 1 ? q.g.constant_of(q.in[1]) : nullptr;
  if (axes == nullptr) throw bad_input("MEAN over axes that are not constant is not supported");
  return q.g.op("tflite_mean", q.name, {q.in[0]},
                {{"axes", to_int64_values(*axes)},
                 {"keepdims", q.op.options.get<std::uint8_t>(0, 0) != 0},
                 {"x_scale", x.quantisation.scale()},
                 {"x_zero", x.quantisation.zero()},
                 {"y_scale", q.output().quantisation.scale()},
                 {"y_zero", q.output().quantisation.zero()}});
}

ValueId resize_bilinear(const Quantised& q) {
  const Tensor* sizes = q.in.size() > 1 ? q.g.constant_of(q.in[1]) : nullptr;
  if (sizes == nullptr)
    throw bad_input("RESIZE_BILINEAR to extents that are not constant is not supported");
  const FlatTable& o = q.op.options;
  return q.g.channels_last(q.g.op("tflite_resize_bilinear", q.name, {q.g.channels_first(q.in[0])},
                                  {{"sizes", to_int64_values(*sizes)},
                                   {"align_corners", o.get<std::uint8_t>(2, 0) != 0},
                                   {"half_pixel", o.get<std::uint8_t>(3, 0) != 0}}));
}

// Scaled by one factor from the zero point on and by another below it; the factors are formed in
// f32. PRELU's slopes are a tensor.
ValueId leaky(const Quantised& q) {
  const Quantisation &x = q.input(0).quantisation, &y = q.output().quantisation;
  const auto scaled_by = [&](std::string_view part, float factor) {
    return q.g.elementwise(
        "tflite_requantize", q.name + std::string(part), {q.in[0]},
        {{"x_scale", factor}, {"x_zero", x.zero()}, {"y_scale", 1.0F}, {"y_zero", y.zero()}});
  };
  const ValueId above = scaled_by("/above", x.scale() / y.scale());
  ValueId below = kAbsent;
  if (operator_name(q.op.code) == "PRELU") {
    Fields f{{"a_scale", x.scale()},
             {"a_zero", x.zero()},
             {"b_scale", q.input(1).quantisation.scale()},
             {"b_zero", q.input(1).quantisation.zero()}};
    limited_output(f, q.output(), 0);
    below = q.g.elementwise("tflite_mul", q.name + "/below", {q.in[0], q.in[1]}, f);
  } else {
    const float alpha = q.op.options.get<float>(0, 0);
    if (!(alpha > 0)) throw bad_input("LEAKY_RELU with a slope of {} is not supported", alpha);
    below = scaled_by("/below", x.scale() * alpha / y.scale());
  }
  const ValueId zero =
      q.g.constant(q.name + "/zero", scalar_of(q.input(0).dtype, static_cast<double>(x.zero())));
  const ValueId is_below = q.g.elementwise("less", q.name + "/is_below", {q.in[0], zero});
  return q.g.elementwise("where", q.name, {is_below, below, above});
}

// Between equal scales a movement moves the integers; otherwise it asks for more than that.
void same_scale(const Quantised& q, std::size_t i) {
  const TensorInfo& x = q.input(i);
  if (x.quantisation.given() && q.output().quantisation.given() &&
      (x.quantisation.scale() != q.output().quantisation.scale() ||
       x.quantisation.zero() != q.output().quantisation.zero()))
    throw bad_input("{} between different scales has no integer kernel here",
                    operator_name(q.op.code));
}

}  // namespace

void limited_output(Fields& f, const TensorInfo& y, int activation) {
  f.emplace_back("y_scale", y.quantisation.scale());
  f.emplace_back("y_zero", y.quantisation.zero());
  limits(f, y, y.dtype, activation);
}

const TensorInfo& Quantised::input(std::size_t i) const {
  if (i >= op.inputs.size() || op.inputs[i] < 0)
    throw bad_input("{} needs input {}", operator_name(op.code), i);
  return file.tensors[static_cast<std::size_t>(op.inputs[i])];
}

bool is_quantised(const File& file, const OperatorInfo& op) {
  const auto at = [&](std::int32_t i) -> const TensorInfo& {
    return file.tensors[static_cast<std::size_t>(i)];
  };
  if (op.outputs[0] >= 0 && scaled(at(op.outputs[0]))) return true;
  const auto computed = [&](std::size_t i) {
    return i < op.inputs.size() && op.inputs[i] >= 0 && scaled(at(op.inputs[i])) &&
           !at(op.inputs[i]).value;
  };
  return computed(0) || (is_comparison(operator_name(op.code)) && computed(1));
}

ValueId translate_quantised(const Quantised& q) {
  const std::string_view op = operator_name(q.op.code);
  q.g.note(
      "quantised tensors stay integers; real value = scale * (integer - zero point), sums "
      "scaled back by multiplier and shift as TensorFlow Lite's reference kernels do");
  if (op == "DEQUANTIZE") {
    const TensorInfo& x = q.input(0);
    std::vector<ValueId> in{
        q.in[0], q.g.constant(q.name + "/scale", Tensor::of<float>({}, {x.quantisation.scale()}))};
    const std::int64_t zero = x.quantisation.zero();
    if (x.dtype == DType::i8)
      in.push_back(q.g.constant(q.name + "/zero",
                                Tensor::of<std::int8_t>({}, {static_cast<std::int8_t>(zero)})));
    else if (x.dtype == DType::u8)
      in.push_back(q.g.constant(q.name + "/zero",
                                Tensor::of<std::uint8_t>({}, {static_cast<std::uint8_t>(zero)})));
    return q.g.op("dequantize_linear", q.name, in);
  }
  if (op == "QUANTIZE") {
    const bool from_float = is_floating(q.input(0).dtype);
    return unary(q, from_float ? "tflite_quantize" : "tflite_requantize",
                 {{"output_dtype", std::string(name(q.output().dtype))}});
  }
  if (op == "CONV_2D" || op == "DEPTHWISE_CONV_2D") return conv(q, op != "CONV_2D");
  if (op == "FULLY_CONNECTED") return fully_connected(q);
  if (op == "ADD") return binary(q, "tflite_add");
  if (op == "SUB") return binary(q, "tflite_sub");
  if (op == "MUL") return binary(q, "tflite_mul");
  if (op == "AVERAGE_POOL_2D") return pool(q, false);
  if (op == "MAX_POOL_2D") return pool(q, true);
  if (op == "LOGISTIC") return unary(q, "tflite_logistic");
  if (op == "TANH") return unary(q, "tflite_tanh");
  if (op == "SOFTMAX") {
    const TensorInfo& x = q.input(0);
    return q.g.op("tflite_softmax", q.name, {q.in[0]},
                  {{"beta", q.op.options.get<float>(0, 1)},
                   {"output_dtype", std::string(name(q.output().dtype))},
                   {"x_scale", x.quantisation.scale()},
                   {"x_zero", x.quantisation.zero()},
                   {"y_scale", q.output().quantisation.scale()},
                   {"y_zero", q.output().quantisation.zero()}});
  }
  if (op == "RELU" || op == "RELU6" || op == "RELU_N1_TO_1") {
    Fields f{{"x_scale", q.input(0).quantisation.scale()},
             {"x_zero", q.input(0).quantisation.zero()}};
    limited_output(f, q.output(), op == "RELU" ? 1 : op == "RELU6" ? 3 : 2);
    return q.g.elementwise("tflite_requantize", q.name, {q.in[0]}, f);
  }
  if (op == "TRANSPOSE_CONV") return transpose_conv(q);
  if (op == "MEAN") return mean(q);
  if (op == "RESIZE_BILINEAR") return resize_bilinear(q);
  if (op == "LEAKY_RELU" || op == "PRELU") return leaky(q);
  if (op == "UNIDIRECTIONAL_SEQUENCE_LSTM" || op == "LSTM") return quantised_lstm(q);
  if (op == "SVDF") return quantised_svdf(q);
  if (has_table(op)) return looked_up(q);
  if (const auto y = translate_arithmetic(q)) return *y;
  if (op == "RESHAPE" || op == "SQUEEZE" || op == "TRANSPOSE" || op == "CONCATENATION" ||
      op == "PAD" || op == "SLICE" || op == "STRIDED_SLICE" || op == "SPLIT" || op == "GATHER" ||
      op == "SHAPE" || op == "EXPAND_DIMS" || op == "PACK" || op == "UNPACK" || op == "TILE" ||
      op == "ARG_MAX" || op == "RESIZE_NEAREST_NEIGHBOR" || op == "SPACE_TO_DEPTH" ||
      op == "DEPTH_TO_SPACE" || op == "PADV2" || op == "MIRROR_PAD" || op == "REVERSE_V2" ||
      op == "SPACE_TO_BATCH_ND" || op == "BATCH_TO_SPACE_ND" || op == "MAXIMUM" ||
      op == "MINIMUM" || op == "REDUCE_MAX" || op == "REDUCE_MIN" || op == "GATHER_ND" ||
      op == "SPLIT_V" || op == "BROADCAST_TO" || is_comparison(op)) {
    // An input without a scale is of indices or extents.
    if (op != "SHAPE" && op != "ARG_MAX")
      for (std::size_t i = 0; i < q.op.inputs.size(); ++i)
        if (q.op.inputs[i] >= 0) same_scale(q, i);
    return kAbsent;  // moves integers: what the operator means for any type
  }
  throw bad_input("{} on quantised tensors is not supported", op);
}

}  // namespace etalon::tflite
