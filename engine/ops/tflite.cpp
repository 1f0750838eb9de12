#include "engine/ops/tflite.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/matmul.h"
#include "engine/ops/tflite_checks.h"

namespace etalon {
namespace {

using namespace tflite_checks;

void check_weighted(const TfliteConvParams& p, const InferInputs& in, std::int64_t channels) {
  require_quantized(in, 0, "x");
  if (in.dtype(1) != DType::i8 && in.dtype(1) != DType::u8)
    throw bad_input("w must be i8 or u8, got {}", name(in.dtype(1)));
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  check_zero(p.x_zero, in.dtype(0), "x_zero");
  check_zero(p.w_zero, in.dtype(1), "w_zero");
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  for (const float s : p.w_scales)
    if (!(s >= 0)) throw bad_input("w_scales holds {}", s);
  const auto count = static_cast<std::int64_t>(p.w_scales.size());
  if (count != 1 && count != channels)
    throw bad_input("w_scales has {} numbers, expected 1 or {}", count, channels);
  if (!in.has(2)) return;
  if (in.dtype(2) != DType::i32 && in.dtype(2) != DType::i64)
    throw bad_input("the bias must be i32 or i64, got {}", name(in.dtype(2)));
  if (in.shape(2).numel() != channels)
    throw bad_input("the bias must have {} elements, got {}", channels, to_string(in.shape(2)));
}

Types infer_conv(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteConvParams>();
  const ConvGeometry g = conv_geometry(p, in.shape(0), in.shape(1));
  check_weighted(p, in, g.out_channels);
  return {{in.dtype(0), g.output_shape()}};
}

Types infer_fully_connected(const Params& params, const InferInputs& in) {
  const Shape &x = in.shape(0), &w = in.shape(1);
  if (w.rank() != 2) throw bad_input("w must be [O, K], got {}", to_string(w));
  if (x.rank() < 1 || x[x.rank() - 1] != w[1])
    throw bad_input("x {} must end in the {} columns of w", to_string(x), w[1]);
  check_weighted(params.as<TfliteFullyConnectedParams>(), in, w[0]);
  return {{in.dtype(0), x.with_dim(x.rank() - 1, w[0])}};
}

const TfliteBinaryParams& checked_pair(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteBinaryParams>();
  require_quantized(in, 0, "a");
  if (in.dtype(1) != in.dtype(0))
    throw bad_input("a is {} and b {}", name(in.dtype(0)), name(in.dtype(1)));
  check_scale(p.a_scale, "a_scale");
  check_scale(p.b_scale, "b_scale");
  check_scale(p.y_scale, "y_scale");
  check_zero(p.a_zero, in.dtype(0), "a_zero");
  check_zero(p.b_zero, in.dtype(0), "b_zero");
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  return p;
}

Types infer_binary(const Params& params, const InferInputs& in) {
  (void)checked_pair(params, in);
  return {{in.dtype(0), broadcast(in.shape(0), in.shape(1))}};
}

Types infer_avg_pool(const Params& params, const InferInputs& in) {
  require_quantized(in, 0, "x");
  const auto& p = params.as<TfliteAvgPoolParams>();
  return {{in.dtype(0), pool_geometry(p, in.shape(0)).output_shape()}};
}

Types infer_mean(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteMeanParams>();
  require_quantized(in, 0, "x");
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  check_zero(p.x_zero, in.dtype(0), "x_zero");
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  const ReduceGeometry g = reduce_geometry(p, in);
  if (g.reduced.numel() < 1) throw bad_input("the mean of no elements");
  return {{in.dtype(0), g.output}};
}

Types infer_resize(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteResizeParams>();
  const Shape& x = in.shape(0);
  require_quantized(in, 0, "x");
  if (x.rank() != 4 || x[2] < 1 || x[3] < 1)
    throw bad_input("x must be [N,C,H,W], H and W 1 or more, got {}", to_string(x));
  if (p.sizes.size() != 2 || p.sizes[0] < 1 || p.sizes[1] < 1)
    throw bad_input("sizes must be two extents of 1 or more");
  // Weights of 10 bits and products of both axes stay in 64 bits.
  for (const std::int64_t extent : {x[2], x[3], p.sizes[0], p.sizes[1]})
    if (extent > 1 << 20) throw bad_input("an extent of {}; at most 1048576 are resized", extent);
  return {{in.dtype(0), Shape{x[0], x[1], p.sizes[0], p.sizes[1]}}};
}

DType output_type(const TfliteUnaryParams& p, DType otherwise) {
  const DType d = p.output_dtype.empty() ? otherwise : parse_dtype(p.output_dtype);
  if (!is_quantized(d)) throw bad_input("y must be i8, u8 or i16, got {}", name(d));
  return d;
}

Types infer_requantize(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteUnaryParams>();
  if (in.dtype(0) != DType::i32) require_quantized(in, 0, "x");
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  const DType y = p.output_dtype == "i32" ? DType::i32 : output_type(p, in.dtype(0));
  check_zero(p.x_zero, in.dtype(0), "x_zero");
  check_zero(p.y_zero, y, "y_zero");
  return {{y, in.shape(0)}};
}

Types infer_quantize(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteUnaryParams>();
  if (in.dtype(0) != DType::f32) throw bad_input("x must be f32, got {}", name(in.dtype(0)));
  check_scale(p.y_scale, "y_scale");
  const DType y = output_type(p, DType::i8);
  check_zero(p.y_zero, y, "y_zero");
  return {{y, in.shape(0)}};
}

void check_function(const TfliteUnaryParams& p, const InferInputs& in) {
  require_quantized(in, 0, "x");
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  if (in.dtype(0) == DType::i16 &&
      (p.x_zero != 0 || p.y_zero != 0 || std::abs(p.y_scale * 0x1p15F - 1) > 0.001F))
    throw bad_input("i16 of zero points {} and {} onto scale {}; 0, 0 and 2^-15 are defined",
                    p.x_zero, p.y_zero, p.y_scale);
  check_zero(p.x_zero, in.dtype(0), "x_zero");
}

Types infer_function(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteUnaryParams>();
  check_function(p, in);
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  return {in.type(0)};
}

Types infer_softmax(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteUnaryParams>();
  check_function(p, in);
  if (!std::isfinite(p.beta)) throw bad_input("beta is {}", p.beta);
  if (in.dtype(0) != DType::i16) {
    const DType y = output_type(p, in.dtype(0));
    check_zero(p.y_zero, y, "y_zero");
    return {{y, in.shape(0)}};
  }
  const Shape& x = in.shape(0);
  // The sum of the exponentials stays in 32 bits.
  if (x.rank() > 0 && x[x.rank() - 1] > 1 << 16)
    throw bad_input("{} elements; at most 65536 of i16 have a softmax", x[x.rank() - 1]);
  if (!(p.beta > 0)) throw bad_input("beta is {}", p.beta);
  return {in.type(0)};
}

Types infer_interpolate(const Params&, const InferInputs& in) {
  if (in.dtype(0) != DType::i16 || in.dtype(1) != DType::i16 || in.shape(1) != Shape{513})
    throw bad_input("x {} and the table {} must be i16, the latter of 513", to_string(in.type(0)),
                    to_string(in.type(1)));
  return {in.type(0)};
}

void check_eight_bits(DType dtype) {
  if (dtype != DType::i8 && dtype != DType::u8)
    throw bad_input("x must be i8 or u8, got {}", name(dtype));
}

Types infer_batch_matmul(const Params& params, const InferInputs& in) {
  (void)checked_pair(params, in);
  return {{in.dtype(0), matmul_geometry(in.shape(0), in.shape(1)).output}};
}

Types infer_eight_bit_pair(const Params& params, const InferInputs& in) {
  const Types out = infer_binary(params, in);
  check_eight_bits(in.dtype(0));
  return out;
}

Types infer_sum(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteMeanParams>();
  check_eight_bits(in.dtype(0));
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  check_zero(p.x_zero, in.dtype(0), "x_zero");
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  return {{in.dtype(0), reduce_geometry(p, in).output}};
}

Types infer_prod(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteMeanParams>();
  if (in.dtype(0) != DType::i8 && in.dtype(0) != DType::i16)
    throw bad_input("x must be i8 or i16, got {}", name(in.dtype(0)));
  check_scale(p.x_scale, "x_scale");
  check_scale(p.y_scale, "y_scale");
  check_zero(p.x_zero, in.dtype(0), "x_zero");
  check_zero(p.y_zero, in.dtype(0), "y_zero");
  const ReduceGeometry g = reduce_geometry(p, in);
  if (g.reduced.numel() < 1) throw bad_input("the product of no elements");
  // No root of y_scale lies below it and 1: the factor's shift stays in what 64 bits take.
  if (p.x_scale / std::min(p.y_scale, 1.0F) > 8192)
    throw bad_input("a product from the scale {} onto {}", p.x_scale, p.y_scale);
  return {{in.dtype(0), g.output}};
}

Types infer_l2_normalize(const Params& params, const InferInputs& in) {
  check_eight_bits(in.dtype(0));
  check_zero(params.as<TfliteUnaryParams>().x_zero, in.dtype(0), "x_zero");
  const Shape& x = in.shape(0);
  // The sum of squares stays in 32 bits.
  if (x.rank() > 0 && x[x.rank() - 1] > 1 << 15)
    throw bad_input("{} elements; at most 32768 are normalised", x[x.rank() - 1]);
  return {in.type(0)};
}

Types infer_log_softmax(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteUnaryParams>();
  check_eight_bits(in.dtype(0));
  check_scale(p.x_scale, "x_scale");
  if (!(static_cast<double>(p.x_scale) * 0x1p26 > 1))
    throw bad_input("x_scale is {}; fixed point needs more than 2^-26", p.x_scale);
  return {in.type(0)};
}

OpRow weighted(OpRow op) {
  op.max_inputs = 3;
  op.input_names = [] { return Names{"x", "w", "bias"}; };
  return op;
}

OpRow over_axes(OpRow op) {
  op.per_sample = false;  // the batch may be among them
  return op;
}

OpRow tabulated(OpRow op) {
  op.input_names = [] { return Names{"x", "table"}; };
  return op;
}

OpRow binary(OpRow op) {
  op.input_names = [] { return Names{"a", "b"}; };
  return op;
}

}  // namespace

std::span<const OpRow> tflite_ops() {
  static const OpRow rows[] = {
      weighted(row<TfliteConvParams>("tflite_conv", "TensorFlow Lite's quantised convolution.", 2,
                                     infer_conv)),
      weighted(row<TfliteFullyConnectedParams>("tflite_fully_connected",
                                               "TensorFlow Lite's quantised inner products.", 2,
                                               infer_fully_connected)),
      binary(row<TfliteBinaryParams>("tflite_add", "TensorFlow Lite's quantised a + b.", 2,
                                     infer_binary)),
      binary(row<TfliteBinaryParams>("tflite_sub", "TensorFlow Lite's quantised a - b.", 2,
                                     infer_binary)),
      binary(row<TfliteBinaryParams>("tflite_mul", "TensorFlow Lite's quantised a * b.", 2,
                                     infer_binary)),
      row<TfliteAvgPoolParams>("tflite_avg_pool", "TensorFlow Lite's quantised average pool.", 1,
                               infer_avg_pool),
      over_axes(row<TfliteMeanParams>("tflite_mean", "TensorFlow Lite's quantised mean over axes.",
                                      1, infer_mean)),
      row<TfliteResizeParams>("tflite_resize_bilinear",
                              "TensorFlow Lite's quantised bilinear resize.", 1, infer_resize),
      binary(row<TfliteBinaryParams>("tflite_batch_matmul",
                                     "TensorFlow Lite's quantised product of batches.", 2,
                                     infer_batch_matmul)),
      over_axes(row<TfliteMeanParams>("tflite_sum", "TensorFlow Lite's quantised sum over axes.", 1,
                                      infer_sum)),
      over_axes(row<TfliteMeanParams>(
          "tflite_prod", "TensorFlow Lite's quantised product over axes.", 1, infer_prod)),
      binary(row<TfliteBinaryParams>("tflite_squared_difference",
                                     "TensorFlow Lite's quantised (a - b)^2.", 2,
                                     infer_eight_bit_pair)),
      binary(row<TfliteBinaryParams>("tflite_div", "TensorFlow Lite's quantised a / b.", 2,
                                     infer_eight_bit_pair)),
      row<TfliteUnaryParams>("tflite_l2_normalize",
                             "TensorFlow Lite's quantised vectors of length 1.", 1,
                             infer_l2_normalize),
      row<TfliteUnaryParams>("tflite_log_softmax",
                             "TensorFlow Lite's log-softmax of 8-bit numbers.", 1,
                             infer_log_softmax),
      row<TfliteUnaryParams>("tflite_requantize", "From one scale and zero point to another.", 1,
                             infer_requantize),
      row<TfliteUnaryParams>("tflite_quantize", "TensorFlow Lite's quantisation of f32.", 1,
                             infer_quantize),
      row<TfliteUnaryParams>("tflite_softmax", "TensorFlow Lite's quantised softmax.", 1,
                             infer_softmax),
      row<TfliteUnaryParams>("tflite_logistic", "TensorFlow Lite's quantised sigmoid.", 1,
                             infer_function),
      row<TfliteUnaryParams>("tflite_tanh", "TensorFlow Lite's quantised tanh.", 1, infer_function),
      tabulated(row<NoParams>("tflite_interpolate",
                              "A function of 16-bit numbers by a table and lines between.", 2,
                              infer_interpolate)),
  };
  return rows;
}

}  // namespace etalon
