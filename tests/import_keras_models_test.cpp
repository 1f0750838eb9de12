// Networks of Keras 2.13 and 3.15 as users put them together (tests/fixtures/make_keras_models.py):
// models in models that are called twice, layers that two models hold, TensorFlow's functions,
// configuration and weights in two files. Outputs are Keras' own.
#include <doctest/doctest.h>

#include "importers/arch.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture, test::notes;

namespace {

std::string file(int version, const std::string& name) {
  return fixture("keras/models_" + std::to_string(version) + "_" + name);
}

// Runs a model on the network's inputs and compares all that Keras gave.
void check(const Model& model, const NamedTensors& known, const std::string& name) {
  CAPTURE(name);
  REQUIRE(!model.graph->nodes.empty());
  NamedTensors in;
  for (std::size_t i = 0; i < model.graph->inputs.size(); ++i)
    in.emplace(model.graph->value_name(model.graph->inputs[i].value),
               known.at(name + ":" + std::to_string(i)).share());
  const auto outputs = test::run(model, in).outputs;
  std::size_t count = 0;
  while (known.contains(name + "." + std::to_string(count))) ++count;
  REQUIRE(count > 0);
  REQUIRE(outputs.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(i);
    const Tensor& want = known.at(name + "." + std::to_string(i));
    if (want.dtype() == DType::f32) {
      test::check_near(outputs[i].second, want, 3e-6F);
    } else if (want.dtype() == DType::f64) {  // Keras gives a number of no axes as one of Python's
      const double got = outputs[i].second.data<float>()[0], number = want.data<double>()[0];
      CHECK(std::fabs(got - number) <= 3e-6 * std::max(1.0, std::fabs(number)));
    } else {
      CHECK(std::ranges::equal(outputs[i].second.bytes(), want.bytes()));
    }
  }
}

Model split(int version, const std::string& weights) {
  return open_model(file(version, "reused.json"), std::vector{file(version, weights)});
}

}  // namespace

TEST_CASE("keras 2: models in models called twice, in every form") {
  const NamedTensors known = arrays(fixture("keras/models_2.npz"));
  check(open_model(file(2, "reused.h5")), known, "reused");
  check(open_model(file(2, "reused.keras")), known, "reused");
  check(open_model(file(2, "recurrent.keras")), known, "recurrent");
}

TEST_CASE("keras 3: models in models called twice, held by two") {
  const NamedTensors known = arrays(fixture("keras/models_3.npz"));
  check(open_model(file(3, "reused.keras")), known, "reused");
  check(open_model(file(3, "shared.keras")), known, "shared");
  check(open_model(file(3, "recurrent.keras")), known, "recurrent");
}

TEST_CASE("keras: a .keras file means what the version that wrote it means") {
  // hard_sigmoid is another function from Keras 3 on; both directions of a layer are two values.
  for (const int version : {2, 3}) {
    CAPTURE(version);
    const NamedTensors known = arrays(fixture("keras/models_" + std::to_string(version) + ".npz"));
    const Model model = open_model(file(version, "both.keras"));
    check(model, known, "both");
    CHECK(notes(model, version == 2 ? "clip(0.2 x + 0.5" : "clip(x/6 + 0.5"));
  }
}

TEST_CASE("keras: configuration and weights in two files") {
  const NamedTensors two = arrays(fixture("keras/models_2.npz")),
                     three = arrays(fixture("keras/models_3.npz"));
  check(split(2, "reused.weights.h5"), two, "reused");
  check(split(2, "reused.listed.h5"), two, "reused");
  check(split(2, "reused.h5"), two, "reused");
  check(split(3, "reused.weights.h5"), three, "reused");
  check(split(2, "reused.ckpt.index"), two, "reused");
  // The weights of one file count before those that stand beside the network.
  check(open_model(file(3, "reused.keras"), std::vector{file(3, "reused.weights.h5")}), three,
        "reused");
  // Beside each other, under one name.
  check(open_model(file(3, "reused.json")), three, "reused");
  for (const std::string& network : {file(3, "reused.json"), file(3, "reused.keras")}) {
    std::vector<Placement> placed;
    const Model model =
        open_with_arch(file(3, "reused.weights.h5"), {}, {.network = network}, placed);
    check(model, three, "reused");
    CHECK(notes(model, "were found by its layers"));
  }
  const Model alone = open_model(file(3, "reused.weights.h5"));
  CHECK(alone.format == "keras");
  CHECK(alone.graph->nodes.empty());
  CHECK(notes(alone, "the network stands in another file"));
  // In the order of the network, not of the alphabet.
  const Model listed = open_model(file(2, "reused.listed.h5"));
  std::vector<std::string> names;
  for (const auto& [id, tensor] : listed.graph->initializers)
    names.push_back(listed.graph->value_name(id));
  REQUIRE(names.size() > 12);
  CHECK(names[0].find("inner/bidirectional/forward") != std::string::npos);
  CHECK(names[12].find("f/dense_1/kernel") != std::string::npos);
  CHECK_THROWS_WITH_AS(open_model(file(2, "reused.json"), std::vector{file(3, "reused.json")}),
                       doctest::Contains("a network without its weights"), Error);
}

TEST_CASE("keras: TensorFlow's functions and keras.ops between layers") {
  check(open_model(file(2, "functions.h5")), arrays(fixture("keras/models_2.npz")), "functions");
  check(open_model(file(3, "functions.keras")), arrays(fixture("keras/models_3.npz")), "functions");
}

TEST_CASE("keras 2: attention whose value is an argument by name") {
  check(open_model(file(2, "attention.h5")), arrays(fixture("keras/models_2.npz")), "attention");
}

TEST_CASE("keras 3: quantised layers are not computed as if they were not") {
  for (const char* mode : {"int8", "float8"}) {
    const Model model = open_model(file(3, std::string(mode) + ".keras"));
    CHECK(model.graph->nodes.empty());
    CHECK(notes(model, "Weights alone: a layer of the policy Quantized"));
  }
}

TEST_CASE("tfjs: layers that TensorFlow.js saved resize by the corners of pixels") {
  const Model model = open_model(fixture("tfjs_layers/model.json"));
  const auto array = [](const char* name) {
    return load_tensors(fixture(std::string("tfjs_layers/") + name)).at(0).tensor.share();
  };
  test::check_near(test::run(model, array("x.npy")).outputs.at(0).second, array("y.npy"), 2e-6F);
  CHECK(notes(model, "takes the corners of pixels"));
}
