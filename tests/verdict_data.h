// Layers and faults for the tests of verdicts: data that exposes order, and a suspect that computes
// in an order of its own with one thing wrong.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/compare/verdict.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/sum_tree.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "kernels/kernels.h"
#include "tests/random_tree.h"

namespace etalon::verdict_data {

// Signs and magnitudes vary (four octaves): a sum in another order has other bits.
inline Tensor noise(const Shape& shape, std::uint64_t seed, double scale = 1,
                    bool positive = false) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 1};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const double u = static_cast<double>(random.uniform(i++));
    const double e = std::floor((static_cast<double>(random.uniform(i++)) + 1) * 2);
    const double v = u * std::exp2(-e) * scale;
    x = static_cast<float>(positive ? std::fabs(v) : v);
  }
  return t;
}

inline SumTree random_tree(std::int64_t terms, std::uint64_t seed) {
  const Philox random{seed, 7};
  std::uint64_t draw = 0;
  return test::random_tree(terms, [&](std::size_t n) { return random.word(draw++) % n; });
}

inline Contract tree_contract(std::int64_t terms, std::uint64_t seed, const char* rest) {
  Contract c = Contract::parse(rest);
  c.order.kind = OrderKind::tree;
  auto tree = std::make_shared<SumTree>(random_tree(terms, seed));
  c.order.tree_hash = tree->hash();
  c.order.tree = std::move(tree);
  return c;
}

inline std::vector<Tensor> suspect(const Layer& layer, const Contract& contract) {
  return run_op(*layer.op, layer.params, layer.input_pointers(), all_kernels(),
                {.contract = contract})
      .outputs;
}

inline Layer layer_of(const char* op, std::vector<Tensor> inputs) {
  Layer layer;
  layer.op = &get_op(op);
  layer.params = layer.op->defaults();
  layer.inputs = std::move(inputs);
  return layer;
}

// A convolution with K = channels * kernel^2 terms and 2 or 4 channels of 6 x 6 outputs, padded on
// one side more.
inline Layer conv_layer(std::int64_t channels, std::int64_t kernel, std::uint64_t seed,
                        double scale = 1, bool positive = false) {
  ConvParams p;
  p.pads_begin = {1, 1};
  p.pads_end = {2, 2};
  Layer layer;
  layer.op = &get_op("conv");
  layer.params = Params(p);
  const std::int64_t size = 5 + kernel - 2;  // 6 outputs a side
  layer.inputs.push_back(noise({1, channels, size - 1, size - 1}, seed * 3 + 1, scale, positive));
  const std::int64_t out = channels > 100 ? 2 : 4;
  layer.inputs.push_back(noise({out, channels, kernel, kernel}, seed * 3 + 2));
  layer.inputs.push_back(noise({out}, seed * 3 + 3, scale));
  return layer;
}

struct Size {
  std::int64_t channels, kernel;
  std::int64_t k() const { return channels * kernel * kernel; }
};
inline constexpr Size kSizes[] = {{1, 5}, {32, 5}, {512, 3}};  // K = 25, 800, 4608

inline JudgeOptions judge_options() {
  JudgeOptions o;
  o.registry = &all_kernels();
  return o;
}

}  // namespace etalon::verdict_data
