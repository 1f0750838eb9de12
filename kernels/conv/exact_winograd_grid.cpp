#include "kernels/conv/exact_winograd_grid.h"

#include <algorithm>
#include <utility>

namespace etalon {

TileGrid::TileGrid(const ConvGeometry& g, const WinogradForm& f, int lanes, std::int64_t images_,
                   std::int64_t first_row_, std::int64_t last_row)
    : outputs(f.outputs),
      patch(f.patch),
      first_row(first_row_),
      rows(last_row - first_row_),
      columns((g.window.axes[2].out + outputs - 1) / outputs),
      images(images_) {
  vectors = 0;
  const std::pair<bool, bool> dense[] = {{false, false}, {false, true}, {true, true}};
  for (const auto& [dense_rows, dense_columns] : dense) {
    const std::int64_t step = columns + (dense_columns ? 0 : behind()),
                       size = (rows + (dense_rows ? 0 : behind())) * step,
                       lanes_used = (images - 1) * size + (rows - 1) * step + columns,
                       wanted = vector_strips(lanes_used, lanes);
    if (vectors != 0 && 16 * wanted > 15 * vectors) continue;
    apart = step;
    image = size;
    row_arrays = dense_rows ? patch : outputs;
    column_arrays = dense_columns ? patch : outputs;
    count = lanes_used;
    vectors = wanted;
  }
}

ChannelSplit::ChannelSplit(Isa isa, const ConvGeometry& g, std::int64_t stride,
                           const TileGrid& grid)
    : g_(g),
      stride_(stride),
      grid_(grid),
      split_(split_pairs(isa)),
      padded_(static_cast<std::size_t>(grid.height() * grid.width())),
      half_(padded_.size() + static_cast<std::size_t>(g.window.axes[2].in)) {}

void ChannelSplit::run(const float* from, std::int64_t remainder_y, std::int64_t remainder_x,
                       float* to) {
  pad(from, remainder_y, remainder_x);
  const std::int64_t m = grid_.outputs, phase = grid_.phase(), rows = grid_.image / grid_.apart;
  for (std::int64_t i = 0; i < grid_.row_arrays; ++i) {
    const float* image = padded_.data() + i * grid_.width();
    float* arrays = to + i * grid_.column_arrays * phase;
    deal(image, rows, arrays);
    // Columns that lie behind in the first arrays.
    for (std::int64_t j = m; j < grid_.column_arrays; ++j)
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t behind = j / m, there = std::max<std::int64_t>(0, grid_.apart - behind);
        const float* array = arrays + j % m * phase + r * grid_.apart;
        float* row = arrays + j * phase + r * grid_.apart;
        std::copy_n(array + std::min(behind, grid_.apart), there, row);
        for (std::int64_t c = there; c < grid_.apart; ++c)
          row[c] = image[r * m * grid_.width() + c * m + j];
      }
  }
}

void ChannelSplit::pad(const float* from, std::int64_t remainder_y, std::int64_t remainder_x) {
  const WindowAxis &h = g_.window.axes[1], &w = g_.window.axes[2];
  const std::int64_t stride = stride_, width = grid_.width(), begin = remainder_x - w.pad_begin;
  // Column i is the input's i * stride + begin; the first one at x or behind:
  const auto first_from = [&](std::int64_t x) {
    return std::clamp<std::int64_t>((x - begin + stride - 1) / stride, 0, width);
  };
  const std::int64_t first = begin >= 0 ? 0 : first_from(0),
                     last = w.in > begin ? std::max(first, first_from(w.in)) : first;
  for (std::int64_t y = 0; y < grid_.height(); ++y) {
    const std::int64_t iy =
        (grid_.first_row * grid_.outputs + y) * stride + remainder_y - h.pad_begin;
    float* row = padded_.data() + y * width;
    if (iy < 0 || iy >= h.in || first == last) {
      std::fill_n(row, width, 0.0F);
      continue;
    }
    std::fill_n(row, first, 0.0F);
    take(from + iy * w.in + first * stride + begin, last - first, row + first);
    std::fill(row + last, row + width, 0.0F);
  }
}

void ChannelSplit::take(const float* from, std::int64_t count, float* to) {
  const std::int64_t stride = stride_;
  if (stride == 1) {
    std::copy_n(from, count, to);
  } else if (stride % 2 == 0) {
    float* even = stride == 2 ? to : half_.data();
    const std::int64_t evens = stride == 2 ? count : 2 * count - 1;
    split_({.from = from, .rows = 1, .count = 2 * evens - 1, .even = even});
    if (stride == 4) split_({.from = even, .rows = 1, .count = evens, .even = to});
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

void ChannelSplit::deal(const float* image, std::int64_t rows, float* arrays) {
  const std::int64_t m = grid_.outputs, phase = grid_.phase(), apart = grid_.apart,
                     image_row = m * grid_.width();
  if (m == 2) {
    split_({.from = image,
            .from_row = image_row,
            .rows = rows,
            .count = 2 * apart,
            .even = arrays,
            .odd = arrays + phase,
            .to_row = apart});
  } else if (m == 4) {
    float *even = half_.data(), *odd = even + rows * 2 * apart;
    split_({.from = image,
            .from_row = image_row,
            .rows = rows,
            .count = 4 * apart,
            .even = even,
            .odd = odd,
            .to_row = 2 * apart});
    split_({.from = even,
            .from_row = 2 * apart,
            .rows = rows,
            .count = 2 * apart,
            .even = arrays,
            .odd = arrays + 2 * phase,
            .to_row = apart});
    split_({.from = odd,
            .from_row = 2 * apart,
            .rows = rows,
            .count = 2 * apart,
            .even = arrays + phase,
            .odd = arrays + 3 * phase,
            .to_row = apart});
  } else {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < apart; ++i)
        for (std::int64_t j = 0; j < m; ++j)
          arrays[j * phase + r * apart + i] = image[r * image_row + i * m + j];
  }
}

}  // namespace etalon
