// Claim: the vector rows of arg_max and arg_min find the places that arg_max.bits and arg_min.bits
// find, over every axis, extents below and above a vector, on one thread and on several; ties, of
// +0 and -0 and of NaN too, go to the first or the last as asked, and the data has such.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

std::vector<std::int64_t> places(const OpCase& c, const std::vector<Tensor>& in,
                                 std::string_view kernel, int threads) {
  const auto p = pointers(in);
  const OpRun run =
      run_op(*c.op, c.params, p, all_kernels(),
             {.contract = Contract(), .threads = threads, .kernels = std::string(kernel)});
  return to_int64_values(run.outputs[0]);
}

}  // namespace

TEST_CASE("arg_max, arg_min: vector rows find the places of the plain ones") {
  int compared = 0, parted = 0;
  for (const char* op : {"arg_max", "arg_min"})
    for (const char* shape : {"1", "9", "16", "1000", "5,3", "7,64", "21,129", "3,17,70", "2,1,9",
                              "40,5,4", "2,3,31,5", "3,200003"})
      for (const char* data : {"", ":special", ":few"}) {
        const bool few = std::string_view(data) == ":few";  // small integers of both signs
        const auto rank = std::ranges::count(std::string_view(shape), ',') + 1;
        for (std::int64_t axis = 0; axis < rank; ++axis) {
          std::vector<std::int64_t> found[2];
          for (const int last : {0, 1}) {
            const OpCase c =
                parse_op_case(fmt::format("a | {} | axis={} select_last_index={} | f32[{}]{}", op,
                                          axis, last != 0, shape, few ? "" : data));
            std::vector<Tensor> in = case_inputs(c);
            if (few)
              for (float& x : in[0].mutable_data<float>()) x = std::trunc(x * 3);
            CAPTURE(c.line);
            found[last] = places(c, in, std::string(op) + ".bits", 1);
            for (const KernelRow* row : all_kernels().rows_of(op)) {
              if (!row->name.starts_with(std::string(op) + ".f32.") || !test::on_this_cpu(*row))
                continue;
              CAPTURE(row->name);
              for (const int threads : {1, 3})
                CHECK(places(c, in, row->name, threads) == found[last]);
              ++compared;
            }
          }
          parted += found[0] != found[1];
        }
      }
  CHECK(parted > 60);  // of 138: there are ties
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 2 * 3 * 23 * 2);
}
