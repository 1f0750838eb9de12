// The vector rows of activations and softmax against the definitions, through run_op: every bit, at
// any thread count, under seq, other orders and exact.
#include "kernels/activation/vector_rows.h"

#include <doctest/doctest.h>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/kernels.h"
#include "kernels/softmax/vector_rows.h"

using namespace etalon;

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

bool same_bits(const Tensor& a, const Tensor& b) { return hash_tensor(a) == hash_tensor(b); }

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

TEST_CASE("activation rows: the bits of the definition") {
  const Tensor x = activation_input(4099);
  int compared = 0;
  for (const KernelRow& row : activation_vector_rows()) {
    if (detect_isa() < row.isa) continue;
    const OpRow& op = get_op(row.op);
    const std::string definition = std::string(row.op) + ".definition";
    for (const char* contract : {"seq", "exact"})
      for (const int threads : {1, 3}) {
        const Tensor a = run(op, op.defaults(), x, contract, row.name, threads);
        const Tensor b = run(op, op.defaults(), x, contract, definition, 1);
        CHECK_MESSAGE(same_bits(a, b), row.name, " ", contract, " ", threads);
        ++compared;
      }
  }
  CHECK((compared >= 56 || detect_isa() < Isa::avx2));
  const OpRow& gelu = get_op("gelu");
  const Params tanh_form = parse_params(gelu.defaults(), "approximate=tanh");
  if (detect_isa() >= Isa::avx2)
    CHECK(same_bits(run(gelu, tanh_form, x, "seq", "gelu.f32.avx2", 1),
                    run(gelu, tanh_form, x, "seq", "gelu.definition", 1)));
}

TEST_CASE("softmax rows: the bits of the definition, in every order and exactly") {
  int compared = 0;
  for (const char* name : {"softmax", "log_softmax"}) {
    const OpRow& op = get_op(name);
    for (const std::int64_t length : {1, 2, 3, 8, 9, 67}) {
      const Tensor x = softmax_input(length);
      for (const char* contract : {"seq", "order=lanes:8", "order=pairwise:4", "exact"}) {
        const Tensor b = run(op, op.defaults(), x, contract, std::string(name) + ".definition", 1);
        for (const KernelRow& row : softmax_vector_rows()) {
          if (row.op != name || detect_isa() < row.isa) continue;
          const Tensor a = run(op, op.defaults(), x, contract, row.name, 2);
          CHECK_MESSAGE(same_bits(a, b), row.name, " ", contract, " ", length);
          ++compared;
        }
      }
    }
  }
  CHECK((compared >= 48 || detect_isa() < Isa::avx2));
}
