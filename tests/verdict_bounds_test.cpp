// Verdicts at their borders: what lower precision may and may not be, values that a format has,
// outputs of halves, zeros, and contracts that a layer cannot have.
#include <doctest/doctest.h>

#include "bench/compare/library_accuracy.h"
#include "bench/compare/verdict.h"
#include "bench/op_text.h"
#include "tests/verdict_data.h"

using namespace etalon;
using namespace etalon::verdict_data;

namespace {

Tensor stored(const Tensor& t, DType d) {
  Tensor copy = t.clone();
  for (float& x : copy.mutable_data<float>())
    x = static_cast<float>(round_to(static_cast<double>(x), d));
  return copy;
}
Judgement judged(const Layer& layer, Tensor got, const char* contract = "seq",
                 const char* library = "unknown") {
  JudgeOptions options;
  options.registry = &all_kernels();
  options.contract = Contract::parse(contract);
  options.library = &named_library(library);
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(got));
  return judge_layer(layer, outputs, options).at(0);
}
std::vector<Tensor> two(Tensor a, Tensor b) {
  std::vector<Tensor> list;
  list.push_back(std::move(a));
  list.push_back(std::move(b));
  return list;
}
std::vector<Tensor> one(Tensor a) {
  std::vector<Tensor> list;
  list.push_back(std::move(a));
  return list;
}
Tensor filled(const Shape& shape, float value) {
  Tensor t = Tensor::zeros(DType::f32, shape);
  for (float& x : t.mutable_data<float>()) x = value;
  return t;
}

}  // namespace

TEST_CASE("verdict: numbers of a narrower format are lower precision only where they are near") {
  for (const std::int64_t k : {16, 64, 800}) {
    CAPTURE(k);
    const Layer gemm = layer_of("gemm", two(noise({8, k}, 1), noise({k, 8}, 2)));
    const Tensor y = suspect(gemm, tree_contract(k, 5, "seq"))[0].share();
    for (const DType d : {DType::bf16, DType::f16}) {
      CAPTURE(name(d));
      CHECK(judged(gemm, stored(y, d)).verdict == Verdict::lower_precision);
      CHECK(judged(gemm, stored(y, d), "acc=f64").verdict == Verdict::lower_precision);
      // Of the right size and format, and rubbish: another product's numbers, one element's sign,
      // ones, an infinity that no overflow explains.
      const Layer other = layer_of("gemm", two(noise({8, k}, 3), noise({k, 8}, 4)));
      CHECK(judged(gemm, stored(suspect(other, Contract::parse("seq"))[0], d)).verdict ==
            Verdict::wrong);
      Tensor turned = stored(y, d);
      std::size_t most = 0;
      for (std::size_t i = 0; i < 64; ++i)
        if (std::fabs(turned.data<float>()[i]) > std::fabs(turned.data<float>()[most])) most = i;
      turned.mutable_data<float>()[most] *= -1;
      CHECK(judged(gemm, std::move(turned)).verdict == Verdict::wrong);
      CHECK(judged(gemm, filled({8, 8}, 1)).verdict == Verdict::wrong);
      Tensor infinite = stored(y, d);
      infinite.mutable_data<float>()[3] = static_cast<float>(kInfinity);
      CHECK(judged(gemm, std::move(infinite)).verdict == Verdict::wrong);
      Tensor nan = stored(y, d);
      nan.mutable_data<float>()[3] = static_cast<float>(kNan);
      CHECK(judged(gemm, std::move(nan)).verdict == Verdict::wrong);
    }
  }
  for (const char* op : {"tanh", "softmax", "exp"}) {
    CAPTURE(op);
    const Layer layer = layer_of(op, one(noise({8, 16}, 7, 4)));
    const Tensor y = suspect(layer, Contract::parse("exact"))[0].share();
    CHECK(judged(layer, stored(y, DType::bf16)).verdict == Verdict::lower_precision);
    CHECK(judged(layer, filled({8, 16}, 1)).verdict == Verdict::wrong);
  }
  // 70000 is infinite in f16, and rightly so.
  const Layer large = layer_of("mul", two(noise({64}, 9, 400), filled({64}, 997)));
  const Tensor y = stored(suspect(large, Contract::parse("seq"))[0], DType::f16);
  bool overflowed = false;
  for (const float x : y.data<float>()) overflowed |= std::isinf(x);
  CHECK(overflowed);
  CHECK(judged(large, y.share()).verdict == Verdict::lower_precision);
}

TEST_CASE("verdict: f16 sums on f16 tensors are lower precision, f32 sums there are not") {
  Layer gemm = layer_of("gemm", two(noise({8, 64}, 1), noise({64, 8}, 2)));
  for (Tensor& t : gemm.inputs) {
    Tensor half = Tensor::uninitialized(DType::f16, t.shape());
    for (std::int64_t i = 0; i < t.numel(); ++i)
      half.mutable_data<Float16>()[static_cast<std::size_t>(i)] =
          to_float16(t.data<float>()[static_cast<std::size_t>(i)]);
    t = std::move(half);
  }
  const Judgement narrow = judged(gemm, suspect(gemm, Contract::parse("acc=f16"))[0].share());
  CHECK(narrow.verdict == Verdict::lower_precision);
  CHECK(narrow.cause.find("accumulated in f16") != std::string::npos);
  CHECK(judged(gemm, suspect(gemm, tree_contract(64, 3, "seq"))[0].share()).verdict <=
        Verdict::explained);
}

TEST_CASE("verdict: a unit off is within a library's promise where the value is a number too") {
  Tensor x = filled({8}, 100), y = filled({8}, std::nextafter(2.0F, 3.0F));
  const Layer log10 = layer_of("log10", one(x.share()));
  CHECK(judged(log10, y.share()).verdict == Verdict::explained);
  CHECK(judged(log10, filled({8}, 2.0F + 0x1p-18F)).verdict == Verdict::wrong);
  // A root is rounded correctly everywhere: IEEE 754 says so.
  const Layer root = layer_of("sqrt", one(filled({8}, 4)));
  CHECK(judged(root, y.share()).verdict == Verdict::wrong);
}

TEST_CASE("verdict: zeros of the other sign are named; outputs that are all zero are wrong") {
  Tensor x = noise({16}, 1);
  x.mutable_data<float>()[0] = 0.0F;
  const Layer neg = layer_of("neg", one(x.share()));
  Tensor y = suspect(neg, Contract::parse("seq"))[0].clone();
  y.mutable_data<float>()[0] = 0.0F;
  const Judgement sign = judged(neg, std::move(y));
  CHECK(sign.verdict == Verdict::explained);
  CHECK(sign.cause.find("zero's sign") != std::string::npos);
  const Layer gemm = layer_of("gemm", two(noise({8, 64}, 1), noise({64, 8}, 2)));
  const Judgement zero = judged(gemm, filled({8, 8}, 0));
  CHECK(zero.verdict == Verdict::wrong);
  CHECK(zero.cause == "every output is zero");
  // (a + 1.x) - a is 0 in f32 for large a: rounding alone.
  Tensor ones = filled({8, 3}, 1), cancel = Tensor::zeros(DType::f32, {3, 8});
  for (std::size_t n = 0; n < 8; ++n) {
    const float a = 0x1p27F + 1024 * static_cast<float>(n);
    cancel.mutable_data<float>()[n] = a;
    cancel.mutable_data<float>()[8 + n] = 1 + static_cast<float>(n) / 16;
    cancel.mutable_data<float>()[16 + n] = -a;
  }
  const Layer lawful = layer_of("matmul", two(std::move(ones), std::move(cancel)));
  CHECK(judged(lawful, filled({8, 8}, 0)).verdict != Verdict::wrong);
}

TEST_CASE("verdict: an epsilon that the data cannot tell from another is named with it") {
  Layer norm = layer_of("layer_norm", one(noise({8, 64}, 1, 16)));
  norm.inputs.push_back(filled({64}, 1));
  norm.inputs.push_back(filled({64}, 0));
  const auto with = [&](const char* eps) {
    Layer other = norm.share();
    other.params = parse_params(*norm.op, {fmt::format("eps={}", eps)});
    return suspect(other, Contract::parse("exact"))[0].share();
  };
  const Judgement j = judged(norm, with("1e-12"));
  CHECK(j.verdict == Verdict::wrong);
  CHECK(j.cause.find("1e-08") != std::string::npos);
  CHECK(j.cause.find("1e-12") != std::string::npos);
  CHECK(j.cause.find(", not 1e-05") != std::string::npos);
  for (const char* value : {"1e-08", "1e-10", "1e-12"})  // each once
    CHECK(j.cause.find(value) == j.cause.rfind(value));
}

TEST_CASE(
    "verdict: a contract that the layer cannot have is refused, and so is an unknown library") {
  const Layer gemm = layer_of("gemm", two(noise({8, 64}, 1), noise({64, 8}, 2)));
  const Tensor y = suspect(gemm, Contract::parse("seq"))[0].share();
  CHECK_THROWS_WITH_AS(judged(gemm, y.share(), "order=blocks:10+20"),
                       doctest::Contains("the blocks hold 30 terms"), Error);
  CHECK(named_library("pytorch").library == "PyTorch");
  CHECK(named_library("onnxruntime").library == "ONNX Runtime");
  CHECK(named_library("").library == "unknown");
  CHECK_THROWS_WITH_AS(named_library("nosuch"), doctest::Contains("PyTorch"), Error);
}
