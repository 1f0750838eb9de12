// Regions of images, resampled to a grid of cells, for translators over either kind of graph. All
// extents may hang on the run.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/graph/graph.h"
#include "engine/ops/fields.h"

namespace etalon {

// How a translator writes nodes of one output.
struct Steps {
  std::function<ValueId(std::string_view op, std::vector<ValueId> in, const Fields& fields)> op;
  std::function<ValueId(Tensor value)> constant;
};

struct RegionAlign {
  std::int64_t rows = 1, columns = 1;
  std::int64_t samples = 0;  // of each cell along an axis; 0: as many as pixels lie in a cell
  float scale = 1;           // of the corners: (corner + before) * scale + behind
  float before = 0, behind = 0;
  bool least_one = true;  // a region reaches over a pixel at least
  // Of the samples of a cell: their mean, the largest, or the largest of the four weighted pixels
  // of any.
  enum class Pool { mean, largest, largest_part };
  Pool pool = Pool::mean;
};
// x [N,C,H,W], regions [R,4] as (x, y, x, y), images [R] i64: [R, C, rows, columns]. Samples lie in
// the middle of equal parts of a cell, each between four pixels; more than one pixel outside of the
// image they are 0.
ValueId roi_align(const Steps& steps, ValueId x, ValueId regions, ValueId images,
                  const RegionAlign& how);

}  // namespace etalon
