// One phase of a transposed convolution (transpose_phases.h) and what moves between it and the op:
// weights, the input it reads, its outputs.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"
#include "kernels/gemm/order.h"

namespace etalon {

// One remainder of one axis.
struct AxisPhase {
  std::int64_t first_output = 0, stride = 1;  // output of j is first_output + stride j
  std::int64_t j_begin = 0, j_end = 0;        // those that some tap may meet
  std::int64_t first_tap = 0, tap_step = 1, taps = 0, dilation = 1;
  bool turned = false;
  std::int64_t input_begin = 0, input_end = 0;  // of the input as it lies
  std::int64_t pad_begin = 0, pad_end = 0;      // of the convolution
  std::int64_t outputs() const { return std::max<std::int64_t>(0, j_end - j_begin); }
  std::int64_t inputs() const { return input_end - input_begin; }
};

// A phase of all axes, and the convolution that it is.
struct TransposePhase {
  std::array<AxisPhase, kMaxSpatial> axes;
  Params params;
  std::vector<InferInput> inputs;
  std::array<TensorType, 1> output;
  Tensor weights;
  const KernelRow* row = nullptr;  // that computes it; nullptr where `program` says how
  Prepared prepared;
  OrderProgram program;

  std::int64_t outputs() const { return axes[0].outputs() * axes[1].outputs() * axes[2].outputs(); }
  std::int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  Problem problem(const Problem& whole) const {
    static const OpRow& conv = conv_op();
    return {.op = &conv,
            .params = &params,
            .inputs = inputs,
            .outputs = output,
            .contract = whole.contract,
            .device = whole.device,
            .isa = whole.isa};
  }
};

std::vector<TransposePhase> transpose_phases(const Problem& problem,
                                             const ConvTransposeGeometry& g);

// Where each term of the op, in the walk's sequence, stands among the phase's; -1 where it is none.
std::vector<std::int64_t> present_terms(const TransposePhase& p, const ConvTransposeGeometry& g,
                                        const Walk& walk);

// w [C, O/G, kernel] as [O, C/G, the phase's taps].
Tensor phase_weights(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& w);

// The part of x that a phase reads, its axes turned where the phase says so.
Tensor phase_input(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& x,
                   int threads);

// Whether two phases read the same part of x, turned alike.
inline bool reads_as(const TransposePhase& a, const TransposePhase& b) {
  return std::ranges::equal(a.axes, b.axes, [](const AxisPhase& p, const AxisPhase& q) {
    return p.turned == q.turned && p.input_begin == q.input_begin && p.input_end == q.input_end;
  });
}

// A phase's outputs to their places among all.
void place_phase(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& part,
                 Tensor& all, int threads);

}  // namespace etalon
