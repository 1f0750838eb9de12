// The bound of engine/numerics/any_order.h holds for whatever order, format and fusing the contract
// arithmetic can be told, random trees included, on data that cancels and that underflows.
#include "engine/numerics/any_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/sum_tree.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "kernels/kernels.h"
#include "tests/random_tree.h"

using namespace etalon;

namespace {

// Random signs, magnitudes over `decades` powers of two: orders, fusing and formats all show.
Tensor noise(const Shape& shape, std::uint64_t seed, double scale = 1, int octaves = 6) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const double u = static_cast<double>(random.uniform(i++)) / 2 + 0.5;
    const double e = std::floor((static_cast<double>(random.uniform(i++)) / 2 + 0.5) * octaves);
    x = static_cast<float>((2 * u - 1) * std::exp2(-e) * scale);
  }
  return t;
}

SumTree random_tree(std::int64_t terms, std::uint64_t seed) {
  const Philox random{seed, 7};
  std::uint64_t draw = 0;
  return test::random_tree(terms, [&](std::size_t n) {
    const double share = static_cast<double>(random.uniform(draw++)) / 2 + 0.5;
    return std::min(static_cast<std::size_t>(share * static_cast<double>(n)), n - 1);
  });
}

Tensor to_f16(const Tensor& t) {
  Tensor narrow = Tensor::uninitialized(DType::f16, t.shape());
  const auto to = narrow.mutable_data<Float16>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = to_float16(t.data<float>()[i]);
  return narrow;
}

struct Looseness {
  double worst = 0;  // |error| / bound
  std::int64_t compared = 0, likely_broken = 0;
};

const KernelRow& definition_of(const char* op) {
  for (const KernelRow* row : all_kernels().rows_of(op))
    if (row->bound != nullptr) return *row;
  throw internal_error("{} has no definition", op);
}

std::vector<OutputBound> bounds(const OpRow& op, const Params& params,
                                std::span<const Tensor* const> inputs, const Contract& contract,
                                const AnyOrderModel& model) {
  std::vector<InferInput> in;
  for (const Tensor* t : inputs) in.push_back({t->type(), t, true});
  const std::vector<TensorType> types = infer(op, params, InferInputs(in));
  const Problem problem{
      .op = &op, .params = &params, .inputs = in, .outputs = types, .contract = &contract};
  const KernelCall call{.problem = &problem, .inputs = inputs};
  const KernelRow& row = definition_of(op.name.data());
  std::vector<std::int64_t> slices(static_cast<std::size_t>(row.slices(call)));
  std::iota(slices.begin(), slices.end(), 0);
  std::vector<OutputBound> found;
  row.bound(call, model, slices, found);
  std::ranges::sort(found, {}, &OutputBound::index);
  return found;
}

Looseness compare(const OpRow& op, const Params& params, std::vector<const Tensor*> inputs,
                  const Contract& contract) {
  const auto rigorous = bounds(op, params, inputs, contract, AnyOrderModel::of(contract));
  const auto likely = bounds(op, params, inputs, contract, {.acc = contract.acc, .lambda = 6});
  const OpRun run = run_op(op, params, inputs, all_kernels(), {.contract = contract});
  Looseness l;
  for (std::size_t i = 0; i < rigorous.size(); ++i) {
    const double got = load_as_double(run.outputs[0], rigorous[i].index);
    if (rigorous[i].bound == kInfinity) continue;
    ++l.compared;
    const double error = abs_of(got - rigorous[i].real);
    REQUIRE(is_finite(got));
    l.worst = std::max(
        l.worst, rigorous[i].bound == 0 ? (error == 0 ? 0 : 1e300) : error / rigorous[i].bound);
    if (error > likely[i].bound) ++l.likely_broken;
  }
  return l;
}

}  // namespace

TEST_CASE("any-order bound: gemm with bias in 90 orders and formats, never violated") {
  const OpRow& op = get_op("gemm");
  double worst = 0, loosest = 1;  // over contracts: the share of the bound that is reached
  std::int64_t compared = 0;
  for (const std::int64_t k : {1, 2, 7, 25, 300}) {
    const Tensor a = noise({6, k}, 1), b = noise({k, 5}, 2), c = noise({5}, 3);
    GemmParams params;
    params.alpha = k == 7 ? 0.7F : 1.0F;
    std::vector<Contract> contracts;
    for (const char* text : {"seq", "fma=off", "order=lanes:8", "order=pairwise:1",
                             "order=splitk:3,fma=off", "acc=bf16", "acc=f16", "acc=bf16,fma=off",
                             "acc=f16,order=lanes:4", "store=bf16", "store=f16,acc=f16"})
      contracts.push_back(Contract::parse(text));
    for (std::uint64_t seed = 0; seed < 7; ++seed) {
      Contract tree = Contract::parse(seed % 2 ? "fma=off" : "seq");
      tree.order.kind = OrderKind::tree;
      tree.order.tree = std::make_shared<SumTree>(random_tree(k, seed));
      contracts.push_back(tree);
    }
    for (const Contract& contract : contracts) {
      const Looseness l = compare(op, Params(params), {&a, &b, &c}, contract);
      CHECK_MESSAGE(l.worst <= 1, short_name(contract) << " K=" << k);
      worst = std::max(worst, l.worst);
      if (k > 2 && contract.acc == DType::f32) loosest = std::min(loosest, l.worst);
      compared += l.compared;
      if (contract.acc == DType::f32 && contract.store == DType::f32) CHECK(l.likely_broken == 0);
    }
  }
  CHECK(compared >= 2000);
  // Not so loose as to be empty: the closest output comes within a factor of 4.
  CHECK(worst > 0.25);
  MESSAGE("any-order bound, gemm: closest error/bound " << worst << ", per contract at least "
                                                        << loosest);
}

TEST_CASE("any-order bound: subnormal results, kept and flushed") {
  const OpRow& op = get_op("gemm");
  // Products around 2^-140: each loses bits to underflow, which u * sum |ab| alone does not cover.
  const Tensor a = noise({4, 30}, 4, 0x1p-70, 3), b = noise({30, 4}, 5, 0x1p-70, 3);
  bool needed = false;
  for (const char* text : {"fma=off", "seq", "order=lanes:4,fma=off", "fma=off,subnormals=flush"}) {
    const Contract contract = Contract::parse(text);
    const Looseness l = compare(op, Params(GemmParams{}), {&a, &b}, contract);
    CHECK_MESSAGE(l.worst <= 1, std::string(text));
    CHECK(l.compared == 16);
    const OpRun run = run_op(op, Params(GemmParams{}), std::vector<const Tensor*>{&a, &b},
                             all_kernels(), {.contract = contract});
    for (const OutputBound& o :
         bounds(op, Params(GemmParams{}), std::vector<const Tensor*>{&a, &b}, contract, {}))
      needed |=
          abs_of(load_as_double(run.outputs[0], o.index) - o.real) > 31 * 0x1p-24 * 30 * 0x1p-140;
  }
  CHECK(needed);  // the data does underflow
}

TEST_CASE("any-order bound: a term that the accumulator's format does not hold is rounded first") {
  // 0 + x1 = 1, then 1 + x2 = 2 in bf16: off by 0.0116, one addition's share is 2^-8 of 2.0116.
  const Tensor x = Tensor::of<float>({1, 2}, {0x1.00fcp0F, 0x1.01fcp0F});
  const OpRow& op = get_op("reduce_sum");
  const Looseness l =
      compare(op, parse_params(op.defaults(), "axes=[1]"), {&x}, Contract::parse("acc=bf16"));
  CHECK(l.compared == 1);
  CHECK(l.worst > 0.5);  // of the bound of two roundings: one alone would be passed
  CHECK(l.worst <= 1);
}

TEST_CASE("any-order bound: inputs that the accumulator's format does not hold are rounded too") {
  // Both factors lie just above a midpoint of bf16: 1.0039 becomes 1.0078, the product 1.0156
  // where 1.0079 is right. One rounding is 0.0039 of it.
  const Tensor x = Tensor::of<float>({1, 1}, {0x1.0102p0F});
  const Looseness l =
      compare(get_op("gemm"), Params(GemmParams{}), {&x, &x}, Contract::parse("acc=bf16"));
  CHECK(l.compared == 1);
  CHECK(l.worst > 0.5);
  CHECK(l.worst <= 1);
  // 70000 is no number of f16 at all: no statement, though the sum would be one.
  const Tensor large = Tensor::of<float>({1, 1}, {70000}),
               small = Tensor::of<float>({1, 1}, {0.5F});
  CHECK(bounds(get_op("gemm"), Params(GemmParams{}), std::vector<const Tensor*>{&large, &small},
               Contract::parse("acc=f16"), {.acc = DType::f16})[0]
            .bound == kInfinity);
}

TEST_CASE("any-order bound: what underflowed grows with the factor that follows") {
  const Tensor a = noise({4, 30}, 4, 0x1p-70, 3), b = noise({30, 4}, 5, 0x1p-70, 3);
  GemmParams params;
  params.alpha = 0x1p100F;
  bool needed = false;
  for (const char* text : {"seq", "fma=off", "order=lanes:4,fma=off", "subnormals=flush"}) {
    const Contract contract = Contract::parse(text);
    const Looseness l = compare(get_op("gemm"), Params(GemmParams(params)), {&a, &b}, contract);
    CHECK_MESSAGE(l.worst <= 1, std::string(text));
    CHECK(l.compared == 16);
    const OpRun run =
        run_op(get_op("gemm"), Params(GemmParams(params)), std::vector<const Tensor*>{&a, &b},
               all_kernels(), {.contract = contract});
    for (const OutputBound& o :
         bounds(get_op("gemm"), Params(GemmParams(params)), std::vector<const Tensor*>{&a, &b},
                contract, AnyOrderModel::of(contract)))
      needed |= abs_of(load_as_double(run.outputs[0], o.index) - o.real) >
                33 * 0x1p-24 * 30 * 0x1p-140 * 0x1p100;
  }
  CHECK(needed);  // more than roundings of the scaled terms make
}

TEST_CASE("any-order bound: roundings in a direction are twice as large") {
  bool needed = false;
  for (const std::int64_t k : {1, 2, 3, 25}) {
    const Tensor a = noise({24, k}, 6), b = noise({k, 24}, 7);
    for (const char* text : {"round=rz", "round=ru,fma=off", "round=rd,order=pairwise:1",
                             "round=rz,acc=bf16", "round=ru,acc=f16,fma=off"}) {
      const Contract contract = Contract::parse(text);
      const Looseness l = compare(get_op("gemm"), Params(GemmParams{}), {&a, &b}, contract);
      CHECK_MESSAGE(l.worst <= 1, std::string(text) << " K=" << k);
      CHECK(l.compared == 576);
      needed |= l.worst > 0.5;
    }
  }
  CHECK(needed);  // the bound for nearest was passed
}

TEST_CASE("any-order bound: no statement where a narrower output may overflow") {
  // 65530 is a number of f32; as f16 it is infinite, and rightly so.
  const Tensor a = Tensor::of<float>({1, 2}, {65500, 30}), b = Tensor::of<float>({2, 1}, {1, 1});
  const Tensor x = to_f16(a), y = to_f16(b);
  const auto found = bounds(get_op("gemm"), Params(GemmParams{}),
                            std::vector<const Tensor*>{&x, &y}, Contract::seq(), {});
  CHECK(found[0].real == doctest::Approx(65530).epsilon(0.001));
  CHECK(found[0].bound == kInfinity);
}

TEST_CASE("any-order bound: a product that over- or underflows in another order") {
  const auto bound_of = [](const Tensor& x, const char* contract) {
    const OpRow& op = get_op("reduce_prod");
    const Contract c = Contract::parse(contract);
    return bounds(op, parse_params(op.defaults(), "axes=[1]"), std::vector<const Tensor*>{&x}, c,
                  AnyOrderModel::of(c))[0];
  };
  const auto of_f32 = [&](std::initializer_list<float> factors) {
    return bound_of(Tensor::of<float>({1, 4}, factors), "seq");
  };
  // In sequence 1, as (x0 x2) (x1 x3) zero times infinity.
  CHECK(of_f32({0x1p-100F, 0x1p100F, 0x1p-100F, 0x1p100F}).bound == kInfinity);
  // In sequence 1.5 * 2^-40, from the small ones zero.
  const OutputBound lost = of_f32({0x1p-80F, 0x1p60F, 0x1p-80F, 0x1.8p60F});
  CHECK(lost.real == 0x1.8p-40);
  CHECK(lost.bound >= lost.real);
  CHECK(lost.bound < 0x1p-20);
  const OutputBound usual = of_f32({1.1F, 0.9F, -1.3F, 0.7F});
  CHECK(usual.bound < 1e-6);
  CHECK(usual.bound > 0);
  // Infinite in sequence, NaN if the small ones meet first; NaN in any order with a zero.
  constexpr float kInf = std::numeric_limits<float>::infinity();
  CHECK(of_f32({kInf, 2, 0x1p-100F, 0x1p-100F}).bound == kInfinity);
  CHECK(of_f32({kInf, 2, 0.5F, 3}).bound == 0);
  CHECK(of_f32({kInf, 2, 0, 3}).bound == 0);
  // The same in f64, whose half of the smallest subnormal is no double.
  const auto of_f64 = [&](std::initializer_list<double> factors) {
    return bound_of(Tensor::of<double>({1, 4}, factors), "acc=f64,store=f64").bound;
  };
  CHECK(of_f64({0x1p-800, 0x1p800, 0x1p-800, 0x1p800}) == kInfinity);
  CHECK(of_f64({0x1p800, 0x1p800, 0x1p-800, 0x1p-800}) == kInfinity);
  CHECK(of_f64({0x1p-600, 0x1p-600, 0x1p500, 0x1.8p500}) >= 0x1.8p-200);
}

TEST_CASE("any-order bound: no statement where an order may overflow or K u >= 1") {
  const OpRow& op = get_op("gemm");
  const Tensor a = Tensor::of<float>({1, 3}, {0x1p127F, 0x1p127F, -0x1p127F});
  const Tensor b = Tensor::of<float>({3, 1}, {1, 1, 1});
  // In order 1, 2, 3 the sum overflows; as 1 + (2 + 3) it is 2^127.
  const auto over =
      bounds(op, Params(GemmParams{}), std::vector<const Tensor*>{&a, &b}, Contract::seq(), {});
  CHECK(over[0].bound == kInfinity);
  const Tensor x = noise({1, 300}, 1), y = noise({300, 1}, 2);
  const auto coarse = bounds(op, Params(GemmParams{}), std::vector<const Tensor*>{&x, &y},
                             Contract::parse("acc=bf16"), {.acc = DType::bf16});
  CHECK(coarse[0].bound == kInfinity);  // 300 * 2^-8 >= 1
  // Exact cases have no error at all.
  const Tensor one = Tensor::of<float>({1, 1}, {3}), two = Tensor::of<float>({1, 1}, {4});
  CHECK(bounds(get_op("relu"), Params(), std::vector<const Tensor*>{&one}, Contract::seq(), {})[0]
            .bound == 0);
}
