// Numbers drawn evenly from [-scale, scale).
#pragma once

#include "engine/core/philox.h"
#include "engine/core/tensor.h"

namespace etalon::test {

inline Tensor noise(const Shape& shape, std::uint64_t seed, float scale = 1) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) x = scale * random.uniform(i++);
  return t;
}

}  // namespace etalon::test
