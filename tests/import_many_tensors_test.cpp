// Files of very many small tensors: every tensor arrives, and ten times as many take some ten times
// as long, not a hundred times. How long, and in the formats that are not written here:
//   PYTHON bench/runners/loaders/make_files.py FOLDER many
//   etalon bench FOLDER/many_tensors.* --import
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "engine/core/hash.h"
#include "engine/graph/builder.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

TensorList small_tensors(int count) {
  TensorList list;
  for (int i = 0; i < count; ++i) {
    Tensor t = Tensor::uninitialized(DType::f32, {3, 5});
    for (float& v : t.mutable_data<float>()) v = static_cast<float>(i);
    list.push_back({"layer" + std::to_string(i / 4) + ".part" + std::to_string(i % 4) + ".weight",
                    std::move(t)});
  }
  return list;
}

struct Read {
  double seconds;
  std::string hash;
};
Read read(const std::string& path, std::size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  const Model model = open_model(path);
  HashStream hash;
  for (const auto& [id, tensor] : model.graph->initializers) hash.update(tensor);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  CHECK(model.graph->initializers.size() == count);
  CHECK(model.graph->find_value("layer0.part0.weight") != kAbsent);
  return {spent.count(), to_string(hash.digest())};
}

// Seconds to write a graph whose constants are its outputs, a note each.
double write_outputs(int count) {
  const auto begin = std::chrono::steady_clock::now();
  GraphBuilder g("outputs");
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("y{}", i);
    g.output(g.constant(name + "/value", Tensor::of<float>({}, {static_cast<float>(i)})), name);
    g.note(name + " is a number");
  }
  const Graph graph = g.finish();
  CHECK(std::ssize(graph.outputs) == count);
  CHECK(graph.find_value(fmt::format("y{}", count - 1)) == graph.outputs.back().value);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return spent.count();
}

// A chain of Keras layers, listed from the last to the first.
std::string keras_chain(int count) {
  std::string layers;
  for (int i = count; i-- > 0;)
    layers += fmt::format(
        R"({{"class_name":"ReLU","name":"r{}","config":{{"name":"r{}"}},"inbound_nodes":[[["{}",0,0,{{}}]]]}},)",
        i, i, i == 0 ? "x" : fmt::format("r{}", i - 1));
  return fmt::format(
      R"({{"format":"layers-model","generatedBy":"keras v2.4.0","modelTopology":{{"keras_version":"2.4.0",)"
      R"("backend":"tensorflow","model_config":{{"class_name":"Functional","config":{{"name":"n","layers":[{})"
      R"({{"class_name":"InputLayer","name":"x","config":{{"name":"x","batch_input_shape":[null,2]}},"inbound_nodes":[]}}],)"
      R"("input_layers":[["x",0,0]],"output_layers":[["r{}",0,0]]}}}}}},"weightsManifest":[{{"paths":[],"weights":[]}}]}})",
      layers, count - 1);
}
// A chain of Caffe layers.
std::string caffe_chain(int count) {
  std::string text = "input: \"x\"\ninput_shape { dim: 1 dim: 2 }\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("layer {{ name: \"l{}\" type: \"ReLU\" bottom: \"{}\" top: \"r{}\" }}\n", i,
                        i == 0 ? "x" : fmt::format("r{}", i - 1), i);
  return text;
}
// A sum of one value, many times.
std::string wide_sum(int count) {
  std::string text =
      R"(node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } )"
      R"(attr { key: "shape" value { shape { dim { size: 2 } } } } } node { name: "y" op: "AddN" )";
  for (int i = 0; i < count; ++i) text += "input: \"x\" ";
  return text + fmt::format(R"(attr {{ key: "N" value {{ i: {} }} }} }})", count);
}

double opened(const std::string& path, std::size_t nodes) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(open_model(path).graph->nodes.size() >= nodes);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    least = std::min(least, spent.count());
  }
  return least;
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("many layers: ten times as many open in a time that grows as their number does") {
    const test::TemporaryFolder folder;
    struct Chain {
      const char* ending;
      std::string (*text)(int);
      bool wide;
    };
    for (const Chain& c :
         {Chain{".json", keras_chain, false}, Chain{".prototxt", caffe_chain, false},
          Chain{".pbtxt", wide_sum, true}}) {
      CAPTURE(c.ending);
      const std::string few = folder / (std::string("few") + c.ending),
                        many = folder / (std::string("many") + c.ending);
      test::write_bytes(few, c.text(2'000));
      test::write_bytes(many, c.text(20'000));
      const double a = opened(few, c.wide ? 1 : 2'000), b = opened(many, c.wide ? 1 : 20'000);
      MESSAGE(fmt::format("{}: {:.1f} ms, {:.1f} ms", c.ending, 1e3 * a, 1e3 * b));
      CHECK(b < 40 * a);
    }
  }

  TEST_CASE("many tensors: 100 000 outputs are written in a time that grows as their number does") {
    double few = write_outputs(10'000), many = write_outputs(100'000);
    for (int i = 0; i < 2; ++i) {
      few = std::min(few, write_outputs(10'000));
      many = std::min(many, write_outputs(100'000));
    }
    MESSAGE(fmt::format("10 000: {:.0f} ms, 100 000: {:.0f} ms", 1e3 * few, 1e3 * many));
    CHECK(many < 50 * few);
  }

  TEST_CASE("many tensors: 100 000 of them open in a time that grows as their number does") {
    const test::TemporaryFolder folder;
    const TensorList few = small_tensors(10'000), many = small_tensors(100'000);
    std::string table = "\n| format | 10 000 | 100 000 |\n|---|---|---|\n";
    std::string hash;
    for (const char* ending : {".safetensors", ".npz"}) {
      CAPTURE(ending);
      const std::string small = folder / (std::string("few") + ending),
                        large = folder / (std::string("many") + ending);
      save_tensors(few, small);
      save_tensors(many, large);
      // The quickest of three: others use the machine too.
      Read a = read(small, few.size()), b = read(large, many.size());
      for (int i = 0; i < 2; ++i) {
        a.seconds = std::min(a.seconds, read(small, few.size()).seconds);
        b.seconds = std::min(b.seconds, read(large, many.size()).seconds);
      }
      table +=
          fmt::format("| {} | {:.0f} ms | {:.0f} ms |\n", ending, 1e3 * a.seconds, 1e3 * b.seconds);
      CHECK(b.seconds < 50 * a.seconds);
      CHECK(b.hash != a.hash);
      CHECK((hash.empty() || b.hash == hash));
      hash = b.hash;
    }
    MESSAGE(table);
  }
}
