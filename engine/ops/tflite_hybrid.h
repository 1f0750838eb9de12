// TensorFlow Lite's hybrid kernels: weights of 8 bits under floating activations, which are made
// 8-bit integers at run time ("dynamic range"). Bit for bit as its reference kernels define them;
// each operation here is f32's and rounds once, unless said.
//
// A run of numbers (a row of the last axis; of a convolution a whole image) is made integers q with
// a scale s and a zero z:
//   not asymmetric: r = max |x|, s = r / 127, z = 0, q = round(x * (127 / r)) held to [-127, 127]
//   asymmetric: a = min(0, least), b = max(0, largest); t = (b - a) / 255 (the difference
//     in f32, all else of t and z in f64), z = -128 - a / t
//     where 128 + |a / t| < 127 + |b / t|, else 127 - b / t, held to [-128, 127] and rounded;
//     s = t in f32, q = round(z + x * (1 / s)) held to [-128, 127]
//   A run of zeros has s = 1, z = 0, q = 0. round: halves away from zero; of NaN it gives 0.
// The sum of w * (q - z) is exact (i32, wraps); w_scales is one number or one for each output.
//   tflite_hybrid_fully_connected
//     x [.., K], w i8 [O,K], bias [O]: bias + sum * (s * w_scale); where x is zeros alone, the
//     bias itself
//   tflite_hybrid_conv
//     x [N,C,spatial], w i8 [O,C/G,kernel], bias [O]: sum * (s * w_scale), or with `in_turn`
//     (sum * w_scale) * s, + bias
//   tflite_hybrid_batch_matmul
//     a [.., M,K] by rows, b i8 [.., K,N] of at most one batch axis: (s * w_scale) * sum, where the
//     sum is that of b * q less z times the sum of b, both made f32, cut to an integer. s and z are
//     those of the row that the reference takes: of the matrix whose number is the sum of the
//     places along a's batch axes, which is another one where a has several
//   tflite_hybrid_rnn
//     x [T,B,I], w i8 [H,I], r i8 [H,H], bias [H]; y [T,B,H]: bias, plus w's part of x, plus r's
//     part of the state, each as above (a step whose x, or state, is zeros alone in every sequence
//     lacks that part); then the activation, which is the state
//   tflite_hybrid_lstm
//     x [T,B,I], w i8 [4,H,I], r i8 [4,H,P], bias [4,H], peephole i8 [3,H] of i, f, o, projection
//     i8 [P,H] and its bias [P]; y [T,B,P], P = H without a projection. A gate: bias, plus w's part
//     of x, plus r's part of the state, plus (peephole * its scale) * cell (for o the new one); i,
//     f, o through the sigmoid, c through the activation. c' = f * c + c_gate * i (coupled:
//     i = 1 - f), held to [-cell_clip, cell_clip] where that is above 0; o * activation(c') is the
//     state, or its projection: bias plus its part, held to [-projection_clip, projection_clip]
//     where that is above 0
// States are zero when a run starts. Sigmoid and tanh are the correctly rounded ones: TensorFlow
// Lite takes Eigen's, whose bits hang on the processor; a last bit there can become a step of 1/127
// in what is made integers after it. Where x holds infinities or NaN, its kernels are undefined.
// Discrete: the contract has no say.
// Sources: tensorflow/lite/kernels/{fully_connected.cc, conv.cc, depthwise_conv.cc,
// batch_matmul.cc, lstm_eval.cc, internal/kernel_utils.cc,
// internal/reference/portable_tensor_utils.cc}.
#pragma once

#include "engine/ops/conv.h"

namespace etalon {

struct TfliteHybridParams {
  std::vector<float> w_scales{1};
  bool asymmetric = false;
  template <class V>
  void visit(V& v) {
    v("w_scales", w_scales);
    v("asymmetric", asymmetric);
  }
};

struct TfliteHybridConvParams : ConvParams {
  std::vector<float> w_scales{1};
  bool asymmetric = false, in_turn = false;
  template <class V>
  void visit(V& v) {
    ConvParams::visit(v);
    v("w_scales", w_scales);
    v("asymmetric", asymmetric);
    v("in_turn", in_turn);
  }
};

enum class HybridActivation { tanh, relu, identity };

struct TfliteHybridRnnParams {
  float w_scale = 1, r_scale = 1;
  HybridActivation activation = HybridActivation::tanh;
  bool asymmetric = false;
  template <class V>
  void visit(V& v) {
    v("w_scale", w_scale);
    v("r_scale", r_scale);
    v("activation", activation, {"tanh", "relu", "identity"});
    v("asymmetric", asymmetric);
  }
};

struct TfliteHybridLstmParams {
  std::vector<float> w_scales{1, 1, 1, 1}, r_scales{1, 1, 1, 1}, peephole_scales{1, 1, 1};
  float projection_scale = 1, cell_clip = 0, projection_clip = 0;
  HybridActivation activation = HybridActivation::tanh;
  bool coupled = false, asymmetric = false;
  template <class V>
  void visit(V& v) {
    v("w_scales", w_scales);
    v("r_scales", r_scales);
    v("peephole_scales", peephole_scales);
    v("projection_scale", projection_scale);
    v("cell_clip", cell_clip);
    v("projection_clip", projection_clip);
    v("activation", activation, {"tanh", "relu", "identity"});
    v("coupled", coupled);
    v("asymmetric", asymmetric);
  }
};

std::span<const OpRow> tflite_hybrid_ops();

}  // namespace etalon
