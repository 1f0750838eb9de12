// Claim: rows of a few operations an element (kernels/elementwise, kernels/activation/plain.cpp,
// prelu.cpp) have the bits of their definitions: over every f16 and every bf16 where the element is
// one, over pairs of them and of f32 that hold NaN, infinities, both zeros, subnormals, ties and
// the ends of the formats.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "engine/ops/activation.h"
#include "engine/ops/elementwise.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

// Elements of f16 or bf16 by their bits.
Tensor halves(DType type, const Shape& shape, const std::vector<std::uint16_t>& bits) {
  Tensor t = Tensor::uninitialized(type, shape);
  REQUIRE(t.size_bytes() == 2 * bits.size());
  std::memcpy(t.mutable_bytes().data(), bits.data(), t.size_bytes());
  return t;
}
std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> bits(1 << 16);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  return bits;
}

// Zeros, subnormals, ends of both formats' ranges, NaN, infinities, numbers of every binade, halves
// of integers up to where f32 has none left, midpoints of f16 and bf16 and what lies next to them.
std::vector<float> hostile_floats() {
  std::vector<float> list;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (const std::uint32_t digits : {0U, 1U, 0x7fffffU, 0x400000U, 0x001000U, 0x001001U,
                                       0x003000U, 0x008000U, 0x007fffU, 0x018000U, 0x2aaaaaU})
      list.push_back(float_of(exponent << 23 | digits));
  for (int k = 0; k <= 64; ++k) {
    list.push_back(static_cast<float>(k) / 2);
    list.push_back(static_cast<float>((1 << 22) + k) - 32.5F);
    list.push_back(static_cast<float>(k) * 0x1p-25F);   // f16's least steps, halved
    list.push_back(static_cast<float>(k) * 0x1p-134F);  // bf16's
  }
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) list.push_back(-list[i]);
  return list;
}
Tensor floats(const std::vector<float>& list) {
  return Tensor::of<float>({static_cast<std::int64_t>(list.size())}, std::span<const float>(list));
}
Tensor random_bits(DType type, std::int64_t n, std::uint64_t seed) {
  Tensor t = Tensor::uninitialized(type, {n});
  const Philox random{seed, 0};
  const auto bytes = t.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(random.word(i) >> 7);
  return t;
}

// All rows of the op that take this problem, against its definition; how many did.
int compare(const char* op, const Params& params, const std::vector<const Tensor*>& in,
            std::initializer_list<const char*> contracts = {"seq", "exact"}) {
  const std::string definition = std::string(op) + ".definition";
  int compared = 0;
  for (const char* contract : contracts) {
    RunOptions options{.contract = Contract::parse(contract), .kernels = definition};
    const OpRun want = run_op(get_op(op), params, in, all_kernels(), options);
    for (const KernelRow* row : all_kernels().rows_of(op)) {
      if (row->promise != Promise::defined || row->name == definition || !test::on_this_cpu(*row))
        continue;
      for (const int threads : {1, 3}) {
        options.kernels = row->name;
        options.threads = threads;
        OpRun got;
        try {
          got = run_op(get_op(op), params, in, all_kernels(), options);
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::usage) throw;
          break;  // another type's row, or one that refuses the contract
        }
        CAPTURE(row->name);
        CAPTURE(contract);
        const auto a = want.outputs[0].bytes(), b = got.outputs[0].bytes();
        CHECK(std::memcmp(a.data(), b.data(), a.size()) == 0);
        ++compared;
      }
    }
  }
  return compared;
}
int compare(const char* op, const std::vector<const Tensor*>& in,
            std::initializer_list<const char*> contracts = {"seq", "exact"}) {
  const OpRow& row = get_op(op);
  return compare(op, row.defaults == nullptr ? Params() : row.defaults(), in, contracts);
}

const bool kVectors = detect_isa() >= Isa::avx2;  // rows of halves are there
constexpr const char* kUnary[] = {"abs", "neg", "sign", "floor", "ceil", "round"};
constexpr const char* kBinary[] = {"add", "sub", "mul", "div", "max", "min", "prelu", "sum"};

}  // namespace

TEST_CASE("plain rows: every f16 and bf16") {
  int compared = 0;
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor x = halves(type, {1 << 16}, every_half());
    for (const char* op : kUnary) compared += compare(op, {&x});
    compared += compare("relu", {&x});
    compared += compare("thresholded_relu", Params(ThresholdedReluParams{.alpha = -0.25F}), {&x});
    compared += compare("cast", Params(CastParams{.to = DType::f32}), {&x});
  }
  CHECK(compared == (kVectors ? 2 * 9 * 4 : 0));
}

TEST_CASE("plain rows: f32") {
  int compared = 0;
  const Tensor list = floats(hostile_floats()), random = random_bits(DType::f32, 100003, 5);
  for (const Tensor* x : {&list, &random}) {
    for (const char* op : kUnary) compared += compare(op, {x});
    for (const float alpha : {1.0F, -0.25F, 0.0F})
      compared += compare("thresholded_relu", Params(ThresholdedReluParams{.alpha = alpha}), {x});
    for (const auto& [lambd, bias] :
         {std::pair{0.5F, 0.0F}, {0.25F, 0.1F}, {-1.0F, 2.5F}, {0, -0.0F}})
      compared += compare("shrink", Params(ShrinkParams{.lambd = lambd, .bias = bias}), {x});
    compared += compare("softshrink", Params(SoftshrinkParams{.lambd = 0.5F}), {x});
  }
  CHECK(compared >= 2 * (6 + 3 + 4 + 1) * 4);
  const Tensor ties = Tensor::of<float>({6}, {0.5F, -0.5F, 1.5F, 2.5F, -0.25F, 0x1.fffffep22F});
  const Tensor* in[] = {&ties};
  const OpRun run = run_op(get_op("round"), Params(), in, all_kernels(), {});
  const float want[] = {0.0F, -0.0F, 2.0F, 2.0F, -0.0F, 0x1p23F};
  CHECK(std::memcmp(run.outputs[0].bytes().data(), want, sizeof want) == 0);
}

TEST_CASE("plain rows: pairs of f16 and of bf16") {
  // Both ends of the format, one, its neighbours, a third, subnormals, a NaN, an infinity, -0.
  const std::vector<std::uint16_t> others[] = {
      {0x0001, 0x03ff, 0x0400, 0x3c01, 0x3555, 0x7bff, 0xfc00, 0x7e01, 0x8000},
      {0x0001, 0x007f, 0x0080, 0x3f81, 0x3eab, 0x7f7f, 0xff80, 0x7fc1, 0x8000}};
  int compared = 0;
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor every = halves(type, {1, 1 << 16}, every_half());
    const std::vector<std::uint16_t>& list = others[type == DType::f16 ? 0 : 1];
    const auto count = static_cast<std::int64_t>(list.size());
    const Tensor few = halves(type, {count, 1}, list);
    const Tensor a = random_bits(type, 50021, 1), b = random_bits(type, 50021, 2);
    for (const char* op : kBinary) {
      compared += compare(op, {&a, &b});
      if (std::string_view(op) == "prelu") {  // x is as large as the output
        std::vector<std::uint16_t> all;
        for (std::int64_t k = 0; k < count; ++k) {
          const auto half = every_half();
          all.insert(all.end(), half.begin(), half.end());
        }
        const Tensor x = halves(type, {count, 1 << 16}, all);
        compared += compare(op, {&x, &few}, {"seq"}) + compare(op, {&x, &every}, {"seq"});
      } else {
        compared += compare(op, {&few, &every}, {"seq"}) + compare(op, {&every, &few}, {"seq"});
      }
    }
  }
  CHECK(compared == (kVectors ? 2 * 8 * (4 + 4) : 0));
}

TEST_CASE("plain rows: prelu, sum and mean of f32 in odd shapes") {
  const Philox random{11, 0};
  const std::vector<float> list = hostile_floats();
  const auto drawn = [&](const Shape& shape, std::uint64_t seed) {
    Tensor t = Tensor::uninitialized(DType::f32, shape);
    std::uint64_t i = seed * 1000000;
    for (float& x : t.mutable_data<float>())
      x = (i & 3) == 0 ? 0.0F * (random.uniform(i++))  // zeros of both signs
                       : list[random.word(i++) % list.size()];
    return t;
  };
  const Tensor x = drawn({2, 5, 7, 9}, 1), y = drawn({2, 5, 7, 9}, 2),
               channel = drawn({5, 1, 1}, 3), last = drawn({9}, 4), one = drawn({}, 5),
               plane = drawn({5, 7, 9}, 6);
  int compared = 0;
  for (const Tensor* slope : {&y, &channel, &last, &one, &plane})
    compared += compare("prelu", {&x, slope}, {"seq", "exact", "order=lanes:8,fma=off"});
  CHECK(compared >= 5 * 3 * 2);
  for (const char* op : {"sum", "mean"}) {
    compared = compare(op, {&x}) + compare(op, {&channel, &x}) + compare(op, {&x, &y}) +
               compare(op, {&x, &channel, &y}) + compare(op, {&last, &x, &one, &y});
    CHECK(compared >= 5 * 2);
    CHECK(compare(op, {&x, &plane}, {"order=lanes:8", "order=pairwise:4", "order=blocks:1"}) >= 6);
    CHECK(compare(op, {&x, &y, &plane}, {"order=lanes:8", "order=pairwise:4", "exact"}) == 0);
  }
  // Terms of like magnitudes, whose order shows.
  Tensor terms[3];
  for (std::size_t k = 0; k < 3; ++k) {
    terms[k] = Tensor::uninitialized(DType::f32, {1009});
    std::uint64_t i = 7000000 + k * 1009;
    for (float& v : terms[k].mutable_data<float>()) v = random.uniform(i++) / 3;
  }
  const std::vector<const Tensor*> three = {&terms[0], &terms[1], &terms[2]};
  const auto sum_in = [&](const char* order) {
    return hash_tensor(
        run_op(get_op("sum"), Params(), three, all_kernels(), {.contract = Contract::parse(order)})
            .outputs[0]);
  };
  CHECK(sum_in("seq") != sum_in("order=lanes:2"));
  CHECK(compare("sum", three, {"seq"}) >= 2);
  CHECK(compare("mean", three, {"seq"}) >= 2);
  // +0 begins a chain.
  const Tensor zero = Tensor::of<float>({1}, {-0.0F});
  const Tensor* zeros[] = {&zero, &zero};
  CHECK(
      bits_of(
          run_op(get_op("sum"), Params(), zeros, all_kernels(), {}).outputs[0].data<float>()[0]) ==
      0);
  CHECK(
      bits_of(
          run_op(get_op("add"), Params(), zeros, all_kernels(), {}).outputs[0].data<float>()[0]) !=
      0);
}

TEST_CASE("plain rows: conversions between f32 and f16, bf16") {
  const Tensor list = floats(hostile_floats()), random = random_bits(DType::f32, 100003, 6);
  int compared = 0;
  for (const DType type : {DType::f16, DType::bf16})
    for (const Tensor* x : {&list, &random}) {
      compared += compare("cast", Params(CastParams{.to = type}), {x});
      const Tensor like = Tensor::zeros(type, {1});
      compared += compare("cast_like", {x, &like});
    }
  CHECK(compared == (kVectors ? 2 * 2 * 2 * 4 : 0));
}

// By way of the f32 row, whose result is rounded once more where it is stored (halves_row.h).
TEST_CASE("plain rows: softmax, norms and maximum pools of f16 and bf16") {
  int compared = 0;
  for (const char* type : {"f16", "bf16"})
    for (const char* data : {"wide", "special"})
      for (const char* line :
           {"softmax | | {0}[7,131]:{1}", "softmax | | {0}[40,9]:{1}",
            "log_softmax | | {0}[7,131]:{1}", "layer_norm | | {0}[9,200]:{1} {0}[200] {0}[200]",
            "layer_norm | | {0}[5,3,33]:{1}", "rms_norm | | {0}[9,200]:{1} {0}[200]",
            "batch_norm | | {0}[2,5,7,9]:{1} {0}[5] {0}[5] {0}[5] {0}[5]:positive",
            "max_pool | kernel=[3,3] strides=[2,2] pads_begin=[1,1] pads_end=[1,1] | "
            "{0}[2,3,13,38]:{1}",
            "max_pool | kernel=[2,2] | {0}[2,3,9,20]:{1}",
            "clip | min=-0.3 max=0.7 | {0}[3,333]:{1}", "clip | min=0 | {0}[3,333]:{1}"}) {
        const OpCase c = parse_op_case("c | " + fmt::format(fmt::runtime(line), type, data));
        const std::vector<Tensor> in = case_inputs(c);
        CAPTURE(c.line);
        const int rows = compare(c.op->name.data(), c.params, pointers(in));
        if (kVectors) CHECK(rows >= 2);
        compared += rows;
      }
  if (kVectors) CHECK(compared >= 2 * 2 * 11 * 2);
}

TEST_CASE("plain rows: f32 cut to integers of 8 and 16 bits") {
  const Tensor list = floats(hostile_floats()), random = random_bits(DType::f32, 100003, 7);
  Tensor near = Tensor::uninitialized(DType::f32, {140001});  // all that lies in the types
  std::int64_t i = -70000;
  for (float& x : near.mutable_data<float>()) x = static_cast<float>(i++) + 0.75F;
  int compared = 0;
  for (const DType type : {DType::i8, DType::u8, DType::i16, DType::u16})
    for (const Tensor* x : {&list, &random, static_cast<const Tensor*>(&near)})
      compared += compare("cast", Params(CastParams{.to = type}), {x});
  CHECK(compared >= 4 * 3 * 4);
}

// What the executor runs behind a convolution: any part of an output alone.
TEST_CASE("plain rows: prelu by pieces is prelu") {
  const Tensor x = random_bits(DType::f32, 2 * 5 * 7 * 9, 9).reshaped({2, 5, 7, 9});
  const Tensor slopes[] = {random_bits(DType::f32, 5, 10).reshaped({5, 1, 1}),
                           random_bits(DType::f32, 9, 11),
                           random_bits(DType::f32, 1, 12).reshaped({}),
                           random_bits(DType::f32, 630, 13).reshaped({2, 5, 7, 9}),
                           random_bits(DType::f32, 45, 14).reshaped({5, 1, 9})};
  int pieces = 0, refused = 0;
  for (const Tensor& slope : slopes) {
    const Tensor* in[] = {&x, &slope};
    const OpRun want = run_op(get_op("prelu"), Params(), in, all_kernels(), {});
    const InferInput inputs[] = {{x.type(), &x, true}, {slope.type(), &slope, true}};
    const TensorType outputs[] = {x.type()};
    const Contract contract = Contract::seq();
    const Params params;
    const Problem problem{.op = &get_op("prelu"),
                          .params = &params,
                          .inputs = inputs,
                          .outputs = outputs,
                          .contract = &contract,
                          .isa = detect_isa()};
    for (const KernelRow* row : all_kernels().rows_of("prelu")) {
      if (row->run_piece == nullptr || !test::on_this_cpu(*row)) continue;
      if (row->refuse_piece(problem, 0)) {
        ++refused;
        continue;
      }
      Tensor y[] = {Tensor::zeros(DType::f32, x.shape())};
      const KernelCall call{.problem = &problem, .inputs = in, .outputs = y};
      for (std::int64_t at = 0, n = 1; at < 630; at += n, n = n * 7 % 53 + 1)
        row->run_piece(call, at, std::min<std::int64_t>(n, 630 - at));
      CHECK(std::memcmp(y[0].bytes().data(), want.outputs[0].bytes().data(), y[0].size_bytes()) ==
            0);
      ++pieces;
    }
  }
  CHECK(pieces >= 4);
  CHECK(refused == pieces / 4);  // slopes along two axes
}
