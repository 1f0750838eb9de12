// A constant of one element, of any type: what formats keep as a parameter and ops want as a value.
#pragma once

#include "engine/numerics/element.h"

namespace etalon {

inline Tensor scalar_of(DType dtype, double value) {
  Tensor t = Tensor::uninitialized(dtype, Shape{});
  store_from_double(dtype, t.mutable_bytes().data(), 0, value);
  return t;
}

}  // namespace etalon
