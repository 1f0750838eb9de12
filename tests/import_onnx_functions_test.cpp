// ONNX models that bring functions of their own, pool regions of images or walk trees, against ONNX
// Runtime's outputs (fixtures/make_onnx_functions.py), and the functions that are refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

std::string at(const std::string& name) { return test::fixture("onnx_functions/" + name); }

int compared(const std::string& name) {
  const NamedTensors known = test::arrays(at(name + ".npz"));
  NamedTensors in;
  for (const auto& [key, value] : known)
    if (key.starts_with("in.")) in.emplace(key.substr(3), value.share());
  const Trace trace = test::run(open_model(at(name + ".onnx")), in);
  int count = 0;
  for (const auto& [key, want] : known) {
    if (!key.starts_with("out.")) continue;
    CAPTURE(key);
    const Tensor& got = test::output(trace, key.substr(4));
    REQUIRE(got.type() == want.type());
    ++count;
    if (std::ranges::equal(got.bytes(), want.bytes())) continue;
    REQUIRE(is_floating(want.dtype()));  // a label is that label
    test::check_near(got, want, 2e-6F);
  }
  return count;
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
