#include "engine/ops/activation.h"

namespace etalon {
namespace {

std::vector<TensorType> same_as_input(const Params&, const InferInputs& in) { return {in.type(0)}; }

}  // namespace

const OpRow& relu_op() {
  static const OpRow row{
      .name = "relu", .summary = "Rectifier: x where x > 0, else +0.", .infer = same_as_input};
  return row;
}

}  // namespace etalon
