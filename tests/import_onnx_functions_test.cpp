// ONNX models that bring functions of their own, pool regions of images or walk trees, against ONNX
// Runtime's outputs (fixtures/make_onnx_functions.py), and the functions that are refused.
#include <doctest/doctest.h>

#include "engine/core/error.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

std::string at(const std::string& name) { return test::fixture("onnx_functions/" + name); }

std::size_t compared(const std::string& name) {
  const NamedTensors known = test::arrays(at(name + ".npz"));
  const Trace trace = test::run(open_model(at(name + ".onnx")), test::recorded_inputs(known));
  return test::check_recorded(trace, known, 2e-6F);
}

}  // namespace

TEST_CASE("onnx functions: calls with the caller's attributes and their own become nodes") {
  CHECK(compared("calls") == 5);
  CHECK_THROWS_WITH_AS(open_model(at("round.onnx")), doctest::Contains("call each other"), Error);
  CHECK_THROWS_WITH_AS(open_model(at("older.onnx")), doctest::Contains("it is of opset 12"), Error);
}

TEST_CASE("onnx functions: regions are pooled in every way of their corners") {
  CHECK(compared("regions") == 8);
}

TEST_CASE("onnx functions: trees lead to ONNX Runtime's leaves, missing numbers too") {
  CHECK(compared("trees") == 16);
  CHECK_THROWS_WITH_AS(open_model(at("opsets.onnx")),
                       doctest::Contains("given twice, as 17 and as 16"), Error);
  const Model zipped = open_model(at("zipped.onnx"));
  CHECK(test::notes(zipped, "the table of scores"));
  const Trace trace = test::run(zipped, Tensor::of<float>({1, 4}, {0.0F, 0.0F, 0.0F, 0.0F}));
  CHECK(test::output(trace, "maps").data<float>()[3] == 0.25F);
}
