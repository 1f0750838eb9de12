// Files of other frameworks: what they mean, on small ones written here by hand; real ones are
// judged by import_real_files_test.cpp.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/containers/flatbuffers.h"
#include "importers/containers/pbjson.h"
#include "importers/containers/pbtree.h"
#include "importers/containers/protobuf.h"
#include "importers/containers/sstable.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture, test::notes, test::values;

namespace {

const Node& node(const Graph& graph, std::string_view name) {
  for (const Node& n : graph.nodes)
    if (n.name == name) return n;
  throw bad_input("no node {}", name);
}

int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node& node : graph.nodes) n += node.op->name == op ? 1 : 0;
  return n;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("GraphBuilder: transposes cancel, fold into constants, and dead nodes go") {
  GraphBuilder g("g");
  const ValueId x = g.input("x", DType::f32, {-1, 4, 4, 3});
  const ValueId w = g.constant("w", Tensor::zeros(DType::f32, {5, 3, 1, 1}));
  ValueId y = g.channels_last(g.op("conv", "c1", {g.channels_first(x), w}));
  y = g.elementwise("relu", "r", {y});
  y = g.elementwise("add", "b", {y, g.constant("bias", Tensor::zeros(DType::f32, {5}))});
  CHECK(g.shape(y) == Shape{1, 4, 4, 5});
  CHECK(g.dims(y) == Ints{-1, 4, 4, 5});
  const ValueId w2 = g.constant("w2", Tensor::zeros(DType::f32, {2, 5, 1, 1}));
  y = g.channels_last(g.op("conv", "c2", {g.channels_first(y), w2}));
  g.op("exp", "unused", {y});
  g.output(y, "y");
  const Graph graph = g.finish();
  CHECK(count(graph, "transpose") == 2);
  CHECK(count(graph, "exp") == 0);
  CHECK(graph.value_name(graph.outputs[0].value) == "y");
}

TEST_CASE("Caffe: layers in place, phases, ceil, counted padding") {
  const Model model = open_model(fixture("frameworks/small.prototxt"));
  const Graph& graph = *model.graph;
  CHECK(model.format == "caffe");
  CHECK(model.version == "V2");
  REQUIRE(graph.outputs.size() == 1);
  CHECK(graph.value_name(graph.outputs[0].value) == "prob");
  CHECK(count(graph, "identity") == 0);  // the training layer is left out
  const std::string pool = to_string(node(graph, "pool").params);
  CHECK(pool.find("ceil_mode=true") != std::string::npos);
  CHECK(pool.find("count_include_pad=true") != std::string::npos);
  CHECK(notes(model, "divides by the window's elements inside input and padding"));
  CHECK(notes(model, "alpha is divided by the window's size"));
  // 6 + 2 - 3 = 5 steps of 2, rounded up: four windows, where rounding down gives three.
  CHECK(graph.outputs[0].dims == Ints{-1, 2, 4, 4});
  const std::vector<float> y = values(test::run(model, Tensor::zeros(DType::f32, {1, 2, 6, 6})));
  CHECK(y.size() == 32);
  CHECK(y[0] == 0.5F);
}

TEST_CASE("TensorFlow: SAME pads at the end, a function is inlined, weights are turned") {
  const Model model = open_model(fixture("frameworks/small.pbtxt"));
  const Graph& graph = *model.graph;
  CHECK(model.format == "tensorflow");
  CHECK(graph.outputs[0].dims == Ints{-1, 9});
  CHECK(notes(model, "the odd element of the padding"));
  CHECK(notes(model, "function calls are inlined"));
  Tensor x = Tensor::uninitialized(DType::f32, {1, 6, 6, 2});
  float v = 0;
  for (float& e : x.mutable_data<float>()) e = v++;
  // By hand: one element of padding, behind; so window (0, 0) holds three rows and columns whole,
  // whose sum is 261.
  const std::vector<float> y = values(test::run(model, std::move(x)));
  REQUIRE(y.size() == 9);
  CHECK(y[0] == 131.5F);
}

TEST_CASE("text protobufs: errors name the line; nesting has an end") {
  const PbSchema schema("Msg a 1 i m 2 Msg s 3 s f 4 f\n");
  const PbMessage m =
      PbMessage::from_text(schema.type("Msg"), "a: 7 unknown { b: 1 } m < s: 'x\\n' > f: 1e-3");
  CHECK(m.integer("a") == 7);
  CHECK(m.message("m").text("s") == "x\n");
  CHECK(m.number("f") == 1e-3F);
  CHECK_THROWS_WITH_AS(PbMessage::from_text(schema.type("Msg"), "a: 1\n}"),
                       doctest::Contains("line 2"), Error);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "m {";
  CHECK_THROWS_WITH_AS(PbMessage::from_text(schema.type("Msg"), deep),
                       doctest::Contains("nest deeper"), Error);
}

TEST_CASE("sorted tables and Snappy: what is damaged is refused") {
  // Literal of 4 bytes, then a copy of 8 from 4 behind.
  const std::string packed(
      "\x0c\x0c"
      "abcd"
      "\x11\x04",
      8);
  CHECK(snappy_decompress(bytes_of(packed)) == "abcdabcdabcd");
  CHECK_THROWS_AS(snappy_decompress(bytes_of(std::string("\x0c\x0c"
                                                         "abcd\x11\x05",
                                                         8))),
                  Error);
  CHECK_THROWS_AS(snappy_decompress(bytes_of(std::string("\xff\xff\xff\x7f\x00", 5))), Error);
  const std::string text(64, 'x');
  CHECK_THROWS_WITH_AS(read_sstable({bytes_of(text), nullptr}),
                       doctest::Contains("no sorted table"), Error);
}

TEST_CASE("FlatBuffers: offsets beyond the file are refused") {
  for (const std::uint32_t root : {4U, 60U, 0xfffffff0U}) {
    std::string file(64, '\0');
    std::memcpy(file.data(), &root, 4);
    std::memcpy(file.data() + 4, "TFL3", 4);
    const test::TemporaryFolder folder;
    test::write_bytes(folder / "m.tflite", file);
    CHECK_THROWS_AS(open_model(folder / "m.tflite"), Error);
  }
}

TEST_CASE("Darknet: weights in sequence, the epsilon stands outside the root") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.cfg",
                    "[net]\nchannels=1\nheight=2\nwidth=2\n[convolutional]\nfilters=1\nsize=1\n"
                    "batch_normalize=1\nactivation=linear\n");
  std::string weights(20, '\0');
  weights[4] = 2;                                       // version 0.2: the counter has 8 bytes
  for (const float v : {1.0F, 2.0F, 3.0F, 4.0F, 5.0F})  // bias, scale, mean, variance, weight
    weights.append(reinterpret_cast<const char*>(&v), 4);
  test::write_bytes(folder / "m.weights", weights);
  for (const char* name : {"m.cfg", "m.weights"}) {
    const Model model = open_model(folder / name);
    CHECK(notes(model, "sqrt(variance) + 1e-6"));
    Tensor x = Tensor::of<float>({1, 1, 2, 2}, {1, 1, 1, 1});
    const std::vector<float> y = values(test::run(model, std::move(x)));
    CHECK(y[0] < 3.0F);  // (5 - 3) / (2 + 1e-6) * 2 + 1
    CHECK(y[0] > 2.99999F);
  }
  weights.resize(weights.size() - 1);
  test::write_bytes(folder / "m.weights", weights);
  CHECK_THROWS_WITH_AS(open_model(folder / "m.cfg"), doctest::Contains("weights end before"),
                       Error);
}

TEST_CASE("Torch7: an ascii tensor; what refers to itself ends") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "t.t7",
                    "4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n2\n1\n1\n4\n2\n3\nV 1\n18\n"
                    "torch.FloatStorage\n2\n1.5 2.5\n");
  const TensorList list = load_tensors(folder / "t.t7");
  REQUIRE(list.size() == 1);
  CHECK(list[0].tensor.data<float>()[1] == 2.5F);
  // A table whose one value is the table.
  test::write_bytes(folder / "loop.t7", "3\n1\n1\n1\n1\n3\n1\n");
  CHECK(load_tensors(folder / "loop.t7").empty());
  test::write_bytes(folder / "cut.t7", "3\n1\n900000000\n");
  CHECK_THROWS_WITH_AS(open_model(folder / "cut.t7"), doctest::Contains("longer than the file"),
                       Error);
}

TEST_CASE("TensorFlow.js: shards lie in the model's own folder") {
  CHECK(base64_decode("U0FNRQ==") == "SAME");
  CHECK_THROWS_AS(base64_decode("{}"), Error);
  const test::TemporaryFolder folder;
  for (const char* path : {"../w.bin", "/w.bin"}) {
    test::write_bytes(folder / "m.json",
                      std::string("[{\"paths\": [\"") + path + "\"], \"weights\": []}]");
    CHECK_THROWS_WITH_AS(open_model(folder / "m.json"), doctest::Contains("its own folder"), Error);
  }
  const float w[] = {1, 2};
  test::write_bytes(folder / "w.bin",
                    std::string(reinterpret_cast<const char*>(w), 8) + "\x02\x03");
  test::write_bytes(folder / "m.json",
                    R"([{"paths": ["w.bin"], "weights": [
      {"name": "a", "shape": [2], "dtype": "float32"},
      {"name": "b", "shape": [2], "dtype": "float32",
       "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1}}]}])");
  const TensorList list = load_tensors(folder / "m.json");
  REQUIRE(list.size() == 2);
  CHECK(list[0].tensor.data<float>()[1] == 2.0F);
  CHECK(list[1].tensor.data<float>()[0] == 0.0F);
  CHECK(list[1].tensor.data<float>()[1] == 0.5F);
}

TEST_CASE("Core ML: a neural network's layers; an ML program is refused by name") {
  const auto field = [](std::uint32_t number, const std::string& payload) {
    std::string out;
    put_length(out, number, payload.size());
    return out + payload;
  };
  const auto array = [&](const std::string& name, const std::string& shape) {
    return field(1, name) + field(3, field(5, shape));
  };
  const std::string head =
      "\x08\x04" + field(2, field(1, array("x", "\x08\x04")) + field(10, array("y", "\x08\x04")));
  const test::TemporaryFolder folder;
  test::write_bytes(
      folder / "m.mlmodel",
      head + field(500, field(1, field(1, "s") + field(2, "x") + field(3, "y") + field(175, ""))));
  const Model model = open_model(folder / "m.mlmodel");
  CHECK(model.graph->outputs[0].dims == Ints{-1, 4});
  CHECK(values(test::run(model, Tensor::zeros(DType::f32, {1, 4})))[3] == 0.25F);
  test::write_bytes(folder / "p.mlmodel", head + field(502, ""));
  CHECK_THROWS_WITH_AS(open_model(folder / "p.mlmodel"), doctest::Contains("an ML program"), Error);
}
