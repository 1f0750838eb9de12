// Claim: gemm, matmul, conv and conv_transpose under any order, walk, accumulator and fma have the
// definition's bits on the vector rows of order.h, for heights and widths past a tile, padding,
// strides, groups, several threads. The data shows the order: the contracts' results are asserted
// to differ.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/sum_tree.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/special_data.h"

using namespace etalon;

namespace {

// ties: products that are midpoints of f16 or bf16, among sums far below them, which f32 loses.
// brink: operands, products and sums around the smallest normal numbers of f32 and bf16, of f16.
enum class Data { noise, special, tiny, huge, ties, brink, brink16 };

Tensor make(const Shape& shape, std::uint64_t seed, Data data, DType dtype = DType::f32) {
  Tensor t = Tensor::uninitialized(dtype, shape);
  const Philox random{seed, 0};
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    float x = random.uniform(at);
    const float pick = test::share(random, at + 1000000);
    if (data == Data::tiny) x = pick < 0.5F ? x * 0x1p-75F : pick < 0.7F ? x * 0x1p-12F : -0.0F;
    if (data == Data::huge) x = pick < 0.5F ? x * 0x1p65F : x * 0x1p9F;
    if (data == Data::brink) x *= pick < 0.4F ? 0x1p-63F : pick < 0.7F ? 0x1p-62F : 0x1p-125F;
    if (data == Data::brink16) x *= pick < 0.4F ? 0x1p-7F : pick < 0.7F ? 0x1p-6F : 0x1p-13F;
    if (data == Data::special) x = test::special(x, pick);
    if (data == Data::ties) {
      constexpr float kValues[] = {1.0625F, 1.03125F, 1.015625F, 1.0F, 0x1p-12F, 0x1p-20F, 0.0F};
      x = std::copysign(kValues[static_cast<std::size_t>(pick * 6.99F)], x);
    }
    store_from_double(dtype, t.mutable_bytes().data(), i, static_cast<double>(x));
  }
  return t;
}

constexpr const char* kContracts[] = {"seq",
                                      "order=lanes:4",
                                      "order=lanes:7",
                                      "order=lanes:64",
                                      "order=pairwise:1",
                                      "order=pairwise:5",
                                      "order=blocks:9",
                                      "order=splitk:3",
                                      "order=splitk:100",
                                      "fma=off",
                                      "acc=f64",
                                      "acc=f64,fma=off,order=lanes:3",
                                      "acc=f16",
                                      "acc=f16,fma=off,order=pairwise:2",
                                      "acc=bf16",
                                      "acc=bf16,order=blocks:8",
                                      "acc=bf16,fma=off,order=lanes:8",
                                      "store=bf16,order=lanes:2",
                                      "subnormals=flush",
                                      "subnormals=flush,fma=off,order=lanes:4",
                                      "subnormals=flush,acc=f64,order=pairwise:3",
                                      "subnormals=flush,acc=f16",
                                      "subnormals=flush,acc=f16,fma=off,order=blocks:5",
                                      "subnormals=flush,acc=bf16,order=splitk:3",
                                      "subnormals=flush,acc=bf16,fma=off",
                                      "acc=f16,order=pairwise:1",
                                      "acc=bf16,order=pairwise:1",
                                      "acc=bf16,fma=off,order=pairwise:1",
                                      "subnormals=flush,acc=bf16,order=pairwise:1",
                                      "acc=f64,store=bf16",
                                      "acc=bf16,store=bf16,subnormals=flush",
                                      "round=rz",
                                      "round=ru,order=pairwise:3",
                                      "round=rd,fma=off,order=lanes:4",
                                      "round=rd,subnormals=flush,order=blocks:4",
                                      "round=rz,acc=f64,fma=off,order=splitk:3",
                                      "round=ru,acc=f64,fma=off",
                                      "round=ru,acc=f16,order=blocks:5",
                                      "round=rd,acc=f16,fma=off,subnormals=flush",
                                      "round=rz,acc=bf16",
                                      "round=ru,acc=bf16,fma=off,order=pairwise:1",
                                      "round=rd,acc=bf16,subnormals=flush,order=lanes:3",
                                      "round=rz,store=bf16,order=lanes:2",
                                      "walk=rsc",
                                      "walk=c2rs,order=blocks:18",
                                      "walk=rsc,acc=f64,order=pairwise:3"};

const int kRows = detect_isa() >= Isa::avx512 ? 2 : 1;  // of vectors, that take a contract here

struct Compared {
  int rows = 0;
  std::set<std::string> results;  // of the definition, by contract
};

// Every vector row that takes the contract against the definition.
void compare(const OpRow& op, const Params& params, const std::vector<Tensor>& inputs,
             const Contract& contract, Compared& seen) {
  std::vector<const Tensor*> in;
  for (const Tensor& t : inputs) in.push_back(&t);
  const auto run = [&](std::string kernel, int threads) {
    RunOptions options{.contract = contract, .threads = threads};
    options.kernels = std::move(kernel);
    return std::move(run_op(op, params, in, all_kernels(), options).outputs[0]);
  };
  const std::string prefix(op.name);
  const Tensor expected = run(prefix + ".definition", 2);
  seen.results.insert(to_string(hash_tensor(expected)));
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    if (!row->name.starts_with(prefix + ".order")) continue;
    if (!test::on_this_cpu(*row)) continue;
    for (const int threads : {1, 3}) {
      const Tensor got = run(std::string(row->name), threads);
      CHECK_MESSAGE(got.type() == expected.type(), row->name);
      CHECK_MESSAGE(std::memcmp(got.bytes().data(), expected.bytes().data(), got.size_bytes()) == 0,
                    row->name, " [", short_name(contract), "]");
      ++seen.rows;
    }
  }
}

Contract tree_contract(std::int64_t k) {
  // Neither balanced nor a chain: joins of what lies far apart, single terms, runs backwards.
  std::string text;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t at = i % 2 == 0 ? i / 2 : k - 1 - i / 2;
    text += (text.empty() ? "" : " ") + std::to_string(at);
    if (i % 3 == 1) text += " +";
    if (i % 3 == 2 && i > 3) text += " +";
  }
  std::int64_t open = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(' ', i), text.size());
    open += text[i] == '+' ? -1 : 1;
    i = end + 1;
  }
  for (; open > 1; --open) text += " +";
  Contract c = Contract::seq();
  c.order.kind = OrderKind::tree;
  c.order.tree = std::make_shared<SumTree>(SumTree::parse(text));
  c.order.tree_hash = c.order.tree->hash();
  return c;
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
    RunOptions options{.contract = c};
    options.kernels = "gemm.definition";
    const std::vector<const Tensor*> pointers{&in[0], &in[1]};
    const Tensor y = std::move(
        run_op(gemm_op(), Params(GemmParams{}), pointers, all_kernels(), options).outputs[0]);
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
  CHECK(seen.results.size() > 100);  // of 4 x 65 runs; some contracts agree where data is special
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > 200 * kRows);
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
  CHECK(seen.results.size() > 150);
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > 300 * kRows);
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
  CHECK(seen.results.size() > 150);
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > 300 * kRows);
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
  CHECK(seen.results.size() > 1500);
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > 10000 * kRows);
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
                        {Shape{270, 18}, {1}},        {Shape{4, 6, 5}, {1}}};
  Compared seen;
  for (const Data data :
       {Data::noise, Data::special, Data::tiny, Data::huge, Data::ties, Data::brink, Data::brink16})
    for (const Case& one : cases)
      for (const char* text : kContracts) {
        const Contract c = Contract::parse(text);
        if (c.walk != Walk{}) continue;
        std::vector<Tensor> x;
        x.push_back(make(one.x, 22, data, one.x.rank() == 3 ? DType::f16 : DType::f32));
        ReduceParams axes;
        axes.axes = one.axes;
        for (const char* op : {"reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2",
                               "reduce_sum_square", "reduce_log_sum"})
          compare(get_op(op), Params(axes), x, c, seen);
      }
  CHECK(seen.results.size() > 1500);
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > 10000 * kRows);
}
