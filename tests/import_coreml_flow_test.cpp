// What coremltools writes beyond chains of layers: control flow, lists, states, recurrent layers,
// computed positions, compressed weights, several functions, pipelines, classifiers.
// fixtures/make_coreml_flow.py writes the files and evaluates their documentation in f64.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

namespace {

// Runs a file of fixtures/coreml on its inputs and compares every output that is known; how many.
std::size_t check_file(const std::string& file, const Model& model) {
  static const NamedTensors kKnown = arrays(fixture("coreml/flow.npz"));
  const std::string name = file.substr(0, file.find('.'));
  const Trace trace = test::run(model, test::recorded_inputs(kKnown, name + ":"));
  return test::check_recorded(trace, kKnown, 2e-6F, name + ".");
}

Model opened(const std::string& file) { return open_model(fixture("coreml/" + file)); }

}  // namespace

TEST_CASE("Core ML: branches, loops and lists of ML programs run what their data say") {
  CHECK(check_file("flow.mlpackage", opened("flow.mlpackage")) == 5);
}

TEST_CASE("Core ML: recurrent layers of ML programs") {
  const Model model = opened("recurrent.mlpackage");
  CHECK(check_file("recurrent.mlpackage", model) == 16);
  CHECK(test::notes(model, "gives its outputs as it makes them"));
  CHECK(check_file("gru18.mlpackage", opened("gru18.mlpackage")) == 2);
}

TEST_CASE("Core ML: ML programs that cut, place and sample where they compute to") {
  CHECK(check_file("places.mlpackage", opened("places.mlpackage")) == 15);
  CHECK(check_file("places18.mlpackage", opened("places18.mlpackage")) == 8);
}

TEST_CASE("Core ML: compressed weights are the values that they stand for") {
  for (const auto& [file, outputs] :
       {std::pair{"compressed16.mlpackage", 4}, {"compressed18.mlpackage", 6}}) {
    const Model model = opened(file);
    CHECK(check_file(file, model) == outputs);
    CHECK(test::notes(model, "compressed weights"));
  }
}

TEST_CASE("Core ML: a state is an input, and an output that is fed the next time") {
  const Model model = opened("state.mlpackage");
  CHECK(check_file("state.mlpackage", model) == 2);
  CHECK(test::notes(model, "outputs that end in .next"));
}

TEST_CASE("Core ML: the default one of several functions, programs of a pipeline as one graph") {
  const Model model = opened("functions.mlpackage");
  CHECK(check_file("functions.mlpackage", model) == 1);
  CHECK(test::notes(model, "of 2 functions of the program two is read, not one"));
  CHECK(check_file("chain.mlpackage", opened("chain.mlpackage")) == 1);
}

TEST_CASE("Core ML: a classifier gives its probabilities; pooling counts the last pixel's border") {
  const Model model = opened("pooled.mlmodel");
  CHECK(check_file("pooled.mlmodel", model) == 1);
  CHECK(test::notes(model, "the label label is that of the greatest of shares"));
}
