// What one GPU thread does for one slice of a definition (engine/backend/definition.h), and the
// table of definitions that run there. Host and device: a test runs this very text on the CPU over
// every case of tests/op_cases and compares bits, so what only hardware can show is the launch.
//
// Two number systems need no memory beyond registers. Under `seq` an op that rounds each step runs
// over SeqF32: one fused f32 chain, k ascending. Under `exact`, and under every contract where an
// op rounds once, the slice runs over RealF64, balls in f64: the rounding of nearly every output is
// decided there. A slice that is not decided (a function's value too near to a midpoint, a sum with
// too much cancelled) is listed, and the host computes it over the ladder of real.h with the op's
// own CPU definition. No launch geometry enters a result: a slice computes whole outputs.
#pragma once

#include "engine/backend/definition.h"
#include "engine/numerics/seq_f32.h"
#include "kernels/backends/cuda/device_plans.h"
#include "kernels/conv/col2im_definition.h"
#include "kernels/conv/definition.h"
#include "kernels/conv/im2col_definition.h"
#include "kernels/conv/transpose_definition.h"
#include "kernels/conv/winograd_definition.h"
#include "kernels/gemm/definition.h"
#include "kernels/matmul/definition.h"
#include "kernels/normalization/definition.h"
#include "kernels/ordering/cumulative_definition.h"
#include "kernels/pool/definition.h"
#include "kernels/reduce/definition.h"
#include "kernels/softmax/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Definitions of the contract field `algo`; `exact` has none.
template <class D>
inline constexpr bool kConvAlgorithm = false;
template <>
inline constexpr bool kConvAlgorithm<Im2colDefinition> = true;
template <>
inline constexpr bool kConvAlgorithm<WinogradDefinition> = true;

struct DeviceContract {
  bool real = false;  // over RealF64
  DType stored = DType::f32;
  Round round = Round::nearest_even;
  Subnormals subnormals = Subnormals::keep;
};

// The outputs of a call, all f32.
struct DeviceOutputs {
  static constexpr std::size_t kMost = 3;
  float* y[kMost] = {};
};

struct SeqDeviceOut {
  const DeviceOutputs& to;
  ETALON_HD void operator()(int output, std::int64_t index, float value) const {
    to.y[output][index] = canonical(value);
  }
  ETALON_HD void integer(int, std::int64_t, std::int64_t) const {}  // refused before
};

struct RealDeviceOut {
  const DeviceContract& c;
  RealF64& a;
  const DeviceOutputs& to;
  bool undecided = false;
  ETALON_HD void operator()(int output, std::int64_t index, const RealF64::V& value) {
    const Rounded r = a.round(value, c.stored, c.round);
    undecided = undecided || !r.decided;
    to.y[output][index] = canonical(
        static_cast<float>(round_to(r.value, c.stored, Round::nearest_even, c.subnormals)));
  }
  ETALON_HD void integer(int, std::int64_t, std::int64_t) const {}
};

// Computes slice i. False: it is not decided, and what the outputs hold of it means nothing.
template <class D>
ETALON_HD bool device_slice(const DeviceContract& c, const typename DevicePlan<D>::Plan& plan,
                            std::int64_t i, const DeviceOutputs& to) {
  if constexpr (!D::rounded_once) {
    if (!c.real) {
      SeqF32 a;
      SeqDeviceOut out{to};
      D::slice(a, plan, i, out);
      return !a.undecided;
    }
  }
  if constexpr (!kConvAlgorithm<D>) {
    RealF64 a;
    a.rounding = c.round;
    RealDeviceOut out{c, a, to};
    D::slice(a, plan, i, out);
    return !a.undecided && !out.undecided;
  }
  return false;
}

template <class D>
DeviceContract device_contract(const KernelCall& call) {
  const Contract& c = call.contract();
  return {.real = !kConvAlgorithm<D> && (D::rounded_once || c.exact()),
          .stored = size_bytes(c.store) < size_bytes(DType::f32) ? c.store : DType::f32,
          .round = c.round,
          .subnormals = c.subnormals};
}

// Why a GPU has no thread for this; what D itself refuses is common to all its rows.
template <class D>
Refusal refuse_device_definition(const Problem& problem) {
  const Contract& c = *problem.contract;
  Contract sums = c;
  sums.walk = Walk{};
  if constexpr (kConvAlgorithm<D>) {
    constexpr std::string_view kind = std::is_same_v<D, Im2colDefinition> ? "im2col" : "winograd";
    if (!c.algo.starts_with(kind)) return "computes algo=" + std::string(kind);
    sums.algo = "direct";
  } else if (D::op != ConvDefinition::op) {
    sums.algo = "direct";
  }
  if (!c.exact() && !D::rounded_once && !(sums == Contract::seq()))
    return "offers seq and exact, not " + short_name(c);
  if (kConvAlgorithm<D> && c.exact()) return "order=exact has no algorithm";
  if (problem.outputs.size() > DeviceOutputs::kMost) return "computes at most three outputs";
  for (const TensorType& y : problem.outputs)
    if (y.dtype != DType::f32) return "an output is " + std::string(name(y.dtype)) + ", not f32";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && is_floating(problem.input(i).dtype) &&
        problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  return DevicePlan<D>::refuse(problem);
}

// The table: a definition, and the ops it is of where that is more than D::op.
template <class D>
std::vector<std::string_view> device_ops() {
  return {D::op};
}
template <>
inline std::vector<std::string_view> device_ops<ActivationDefinition>() {
  return AllActivations::ops();
}
template <>
inline std::vector<std::string_view> device_ops<ElementwiseDefinition<true>>() {
  return {"add", "sub", "mul", "div", "pow", "mod", "max", "min", "clip"};
}
template <>
inline std::vector<std::string_view> device_ops<ElementwiseDefinition<false>>() {
  return {"sum", "mean"};
}
template <>
inline std::vector<std::string_view> device_ops<ReduceDefinition<true>>() {
  return {"reduce_max", "reduce_min"};
}
template <>
inline std::vector<std::string_view> device_ops<ReduceDefinition<false>>() {
  return {"reduce_sum",        "reduce_mean", "reduce_l1",      "reduce_l2",
          "reduce_sum_square", "reduce_prod", "reduce_log_sum", "reduce_log_sum_exp"};
}

inline DeviceOutputs device_outputs(const KernelCall& call) {
  DeviceOutputs to;
  for (std::size_t o = 0; o < call.outputs.size(); ++o)
    to.y[o] = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(o).bytes().data()));
  return to;
}

// Does a call fall to D?
template <class D>
bool device_takes(const KernelCall& call) {
  for (const std::string_view op : device_ops<D>())
    if (op == call.problem->op->name) return !refuse_device_definition<D>(*call.problem);
  return false;
}

// f.template operator()<D>() for every definition of the table.
template <class F>
void for_each_device_definition(F&& f) {
  f.template operator()<ConvDefinition>();
  f.template operator()<ConvChannelsLastDefinition>();
  f.template operator()<Im2colDefinition>();
  f.template operator()<WinogradDefinition>();
  f.template operator()<ConvTransposeDefinition>();
  f.template operator()<Col2ImDefinition>();
  f.template operator()<GemmDefinition>();
  f.template operator()<MatMulDefinition>();
  f.template operator()<ActivationDefinition>();
  f.template operator()<PreluDefinition>();
  f.template operator()<ElementwiseDefinition<true>>();
  f.template operator()<ElementwiseDefinition<false>>();
  f.template operator()<ReduceDefinition<true>>();
  f.template operator()<ReduceDefinition<false>>();
  f.template operator()<MaxPoolDefinition<false>>();
  f.template operator()<MaxPoolDefinition<true>>();
  f.template operator()<AvgPoolDefinition<false>>();
  f.template operator()<AvgPoolDefinition<true>>();
  f.template operator()<SoftmaxDefinition<false>>();
  f.template operator()<SoftmaxDefinition<true>>();
  f.template operator()<HardmaxDefinition>();
  f.template operator()<BatchNormDefinition>();
  f.template operator()<LrnDefinition>();
  f.template operator()<RowNormDefinition<LayerNorm>>();
  f.template operator()<RowNormDefinition<InstanceNorm>>();
  f.template operator()<RowNormDefinition<GroupNorm>>();
  f.template operator()<RowNormDefinition<MeanVariance>>();
  f.template operator()<RowNormDefinition<RmsNorm>>();
  f.template operator()<CumSumDefinition>();
  f.template operator()<CumProdDefinition>();
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
