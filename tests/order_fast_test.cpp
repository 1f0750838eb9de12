// Claim: gemm, matmul, conv and conv_transpose under any order, walk, accumulator and fma have the
// definition's bits on the vector rows of order.h, for heights and widths past a tile, padding,
// strides, groups, several threads. The data shows the order: the contracts' results are asserted
// to differ.
#include <doctest/doctest.h>

#include <bit>

#include "engine/numerics/fp.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "tests/order_compare.h"

using namespace etalon;
using namespace etalon::test;

namespace {

Tensor gemm_by_definition(const std::vector<Tensor>& in, const Contract& c) {
  RunOptions options{.contract = c};
  options.kernels = "gemm.definition";
  const std::vector<const Tensor*> pointers{&in[0], &in[1]};
  return std::move(
      run_op(gemm_op(), Params(GemmParams{}), pointers, all_kernels(), options).outputs[0]);
}

}  // namespace

TEST_CASE("order rows: sums in f16 and bf16 that f32 would round to a midpoint") {
  Compared seen;
  for (const char* text : {"acc=bf16", "acc=f16"}) {
    const Contract c = Contract::parse(text);
    std::vector<Tensor> in;
    in.push_back(make(Shape{160, 9}, 51, Data::ties));
    in.push_back(make(Shape{9, 140}, 52, Data::ties));
    compare(gemm_op(), Params(GemmParams{}), in, c, seen);
    // The data can see it: a chain that rounds to f32 first ends elsewhere.
    const Tensor y = gemm_by_definition(in, c);
    const auto a = in[0].data<float>(), b = in[1].data<float>(), expected = y.data<float>();
    int elsewhere = 0;
    for (std::size_t i = 0; i < 160; ++i)
      for (std::size_t j = 0; j < 140; ++j) {
        float s = 0;
        for (std::size_t k = 0; k < 9; ++k)
          s = static_cast<float>(
              round_to(static_cast<double>(fma_f32(a[i * 9 + k], b[k * 140 + j], s)), c.acc));
        elsewhere += s != expected[i * 140 + j] ? 1 : 0;
      }
    CHECK(elsewhere > 10);
  }
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows == 4 * kRows);
}

TEST_CASE("order rows: products that vanish, or reach the largest f16 or bf16") {
  // Products, all negative or with zeros among them, that become -0 or +0; sums below and above the
  // 2^15 from which on the faster rounding gives up, that f16 holds and that it does not; the same
  // of bf16 around 2^111; products that round up to the least normal f16 or bf16, which flushing
  // keeps, and that just do not.
  const std::pair<float, float> cases[] = {{0x1p-13F, -0x1p-14F},     {0x1.8p-13F, -0x1.8p-13F},
                                           {0x1p-70F, -0x1p-66F},     {80.0F, 50.0F},
                                           {80.0F, 100.0F},           {-80.5F, 100.0F},
                                           {0x1p50F, -0x1p50F},       {0x1p60F, 0x1p49F},
                                           {0x1p63F, 0x1.8p62F},      {0x1.ffcp-8F, 0x1p-7F},
                                           {0x1.ffcp-8F, -0x1p-7F},   {0x1.ff8p-8F, -0x1p-7F},
                                           {0x1.fep-60F, 0x1p-67F},   {0x1.04p-60F, -0x1.f8p-67F},
                                           {0x1.02p-60F, 0x1.fap-67F}};
  Compared seen;
  std::set<std::uint32_t> bits;
  for (const auto& [one, other] : cases)
    for (const std::int64_t k : {8, 16, 21})
      for (const char* text :
           {"acc=f16,order=pairwise:1", "acc=f16,fma=off,order=pairwise:1",
            "acc=bf16,order=pairwise:1", "acc=bf16,fma=off,order=pairwise:1", "order=pairwise:1",
            "round=rd,order=pairwise:1", "acc=f16,fma=off", "acc=f16,fma=off,order=blocks:5",
            "acc=bf16,fma=off", "acc=bf16,fma=off,order=lanes:3", "acc=f16,subnormals=flush",
            "acc=f16,fma=off,subnormals=flush", "acc=f16,fma=off,subnormals=flush,order=blocks:5",
            "acc=f16,fma=off,subnormals=flush,order=lanes:3",
            "acc=f16,subnormals=flush,order=pairwise:1",
            "acc=f16,fma=off,subnormals=flush,order=pairwise:1",
            "acc=bf16,fma=off,subnormals=flush", "acc=bf16,subnormals=flush,order=pairwise:1",
            "acc=bf16,fma=off,subnormals=flush,order=pairwise:1"}) {
        std::vector<Tensor> in;
        in.push_back(make(Shape{11, k}, 61, Data::noise));
        in.push_back(make(Shape{k, 37}, 62, Data::noise));
        const auto fill = [](Tensor& t, float value) {
          for (float& x : t.mutable_data<float>()) x = x > 0.95F ? 0.0F : value;
        };
        fill(in[0], one);
        fill(in[1], other);
        compare(gemm_op(), Params(GemmParams{}), in, Contract::parse(text), seen);
        const Tensor y = gemm_by_definition(in, Contract::parse(text));
        for (const float v : y.data<float>()) bits.insert(std::bit_cast<std::uint32_t>(v));
      }
  CHECK(bits.contains(0x80000000U));
  CHECK(bits.contains(0U));
  CHECK(bits.contains(std::bit_cast<std::uint32_t>(64000.0F)));
  CHECK(bits.contains(0x7f800000U));
  CHECK(bits.contains(std::bit_cast<std::uint32_t>(8 * 0x1p-126F)));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows == 2 * 15 * 3 * 19 * kRows);
}

TEST_CASE("order rows: products beyond f16 that cancel to a sum within it") {
  Compared seen;
  for (const std::int64_t m : {1, 11})
    for (const char* text :
         {"acc=f16,subnormals=flush,order=pairwise:1", "acc=f16,order=pairwise:1",
          "acc=f16,fma=off,subnormals=flush,order=pairwise:1",
          "acc=f16,fma=off,subnormals=flush"}) {
      std::vector<Tensor> in;
      in.push_back(make(Shape{m, 16}, 71, Data::noise));
      in.push_back(make(Shape{16, 300}, 72, Data::noise));
      for (float& x : in[0].mutable_data<float>()) x = 300.0F + x;
      for (std::size_t i = 0; i < 16 * 300; ++i) {
        float& x = in[1].mutable_data<float>()[i];
        x = i % 300 < 150 ? x : (i / 300 % 2 == 0 ? 1.0F : -1.0F) * (300.0F + x);
      }
      compare(gemm_op(), Params(GemmParams{}), in, Contract::parse(text), seen);
      const Tensor y = gemm_by_definition(in, Contract::parse(text));
      CHECK(std::isfinite(y.data<float>()[0]));
      CHECK(!std::isfinite(y.data<float>()[299]));
    }
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows == 2 * 2 * 4 * kRows);
}

TEST_CASE("order rows: terms in the padding beside sums that are zeros of either sign") {
  // Rows without their masks give +0 for the -0 of products that vanish, of which a term in the
  // padding is none; pixels and weights that are zero, infinite or NaN.
  Compared seen;
  std::set<std::uint32_t> bits;
  for (const float weight : {-0x1p-14F, -0x1p-70F, 0.0F, -0.0F, 1.5F})
    for (const float rare : {0.0F, 1.0F, INFINITY, NAN})
      for (const char* text :
           {"acc=f16", "acc=bf16", "acc=f16,fma=off", "acc=bf16,fma=off", "acc=f16,order=blocks:4",
            "acc=bf16,order=lanes:3", "acc=bf16,order=pairwise:1", "acc=f16,order=pairwise:1",
            "acc=f16,order=pairwise:2", "acc=bf16,subnormals=flush", "acc=f16,subnormals=flush",
            "acc=f16,fma=off,subnormals=flush", "acc=f16,subnormals=flush,order=pairwise:1",
            "acc=f16,fma=off,subnormals=flush,order=pairwise:1", "acc=bf16,round=rd"}) {
        ConvParams p;
        p.strides = p.dilations = p.pads_begin = p.pads_end = Ints{1, 1};
        std::vector<Tensor> in;
        in.push_back(make(Shape{1, 2, 5, 8}, 65, Data::noise));
        in.push_back(make(Shape{18, 2, 3, 3}, 66, Data::noise));
        const auto fill = [](Tensor& t, float value, float other) {
          for (float& x : t.mutable_data<float>()) x = x > 0.93F ? other : value;
        };
        fill(in[0], weight < -0x1p-20F ? 0x1p-13F : 0x1p-66F, rare);
        fill(in[1], weight, weight);
        const Contract c = Contract::parse(text);
        compare(conv_op(), Params(p), in, c, seen);
        ConvTransposeParams turned;  // of its phases' orders some terms are missing
        turned.strides = Ints{2, 1};
        turned.dilations = turned.pads_begin = turned.pads_end = Ints{1, 1};
        in[1] = in[1].reshaped(Shape{2, 18, 3, 3});
        compare(conv_transpose_op(), Params(turned), in, c, seen);
        in[1] = in[1].reshaped(Shape{18, 2, 3, 3});
        RunOptions options{.contract = c};
        options.kernels = "conv.definition";
        const std::vector<const Tensor*> pointers{&in[0], &in[1]};
        const Tensor y =
            std::move(run_op(conv_op(), Params(p), pointers, all_kernels(), options).outputs[0]);
        for (const float v : y.data<float>()) bits.insert(std::bit_cast<std::uint32_t>(v));
      }
  for (const std::uint32_t v : {0U, 0x80000000U, 0x7f800000U, 0x7fc00000U}) CHECK(bits.contains(v));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows == 2 * 2 * 5 * 4 * 15 * kRows);
}

TEST_CASE("order rows: single terms in the padding beside infinite weights, rounded down too") {
  Compared seen;
  for (const Data data : {Data::noise, Data::special})
    for (const char* text :
         {"order=pairwise:1", "round=rd,order=pairwise:1", "round=rd,fma=off,order=pairwise:1",
          "round=ru,order=pairwise:1", "acc=f64,order=pairwise:1", "acc=f16,order=pairwise:1",
          "acc=bf16,fma=off,order=pairwise:1"}) {
      ConvParams p;
      p.strides = p.dilations = p.pads_begin = p.pads_end = Ints{1, 1};
      std::vector<Tensor> in;
      in.push_back(make(Shape{1, 3, 7, 9}, 63, data));
      in.push_back(make(Shape{10, 3, 3, 3}, 64, data));
      compare(conv_op(), Params(p), in, Contract::parse(text), seen);
    }
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows == 2 * 2 * 7 * kRows);
}

TEST_CASE("order rows: gemm and matmul have the definition's bits under every contract") {
  Compared seen;
  for (const Data data : {Data::noise, Data::special, Data::tiny, Data::huge, Data::ties,
                          Data::brink, Data::brink16}) {
    for (const char* text : kContracts) {
      const Contract c = Contract::parse(text);
      std::vector<Tensor> in;
      in.push_back(make(Shape{11, 67}, 1, data));
      in.push_back(make(Shape{67, 45}, 2, data));
      in.push_back(make(Shape{45}, 3, data));
      compare(gemm_op(), Params(GemmParams{}), in, c, seen);
      in[0] = make(Shape{3, 67}, 9, data);  // few rows: b may be read as it lies
      compare(gemm_op(), Params(GemmParams{}), in, c, seen);
      GemmParams scaled;
      scaled.alpha = -0.7F;
      scaled.beta = -1.3F;
      scaled.trans_a = scaled.trans_b = true;
      in[0] = make(Shape{67, 3}, 4, data, DType::bf16);
      in[1] = make(Shape{40, 67}, 5, data, DType::bf16);
      in[2] = make(Shape{3, 1}, 6, data, DType::bf16);
      compare(gemm_op(), Params(scaled), in, c, seen);
      in[0] = make(Shape{67, 5}, 4, data, DType::f16);
      in[1] = make(Shape{19, 67}, 5, data, DType::f16);
      in[2] = make(Shape{5, 1}, 6, data, DType::f16);
      compare(gemm_op(), Params(scaled), in, c, seen);
      std::vector<Tensor> batch;
      batch.push_back(make(Shape{2, 3, 9, 20}, 7, data));
      batch.push_back(make(Shape{3, 20, 18}, 8, data));
      compare(matmul_op(), Params(NoParams{}), batch, c, seen);
    }
    std::vector<Tensor> in;
    in.push_back(make(Shape{9, 67}, 1, data));
    in.push_back(make(Shape{67, 33}, 2, data));
    compare(gemm_op(), Params(GemmParams{}), in, tree_contract(67), seen);
    compare(gemm_op(), Params(GemmParams{}), in, Contract::parse("order=blocks:30+1+20+16"), seen);
  }
  // Of 4 x 65 runs; some contracts agree where data is special.
  CHECK(seen.results.size() > at_least(100));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(200) * kRows);
}

TEST_CASE("order rows: one row of a, panels of b side by side, has the definition's bits") {
  // 16 panels and one that is not whole with AVX2, 8 and one of AVX-512's; terms enough for trees
  // of every height and one that is left over.
  Compared seen;
  const auto row_of = [&](Data data, std::int64_t k, const Contract& c) {
    std::vector<Tensor> in;
    in.push_back(make(Shape{1, k}, 31, data));
    in.push_back(make(Shape{k, 270}, 32, data));
    in.push_back(make(Shape{270}, 33, data));
    compare(gemm_op(), Params(GemmParams{}), in, c, seen);
    GemmParams turned;
    turned.trans_b = true;
    in[1] = make(Shape{270, k}, 34, data, DType::bf16);
    compare(gemm_op(), Params(turned), in, c, seen);
  };
  for (const Data data : {Data::noise, Data::special, Data::ties, Data::brink, Data::brink16}) {
    if (!seen_here(data)) continue;
    for (const char* text : kContracts) row_of(data, 23, Contract::parse(text));
    row_of(data, 1, Contract::parse("acc=f16"));
    for (const char* text :
         {"acc=f64,order=pairwise:1", "round=ru,acc=f64,fma=off,order=pairwise:1",
          "acc=f64,subnormals=flush,order=pairwise:1"})
      row_of(data, 23, Contract::parse(text));
    Contract tree = tree_contract(23);
    for (const DType acc : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      tree.acc = acc;
      row_of(data, 23, tree);
    }
  }
  CHECK(seen.results.size() > at_least(100));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(400) * kRows);
}

TEST_CASE("order rows: conv has the definition's bits under every contract and walk") {
  struct Case {
    Shape x, w;
    Ints strides, dilations, begin, end;
    std::int64_t groups = 1;
  };
  const Case cases[] = {
      {Shape{2, 6, 7, 9}, Shape{10, 6, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {Shape{1, 4, 11, 10}, Shape{6, 2, 3, 2}, {2, 3}, {1, 2}, {2, 0}, {1, 3}, 2},
      {Shape{3, 5, 12}, Shape{3, 5, 4}, {1}, {1}, {0}, {0}},
      {Shape{1, 7, 6, 6}, Shape{7, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 7},
      {Shape{2, 19, 6, 5}, Shape{38, 1, 3, 3}, {1, 2}, {1, 1}, {1, 0}, {1, 2}, 19},
      {Shape{1, 3, 4, 5, 6}, Shape{4, 3, 2, 2, 2}, {1, 1, 2}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}}};
  Compared seen;
  for (const Data data : {Data::noise, Data::special, Data::tiny, Data::brink, Data::brink16})
    for (const Case& one : cases) {
      if (!seen_here(data)) continue;
      ConvParams p;
      p.strides = one.strides;
      p.dilations = one.dilations;
      p.pads_begin = one.begin;
      p.pads_end = one.end;
      p.groups = one.groups;
      std::vector<Tensor> in;
      in.push_back(make(one.x, 11, data));
      in.push_back(make(one.w, 12, data));
      in.push_back(make(Shape{one.w[0]}, 13, data));
      for (const char* text : kContracts) {
        const Contract c = Contract::parse(text);
        // Blocks of a list and trees are of one length.
        compare(conv_op(), Params(p), in, c, seen);
      }
      compare(conv_op(), Params(p), in, tree_contract(one.w.product(1, one.w.rank())), seen);
    }
  CHECK(seen.results.size() > at_least(150));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(300) * kRows);
}

TEST_CASE("order rows: conv_channels_last of one channel a group has the definition's bits") {
  struct Case {
    Shape x, w;
    Ints strides, dilations, begin, end;
  };
  // Channels of less than a vector, of several panels and a rest; several images.
  const Case cases[] = {{Shape{2, 6, 5, 7}, Shape{7, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                        {Shape{3, 5, 4, 83}, Shape{83, 1, 2, 3}, {2, 1}, {1, 2}, {0, 2}, {1, 2}},
                        {Shape{1, 9, 160}, Shape{160, 1, 4}, {2}, {1}, {3}, {0}}};
  Compared seen;
  for (const Data data : {Data::noise, Data::special, Data::tiny, Data::brink, Data::brink16})
    for (const Case& one : cases) {
      if (!seen_here(data)) continue;
      ConvParams p;
      p.strides = one.strides;
      p.dilations = one.dilations;
      p.pads_begin = one.begin;
      p.pads_end = one.end;
      p.groups = one.w[0];
      const DType type = one.x.rank() == 3 ? DType::f16 : DType::f32;
      std::vector<Tensor> in;
      in.push_back(make(one.x, 15, data, type));
      in.push_back(make(one.w, 16, data, type));
      in.push_back(make(Shape{one.w[0]}, 17, data, type));
      for (const char* text : kContracts)
        compare(get_op("conv_channels_last"), Params(p), in, Contract::parse(text), seen);
    }
  CHECK(seen.results.size() > at_least(100));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(300) * kRows);
}

TEST_CASE("order rows: conv_transpose has the definition's bits under every contract and walk") {
  struct Case {
    Shape x, w;
    Ints strides, dilations, begin, end, more;
    std::int64_t groups = 1;
  };
  // Phases of equal and of different taps, taps that meet no output, outputs that meet no tap.
  const Case cases[] = {
      {Shape{2, 6, 5, 7}, Shape{6, 10, 4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {Shape{1, 4, 6, 5}, Shape{4, 3, 3, 2}, {2, 3}, {1, 2}, {2, 0}, {1, 1}, {1, 2}, 2},
      {Shape{3, 5, 12}, Shape{5, 3, 4}, {3}, {2}, {0}, {0}, {1}},
      {Shape{1, 7, 6, 6}, Shape{7, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 7},
      {Shape{2, 17, 4, 5}, Shape{17, 1, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 17},
      {Shape{2, 9, 4, 3}, Shape{9, 5, 2, 1}, {3, 4}, {1, 1}, {0, 0}, {0, 0}, {2, 1}},
      {Shape{1, 3, 2, 3, 4}, Shape{3, 4, 2, 2, 2}, {1, 1, 2}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {}}};
  Compared seen;
  for (const Data data : {Data::noise, Data::special, Data::tiny, Data::brink, Data::brink16})
    for (const Case& one : cases) {
      if (!seen_here(data)) continue;
      ConvTransposeParams p;
      p.strides = one.strides;
      p.dilations = one.dilations;
      p.pads_begin = one.begin;
      p.pads_end = one.end;
      p.output_padding = one.more;
      p.groups = one.groups;
      const DType type = data == Data::noise && one.groups == 2 ? DType::bf16 : DType::f32;
      std::vector<Tensor> in;
      in.push_back(make(one.x, 11, data, type));
      in.push_back(make(one.w, 12, data, type));
      in.push_back(make(Shape{one.w[1] * one.groups}, 13, data, type));
      for (const char* text : kContracts)
        compare(conv_transpose_op(), Params(p), in, Contract::parse(text), seen);
      const std::int64_t k = one.x[1] / one.groups * one.w.product(2, one.w.rank());
      compare(conv_transpose_op(), Params(p), in, tree_contract(k), seen);
    }
  CHECK(seen.results.size() > at_least(150));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(300) * kRows);
}

TEST_CASE("order rows: pools have the definition's bits under every contract") {
  struct Case {
    Shape x;
    Ints kernel, strides, dilations, begin, end;
    bool ceil = false;
  };
  // Strides below, at and above the kernel; dilations; planes of less and more than a tile.
  const Case cases[] = {
      {Shape{2, 3, 9, 11}, {3, 4}, {2, 1}, {1, 1}, {1, 2}, {1, 2}},
      {Shape{1, 9, 6, 5}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, true},
      {Shape{1, 2, 23, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {Shape{1, 2, 13, 12}, {2, 1}, {3, 4}, {2, 1}, {0, 0}, {1, 0}},
      {Shape{1, 2, 12, 13}, {2, 3}, {3, 2}, {1, 3}, {1, 2}, {0, 1}},
      {Shape{40, 1, 3}, {3}, {1}, {1}, {0}, {0}},
      {Shape{1, 5, 12, 150}, {3, 2}, {1, 2}, {1, 1}, {1, 0}, {2, 0}},
      {Shape{2, 70, 4, 5}, {2, 2}, {1, 2}, {1, 1}, {1, 1}, {0, 0}},
      {Shape{1, 3, 4, 5, 6}, {2, 3, 2}, {1, 2, 3}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}}};
  Compared seen;
  for (const Data data :
       {Data::noise, Data::special, Data::tiny, Data::huge, Data::ties, Data::brink, Data::brink16})
    for (const Case& one : cases)
      for (const char* text : kContracts) {
        const Contract c = Contract::parse(text);
        if (c.walk != Walk{}) continue;
        if (!seen_here(data)) continue;
        AvgPoolParams pool;
        pool.kernel = one.kernel;
        pool.strides = one.strides;
        pool.dilations = one.dilations;
        pool.pads_begin = one.begin;
        pool.pads_end = one.end;
        pool.ceil_mode = one.ceil;
        std::vector<Tensor> x;
        const DType type = one.ceil ? DType::bf16 : DType::f32;
        x.push_back(make(one.x, 21, data, type));
        compare(get_op("avg_pool"), Params(pool), x, c, seen);
        pool.count_include_pad = true;
        compare(get_op("avg_pool"), Params(pool), x, c, seen);
        compare(get_op("global_avg_pool"), Params(), x, c, seen);
        for (const float power : {1.0F, 2.0F}) {
          LpPoolParams lp;
          static_cast<PoolParams&>(lp) = pool;
          lp.p = power;
          compare(get_op("lp_pool"), Params(lp), x, c, seen);
          GlobalLpPoolParams global;
          global.p = power;
          compare(get_op("global_lp_pool"), Params(global), x, c, seen);
        }
      }
  CHECK(seen.results.size() > at_least(1500));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(10000) * kRows);
}

TEST_CASE("order rows: reductions have the definition's bits under every contract") {
  struct Case {
    Shape x;
    Ints axes;
  };
  // Outputs that are neighbours, past a tile and with a rest; terms that are; neither.
  const Case cases[] = {{Shape{2, 3, 9, 11}, {1, 3}}, {Shape{2, 3, 9, 11}, {0}},
                        {Shape{9, 300}, {0}},         {Shape{2, 7, 50}, {1}},
                        {Shape{37, 21}, {1}},         {Shape{3, 5, 34}, {0, 2}},
                        {Shape{270, 18}, {1}},        {Shape{4, 6, 5}, {1}},
                        {Shape{1, 300}, {1}},         {Shape{3, 2, 10}, {0, 2}}};
  Compared seen;
  for (const Data data :
       {Data::noise, Data::special, Data::tiny, Data::huge, Data::ties, Data::brink, Data::brink16})
    for (const Case& one : cases)
      for (const char* text : kContracts) {
        const Contract c = Contract::parse(text);
        if (c.walk != Walk{} || !seen_here(data)) continue;
        std::vector<Tensor> x;
        x.push_back(make(one.x, 22, data, one.x.rank() == 3 ? DType::f16 : DType::f32));
        ReduceParams axes;
        axes.axes = one.axes;
        for (const char* op : {"reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2",
                               "reduce_sum_square", "reduce_log_sum"})
          compare(get_op(op), Params(axes), x, c, seen);
      }
  CHECK(seen.results.size() > at_least(1500));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(10000) * kRows);
}
