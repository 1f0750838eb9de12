// The vector rows of activations and softmax against the definitions, through run_op: every bit, at
// any thread count, under seq, other orders and exact.
#include "kernels/activation/vector_rows.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/kernels.h"
#include "kernels/softmax/vector_rows.h"
#include "tests/on_this_cpu.h"
#include "tests/same_bits.h"

using namespace etalon;
using test::equal_bits;

namespace {

Tensor run(const OpRow& op, const Params& params, const Tensor& x, std::string_view contract,
           std::string_view kernel, int threads) {
  const Tensor* in[] = {&x};
  OpRun r = run_op(
      op, params, in, all_kernels(),
      {.contract = Contract::parse(contract), .threads = threads, .kernels = std::string(kernel)});
  CHECK(r.kernel->name == kernel);
  return std::move(r.outputs[0]);
}

Tensor activation_input(std::int64_t count) {
  Tensor t = Tensor::uninitialized(DType::f32, {count});
  const Philox random{.seed = 61};
  const float special[] = {0.0F,
                           -0.0F,
                           float_of(kNanF32),
                           float_of(0xffc12345U),
                           float_of(0x7f800000U),
                           float_of(0xff800000U),
                           0x1p-149F,
                           -0x1p-149F,
                           0x1.fffffep127F,
                           -0x1.fffffep127F,
                           0x1.827a74p-7F};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto u = static_cast<std::uint64_t>(i);
    const float x = random.uniform(u);
    t.mutable_data<float>()[i] = i % 13 == 0  ? special[i / 13 % 11]
                                 : i % 3 == 0 ? 12 * x
                                 : i % 3 == 1 ? 100 * x
                                              : x;
  }
  return t;
}

// Rows of `length`: wide, equal, with -inf, one NaN, one +inf, all -inf.
Tensor softmax_input(std::int64_t length) {
  Tensor t = Tensor::uninitialized(DType::f32, {12, length});
  const Philox random{.seed = 62, .stream = static_cast<std::uint64_t>(length)};
  for (std::int64_t r = 0; r < 12; ++r)
    for (std::int64_t k = 0; k < length; ++k) {
      float x =
          random.uniform(static_cast<std::uint64_t>(r * length + k)) * (r % 2 == 0 ? 4.0F : 90.0F);
      if (r == 5) x = 0.3F;
      if (r == 6 && k % 3 == 1) x = -float_of(0x7f800000U);
      if (r == 7 && k == length / 2) x = float_of(kNanF32);
      if (r == 8 && k == length / 2) x = float_of(0x7f800000U);
      if (r == 9) x = -float_of(0x7f800000U);
      if (r == 10 && k > 0) x = -300.0F;
      if (r == 11 && k > 0) x = x * 1e30F;
      t.mutable_data<float>()[r * length + k] = x;
    }
  return t;
}

}  // namespace

namespace {

// Every number of a 16-bit format.
Tensor every_half(DType dtype) {
  Tensor t = Tensor::uninitialized(dtype, {65536});
  auto* bits = reinterpret_cast<std::uint16_t*>(const_cast<std::byte*>(t.bytes().data()));
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return t;
}

}  // namespace

TEST_CASE("activation rows: the bits of the definition") {
  const Tensor f32 = activation_input(4099), f16 = every_half(DType::f16),
               bf16 = every_half(DType::bf16);
  int compared = 0;
  std::string_view before;
  Tensor expected[2];
  for (const KernelRow& row : activation_vector_rows()) {
    if (detect_isa() < row.isa) continue;
    const OpRow& op = get_op(row.op);
    const std::string definition = std::string(row.op) + ".definition";
    if (row.name.find(".half.") != std::string_view::npos) {
      int i = 0;
      for (const Tensor* x : {&f16, &bf16}) {
        if (row.op != before) expected[i] = run(op, op.defaults(), *x, "seq", definition, 3);
        const Tensor got = run(op, op.defaults(), *x, "seq", row.name, 3);
        CHECK_MESSAGE(equal_bits(got, expected[i]), row.name, " ", name(x->dtype()));
        ++i;
      }
      before = row.op;
      continue;
    }
    for (const char* contract : {"seq", "exact"}) {
      const Tensor b = run(op, op.defaults(), f32, contract, definition, 1);
      for (const int threads : {1, 3}) {
        const Tensor a = run(op, op.defaults(), f32, contract, row.name, threads);
        CHECK_MESSAGE(equal_bits(a, b), row.name, " ", contract, " ", threads);
        ++compared;
      }
    }
  }
  CHECK((compared >= 150 || detect_isa() < Isa::avx2));
  const OpRow& gelu = get_op("gelu");
  const Params tanh_form = parse_params(gelu.defaults(), "approximate=tanh");
  if (detect_isa() >= Isa::avx2)
    CHECK(equal_bits(run(gelu, tanh_form, f32, "seq", "gelu.f32.avx2", 1),
                     run(gelu, tanh_form, f32, "seq", "gelu.definition", 1)));
}

TEST_CASE("pow rows: the bits of the definition, whatever broadcasts") {
  const OpRow& op = get_op("pow");
  const Tensor wide = activation_input(1023);
  Tensor base = Tensor::uninitialized(DType::f32, {3, 341});
  Tensor exponent = Tensor::uninitialized(DType::f32, {3, 341});
  for (std::int64_t i = 0; i < 1023; ++i) {
    base.mutable_data<float>()[i] =
        i % 5 == 0 ? wide.data<float>()[i] : std::abs(wide.data<float>()[i]);
    exponent.mutable_data<float>()[i] = i % 7 == 0 ? 3.0F : wide.data<float>()[1022 - i] / 8;
  }
  const auto scalar = [](float x) {
    Tensor t = Tensor::uninitialized(DType::f32, {1, 1});
    t.mutable_data<float>()[0] = x;
    return t;
  };
  int compared = 0;
  for (const char* kernel : {"pow.f32.avx2", "pow.f32.avx512"}) {
    if (detect_isa() < (std::string_view(kernel) == "pow.f32.avx2" ? Isa::avx2 : Isa::avx512))
      continue;
    const auto check = [&](const Tensor& x, const Tensor& y) {
      const Tensor* in[] = {&x, &y};
      std::vector<Tensor> got;
      for (const char* k : {kernel, "pow.definition"})
        got.push_back(
            std::move(run_op(op, op.defaults(), in, all_kernels(),
                             {.contract = Contract::parse("seq"), .threads = 2, .kernels = k})
                          .outputs[0]));
      CHECK_MESSAGE(equal_bits(got[0], got[1]), kernel);
      ++compared;
    };
    check(base, exponent);
    for (const float y : {2.0F, 0.5F, -1.0F, 3.0F, 0.0F, 0.7F, -0x1p-149F, float_of(kNanF32)})
      check(base, scalar(y));
    for (const float x : {2.0F, 0.5F, -1.0F, 0x1.fffffep-1F, 0.0F, -3.0F})
      check(scalar(x), exponent);
  }
  CHECK((compared >= 15 || detect_isa() < Isa::avx2));
}

TEST_CASE("softmax rows: the bits of the definition, by seq, in lanes and exactly") {
  int compared = 0;
  for (const char* name : {"softmax", "log_softmax"}) {
    const OpRow& op = get_op(name);
    for (const std::int64_t length : {1, 2, 3, 8, 9, 67, 130}) {
      const Tensor x = softmax_input(length);
      for (const char* contract : {"seq", "order=lanes:8", "order=lanes:64", "exact"}) {
        const Tensor b = run(op, op.defaults(), x, contract, std::string(name) + ".definition", 1);
        for (const KernelRow& row : softmax_vector_rows()) {
          if (row.op != name || !test::on_this_cpu(row) || test::takes_halves_only(row)) continue;
          const Tensor a = run(op, op.defaults(), x, contract, row.name, 2);
          CHECK_MESSAGE(equal_bits(a, b), row.name, " ", contract, " ", length);
          ++compared;
        }
      }
    }
  }
  CHECK((compared >= 48 || detect_isa() < Isa::avx2));
}

// Groups of rows of which none is infinite go another way than those with one: rows beyond the
// first sixteen are plain, and their number is odd.
TEST_CASE("softmax rows: many rows, every order of lanes, the bits of the definition") {
  int compared = 0, orders_differ = 0;
  for (const char* name : {"softmax", "log_softmax"}) {
    const OpRow& op = get_op(name);
    for (const std::int64_t length : {1, 2, 7, 10, 16, 17, 31, 32, 33, 48, 200}) {
      const Tensor head = softmax_input(length);
      Tensor x = Tensor::uninitialized(DType::f32, {55, length});
      const Philox random{.seed = 63, .stream = static_cast<std::uint64_t>(length)};
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        float v = random.uniform(static_cast<std::uint64_t>(i)) * (i % 3 == 0 ? 9.0F : 3.0F);
        if (i >= 30 * length && i % 5 == 0) v = -float_of(0x7f800000U);
        if (i >= 40 * length && i % 7 == 0) v = -88 + v;
        x.mutable_data<float>()[i] = i < head.numel() ? head.data<float>()[i] : v;
      }
      Hash128 seq{};
      for (const char* contract : {"seq", "order=lanes:1", "order=lanes:3", "order=lanes:8",
                                   "order=lanes:21", "order=lanes:64"}) {
        const Tensor b = run(op, op.defaults(), x, contract, std::string(name) + ".definition", 1);
        if (std::string_view(contract) == "seq") seq = hash_tensor(b);
        orders_differ += hash_tensor(b) == seq ? 0 : 1;
        for (const KernelRow& row : softmax_vector_rows()) {
          if (row.op != name || !test::on_this_cpu(row) || test::takes_halves_only(row)) continue;
          for (const int threads : {1, 3}) {
            const Tensor a = run(op, op.defaults(), x, contract, row.name, threads);
            CHECK_MESSAGE(equal_bits(a, b), row.name, " ", contract, " ", length, " ", threads);
            ++compared;
          }
        }
      }
    }
  }
  CHECK(orders_differ > 40);
  CHECK((compared >= 264 || detect_isa() < Isa::avx2));
}

// A few long rows are summed while their later exponentials are computed.
TEST_CASE("softmax rows: a few rows, the bits of the definition") {
  int compared = 0, orders_differ = 0;
  for (const char* name : {"softmax", "log_softmax"}) {
    const OpRow& op = get_op(name);
    const std::string definition = std::string(name) + ".definition";
    for (const std::int64_t count : {1, 2, 3, 4, 5})
      for (const std::int64_t length : {33, 127, 128, 129, 333, 1100, 2100}) {
        Tensor x = Tensor::uninitialized(DType::f32, {count, length});
        const Philox random{.seed = 64, .stream = static_cast<std::uint64_t>(length)};
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          const float v = random.uniform(static_cast<std::uint64_t>(i)) * 5;
          x.mutable_data<float>()[i] = i % 71 == 70 ? v - 90 : v;
          if (i == 3) x.mutable_data<float>()[i] = -float_of(0x7f800000U);
        }
        // A row that has no sum, beside others.
        if (length == 1100)
          x.mutable_data<float>()[length * (count - 1) + 700] = float_of(0x7f800000U);
        const Tensor seq = run(op, op.defaults(), x, "seq", definition, 1);
        orders_differ +=
            equal_bits(seq, run(op, op.defaults(), x, "order=lanes:8", definition, 1)) ? 0 : 1;
        for (const KernelRow& row : softmax_vector_rows()) {
          if (row.op != name || !test::on_this_cpu(row) || test::takes_halves_only(row)) continue;
          for (const int threads : {1, 2})
            CHECK_MESSAGE(equal_bits(run(op, op.defaults(), x, "seq", row.name, threads), seq),
                          row.name, " ", count, " ", length, " ", threads);
          ++compared;
        }
      }
  }
  CHECK(orders_differ > 30);
  CHECK((compared >= 60 || detect_isa() < Isa::avx2));
}
