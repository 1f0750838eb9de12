#include "engine/ops/tflite_hybrid.h"

#include "engine/ops/matmul.h"
#include "engine/ops/tflite_checks.h"

namespace etalon {
namespace {

using namespace tflite_checks;

void check_types(const InferInputs& in, std::initializer_list<DType> types) {
  std::size_t i = 0;
  for (const DType wanted : types) {
    if (in.has(i) && in.dtype(i) != wanted)
      throw bad_input("input {} must be {}, got {}", i, name(wanted), name(in.dtype(i)));
    ++i;
  }
}

void check_scales(const std::vector<float>& scales, std::int64_t outputs) {
  const auto count = static_cast<std::int64_t>(scales.size());
  if (count != 1 && count != outputs)
    throw bad_input("w_scales has {} numbers, expected 1 or {}", count, outputs);
  for (const float s : scales) check_scale(s, "w_scales");
}

void check_shape(const InferInputs& in, std::size_t i, const Shape& wanted) {
  if (in.has(i) && in.shape(i) != wanted)
    throw bad_input("input {} must be {}, got {}", i, to_string(wanted), to_string(in.shape(i)));
}

Types infer_fully_connected(const Params& params, const InferInputs& in) {
  check_types(in, {DType::f32, DType::i8, DType::f32});
  const Shape &x = in.shape(0), &w = in.shape(1);
  if (w.rank() != 2 || x.rank() < 1 || x[x.rank() - 1] != w[1])
    throw bad_input("x {} must end in the columns of w {}", to_string(x), to_string(w));
  check_shape(in, 2, Shape{w[0]});
  check_scales(params.as<TfliteHybridParams>().w_scales, w[0]);
  return {{DType::f32, x.with_dim(x.rank() - 1, w[0])}};
}

Types infer_conv(const Params& params, const InferInputs& in) {
  check_types(in, {DType::f32, DType::i8, DType::f32});
  const auto& p = params.as<TfliteHybridConvParams>();
  const ConvGeometry g = conv_geometry(p, in.shape(0), in.shape(1));
  check_shape(in, 2, Shape{g.out_channels});
  check_scales(p.w_scales, g.out_channels);
  return {{DType::f32, g.output_shape()}};
}

Types infer_batch_matmul(const Params& params, const InferInputs& in) {
  check_types(in, {DType::f32, DType::i8});
  // With more batch axes of b the kernel takes one matrix's sums for another's.
  if (in.shape(0).rank() < 2 || in.shape(1).rank() < 2 || in.shape(1).rank() > 3)
    throw bad_input("a {} and b {} must be of rank 2 or more, b of 3 at most",
                    to_string(in.shape(0)), to_string(in.shape(1)));
  const MatMulGeometry g = matmul_geometry(in.shape(0), in.shape(1));
  check_scales(params.as<TfliteHybridParams>().w_scales, g.n);
  return {{DType::f32, g.output}};
}

Types infer_rnn(const Params& params, const InferInputs& in) {
  check_types(in, {DType::f32, DType::i8, DType::i8, DType::f32});
  const auto& p = params.as<TfliteHybridRnnParams>();
  const Shape &x = in.shape(0), &w = in.shape(1);
  if (x.rank() != 3 || w.rank() != 2 || w[1] != x[2])
    throw bad_input("x {} and w {} must be [T,B,I] and [H,I]", to_string(x), to_string(w));
  check_shape(in, 2, Shape{w[0], w[0]});
  check_shape(in, 3, Shape{w[0]});
  check_scale(p.w_scale, "w_scale");
  check_scale(p.r_scale, "r_scale");
  return {{DType::f32, Shape{x[0], x[1], w[0]}}};
}

Types infer_lstm(const Params& params, const InferInputs& in) {
  check_types(in, {DType::f32, DType::i8, DType::i8, DType::f32, DType::i8, DType::i8, DType::f32});
  const auto& p = params.as<TfliteHybridLstmParams>();
  const Shape &x = in.shape(0), &w = in.shape(1), &r = in.shape(2);
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
    throw bad_input("x {}, w {} and r {} must be of rank 3", to_string(x), to_string(w),
                    to_string(r));
  const std::int64_t hidden = w[1], outputs = r[2];
  check_shape(in, 1, Shape{4, hidden, x[2]});
  check_shape(in, 2, Shape{4, hidden, outputs});
  check_shape(in, 3, Shape{4, hidden});
  check_shape(in, 4, Shape{3, hidden});
  check_shape(in, 5, Shape{outputs, hidden});
  check_shape(in, 6, Shape{outputs});
  if (!in.has(5) && outputs != hidden)
    throw bad_input("{} outputs of {} units without a projection", outputs, hidden);
  if (p.w_scales.size() != 4 || p.r_scales.size() != 4 || p.peephole_scales.size() != 3)
    throw bad_input("four scales of w and of r, three of the peephole are wanted");
  for (const auto* list : {&p.w_scales, &p.r_scales, &p.peephole_scales})
    for (const float scale : *list) check_scale(scale, "a scale");
  check_scale(p.projection_scale, "projection_scale");
  if (!(p.cell_clip >= 0) || !(p.projection_clip >= 0))
    throw bad_input("clips of {} and {}", p.cell_clip, p.projection_clip);
  return {{DType::f32, Shape{x[0], x[1], outputs}}};
}

// What a row's integers are may hang on all the others.
OpRow hybrid(OpRow op, int most, std::vector<std::string_view> (*names)()) {
  op.max_inputs = most;
  op.per_sample = false;
  op.input_names = names;
  return op;
}

}  // namespace

std::span<const OpRow> tflite_hybrid_ops() {
  static const OpRow rows[] = {
      hybrid(row<TfliteHybridParams>("tflite_hybrid_fully_connected",
                                     "TensorFlow Lite's inner products with 8-bit weights.", 2,
                                     infer_fully_connected),
             3, [] { return Names{"x", "w", "bias"}; }),
      hybrid(row<TfliteHybridConvParams>("tflite_hybrid_conv",
                                         "TensorFlow Lite's convolution with 8-bit weights.", 2,
                                         infer_conv),
             3, [] { return Names{"x", "w", "bias"}; }),
      hybrid(row<TfliteHybridParams>("tflite_hybrid_batch_matmul",
                                     "TensorFlow Lite's product of batches with 8-bit weights.", 2,
                                     infer_batch_matmul),
             2, [] { return Names{"a", "b"}; }),
      hybrid(row<TfliteHybridRnnParams>("tflite_hybrid_rnn",
                                        "TensorFlow Lite's recurrent layer with 8-bit weights.", 3,
                                        infer_rnn),
             4, [] { return Names{"x", "w", "r", "bias"}; }),
      hybrid(
          row<TfliteHybridLstmParams>("tflite_hybrid_lstm",
                                      "TensorFlow Lite's LSTM with 8-bit weights.", 4, infer_lstm),
          7,
          [] { return Names{"x", "w", "r", "bias", "peephole", "projection", "projection_bias"}; }),
  };
  return rows;
}

}  // namespace etalon
