// Errors that `bench` counts: against the first sample where samples are apart, against the whole
// elsewhere, and NaN only ever right where NaN is.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "bench/cli/bench.h"
#include "bench/micro/first_sample.h"
#include "engine/core/error.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;
using namespace etalon::cli;

namespace {

RunOptions exactly() {
  RunOptions run;
  run.contract = Contract::exact_preset();
  return run;
}

OpRun run_exactly(const NamedShape& shape, const std::vector<Tensor>& inputs, bool with_truth) {
  return run_op(*shape.op, shape.params, pointers(inputs), all_kernels(), exactly(), with_truth);
}

SampleTruth truth_of(const NamedShape& shape, const std::vector<Tensor>& inputs) {
  return truth_of_first_sample(shape, inputs, all_kernels(), detect_isa(), 1);
}

// An exact value is known to 2^-10 ULP, and kernels differ within that.
bool same_value(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) ||
         std::fabs(a - b) <=
             0x1p-9 * ulp_of(static_cast<double>(static_cast<float>(a)), DType::f32);
}

}  // namespace

TEST_CASE("bench errors: rows that are computed alone are rows of the whole") {
  std::set<std::string_view> cut, whole;
  for (const OpCase& c : op_cases()) {
    CAPTURE(c.line);
    NamedShape shape;
    shape.suite = "case";
    shape.op = c.op;
    shape.params = c.params;
    const std::vector<Tensor> inputs = case_inputs(c);
    bool all = true;
    std::vector<InferInput> known;
    for (const Tensor& t : inputs) {
      all = all && bool(t) && t.dtype() == DType::f32;
      if (all) known.push_back({t.type(), nullptr, true});
    }
    if (!all) continue;
    for (const InferInput& i : known) shape.inputs.push_back(i.type);
    try {
      shape.outputs = infer_alone(*c.op, c.params, InferInputs(known));
    } catch (const Error&) {
      continue;  // hangs on elements
    }
    const SampleTruth first = truth_of(shape, inputs);
    if (!first.exact) {
      CHECK(!first.none_because.empty());
      continue;
    }
    const std::vector<Tensor> truth = run_exactly(shape, inputs, true).truth;
    REQUIRE(!truth.empty());
    const bool rows = !inputs_by_sample(shape).empty();
    (rows ? cut : whole).insert(c.op->name);
    REQUIRE(first.exact.numel() * (rows ? shape.outputs[0].shape[0] : 1) == truth[0].numel());
    const auto alone = first.exact.data<double>(), together = truth[0].data<double>();
    std::size_t apart = 0;
    for (std::size_t i = 0; i < alone.size(); ++i)
      apart += same_value(alone[i], together[i]) ? 0 : 1;
    CHECK(apart == 0);
  }
  for (const char* op : {"conv", "gemm", "matmul", "softmax", "layer_norm", "mul", "max", "relu"})
    CHECK_MESSAGE(cut.contains(op), op);
  CHECK(cut.size() > 40);
  CHECK(whole.size() > 10);
}

TEST_CASE(
    "bench errors: an exact answer is at most half a unit away, for every line of every file") {
  std::set<std::string> seen;
  std::vector<NamedShape> shapes = load_shapes();
  for (const char* typed :
       {"softmax f32[4,8] axis=0", "log_softmax f32[4,8] axis=0", "layer_norm f32[4,8] axis=0",
        "matmul f32[2,4,8] f32[2,8,16]", "matmul f32[8] f32[8,16]", "matmul f32[4,8] f32[3,8,2]",
        "matmul f32[4,8] f32[8]", "mul f32[2] f32[2]", "mul f32[3,4] f32[3,1]",
        "add f32[4] f32[3,4]", "add f32[1,4] f32[3,4]", "prelu f32[4,8] f32[4,8]",
        "gemm f32[4,8] f32[8,16] f32[4,16]", "gemm f32[4,8] f32[8,16] f32[4,1]",
        "gemm f32[4,8] f32[8,16] f32[16]", "gemm f32[8,4] f32[8,16] f32[4,16] trans_a=true",
        "batch_norm f32[4,8] f32[4] f32[4] f32[4] f32[4] axis=0",
        "lstm f32[3,2,4] f32[1,16,4] f32[1,16,4] direction=reverse",
        "gru f32[3,2,4] f32[1,12,4] f32[1,12,4]"})
    shapes.push_back(typed_shape(typed));
  for (const NamedShape& shape : shapes) {
    double elements = 0;
    for (const auto* types : {&shape.inputs, &shape.outputs})
      for (const TensorType& type : *types) elements += static_cast<double>(type.shape.numel());
    if (elements > 3e6 || multiply_adds(shape) > 1e6) continue;
    CAPTURE(shape.op->name);
    CAPTURE(shape.line);
    const std::vector<Tensor> inputs = shape_inputs(shape);
    const SampleTruth truth = truth_of(shape, inputs);
    CHECK(truth.none_because.empty() == bool(truth.exact));
    if (!truth.exact) {
      CHECK(truth.none_because.find("not of") != std::string::npos);
      continue;
    }
    const UlpError error = error_of(run_exactly(shape, inputs, false).outputs[0], truth.exact);
    CHECK(error.max <= 0.5);
    CHECK(error.mean <= error.max);
    if (shape.op->nature == OpNature::movement || shape.op->name == "max" ||
        shape.op->name == "relu")
      CHECK(error.max == 0);
    seen.emplace(shape.op->name);
  }
  CHECK(seen.size() > 40);
}

TEST_CASE("bench errors: NaN in place of a number is infinitely wrong, in place of NaN right") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto error = [](double exact, float got) {
    const double e[] = {1, exact};
    const float g[] = {1, got};
    return error_of(Tensor::of<float>(Shape{2}, g), Tensor::of<double>(Shape{2}, e));
  };
  const auto nan = static_cast<float>(kNaN);
  const auto inf = static_cast<float>(kInf);
  CHECK(error(kNaN, nan).max == 0);
  CHECK(error(kNaN, nan).mean == 0);
  CHECK(error(2, nan).max == kInf);
  CHECK(error(2, nan).mean == kInf);
  CHECK(error(kNaN, 2).max == kInf);
  CHECK(error(kInf, inf).max == 0);
  CHECK(error(kInf, -inf).max == kInf);
  CHECK(error(2, inf).max == kInf);
  CHECK(error(1e39, inf).max == 0);
  CHECK(error(1 + 0x1p-24, 1).max == 0.5);
  // Square roots of noise: half of them are NaN.
  BenchOptions options;
  options.timing = {.repetitions = 1, .min_time_s = 1e-5};
  const BenchRow row = bench_shape(typed_shape("sqrt f32[64]"), all_kernels(), options);
  CHECK(row.ours.error.value_or(UlpError{kInf, kInf}).mean <= 0.5);
}
