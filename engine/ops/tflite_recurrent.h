// TensorFlow Lite's recurrent layers of integers, bit for bit as its reference kernels define them;
// `scaled` and the multipliers are those of tflite.h. States are zero when a run starts.
//
//   tflite_lstm
//     x i8 [T,B,I], w i8 [4,H,I], r i8 [4,H,P], bias i32 [4,H], peephole i16 [3,H] of i, f, o
//     (with the cell of before; o with that behind), projection i8 [P,H] and its bias i32 [P],
//     norm i16 [4,H]; y i8 [T,B,P], P = H without a projection; the last five may be absent.
//     Gates stand i, f, c, o, are 16 bits with three before the point (tflite_fixed_point.h): the
//     sum over x and the bias, that over the state, that of the peephole, each scaled by itself
//     (by its scales in f32 / gate_scales), added one by one and held; then `sigmoid`, of c
//     `tanh`. coupled: i = 32767 - f. With a norm the bias is not in that sum; of a gate's values
//     v, n of them: mean = sum 1024 / n, variance = (sum of squares * (2^20 / n) - mean^2) /
//     2^20, a variance below 1 becomes max(1, 10000 norm_scale); (1024 v - mean) scaled by
//     `inverse_root` of it, times norm, plus bias, divided by 1024, halves away from zero, is
//     scaled by norm_scale * 2^12 and held; all divisions cut. The cell is 16 bits on
//     2^cell_power: f * cell / 2^15 + i * c / 2^(30 + cell_power), each to nearest, held, and
//     where cell_clip is not 0 held to [-cell_clip, cell_clip]. What comes out is o * tanh(cell),
//     scaled by 2^-30 / hidden_scale, + hidden_zero; without a projection that is the state and
//     y, else its products scaled by projection_scale * hidden_scale / y_scale in f32, + y_zero,
//     held to [-projection_clip, projection_clip] where that is not 0. (The reference mixes
//     sequences where a peephole meets a projection and P differs from H.)
//   tflite_svdf
//     one step of x i8 [B,I] through w i8 [F,I]: the sum of w * (x - x_zero), scaled by x_scale *
//     w_scale / state_scale in f32 and held to the type of `last` [F] (i16, or i8 as TensorFlow
//     Lite Micro has it: state_zero is added there, and what leaves 8 bits wraps); times `last`,
//     the latest weights over time; `rank` neighbours and the bias i32 [F / rank] are added,
//     scaled by state_scale * time_scale / y_scale in f32, + y_zero. y i8 [B, F / rank]. The
//     weights of earlier times meet a state of zero
//
// Discrete: the contract has no say.
// Sources: tensorflow/lite/kernels/{lstm_eval.cc, internal/reference/svdf.h};
// tensorflow/lite/micro/kernels/svdf_common.cc.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct TfliteLstmParams {
  float x_scale = 1, y_scale = 1, hidden_scale = 1, projection_scale = 1;
  std::int64_t x_zero = 0, y_zero = 0, hidden_zero = 0;
  std::vector<float> w_scales{1, 1, 1, 1}, r_scales{1, 1, 1, 1}, peephole_scales{1, 1, 1};
  std::vector<float> gate_scales{0x1p-12F, 0x1p-12F, 0x1p-12F, 0x1p-12F}, norm_scales{1, 1, 1, 1};
  std::int64_t cell_power = -11;
  std::int64_t cell_clip = 0, projection_clip = 0;
  bool coupled = false;
  template <class V>
  void visit(V& v) {
    v("x_scale", x_scale);
    v("x_zero", x_zero);
    v("y_scale", y_scale);
    v("y_zero", y_zero);
    v("hidden_scale", hidden_scale);
    v("hidden_zero", hidden_zero);
    v("projection_scale", projection_scale);
    v("w_scales", w_scales);
    v("r_scales", r_scales);
    v("peephole_scales", peephole_scales);
    v("gate_scales", gate_scales);
    v("norm_scales", norm_scales);
    v("cell_power", cell_power);
    v("cell_clip", cell_clip);
    v("projection_clip", projection_clip);
    v("coupled", coupled);
  }
};

struct TfliteSvdfParams {
  float x_scale = 1, w_scale = 1, state_scale = 1, time_scale = 1, y_scale = 1;
  std::int64_t x_zero = 0, state_zero = 0, y_zero = 0;
  std::int64_t rank = 1;
  template <class V>
  void visit(V& v) {
    v("x_scale", x_scale);
    v("x_zero", x_zero);
    v("w_scale", w_scale);
    v("state_scale", state_scale);
    v("state_zero", state_zero);
    v("time_scale", time_scale);
    v("y_scale", y_scale);
    v("y_zero", y_zero);
    v("rank", rank);
  }
};

std::span<const OpRow> tflite_recurrent_ops();

}  // namespace etalon
