// Reading indices: i64 or i32, negatives from the end, checked.
#pragma once

#include "engine/core/tensor.h"

namespace etalon {

class Indices {
 public:
  explicit Indices(const Tensor& t)
      : bytes_(t.bytes().data()), wide_(t.dtype() == DType::i64), count_(t.numel()) {}
  // Index i, mapped into [0, extent); bad-input Error otherwise.
  std::int64_t at(std::int64_t i, std::int64_t extent) const {
    const std::int64_t v = wide_ ? reinterpret_cast<const std::int64_t*>(bytes_)[i]
                                 : std::int64_t{reinterpret_cast<const std::int32_t*>(bytes_)[i]};
    if (v < -extent || v >= extent)
      throw bad_input("index {} at place {} is outside an axis of {}; use {} to {}", v, i, extent,
                      -extent, extent - 1);
    return v < 0 ? v + extent : v;
  }
  std::int64_t count() const { return count_; }

 private:
  const std::byte* bytes_;
  bool wide_;
  std::int64_t count_;
};

}  // namespace etalon
