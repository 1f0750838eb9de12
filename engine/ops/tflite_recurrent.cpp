#include "engine/ops/tflite_recurrent.h"

#include "engine/ops/tflite_checks.h"

namespace etalon {
namespace {

using namespace tflite_checks;

Types infer_lstm(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteLstmParams>();
  constexpr DType kTypes[] = {DType::i8,  DType::i8, DType::i8,  DType::i32,
                              DType::i16, DType::i8, DType::i32, DType::i16};
  for (std::size_t i = 0; i < 8; ++i)
    if (in.has(i) && in.dtype(i) != kTypes[i])
      throw bad_input("input {} must be {}, got {}", i, name(kTypes[i]), name(in.dtype(i)));
  const Shape &x = in.shape(0), &w = in.shape(1), &r = in.shape(2);
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
    throw bad_input("x {}, w {} and r {} must be of rank 3", to_string(x), to_string(w),
                    to_string(r));
  const std::int64_t hidden = w[1], outputs = r[2];
  const Shape shapes[] = {x,
                          Shape{4, hidden, x[2]},
                          Shape{4, hidden, outputs},
                          Shape{4, hidden},
                          Shape{3, hidden},
                          Shape{outputs, hidden},
                          Shape{outputs},
                          Shape{4, hidden}};
  for (std::size_t i = 1; i < 8; ++i)
    if (in.has(i) && in.shape(i) != shapes[i])
      throw bad_input("input {} must be {}, got {}", i, to_string(shapes[i]),
                      to_string(in.shape(i)));
  if (!in.has(5) && outputs != hidden)
    throw bad_input("{} outputs of {} units without a projection", outputs, hidden);
  for (const float scale : {p.x_scale, p.y_scale, p.hidden_scale, p.projection_scale})
    check_scale(scale, "a scale");
  if (p.w_scales.size() != 4 || p.r_scales.size() != 4 || p.peephole_scales.size() != 3 ||
      p.gate_scales.size() != 4 || p.norm_scales.size() != 4)
    throw bad_input("four scales of w, r, the gates and norms, three of the peephole are wanted");
  for (const auto* list :
       {&p.w_scales, &p.r_scales, &p.peephole_scales, &p.gate_scales, &p.norm_scales})
    for (const float scale : *list) check_scale(scale, "a scale");
  for (const float scale : p.norm_scales)
    if (scale > 0x1p17F) throw bad_input("a norm on the scale {}; up to 2^17", scale);
  if (p.cell_clip < 0 || p.cell_clip > 32767 || p.projection_clip < 0 || p.projection_clip > 127)
    throw bad_input("clips of {} and {}; a clip is a number of what it holds", p.cell_clip,
                    p.projection_clip);
  check_zero(p.x_zero, DType::i8, "x_zero");
  check_zero(p.y_zero, DType::i8, "y_zero");
  check_zero(p.hidden_zero, DType::i8, "hidden_zero");
  if (p.cell_power < -15 || p.cell_power > -9)
    throw bad_input("a cell on 2^{}; from 2^-15 to 2^-9", p.cell_power);
  return {{DType::i8, Shape{x[0], x[1], outputs}}};
}

Types infer_svdf(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteSvdfParams>();
  for (std::size_t i = 0; i < 2; ++i)
    if (in.dtype(i) != DType::i8)
      throw bad_input("input {} must be i8, got {}", i, name(in.dtype(i)));
  if (in.dtype(2) != DType::i16 && in.dtype(2) != DType::i8)
    throw bad_input("last must be i16 or i8, got {}", name(in.dtype(2)));
  const Shape &x = in.shape(0), &w = in.shape(1);
  if (x.rank() != 2 || w.rank() != 2 || x[1] != w[1])
    throw bad_input("x {} and w {} must be of rank 2 and end alike", to_string(x), to_string(w));
  if (in.shape(2) != Shape{w[0]})
    throw bad_input("last must be {}, got {}", to_string(Shape{w[0]}), to_string(in.shape(2)));
  if (p.rank < 1 || w[0] % p.rank != 0)
    throw bad_input("{} filters for a rank of {}", w[0], p.rank);
  const Shape units{w[0] / p.rank};
  if (in.has(3) && (in.dtype(3) != DType::i32 || in.shape(3) != units))
    throw bad_input("the bias must be i32 {}, got {}", to_string(units), to_string(in.type(3)));
  for (const float scale : {p.x_scale, p.w_scale, p.state_scale, p.time_scale, p.y_scale})
    check_scale(scale, "a scale");
  check_zero(p.x_zero, DType::i8, "x_zero");
  check_zero(p.y_zero, DType::i8, "y_zero");
  check_zero(p.state_zero, DType::i8, "state_zero");
  return {{DType::i8, Shape{x[0], units[0]}}};
}

OpRow lstm(OpRow op) {
  op.max_inputs = 8;
  // Rows are sequences: the batch is the second axis.
  op.per_sample = false;
  op.input_names = [] {
    return Names{"x", "w", "r", "bias", "peephole", "projection", "projection_bias", "norm"};
  };
  return op;
}

OpRow svdf(OpRow op) {
  op.max_inputs = 4;
  op.input_names = [] { return Names{"x", "w", "last", "bias"}; };
  return op;
}

}  // namespace

std::span<const OpRow> tflite_recurrent_ops() {
  static const OpRow rows[] = {
      lstm(row<TfliteLstmParams>("tflite_lstm", "TensorFlow Lite's LSTM of 8 and 16 bits.", 3,
                                 infer_lstm)),
      svdf(row<TfliteSvdfParams>(
          "tflite_svdf", "TensorFlow Lite's filters over time (SVDF) of integers.", 3, infer_svdf)),
  };
  return rows;
}

}  // namespace etalon
