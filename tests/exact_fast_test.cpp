// Claim: the exact rows of gemm, matmul and conv return the definition's correctly rounded values
// and a truth within 2^-10 ULP, and some outputs really need the definition: data whose sums lie on
// or next to midpoints of f32, where the f64 first pass decides nothing. Without the rounding test,
// and without the definition for what it leaves, wrong bits come out.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/conv/exact.h"
#include "kernels/gemm/exact.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

enum class Data { noise, midpoint, relu, integers, special };

// Rows along `axis` whose sum is a midpoint of f32, 2^24 + 1, and 2^-140 above or below it. The two
// 2^-40 that cancel make even twice the precision of f64 too coarse to tell.
Tensor deep(const Shape& shape, std::int64_t along, std::int64_t step) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  std::int64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const std::int64_t k = i / step % along;
    const float sign = i % step % 2 == 0 && i / step / along % 2 == 0 ? 1.0F : -1.0F;
    const float terms[] = {0x1p24F, 1, 0x1p-40F, -0x1p-40F, sign * 0x1p-140F};
    x = k < 5 ? terms[k] : 0.0F;
    ++i;
  }
  return t;
}
Tensor powers(const Shape& shape, std::int64_t run) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  std::int64_t i = 0;
  for (float& x : t.mutable_data<float>()) x = std::ldexp(1.0F, static_cast<int>(i++ / run % 3));
  return t;
}

Tensor make(const Shape& shape, std::uint64_t seed, Data data) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i++) - 0.5F;
    const float pick = random.uniform(i + 1000000);
    // Powers of two far apart: sums such as 2^24 + 1 + 2^-60.
    if (data == Data::midpoint)
      x = std::ldexp(pick < 0.5F ? 1.0F : -1.0F, static_cast<int>(pick * 1000) % 3 * 12 - 12);
    if (data == Data::relu && x < 0) x = 0;
    if (data == Data::integers) x = std::round(x * 8);
    if (data == Data::special && pick < 0.02F) x = std::numeric_limits<float>::infinity();
    if (data == Data::special && pick > 0.99F) x = std::numeric_limits<float>::quiet_NaN();
    if (data == Data::special && pick > 0.5F && pick < 0.6F) x = -0.0F;
    if (data == Data::special && pick > 0.6F && pick < 0.7F) x = 0x1p-140F;
  }
  return t;
}

int compare(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in) {
  RunOptions options{.contract = Contract::exact_preset()};
  options.kernels = std::string(op.name) + ".definition";
  const OpRun want = run_op(op, p, in, all_kernels(), options, true);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    if (row->contracts != "exact" || row->isa > detect_isa()) continue;
    for (const int threads : {1, 3}) {
      options.kernels = row->name;
      options.threads = threads;
      const OpRun got = run_op(op, p, in, all_kernels(), options, true);
      const Tensor &a = got.outputs[0], &b = want.outputs[0];
      CAPTURE(row->name);
      CHECK(std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0);
      for (std::size_t i = 0; i < a.data<float>().size(); ++i) {
        const double x = got.truth[0].data<double>()[i], y = want.truth[0].data<double>()[i];
        if (!std::isfinite(y) || !std::isfinite(b.data<float>()[i])) continue;
        REQUIRE(std::abs(x - y) <=
                ulp_of(static_cast<double>(b.data<float>()[i]), DType::f32) * 0x1p-9);
      }
      ++compared;
    }
  }
  return compared;
}

}  // namespace

namespace {

struct ConvCase {
  Tensor x, w, bias;
  Params params;
};
ConvCase conv_case(Data data) {
  ConvParams p;
  p.groups = 2;
  p.strides = {2, 1};
  p.pads_begin = {1, 2};
  p.pads_end = {2, 0};
  return {make({2, 6, 9, 7}, 4, data), make({10, 3, 3, 2}, 5, data), make({10}, 6, data),
          Params(p)};
}

using ExactRun = void (*)(const KernelCall&, Isa, const ExactSteps&);

// How many outputs differ from the definition's when a row runs with these steps only.
int wrong_outputs(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in,
                  ExactRun run, Isa isa, const ExactSteps& steps) {
  const Contract exact = Contract::exact_preset();
  RunOptions options{.contract = exact};
  options.kernels = std::string(op.name) + ".definition";
  const OpRun want = run_op(op, p, in, all_kernels(), options);
  std::vector<InferInput> inputs;
  for (const Tensor* t : in) inputs.push_back({t->type(), t, true});
  const TensorType types[] = {want.outputs[0].type()};
  const Problem problem{
      .op = &op, .params = &p, .inputs = inputs, .outputs = types, .contract = &exact, .isa = isa};
  std::vector<Tensor> out;
  out.push_back(Tensor::uninitialized(types[0].dtype, types[0].shape));
  run({.problem = &problem, .inputs = in, .outputs = out, .threads = 1}, isa, steps);
  int wrong = 0;
  const auto a = out[0].data<float>(), b = want.outputs[0].data<float>();
  for (std::size_t i = 0; i < a.size(); ++i) wrong += bits_of(a[i]) != bits_of(b[i]) ? 1 : 0;
  return wrong;
}

}  // namespace

TEST_CASE("exact: gemm, matmul and conv equal the definition, and the fallback is needed") {
  if (detect_isa() < Isa::avx2) return;
  int compared = 0;
  for (const Data data : {Data::noise, Data::midpoint, Data::relu, Data::integers, Data::special}) {
    CAPTURE(static_cast<int>(data));
    const std::int64_t before = exact_counts().undecided, defined = exact_counts().defined;
    const Tensor a = make({17, 60}, 1, data), b = make({60, 21}, 2, data), c = make({21}, 3, data);
    compared += compare(gemm_op(), Params(GemmParams{}), {&a, &b, &c});
    // Sums of small integers are exact in f64 and known to be, zeros among them.
    if (data == Data::integers) CHECK(exact_counts().defined == defined);
    for (const auto& [alpha, beta] : {std::pair{-0.3F, 1.7F}, {0x1p-140F, 0x1p-20F}, {0.0F, -1.0F}})
      compared +=
          compare(gemm_op(), Params(GemmParams{.alpha = alpha, .beta = beta}), {&a, &b, &c});
    compared += compare(gemm_op(), Params(GemmParams{.alpha = -1.0F}), {&a, &b});
    const Tensor many = make({5, 1, 9, 31}, 7, data), few = make({3, 31, 10}, 8, data),
                 one = make({31, 10}, 9, data);
    compared += compare(matmul_op(), Params(), {&many, &few});
    compared += compare(matmul_op(), Params(), {&many, &one});
    const ConvCase k = conv_case(data);
    compared += compare(conv_op(), k.params, {&k.x, &k.w, &k.bias});
    compared += compare(conv_op(), k.params, {&k.x, &k.w});
    if (data == Data::midpoint || data == Data::special) CHECK(exact_counts().undecided > before);
  }
  CHECK(compared >= 5 * 9 * 2);
}

TEST_CASE("exact: without the rounding test, or the definition, gemm and conv are wrong") {
  const Tensor a = make({17, 60}, 1, Data::midpoint), b = make({60, 21}, 2, Data::midpoint);
  const ConvCase k = conv_case(Data::midpoint);
  const Params plain{GemmParams{}};
  int isas = 0;
  // Per row of a, and per pixel of x, one such sum; factors of 1, 2 and 4.
  const Tensor da = deep({17, 60}, 60, 1), db = powers({60, 21}, 60 * 21);
  const Tensor dx = deep({1, 60, 3, 5}, 60, 15), dw = powers({4, 60, 1, 1}, 60);
  const Params pointwise{ConvParams{}};
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa > detect_isa()) continue;
    ++isas;
    const auto deep_wrong = [&](const ExactSteps& steps) {
      return std::pair{wrong_outputs(gemm_op(), plain, {&da, &db}, run_gemm_exact, isa, steps),
                       wrong_outputs(conv_op(), pointwise, {&dx, &dw}, run_conv_exact, isa, steps)};
    };
    const std::int64_t defined = exact_counts().defined;
    CHECK(deep_wrong({}) == std::pair{0, 0});
    CHECK(exact_counts().defined == defined + 17 * 21 + 4 * 15);
    CHECK(deep_wrong({.definition = false}).first > 0);
    CHECK(deep_wrong({.definition = false}).second > 0);
    const auto wrong = [&](const ExactSteps& steps) {
      return std::pair{
          wrong_outputs(gemm_op(), plain, {&a, &b}, run_gemm_exact, isa, steps),
          wrong_outputs(conv_op(), k.params, {&k.x, &k.w, &k.bias}, run_conv_exact, isa, steps)};
    };
    CHECK(wrong({}) == std::pair{0, 0});
    const auto untested = wrong({.rounding_test = false}),
               unsettled = wrong({.settle = false, .definition = false});
    CHECK(untested.first > 0);
    CHECK(untested.second > 0);
    CHECK(unsettled.first > 0);
    CHECK(unsettled.second > 0);
  }
  CHECK(isas == static_cast<int>(detect_isa()) - static_cast<int>(Isa::sse2));
}

TEST_CASE("exact: the rounding test decides by both ends of the interval") {
  float y = 0;
  double truth = 0;
  CHECK(!exact_decide(1 + 0x1p-24, 0x1p-60, y, nullptr));  // a midpoint inside
  CHECK(exact_decide(1 + 0x1p-24 + 0x1p-45, 0x1p-60, y, nullptr));
  CHECK(y == 1 + 0x1p-23F);
  CHECK(!exact_decide(0, 0x1p-200, y, nullptr));  // the sign of zero is not known
  CHECK(exact_decide(0, 0, y, nullptr));
  CHECK(!exact_decide(kNan, 0, y, nullptr));
  CHECK(exact_decide(0x1p-140, 0x1p-170, y, &truth));
  CHECK(!exact_decide(0x1.8p-140, 0x1p-158, y, &truth));  // rounds, but is no truth yet
}
