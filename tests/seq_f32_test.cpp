// SeqF32 is what a GPU thread runs: held equal to the contract's own arithmetic, bit for bit.
#include "engine/numerics/seq_f32.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "kernels/conv/definition.h"
#include "kernels/gemm/definition.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

struct PlainOut {
  std::vector<float>& y;
  void operator()(int, std::int64_t i, float v) const {
    y[static_cast<std::size_t>(i)] = canonical(v);
  }
};

// Noise with infinities, NaN, -0 and subnormals strewn in.
Tensor hostile(const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 1};
  const float inf = std::numeric_limits<float>::infinity();
  const float special[] = {inf, -inf, float_of(0x7fc12345U), -0.0F, 0x1p-149F, 0x1p-120F};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const std::uint32_t pick = random.word(i) % 97;
    x = pick < 6 ? special[pick] : random.uniform(i + 1000000);
    ++i;
  }
  return t;
}

template <class D>
void check_equal(const OpRow& op, const Params& params, std::vector<const Tensor*> in) {
  const Contract seq = Contract::seq();
  const OpRun want = run_op(op, params, in, all_kernels(), {.contract = seq});
  const Problem problem{.op = &op, .params = &params, .contract = &seq};
  const auto plan = D::plan({.problem = &problem, .inputs = in});
  std::vector<float> got(static_cast<std::size_t>(D::slices(plan)));
  SeqF32 a;
  PlainOut out{got};
  for (std::int64_t i = 0; i < D::slices(plan); ++i) D::slice(a, plan, i, out);
  const auto y = want.outputs[0].data<float>();
  REQUIRE(y.size() == got.size());
  CHECK(std::memcmp(y.data(), got.data(), y.size_bytes()) == 0);
}

}  // namespace

TEST_CASE("SeqF32: the bits of seq") {
  const Tensor x = hostile({2, 4, 9, 7}, 1), w = hostile({6, 2, 3, 3}, 2), b = hostile({6}, 3);
  ConvParams p;
  p.groups = 2;
  p.pads_begin = {1, 2};
  p.pads_end = {0, 1};
  check_equal<ConvDefinition>(get_op("conv"), Params(p), {&x, &w, &b});
  const Tensor a = hostile({5, 33}, 4), c = hostile({7, 33}, 5), d = hostile({7}, 6);
  check_equal<GemmDefinition>(get_op("gemm"), Params(GemmParams{.alpha = 0.5F, .trans_b = true}),
                              {&a, &c, &d});
}
