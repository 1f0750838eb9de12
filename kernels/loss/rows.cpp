#include "kernels/loss/rows.h"

#include <vector>

#include "kernels/loss/definition.h"
#include "kernels/loss/order_rows.h"

namespace etalon {
namespace {

KernelRow elements(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ElementLossDefinition>(name);
  row.op = op;
  return row;
}

}  // namespace

std::span<const KernelRow> loss_rows() {
  static const KernelRow definitions[] = {
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
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(loss_order_rows().begin(), loss_order_rows().end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
