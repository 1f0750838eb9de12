#include "kernels/activation/rows.h"

#include <vector>

#include "kernels/activation/definition.h"
#include "kernels/activation/fast.h"

namespace etalon {
namespace {

KernelRow activation_row(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ActivationDefinition>(name);
  row.op = op;
  return row;
}

}  // namespace

void run_activation_definition(const KernelCall& call) {
  run_definition<ActivationDefinition>(call);
}

void run_prelu_definition(const KernelCall& call) { run_definition<PreluDefinition>(call); }

std::span<const KernelRow> activation_rows() {
  static const KernelRow definitions[] = {
      activation_row("relu", "relu.definition"),
      activation_row("leaky_relu", "leaky_relu.definition"),
      definition_row<PreluDefinition>("prelu.definition"),
      activation_row("thresholded_relu", "thresholded_relu.definition"),
      activation_row("elu", "elu.definition"),
      activation_row("selu", "selu.definition"),
      activation_row("celu", "celu.definition"),
      activation_row("hard_sigmoid", "hard_sigmoid.definition"),
      activation_row("hard_swish", "hard_swish.definition"),
      activation_row("hard_tanh", "hard_tanh.definition"),
      activation_row("softplus", "softplus.definition"),
      activation_row("softsign", "softsign.definition"),
      activation_row("softshrink", "softshrink.definition"),
      activation_row("shrink", "shrink.definition"),
      activation_row("gelu", "gelu.definition"),
      activation_row("silu", "silu.definition"),
      activation_row("mish", "mish.definition"),
      activation_row("sigmoid", "sigmoid.definition"),
      activation_row("log_sigmoid", "log_sigmoid.definition"),
      activation_row("exp", "exp.definition"),
      activation_row("log", "log.definition"),
      activation_row("sqrt", "sqrt.definition"),
      activation_row("reciprocal", "reciprocal.definition"),
      activation_row("rsqrt", "rsqrt.definition"),
      activation_row("sin", "sin.definition"),
      activation_row("cos", "cos.definition"),
      activation_row("tan", "tan.definition"),
      activation_row("asin", "asin.definition"),
      activation_row("acos", "acos.definition"),
      activation_row("atan", "atan.definition"),
      activation_row("sinh", "sinh.definition"),
      activation_row("cosh", "cosh.definition"),
      activation_row("tanh", "tanh.definition"),
      activation_row("asinh", "asinh.definition"),
      activation_row("acosh", "acosh.definition"),
      activation_row("atanh", "atanh.definition"),
      activation_row("erf", "erf.definition"),
      activation_row("exp2", "exp2.definition"),
      activation_row("expm1", "expm1.definition"),
      activation_row("log2", "log2.definition"),
      activation_row("log10", "log10.definition"),
      activation_row("log1p", "log1p.definition"),
      activation_row("cbrt", "cbrt.definition"),
      activation_row("erfc", "erfc.definition"),
      activation_row("abs", "abs.definition"),
      activation_row("neg", "neg.definition"),
      activation_row("sign", "sign.definition"),
      activation_row("floor", "floor.definition"),
      activation_row("ceil", "ceil.definition"),
      activation_row("round", "round.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto fast : {relu_f32_rows(), plain_activation_rows(), prelu_rows()})
      all.insert(all.end(), fast.begin(), fast.end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
