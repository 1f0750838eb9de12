// What tests of rows in a contract's order share: contracts, hostile data, and the comparison of
// every vector row that takes a contract with the definition.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/sum_tree.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/peak_memory.h"
#include "tests/special_data.h"

namespace etalon::test {

// ties: products that are midpoints of f16 or bf16, among sums far below them, which f32 loses.
// brink: operands, products and sums around the smallest normal numbers of f32 and bf16, of f16.
enum class Data { noise, special, tiny, huge, ties, brink, brink16 };
// Under a sanitizer, which takes twenty times as long, long tests see three kinds of data, and at
// least a quarter of what is counted.
inline bool seen_here(Data d) {
  return !kKeepsFreed || d == Data::noise || d == Data::special || d == Data::brink;
}
constexpr int at_least(int n) { return kKeepsFreed ? n / 4 : n; }

inline Tensor make(const Shape& shape, std::uint64_t seed, Data data, DType dtype = DType::f32) {
  Tensor t = Tensor::uninitialized(dtype, shape);
  const Philox random{seed, 0};
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    float x = random.uniform(at);
    const float pick = share(random, at + 1000000);
    if (data == Data::tiny) x = pick < 0.5F ? x * 0x1p-75F : pick < 0.7F ? x * 0x1p-12F : -0.0F;
    if (data == Data::huge) x = pick < 0.5F ? x * 0x1p65F : x * 0x1p9F;
    if (data == Data::brink) x *= pick < 0.4F ? 0x1p-63F : pick < 0.7F ? 0x1p-62F : 0x1p-125F;
    if (data == Data::brink16) x *= pick < 0.4F ? 0x1p-7F : pick < 0.7F ? 0x1p-6F : 0x1p-13F;
    if (data == Data::special) x = special(x, pick);
    if (data == Data::ties) {
      constexpr float kValues[] = {1.0625F, 1.03125F, 1.015625F, 1.0F, 0x1p-12F, 0x1p-20F, 0.0F};
      x = std::copysign(kValues[static_cast<std::size_t>(pick * 6.99F)], x);
    }
    store_from_double(dtype, t.mutable_bytes().data(), i, static_cast<double>(x));
  }
  return t;
}

inline constexpr const char* kContracts[] = {"seq",
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
                                             "subnormals=flush,acc=f16,fma=off",
                                             "subnormals=flush,acc=bf16,order=splitk:3",
                                             "subnormals=flush,acc=bf16,fma=off",
                                             "acc=f16,order=pairwise:1",
                                             "subnormals=flush,acc=f16,order=pairwise:1",
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
                                             "round=rz,acc=f64",
                                             "round=ru,acc=f64,order=pairwise:3",
                                             "round=rd,acc=f64,subnormals=flush,order=lanes:2",
                                             "round=ru,acc=f16,order=blocks:5",
                                             "round=rd,acc=f16,fma=off,subnormals=flush",
                                             "round=rz,acc=bf16",
                                             "round=ru,acc=bf16,fma=off,order=pairwise:1",
                                             "round=rd,acc=bf16,subnormals=flush,order=lanes:3",
                                             "round=rz,store=bf16,order=lanes:2",
                                             "walk=rsc",
                                             "walk=c2rs,order=blocks:18",
                                             "walk=rsc,acc=f64,order=pairwise:3"};

inline const int kRows =
    detect_isa() >= Isa::avx512 ? 2 : 1;  // of vectors, that take a contract here

struct Compared {
  int rows = 0;
  std::set<std::string> results;  // of the definition, by contract
};

// What a row computes where no input is constant, so that nothing is packed beforehand.
inline std::vector<Tensor> run_of_variables(const KernelRow& row, const OpRow& op,
                                            const Params& params,
                                            const std::vector<const Tensor*>& in,
                                            std::span<const Tensor> like,
                                            const Contract& contract) {
  std::vector<InferInput> known;
  for (const Tensor* t : in) known.push_back({t->type(), nullptr, true});
  std::vector<TensorType> types;
  std::vector<Tensor> out;
  for (const Tensor& t : like) {
    types.push_back(t.type());
    out.push_back(Tensor::uninitialized(t.dtype(), t.shape()));
  }
  const Problem problem{.op = &op,
                        .params = &params,
                        .inputs = known,
                        .outputs = types,
                        .contract = &contract,
                        .isa = detect_isa()};
  const Prepared prepared = row.prepare(problem, 2);
  row.run({.problem = &problem,
           .inputs = in,
           .outputs = out,
           .threads = 2,
           .prepared = prepared.get()});
  return out;
}

// Every vector row that takes the contract against the definition.
inline void compare(const OpRow& op, const Params& params, const std::vector<Tensor>& inputs,
                    const Contract& contract, Compared& seen) {
  std::vector<const Tensor*> in;
  for (const Tensor& t : inputs) in.push_back(&t);
  const auto run = [&](std::string kernel, int threads) {
    RunOptions options{.contract = contract, .threads = threads};
    options.kernels = std::move(kernel);
    return run_op(op, params, in, all_kernels(), options).outputs;
  };
  const std::string prefix(op.name);
  const std::vector<Tensor> expected = run(prefix + ".definition", 2);
  seen.results.insert(to_string(hash_tensor(expected[0])));
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    if (!row->name.starts_with(prefix + ".order")) continue;
    if (!test::on_this_cpu(*row)) continue;
    const auto check = [&](const std::vector<Tensor>& got) {
      for (std::size_t o = 0; o < expected.size(); ++o) {
        CHECK_MESSAGE(got[o].type() == expected[o].type(), row->name);
        CHECK_MESSAGE(std::memcmp(got[o].bytes().data(), expected[o].bytes().data(),
                                  got[o].size_bytes()) == 0,
                      row->name, " [", short_name(contract), "]");
      }
    };
    for (const int threads : {1, 3}) {
      check(run(std::string(row->name), threads));
      ++seen.rows;
    }
    if (row->prepare != nullptr) check(run_of_variables(*row, op, params, in, expected, contract));
  }
}

inline Contract tree_contract(std::int64_t k) {
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

}  // namespace etalon::test
