// Cases: one op under one set of parameters and inputs, as data. Whatever holds for every op is
// tested over this one list: threads, batch rows, rows against definitions, golden hashes,
// agreement with frameworks. A new op adds lines to a file tests/op_cases/FAMILY.txt and nothing
// else.
//
// A line has four fields, separated by '|'; '#' starts a comment, blank lines are skipped:
//   name | op | parameters | inputs
//   max_pool.ceil | max_pool | kernel=[3,3] strides=[2,2] ceil_mode=true | f32[b2,3,8,9]
// Parameters are those that differ from the op's defaults, as parse_params reads them. Inputs are
// separated by blanks; each is '-' (not given) or a type, then where the elements come from:
//   f32[2,3]            noise: uniform in [-1,1), multiples of 2^-23 (exact in f32)
//   f32[2,3]:positive   uniform in (0,1]
//   f32[2,3]:wild       noise times 2^e, e uniform in -30..30: sums that tell orders apart
//   f32[2,3]:special    noise with NaN, infinities, both zeros and subnormals strewn in
//   f32[2,3]:finite     as special without NaN and infinities
//   f32[2,3]:wide       noise times 20: the reach of saturating functions
//   i64[5]:0..9         uniform integers, both ends included
//   i64[3]=1,-2,7       these elements, row-major; floats may be hexadecimal, nan, inf, -0
// An extent written b2 is the batch: every input that has such an axis is cut along it, and row i
// of the outputs must equal the outputs of row i alone. The outputs' batch axes are found by
// inference. Elements depend on the name of the case and the input's position alone (seed: XXH3 of
// the name), so that a case in another file or another language draws the same numbers.
#pragma once

#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/op.h"

namespace etalon {

struct CaseInput {
  bool given = false;
  TensorType type;
  std::string data = "noise";  // generator, or "=..." for listed elements
  int batch_axis = -1;
};

struct OpCase {
  std::string name;
  const OpRow* op = nullptr;
  Params params;
  std::vector<CaseInput> inputs;
  std::string line;  // as it stands in its file: what reruns it
};

// One line; a usage Error says what is wrong with it.
OpCase parse_op_case(std::string_view line);
// All lines of all files below tests/op_cases, sorted by file; a name that occurs twice is an
// Error.
const std::vector<OpCase>& op_cases();

// The elements of input i; an empty Tensor when it is not given.
Tensor case_input(const OpCase& c, std::size_t i);
std::vector<Tensor> case_inputs(const OpCase& c);
// nullptr where not given: what run_op takes.
std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors);

// Row `index` along `axis`, as a tensor with extent 1 there.
Tensor slice_row(const Tensor& tensor, int axis, std::int64_t index);

}  // namespace etalon
