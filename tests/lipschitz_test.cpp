// The slope of a function carries a bound through a layer: too small a slope calls honest outputs
// wrong. Each slope is held against difference quotients of the engine's own function.
#include "bench/compare/lipschitz.h"

#include <doctest/doctest.h>

#include <cmath>

#include "bench/compare/network.h"
#include "engine/graph/builder.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "engine/ops/activation.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

// f on multiples of 2^-9 from -24 to 24, so that differences of x are exact.
std::vector<float> values_of(std::string_view op, const Params& params) {
  constexpr int kPoints = 48 * 512 + 1;
  Tensor x = Tensor::uninitialized(DType::f32, Shape({kPoints}));
  auto data = x.mutable_data<float>();
  for (int i = 0; i < kPoints; ++i)
    data[static_cast<std::size_t>(i)] = static_cast<float>(i) / 512 - 24;
  const std::vector<const Tensor*> in = {&x};
  const OpRun run = run_op(get_op(op), params, in, all_kernels(), {.threads = 1});
  const auto y = run.outputs[0].data<float>();
  return {y.begin(), y.end()};
}

// The largest quotient between neighbours, less what two roundings can add.
double steepest(const std::vector<float>& y, double jump) {
  double most = 0;
  for (std::size_t i = 1; i < y.size(); ++i) {
    const double a = static_cast<double>(y[i - 1]), b = static_cast<double>(y[i]);
    const double rounding = 0x1p-24 * (std::fabs(a) + std::fabs(b));
    most = std::max(most, (std::fabs(b - a) - rounding - jump) * 512);
  }
  return most;
}

}  // namespace

TEST_CASE("lipschitz: no function is steeper than its slope, and none much flatter") {
  struct Case {
    std::string_view op;
    Params params;
  };
  std::vector<Case> cases;
  for (const std::string_view op :
       {"relu",       "hard_tanh",    "abs",  "neg",   "tanh",        "softsign",
        "sin",        "cos",          "atan", "asinh", "log_sigmoid", "sigmoid",
        "hard_swish", "erf",          "gelu", "mish",  "silu",        "elu",
        "leaky_relu", "hard_sigmoid", "selu", "celu",  "softplus"})
    cases.push_back({op, get_op(op).defaults()});
  cases.push_back({"gelu", Params(GeluParams{.approximate = GeluForm::tanh})});
  cases.push_back({"elu", Params(EluParams{.alpha = 5})});
  cases.push_back({"elu", Params(EluParams{.alpha = -3})});
  cases.push_back({"leaky_relu", Params(LeakyReluParams{.alpha = -2})});
  cases.push_back({"hard_sigmoid", Params(HardSigmoidParams{.alpha = 4})});
  cases.push_back({"selu", Params(SeluParams{.alpha = 3, .gamma = -2})});
  cases.push_back({"celu", Params(CeluParams{.alpha = 0.25F})});
  cases.push_back({"silu", Params(SiluParams{.alpha = 3})});
  cases.push_back({"softplus", Params(SoftplusParams{.beta = 2, .threshold = 1})});
  for (const Case& c : cases) {
    CAPTURE(c.op);
    const auto f = lipschitz_of(c.op, c.params);
    REQUIRE(f);
    const double most = steepest(values_of(c.op, c.params), f->jump);
    CHECK(most <= f->slope);
    if (f->jump == 0) CHECK(most >= 0.95 * f->slope);
  }
  CHECK(!lipschitz_of("celu", Params(CeluParams{.alpha = -1})));
  CHECK(!lipschitz_of("exp", get_op("exp").defaults()));
}

TEST_CASE("lipschitz: a steep elu behind a product of another order is not called wrong") {
  GraphBuilder b("steep");
  const ValueId x = b.input("x", DType::f32, {64, 2});
  Tensor w = Tensor::uninitialized(DType::f32, Shape({2, 1}));
  w.mutable_data<float>()[0] = 1.1F;
  w.mutable_data<float>()[1] = -1.3F;
  const ValueId s = b.op("matmul", "sum", {x, b.constant("w", std::move(w))});
  const ValueId y = b.node("elu", "y", {s}, Params(EluParams{.alpha = 256}));
  b.output(y);
  const auto graph = std::make_shared<const Graph>(b.finish());
  Tensor data = Tensor::uninitialized(DType::f32, Shape({64, 2}));
  auto values = data.mutable_data<float>();
  for (std::size_t i = 0; i < 64; ++i) {  // sums that nearly vanish, below zero
    values[2 * i] = 1 + static_cast<float>(i) / 61;
    values[2 * i + 1] = values[2 * i] * (1.1F / 1.3F) * (1 + 0x1p-16F);
  }
  InputMap inputs;
  inputs.emplace("x", std::move(data));
  const auto outputs_of = [&](const Contract& contract) {
    Executor executor(graph, all_kernels(), {.contract = contract});
    std::map<std::string, Tensor, std::less<>> got;
    for (auto& [name, t] : executor.run(inputs).outputs) got.emplace(name, t.share());
    return got;
  };
  const auto other = outputs_of(Contract::parse("fma=off"));
  const auto judged = judge_network(*graph, inputs, other, {.registry = &all_kernels()});
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].judgement.bits_equal < 1);
  CHECK_MESSAGE(judged[0].judgement.verdict != Verdict::wrong, judged[0].judgement.cause);
}
