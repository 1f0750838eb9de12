// Reuses the memory of dead tensors: a network run allocates the same sizes again and again, and
// fresh pages from the operating system cost more than many kernels.
#pragma once

#include <memory>

#include "engine/core/tensor.h"

namespace etalon {

class TensorPool {
 public:
  TensorPool();
  // As Tensor::uninitialized; the memory returns here when its last handle dies, also after the
  // pool.
  Tensor take(DType dtype, const Shape& shape);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace etalon
