// Claim: the vendor rows compute the same function as the definition (they promise no bits), keep
// constant weights in their own layout, and record library and implementation. What the library
// does not implement is refused in words.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "bench/micro/shape_bench.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/normalization.h"
#include "engine/ops/pool.h"
#include "engine/ops/softmax.h"
#include "kernels/kernels.h"
#include "tests/noise.h"

using namespace etalon;

namespace {

// The product of two is below 1/4.
Tensor noise(const Shape& shape, std::uint64_t seed) { return test::noise(shape, seed, 0.5F); }

OpRun run(const OpRow& op, const Params& p, std::vector<const Tensor*> in, const char* kernels,
          int threads = 1) {
  RunOptions options{.threads = threads};
  options.kernels = kernels;
  return run_op(op, p, in, all_kernels(), options);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.data<float>().size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a.data<float>()[i]) -
                                         static_cast<double>(b.data<float>()[i])));
  return largest;
}

bool built_in() {
  for (const KernelRow* row : all_kernels().all())
    if (row->promise == Promise::vendor && row->name.starts_with("onednn")) return true;
  return false;
}

}  // namespace

TEST_CASE("oneDNN rows agree with the definition within the error of a sum") {
  if (!built_in()) {
    MESSAGE("this build has no oneDNN rows");
    return;
  }
  // Terms are below 1/4: a sum of k of them is off by less than k * k * 2^-26.
  const Tensor x = noise({2, 12, 9, 11}, 1), w = noise({18, 4, 3, 2}, 2), b = noise({18}, 3);
  ConvParams c;
  c.groups = 3;
  c.strides = {2, 1};
  c.pads_begin = {2, 1};
  c.pads_end = {0, 1};
  const Tensor conv = std::move(run(conv_op(), Params(c), {&x, &w, &b}, "conv").outputs[0]);
  for (const char* row : {"onednn.conv.direct", "onednn.conv.auto"})
    for (const int threads : {1, 2}) {
      const OpRun got = run(conv_op(), Params(c), {&x, &w, &b}, row, threads);
      CHECK(largest_difference(got.outputs[0], conv) < 24 * 24 * 0x1p-26);
      CHECK(got.kernel->version().find("oneDNN 3.") == 0);
      CHECK(got.kernel->version().find(", ") != std::string::npos);  // the implementation
    }
  const Tensor x3 = noise({1, 16, 12, 12}, 4), w3 = noise({32, 16, 3, 3}, 5);
  const Tensor y3 = std::move(run(conv_op(), Params(ConvParams{}), {&x3, &w3}, "conv").outputs[0]);
  try {
    const OpRun winograd = run(conv_op(), Params(ConvParams{}), {&x3, &w3}, "onednn.conv.winograd");
    CHECK(largest_difference(winograd.outputs[0], y3) < 144 * 144 * 0x1p-24);
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("oneDNN has no implementation") != std::string::npos);
  }

  GemmParams g{.alpha = 0.5F, .trans_a = true, .trans_b = true};
  const Tensor a = noise({40, 7}, 6), m = noise({13, 40}, 7), bias = noise({13}, 8);
  const OpRun gemm = run(gemm_op(), Params(g), {&a, &m, &bias}, "onednn.gemm");
  CHECK(largest_difference(gemm.outputs[0],
                           run(gemm_op(), Params(g), {&a, &m, &bias}, "gemm").outputs[0]) <
        42 * 42 * 0x1p-26);
  g.beta = 2.0F;
  CHECK_THROWS_WITH_AS(run(gemm_op(), Params(g), {&a, &m, &bias}, "onednn.gemm"),
                       doctest::Contains("beta must be 1"), Error);

  const Tensor p = noise({3, 1, 5, 8}, 9), q = noise({2, 8, 6}, 10);
  const OpRun product = run(matmul_op(), Params(), {&p, &q}, "onednn.matmul");
  CHECK(product.outputs[0].shape() == Shape{3, 2, 5, 6});
  CHECK(largest_difference(product.outputs[0],
                           run(matmul_op(), Params(), {&p, &q}, "matmul").outputs[0]) <
        8 * 8 * 0x1p-26);
}

TEST_CASE("bench: one implementation of oneDNN under two names is timed once") {
  if (!built_in()) return;
  BenchOptions options;
  options.vs = {"onednn"};
  options.timing = {.repetitions = 2, .min_time_s = 1e-4};
  options.errors = false;
  const BenchRow row = bench_shape(
      parse_shape(conv_op(),
                  "test.once f32[1,64,14,14] f32[64,64,3,3] pads_begin=1x1 pads_end=1x1"),
      all_kernels(), options);
  std::set<std::pair<std::string, bool>> implementations;
  int direct = 0;
  for (const BenchEntry& peer : row.vs) {
    CHECK(implementations.emplace(peer.version, peer.blocked).second);
    direct += peer.kernel == "onednn.conv.direct" ? 1 : 0;
  }
  CHECK(direct == 1);
  // What it chooses by itself is one of those, or stands as a row of its own.
  std::size_t automatic = 0;
  for (const BenchEntry& peer : row.vs) automatic += peer.kernel == "onednn.conv.auto" ? 1 : 0;
  for (const std::string& reason : row.refused)
    automatic += reason.starts_with("onednn.conv.auto: is onednn.conv.") ? 1 : 0;
  CHECK(automatic == 1);
}

TEST_CASE("bench: oneDNN is timed with and without its conversions of x and y, same result") {
  if (!built_in()) return;
  BenchOptions options;
  options.vs = {"onednn.conv.direct", "onednn.gemm"};
  options.timing = {.repetitions = 2, .min_time_s = 1e-4};
  options.errors = false;
  const BenchRow conv = bench_shape(
      parse_shape(
          conv_op(),
          "test.blocked f32[2,64,14,14] f32[64,64,3,3] f32[64] pads_begin=1x1 pads_end=1x1"),
      all_kernels(), options);
  REQUIRE(conv.vs.size() == 2);
  CHECK(conv.vs[0].kernel == "onednn.conv.direct");
  CHECK(!conv.vs[0].blocked);
  CHECK(conv.vs[1].kernel == "onednn.conv.direct.blocked");
  CHECK(conv.vs[1].blocked);
  CHECK(conv.vs[0].hash == conv.vs[1].hash);  // what the library computed came back row-major
  CHECK(conv.vs[0].version == conv.vs[1].version);
  const BenchRow gemm =
      bench_shape(parse_shape(gemm_op(), "test.plain f32[8,24] f32[40,24] trans_b=true"),
                  all_kernels(), options);
  CHECK(gemm.vs.size() == 1);  // nothing is converted
}

TEST_CASE("oneDNN rows of pools, norms, softmax and activations compute the same function") {
  if (!built_in()) {
    MESSAGE("this build has no oneDNN rows");
    return;
  }
  Tensor x = noise({2, 32, 9, 10}, 1);
  Tensor scale = noise({32}, 2), bias = noise({32}, 3), mean = noise({32}, 4), var = noise({32}, 5);
  for (float& v : var.mutable_data<float>()) v += 1;
  const Tensor features = noise({10}, 6);
  Tensor positive = noise({3, 50}, 7);
  for (float& v : positive.mutable_data<float>()) v += 1;
  MaxPoolParams max;
  max.kernel = {3, 2};
  max.strides = {2, 2};
  max.pads_begin = max.pads_end = {1, 1};
  AvgPoolParams average;
  average.kernel = {3, 3};
  average.pads_begin = {0, 1};
  struct One {
    std::string_view op;
    Params params;
    std::vector<const Tensor*> in;
    int rows;
  };
  const One all[] = {
      {"max_pool", Params(max), {&x}, 2},
      {"avg_pool", Params(average), {&x}, 2},
      {"global_avg_pool", Params(), {&x}, 2},
      {"softmax", Params(SoftmaxParams{}), {&x}, 1},
      {"log_softmax", Params(SoftmaxParams{}), {&x}, 1},
      {"batch_norm", Params(BatchNormParams{}), {&x, &scale, &bias, &mean, &var}, 2},
      {"layer_norm", Params(LayerNormParams{}), {&x, &features, &features}, 1},
      {"lrn", Params(LrnParams{}), {&x}, 2},
      {"relu", Params(), {&x}, 1},
      {"sigmoid", Params(), {&x}, 1},
      {"tanh", Params(), {&x}, 1},
      {"exp", Params(), {&x}, 1},
      {"log", Params(), {&positive}, 1},
      {"sqrt", Params(), {&positive}, 1},
  };
  for (const One& one : all) {
    const OpRow& op = get_op(one.op);
    const Tensor ours = std::move(
        run(op, one.params, one.in, (std::string(one.op) + ".definition").c_str()).outputs[0]);
    int rows = 0;
    for (const KernelRow* row : all_kernels().rows_of(one.op)) {
      if (!row->name.starts_with("onednn.")) continue;
      CAPTURE(row->name);
      const OpRun theirs = run(op, one.params, one.in, std::string(row->name).c_str());
      // Values are below 4; oneDNN's functions are good to some 2^-20.
      CHECK(largest_difference(ours, theirs.outputs[0]) < 0x1p-16);
      ++rows;
    }
    CHECK_MESSAGE(rows == one.rows, one.op);
  }
}
