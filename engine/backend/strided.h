// Loops over strided operands: broadcasting, transposition, slicing.
//
// All operands share one index space (the dims); operand i advances by stride[i][axis] elements.
// Axes of extent 1 vanish and axes that every operand steps through as one are merged, so that what
// is contiguous arrives as one long row. Which thread takes a row never shows in the bits: an
// element is computed from its own operands alone.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "engine/core/function_ref.h"
#include "engine/core/shape.h"
#include "engine/core/threads.h"
#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Tile views a tensor of rank r as 2r axes.
inline constexpr int kMaxLoopRank = 2 * kMaxRank;

template <std::size_t Operands>
class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, Operands>;

  // Appends an axis inside the ones added before.
  void add_axis(std::int64_t extent, const Offsets& strides) {
    total_ *= extent;
    if (extent == 1) return;
    if (rank_ > 0) {
      bool merges = true;
      for (std::size_t o = 0; o < Operands; ++o)
        merges &= strides_[last()][o] == strides[o] * extent;
      if (merges) {
        dims_[last()] *= extent;
        strides_[last()] = strides;
        return;
      }
    }
    dims_[static_cast<std::size_t>(rank_)] = extent;
    strides_[static_cast<std::size_t>(rank_++)] = strides;
  }

  std::int64_t total() const { return total_; }
  int rank() const { return rank_; }
  std::int64_t dim(int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  const Offsets& strides(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  // Elements of a row, and how far each operand moves from one to the next.
  std::int64_t row() const { return rank_ == 0 ? 1 : dims_[last()]; }
  Offsets step() const { return rank_ == 0 ? Offsets{} : strides_[last()]; }

  // f(offsets, n): n consecutive elements of a row, from these offsets on. Type-erased: one copy of
  // the walk for each number of operands, and a call for each row.
  void run(int threads, FunctionRef<void(const Offsets&, std::int64_t)> f) const {
    if (total_ == 0) return;
    const std::int64_t n = row(), rows = total_ / n;
    // Below this many elements a second thread costs more than it brings.
    constexpr std::int64_t kGrain = 16384;
    if (rows == 1) {
      parallel_for(n, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
        Offsets at{};
        for (std::size_t o = 0; o < Operands; ++o) at[o] = begin * step()[o];
        f(at, end - begin);
      });
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / n);
    parallel_for(rows, threads, grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, kMaxLoopRank> index{};
      Offsets at{};
      std::int64_t rest = begin;
      for (int axis = rank_ - 2; axis >= 0; --axis) {
        const auto a = static_cast<std::size_t>(axis);
        index[a] = rest % dims_[a];
        rest /= dims_[a];
        for (std::size_t o = 0; o < Operands; ++o) at[o] += index[a] * strides_[a][o];
      }
      for (std::int64_t r = begin; r < end; ++r) {
        f(at, n);
        for (int axis = rank_ - 2; axis >= 0; --axis) {
          const auto a = static_cast<std::size_t>(axis);
          for (std::size_t o = 0; o < Operands; ++o) at[o] += strides_[a][o];
          if (++index[a] < dims_[a]) break;
          for (std::size_t o = 0; o < Operands; ++o) at[o] -= index[a] * strides_[a][o];
          index[a] = 0;
        }
      }
    });
  }

 private:
  std::size_t last() const { return static_cast<std::size_t>(rank_ - 1); }
  int rank_ = 0;
  std::int64_t total_ = 1;
  std::array<std::int64_t, kMaxLoopRank> dims_{};
  std::array<Offsets, kMaxLoopRank> strides_{};
};

// The inputs broadcast against the output: operand 0 is the output, operand 1 + i is shapes[i].
template <std::size_t Inputs>
StridedLoop<Inputs + 1> broadcast_loop(const Shape& out, const std::array<Shape, Inputs>& shapes) {
  std::array<std::array<std::int64_t, kMaxRank>, Inputs + 1> strides;
  strides[0] = strides_of(out);
  for (std::size_t i = 0; i < Inputs; ++i) strides[i + 1] = broadcast_strides(shapes[i], out);
  StridedLoop<Inputs + 1> loop;
  for (int axis = 0; axis < out.rank(); ++axis) {
    std::array<std::int64_t, Inputs + 1> s;
    for (std::size_t o = 0; o <= Inputs; ++o) s[o] = strides[o][static_cast<std::size_t>(axis)];
    loop.add_axis(out[axis], s);
  }
  return loop;
}

// What a broadcast operand's elements do over `to`: element i is that at i / inner % extent. A
// scalar has extent 1, a channel's operand the plane for inner, a dense one all for extent. nullopt
// where the axes on which it has more than one element are no neighbours.
struct Repetition {
  std::int64_t inner = 1, extent = 1;
};
inline std::optional<Repetition> repetition(const Shape& of, const Shape& to) {
  Repetition r;
  const auto strides = broadcast_strides(of, to);
  int axis = to.rank() - 1;
  const auto repeats = [&] { return strides[static_cast<std::size_t>(axis)] == 0; };
  for (; axis >= 0 && repeats(); --axis) r.inner *= to[axis];
  for (; axis >= 0 && (to[axis] == 1 || !repeats()); --axis) r.extent *= to[axis];
  for (; axis >= 0; --axis)
    if (to[axis] != 1 && !repeats()) return std::nullopt;
  return r;
}

// Where element `index` (row-major over `shape`) lies under other strides.
ETALON_HD inline std::int64_t strided_offset(std::int64_t index, const Shape& shape,
                                             const std::array<std::int64_t, kMaxRank>& strides) {
  std::int64_t at = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at += index % shape[axis] * strides[static_cast<std::size_t>(axis)];
    index /= shape[axis];
  }
  return at;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
