#include "engine/core/error.h"
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

}  // namespace etalon
