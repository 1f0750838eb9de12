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
#include "kernels/conv/exact_met.h"
#include "kernels/conv/exact_winograd.h"
#include "kernels/gemm/exact.h"
#include "kernels/kernels.h"
#include "tests/exact_data.h"
#include "tests/on_this_cpu.h"

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

int compare(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in) {
  RunOptions options{.contract = Contract::exact_preset()};
  options.kernels = std::string(op.name) + ".definition";
  const OpRun want = run_op(op, p, in, all_kernels(), options, true);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    if (row->contracts != "exact" || !test::on_this_cpu(*row) ||
        refuses(*row, op, p, in, want.outputs[0].type()))
      continue;
    for (const int threads : {1, 3}) {
      options.kernels = row->name;
      options.threads = threads;
      const OpRun got = run_op(op, p, in, all_kernels(), options, true);
      const Tensor &a = got.outputs[0], &b = want.outputs[0];
      CAPTURE(row->name);
      CHECK(std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0);
      // Where no truth is wanted outputs take other, shorter ways.
      const OpRun plain = run_op(op, p, in, all_kernels(), options);
      CHECK(std::memcmp(plain.outputs[0].bytes().data(), b.bytes().data(), a.size_bytes()) == 0);
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

TEST_CASE("exact: dilated taps, one and three dimensions") {
  if (detect_isa() < Isa::avx2) return;
  for (const Data data : {Data::noise, Data::special}) {
    ConvParams line, dilated, volume;
    line.pads_begin = {2};
    line.pads_end = {1};
    dilated.dilations = {2, 3};
    dilated.pads_begin = {0, 3};
    dilated.pads_end = {2, 0};
    volume.strides = {1, 2, 1};
    volume.pads_begin = {1, 0, 1};
    volume.pads_end = {0, 1, 1};
    const Tensor x1 = make({2, 19, 23}, 1, data), w1 = make({40, 19, 4}, 2, data),
                 x2 = make({1, 5, 11, 13}, 3, data), w2 = make({40, 5, 3, 3}, 4, data),
                 x3 = make({1, 6, 4, 7, 5}, 5, data), w3 = make({24, 6, 2, 3, 3}, 6, data);
    // The AMX row leaves what is so small to the others.
    const int rows =
        2 * (static_cast<int>(std::min(detect_isa(), Isa::avx512)) - static_cast<int>(Isa::sse2));
    CHECK(compare(conv_op(), Params(line), {&x1, &w1}) >= rows);
    CHECK(compare(conv_op(), Params(dilated), {&x2, &w2}) >= rows);
    CHECK(compare(conv_op(), Params(volume), {&x3, &w3}) >= rows);
    // Windows read in place, rows of several calls; no residues here.
    line.groups = 3;
    const Tensor x4 = make({2, 3, 103}, 7, data), w4 = make({6, 1, 5}, 8, data);
    CHECK(compare(conv_op(), Params(line), {&x4, &w4}) >= 2);
  }
}

// Each kind of data with each layer, or with one in three.
int compare_winograd(bool every_pair) {
  int compared = 0, kind = 0;
  bool seen[kWinogradFormCount] = {};
  for (const Data data : {Data::midpoint, Data::noise, Data::special}) {
    int layer = kind++;
    for (const WinogradCase& c : kWinogradCases) {
      if (layer++ % 3 != 0 && !every_pair) continue;
      const ConvParams p = params_of(c);
      const Tensor x = make(c.x, 4, data), w = make(c.w, 5, data), bias = make({c.w[0]}, 6, data);
      CAPTURE(to_string(c.x));
      CAPTURE(to_string(c.w));
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        REQUIRE(exact_winograd_layer(isa, conv_geometry(p, x.shape(), w.shape()), c.form));
        for (const int threads : {1, 3})
          CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, isa,
                              {.winograd = c.form}, threads) == 0);
        ++compared;
      }
      seen[c.form] = true;
    }
  }
  for (const bool form : seen) CHECK(form);
  return compared;
}

// What is prepared without a truth in mind: windows in place, of one input channel and of several,
// Winograd's transforms, the rest of a layer in padding, packed strips.
TEST_CASE("exact: a truth beside prepared weights of every pass") {
  if (detect_isa() < Isa::avx2) return;
  const Contract exact = Contract::exact_preset();
  struct Case {
    Shape x, w;
    std::int64_t groups, pad;
  };
  for (const Case& c : {Case{{1, 4, 6, 9}, {2, 4, 3, 3}, 1, 1},
                        {{1, 4, 6, 9}, {4, 2, 3, 3}, 2, 0},
                        {{2, 5, 6, 9}, {5, 1, 3, 3}, 5, 1},
                        {{1, 32, 9, 9}, {40, 32, 3, 3}, 1, 1},
                        {{1, 8, 2, 2}, {12, 8, 5, 5}, 1, 2},
                        {{1, 8, 6, 7}, {12, 8, 2, 2}, 1, 0}}) {
    CAPTURE(to_string(c.x));
    ConvParams conv;
    conv.groups = c.groups;
    conv.pads_begin = conv.pads_end = {c.pad, c.pad};
    const Params p(conv);
    const Tensor x = make(c.x, 1, Data::noise), w = make(c.w, 2, Data::noise);
    const std::vector<const Tensor*> in{&x, &w};
    RunOptions options{.contract = exact};
    options.kernels = "conv.definition";
    const OpRun want = run_op(conv_op(), p, in, all_kernels(), options, true);
    const TensorType type = want.outputs[0].type();
    const std::vector<InferInput> inputs{{x.type(), nullptr, true}, {w.type(), &w, true}};
    for (const KernelRow* row : all_kernels().rows_of("conv")) {
      if (row->contracts != "exact" || !test::on_this_cpu(*row) ||
          refuses(*row, conv_op(), p, in, type))
        continue;
      CAPTURE(row->name);
      const Problem problem{.op = &conv_op(),
                            .params = &p,
                            .inputs = inputs,
                            .outputs = {&type, 1},
                            .contract = &exact,
                            .isa = row->isa};
      const Prepared prepared = row->prepare(problem, 2);
      for (const bool wants_truth : {false, true}) {
        std::vector<Tensor> out, truth;
        out.push_back(Tensor::uninitialized(type.dtype, type.shape));
        if (wants_truth) truth.push_back(Tensor::uninitialized(DType::f64, type.shape));
        row->run({.problem = &problem,
                  .inputs = in,
                  .outputs = out,
                  .truth = truth,
                  .threads = 2,
                  .prepared = prepared.get()});
        CHECK(std::memcmp(out[0].bytes().data(), want.outputs[0].bytes().data(),
                          out[0].size_bytes()) == 0);
        for (std::size_t i = 0; wants_truth && i < truth[0].data<double>().size(); ++i) {
          const double y = want.truth[0].data<double>()[i];
          CHECK(std::abs(truth[0].data<double>()[i] - y) <=
                ulp_of(static_cast<double>(want.outputs[0].data<float>()[i]), DType::f32) * 0x1p-9);
        }
      }
    }
  }
}

// Outputs that see padding alone, at either end and in the middle of nothing, and taps that none
// has inside: of each kind of pass.
TEST_CASE("exact: what only padding meets is left out") {
  if (detect_isa() < Isa::avx2) return;
  struct Case {
    Shape x, w;
    std::int64_t groups;
    std::vector<std::int64_t> strides, dilations, begin, end;
  };
  for (const Case& c :
       {Case{{2, 12, 2, 2}, {20, 12, 5, 5}, 1, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
        {{1, 40, 7, 7}, {24, 40, 1, 1}, 1, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
        {{1, 16, 3, 5}, {16, 16, 3, 3}, 1, {1, 1}, {1, 1}, {4, 0}, {1, 6}},
        {{2, 6, 4, 3}, {6, 1, 3, 3}, 6, {1, 1}, {3, 2}, {9, 6}, {8, 7}},
        {{1, 9, 6}, {7, 9, 4}, 1, {3}, {2}, {7}, {9}},
        {{1, 4, 2, 3, 2}, {6, 2, 3, 3, 3}, 2, {1, 1, 2}, {1, 2, 1}, {2, 3, 2}, {3, 2, 1}}}) {
    ConvParams p;
    p.groups = c.groups;
    p.strides = c.strides;
    p.dilations = c.dilations;
    p.pads_begin = c.begin;
    p.pads_end = c.end;
    CAPTURE(to_string(c.x));
    for (const Data data : {Data::noise, Data::midpoint, Data::special}) {
      const Tensor x = make(c.x, 4, data), w = make(c.w, 5, data), bias = make({c.w[0]}, 6, data);
      REQUIRE(met_layer(conv_geometry(p, x.shape(), w.shape()), w.data<float>().data()));
      CHECK(compare(conv_op(), Params(p), {&x, &w, &bias}) >= 2);
      CHECK(compare(conv_op(), Params(p), {&x, &w}) >= 2);
      for (const DType format : {DType::f16, DType::bf16}) {
        const Tensor nx = narrowed(x, format), nw = narrowed(w, format),
                     nb = narrowed(bias, format);
        for (const Isa isa : {Isa::avx2, Isa::avx512})
          if (isa <= detect_isa())
            CHECK(wrong_outputs(conv_op(), Params(p), {&nx, &nw, &nb}, run_conv_exact, isa, {}) ==
                  0);
      }
    }
  }
  // Nothing is met at all.
  ConvParams far;
  far.pads_begin = {2, 2};
  far.pads_end = {0, 0};
  far.strides = {9, 9};
  const Tensor x = make({1, 2, 1, 1}, 1, Data::noise), w = make({3, 2, 1, 1}, 2, Data::noise),
               bias = make({3}, 3, Data::noise);
  CHECK(compare(conv_op(), Params(far), {&x, &w, &bias}) >= 2);
}

// Layers whose transformed weights are too large to be kept.
TEST_CASE("exact: layers by Winograd, weights transformed when due") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  for (const int form : {0, 1})
    for (const Data data : {Data::midpoint, Data::noise}) {
      const Tensor x = make({2, 370, 3, 4}, 4, data), w = make({363, 370, 3, 3}, 5, data),
                   bias = make({363}, 6, data);
      const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        WinogradWeights weights;
        pack_exact_winograd(isa, g, *exact_winograd_layer(isa, g, form), w.data<float>().data(), 1,
                            weights);
        REQUIRE_FALSE(weights.transformed);
        CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w, &bias}, run_conv_exact, isa,
                            {.winograd = form}) == 0);
      }
    }
}

// Columns of pixels 2^40 times as large as the others: every tile of 4x4 outputs meets one, but
// only three windows in eight do.
TEST_CASE("exact: what large inputs leave open under Winograd's bound is summed plainly") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  Tensor x = make({1, 24, 24, 24}, 4, Data::noise);
  const Tensor w = make({24, 24, 3, 3}, 5, Data::noise);
  std::int64_t i = 0;
  for (float& v : x.mutable_data<float>())
    if (i++ % 8 == 3) v *= 0x1p40F;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const ConvGeometry g = conv_geometry(p, x.shape(), w.shape());
    WinogradWeights weights;
    const WinogradLayer layer = *exact_winograd_layer(isa, g, 1);
    pack_exact_winograd(isa, g, layer, w.data<float>().data(), 1, weights);
    Tensor y = Tensor::uninitialized(DType::f32, g.output_shape());
    std::vector<std::int64_t> open;
    exact_winograd(
        isa, g, layer,
        {.x = x.data<float>().data(), .w = &weights, .y = y.mutable_data<float>().data()}, 1, open);
    CHECK(static_cast<std::int64_t>(open.size()) > y.numel() / 4);
    const std::int64_t before = exact_counts().undecided;
    CHECK(wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, {.winograd = 1}) == 0);
    CHECK(exact_counts().undecided - before < y.numel() / 64);
  }
}

// What is taken without being told, with prepared weights and without.
TEST_CASE("exact: layers by Winograd are taken where they are faster") {
  if (detect_isa() < Isa::avx2) return;
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  const Tensor x = make({1, 24, 28, 28}, 4, Data::noise), w = make({40, 24, 3, 3}, 5, Data::noise);
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const auto layer = exact_winograd_layer(isa, conv_geometry(p, x.shape(), w.shape()));
    REQUIRE(layer);
    CHECK(layer->f().outputs == 4);
    CHECK_FALSE(exact_winograd_layer(isa, conv_geometry(p, x.shape(), Shape({40, 24, 1, 1}))));
  }
  CHECK(compare(conv_op(), Params(p), {&x, &w}) >= 2);
}

// What exact_winograd.h says of the transforms, on data whose exponents spread: within so many
// roundings of the transforms of magnitudes, and norms that are no smaller than they have to be.
TEST_CASE("exact: Winograd's transforms are as near as their bound says, their norms as large") {
  constexpr double u = 0x1p-53;
  const Philox random{7, 1};
  std::uint64_t next = 0;
  const auto draw = [&] {
    const int exponent = static_cast<int>(random.word(next++) % 60) - 30;
    return std::ldexp(random.uniform(next++), exponent);
  };
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const WinogradLanes& set = *winograd_lanes(isa);
    double largest_v = 0, largest_u = 0;
    for (int form = 0; form < kWinogradFormCount; ++form) {
      const WinogradForm& f = kWinogradForms[form];
      CAPTURE(form);
      const int P = f.patch, R = f.taps, lanes = set.lanes, pairs = (P - 2) / 2;
      for (int round = 0; round < 200; ++round) {
        std::vector<float> d(static_cast<std::size_t>(P * P * lanes)),
            g(static_cast<std::size_t>((R * R + 1) * lanes));
        for (float& x : d) x = draw();
        for (float& x : g) x = draw();
        std::vector<std::int64_t> patch;
        for (int i = 0; i < P * P; ++i) patch.push_back(std::int64_t{i} * lanes);
        std::vector<double> v(static_cast<std::size_t>(P * P * lanes)), w = v;
        std::vector<double> squares(static_cast<std::size_t>(2 * lanes));
        w.resize(w.size() + static_cast<std::size_t>(lanes));
        set.transforms[form].input(d.data(), patch.data(), v.data(), lanes, squares.data());
        set.transforms[form].weights(g.data(), lanes, w.data(), lanes);
        for (int lane = 0; lane < lanes; ++lane) {
          // In long double: 11 bits more than f64.
          long double sum_v = 0, sum_size = 0;
          for (int p = 0; p < P; ++p)
            for (int q = 0; q < P; ++q) {
              long double x = 0, size = 0, y = 0, y_size = 0;
              for (int i = 0; i < P; ++i)
                for (int j = 0; j < P; ++j) {
                  const long double term = static_cast<long double>(f.bt[p][i]) * f.bt[q][j] *
                                           d[static_cast<std::size_t>((i * P + j) * lanes + lane)];
                  x += term;
                  size += std::abs(term);
                }
              for (int i = 0; i < R; ++i)
                for (int j = 0; j < R; ++j) {
                  const long double term = static_cast<long double>(f.g[p][i]) * f.g[q][j] *
                                           g[static_cast<std::size_t>((i * R + j) * lanes + lane)];
                  y += term;
                  y_size += std::abs(term);
                }
              const auto at = static_cast<std::size_t>((p * P + q) * lanes + lane);
              const auto error_v = static_cast<double>(std::abs(v[at] - x)),
                         error_u = static_cast<double>(std::abs(w[at] - y));
              REQUIRE(error_v <= 2 * pairs * u * (1 + 0x1p-8) * static_cast<double>(size));
              REQUIRE(error_u <=
                      (f.roundings - 2 * pairs) * u * (1 + 0x1p-8) * static_cast<double>(y_size));
              largest_v = std::max(largest_v, error_v / (u * static_cast<double>(size)));
              largest_u = std::max(largest_u, error_u / (u * static_cast<double>(y_size)));
              sum_v += static_cast<long double>(v[at]) * v[at];
              sum_size += size * size;
            }
          REQUIRE(squares[static_cast<std::size_t>(lane)] >=
                  static_cast<double>(sum_v) * (1 - 0x1p-40));
          REQUIRE(squares[static_cast<std::size_t>(lanes + lane)] >=
                  static_cast<double>(sum_size) * (1 - 0x1p-40));
        }
      }
    }
    CHECK(largest_v > 0.5);  // roundings do occur
    CHECK(largest_u > 0.5);
  }
}

TEST_CASE("exact: layers by Winograd in each form, odd extents, groups, padding, strides") {
  if (detect_isa() < Isa::avx2) return;
  CHECK(compare_winograd(false) >= 12);
  // Without the rounding test, and without what settles, wrong bits come out.
  ConvParams p;
  p.pads_begin = p.pads_end = {1, 1};
  const Tensor x = make({1, 32, 12, 12}, 4, Data::midpoint),
               w = make({40, 32, 3, 3}, 5, Data::midpoint);
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    for (const int form : {0, 1}) {
      if (isa > detect_isa()) continue;
      const auto wrong = [&](ExactSteps steps) {
        steps.winograd = form;
        return wrong_outputs(conv_op(), Params(p), {&x, &w}, run_conv_exact, isa, steps);
      };
      CHECK(wrong({}) == 0);
      CHECK(wrong({.rounding_test = false}) > 0);
      CHECK(wrong({.settle = false, .definition = false}) > 0);
    }
}

// A constant b of which only norms are kept.
TEST_CASE("exact: one row by a prepared matrix") {
  if (detect_isa() < Isa::avx2) return;
  const Contract exact = Contract::exact_preset();
  for (const Data data : {Data::midpoint, Data::noise, Data::special})
    for (const bool along : {false, true})
      for (const auto& [m, n, k] : {std::tuple{1, 37, 130}, {2, 600, 21}, {2, 1, 40}, {1, 3, 9}}) {
        const Tensor a = make({m, k}, 1, data),
                     b = make(along ? Shape{n, k} : Shape{k, n}, 2, data), c = make({n}, 3, data);
        const Params p(GemmParams{.alpha = 0.5F, .trans_b = along});
        const std::vector<const Tensor*> in{&a, &b, &c};
        RunOptions options{.contract = exact};
        options.kernels = "gemm.definition";
        const OpRun want = run_op(gemm_op(), p, in, all_kernels(), options);
        const TensorType type = want.outputs[0].type();
        std::vector<InferInput> inputs;
        for (const Tensor* t : in) inputs.push_back({t->type(), t, true});
        for (const KernelRow* row : all_kernels().rows_of("gemm")) {
          if (row->contracts != "exact" || !test::on_this_cpu(*row)) continue;
          const Problem problem{.op = &gemm_op(),
                                .params = &p,
                                .inputs = inputs,
                                .outputs = {&type, 1},
                                .contract = &exact,
                                .isa = row->isa};
          const Prepared prepared = row->prepare(problem, 2);
          REQUIRE(prepared != nullptr);
          for (const int threads : {1, 3}) {
            CAPTURE(row->name);
            std::vector<Tensor> out;
            out.push_back(Tensor::uninitialized(type.dtype, type.shape));
            row->run({.problem = &problem,
                      .inputs = in,
                      .outputs = out,
                      .threads = threads,
                      .prepared = prepared.get()});
            CHECK(std::memcmp(out[0].bytes().data(), want.outputs[0].bytes().data(),
                              out[0].size_bytes()) == 0);
          }
        }
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
  TEST_CASE("exact: layers by Winograd, every kind of data in every layer") {
    if (detect_isa() < Isa::avx2) return;
    CHECK(compare_winograd(true) >= 42);
  }
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
