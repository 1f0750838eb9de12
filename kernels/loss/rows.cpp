#include "kernels/loss/rows.h"

#include "kernels/loss/definition.h"

namespace etalon {
namespace {

KernelRow elements(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ElementLossDefinition>(name);
  row.op = op;
  return row;
}

}  // namespace

std::span<const KernelRow> loss_rows() {
  static const KernelRow rows[] = {
      elements("mse_loss", "mse_loss.definition"),
      elements("l1_loss", "l1_loss.definition"),
      elements("huber_loss", "huber_loss.definition"),
      elements("smooth_l1_loss", "smooth_l1_loss.definition"),
      elements("hinge_loss", "hinge_loss.definition"),
      elements("binary_cross_entropy", "binary_cross_entropy.definition"),
      elements("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits.definition"),
      elements("kl_div_loss", "kl_div_loss.definition"),
      definition_row<LabelLossDefinition<false>>("nll_loss.definition"),
      definition_row<LabelLossDefinition<true>>("softmax_cross_entropy.definition"),
  };
  return rows;
}

}  // namespace etalon
