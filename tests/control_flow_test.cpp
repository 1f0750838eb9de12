// if, loop and scan: nested, with values taken from around them, with limits that hold, and through
// the formats that can say them.
#include "engine/graph/control_flow.h"

#include <doctest/doctest.h>

#include "engine/graph/executor.h"
#include "engine/ops/control.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"
#include "tests/small_graph.h"

using namespace etalon;
using test::declared;
using test::node;

namespace {

// y = then ? x + x : x * step, both of which x and step come from outside.
std::shared_ptr<Graph> branch(const char* op, const char* a, const char* b) {
  auto g = std::make_shared<Graph>();
  node(*g, op, {a, b}, {"z"});
  g->outputs.push_back(declared(*g, "z"));
  g->finish();
  return g;
}

// Carried v; each iteration v = even ? v + v : v * step, scanned out; goes on while v < bound.
Model loop_model() {
  Model m;
  Graph& g = *m.graph;
  g.inputs.push_back(declared(g, "v0"));
  g.inputs.push_back(declared(g, "step"));
  g.inputs.push_back(declared(g, "count", DType::i64));
  auto body = std::make_shared<Graph>();
  body->inputs = {declared(*body, "i", DType::i64), declared(*body, "go", DType::boolean),
                  declared(*body, "v")};
  body->initializers.emplace(body->add_value("two"), Tensor::of<std::int64_t>({}, {2}));
  body->initializers.emplace(body->add_value("zero"), Tensor::of<std::int64_t>({}, {0}));
  body->initializers.emplace(body->add_value("bound"), Tensor::of<float>({}, {100.0F}));
  node(*body, "mod", {"i", "two"}, {"odd"});
  node(*body, "equal", {"odd", "zero"}, {"even"});
  node(*body, "if", {"even"}, {"next"}, {}, {branch("add", "v", "v"), branch("mul", "v", "step")});
  node(*body, "less", {"next", "bound"}, {"again"});
  node(*body, "identity", {"next"}, {"seen"});
  body->outputs = {declared(*body, "again", DType::boolean), declared(*body, "next"),
                   declared(*body, "seen")};
  body->finish();
  CHECK(captured_names(*body) == std::vector<std::string>{"step"});
  node(g, "loop", {"count", "", "v0"}, {"last", "all"}, {}, {body});
  g.outputs = {declared(g, "last"), declared(g, "all")};
  g.finish();
  return m;
}

NamedTensors loop_inputs(std::int64_t count) {
  NamedTensors in;
  in.emplace("v0", Tensor::of<float>({}, {1.0F}));
  in.emplace("step", Tensor::of<float>({}, {5.0F}));
  in.emplace("count", Tensor::of<std::int64_t>({}, {count}));
  return in;
}

void check_loop(const Model& m) {
  Executor executor(m.graph, all_kernels(), {});
  for (int run = 0; run < 2; ++run) {
    const Trace t = executor.run(loop_inputs(3));
    // 1 -> 2 -> 10 -> 20
    CHECK(t.outputs[0].second.data<float>()[0] == 20.0F);
    REQUIRE(t.outputs[1].second.shape() == Shape{3});
    CHECK(t.outputs[1].second.data<float>()[1] == 10.0F);
    // The loop, and the nodes inside it, and those inside the branches that ran.
    REQUIRE(t.nodes.size() > 5);
    CHECK(t.nodes[0].op == "loop");
    CHECK(t.nodes[1].name.starts_with(t.nodes[0].name + "/"));
  }
  // 20 -> 100: not below the bound, so that the fifth iteration does not run.
  const Trace stopped = executor.run(loop_inputs(99));
  CHECK(stopped.outputs[0].second.data<float>()[0] == 100.0F);
  CHECK(stopped.outputs[1].second.shape() == Shape{4});
  const Trace none = executor.run(loop_inputs(0));
  CHECK(none.outputs[0].second.data<float>()[0] == 1.0F);
  CHECK(none.outputs[1].second.shape() == Shape{0});
}

std::string said(const Graph& g, const NamedTensors& in, RunOptions options = {}) {
  try {
    auto shared = std::shared_ptr<const Graph>(std::shared_ptr<void>(), &g);
    Executor(shared, all_kernels(), options).run(in);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("control flow: a loop with branches that read what is around them") {
  check_loop(loop_model());
}

TEST_CASE("control flow: comes back from ONNX and from neutral JSON") {
  const test::TemporaryFolder folder;
  for (const char* file : {"loop.onnx", "loop.json"}) {
    CAPTURE(file);
    save_model(loop_model(), folder / file);
    check_loop(open_model(folder / file));
  }
}

TEST_CASE("control flow: scan takes slices from either end, along any axis") {
  Graph g;
  g.inputs.push_back(declared(g, "s0"));
  g.inputs.push_back(declared(g, "x"));
  auto body = std::make_shared<Graph>();
  body->inputs = {declared(*body, "s"), declared(*body, "slice")};
  node(*body, "add", {"s", "slice"}, {"sum"});
  node(*body, "identity", {"sum"}, {"seen"});
  body->outputs = {declared(*body, "sum"), declared(*body, "seen")};
  body->finish();
  ScanParams p;
  p.scan_inputs = 1;
  p.input_axes = {-1};
  p.input_directions = {1};
  p.output_axes = {1};
  p.output_directions = {1};
  node(g, "scan", {"s0", "x"}, {"last", "all"}, p, {body});
  g.outputs = {declared(g, "last"), declared(g, "all")};
  g.finish();
  NamedTensors in;
  in.emplace("s0", Tensor::of<float>({2}, {0.0F, 100.0F}));
  in.emplace("x", Tensor::of<float>({2, 3}, {1, 2, 4, 10, 20, 40}));
  auto shared = std::shared_ptr<const Graph>(std::shared_ptr<void>(), &g);
  const Trace t = Executor(shared, all_kernels(), {}).run(in);
  CHECK(t.outputs[0].second.data<float>()[1] == 170.0F);
  REQUIRE(t.outputs[1].second.shape() == Shape{2, 3});
  const auto all = t.outputs[1].second.data<float>();
  // 4, 6, 7 and 140, 160, 170, stacked from the end.
  const float want[] = {7, 6, 4, 170, 160, 140};
  for (std::size_t i = 0; i < 6; ++i) CHECK(all[i] == want[i]);
}

TEST_CASE("control flow: what grows without end is refused") {
  Graph g;
  g.inputs.push_back(declared(g, "x"));
  auto body = std::make_shared<Graph>();
  body->inputs = {declared(*body, "i", DType::i64), declared(*body, "go", DType::boolean),
                  declared(*body, "v")};
  node(*body, "concat", {"v", "v"}, {"w"});
  body->outputs = {declared(*body, "go", DType::boolean), declared(*body, "w")};
  body->finish();
  node(g, "loop", {"", "", "x"}, {"y"}, {}, {body});
  g.outputs = {declared(g, "y")};
  g.finish();
  NamedTensors in;
  in.emplace("x", Tensor::of<float>({4}, {1, 2, 3, 4}));
  RunOptions options;
  options.memory_limit_bytes = 1 << 20;
  CHECK(said(g, in, options).find("beyond the limit") != std::string::npos);
}

TEST_CASE("control flow: what a loop or a scan collects counts against the limit") {
  NamedTensors in;
  in.emplace("x", Tensor::of<float>({4}, {1, 2, 3, 4}));
  RunOptions options;
  options.memory_limit_bytes = 1 << 16;
  Graph looping;
  looping.inputs.push_back(declared(looping, "x"));
  auto body = std::make_shared<Graph>();
  body->inputs = {declared(*body, "i", DType::i64), declared(*body, "go", DType::boolean),
                  declared(*body, "v")};
  node(*body, "identity", {"v"}, {"w"});
  node(*body, "identity", {"v"}, {"seen"});
  body->outputs = {declared(*body, "go", DType::boolean), declared(*body, "w"),
                   declared(*body, "seen")};
  body->finish();
  node(looping, "loop", {"", "", "x"}, {"y", "all"}, {}, {body});
  looping.outputs = {declared(looping, "all")};
  looping.finish();
  CHECK(said(looping, in, options).find("beyond the limit") != std::string::npos);

  // Each of 4 slices gives 4096 numbers, and 4 times 16384 bytes stand beside their stack.
  Graph scanning;
  scanning.inputs.push_back(declared(scanning, "x"));
  body = std::make_shared<Graph>();
  body->inputs = {declared(*body, "v")};
  body->initializers.emplace(body->add_value("many"), Tensor::zeros(DType::f32, {4096}));
  node(*body, "add", {"v", "many"}, {"w"});
  body->outputs = {declared(*body, "w")};
  body->finish();
  ScanParams params;
  params.scan_inputs = 1;
  node(scanning, "scan", {"x"}, {"all"}, params, {body});
  scanning.outputs = {declared(scanning, "all")};
  scanning.finish();
  options.memory_limit_bytes = 5 * 16384;
  CHECK(said(scanning, in, options).find("beyond the limit") != std::string::npos);
  options.memory_limit_bytes = 8 * 16384;
  CHECK(said(scanning, in, options).empty());
}
