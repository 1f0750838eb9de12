// What a GPU thread runs (kernels/backends/cuda/device_definition.h), run on the CPU: every case of
// tests/op_cases, every contract that the rows offer, has the bits of the op's definition. Slices
// that the device leaves undecided go to the definition here as they do behind a launch.
#include "kernels/backends/cuda/device_definition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

const KernelRow& definition_of(const OpRow& op, const Problem& problem) {
  for (const KernelRow* row : all_kernels().rows_of(op.name))
    if (row->run_slices != nullptr && row->device == Device::cpu &&
        (row->refuse == nullptr || !row->refuse(problem)))
      return *row;
  throw internal_error("no definition of {}", op.name);
}

struct Count {
  std::int64_t ops = 0, cases = 0, slices = 0, undecided = 0;
  for (const auto& [op, count] : by_op) {
    ops += count.cases > 0 ? 1 : 0;
    cases += count.cases;
    slices += count.slices;
    undecided += count.undecided;
  }
  MESSAGE(ops, " ops, ", cases, " cases, ", slices, " slices, ", undecided, " undecided");
  CHECK(ops >= 75);
  CHECK(undecided * 4 < slices);  // the device does the work
}

TEST_CASE("a GPU's thread on the CPU: a sum at a midpoint is left to the host") {
  // 1 + 2^-24, both lost beside 2^100: a ball around the midpoint of two floats.
  Count count;
  compare<ReduceDefinition<false>>(
      parse_op_case("undecided | reduce_sum | axes=[0] | f32[4]=0x1p+100,1,0x1p-24,-0x1p+100"),
      Contract::exact_preset(), count);
  CHECK(count.cases == 1);
  CHECK(count.undecided == 1);
}

TEST_CASE("floating types stand first in the table of types") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    CHECK(is_floating(d) == (info(d).kind == DTypeClass::floating));
  }
}
