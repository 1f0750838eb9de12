#include "kernels/activation/onednn_eltwise.h"

#include <vector>

#include "engine/ops/activation.h"
#include "kernels/backends/onednn/onednn.h"

namespace etalon {
namespace {

using dnnl::algorithm;

// The algorithm of an op with its two parameters; refused where it has no form for the op's own.
struct Eltwise {
  algorithm kind = algorithm::undef;
  float alpha = 0, beta = 0;
};

Eltwise eltwise_of(const Problem& problem) {
  const std::string_view op = problem.op->name;
  const Params& params = *problem.params;
  if (op == "reciprocal") return {algorithm::eltwise_pow, 1, -1};
  if (op == "rsqrt") return {algorithm::eltwise_pow, 1, -0.5F};
  if (op == "mish") return {algorithm::eltwise_mish};
  if (op == "silu") return {algorithm::eltwise_swish, params.as<SiluParams>().alpha};
  if (op == "elu") return {algorithm::eltwise_elu, params.as<EluParams>().alpha};
  if (op == "leaky_relu") return {algorithm::eltwise_relu, params.as<LeakyReluParams>().alpha};
  if (op == "hard_swish") return {algorithm::eltwise_hardswish, 1.0F / 6, 0.5F};
  if (op == "log_sigmoid") return {algorithm::eltwise_soft_relu, -1};
  if (op == "gelu")
    return {params.as<GeluParams>().approximate == GeluForm::none ? algorithm::eltwise_gelu_erf
                                                                  : algorithm::eltwise_gelu_tanh};
  if (op == "softplus") return {algorithm::eltwise_soft_relu, 1};
  if (op == "hard_sigmoid") {
    const auto& p = params.as<HardSigmoidParams>();
    return {algorithm::eltwise_hardsigmoid, p.alpha, p.beta};
  }
  if (op == "hard_tanh") {
    const auto& p = params.as<HardTanhParams>();
    return {algorithm::eltwise_clip_v2, p.min, p.max};
  }
  throw internal_error("oneDNN's eltwise has no row for {}", op);
}

dnnl::eltwise_forward::primitive_desc describe(const Problem& problem) {
  const Eltwise e = eltwise_of(problem);
  const auto flat = onednn::plain({problem.input(0).shape.numel()});
  return {
      onednn::engine(),    dnnl::prop_kind::forward_inference, e.kind, flat, flat, e.alpha, e.beta,
      onednn::strict_f32()};
}

std::shared_ptr<onednn::Operation> make(const Problem& problem) {
  const auto pd = describe(problem);
  return std::make_shared<onednn::Operation>(
      dnnl::eltwise_forward(pd),
      std::vector<onednn::Operation::Operand>{{DNNL_ARG_SRC, pd.src_desc(), pd.src_desc()}},
      onednn::Operation::Operand{DNNL_ARG_DST, pd.dst_desc(), pd.dst_desc()}, pd.impl_info_str());
}

onednn::Dispatched& dispatched() {
  static onednn::Dispatched d;
  return d;
}

void run(const KernelCall& call) {
  const onednn::WithThreads scope(call.threads);
  const auto fresh = call.prepared == nullptr ? make(*call.problem) : nullptr;
  const auto& op =
      call.prepared == nullptr ? *fresh : *static_cast<const onednn::Operation*>(call.prepared);
  op.run(call);
  dispatched().set(op.implementation());
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = onednn::refuse_cap(problem)) return r;
  if (problem.op->name == "softplus") {
    const auto& p = problem.params->as<SoftplusParams>();
    if (p.beta != 1 || p.threshold < 0x1p127F) return "takes beta=1 and no threshold";
  }
  return onednn::refuse_unless_implemented([&] { describe(problem); });
}

KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .promise = Promise::vendor,
          .contracts = "none",
          .refuse = refuse,
          .run = run,
          .prepare = [](const Problem& problem, int threads) -> Prepared {
            const onednn::WithThreads scope(threads);
            return onednn::guarded("an eltwise function", [&] { return make(problem); });
          },
          .version = [] { return dispatched().version(); }};
}

}  // namespace

std::span<const KernelRow> onednn_eltwise_rows() {
#define ETALON_ONEDNN_ELTWISE(op) row(op, "onednn.eltwise." op)
  static const std::vector<KernelRow> rows = {
      ETALON_ONEDNN_ELTWISE("reciprocal"),   ETALON_ONEDNN_ELTWISE("rsqrt"),
      ETALON_ONEDNN_ELTWISE("mish"),         ETALON_ONEDNN_ELTWISE("silu"),
      ETALON_ONEDNN_ELTWISE("elu"),          ETALON_ONEDNN_ELTWISE("leaky_relu"),
      ETALON_ONEDNN_ELTWISE("hard_swish"),   ETALON_ONEDNN_ELTWISE("gelu"),
      ETALON_ONEDNN_ELTWISE("softplus"),     ETALON_ONEDNN_ELTWISE("log_sigmoid"),
      ETALON_ONEDNN_ELTWISE("hard_sigmoid"), ETALON_ONEDNN_ELTWISE("hard_tanh")};
#undef ETALON_ONEDNN_ELTWISE
  return rows;
}

}  // namespace etalon
