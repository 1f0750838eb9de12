// Claim: OpenBLAS's rows compute the definition's function (they promise no bits), name library and
// kernel in their version, and where the library is absent refuse with the package's name.
#include <doctest/doctest.h>

#include <cmath>

#include "bench/shapes.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"

using namespace etalon;

TEST_CASE("OpenBLAS rows agree with the definition within the error of a sum") {
  struct Row {
    const char *op, *kernel, *line;
  };
  const Row rows[] = {
      {"gemm", "openblas.gemm", "a.a f32[7,40] f32[40,13]"},
      {"gemm", "openblas.gemm", "a.b f32[40,7] f32[13,40] f32[13] trans_a=true trans_b=true"},
      {"gemm", "openblas.gemm", "a.c f32[7,40] f32[40,13] f32[7,1] beta=2 alpha=0.5"},
      {"matmul", "openblas.matmul", "a.d f32[5,8] f32[8,6]"},
      {"conv", "openblas.conv.im2col",
       "a.e f32[2,12,9,11] f32[18,4,3,2] f32[18] groups=3 strides=2x1 pads_begin=2x1 "
       "pads_end=0x1 dilations=1x2"},
      {"conv", "openblas.conv.im2col", "a.f f32[2,12,9,11] f32[6,12,1,1]"},
      {"conv", "openblas.conv.im2col", "a.g f32[1,3,6,7,8] f32[4,3,2,3,2] pads_begin=1x0x1"}};
  int compared = 0, absent = 0;
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const NamedShape shape = parse_shape(get_op(row.op), row.line);
    const std::vector<Tensor> inputs = shape_inputs(shape);
    std::vector<const Tensor*> in;
    for (const Tensor& t : inputs) in.push_back(&t);
    for (const int threads : {1, 2}) {
      RunOptions options{.threads = threads};
      const OpRun ours = run_op(*shape.op, shape.params, in, all_kernels(), options);
      options.kernels = row.kernel;
      try {
        const OpRun theirs = run_op(*shape.op, shape.params, in, all_kernels(), options);
        // At most 48 terms below 1, and a bias: off by less than 2 * 49 * 49 * 2^-24.
        const auto a = ours.outputs[0].data<float>(), b = theirs.outputs[0].data<float>();
        for (std::size_t i = 0; i < a.size(); ++i) {
          REQUIRE(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <
                  2 * 49 * 49 * 0x1p-24);
          ++compared;
        }
        CHECK(theirs.kernel->version().starts_with("OpenBLAS 0."));
      } catch (const Error& e) {
        CHECK(std::string(e.what()).find("apt install libopenblas0-pthread") != std::string::npos);
        ++absent;
      }
    }
  }
  CHECK((compared > 1000 || absent == 14));
}
