// Packed operands of a matrix product, and how both are cut into strips.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/threads.h"
#include "kernels/gemm/tile.h"

namespace etalon {

// The broadcast side: `rows` rows in as few strips as the tile allows, all of nearly equal height,
// so that 64 rows are 13+13+13+13+12 and not 14+14+14+14+8; for `parts` that each take as many
// strips, as few as that allows: two take 11+11+10 each. Strip i starts at element first(i) * k.
struct RowStrips {
  std::int64_t rows = 0;
  std::int64_t count = 0;
  RowStrips() = default;
  RowStrips(std::int64_t all_rows, int tile_rows, std::int64_t parts = 1)
      : rows(all_rows), count((all_rows + parts * tile_rows - 1) / (parts * tile_rows) * parts) {}
  std::int64_t first(std::int64_t strip) const { return strip * rows / count; }
  int height(std::int64_t strip) const { return static_cast<int>(first(strip + 1) - first(strip)); }
};

// A matrix in f32 seen as a[row * row_stride + k * k_stride].
struct MatrixView {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 0;
};

// A set of tiles here says lanes and how its operands are packed: TileSet, or ExactProducts for
// f64.

// Packs rows [first, first + count) of `from` as [k][step]; lanes behind count up to fill are zero.
template <class Set, class T>
void pack_rows(const Set& set, const MatrixView& from, std::int64_t first, int count, int fill,
               std::int64_t k, T* to, std::int64_t step) {
  const float* source = from.data + first * from.row_stride;
  if (from.row_stride == 1) {
    // A tile of f64 may have more rows than a vector has lanes.
    for (int r = 0; r < fill; r += set.lanes)
      set.pack_contiguous(source + r, from.k_stride, std::clamp(count - r, 0, set.lanes),
                          std::min(fill - r, set.lanes), k, to + r, step);
  } else if (from.k_stride == 1) {
    set.pack_strided(source, from.row_stride, count, fill, k, to, step);
  } else {
    for (std::int64_t i = 0; i < k; ++i)
      for (int r = 0; r < fill; ++r)
        to[i * step + r] =
            r < count ? static_cast<T>(source[r * from.row_stride + i * from.k_stride]) : T{0};
  }
}

struct NothingMore {
  void operator()(std::int64_t) const {}
};

// All strips of the broadcast side; then(s) after strip s, on its thread.
template <class Set, class T, class Then = NothingMore>
void pack_broadcast(const Set& set, const MatrixView& from, const RowStrips& strips, std::int64_t k,
                    int threads, T* to, const Then& then = {}) {
  parallel_for(strips.count, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const int height = strips.height(s);
      pack_rows(set, from, strips.first(s), height, height, k, to + strips.first(s) * k, height);
      then(s);
    }
  });
}

inline std::int64_t vector_strips(std::int64_t columns, int lanes) {
  return (columns + lanes - 1) / lanes;
}

// All strips of the vector side; strip s is [k][lanes] at to + s * k * lanes. then as above.
template <class Then = NothingMore>
void pack_vector(const TileSet& set, const MatrixView& from, std::int64_t columns, std::int64_t k,
                 int threads, float* to, const Then& then = {}) {
  const std::int64_t strips = vector_strips(columns, set.lanes);
  const std::int64_t whole = columns / set.lanes;
  const std::int64_t group = from.row_stride == 1 ? kWideStrips : 1;
  parallel_for((strips + group - 1) / group, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin * group; s < std::min(strips, end * group);) {
      const std::int64_t first = s * set.lanes;
      float* at = to + first * k;
      const int wide = static_cast<int>(std::min(group, std::max<std::int64_t>(1, whole - s)));
      if (wide > 1) {
        set.pack_wide(from.data + first, from.k_stride, wide, k, at, k * set.lanes);
      } else {
        const int count = static_cast<int>(std::min<std::int64_t>(set.lanes, columns - first));
        pack_rows(set, from, first, count, set.lanes, k, at, set.lanes);
      }
      for (int i = 0; i < wide; ++i) then(s + i);
      s += wide;
    }
  });
}

// The widest tile whose accumulators fit the registers at this height.
inline int widest_tile(const TileSet& set, int height) {
  int w = kMaxTileVectors;
  while (w > 1 && set.max_rows[static_cast<std::size_t>(w)] < height) --w;
  return w;
}

}  // namespace etalon
