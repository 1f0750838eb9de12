// Claim: the fast rows of batch_norm, lrn and the global pools have the definition's bits, at any
// thread count; data with NaN, infinities, -0, subnormals, huge and negative bases.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/normalization.h"
#include "kernels/kernels.h"
#include "kernels/normalization/lrn.h"
#include "tests/on_this_cpu.h"

using namespace etalon;

namespace {

Tensor make(const Shape& shape, std::uint64_t seed, bool special, float scale = 1) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i) * scale;
    const std::uint32_t pick = random.word(i + (1U << 24)) % 64;
    ++i;
    if (!special) continue;
    if (pick == 0) x = -std::numeric_limits<float>::quiet_NaN();
    if (pick == 1) x = std::numeric_limits<float>::infinity();
    if (pick == 2) x = -std::numeric_limits<float>::infinity();
    if (pick > 40) x = -0.0F;
    if (pick > 50) x = random.uniform(i) * 0x1p-140F;
    if (pick > 60) x = random.uniform(i) * 0x1p+60F;
  }
  return t;
}

// Every fast row that takes the problem, against the definition; returns how many runs.
int compare(const char* op, const Params& params, const std::vector<const Tensor*>& in,
            const char* contract = "seq") {
  RunOptions options{.contract = Contract::parse(contract),
                     .kernels = std::string(op) + ".definition"};
  const OpRun want = run_op(get_op(op), params, in, all_kernels(), options);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op)) {
    if (row->name == options.kernels || !test::on_this_cpu(*row) ||
        row->promise == Promise::vendor || row->name.ends_with("definition") ||
        row->contracts == "exact" || test::takes_halves_only(*row))
      continue;
    for (const int threads : {1, 2, 3, 7}) {
      RunOptions fast = options;
      fast.kernels = row->name;
      fast.threads = threads;
      const OpRun got = run_op(get_op(op), params, in, all_kernels(), fast);
      CHECK_MESSAGE(std::memcmp(got.outputs[0].bytes().data(), want.outputs[0].bytes().data(),
                                want.outputs[0].size_bytes()) == 0,
                    std::string(row->name), " ", to_string(in[0]->shape()), " ", contract,
                    " threads=", threads);
      ++compared;
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("batch_norm: fast rows have the definition's bits") {
  int compared = 0;
  const struct {
    Shape x;
    std::int64_t axis;
    bool spatial;
  } cases[] = {{{2, 5, 7, 9}, 1, true},  {{3, 37}, 1, true},       {{2, 3, 40}, -1, true},
               {{1, 1, 300}, 1, true},   {{2, 3, 4, 5}, 1, false}, {{2, 6, 4}, 0, true},
               {{64, 5, 2, 2}, 1, true}, {{700, 7, 15}, 1, true},  {{3, 17, 3}, 1, true}};
  for (const auto& c : cases)
    for (const bool special : {false, true}) {
      const Shape channels =
          c.spatial ? Shape{c.x.dim(static_cast<int>(c.axis))} : Shape{c.x[1], c.x[2], c.x[3]};
      const Tensor x = make(c.x, 1, special), scale = make(channels, 2, special),
                   bias = make(channels, 3, special), mean = make(channels, 4, special);
      Tensor var = make(channels, 5, special);
      if (!special)
        for (float& v : var.mutable_data<float>()) v = std::abs(v);
      BatchNormParams p;
      p.axis = c.axis;
      p.spatial = c.spatial;
      for (const char* contract : {"seq", "order=lanes:8", "fma=off", "order=pairwise:4,fma=off"})
        compared += compare("batch_norm", Params(p), {&x, &scale, &bias, &mean, &var}, contract);
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 9 * 2 * 4 * 4);
}

TEST_CASE("lrn: fast rows have the definition's bits") {
  int compared = 0;
  for (const Shape& shape : {Shape{2, 7, 5, 5}, Shape{1, 96, 3, 7}, Shape{2, 3, 40, 13},
                             Shape{1, 1, 9}, Shape{1, 14, 17, 16}})
    for (const bool special : {false, true})
      for (const float bias : {1.0F, 2.0F, -1.0F, 0.0F})
        for (const std::int64_t size : {1, 4, 5}) {
          const Tensor x = make(shape, 1, special, 3);
          LrnParams p;
          p.bias = bias;
          p.size = size;
          p.alpha = bias == 1 ? 1e-4F : 0.9F;
          p.alpha_divided = size != 4;
          p.longer_below = bias == 2;
          compared += compare("lrn", Params(p), {&x});
        }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 4 * 2 * 4 * 3 * 4);
}

#if defined(__x86_64__)
// One channel of any number of elements.
std::int64_t lrn_in_pieces(std::int64_t (*lrn)(const LrnCall&), LrnCall call) {
  std::int64_t computed = 0;
  for (std::int64_t left = call.n; left > 0; left -= kLrnPixels) {
    call.n = std::min(left, kLrnPixels);
    computed += lrn(call);
    call.x += call.n;
    call.y += call.n;
  }
  return computed;
}

// About one base in 2^26 has a power that close to a midpoint: none or few of these 2^20. A base
// that is not positive always goes to the definition.
TEST_CASE("lrn: what the rounding test leaves open is little, and goes to the definition") {
  if (detect_isa() < Isa::avx2) return;
  const Tensor x = make({1 << 20}, 9, false, 1000);
  Tensor y = Tensor::uninitialized(DType::f32, x.shape());
  static int calls = 0;
  calls = 0;
  const std::int64_t open = lrn_in_pieces(avx2::lrn, {.x = x.data<float>().data(),
                                                      .y = y.mutable_data<float>().data(),
                                                      .n = x.numel(),
                                                      .factor = 1e-4F,
                                                      .bias = 1,
                                                      .power = [](float b) {
                                                        ++calls;
                                                        return b;
                                                      }});
  CHECK(open == calls);
  CHECK(open < 16);
  calls = 0;
  CHECK(avx2::lrn({.x = x.data<float>().data(),
                   .y = y.mutable_data<float>().data(),
                   .n = 13,
                   .factor = -1,
                   .bias = -1,
                   .power = [](float) {
                     ++calls;
                     return 1.0F;
                   }}) == 13);
  CHECK(calls == 13);
  CHECK(y.data<float>()[12] == x.data<float>()[12]);
}

// The interval of f32 roots is 2^8 times as wide as that of f64 ones, so the second one and the
// definition are reached too. Bases from subnormal to near overflow, and 1 + k 2^-23, whose powers
// for k = 2, 6, 10, ... lie nearer to a midpoint the smaller k is. Here: f64 roots one by one.
TEST_CASE("lrn: roots in f32 decide the same bits as roots in f64") {
  Tensor wide = make({1 << 20}, 10, false, 1);
  for (std::int64_t i = 0; float& v : wide.mutable_data<float>())
    v = std::ldexp(v, static_cast<int>(i++ % 132) - 70);
  Tensor near = make({1 << 20}, 11, false, 1);
  for (std::int64_t k = 0; float& v : near.mutable_data<float>())
    v = std::sqrt(static_cast<float>(k++) * 0x1p-23F);
  for (const bool one : {false, true}) {
    const Tensor& x = one ? near : wide;
    const std::int64_t count = x.numel() - 3;
    std::vector<float> expected;
    std::int64_t left = 0;
    for (const float v : x.data<float>().first(static_cast<std::size_t>(count))) {
      const float base = std::fma(v, v, 0.0F) + (one ? 1.0F : 0.0F);
      const double root = std::sqrt(static_cast<double>(base)), p = root * std::sqrt(root);
      const float low = static_cast<float>(p * (1 - 0x1p-50)),
                  high = static_cast<float>(p * (1 + 0x1p-50));
      const bool decided = base > 0 && low == high;
      left += decided ? 0 : 1;
      expected.push_back(v / (decided ? low : base));
    }
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (detect_isa() < isa) continue;
      CAPTURE(static_cast<int>(isa));
      Tensor y = Tensor::uninitialized(DType::f32, x.shape());
      const std::int64_t open = lrn_in_pieces(isa == Isa::avx512 ? avx512::lrn : avx2::lrn,
                                              {.x = x.data<float>().data(),
                                               .y = y.mutable_data<float>().data(),
                                               .n = count,
                                               .factor = 1,
                                               .bias = one ? 1.0F : 0.0F,
                                               .power = [](float b) { return b; }});
      CHECK(open == left);
      std::int64_t differ = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (const float v = y.data<float>()[i];
            v != expected[i] && !(std::isnan(v) && std::isnan(expected[i])))
          ++differ;
      CHECK(differ == 0);
    }
  }
}
#endif

TEST_CASE("global pools: fast rows have the definition's bits") {
  int compared = 0;
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{2, 5, 7, 7}, Shape{3, 13, 5}, Shape{1, 9, 3, 4, 5}})
    for (const bool special : {false, true}) {
      const Tensor x = make(shape, 1, special);
      compared += compare("global_avg_pool", Params(), {&x});
      compared += compare("global_max_pool", Params(), {&x});
    }
  CHECK(compared >= 4 * 2 * 2 * 4);
}
