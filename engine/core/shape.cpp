#include "engine/core/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"

namespace etalon {

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r))
    throw bad_input("the size {} x {} does not fit in 64 bits; the shape cannot be real", a, b);
  return r;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r))
    throw bad_input("the size {} + {} does not fit in 64 bits; the shape cannot be real", a, b);
  return r;
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank)
    throw bad_input("a tensor of rank {} is beyond the {} axes supported here", dims.size(),
                    kMaxRank);
  rank_ = static_cast<int>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) throw bad_input("axis {} has the negative extent {}", i, dims[i]);
    dims_[i] = dims[i];
    // Zero extents must not hide an overflow of the others: strides are products of these too.
    numel_ = checked_mul(numel_, std::max<std::int64_t>(dims[i], 1));
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) numel_ = 0;
}

std::int64_t Shape::dim(int axis) const { return (*this)[normalize_axis(axis, rank_)]; }

std::int64_t Shape::product(int begin, int end) const {
  std::int64_t p = 1;
  for (int i = begin; i < end; ++i) p = checked_mul(p, (*this)[i]);
  return p;
}

Shape Shape::with_dim(int axis, std::int64_t extent) const {
  std::array<std::int64_t, kMaxRank> dims = dims_;
  dims[static_cast<std::size_t>(normalize_axis(axis, rank_))] = extent;
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank_)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims(), ","));
}

int normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw bad_input("axis {} is outside a tensor of rank {}; use {} to {}", axis, rank, -rank,
                    rank - 1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, kMaxRank> dims{};
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const std::int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      throw bad_input("shapes {} and {} do not broadcast: axis {} has {} against {}", to_string(a),
                      to_string(b), i, da, db);
    dims[static_cast<std::size_t>(i)] = da == 1 ? db : da;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

std::array<std::int64_t, kMaxRank> strides_of(const Shape& shape) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= shape[i];
  }
  return strides;
}

std::array<std::int64_t, kMaxRank> broadcast_strides(const Shape& shape, const Shape& to) {
  const auto own = strides_of(shape);
  std::array<std::int64_t, kMaxRank> strides{};
  for (int i = 0; i < to.rank(); ++i) {
    const int j = i - (to.rank() - shape.rank());
    if (j >= 0 && shape[j] != 1)
      strides[static_cast<std::size_t>(i)] = own[static_cast<std::size_t>(j)];
  }
  return strides;
}

}  // namespace etalon
