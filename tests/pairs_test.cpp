// Claim: products of bf16 by words of two terms (kernels/gemm/pairs.h) are the fma chains of seq:
// the sums before they are rounded to bf16 have the bits of the definition over f32, up to the
// ends of the range that keeps_order allows; the rows have those of the definition over bf16, in
// that range and outside it; and so have the rows of f16 and bf16 that are made of f32's.
#include "kernels/gemm/pairs.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/ops/gemm.h"
#include "kernels/conv/fast_chunk.h"
#include "kernels/gemm/fast.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/kernels.h"

using namespace etalon;

#if defined(__x86_64__)
namespace {

// Binary exponents of the numbers of both operands, and what else is among them.
struct Range {
  const char* name;
  std::array<int, 2> a, b;
  bool zeros = false, odd = false;
};
constexpr Range kInside[] = {{"as they come", {-6, 6}, {-6, 6}, true},
                             {"smallest", {-56, -50}, {-56, -51}, true},
                             {"largest", {56, 62}, {57, 63}, false}};
constexpr Range kOutside[] = {{"smaller", {-57, -50}, {-56, -51}, true},
                              {"larger", {57, 63}, {57, 63}},
                              {"all", {-126, 127}, {-126, 127}, true},
                              {"not finite, subnormal", {-3, 3}, {-3, 3}, true, true}};

Tensor numbers(DType type, const Shape& shape, std::array<int, 2> exponents, bool zeros, bool odd,
               std::uint64_t seed) {
  Tensor t = Tensor::uninitialized(type, shape);
  const Philox random{seed, 0};
  const double others[] = {NAN, HUGE_VAL, -HUGE_VAL, 0x1p-130, -0x1p-133, 0x1p-16, -0x1p-24};
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const std::uint32_t word = random.word(static_cast<std::uint64_t>(i));
    const int spread = exponents[1] - exponents[0] + 1;
    const int e = exponents[0] + static_cast<int>(word % static_cast<std::uint32_t>(spread));
    double x = std::ldexp(1.0 + static_cast<double>(word >> 24U & 127U) / 128, e);
    // The ends of the range, so that it is as wide as it says.
    if (i < 2) x = std::ldexp(1.0, exponents[static_cast<std::size_t>(i)]);
    if (zeros && i > 1 && (word >> 8U & 7U) == 0) x = 0;
    if (odd && i % 23 == 5) x = others[i / 23 % 7];
    store_from_double(type, const_cast<std::byte*>(t.bytes().data()), i,
                      (word >> 12U & 1U) != 0 ? -x : x);
  }
  return t;
}

Tensor widened(const Tensor& t) {
  Tensor f = Tensor::uninitialized(DType::f32, t.shape());
  widen_halves_on(1, t, f.mutable_data<float>().data());
  return f;
}

Magnitudes seen(const Tensor& t) {
  Magnitudes m;
  avx512bf16::see(bf16_bits(t), t.numel(), m);
  return m;
}

struct Case {
  const char* op;
  std::vector<Shape> shapes;
  const char* params;
};
const Case kCases[] = {
    {"gemm", {{7, 37}, {37, 45}, {45}}, ""},
    {"gemm", {{33, 90}, {90, 70}}, ""},
    {"gemm", {{64, 129}, {50, 129}, {50}}, "trans_b=true"},
    {"gemm", {{31, 18}, {31, 20}, {18, 20}}, "trans_a=true alpha=0.75 beta=-3"},
    {"gemm", {{1, 77}, {77, 40}}, ""},
    {"gemm", {{40, 77}, {77, 1}}, ""},
    {"gemm", {{3, 1}, {1, 17}}, ""},
    {"gemm", {{2, 0}, {0, 3}, {3}}, ""},
    {"conv", {{2, 3, 9, 11}, {5, 3, 3, 3}, {5}}, "pads_begin=[1,1] pads_end=[1,1]"},
    {"conv", {{1, 8, 14, 14}, {30, 8, 3, 3}}, "pads_begin=[1,1] pads_end=[1,1]"},
    {"conv",
     {{1, 5, 17, 16}, {17, 5, 5, 5}, {17}},
     "strides=[2,2] pads_begin=[2,2] pads_end=[2,2]"},
    {"conv", {{2, 7, 10, 10}, {20, 7, 1, 1}}, ""},
    {"conv", {{1, 6, 9, 9}, {12, 6, 1, 1}, {12}}, "strides=[2,2]"},
    {"conv", {{1, 6, 12, 10}, {8, 3, 3, 3}}, "groups=2 dilations=[2,1] pads_begin=[0,2]"},
    {"conv", {{1, 4, 40, 41}, {70, 4, 2, 3}, {70}}, "pads_end=[1,0]"},
    {"conv", {{1, 1, 5, 5}, {3, 1, 3, 3}}, "pads_begin=[6,6] pads_end=[6,6]"},
};

struct Operands {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> pointers;
  Operands(const Case& c, DType type, const Range& r, std::uint64_t seed) {
    for (std::size_t i = 0; i < c.shapes.size(); ++i)
      tensors.push_back(numbers(type, c.shapes[i], i == 1 ? r.b : r.a, r.zeros, r.odd, seed + i));
    for (const Tensor& t : tensors) pointers.push_back(&t);
  }
};

struct Job {
  Params params;
  std::vector<InferInput> known;
  std::vector<TensorType> types;
  Contract contract = Contract::seq();
  Problem problem;
  Job(const Case& c, const std::vector<const Tensor*>& in, bool constant)
      : params(parse_params(get_op(c.op).defaults(), c.params)) {
    for (std::size_t i = 0; i < in.size(); ++i)
      known.push_back({in[i]->type(), constant && i > 0 ? in[i] : nullptr, true});
    types = infer(get_op(c.op), params, InferInputs(known));
    problem = {.op = &get_op(c.op),
               .params = &params,
               .inputs = known,
               .outputs = types,
               .contract = &contract,
               .isa = detect_isa()};
  }
  Hash128 run(const KernelRow& row, const std::vector<const Tensor*>& in, int threads) {
    std::vector<Tensor> out;
    for (const TensorType& t : types) out.push_back(Tensor::uninitialized(t.dtype, t.shape));
    const Prepared prepared = row.prepare == nullptr ? nullptr : row.prepare(problem, threads);
    row.run({.problem = &problem,
             .inputs = in,
             .outputs = out,
             .threads = threads,
             .prepared = prepared.get()});
    return hash_tensor(out[0]);
  }
};

Hash128 defined(const Case& c, const std::vector<const Tensor*>& in, const char* contract = "seq") {
  const OpRow& op = get_op(c.op);
  return hash_tensor(
      run_op(op, parse_params(op.defaults(), c.params), in, all_kernels(),
             {.contract = Contract::parse(contract), .kernels = std::string(c.op) + ".definition"})
          .outputs[0]);
}

// Sums in f32 of a case over bf16, as the row makes them.
Hash128 sums(const Case& c, const Operands& in, const std::vector<const Tensor*>& wide,
             int threads) {
  Job job(c, wide, false);
  std::vector<Tensor> out;
  out.push_back(Tensor::uninitialized(DType::f32, job.types[0].shape));
  const auto halves = [&](std::size_t i) { return bf16_bits(in.tensors[i]); };
  Magnitudes all;
  const Shape& w = in.tensors[1].shape();
  if (std::string_view(c.op) == "conv") {
    const std::int64_t k = w.numel() / w[0];
    std::vector<float> words(static_cast<std::size_t>(w[0] * pair_steps(k)));
    for (std::int64_t o = 0; o < w[0]; ++o)
      avx512bf16::pair_along(halves(1) + o * k, k, words.data() + o * pair_steps(k), all);
    const auto prepared =
        prepare_conv(conv_geometry(job.params.as<ConvParams>(), in.tensors[0].shape(), w),
                     pair_tiles(), false, words.data(), threads);
    run_conv({.problem = &job.problem, .inputs = wide, .outputs = out, .threads = threads},
             *prepared, pair_tiles());
    return hash_tensor(out[0]);
  }
  const std::int64_t m = in.tensors[0].shape()[0], k = w[0], n = w[1], steps = pair_steps(k);
  std::vector<float> a(static_cast<std::size_t>(m * steps)), b(static_cast<std::size_t>(n * steps));
  for (std::int64_t r = 0; r < m; ++r)
    avx512bf16::pair_along(halves(0) + r * k, k, a.data() + r * steps, all);
  for (std::int64_t i = 0; i < steps; ++i)
    avx512bf16::pair_across(halves(1) + 2 * i * n,
                            2 * i + 1 < k ? halves(1) + (2 * i + 1) * n : nullptr, n,
                            b.data() + i * n, all);
  gemm_f32(pair_tiles(),
           {.m = m,
            .n = n,
            .k = steps,
            .a = {a.data(), steps, 1},
            .b = {b.data(), 1, n},
            .y = out[0].mutable_data<float>().data()},
           threads);
  return hash_tensor(out[0]);
}

}  // namespace

TEST_CASE("pairs: sums before they are rounded are the chains of seq") {
  if (detect_isa() < Isa::avx512 || refuse_pairs()) return;
  int compared = 0, order_shows = 0;
  for (const Case& c : kCases) {
    const bool gemm = std::string_view(c.op) == "gemm";
    if (gemm && (c.params[0] != '\0' || c.shapes.size() > 2)) continue;  // as matrices lie
    for (const Range& r : kInside) {
      const Operands in(c, DType::bf16, r, 11);
      REQUIRE(keeps_order(seen(in.tensors[0]), seen(in.tensors[1])));
      std::vector<Tensor> f32;
      for (const Tensor& t : in.tensors) f32.push_back(widened(t));
      std::vector<const Tensor*> wide;
      for (const Tensor& t : f32) wide.push_back(&t);
      const Hash128 want = defined(c, wide);
      for (const int threads : {1, 2, 3}) {
        CHECK_MESSAGE(sums(c, in, wide, threads) == want, c.op, " ", c.shapes[1][0], " ", r.name,
                      " ", threads);
        ++compared;
      }
      order_shows += defined(c, wide, "order=lanes:2") != want ? 1 : 0;
    }
  }
  CHECK(compared > 80);
  CHECK(order_shows > 15);
}

// One step of the least exponent further, or of the largest, is refused: nothing is left to chance.
TEST_CASE("pairs: the range ends where products and sums could leave the normal numbers") {
  const auto of = [](int least, int most) {
    return Magnitudes{static_cast<std::uint16_t>((least + 127) << 7),
                      static_cast<std::uint16_t>((most + 127) << 7 | 127)};
  };
  CHECK(keeps_order(of(-56, 0), of(-56, 0)));
  CHECK_FALSE(keeps_order(of(-57, 0), of(-56, 0)));
  CHECK(keeps_order(of(0, 62), of(0, 63)));
  CHECK_FALSE(keeps_order(of(0, 63), of(0, 63)));
  CHECK(keeps_order(of(-126, 0), of(14, 14)));
  CHECK_FALSE(keeps_order({1, of(0, 0).most}, of(100, 100)));  // a subnormal is taken for zero
  CHECK_FALSE(keeps_order(of(0, 0), {of(0, 0).least, 0x7f80}));
  CHECK(keeps_order({}, of(-120, 127)));  // zeros alone
}

TEST_CASE("halves: rows of f32's and of pairs have the definition's bits") {
  if (detect_isa() < Isa::avx2) return;
  int rows = 0, pairs = 0;
  const auto compare = [&](const Case& c, DType type, const Range& r) {
    const Operands in(c, type, r, 21);
    const Hash128 want = defined(c, in.pointers);
    for (const bool constant : {false, true}) {
      Job job(c, in.pointers, constant);
      for (const KernelRow* row : all_kernels().rows_of(c.op)) {
        const bool pair = row->name.find(".bf16.") != std::string_view::npos;
        if (!pair && row->name.find(".halves.") == std::string_view::npos) continue;
        if (row->isa > detect_isa() || row->refuse(job.problem)) continue;
        for (const int threads : {1, 3})
          CHECK_MESSAGE(job.run(*row, in.pointers, threads) == want, row->name, " ", c.shapes[1][0],
                        " ", c.params, " ", r.name, " ", constant, threads);
        ++rows;
        pairs += pair ? 1 : 0;
      }
    }
  };
  for (const Case& c : kCases) {
    for (const Range& r : kInside) compare(c, DType::bf16, r);
    for (const Range& r : kOutside) compare(c, DType::bf16, r);
    compare(c, DType::f16, {"as they come", {-6, 6}, {-6, 6}, true});
    compare(c, DType::f16, kOutside[3]);
  }
  const Case others[] = {
      {"matmul", {{3, 7, 21}, {21, 18}}, ""},
      {"conv", {{1, 6, 9, 9}, {6, 1, 3, 3}, {6}}, "groups=6 pads_begin=[1,1] pads_end=[1,1]"},
      {"conv_channels_last", {{1, 9, 8, 6}, {10, 6, 3, 3}, {10}}, "pads_begin=[1,1]"},
      {"conv_transpose", {{1, 4, 6, 6}, {4, 5, 3, 3}}, "strides=[2,2]"}};
  for (const Case& c : others)
    for (const DType type : {DType::f16, DType::bf16}) {
      compare(c, type, kInside[0]);
      compare(c, type, kOutside[3]);
    }
  CHECK(rows > 300);
  if (detect_isa() >= Isa::avx512 && !refuse_pairs()) CHECK(pairs > 200);
}
#endif
