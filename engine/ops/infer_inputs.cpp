#include "engine/core/error.h"
#include "engine/ops/control.h"
#include "engine/ops/op.h"

namespace etalon {

const TensorType& InferInputs::type(std::size_t i) const {
  if (!has(i)) throw bad_input("input {} is required and was not given", i);
  return inputs_[i].type;
}

const Tensor& InferInputs::constant(std::size_t i) const {
  if (!has(i)) throw bad_input("input {} is required and was not given", i);
  if (inputs_[i].value == nullptr) throw NotConstant{i};
  return *inputs_[i].value;
}

std::vector<TensorType> infer_alone(const OpRow& op, const Params& params,
                                    const InferInputs& inputs) {
  if (is_control(op))
    throw bad_input("{} runs graphs of its own, which an op by itself has not; give a network",
                    op.name);
  try {
    return infer(op, params, inputs);
  } catch (const NotConstant& missing) {
    throw bad_input(
        "the outputs of {} hang on the elements of input {}, and only its type is known; give a "
        "network that holds them",
        op.name, missing.input);
  }
}

}  // namespace etalon
