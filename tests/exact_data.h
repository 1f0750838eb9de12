// Data on which a first pass of contract exact is wrong or says nothing, and how many outputs of a
// row that runs with some of its steps are wrong.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/fp.h"
#include "engine/ops/conv.h"
#include "kernels/gemm/exact.h"
#include "kernels/kernels.h"
#include "tests/special_data.h"

namespace etalon::test {

enum class Data { noise, midpoint, relu, integers, special };

inline Tensor make(const Shape& shape, std::uint64_t seed, Data data) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i++);
    const float pick = random.uniform(i + 1000000);
    // Powers of two far apart, 2^-36 to 2^12: sums such as 2^24 + 1 + 2^-60.
    if (data == Data::midpoint)
      x = std::ldexp(pick < 0.5F ? 1.0F : -1.0F, static_cast<int>(pick * 1000) % 3 * 12 - 12);
    if (data == Data::relu && x < 0) x = 0;
    if (data == Data::integers) x = std::round(x * 8);
    if (data == Data::special) x = special(x, pick * 0.5F + 0.5F);
  }
  return t;
}

enum class Hostile {
  wild,
  subnormal,
  overflow,
  equal,
  one_hot,
  cancelling,
  near_midpoint,
  few_bits
};
inline constexpr Hostile kHostile[] = {
    Hostile::wild,    Hostile::subnormal,  Hostile::overflow,      Hostile::equal,
    Hostile::one_hot, Hostile::cancelling, Hostile::near_midpoint, Hostile::few_bits};

// Data on which a first pass is wrong or says nothing, for a sum along neighbours of the last axis
// or across it.
inline Tensor hostile(const Shape& shape, std::uint64_t seed, Hostile kind) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 1};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    const float u = random.uniform(2 * i) * 2 - 1;
    const int pick = static_cast<int>(random.uniform(2 * i + 1) * 4096);
    ++i;
    x = u;
    if (kind == Hostile::wild) x = std::ldexp(u, pick % 253 - 126);
    if (kind == Hostile::subnormal) x = std::ldexp(u, -126 - pick % 24);
    if (kind == Hostile::overflow) x = std::ldexp(u, 60 + pick % 68);
    if (kind == Hostile::equal) x = seed % 2 == 0 ? 0x1.fffffep20F : -0x1.f7ffffp-30F;
    if (kind == Hostile::one_hot) x = pick % 37 == 0 ? u : 0.0F;
    // x, -x and a small rest.
    if (kind == Hostile::cancelling)
      x = i % 3 == 0 ? u * 0x1p-30F : (i % 3 == 1 ? 1.0F : -1.0F) * 0x1.234568p10F;
    if (kind == Hostile::near_midpoint)
      x = i % 5 == 0 ? 0x1p24F : i % 5 == 1 ? 1.0F : i % 5 == 2 ? u * 0x1p-60F : 0.0F;
    if (kind == Hostile::few_bits) x = static_cast<float>(pick % 7 - 3);
  }
  return t;
}

struct ConvCase {
  Tensor x, w, bias;
  Params params;
};
inline ConvCase conv_case(Data data) {
  ConvParams p;
  p.groups = 2;
  p.strides = {2, 1};
  p.pads_begin = {1, 2};
  p.pads_end = {2, 0};
  return {make({2, 12, 9, 7}, 4, data), make({60, 6, 3, 2}, 5, data), make({60}, 6, data),
          Params(p)};
}

// Layers that go by each form: odd extents, groups, padding on one side, strides as channels,
// vectors of tiles that cross rows and those that do not, images side by side.
struct WinogradCase {
  int form;
  Shape x, w;
  std::int64_t groups, stride, pad_begin, pad_end;
};
inline const WinogradCase kWinogradCases[] = {{0, {2, 32, 9, 7}, {40, 32, 3, 3}, 1, 1, 1, 0},
                                              {0, {2, 64, 3, 4}, {72, 64, 3, 3}, 1, 1, 1, 1},
                                              {1, {2, 32, 14, 13}, {40, 32, 3, 3}, 1, 1, 1, 1},
                                              {1, {1, 32, 9, 30}, {40, 16, 3, 3}, 2, 1, 0, 1},
                                              {1, {3, 12, 13, 13}, {19, 12, 3, 3}, 1, 1, 1, 1},
                                              {1, {1, 8, 35, 39}, {24, 8, 11, 11}, 1, 4, 2, 2},
                                              {1, {1, 9, 27, 22}, {32, 9, 5, 5}, 1, 2, 2, 1},
                                              {1, {1, 4, 46, 41}, {20, 4, 7, 8}, 1, 3, 3, 0},
                                              {2, {1, 3, 60, 58}, {24, 3, 7, 7}, 1, 2, 3, 3},
                                              {2, {2, 24, 17, 20}, {16, 24, 4, 4}, 1, 1, 1, 2},
                                              {1, {5, 16, 7, 6}, {24, 16, 3, 3}, 1, 1, 1, 1},
                                              {3, {7, 8, 6, 5}, {12, 8, 5, 5}, 1, 1, 2, 2},
                                              {3, {1, 24, 14, 15}, {36, 12, 5, 5}, 2, 1, 2, 2},
                                              {3, {2, 8, 11, 27}, {17, 8, 5, 5}, 1, 1, 0, 2}};
inline ConvParams params_of(const WinogradCase& c) {
  ConvParams p;
  p.groups = c.groups;
  p.strides = {c.stride, c.stride};
  p.pads_begin = {c.pad_begin, c.pad_end};
  p.pads_end = {c.pad_end, c.pad_begin};
  return p;
}

// In a narrow format, rounded.
inline Tensor narrowed(const Tensor& x, DType format) {
  Tensor t = Tensor::uninitialized(format, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    store_from_double(format, t.mutable_bytes().data(), i, load_as_double(x, i));
  return t;
}

using ExactRun = void (*)(const KernelCall&, Isa, const ExactSteps&);

// How many outputs differ from the definition's when a row runs with these steps only.
inline int wrong_outputs(const OpRow& op, const Params& p, const std::vector<const Tensor*>& in,
                         ExactRun run, Isa isa, const ExactSteps& steps, int threads = 1) {
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
  run({.problem = &problem, .inputs = in, .outputs = out, .threads = threads}, isa, steps);
  const auto count = static_cast<std::size_t>(out[0].numel());
  const std::size_t size = out[0].size_bytes() / std::max<std::size_t>(1, count);
  const auto a = out[0].bytes(), b = want.outputs[0].bytes();
  int wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += std::memcmp(a.data() + i * size, b.data() + i * size, size) != 0 ? 1 : 0;
  return wrong;
}

}  // namespace etalon::test
