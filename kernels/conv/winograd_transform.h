// A matrix of fractions times data, over a number system: the one text of Winograd's transforms,
// for definitions and for what prepares weights.
#pragma once

#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"
#include "kernels/conv/winograd_matrices.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The entries of a matrix that are not zero, row by row, in memory that a device can copy.
struct SparseRows {
  int rows = 0, cols = 0;
  int start[kMaxAlpha + 1] = {};
  int column[kMaxAlpha * kMaxAlpha] = {};
  std::int64_t p[kMaxAlpha * kMaxAlpha] = {}, q[kMaxAlpha * kMaxAlpha] = {};

  SparseRows() = default;
  explicit SparseRows(const FractionMatrix& m)
      : rows(static_cast<int>(m.rows)), cols(static_cast<int>(m.cols)) {
    int n = 0;
    for (int i = 0; i < rows; ++i) {
      start[i] = n;
      for (int j = 0; j < cols; ++j) {
        const Fraction& f = m(i, j);
        if (f.is_zero()) continue;
        column[n] = j;
        p[n] = f.p;
        q[n++] = f.q;
      }
    }
    start[rows] = n;
  }
};

// out[i * out_step] = row i of m times in[j * in_step].
template <class A>
ETALON_HD void matrix_times(A& a, const SparseRows& m, const typename A::V* in, int in_step,
                            typename A::V* out, int out_step) {
  for (int i = 0; i < m.rows; ++i) {
    typename A::V s = a.input(0);
    for (int e = m.start[i]; e < m.start[i + 1]; ++e)
      s = a.fma(a.ratio(m.p[e], m.q[e]), in[m.column[e] * in_step], s);
    out[i * out_step] = s;
  }
}

// data [h, w] row-major becomes m data m^T; nullptr leaves an axis as it is. `work` holds the
// largest of the extents met.
template <class A>
ETALON_HD void transform(A& a, const SparseRows* vertical, const SparseRows* horizontal,
                         typename A::V* data, int h, int w, typename A::V* work) {
  const int rows = vertical != nullptr ? vertical->rows : h;
  if (vertical != nullptr)
    for (int j = 0; j < w; ++j) matrix_times(a, *vertical, data + j, w, work + j, w);
  else
    for (int i = 0; i < h * w; ++i) work[i] = data[i];
  const int cols = horizontal != nullptr ? horizontal->rows : w;
  for (int i = 0; i < rows; ++i)
    if (horizontal != nullptr)
      matrix_times(a, *horizontal, work + i * w, 1, data + i * cols, 1);
    else
      for (int j = 0; j < w; ++j) data[i * w + j] = work[i * w + j];
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
