// The extents of a tensor, row-major, outermost first. Every product is checked: a shape whose
// element count does not fit in int64 cannot be built.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "engine/numerics/host_device.h"

namespace etalon {

inline constexpr int kMaxRank = 8;

// Checked arithmetic on sizes; throws a bad-input Error on overflow.
std::int64_t checked_mul(std::int64_t a, std::int64_t b);
std::int64_t checked_add(std::int64_t a, std::int64_t b);

class Shape {
 public:
  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  ETALON_HD int rank() const { return rank_; }
  ETALON_HD std::int64_t numel() const { return numel_; }
  // dim(-1) is the last extent.
  std::int64_t dim(int axis) const;
  ETALON_HD std::int64_t operator[](int axis) const {
    return dims_[static_cast<std::size_t>(axis)];
  }
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  // Product of the extents in [begin, end).
  std::int64_t product(int begin, int end) const;
  // A copy with one extent changed.
  Shape with_dim(int axis, std::int64_t extent) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
  std::int64_t numel_ = 1;
};

std::string to_string(const Shape& shape);  // "[1,20,24,24]"

// Maps an axis in [-rank, rank) to [0, rank); throws a bad-input Error that names both otherwise.
int normalize_axis(std::int64_t axis, int rank);

// NumPy's rule: extents aligned at the right, equal or 1. Throws a bad-input Error naming both
// shapes.
Shape broadcast(const Shape& a, const Shape& b);

// Row-major strides in elements; with `to` given, an extent of 1 (or a missing axis) that is
// stretched over `to` has stride 0.
std::array<std::int64_t, kMaxRank> strides_of(const Shape& shape);
std::array<std::int64_t, kMaxRank> broadcast_strides(const Shape& shape, const Shape& to);

}  // namespace etalon
