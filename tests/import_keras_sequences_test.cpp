// Networks of Keras 3 (fixtures/make_keras_sequences.py): masks with holes, states that are handed
// on, cells, layers at every step, attention, functions of keras.ops give Keras' outputs.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::check_near, test::fixture;

namespace {

void check_network(const std::string& name, const std::string& extension = ".keras") {
  static const NamedTensors expected = test::arrays(fixture("keras/more/expected.npz"));
  CAPTURE(name);
  CAPTURE(extension);
  const Model model = open_model(fixture("keras/more/" + name + extension));
  for (const std::string& note : model.notes) CAPTURE(note);
  REQUIRE(model.graph->inputs.size() == 1);
  const Trace trace = test::run(model, expected.at(name + ".x").share());
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    CAPTURE(i);
    check_near(trace.outputs[i].second, expected.at(name + ".y" + std::to_string(i)), 2e-5F);
  }
  CHECK_FALSE(expected.contains(name + ".y" + std::to_string(trace.outputs.size())));
}

}  // namespace

TEST_CASE("keras: recurrent layers keep their state over masked steps, wherever they stand") {
  check_network("masked");
  check_network("masked", ".h5");
  check_network("masking");
  check_network("masked_both");
}

TEST_CASE("keras: states given and taken, cells one by one and stacked") {
  check_network("states");
  check_network("cells");
}

TEST_CASE("keras: a layer or a network at every step, ConvLSTM") {
  check_network("steps");
  check_network("conv_lstm");
  check_network("conv_lstm_line");
}

TEST_CASE("keras: attention of every kind, with masks and in order") {
  check_network("attentions");
  check_network("masked_attention");
  check_network("masked_in_order");
}

TEST_CASE("keras: norms of other axes, equations, pictures, bins") {
  for (const char* name : {"axes", "unit_dot", "deep", "pictures", "bins", "categories"})
    check_network(name);
}

TEST_CASE("keras: functions of keras.ops and elements of tensors") {
  check_network("functions");
  check_network("functions", ".h5");
  check_network("elements");
}
