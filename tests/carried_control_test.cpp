// Bounds carried through the bodies of if, loop and scan: other orders of summation inside them are
// explained, planted faults are not, and what hangs on an uncertain condition is no statement.
#include <doctest/doctest.h>

#include "bench/compare/carried.h"
#include "bench/compare/verdict.h"
#include "engine/graph/executor.h"
#include "engine/ops/pool.h"
#include "kernels/kernels.h"
#include "tests/control_network.h"

using namespace etalon;
using namespace etalon::test;
using verdict_data::noise;

namespace {

std::vector<Tensor> outputs_of(const Model& m, const NamedTensors& in, const char* contract) {
  Executor executor(m.graph, all_kernels(), {.contract = Contract::parse(contract)});
  std::vector<Tensor> list;
  for (auto& [name, t] : executor.run(in).outputs) list.push_back(t.share());
  return list;
}

std::vector<Judgement> judged(const Model& m, const NamedTensors& in,
                              const std::vector<Tensor>& got) {
  const Graph& g = *m.graph;
  CarriedValues carried(g, all_kernels(), Contract::seq(), 1, detect_isa(), nullptr);
  for (const Node& n : g.nodes)
    carried.step(n, [&](ValueId v) -> const Tensor* {
      if (const auto at = g.initializers.find(v); at != g.initializers.end()) return &at->second;
      const auto at = in.find(g.value_name(v));
      return at == in.end() ? nullptr : &at->second;
    });
  std::vector<Judgement> list;
  for (std::size_t o = 0; o < got.size(); ++o)
    list.push_back(carried.judge(g.outputs[o].value, got[o]));
  return list;
}

}  // namespace

TEST_CASE("carried: through the bodies of loop, if and scan") {
  for (const bool loop : {true, false}) {
    CAPTURE(loop);
    const Model m = control_network(loop);
    const NamedTensors in = control_inputs(loop);
    for (const Judgement& j : judged(m, in, outputs_of(m, in, "seq")))
      CHECK(j.verdict == Verdict::identical);
    for (const char* order : {"order=lanes:8,fma=off", "order=pairwise:1"}) {
      CAPTURE(order);
      std::vector<Tensor> got = outputs_of(m, in, order);
      for (const Judgement& j : judged(m, in, got)) {
        CHECK_MESSAGE(j.verdict == Verdict::explained, j.cause);
        CHECK(j.bits_equal < 1);  // the data tells orders apart
        CHECK(j.bound_used < 1);
      }
      // One element by a thousandth: more than any rounding leaves.
      for (Tensor& t : got) {
        t = t.clone();
        t.mutable_data<float>()[7] *= 1.001F;
      }
      for (const Judgement& j : judged(m, in, got)) CHECK(j.verdict == Verdict::wrong);
    }
  }
}

TEST_CASE("carried: a condition that rounding may turn is no statement") {
  Model m;
  Graph& g = *m.graph;
  g.inputs = {declared(g, "x")};
  g.initializers.emplace(g.add_value("w"), noise({kControlUnits, 1}, 3));
  node(g, "matmul", {"x", "w"}, {"u"});
  g.initializers.emplace(g.add_value("bound"), Tensor::of<float>({}, {0.0F}));
  node(g, "less", {"u", "bound"}, {"below"});
  node(g, "if", {"below"}, {"y"}, {}, {branch(0.5F), branch(0.25F)});
  g.outputs = {declared(g, "y")};
  g.finish();
  NamedTensors in;
  in.emplace("x", noise({1, kControlUnits}, 2));
  const auto got = outputs_of(m, in, "seq");
  CHECK(judged(m, in, got)[0].verdict == Verdict::undecided);
  // Where the framework's own sum is given it turns nothing.
  CarriedValues carried(g, all_kernels(), Contract::seq(), 1, detect_isa(), nullptr);
  const Tensor u = Tensor::of<float>({1, 1}, {0.75F}), bound = Tensor::of<float>({}, {0.0F});
  for (const Node& n : g.nodes)
    carried.step(n, [&](ValueId v) -> const Tensor* {
      return g.value_name(v) == "u" ? &u : g.value_name(v) == "bound" ? &bound : nullptr;
    });
  const ValueId y = g.outputs[0].value;
  CHECK(carried.judge(y, Tensor::of<float>({1, 1}, {0.75F * 0.25F})).verdict == Verdict::identical);
  CHECK(carried.judge(y, Tensor::of<float>({1, 1}, {0.75F * 0.5F})).verdict == Verdict::wrong);
}

TEST_CASE(
    "carried: integers count on where they are certain, and end the chain where they are not") {
  Graph g;
  g.initializers.emplace(g.add_value("w"), weights());
  g.initializers.emplace(g.add_value("scale"), Tensor::of<float>({}, {0.01F}));
  g.initializers.emplace(g.add_value("zero"), Tensor::of<std::uint8_t>({}, {128}));
  g.initializers.emplace(g.add_value("seven"), Tensor::of<std::int64_t>({}, {7}));
  node(g, "matmul", {"w", "w"}, {"u"});
  node(g, "quantize_linear", {"u", "scale", "zero"}, {"q"});
  node(g, "add", {"q", "q"}, {"twice"});  // 256 wraps around
  node(g, "add", {"seven", "seven"}, {"count"});
  CarriedValues carried(g, all_kernels(), Contract::seq(), 1, detect_isa(), nullptr);
  for (const Node& n : g.nodes)
    carried.step(n, [&](ValueId v) -> const Tensor* {
      const auto at = g.initializers.find(v);
      return at == g.initializers.end() ? nullptr : &at->second;
    });
  const Tensor bytes = Tensor::zeros(DType::u8, {kControlUnits, kControlUnits});
  CHECK(carried.judge(g.find_value("twice"), bytes).verdict == Verdict::undecided);
  CHECK(carried.judge(g.find_value("count"), Tensor::of<std::int64_t>({}, {14})).verdict ==
        Verdict::identical);
  CHECK(carried.judge(g.find_value("count"), Tensor::of<std::int64_t>({}, {15})).verdict ==
        Verdict::wrong);
}

TEST_CASE("carried: a maximum's bound goes on where its position has none") {
  Graph g;
  g.initializers.emplace(g.add_value("w"), weights());
  g.initializers.emplace(g.add_value("shape"), Tensor::of<std::int64_t>({4}, {1, 1, 40, 40}));
  MaxPoolParams p;
  p.kernel = p.strides = {2, 2};
  p.indices = PoolIndices::plane;
  node(g, "matmul", {"w", "w"}, {"u"});
  node(g, "reshape", {"u", "shape"}, {"image"});
  node(g, "max_pool", {"image"}, {"y", "places"}, p);
  CarriedValues carried(g, all_kernels(), Contract::seq(), 1, detect_isa(), nullptr);
  for (const Node& n : g.nodes)
    carried.step(n, [&](ValueId v) -> const Tensor* {
      const auto at = g.initializers.find(v);
      return at == g.initializers.end() ? nullptr : &at->second;
    });
  CHECK(carried.judge(g.find_value("y"), Tensor::zeros(DType::f32, {1, 1, 20, 20})).verdict ==
        Verdict::wrong);
  CHECK(carried.judge(g.find_value("places"), Tensor::zeros(DType::i64, {1, 1, 20, 20})).verdict ==
        Verdict::undecided);
}
