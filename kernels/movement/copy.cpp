#include "kernels/movement/copy.h"

#include <cstring>

#include "engine/core/visit_width.h"
#include "kernels/movement/fill_run.h"

namespace etalon {
namespace {

// The axis along which the source is contiguous while the destination's row is not; -1 for none.
int transposed_axis(const StridedLoop<2>& loop) {
  const auto step = loop.step();
  if (loop.rank() < 2 || step[0] != 1 || step[1] == 1 || step[1] == 0) return -1;
  for (int axis = 0; axis + 1 < loop.rank(); ++axis)
    if (loop.strides(axis)[1] == 1) return axis;
  return -1;
}

// Few rows, such as the planes of an image, to columns that lie close: kRows elements each.
constexpr int kFewRows = 4;
template <int kRows, class U>
void interleave(U* to, const U* from, std::int64_t from_stride, std::int64_t count) {
  std::int64_t j = 0;
  if constexpr (kRows == 3 && sizeof(U) == 4) {
    using Vector [[gnu::vector_size(16)]] = std::uint32_t;
    constexpr int kLanes = 4;
    for (; j + kLanes <= count; j += kLanes) {
      Vector a, b, c;
      std::memcpy(&a, from + j, sizeof(Vector));
      std::memcpy(&b, from + j + from_stride, sizeof(Vector));
      std::memcpy(&c, from + j + 2 * from_stride, sizeof(Vector));
      const Vector ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Vector bc = __builtin_shufflevector(b, c, 1, 5, 2, 6);
      const Vector ca = __builtin_shufflevector(c, a, 2, 7, 3, 3);
      const Vector columns[kRows] = {__builtin_shufflevector(ab, c, 0, 1, 4, 2),
                                     __builtin_shufflevector(bc, a, 0, 1, 6, 2),
                                     __builtin_shufflevector(ca, b, 0, 1, 7, 2)};
      std::memcpy(to + kRows * j, columns, sizeof columns);
    }
  }
  for (; j < count; ++j)
    for (int i = 0; i < kRows; ++i) to[kRows * j + i] = from[j + i * from_stride];
}

// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
template <class U>
void turn_tile(U* to, std::int64_t to_stride, const U* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns) {
  std::int64_t turned_rows = 0, turned_columns = 0;
  if constexpr (sizeof(U) == 4) {
    using Vector [[gnu::vector_size(16)]] = std::uint32_t;
    constexpr int kLanes = 4;
    turned_rows = rows - rows % kLanes;
    turned_columns = columns - columns % kLanes;
    for (std::int64_t j = 0; j < turned_columns; j += kLanes)
      for (std::int64_t i = 0; i < turned_rows; i += kLanes) {
        // One by one: a loop would put the vectors into memory.
        const U* row = from + i * from_stride + j;
        const auto load = [&](int r) {
          Vector v;
          std::memcpy(&v, row + r * from_stride, sizeof(Vector));
          return v;
        };
        const Vector r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
        const Vector a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
        const Vector b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        const Vector c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const Vector d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        U* column = to + j * to_stride + i;
        const auto store = [&](int r, Vector v) {
          std::memcpy(column + r * to_stride, &v, sizeof(Vector));
        };
        store(0, __builtin_shufflevector(a, b, 0, 1, 4, 5));
        store(1, __builtin_shufflevector(a, b, 2, 3, 6, 7));
        store(2, __builtin_shufflevector(c, d, 0, 1, 4, 5));
        store(3, __builtin_shufflevector(c, d, 2, 3, 6, 7));
      }
  }
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = j < turned_columns ? turned_rows : 0; i < rows; ++i)
      to[j * to_stride + i] = from[i * from_stride + j];
}

template <class U>
void copy_transposed(const StridedLoop<2>& loop, int across, U* to, const U* from, int threads) {
  // 32 x 32 elements of 4 bytes: two tiles fit in the L1 cache together.
  constexpr std::int64_t kTile = 32, kFewRowsTile = 1024;
  const std::int64_t n = loop.row(), m = loop.dim(across);
  const std::int64_t to_stride = loop.strides(across)[0], from_stride = loop.step()[1];
  const bool few = to_stride == n && n > 1 && n <= kFewRows;
  const std::int64_t tile = few ? kFewRowsTile : kTile;
  const std::int64_t strips = (m + tile - 1) / tile, outer = loop.total() / (n * m);
  parallel_for(outer * strips, threads, std::max<std::int64_t>(1, 16384 / (tile * n)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   std::int64_t rest = t / strips, d = 0, s = 0;
                   for (int axis = loop.rank() - 2; axis >= 0; --axis) {
                     if (axis == across) continue;
                     const std::int64_t i = rest % loop.dim(axis);
                     rest /= loop.dim(axis);
                     d += i * loop.strides(axis)[0];
                     s += i * loop.strides(axis)[1];
                   }
                   const std::int64_t j0 = t % strips * tile, j1 = std::min(m, j0 + tile);
                   if (few) {
                     U* columns = to + d + j0 * n;
                     const U* rows = from + s + j0;
                     if (n == 2) interleave<2>(columns, rows, from_stride, j1 - j0);
                     if (n == 3) interleave<3>(columns, rows, from_stride, j1 - j0);
                     if (n == 4) interleave<4>(columns, rows, from_stride, j1 - j0);
                     continue;
                   }
                   for (std::int64_t i0 = 0; i0 < n; i0 += kTile) {
                     turn_tile(to + d + j0 * to_stride + i0, to_stride,
                               from + s + i0 * from_stride + j0, from_stride,
                               std::min(n, i0 + kTile) - i0, j1 - j0);
                   }
                 }
               });
}

}  // namespace

void copy_strided(const StridedLoop<2>& loop, int element_bytes, std::byte* to,
                  const std::byte* from, int threads) {
  if (loop.total() == 0) return;
  visit_width(element_bytes, [&](auto zero) {
    using U = decltype(zero);
    auto* t = reinterpret_cast<U*>(to);
    const auto* f = reinterpret_cast<const U*>(from);
    if (const int across = transposed_axis(loop); across >= 0)
      return copy_transposed(loop, across, t, f, threads);
    const auto step = loop.step();
    loop.run(threads, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
      U* d = t + at[0];
      const U* s = f + at[1];
      if (step[0] == 1 && step[1] == 1) {
        std::memcpy(d, s, static_cast<std::size_t>(n) * sizeof(U));
      } else if (step[0] == 1 && step[1] == 0) {
        fill_run(d, n, *s);
      } else {
        for (std::int64_t i = 0; i < n; ++i) d[i * step[0]] = s[i * step[1]];
      }
    });
  });
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, int threads) {
  parallel_for(static_cast<std::int64_t>(bytes), threads, 1 << 18,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
}

void fill_elements(std::byte* to, std::int64_t count, const std::byte* value, int element_bytes) {
  visit_width(element_bytes, [&](auto zero) {
    using U = decltype(zero);
    U v{};
    std::memcpy(&v, value, sizeof(U));
    fill_run(reinterpret_cast<U*>(to), count, v);
  });
}

}  // namespace etalon
