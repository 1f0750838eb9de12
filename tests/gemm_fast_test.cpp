// Claim: every row of gemm that promises seq gives the bits of the definition, for any transposes,
// scaling, tail, thread count and instruction set. The data is uniform noise, on which the order of
// the sum shows (asserted), with NaN, infinities, -0 and subnormals strewn in.
#include <doctest/doctest.h>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/gemm.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/order_compare.h"
#include "tests/same_bits.h"
#include "tests/special_data.h"

using namespace etalon;
using test::equal_bits;

namespace {

enum class Data { noise, special, tiny };

Tensor make(const Shape& shape, std::uint64_t seed, Data data) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i++);
    if (data == Data::tiny) x *= 0x1p-75F;  // products below the smallest subnormal
    if (data == Data::special) x = test::special(x, test::share(random, i + 1000000));
  }
  return t;
}

Tensor run(const GemmParams& p, std::span<const Tensor* const> in, const char* kernel, Isa isa,
           int threads, const char* contract = "seq") {
  RunOptions options{.contract = Contract::parse(contract), .isa = isa, .threads = threads};
  options.kernels = kernel;
  return std::move(run_op(gemm_op(), Params(p), in, all_kernels(), options).outputs[0]);
}

struct Case {
  std::int64_t m, n, k;
  GemmParams p;
  Shape c;  // rank 8: none
};
const Shape kNone{1, 1, 1, 1, 1, 1, 1, 1};

}  // namespace

TEST_CASE("gemm: every fast row has the bits of the definition") {
  const Case cases[] = {
      {1, 1, 1, {}, kNone},
      {1, 500, 80, {.trans_b = true}, Shape{500}},
      {1, 33, 17, {}, Shape{33}},
      {2, 65, 129, {.trans_a = true}, Shape{1}},
      {7, 49, 31, {.alpha = 0.7F, .beta = -1.3F}, Shape{7, 49}},
      {15, 31, 64, {.alpha = 2.0F, .trans_a = true, .trans_b = true}, Shape{15, 1}},
      {29, 17, 100, {.beta = 0.5F}, Shape{1, 17}},
      {64, 64, 27, {.trans_b = true}, kNone},
      {13, 16, 0, {}, Shape{16}},
      {41, 10, 37, {.trans_b = true}, Shape{10}},
      {15, 29, 50, {}, kNone},
      {19, 7, 1024, {}, Shape{7}},  // rows 4 KiB apart
      {61, 129, 200, {}, kNone},
      // k in blocks, y between them: few rows, many rows, a read step by step, its steps 4 KiB
      // apart, a packed.
      {35, 1024, 600, {}, Shape{1024}},
      {70, 90, 1200, {}, Shape{90}},
      // b packed by the first strip of rows: from far, with a tail and an odd strip of n, few rows
      // and rows for tiles of eight; from near; by both threads of a block.
      {37, 537, 700, {}, Shape{537}},
      {33, 300, 1024, {.alpha = 0.7F, .beta = -1.3F}, Shape{33, 300}},
      {90, 85, 1100, {}, kNone},
      {200, 530, 530, {}, kNone},
      {70, 5, 9000, {}, Shape{70, 5}},
      {130, 20, 2500, {.alpha = 0.7F, .trans_a = true}, Shape{20}},
      {1024, 5, 100, {.beta = 0.5F, .trans_a = true}, Shape{1024, 1}},
      {30, 70, 1100, {.trans_a = true}, kNone},
      // Two and three rows: tails, k in blocks, b as it lies and turned.
      {2, 70, 300, {}, Shape{70}},
      {3, 129, 2100, {.alpha = 0.7F, .beta = -1.3F}, Shape{3, 129}},
      {2, 200, 77, {.trans_b = true}, Shape{2, 1}},
      {3, 67, 4200, {.trans_b = true}, kNone},
      // One column: its rows are the vectors; so few that they are one vector for each thread.
      {1030, 1, 1025, {}, Shape{1030, 1}},
      {37, 1, 2100, {.alpha = 0.7F, .beta = -1.3F}, Shape{37, 1}},
      {33, 1, 300, {.trans_b = true}, Shape{1}},
  };
  int compared = 0;
  for (const Case& c : cases)
    for (const Data data : {Data::noise, Data::special, Data::tiny}) {
      const Tensor a = make(c.p.trans_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1, data);
      const Tensor b = make(c.p.trans_b ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2, data);
      const Tensor bias = c.c == kNone ? Tensor() : make(c.c, 3, data);
      std::vector<const Tensor*> in{&a, &b};
      if (bias) in.push_back(&bias);
      const Tensor want = run(c.p, in, "gemm.definition", detect_isa(), 1);
      for (const KernelRow* row : all_kernels().rows_of("gemm")) {
        if (row->promise != Promise::defined || row->contracts != "seq" || !test::on_this_cpu(*row))
          continue;
        for (const int threads : {1, 2, 3, 7}) {
          CAPTURE(row->name);
          CAPTURE(threads);
          CAPTURE(c.m);
          CAPTURE(c.n);
          CAPTURE(c.k);
          CHECK(equal_bits(run(c.p, in, std::string(row->name).c_str(), detect_isa(), threads),
                           want));
          ++compared;
        }
        // Nothing packed beforehand.
        const std::vector<Tensor> got = test::run_of_variables(*row, gemm_op(), Params(c.p), in,
                                                               {&want, 1}, Contract::parse("seq"));
        CAPTURE(row->name);
        CAPTURE(c.m);
        CHECK(equal_bits(got[0], want));
      }
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 120);
}

TEST_CASE("gemm: the data of this test shows the order of the sum") {
  const Tensor a = make({61, 200}, 1, Data::noise), b = make({200, 129}, 2, Data::noise);
  const Tensor* in[] = {&a, &b};
  const Tensor seq = run({}, in, "", detect_isa(), 1);
  CHECK(!equal_bits(seq, run({}, in, "", detect_isa(), 1, "order=lanes:8")));
  CHECK(!equal_bits(seq, run({}, in, "", detect_isa(), 1, "order=blocks:100")));
}
