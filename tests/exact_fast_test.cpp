// Claim: the exact rows of gemm, matmul and conv return the definition's correctly rounded values
// and a truth within 2^-10 ULP, and some outputs really need the definition: data whose sums lie on
// or next to midpoints of f32, where the f64 first pass decides nothing. Without the rounding test,
// and without the definition for what it leaves, wrong bits come out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/fp.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/conv/exact.h"
#include "kernels/gemm/exact.h"
#include "kernels/kernels.h"
#include "tests/exact_compare.h"
#include "tests/exact_data.h"

using namespace etalon;
using namespace etalon::test;

namespace {

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
  const Tensor dx = deep({1, 60, 3, 5}, 60, 15), dw = powers({100, 60, 1, 1}, 60);
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
    CHECK(exact_counts().defined == defined + 17 * 21 + 100 * 15);
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

namespace {

// Every kind of data with every shape; or, with a share of 5, each kind with every fifth shape,
// another fifth for each kind, so that each shape meets two kinds and each kind each op. Returns
// how many runs were compared.
int compare_hostile(int share) {
  int compared = 0, kind_number = 0;
  for (const Hostile kind : kHostile) {
    CAPTURE(static_cast<int>(kind));
    int turn = kind_number++;
    const auto skipped = [&] { return turn++ % share != 0; };
    for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                  {1, 19, 64},
                                  {33, 17, 65},
                                  {16, 16, 191},
                                  {18, 31, 3},
                                  {2, 40, 700},
                                  {130, 1, 257},
                                  {21, 2, 66}}) {
      if (skipped()) continue;
      CAPTURE(k);
      const auto seed = static_cast<std::uint64_t>(m * 1000 + n);
      const Tensor a = hostile({m, k}, seed, kind), b = hostile({k, n}, seed + 1, kind),
                   bt = hostile({n, k}, seed + 2, kind), at = hostile({k, m}, seed + 3, kind),
                   c = hostile({m, n}, seed + 4, kind);
      compared += compare(gemm_op(), Params(GemmParams{}), {&a, &b});
      compared +=
          compare(gemm_op(), Params(GemmParams{.alpha = 0.7F, .trans_b = true}), {&a, &bt, &c});
      compared +=
          compare(gemm_op(), Params(GemmParams{.beta = -2.0F, .trans_a = true}), {&at, &b, &c});
    }
    for (const auto& [channels, size, kernel, stride, pad, groups] : {std::tuple{3, 9, 3, 1, 1, 1},
                                                                      {24, 7, 3, 2, 1, 1},
                                                                      {40, 5, 1, 1, 0, 2},
                                                                      {17, 6, 2, 1, 0, 1},
                                                                      {64, 4, 3, 1, 1, 1},
                                                                      {72, 9, 3, 2, 1, 1},
                                                                      {72, 7, 3, 2, 1, 72},
                                                                      {36, 5, 3, 1, 1, 36}}) {
      if (skipped()) continue;
      ConvParams p;
      p.groups = groups;
      p.strides = {stride, stride};
      p.pads_begin = {pad, pad};
      p.pads_end = {pad, pad};
      const Tensor x = hostile({2, channels, size, size}, 7, kind),
                   w = hostile({72, channels / groups, kernel, kernel}, 8, kind),
                   bias = hostile({72}, 9, kind);
      compared += compare(conv_op(), Params(p), {&x, &w});
      compared += compare(conv_op(), Params(p), {&x, &w, &bias});
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("exact: hostile data in odd shapes, every row") {
  if (detect_isa() < Isa::avx2) return;
  const std::int64_t before = exact_counts().defined;
  CHECK(compare_hostile(5) >= 8 * (3 + 2) * 2);
  CHECK(exact_counts().defined > before);
}

// Of a constant b only norms are kept.
TEST_CASE("exact: one row by a matrix, and two") {
  if (detect_isa() < Isa::avx2) return;
  for (const Data data : {Data::midpoint, Data::noise, Data::special})
    for (const bool along : {false, true})
      for (const auto& [m, n, k] : {std::tuple{1, 37, 130}, {2, 600, 21}, {2, 1, 40}, {1, 3, 9}}) {
        const Tensor a = make({m, k}, 1, data),
                     b = make(along ? Shape{n, k} : Shape{k, n}, 2, data), c = make({n}, 3, data);
        CHECK(compare(gemm_op(), Params(GemmParams{.alpha = 0.5F, .trans_b = along}),
                      {&a, &b, &c}) >= 2);
      }
}

TEST_CASE("exact: few columns change places with rows") {
  if (detect_isa() < Isa::avx2) return;
  for (const Data data : {Data::midpoint, Data::noise, Data::special})
    for (const auto& [m, n, k] :
         {std::tuple{37, 10, 64}, {25, 24, 130}, {4, 3, 700}, {90, 17, 65}}) {
      const Tensor a = make({m, k}, 1, data), at = make({k, m}, 2, data), b = make({k, n}, 3, data),
                   bt = make({n, k}, 4, data), c = make({m, n}, 5, data), row = make({n}, 6, data),
                   column = make({m, 1}, 7, data);
      CHECK(compare(gemm_op(), Params(GemmParams{}), {&a, &b}) >= 2);
      CHECK(compare(gemm_op(), Params(GemmParams{.trans_b = true}), {&a, &bt, &row}) >= 2);
      CHECK(compare(gemm_op(), Params(GemmParams{.alpha = 0.7F, .trans_a = true}), {&at, &b, &c}) >=
            2);
      CHECK(compare(gemm_op(), Params(GemmParams{.beta = -2}), {&a, &b, &column}) >= 2);
    }
}

TEST_CASE("exact: few columns, rows packed a block of terms at a time") {
  if (detect_isa() < Isa::avx2) return;
  for (const Data data : {Data::midpoint, Data::noise, Data::special})
    for (const std::int64_t n : {31, 40}) {
      const Tensor a = make({37, 700}, 1, data), at = make({700, 37}, 2, data),
                   b = make({700, n}, 3, data), c = make({37, n}, 4, data);
      CHECK(compare(gemm_op(), Params(GemmParams{}), {&a, &b}) >= 2);
      CHECK(compare(gemm_op(), Params(GemmParams{.alpha = 0.7F, .trans_a = true}), {&at, &b, &c}) >=
            2);
    }
}

TEST_CASE("exact: sums of 10^5 terms, beyond where int32 levels are cut") {
  if (detect_isa() < Isa::avx2) return;
  const std::pair<std::int64_t, std::vector<Hostile>> sums[] = {
      {16384, {Hostile::equal}},
      {16385, {Hostile::equal, Hostile::cancelling, Hostile::wild}},
      {40000, {Hostile::cancelling}},
      {100000, {Hostile::wild}}};
  for (const auto& [k, kinds] : sums) {
    CAPTURE(k);
    for (const Hostile kind : kinds) {
      const Tensor a = hostile({3, k}, 1, kind), b = hostile({5, k}, 2, kind);
      CHECK(compare(gemm_op(), Params(GemmParams{.trans_b = true}), {&a, &b}) >= 2);
    }
  }
}

TEST_SUITE("long") {
  TEST_CASE("exact: hostile data in odd shapes, every kind in every shape") {
    if (detect_isa() < Isa::avx2) return;
    CHECK(compare_hostile(1) >= 8 * (18 + 10) * 2);
  }
  TEST_CASE("exact: sums of 10^6 terms") {
    if (detect_isa() < Isa::avx2) return;
    for (const Hostile kind : kHostile) {
      const Tensor a = hostile({3, 1000003}, 1, kind), b = hostile({4, 1000003}, 2, kind);
      CHECK(compare(gemm_op(), Params(GemmParams{.trans_b = true}), {&a, &b}) >= 2);
    }
  }
}
