#include "kernels/activation/rows.h"

#include <vector>

#include "kernels/activation/definition.h"
#include "kernels/activation/fast.h"

namespace etalon {

std::span<const KernelRow> activation_rows() {
  static const KernelRow definitions[] = {
      definition_row<ActivationDefinition<Relu>>("relu.definition"),
      definition_row<ActivationDefinition<LeakyRelu>>("leaky_relu.definition"),
      definition_row<PreluDefinition>("prelu.definition"),
      definition_row<ActivationDefinition<ThresholdedRelu>>("thresholded_relu.definition"),
      definition_row<ActivationDefinition<Elu>>("elu.definition"),
      definition_row<ActivationDefinition<Selu>>("selu.definition"),
      definition_row<ActivationDefinition<Celu>>("celu.definition"),
      definition_row<ActivationDefinition<HardSigmoid>>("hard_sigmoid.definition"),
      definition_row<ActivationDefinition<HardSwish>>("hard_swish.definition"),
      definition_row<ActivationDefinition<HardTanh>>("hard_tanh.definition"),
      definition_row<ActivationDefinition<Softplus>>("softplus.definition"),
      definition_row<ActivationDefinition<Softsign>>("softsign.definition"),
      definition_row<ActivationDefinition<Softshrink>>("softshrink.definition"),
      definition_row<ActivationDefinition<Shrink>>("shrink.definition"),
      definition_row<ActivationDefinition<Gelu>>("gelu.definition"),
      definition_row<ActivationDefinition<Silu>>("silu.definition"),
      definition_row<ActivationDefinition<Mish>>("mish.definition"),
      definition_row<ActivationDefinition<Elementary<Function::sigmoid>>>("sigmoid.definition"),
      definition_row<ActivationDefinition<Elementary<Function::log_sigmoid>>>(
          "log_sigmoid.definition"),
      definition_row<ActivationDefinition<Elementary<Function::exp>>>("exp.definition"),
      definition_row<ActivationDefinition<Elementary<Function::log>>>("log.definition"),
      definition_row<ActivationDefinition<Elementary<Function::sqrt>>>("sqrt.definition"),
      definition_row<ActivationDefinition<Elementary<Function::reciprocal>>>(
          "reciprocal.definition"),
      definition_row<ActivationDefinition<Elementary<Function::rsqrt>>>("rsqrt.definition"),
      definition_row<ActivationDefinition<Elementary<Function::sin>>>("sin.definition"),
      definition_row<ActivationDefinition<Elementary<Function::cos>>>("cos.definition"),
      definition_row<ActivationDefinition<Elementary<Function::tan>>>("tan.definition"),
      definition_row<ActivationDefinition<Elementary<Function::asin>>>("asin.definition"),
      definition_row<ActivationDefinition<Elementary<Function::acos>>>("acos.definition"),
      definition_row<ActivationDefinition<Elementary<Function::atan>>>("atan.definition"),
      definition_row<ActivationDefinition<Elementary<Function::sinh>>>("sinh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::cosh>>>("cosh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::tanh>>>("tanh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::asinh>>>("asinh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::acosh>>>("acosh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::atanh>>>("atanh.definition"),
      definition_row<ActivationDefinition<Elementary<Function::erf>>>("erf.definition"),
      definition_row<ActivationDefinition<Abs>>("abs.definition"),
      definition_row<ActivationDefinition<Neg>>("neg.definition"),
      definition_row<ActivationDefinition<Sign>>("sign.definition"),
      definition_row<ActivationDefinition<Floor>>("floor.definition"),
      definition_row<ActivationDefinition<Ceil>>("ceil.definition"),
      definition_row<ActivationDefinition<RoundHalfEven>>("round.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    const std::span<const KernelRow> fast = relu_f32_rows();
    std::vector<KernelRow> all(fast.begin(), fast.end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
