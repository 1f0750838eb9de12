// Recurrent layers as each format keeps them: gates, pairs of biases, directions, layers. Outputs
// are those of the frameworks or of an evaluation of their description in f64
// (fixtures/make_mxnet_rnn.py).
#include <doctest/doctest.h>

#include <cmath>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture, test::output;

namespace {

// Largest difference over the size of what was expected.
double distance(const Tensor& got, const Tensor& want) {
  REQUIRE(to_string(got.shape()) == to_string(want.shape()));
  const auto a = got.data<float>(), b = want.data<float>();
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  REQUIRE(size > 0);
  return most / size;
}

}  // namespace

TEST_CASE("recurrent: MXNet's fused RNN, every mode in two layers and directions") {
  const NamedTensors known = arrays(fixture("frameworks/rnn.npz"));
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    CAPTURE(mode);
    const Model model = open_model(fixture("frameworks/rnn_" + mode + "-symbol.json"));
    CHECK(model.format == "mxnet");
    REQUIRE(model.graph->outputs.size() == 2);
    const Trace trace = test::run(model, known.at("x").share());
    const auto& first = model.graph->value_name(model.graph->outputs[0].value);
    const auto& second = model.graph->value_name(model.graph->outputs[1].value);
    CHECK(distance(output(trace, first), known.at(mode)) < 1e-6);
    CHECK(distance(output(trace, second), known.at(mode + ".state")) < 1e-6);
  }
}

// make_openvino_bodies.py: cells in a TensorIterator, backwards and forwards, a Loop and an If.
TEST_CASE("recurrent: OpenVINO's bodies, iterations one behind the other") {
  const NamedTensors known = arrays(fixture("runtimes/bodies.npz"));
  const Model model = open_model(fixture("runtimes/bodies.xml"));
  CHECK(model.format == "openvino");
  const Trace trace = test::run(model, known.at("x").share());
  for (const auto& [given, name] :
       {std::pair{"lstm", "lstm"}, {"gru", "gru"}, {"loop", "loop"}, {"if", "chosen"}}) {
    CAPTURE(given);
    CHECK(distance(output(trace, given), known.at(name)) < 1e-6);
  }
}

// make_ncnn_recurrent.py: a GRU of two directions, then an RNN backwards.
TEST_CASE("recurrent: ncnn's GRU and RNN") {
  const NamedTensors known = arrays(fixture("runtimes/recurrent.npz"));
  const Model model = open_model(fixture("runtimes/recurrent.param"));
  CHECK(model.format == "ncnn");
  const Trace trace = test::run(model, known.at("x").share());
  CHECK(distance(output(trace, "y"), known.at("y")) < 1e-6);
}
