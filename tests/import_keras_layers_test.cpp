// Networks of Keras 3 (fixtures/make_keras.py): layers of later versions and numbers in calls give
// Keras' outputs; a mask is obeyed, known not to matter, or refused by the layer's name. Then ops
// of a frozen TensorFlow graph.
#include <doctest/doctest.h>

#include <array>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::check_near, test::fixture;

namespace {

const NamedTensors& expected() {
  static const NamedTensors all = test::arrays(fixture("keras/expected.npz"));
  return all;
}

constexpr float kNear = 2e-5F;

}  // namespace

TEST_CASE("keras: layers of Keras 3, numbers in calls, masks that can be had") {
  for (const char* name : {"mask_mean", "mask_ends", "mask_flat", "mask_lstm", "mask_both",
                           "mask_attention", "mask_masking", "numbers", "attention", "causal",
                           "norms", "products", "products2", "products3", "relus"}) {
    CAPTURE(name);
    const Model model = open_model(fixture("keras/" + std::string(name) + ".keras"));
    REQUIRE(model.graph->inputs.size() == 1);
    const Trace trace = test::run(model, expected().at(name + std::string(".x0")).share());
    REQUIRE(trace.outputs.size() == 1);
    check_near(trace.outputs[0].second, expected().at(name + std::string(".y")), kNear);
  }
}

TEST_CASE("keras: a merging layer that leaves masked elements out is refused by its name") {
  const Model model = open_model(fixture("keras/mask_max.keras"));
  CHECK(model.graph->nodes.empty());
  CHECK_FALSE(model.graph->initializers.empty());
  REQUIRE(model.notes.size() == 1);
  CAPTURE(model.notes[0]);
  CHECK(model.notes[0].find("'larger', Maximum") != std::string::npos);
}

TEST_CASE("tensorflow: Erfc, Expm1, Log1p, ReverseV2, Any, All, DivNoNan, TruncateMod") {
  const Model model = open_model(fixture("keras/ops.pb"));
  NamedTensors in;
  for (const char* name : {"x", "y"})
    in.emplace(name, expected().at("ops." + std::string(name)).share());
  const Trace trace = test::run(model, in);
  const std::array names{"all",   "any",   "erfc",     "expm1", "length", "length2",
                         "log1p", "nonan", "quotient", "rest",  "reverse"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    const std::string name = i == 0 ? "Identity" : "Identity_" + std::to_string(i);
    check_near(test::output(trace, name), expected().at("ops.out." + std::string(names[i])), kNear);
  }
}
