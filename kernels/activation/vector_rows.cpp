#include "kernels/activation/vector_rows.h"

#include "engine/core/threads.h"
#include "kernels/activation/definition.h"
#include "kernels/activation/lanes.h"
#include "kernels/activation/rows.h"

namespace etalon {
namespace {

template <class F>
float scalar(const void* context, float x) {
  const auto& params = *static_cast<const typename F::Parameters*>(context);
  if (x != x) return float_of(kNanF32);
  return canonical(static_cast<float>(correctly_rounded(
      [&](auto& a) { return F::value(a, params, static_cast<double>(x)); }, DType::f32)));
}

// What a lane function takes from an op's parameters, and which parameters it has no formula for.
template <class P>
LaneParams lane_params(const P& p) {
  LaneParams lanes;
  if constexpr (requires { p.alpha; }) lanes.alpha = static_cast<double>(p.alpha);
  if constexpr (requires { p.gamma; }) lanes.gamma = static_cast<double>(p.gamma);
  return lanes;
}
template <class P>
Refusal refuse_params(const P&) {
  return std::nullopt;
}
template <>
[[maybe_unused]] Refusal refuse_params(const SoftplusParams& p) {
  if (p.beta != 1 || p.threshold < 0x1p127F) return "takes beta=1 and no threshold";
  return std::nullopt;
}
template <>
[[maybe_unused]] Refusal refuse_params(const SiluParams& p) {
  if (p.alpha != 1) return "takes alpha=1";
  return std::nullopt;
}

template <class F>
Refusal refuse(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32)
    return "input 0 is " + std::string(name(problem.input(0).dtype)) + ", this kernel takes f32";
  const Contract& c = *problem.contract;
  if (c.round != Round::nearest_even || c.subnormals != Subnormals::keep ||
      stored_format(DType::f32, c) != DType::f32)
    return "promises store=f32,round=rn,subnormals=keep only";
  return refuse_params(problem.params->as<typename F::Parameters>());
}

template <class F, LaneFunction L, Isa kIsa>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_activation_definition(call);
  const auto& params = call.params<typename F::Parameters>();
  LaneFunction function = L;
  if constexpr (L == LaneFunction::gelu)
    if (params.approximate != GeluForm::none) function = LaneFunction::gelu_tanh;
  const LaneKernel kernel = lane_kernel(kIsa);
  const LaneParams lanes = lane_params(params);
  const LaneFallback fallback{scalar<F>, &params};
  const float* x = call.input(0).template data<float>().data();
  float* y = call.output(0).template mutable_data<float>().data();
  parallel_for(call.input(0).numel(), call.threads, 8192,
               [&](std::int64_t begin, std::int64_t end) {
                 kernel(function, lanes, x + begin, y + begin, end - begin, fallback);
               });
}

template <class F, LaneFunction L, Isa kIsa>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const auto& params = call.params<typename F::Parameters>();
  LaneFunction function = L;
  if constexpr (L == LaneFunction::gelu)
    if (params.approximate != GeluForm::none) function = LaneFunction::gelu_tanh;
  lane_kernel(kIsa)(
      function, lane_params(params), call.input(0).template data<float>().data() + begin,
      call.output(0).template mutable_data<float>().data() + begin, count, {scalar<F>, &params});
}

template <class F, LaneFunction L, Isa kIsa>
KernelRow row(std::string_view name) {
  return {.op = F::op,
          .name = name,
          .isa = kIsa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse<F>,
          .run = run<F, L, kIsa>,
          .run_piece = run_piece<F, L, kIsa>};
}

}  // namespace

const std::vector<KernelRow>& activation_vector_rows() {
#define ETALON_LANE_ROWS(F, L, op)                        \
  row<F, LaneFunction::L, Isa::avx512>(op ".f32.avx512"), \
      row<F, LaneFunction::L, Isa::avx2>(op ".f32.avx2")
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      ETALON_LANE_ROWS(LeakyRelu, leaky_relu, "leaky_relu"),
      ETALON_LANE_ROWS(Elementary<Function::exp>, exp, "exp"),
      ETALON_LANE_ROWS(Elementary<Function::log>, log, "log"),
      ETALON_LANE_ROWS(Elementary<Function::tanh>, tanh, "tanh"),
      ETALON_LANE_ROWS(Elementary<Function::sigmoid>, sigmoid, "sigmoid"),
      ETALON_LANE_ROWS(Elementary<Function::log_sigmoid>, log_sigmoid, "log_sigmoid"),
      ETALON_LANE_ROWS(Elementary<Function::erf>, erf, "erf"),
      ETALON_LANE_ROWS(Softplus, softplus, "softplus"),
      ETALON_LANE_ROWS(Softsign, softsign, "softsign"),
      ETALON_LANE_ROWS(Silu, silu, "silu"),
      ETALON_LANE_ROWS(Gelu, gelu, "gelu"),
      ETALON_LANE_ROWS(Mish, mish, "mish"),
      ETALON_LANE_ROWS(Elu, elu, "elu"),
      ETALON_LANE_ROWS(Selu, selu, "selu"),
#endif
  };
#undef ETALON_LANE_ROWS
  return rows;
}

}  // namespace etalon
