// Whole networks judged by their final outputs: orders of summation are explained by the bound that
// is carried, or by draws; planted faults are not.
#include "bench/compare/network.h"

#include <doctest/doctest.h>

#include "bench/compare/carried.h"
#include "bench/data.h"
#include "importers/importers.h"
#include "tests/verdict_data.h"

using namespace etalon;
using namespace etalon::verdict_data;

namespace {

std::map<std::string, Tensor, std::less<>> outputs_of(const Model& model, const InputMap& inputs,
                                                      const Contract& contract) {
  Executor executor(model.graph, all_kernels(), {.contract = contract, .threads = 2});
  std::map<std::string, Tensor, std::less<>> got;
  for (auto& [name, t] : executor.run(inputs).outputs) got.emplace(name, t.share());
  return got;
}

NetworkJudgement judge_one(const Model& model, const InputMap& inputs,
                           const std::map<std::string, Tensor, std::less<>>& got) {
  const auto list =
      judge_network(*model.graph, inputs, got, {.registry = &all_kernels(), .threads = 2});
  REQUIRE(list.size() == 1);
  return list[0];
}

}  // namespace

TEST_CASE("network: final outputs in another order are explained, with narrower weights not") {
  const std::string file = std::string(ETALON_SOURCE_DIR) + "/bench/demo/lenet.onnx";
  const Model model = open_model(file);
  const InputMap inputs = [&] {
    InputMap in;
    in.emplace(model.graph->value_name(model.graph->inputs[0].value),
               std::move(load_dataset("mnist", 4).images));
    return in;
  }();
  const NetworkJudgement same =
      judge_one(model, inputs, outputs_of(model, inputs, Contract::seq()));
  CHECK(same.judgement.verdict == Verdict::identical);
  CHECK(same.way == "bits");
  for (const char* order : {"order=pairwise:1", "order=lanes:8,fma=off"}) {
    const NetworkJudgement n =
        judge_one(model, inputs, outputs_of(model, inputs, Contract::parse(order)));
    CHECK_MESSAGE(n.judgement.verdict == Verdict::explained, std::string(order)
                                                                 << ": " << n.judgement.cause);
    CHECK(n.judgement.carried);
    MESSAGE(std::string(order) << " by " << n.way << ": " << n.judgement.cause << "; " << n.bound);
  }
  // bf16 weights: far beyond what rounding leaves.
  const Model narrow = open_model(file);
  for (auto& [v, t] : const_cast<Graph&>(*narrow.graph).initializers)
    if (t.dtype() == DType::f32) {
      t = t.clone();
      for (float& x : t.mutable_data<float>())
        x = static_cast<float>(round_to(static_cast<double>(x), DType::bf16));
    }
  const NetworkJudgement bad =
      judge_one(model, inputs, outputs_of(narrow, inputs, Contract::seq()));
  CHECK_MESSAGE(bad.judgement.verdict > Verdict::explained, bad.judgement.cause);
  MESSAGE("bf16 weights: " << name(bad.judgement.verdict) << ", " << bad.judgement.cause);
}

TEST_CASE("carried: what may overflow in some order is no statement, a NaN is wrong") {
  const Graph graph;
  CarriedValues carried(graph, all_kernels(), Contract::seq(), 1, detect_isa(), nullptr);
  // 2^127 + 2^127 - 2^127 is infinite in sequence and 2^127 from behind.
  const Tensor a = Tensor::of<float>({2, 3}, {0x1p127F, 0x1p127F, -0x1p127F, 1, 2, 3}),
               b = Tensor::of<float>({3, 1}, {1, 1, 1});
  Node node;
  node.op = &get_op("gemm");
  node.params = Params(GemmParams{});
  node.inputs = {0, 1};
  node.outputs = {2};
  carried.step(node, [&](ValueId v) { return v == 0 ? &a : &b; });
  const Judgement other = carried.judge(2, Tensor::of<float>({2, 1}, {0x1p127F, 6}));
  CHECK_MESSAGE(other.verdict == Verdict::undecided, other.cause);
  CHECK(other.no_statement == 1);
  CHECK(carried.judge(2, Tensor::of<float>({2, 1}, {0x1p127F, NAN})).verdict == Verdict::wrong);
}
