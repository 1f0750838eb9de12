// Claim: sums over f16 and bf16 tensors load and store by vectors (kernels/gemm/halves.h) what the
// scalar conversions give, and the rows built on them have the definition's bits.
#include "kernels/gemm/halves.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/core/cpu.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"

using namespace etalon;

#if defined(__x86_64__)
namespace {

constexpr std::array kHalves{DType::f16, DType::bf16};

Tensor every_half(DType type) {
  Tensor t = Tensor::uninitialized(type, {65536});
  auto* bits = reinterpret_cast<std::uint16_t*>(const_cast<std::byte*>(t.bytes().data()));
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return t;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// Numbers of both signs around 0, and here and there NaN, infinity and what is subnormal.
Tensor operand(DType type, const Shape& shape, bool special, std::uint64_t seed) {
  Tensor t = Tensor::uninitialized(type, shape);
  const Philox random{seed, 0};
  const double odd[] = {NAN, HUGE_VAL, -HUGE_VAL, 0x1p-130, -0x1p-24, -0.0};
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    double x = random.uniform(static_cast<std::uint64_t>(i));
    if (special && i % 29 == 7) x = odd[i / 29 % 6];
    store_from_double(type, const_cast<std::byte*>(t.bytes().data()), i, x);
  }
  return t;
}

int compare(const OpRow& op, const Params& params, const std::vector<const Tensor*>& in,
            const char* contract, const std::string& name) {
  int compared = 0;
  const auto run = [&](const std::string& kernel, int threads) {
    return hash_tensor(
        run_op(op, params, in, all_kernels(),
               {.contract = Contract::parse(contract), .threads = threads, .kernels = kernel})
            .outputs[0]);
  };
  const Hash128 wanted = run(name + ".definition", 1);
  for (const char* isa : {".order.avx2", ".order.avx512"}) {
    const bool avx2 = std::string_view(isa) == ".order.avx2";
    if (detect_isa() < (avx2 ? Isa::avx2 : Isa::avx512)) continue;
    if (avx2 && std::string_view(contract) == "acc=bf16") continue;  // has no such accumulator
    for (const int threads : {1, 3}) {
      CHECK_MESSAGE(run(name + isa, threads) == wanted, name, isa, " ", contract, " ", threads);
      ++compared;
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("halves: every number of 16 bits is widened exactly") {
  if (detect_isa() < Isa::avx2) return;
  for (const DType type : kHalves) {
    const Tensor t = every_half(type);
    for (const std::int64_t count : {std::int64_t{65536}, std::int64_t{13}}) {
      std::vector<float> wide(static_cast<std::size_t>(count));
      avx2::widen_halves(type, t.bytes().data(), wide.data(), count);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double want = load_as_double(t, i);
        const float got = wide[static_cast<std::size_t>(i)];
        wrong += want != want ? got == got : bits(got) != bits(static_cast<float>(want));
      }
      CHECK(wrong == 0);
    }
  }
}

// Every number of the format, the middles between neighbours, what lies beside these, and noise.
TEST_CASE("halves: narrowing rounds once, ties to even, NaN canonical") {
  if (detect_isa() < Isa::avx2) return;
  for (const DType type : kHalves) {
    const Tensor t = every_half(type);
    std::vector<float> x;
    for (std::int64_t i = 0; i + 1 < 65536; ++i) {
      const double a = load_as_double(t, i), b = load_as_double(t, i + 1);
      for (const double v : {a, (a + b) / 2}) {
        const auto f = static_cast<float>(v);
        for (const int step : {-1, 0, 1})
          x.push_back(std::bit_cast<float>(bits(f) + static_cast<std::uint32_t>(step)));
      }
    }
    const Philox random{5, 0};
    for (std::uint64_t i = 0; i < 100003; ++i) x.push_back(std::bit_cast<float>(random.word(i)));
    const auto count = static_cast<std::int64_t>(x.size());
    Tensor got = Tensor::uninitialized(type, {count}), want = Tensor::uninitialized(type, {count});
    avx2::narrow_halves(type, x.data(), const_cast<std::byte*>(got.bytes().data()), count);
    for (std::int64_t i = 0; i < count; ++i)
      store_from_double(type, const_cast<std::byte*>(want.bytes().data()), i,
                        static_cast<double>(x[static_cast<std::size_t>(i)]));
    CHECK(hash_tensor(got) == hash_tensor(want));
  }
}

TEST_CASE("halves: products and convolutions have the definition's bits") {
  int compared = 0;
  for (const DType type : kHalves)
    for (const bool special : {false, true})
      for (const char* contract :
           {"seq", "order=lanes:8", "fma=off", "store=bf16", "acc=f64", "acc=bf16"}) {
        const OpRow& gemm = get_op("gemm");
        const Tensor a = operand(type, {7, 37}, special, 1), b = operand(type, {37, 45}, false, 2);
        const Tensor c = operand(type, {45}, false, 3);
        compared += compare(gemm, gemm.defaults(), {&a, &b, &c}, contract, "gemm");
        const OpRow& conv = get_op("conv");
        const Tensor x = operand(type, {2, 3, 9, 11}, special, 4);
        const Tensor w = operand(type, {5, 3, 3, 3}, false, 5), bias = operand(type, {5}, false, 6);
        const Params padded = parse_params(conv.defaults(), "pads_begin=[1,1] pads_end=[1,1]");
        compared += compare(conv, padded, {&x, &w, &bias}, contract, "conv");
      }
  CHECK((compared > 60 || detect_isa() < Isa::avx2));
}

// The vendor's rows read the same tensors: at most 48 terms below 1 and one rounding to a type of 8
// or 11 bits apart, so within a 60th of the size of the largest sums.
TEST_CASE("halves: the vendor's rows multiply the same tensors") {
  int compared = 0, refused = 0;
  for (const DType type : kHalves) {
    const Tensor a = operand(type, {7, 37}, false, 1), b = operand(type, {37, 45}, false, 2);
    const OpRow& gemm = get_op("gemm");
    const Tensor* in[] = {&a, &b};
    const OpRun ours = run_op(gemm, gemm.defaults(), in, all_kernels(), {.threads = 1});
    try {
      const OpRun theirs = run_op(gemm, gemm.defaults(), in, all_kernels(),
                                  {.threads = 1, .kernels = "onednn.gemm"});
      double worst = 0;
      for (std::int64_t i = 0; i < ours.outputs[0].numel(); ++i)
        worst = std::max(worst, std::fabs(load_as_double(ours.outputs[0], i) -
                                          load_as_double(theirs.outputs[0], i)));
      CHECK(worst < 0.25);
      ++compared;
    } catch (const Error& e) {  // a library without this type here says so
      CHECK(std::string(e.what()).find("onednn.gemm") != std::string::npos);
      ++refused;
    }
  }
  CHECK(compared + refused == 2);
}
#endif
