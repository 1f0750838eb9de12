// Claim: where the images of a graph lie, channels first or last, no bit of its outputs shows; at
// any number of threads and samples and on any instruction set, of data on which orders differ. And
// a graph, or a part of it, changes over where that pays by what was measured, nowhere else, and
// its trace is that of the graph that was given.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/graph/builder.h"
#include "engine/graph/channels_last.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/normalization.h"
#include "engine/ops/pool.h"
#include "kernels/kernels.h"
#include "tests/peak_memory.h"
#include "tests/special_noise.h"

using namespace etalon;
using test::special_noise;

namespace {

ConvParams window(std::int64_t stride, std::int64_t pad, std::int64_t groups = 1) {
  ConvParams p;
  p.strides = {stride, stride};
  p.pads_begin = p.pads_end = {pad, pad};
  p.groups = groups;
  return p;
}

// Layers by layer; each is named after what it is and where it stands.
struct Net {
  GraphBuilder b{"net"};
  float share;
  std::uint64_t seed = 100;
  int layers = 0;

  explicit Net(float special) : share(special) {}
  std::string next(std::string_view what) { return std::string(what) + std::to_string(++layers); }
  ValueId weight(const std::string& name, const Shape& shape, float part, bool positive = false) {
    Tensor t = special_noise(shape, ++seed, part);
    if (positive)
      for (float& v : t.mutable_data<float>()) v = std::abs(v);
    return b.constant(name, std::move(t));
  }
  ValueId conv(ValueId x, std::int64_t out, std::int64_t kernel, const ConvParams& params,
               bool bias = false) {
    const std::string name = next("conv");
    std::vector<ValueId> in{
        x, weight(name + ".w", {out, b.dims(x)[1] / params.groups, kernel, kernel}, share * 0.02F)};
    if (bias) in.push_back(weight(name + ".b", {out}, share));
    return b.node("conv", name, in, params);
  }
  ValueId norm(ValueId x) {
    const std::string name = next("norm");
    const Shape channels{b.dims(x)[1]};
    return b.node(
        "batch_norm", name,
        {x, weight(name + ".scale", channels, share), weight(name + ".bias", channels, share),
         weight(name + ".mean", channels, share), weight(name + ".var", channels, share, true)},
        BatchNormParams{});
  }
  ValueId relu(ValueId x) { return b.op("relu", next("relu"), {x}); }
  ValueId separable(ValueId x, std::int64_t out, std::int64_t stride) {
    x = relu(norm(conv(x, b.dims(x)[1], 3, window(stride, 1, b.dims(x)[1]))));
    return relu(norm(conv(x, out, 1, window(1, 0))));
  }
};

// Depthwise layers, a residual sum, a bounded ReLU, a gate of a pooled image, few channels, many;
// `outside` reads an image in the midst of it, which is an output, too.
std::shared_ptr<Graph> separable_net(std::int64_t batch, float share, bool outside = true) {
  Net net(share);
  ValueId x = net.b.input("x", DType::f32, {batch, 3, 30, 26});
  x = net.relu(net.norm(net.conv(x, 20, 3, window(2, 1))));
  for (int i = 0; i < 5; ++i) x = net.separable(x, 20, 1);
  x = net.separable(x, 24, 1);
  x = net.separable(x, 48, 2);
  const ValueId shortcut = x;
  ValueId y = net.norm(net.conv(net.conv(x, 48, 3, window(1, 1, 48), true), 48, 1, window(1, 0)));
  x = net.relu(net.b.op("add", "sum", {y, shortcut}));
  const ValueId middle = x;
  x = net.conv(x, 40, 3, window(1, 1), true);
  x = net.b.node("clip", "bounded", {x}, ClipParams{.low = 0, .high = 6});
  const ValueId gate =
      net.b.op("sigmoid", "gate",
               {net.conv(net.b.op("global_avg_pool", "squeezed", {x}), 40, 1, window(1, 0), true)});
  x = net.b.op("mul", "gated", {x, gate});
  x = net.separable(x, 33, 2);
  x = net.separable(x, 65, 1);
  if (outside) {
    net.b.output(net.b.op("softmax", "beside", {middle}));
    net.b.output(middle);
  }
  x = net.b.op("global_avg_pool", "pooled", {x});
  net.b.output(net.b.op("flatten", "flat", {x}), "y");
  return std::make_shared<Graph>(net.b.finish());
}

// Bottlenecks without a depthwise layer: at 14x14 products of one tap leave lanes idle, at 28x28
// none.
std::shared_ptr<Graph> bottleneck_net(std::int64_t batch, float share) {
  Net net(share);
  ValueId x = net.b.input("x", DType::f32, {batch, 3, 28, 28});
  x = net.relu(net.norm(net.conv(x, 64, 3, window(1, 1))));
  MaxPoolParams pool;
  pool.kernel = {3, 3};
  pool.pads_begin = pool.pads_end = {1, 1};
  x = net.b.node("max_pool", "pool", {x}, pool);
  for (const std::int64_t stride : {1, 2, 1, 1, 1}) {
    const std::int64_t width = stride == 2 ? 512 : net.b.dims(x)[1];
    ValueId y = net.relu(net.norm(net.conv(x, 128, 1, window(1, 0))));
    y = net.relu(net.norm(net.conv(y, 128, 3, window(stride, 1))));
    y = net.norm(net.conv(y, width, 1, window(1, 0)));
    if (stride != 1) x = net.norm(net.conv(x, width, 1, window(stride, 0)));
    x = net.relu(net.b.op("add", net.next("sum"), {y, x}));
  }
  x = net.b.op("global_avg_pool", "pooled", {x});
  net.b.output(net.b.op("flatten", "flat", {x}), "y");
  return std::make_shared<Graph>(net.b.finish());
}

Trace run(const std::shared_ptr<Graph>& g, const NamedTensors& in, RunOptions options) {
  return Executor(g, all_kernels(), std::move(options)).run(in);
}

void check_same(const Trace& got, const Trace& want, const std::string& where) {
  REQUIRE(got.outputs.size() == want.outputs.size());
  for (std::size_t i = 0; i < want.outputs.size(); ++i) {
    const Tensor &a = got.outputs[i].second, &b = want.outputs[i].second;
    CHECK(got.outputs[i].first == want.outputs[i].first);
    CHECK_MESSAGE(a.type() == b.type(), where);
    CHECK_MESSAGE(std::memcmp(a.bytes().data(), b.bytes().data(), b.size_bytes()) == 0, where);
  }
}

std::ptrdiff_t nodes_last(const Trace& trace) {
  return std::ranges::count_if(
      trace.nodes, [](const NodeRecord& r) { return r.kernel.starts_with("conv_channels_last"); });
}

NamedTensors input(const Shape& shape, float share) {
  NamedTensors in;
  in.emplace("x", special_noise(shape, 7, share));
  return in;
}

}  // namespace

TEST_CASE("layout: a graph that lies with its channels last has the same bits") {
  int finite = 0, special = 0;
  for (const std::int64_t batch : {1, 3})
    for (const float share : {0.0F, 0.02F}) {
      const auto g = separable_net(batch, share);
      const NamedTensors in = input({batch, 3, 30, 26}, share);
      const Trace want = run(g, in, {.contract = Contract::seq(), .fuse = false});
      CHECK(nodes_last(want) == 0);
      for (const auto& [name, y] : want.outputs)
        for (const float v : y.data<float>()) ++(std::isfinite(v) ? finite : special);
      for (const Isa isa : {Isa::sse2, Isa::avx2, Isa::avx512, Isa::amx})
        for (const int threads : {1, 2, 3}) {
          if (isa > detect_isa()) continue;
          const Trace got =
              run(g, in, {.contract = Contract::seq(), .isa = isa, .threads = threads});
          const std::string where = "batch=" + std::to_string(batch) +
                                    " special=" + std::to_string(share) +
                                    " threads=" + std::to_string(threads);
          check_same(got, want, where);
          CHECK((nodes_last(got) > 0) == (isa >= Isa::avx2));
        }
    }
  CHECK(finite > 1000);
  CHECK(special > 1000);
}

TEST_CASE("layout: a part of a graph that lies with its channels last has the same bits") {
  int special = 0;
  for (const std::int64_t batch : {1, 2})
    for (const float share : {0.0F, 0.01F}) {
      const auto g = bottleneck_net(batch, share);
      const NamedTensors in = input({batch, 3, 28, 28}, share);
      const Trace want = run(g, in, {.contract = Contract::seq(), .fuse = false});
      for (const auto& [name, y] : want.outputs)
        for (const float v : y.data<float>()) special += std::isfinite(v) ? 0 : 1;
      for (const Isa isa : {Isa::avx2, Isa::avx512})
        for (const int threads : {1, 2, 3}) {
          if (isa > detect_isa() || (test::kKeepsFreed && threads != 2)) continue;
          const Trace got =
              run(g, in, {.contract = Contract::seq(), .isa = isa, .threads = threads});
          check_same(got, want, "batch=" + std::to_string(batch));
          const std::ptrdiff_t last = nodes_last(got);
          CHECK(last > 5);
          CHECK(last < 14);
          CHECK(!got.nodes.front().kernel.starts_with("conv_channels_last"));
        }
    }
  CHECK(special > 100);
}

TEST_CASE("layout: the trace is that of the graph that was given") {
  const auto g = separable_net(1, 0);
  const Trace trace = run(g, input({1, 3, 30, 26}, 0), {.contract = Contract::seq()});
  REQUIRE(trace.nodes.size() == g->nodes.size());
  for (std::size_t i = 0; i < g->nodes.size(); ++i) {
    const NodeRecord& r = trace.nodes[i];
    CHECK(r.name == g->nodes[i].name);
    CHECK(r.op == g->nodes[i].op->name);
    CHECK((r.seconds > 0) == r.fused_into.empty());
    CHECK((r.fused_into.empty() || std::ranges::any_of(trace.nodes, [&](const NodeRecord& head) {
             return head.name == r.fused_into;
           })));
  }
  if (detect_isa() >= Isa::avx2) {
    const auto convolutions = std::ranges::count_if(
        g->nodes, [](const Node& n) { return n.op->name == std::string_view("conv"); });
    CHECK(nodes_last(trace) == convolutions);
  }
}

TEST_CASE("layout: nothing changes over where a value is wanted or another contract asked for") {
  const auto g = separable_net(1, 0);
  const NamedTensors in = input({1, 3, 30, 26}, 0);
  const Contract seq = Contract::seq();
  CHECK(nodes_last(run(g, in, {.contract = seq, .hash_nodes = true})) == 0);
  CHECK(nodes_last(run(g, in, {.contract = seq, .keep_values = true})) == 0);
  CHECK(nodes_last(run(g, in, {.contract = Contract::parse("order=lanes:8")})) == 0);
  CHECK(nodes_last(run(g, in, {.contract = Contract::parse("exact")})) == 0);
}

TEST_CASE("layout: inputs of another type, one executor") {
  Net net(0);
  ValueId x = net.b.input("x", DType::f32, {-1, 8, -1, -1});
  for (int i = 0; i < 3; ++i) x = net.separable(x, 16, 1);
  net.b.output(net.b.op("global_avg_pool", "y", {x}));
  const auto g = std::make_shared<Graph>(net.b.finish());
  Executor executor(g, all_kernels(), {.contract = Contract::seq(), .threads = 2});
  for (const Shape& shape : {Shape{1, 8, 9, 9}, Shape{2, 8, 9, 9}, Shape{1, 8, 20, 7},
                             Shape{1, 8, 9, 9}, Shape{0, 8, 9, 9}}) {
    const NamedTensors in = input(shape, 0);
    check_same(executor.run(in), run(g, in, {.contract = Contract::seq(), .fuse = false}),
               to_string(shape));
  }
}

TEST_CASE("layout: only what outweighs the values that are turned pulls nodes over") {
  const auto known = [](const Graph& g, const Shape& x) {
    std::vector<std::optional<TensorType>> types(g.value_names.size());
    types[static_cast<std::size_t>(g.inputs[0].value)] = TensorType{DType::f32, x};
    for (const auto& [v, t] : g.initializers) types[static_cast<std::size_t>(v)] = t.type();
    for (const Node& node : g.nodes) {
      std::vector<InferInput> in;
      for (const ValueId v : node.inputs)
        in.push_back({*types[static_cast<std::size_t>(v)], nullptr, true});
      types[static_cast<std::size_t>(node.outputs[0])] =
          infer(*node.op, node.params, InferInputs(in))[0];
    }
    return types;
  };
  {
    Net net(0);
    ValueId x = net.b.input("x", DType::f32, {1, 16, 12, 12});
    for (int i = 0; i < 6; ++i) x = net.relu(net.norm(net.conv(x, 16, 3, window(1, 1))));
    net.b.output(x);
    const Graph g = net.b.finish();
    CHECK(!channels_last(g, known(g, {1, 16, 12, 12}), 16));
  }
  for (const int layers : {1, 8, 9}) {
    Net net(0);
    ValueId x = net.b.input("x", DType::f32, {1, 16, 12, 12});
    for (int i = 0; i < layers; ++i) x = net.separable(x, 16, 1);
    net.b.output(x);
    const Graph g = net.b.finish();
    const auto over = channels_last(g, known(g, {1, 16, 12, 12}), 16);
    // What is turned at either end is as large as a depthwise output, and costs four of them.
    REQUIRE(over.has_value() == (layers > 8));
    if (!over) continue;
    CHECK(std::ranges::count(over->turns, true) == 2);
    CHECK(over->graph->nodes.size() == g.nodes.size() + 2);
    CHECK(over->graph->nodes.front().op->name == "transpose");
    // Extents as a file may declare them: eight times their product is no integer of 64 bits.
    const std::int64_t much = std::int64_t{1} << 28;
    CHECK(channels_last(g, known(g, {1, 16, much, much}), 16));
  }
}
