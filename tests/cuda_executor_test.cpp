// A network on the device (kernels/backends/cuda/executor.h), over a device made of host code:
// placing, memory, copies, sequence, graphs, and every failure.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "engine/graph/builder.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/host_device.h"
#include "tests/noise.h"

using namespace etalon;
using test::noise;

namespace {

const Registry& both() {
  static const Registry registry = [] {
    Registry r;
    r.add(cuda::rows());
    for (const KernelRow* row : all_kernels().all())
      if (row->device == Device::cpu) r.add({row, 1});
    return r;
  }();
  return registry;
}

// Convolutions, a pool, shapes as data, and every way to move elements; indices are an input.
std::shared_ptr<const Graph> network() {
  GraphBuilder b("net");
  const ValueId x = b.input("x", DType::f32, {2, 3, 8, 8});
  const ValueId rows = b.input("rows", DType::i64, {3});
  const ValueId c1 = b.op(
      "conv", "c1", {x, b.constant("w1", noise({4, 3, 3, 3}, 1)), b.constant("b1", noise({4}, 2))},
      {{"pads_begin", Ints{1, 1}}, {"pads_end", Ints{1, 1}}});
  const ValueId r1 = b.op("relu", "r1", {c1});
  const ValueId c2 = b.op("conv", "c2", {x, b.constant("w2", noise({2, 3, 1, 1}, 3))});
  const ValueId both_ways = b.op("concat", "cat", {r1, c2}, {{"axis", std::int64_t{1}}});
  const ValueId pool =
      b.op("max_pool", "pool", {both_ways}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const ValueId pad =
      b.op("pad", "pad", {pool}, {{"pads", Ints{0, 0, 0, 1, 0, 0, 0, 0}}, {"value", 2.5F}});
  const ValueId turned = b.op("transpose", "turn", {pad}, {{"perm", Ints{0, 2, 3, 1}}});
  // [2, 4, 5, 6] to [2, 4, 30] by the tensor's own extents.
  const ValueId extents = b.op("shape", "extents", {turned});
  const ValueId two = b.op("slice", "two", {extents}, {{"starts", Ints{0}}, {"ends", Ints{2}}});
  const ValueId shape =
      b.op("concat", "to", {two, b.constant("rest", Tensor::of<std::int64_t>({1}, {-1}))},
           {{"axis", std::int64_t{0}}});
  const ValueId flat = b.op("reshape", "flat", {turned, shape});
  const ValueId some = b.op("gather", "some", {flat, rows}, {{"axis", std::int64_t{1}}});
  const ValueId line = b.op("flatten", "line", {some});
  const ValueId dense = b.op("gemm", "dense", {line, b.constant("w3", noise({90, 5}, 4))});
  b.output(b.op("softmax", "soft", {dense}), "y");
  b.output(b.op("tanh", "squashed", {dense}), "z");
  return std::make_shared<Graph>(b.finish());
}

NamedTensors inputs(std::uint64_t seed, std::int64_t row = 1) {
  NamedTensors in;
  in.emplace("x", noise({2, 3, 8, 8}, seed));
  in.emplace("rows", Tensor::of<std::int64_t>({3}, {0, row, -1}));
  return in;
}

void check_same(const Trace& got, const Trace& want) {
  REQUIRE(got.outputs.size() == want.outputs.size());
  for (std::size_t i = 0; i < want.outputs.size(); ++i) {
    CHECK(got.outputs[i].first == want.outputs[i].first);
    CHECK(hash_tensor(got.outputs[i].second) == hash_tensor(want.outputs[i].second));
  }
}

Trace on_cpu(const NamedTensors& in, const char* contract) {
  Executor executor(network(), all_kernels(),
                    {.contract = Contract::parse(contract), .hash_nodes = true});
  return executor.run(in);
}

}  // namespace

TEST_CASE("a network on the device: floats made of the integers given are a run's work") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  GraphBuilder b("words");
  const ValueId ids = b.input("ids", DType::i64, {4});
  const ValueId words = b.op("gather", "words", {b.constant("table", noise({9, 6}, 5)), ids});
  const ValueId count = b.op("cast", "count", {ids}, {{"to", std::string("f32")}});
  const ValueId column =
      b.op("reshape", "column", {count, b.constant("to", Tensor::of<std::int64_t>({2}, {4, 1}))});
  b.output(b.op("mul", "scaled", {words, column}), "y");
  const auto graph = std::make_shared<const Graph>(b.finish());
  const RunOptions options{.contract = Contract::seq()};
  cuda::DeviceExecutor executor(graph, both(), options);
  for (const std::int64_t last : {3, 3, 8}) {
    NamedTensors in;
    in.emplace("ids", Tensor::of<std::int64_t>({4}, {1, 7, 0, last}));
    const Trace want = Executor(graph, both(), options).run(in);
    const Trace got = executor.run(in, true);
    check_same(got, want);
    for (const NodeRecord& n : got.nodes)
      CHECK((n.kernel.find("cuda") != n.kernel.npos) == (n.name != "count"));
  }
}

TEST_CASE("a network on a device: the CPU's hashes, node by node and as one graph") {
  for (const char* contract : {"seq", "exact"}) {
    CAPTURE(std::string(contract));
    HostDevice host;
    const cuda::UseApi use(host.api);
    RunOptions options{.contract = Contract::parse(contract), .hash_nodes = true};
    const Trace want = on_cpu(inputs(11), contract);
    {
      cuda::DeviceExecutor executor(network(), both(), options);
      const Trace got = executor.run(inputs(11));
      check_same(got, want);
      REQUIRE(got.nodes.size() == want.nodes.size());
      std::size_t on_device = 0;
      for (std::size_t i = 0; i < want.nodes.size(); ++i) {
        CAPTURE(want.nodes[i].name);
        CHECK(got.nodes[i].name == want.nodes[i].name);
        CHECK(got.nodes[i].hashes == want.nodes[i].hashes);
        on_device += got.nodes[i].kernel.find("cuda") != std::string_view::npos;
      }
      CHECK(on_device == want.nodes.size() - 3);  // extents, two, to: integers
      // Values share memory: less than one block for each.
      CHECK(executor.value_bytes() < 12 * 2048);
    }
    options.hash_nodes = false;
    cuda::DeviceExecutor executor(network(), both(), options);
    check_same(executor.run(inputs(11)), want);
    CHECK(!executor.launched_graph());
    const std::int64_t launches = host.launches;
    check_same(executor.run(inputs(11)), want);
    CHECK(host.graph_launches == 1);
    check_same(executor.run(inputs(12)), on_cpu(inputs(12), contract));
    if (executor.launched_graph()) {
      CHECK(host.launches - launches == launches / 2);  // written down once, then only launched
      CHECK(host.graph_launches == 2);
      CHECK(executor.launch_again() > 0);  // for benchmarks
      CHECK(host.graph_launches == 3);
    }
    // Other indices: another plan.
    check_same(executor.run(inputs(12, 2)), on_cpu(inputs(12, 2), contract));
    CHECK(!executor.launched_graph());
  }
}

TEST_CASE("a network on a device: what it leaves undecided, the host settles") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  GraphBuilder b("sum");
  const ValueId x = b.input("x", DType::f32, {4});
  b.output(b.op("relu", "after", {b.op("reduce_sum", "sum", {x}, {{"axes", Ints{0}}})}), "y");
  const auto graph = std::make_shared<Graph>(b.finish());
  const RunOptions options{.contract = Contract::exact_preset()};
  cuda::DeviceExecutor executor(graph, both(), options);
  Executor cpu(graph, all_kernels(), options);
  const auto given = [](float tiny) {
    NamedTensors in;
    in.emplace("x", Tensor::of<float>({4}, {0x1p+100F, 1, tiny, -0x1p+100F}));
    return in;
  };
  const NamedTensors decided = given(0.25F), tie = given(0x1p-24F);
  check_same(executor.run(tie), cpu.run(tie));
  check_same(executor.run(decided), cpu.run(decided));  // the first launch of the graph
  check_same(executor.run(tie), cpu.run(tie));          // which leaves this one undecided
  CHECK(!executor.launched_graph());
  CHECK(host.graph_launches >= 1);
  check_same(executor.run(tie), cpu.run(tie));
}

namespace {

// relu, then by the CPU the largest and a branch that asks for it, then the device again: the
// branch takes r from around it, and the largest's place is an index on the device.
std::shared_ptr<const Graph> mixed() {
  const auto value = [](Graph& g, const char* name) {
    const ValueId known = g.find_value(name);
    return known == kAbsent ? g.add_value(name) : known;
  };
  const auto node = [&](Graph& g, const char* op, std::vector<const char*> in,
                        std::vector<const char*> out,
                        std::vector<std::shared_ptr<const Graph>> bodies = {}) {
    const OpRow& row = get_op(op);
    std::vector<ValueId> from, to;
    for (const char* n : in) from.push_back(value(g, n));
    for (const char* n : out) to.push_back(value(g, n));
    g.nodes.push_back({out[0], &row, row.defaults(), from, to, std::move(bodies)});
  };
  const auto output = [&](Graph& g, const char* name) {
    g.outputs.push_back({.value = value(g, name), .ranked = false});
  };
  const auto body = [&](const char* op) {
    auto b = std::make_shared<Graph>();
    node(*b, op, {"r", "r"}, {"inside"});
    output(*b, "inside");
    b->finish();
    return b;
  };
  auto g = std::make_shared<Graph>();
  g->inputs.push_back({.value = value(*g, "x"), .ranked = false});
  g->initializers.emplace(value(*g, "bound"), Tensor::of<float>({1}, {3.0F}));
  node(*g, "relu", {"x"}, {"r"});
  node(*g, "tanh", {"r"}, {"t"});
  node(*g, "top_k", {"r"}, {"largest", "place"});
  node(*g, "less", {"largest", "bound"}, {"small"});
  node(*g, "if", {"small"}, {"chosen"}, {body("add"), body("mul")});
  node(*g, "gather", {"t", "place"}, {"at"});
  node(*g, "sub", {"chosen", "at"}, {"y"});
  output(*g, "y");
  output(*g, "place");
  g->finish();
  return g;
}

}  // namespace

TEST_CASE("a network on a device: nodes that belong to the host, from one run to the next") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const RunOptions options{.contract = Contract::seq(), .hash_nodes = true};
  cuda::DeviceExecutor executor(mixed(), both(), options);
  Executor cpu(mixed(), all_kernels(), options);
  for (const float last : {2.5F, 7.25F, -1.0F}) {
    CAPTURE(last);
    NamedTensors in;
    in.emplace("x", Tensor::of<float>({5}, {0.5F, -4, 1.25F, 0, last}));
    const Trace got = executor.run(in), want = cpu.run(in);
    check_same(got, want);
    REQUIRE(got.nodes.size() == want.nodes.size());
    for (std::size_t i = 0; i < want.nodes.size(); ++i) {
      const std::string_view op = want.nodes[i].op;
      CAPTURE(want.nodes[i].name);
      CHECK(got.nodes[i].name == want.nodes[i].name);
      CHECK(got.nodes[i].hashes == want.nodes[i].hashes);
      // The trace says where a node ran.
      const bool inside = got.nodes[i].name.find('/') != std::string::npos;
      const bool on_device =
          !inside && op != "top_k" && op != "less" && op != "if" && op != "control";
      CHECK((got.nodes[i].kernel.find("cuda") != std::string_view::npos) == on_device);
    }
    CHECK(!executor.launched_graph());
  }
}

TEST_CASE("a network on a device: memory that runs out anywhere, and then comes back") {
  const NamedTensors in = inputs(5);
  const Trace want = on_cpu(in, "seq");
  HostDevice host;
  const cuda::UseApi use(host.api);
  {
    cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::seq()});
    check_same(executor.run(in), want);
  }
  const std::size_t needed = host.peak;
  int refused = 0;
  for (std::size_t room = 0; room < needed; room += 6144) {
    cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::seq()});
    // The pool's blocks count as room that is used.
    const cuda::UseApi fresh(host.api);
    host.room = room;
    try {
      executor.run(in);
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      ++refused;
      CHECK(e.kind() == ErrorKind::missing);
      CHECK(std::string(e.what()).find("the device is out of memory") != std::string::npos);
    }
    host.room = std::size_t{8} << 30;
    check_same(executor.run(in), want);
  }
  CHECK(refused > 4);
}

TEST_CASE("a network on a device: a device that is lost at any call") {
  const NamedTensors in = inputs(6);
  const Hash128 before = hash_tensor(in.at("x"));
  const Trace want = on_cpu(in, "seq");
  HostDevice host;
  const cuda::UseApi use(host.api);
  std::int64_t calls = 0;
  {
    cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::seq()});
    for (int run = 0; run < 3; ++run) executor.run(in);
    calls = host.calls;
  }
  CHECK(calls > 40);
  for (std::int64_t at = 0; at < calls; at += 9) {
    CAPTURE(at);
    const cuda::UseApi fresh(host.api);
    cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::seq()});
    host.calls = 0;
    host.fail_at = at;
    try {
      for (int run = 0; run < 3; ++run) executor.run(in);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::missing);
      const std::string text = e.what();
      CHECK(text.find("the device is lost") != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
    host.fail_at = -1;
    CHECK(hash_tensor(in.at("x")) == before);
    check_same(executor.run(in), want);
  }
}

TEST_CASE("a network on a device: a machine that cannot says why, in a sentence") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const auto says = [&](const char* words) {
    cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::seq()});
    try {
      executor.run(inputs(7));
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::missing);
      CHECK_MESSAGE(std::string(e.what()).find(words) != std::string::npos, e.what());
    }
  };
  host.count_code = 35;
  says("no NVIDIA driver here, or one older than CUDA 13 needs");
  host.count_code = 0;
  host.count = 0;
  says("no CUDA device in this machine");
  host.count = 1;
  host.facts.name = "Tesla V100";
  host.facts.major = 7;
  says("Tesla V100 is sm_70, this program has code for sm_80 and newer");
  host.facts.major = 9;
  // A contract that no kernel of the device offers is no missing device: the refusals are listed.
  cuda::DeviceExecutor executor(network(), both(), {.contract = Contract::parse("order=lanes:8")});
  CHECK_THROWS_WITH_AS(executor.run(inputs(7)), doctest::Contains("node c1"), Error);
}
