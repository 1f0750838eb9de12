// Claim: quantize_linear and dequantize_linear by vectors (kernels/quantize/fast.cpp) have the bits
// of their definitions: every integer type, scales for all, by axis and by block, with and without
// zero points, quotients at and beside halves of odd numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/ops/quantize.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"

using namespace etalon;

namespace {

struct Form {
  Shape x, scale;
  std::int64_t axis = 1, block = 0;
};
const Form kForms[] = {{{3, 1000}, {}},          {{2, 5, 7, 9}, {5}},
                       {{37, 21}, {21}, -1},     {{2, 7, 6}, {2, 3, 6}, 1, 3},
                       {{3, 50}, {3, 13}, 1, 4}, {{4, 3}, {3}, -1}};
constexpr DType kTypes[] = {DType::i8, DType::u8, DType::i16, DType::u16};

Tensor scales(const Shape& shape) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{3, 0};
  std::uint64_t i = 0;
  constexpr float kPlain[] = {0x1p-7F, 0.1F, 3, 0.0078431377F, -0.37F, 1e-30F, 0};
  for (float& s : t.mutable_data<float>()) {
    s = kPlain[i % std::size(kPlain)] * (i < 2 ? 1 : 1 + random.uniform(i) / 2);
    ++i;
  }
  return t;
}
Tensor integers(DType type, const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::uninitialized(type, shape);
  const Philox random{seed, 0};
  const auto bytes = t.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(random.word(i) >> 9);
  return t;
}
// Halves of odd numbers times the element's scale, their neighbours, and what ends ranges.
Tensor values(const Form& form, const Tensor& scale, const QuantizeGeometry& g) {
  Tensor t = Tensor::uninitialized(DType::f32, form.x);
  const Philox random{5, 0};
  const auto x = t.mutable_data<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const float s = scale.data<float>()[static_cast<std::size_t>(g.scale_index(at))];
    const float k = std::floor(random.uniform(2 * i) * 300);
    const std::uint32_t kind = random.word(2 * i + 1) % 16;
    x[i] = (k + 0.5F) * s;
    if (kind < 4) x[i] = std::nextafter(x[i], 1e30F);
    if (kind >= 4 && kind < 8) x[i] = std::nextafter(x[i], -1e30F);
    if (kind == 8) x[i] = 70000 * random.uniform(3 * i) * s;
    if (kind == 9) x[i] = 1e38F * random.uniform(3 * i);
    if (kind == 10)
      x[i] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN()
                        : std::numeric_limits<float>::infinity();
    if (kind == 11) x[i] = -0.0F;
    if (kind == 12) x[i] = 0x1p-149F * std::floor(random.uniform(3 * i) * 50);
  }
  return t;
}

OpRun with(const char* op, const QuantizeParams& params, const std::vector<const Tensor*>& in,
           const char* contract, std::string_view kernel, int threads) {
  return run_op(
      get_op(op), Params(params), in, all_kernels(),
      {.contract = Contract::parse(contract), .threads = threads, .kernels = std::string(kernel)});
}
int compare(const char* op, const QuantizeParams& params, const std::vector<const Tensor*>& in,
            std::initializer_list<const char*> contracts) {
  int compared = 0;
  for (const char* contract : contracts) {
    const OpRun want = with(op, params, in, contract, std::string(op) + ".definition", 1);
    for (const KernelRow* row : all_kernels().rows_of(op)) {
      if (row->name.ends_with(".definition") || !test::on_this_cpu(*row)) continue;
      for (const int threads : {1, 3}) {
        const OpRun got = with(op, params, in, contract, row->name, threads);
        CAPTURE(row->name);
        CAPTURE(contract);
        CAPTURE(to_string(in[0]->type().shape));
        CHECK(std::memcmp(got.outputs[0].bytes().data(), want.outputs[0].bytes().data(),
                          want.outputs[0].size_bytes()) == 0);
        ++compared;
      }
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("quantize: vectors have the definition's bits") {
  int compared = 0, parted = 0;
  for (const Form& form : kForms)
    for (const DType type : kTypes)
      for (const bool has_zero : {false, true}) {
        QuantizeParams params{.axis = form.axis, .block_size = form.block};
        if (!has_zero) params.output_dtype = name(type);
        const Tensor scale = scales(form.scale), zero = integers(type, form.scale, 7);
        const std::vector<InferInput> inputs = {{{DType::f32, form.x}, nullptr, true},
                                                {scale.type(), nullptr, true}};
        const Tensor x = values(form, scale, quantize_geometry(params, InferInputs(inputs)));
        std::vector<const Tensor*> in = {&x, &scale};
        if (has_zero) in.push_back(&zero);
        compared +=
            compare("quantize_linear", params, in, {"seq", "exact", "order=lanes:8,fma=off"});
        const auto bits = [&](const char* contract) {
          return with("quantize_linear", params, in, contract, "", 1);
        };
        const OpRun seq = bits("seq"), exact = bits("exact");
        parted += std::memcmp(seq.outputs[0].bytes().data(), exact.outputs[0].bytes().data(),
                              seq.outputs[0].size_bytes()) != 0;
      }
  CHECK(compared >= 6 * 4 * 2 * 3 * 2);
  CHECK(parted > 0);  // a real quotient beside a half that its rounding meets
}

// A product with the scale's reciprocal decides most blocks, a division those with a quotient near
// to half of an odd number: here every 997th element is one, at distances from the least to beyond
// what the kernel asks, on both sides.
TEST_CASE("quantize: one scale, few quotients near to halves") {
  int compared = 0, parted = 0;
  for (const float s : {0.1F, 0.0123F, 3.0F, -0.7F, 1e-30F, 1e30F, 0x1.fffffep-126F, 1e-39F})
    for (const DType type : kTypes) {
      constexpr std::int64_t kCount = 30011;
      Tensor x = Tensor::uninitialized(DType::f32, Shape{kCount});
      const Philox random{11, 0};
      const float reach = size_bytes(type) == 1 ? 400.0F : 90000.0F;
      const auto elements = x.mutable_data<float>();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        float q = std::floor(random.uniform(i) * reach) + (i % 2 == 0 ? 0.25F : -0.375F);
        if (i % 997 == 0)
          q = std::floor(q) + 0.5F +
              std::ldexp(i % 2 == 0 ? 1.0F : -1.0F, -4 - static_cast<int>(i / 997));
        elements[i] = q * s;
        const auto product = static_cast<double>(elements[i] * (1 / s));
        parted += std::nearbyint(product) != std::nearbyint(static_cast<double>(elements[i] / s));
      }
      const Tensor scale = Tensor::of<float>({}, {s}), zero = integers(type, {}, 7);
      compared += compare("quantize_linear", {}, {&x, &scale, &zero}, {"seq", "exact"});
    }
  CHECK(compared >= 8 * 4 * 2 * 2);
  CHECK(parted > 0);  // the reciprocal alone is not enough
}

TEST_CASE("dequantize: vectors have the definition's bits") {
  int compared = 0;
  for (const Form& form : kForms)
    for (const DType type : kTypes)
      for (const bool has_zero : {false, true}) {
        const QuantizeParams params{.axis = form.axis, .block_size = form.block};
        Tensor scale = scales(form.scale);
        scale.mutable_data<float>().back() = std::numeric_limits<float>::infinity();
        const Tensor zero = integers(type, form.scale, 8), x = integers(type, form.x, 9);
        std::vector<const Tensor*> in = {&x, &scale};
        if (has_zero) in.push_back(&zero);
        compared += compare("dequantize_linear", params, in, {"seq", "exact"});
      }
  CHECK(compared >= 6 * 4 * 2 * 2 * 2);
}
