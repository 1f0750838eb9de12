// What Keras 1 and 2.2 alone wrote (tests/fixtures/make_keras_old.py): outputs are those of the
// version that wrote the file, on TensorFlow 1.14.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture, test::notes;

namespace {

void check(const NamedTensors& known, const std::string& name, std::string_view words = "") {
  CAPTURE(name);
  const Model model = open_model(fixture("keras/old_" + name + ".h5"));
  REQUIRE(!model.graph->nodes.empty());
  NamedTensors in;
  for (std::size_t i = 0; i < model.graph->inputs.size(); ++i)
    in.emplace(model.graph->value_name(model.graph->inputs[i].value),
               known.at(name + ":" + std::to_string(i)).share());
  test::check_near(test::run(model, in).outputs.at(0).second, known.at(name + ".0"), 2e-6F);
  if (!words.empty()) CHECK(notes(model, words));
}

}  // namespace

TEST_CASE("keras 1: recurrent layers, branches, and layers that later versions lack") {
  const NamedTensors known = arrays(fixture("keras/old_1.npz"));
  check(known, "recurrent", "Keras 1 keeps the weights of each gate apart");
  check(known, "words");
  check(known, "merged");
  check(known, "line");
  check(known, "separable");
  check(known, "leftovers");
  check(known, "movie");
  check(known, "dilated");
  check(known, "cosine");
  check(known, "product");
}

TEST_CASE("keras 2.2: cuDNN's weights, corners of pixels, states as inputs, channels first") {
  const NamedTensors known = arrays(fixture("keras/old_2.npz"));
  check(known, "cudnn_lstm", "cuDNN's form of a recurrent layer's weights");
  check(known, "cudnn_gru", "cuDNN's form of a recurrent layer's weights");
  check(known, "planes", "Bilinear upsampling takes the corners of pixels");
  check(known, "states");
  check(known, "masked");
  check(known, "first");
}
