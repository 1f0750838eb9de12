// The exact values of a shape's first sample, which errors are counted from: those of all samples
// would take minutes on a large layer.
//
// Row 0 of the output's first axis is computed alone where the op keeps rows apart, and every input
// that holds a row for each of them is cut to its first: both operands of a sum by element, the
// matrices of a batched product, gemm's c. Of a recurrent layer forward in time row 0 is the first
// step. Elsewhere (softmax along axis 0, an op that says nothing of samples) it is the whole.
#pragma once

#include <string>
#include <vector>

#include "bench/shapes.h"
#include "engine/backend/registry.h"
#include "engine/core/cpu.h"

namespace etalon {

Tensor row_of(const Tensor& t, std::int64_t row);  // [1, ...] of axis 0

// Which inputs hold a row for each row of the output; empty where rows are not known to be kept
// apart, or where there is one.
std::vector<bool> inputs_by_sample(const NamedShape& shape);

struct SampleTruth {
  Tensor exact;              // f64, the first elements of the output; empty where there are none
  std::string none_because;  // set where it is empty
};
SampleTruth truth_of_first_sample(const NamedShape& shape, const std::vector<Tensor>& inputs,
                                  const Registry& registry, Isa isa, int threads);

// Of what was computed against the exact values, in ULP of the correctly rounded f32.
struct UlpError {
  double max = 0, mean = 0;
};
// NaN where NaN is exact is no error, and an infinite one where a number is, as is a number where
// NaN is; so is the wrong infinity. Of the first elements of `got`, as many as are exact.
UlpError error_of(const Tensor& got, const Tensor& exact);

}  // namespace etalon
