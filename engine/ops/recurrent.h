// Recurrent cells over a sequence: rnn, gru, lstm.
//
// Inputs, in this sequence (those after r optional): x [T,B,I], w [D,G*H,I], r [D,G*H,H], b
// [D,2*G*H] (for each direction the G*H biases of w, then those of r), sequence_lens [B] (i32 or
// i64), initial_h [D,B,H], and for lstm initial_c [D,B,H] and p [D,3*H] (peepholes, in the order of
// `gates` without the cell's). D = 2 for bidirectional, else 1. Outputs y [T,D,B,H], y_h [D,B,H],
// and for lstm y_c [D,B,H]. With batch_first x is [B,T,I], y [B,T,D,H], and the states are [B,D,H].
// `gates` names the blocks of H rows in w, r and b: rnn "h"; gru a permutation of "zrh" (ONNX;
// PyTorch's r, z, n is "rzh"), lstm one of "iofc" (ONNX; PyTorch's i, f, g, o is "ifco").
//
// With s_q(t) = W_q x_t + R_q h + b_q (both biases), activations f, g, h by name, * elementwise:
//   rnn   h' = f(s_h)
//   gru   z = f(s_z), r = f(s_r);  n = g(W_h x + R_h (r*h) + both biases), or with
//         linear_before_reset n = g(W_h x + wb_h + r*(R_h h + rb_h));  h' = (1 - z)*n + z*h
//   lstm  i = f(s_i + p_i*c), o = f(s_o + p_o*c'), u = g(s_c), f = f(s_f + p_f*c), or with
//         input_forget f = 1 - i;  c' = f*c + i*u;  h' = o*h(c')
// clip > 0 holds the argument of every activation in [-clip, clip], cell_clip > 0 c' in
// [-cell_clip, cell_clip].
//
// A cell is a graph of elementary steps, each rounded once; `exact` rounds each step to the stored
// format, other contracts to acc, and h', c' also to the stored format. Steps:
//   a gate's argument. Contracts: sum in the contract's order over k = the I terms of W, then the H
//     terms of R; then fma(p, c, s) for a peephole, + bias of w, + bias of r, each rounded. exact:
//     the real sum of all of it, rounded once.
//   linear_before_reset: m = sum of the H terms of R, + its bias (exact: one sum); then the sum of
//     the I terms, fma(r, m, s), + bias of w (exact: one sum). r*h is a step of its own otherwise.
//   an activation: its real value, rounded once, under every contract.
//   1 - i. c' = fma(f, c, round(i*u)); h' of gru = fma(round(1 - z), n, round(z*h)). exact: the
//     whole of c' and h' rounded once. h' of lstm: o times the rounded activation.
// So under `exact` the result is not the rounded value of the real recurrence: the truth of a
// network is counted op by op, and here step by step. Its truth is the real value of the last step.
//
// A row b runs over its first sequence_lens[b] steps (backward: from the last of them to the
// first); y is +0 beyond, y_h and y_c are the state after the row's last step (the initial one
// where it has none). Rows do not see each other; the directions are independent. NaN and
// infinities follow the formulas. Activations: Affine (alpha x + beta), Elu, HardSigmoid,
// LeakyRelu, Relu, ScaledTanh (alpha tanh(beta x)), Sigmoid, Softplus, Softsign, Tanh,
// ThresholdedRelu, Identity; by default Sigmoid for f, Tanh for g and h (rnn: Tanh); one list for
// each direction, the forward's first. Those with parameters take them in sequence from
// activation_alpha and activation_beta, then their ops' defaults. Sources: Hochreiter, Schmidhuber
// (Neural Computation 9, 1997); Gers, Schmidhuber (IJCNN 2000, peepholes); Cho et al. (arXiv
// 1406.1078); ONNX RNN-22, GRU-22, LSTM-22.
#pragma once

#include <array>
#include <span>

#include "engine/numerics/host_device.h"
#include "engine/ops/op.h"

namespace etalon {

enum class Direction { forward, reverse, bidirectional };

struct RecurrentParams {
  std::int64_t hidden_size = 0;  // 0: what r says
  Direction direction = Direction::forward;
  std::string gates;
  std::vector<std::string> activations;
  std::vector<float> activation_alpha, activation_beta;
  float clip = 0;
  bool batch_first = false;
  template <class V>
  void visit(V& v) {
    v("hidden_size", hidden_size);
    v("direction", direction, {"forward", "reverse", "bidirectional"});
    v("gates", gates);
    v("activations", activations);
    v("activation_alpha", activation_alpha);
    v("activation_beta", activation_beta);
    v("clip", clip);
    v("batch_first", batch_first);
  }
};

struct RnnParams : RecurrentParams {
  RnnParams() { gates = "h"; }
};

struct GruParams : RecurrentParams {
  bool linear_before_reset = false;
  GruParams() { gates = "zrh"; }
  template <class V>
  void visit(V& v) {
    RecurrentParams::visit(v);
    v("linear_before_reset", linear_before_reset);
  }
};

struct LstmParams : RecurrentParams {
  bool input_forget = false;
  float cell_clip = 0;
  LstmParams() { gates = "iofc"; }
  template <class V>
  void visit(V& v) {
    RecurrentParams::visit(v);
    v("input_forget", input_forget);
    v("cell_clip", cell_clip);
  }
};

enum class CellKind { rnn, gru, lstm };

enum class CellFunction {
  affine,
  elu,
  hard_sigmoid,
  leaky_relu,
  relu,
  scaled_tanh,
  sigmoid,
  softplus,
  softsign,
  tanh,
  thresholded_relu,
  identity
};

struct CellActivation {
  CellFunction function = CellFunction::tanh;
  float alpha = 0, beta = 0;
};

// Extents and strides of one call, checked. Gate q of the cell's own sequence (rnn h; gru z r h;
// lstm i o f c) is block block_of[q] of w, r and b.
struct RecurrentGeometry {
  CellKind kind;
  std::int64_t steps, batch, inputs, hidden, directions, gates;
  std::array<std::int64_t, 4> block_of;
  std::array<std::int64_t, 4> peephole_of;                   // lstm: the block of p, for i, o, f
  std::array<std::array<CellActivation, 3>, 2> activations;  // [direction][f, g, h]
  bool batch_first, starts_reversed;                         // direction=reverse

  ETALON_HD std::int64_t x_at(std::int64_t t, std::int64_t b) const {
    return (batch_first ? b * steps + t : t * batch + b) * inputs;
  }
  ETALON_HD std::int64_t y_at(std::int64_t t, std::int64_t d, std::int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
           hidden;
  }
  ETALON_HD std::int64_t state_at(std::int64_t d, std::int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }
  ETALON_HD bool reversed(std::int64_t d) const { return d == 1 || starts_reversed; }
};

// Inputs 0 to 7 in the sequence above; throws a bad-input Error that names the tensor and what it
// should be.
RecurrentGeometry recurrent_geometry(CellKind kind, const RecurrentParams& params,
                                     const InferInputs& in);

std::span<const OpRow> recurrent_ops();

}  // namespace etalon
