#include "engine/graph/executor.h"

#include <doctest/doctest.h>

#include <cstring>

#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/layout.h"
#include "kernels/kernels.h"
#include "tests/noise.h"

using namespace etalon;
using test::noise;

namespace {

Tensor conv(const Tensor& x, const Tensor& w, const char* contract, int threads = 1) {
  ConvParams p;
  p.pads_begin = {2, 1};
  p.pads_end = {0, 1};
  p.strides = {2, 1};
  const Tensor* in[] = {&x, &w};
  RunOptions options{.contract = Contract::parse(contract), .threads = threads};
  return std::move(run_op(get_op("conv"), Params(p), in, all_kernels(), options).outputs[0]);
}

// x -> conv -> relu -> y, batch free.
std::shared_ptr<Graph> small_graph() {
  auto g = std::make_shared<Graph>();
  const ValueId x = g->add_value("x"), w = g->add_value("w"), t = g->add_value("t"),
                y = g->add_value("y");
  g->inputs.push_back({x, DType::f32, true, {-1, 3, 8, 8}, {"batch", "", "", ""}});
  g->initializers.emplace(w, noise({5, 3, 3, 3}, 7));
  // Out of sequence on purpose: finish() sorts.
  g->nodes.push_back({"act", &get_op("relu"), Params(), {t}, {y}, {}});
  g->nodes.push_back({"conv1", &get_op("conv"), Params(ConvParams{}), {x, w}, {t}, {}});
  g->outputs.push_back({y});
  g->finish();
  return g;
}

}  // namespace

TEST_CASE("conv definition: the data tells orders apart, threads do not") {
  const Tensor x = noise({2, 8, 9, 7}, 1), w = noise({4, 8, 3, 3}, 2);
  const Hash128 seq = hash_tensor(conv(x, w, "seq"));
  for (const char* other :
       {"order=lanes:8", "order=pairwise:4", "order=blocks:16", "order=splitk:3", "walk=rsc",
        "walk=c4rs", "fma=off", "round=rz", "round=ru", "acc=f64", "acc=bf16", "store=f16"})
    CHECK_MESSAGE(hash_tensor(conv(x, w, other)) != seq, other);
  // The same contract in other words.
  CHECK(hash_tensor(conv(x, w, "order=blocks:72")) == seq);
  CHECK(hash_tensor(conv(x, w, "order=lanes:1")) == seq);
  CHECK(hash_tensor(conv(x, w, "walk=c1rs")) == seq);
  for (const int threads : {2, 3, 7}) CHECK(hash_tensor(conv(x, w, "seq", threads)) == seq);
}

TEST_CASE("executor: a row of a batch equals the row alone") {
  const auto graph = small_graph();
  Executor executor(graph, all_kernels(), {.contract = Contract::seq(), .hash_nodes = true});
  NamedTensors in;
  in.emplace("x", noise({3, 3, 8, 8}, 9));
  const Trace all = executor.run(in);
  CHECK(all.nodes.size() == 2);
  CHECK(all.nodes[0].name == "conv1");
  const auto rows = all.outputs[0].second.data<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    NamedTensors one;
    const auto data = in.at("x").data<float>().subspan(i * 192, 192);
    one.emplace("x", Tensor::of<float>({1, 3, 8, 8}, data));
    const Trace row = executor.run(one);
    const auto got = row.outputs[0].second.data<float>();
    CHECK(std::memcmp(got.data(), rows.data() + i * got.size(), got.size_bytes()) == 0);
  }
}

TEST_CASE("executor: what does not fit is refused by name") {
  Executor executor(small_graph(), all_kernels(), {.contract = Contract::seq()});
  NamedTensors in;
  CHECK_THROWS_WITH_AS(executor.run(in), doctest::Contains("input x is not given"), Error);
  in.emplace("x", noise({1, 3, 8, 7}, 9));
  CHECK_THROWS_WITH_AS(executor.run(in),
                       doctest::Contains("expected shape [batch,3,8,8], got [1,3,8,7]"), Error);
  in.clear();
  in.emplace("x", noise({1, 3, 8, 8}, 9));
  in.emplace("z", noise({1}, 9));
  CHECK_THROWS_WITH_AS(executor.run(in), doctest::Contains("no input 'z'"), Error);
  Executor small(small_graph(), all_kernels(),
                 {.contract = Contract::seq(), .memory_limit_bytes = 100});
  in.erase("z");
  CHECK_THROWS_WITH_AS(small.run(in), doctest::Contains("memory"), Error);
}

TEST_CASE("executor: what its extents make too large is refused before anything is computed") {
  auto g = std::make_shared<Graph>();
  ValueId v = g->add_value("x");
  g->inputs.push_back({v, DType::f32, true, {-1}, {"batch"}});
  for (int i = 0; i < 40; ++i) {
    const ValueId twice = g->add_value(fmt::format("x{}", i));
    g->nodes.push_back(
        {fmt::format("twice{}", i), &get_op("concat"), Params(AxisParams{}), {v, v}, {twice}, {}});
    v = twice;
  }
  g->outputs.push_back({v});
  g->finish();
  int computed = 0;
  RunOptions options{.contract = Contract::seq(), .memory_limit_bytes = 1 << 20};
  options.progress = [&](std::size_t, std::size_t) { ++computed; };
  Executor executor(g, all_kernels(), options);
  for (const std::int64_t batch : {1, 4}) {
    NamedTensors in;
    in.emplace("x", noise({batch}, 3));
    const std::string first = batch == 1 ? "node twice18: " : "node twice16: ";
    CHECK_THROWS_WITH_AS(executor.run(in), doctest::Contains(first.c_str()), Error);
    CHECK(computed == 0);
  }
}
