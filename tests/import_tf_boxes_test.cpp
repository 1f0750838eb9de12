// TensorFlow's combined choice of boxes, variables in parts, and what TensorFlow.js shares with it
// (tests/fixtures/make_tf_boxes.py): outputs are TensorFlow's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

namespace {

// Runs a graph on what is recorded as "name:input", and compares every "name.output".
std::size_t check_outputs(const Model& model, const NamedTensors& known, const std::string& name) {
  const Trace trace = test::run(model, test::recorded_inputs(known, name + ":"));
  // Lowered scores are products of the same factors in another sequence.
  const auto tolerance = [](std::string_view key) {
    return key.find("soft") == std::string_view::npos ? 0.0F : 1e-6F;
  };
  return test::check_recorded(trace, known, tolerance, name + ".");
}

// Element i of a variable is i.
void check_counted(const TensorList& list, std::string_view name, const Shape& shape) {
  const auto at = std::ranges::find(list, name, &NamedTensor::name);
  REQUIRE(at != list.end());
  REQUIRE(at->tensor.shape() == shape);
  const auto data = at->tensor.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i) CHECK(data[i] == static_cast<float>(i));
}

void check_parts(const std::string& path) {
  CAPTURE(path);
  const TensorList list = load_tensors(path);
  CHECK(list.size() == 3);
  check_counted(list, "rows", Shape{5, 3});
  check_counted(list, "columns", Shape{2, 2, 140});
  const auto whole = std::ranges::find(list, "whole", &NamedTensor::name);
  REQUIRE(whole != list.end());
  CHECK(whole->tensor.data<float>()[3] == 4);
}

}  // namespace

TEST_CASE("tensorflow: CombinedNonMaxSuppression bit for bit, and scores that are lowered") {
  const NamedTensors known = arrays(fixture("tf_graphs/combined.npz"));
  CHECK(check_outputs(open_model(fixture("tf_graphs/combined.pb")), known, "combined") == 18 + 4);
}

TEST_CASE("TensorFlow.js: operators that choose some of many are TensorFlow's") {
  const NamedTensors known = arrays(fixture("tf_graphs/selection.npz"));
  const Model model = open_model(fixture("tf_graphs/js_selection/model.json"));
  CHECK(model.format == "tfjs");
  CHECK(check_outputs(model, known, "selection") == 17);
}

TEST_CASE("TensorFlow.js: quantised weights are JavaScript's numbers, rounded once") {
  const test::TemporaryFolder folder;
  std::string bytes;
  for (int q = 0; q < 256; ++q) bytes += static_cast<char>(q);
  test::write_bytes(folder / "w.bin", bytes + bytes);
  const auto manifest = [&](const std::string& second) {
    test::write_bytes(
        folder / "model.json",
        "[{\"paths\": [\"w.bin\"], \"weights\": [{\"name\": \"a\", \"shape\": [256], \"dtype\": "
        "\"float32\", \"quantization\": {\"dtype\": \"uint8\", \"scale\": 0.012345678901234567, "
        "\"min\": -1.2345678901234567}}, {\"name\": \"b\", \"shape\": [256], \"dtype\": \"int32\", "
        "\"quantization\": {\"dtype\": \"uint8\", " +
            second + "}}]}]");
    return load_tensors(folder / "model.json");
  };
  const TensorList list = manifest("\"scale\": 0.5, \"min\": -3.0");
  REQUIRE(list.size() == 2);
  int in_f32 = 0;
  for (int q = 0; q < 256; ++q) {
    CAPTURE(q);
    const float got = list[0].tensor.data<float>()[static_cast<std::size_t>(q)];
    CHECK(got == static_cast<float>(q * 0.012345678901234567 - 1.2345678901234567));
    in_f32 += got != static_cast<float>(q) * 0.012345679F - 1.2345679F ? 1 : 0;
    // Math.round sends halves up.
    CHECK(list[1].tensor.data<std::int32_t>()[static_cast<std::size_t>(q)] ==
          static_cast<std::int32_t>(std::floor(q * 0.5 - 3 + 0.5)));
  }
  CHECK(in_f32 > 0);  // steps in f32 would be seen
  CHECK_THROWS_WITH_AS(manifest("\"scale\": 1e30, \"min\": 0"),
                       doctest::Contains("which is no 32-bit integer"), Error);
}

TEST_CASE("tensorflow: variables in parts are put together, in either byte order") {
  check_parts(fixture("tf_graphs/parts.index"));
  check_parts(fixture("tf_graphs/parts_v1"));

  const test::TemporaryFolder folder;
  const std::string index = test::read_bytes(fixture("tf_graphs/parts.index"));
  std::string data = test::read_bytes(fixture("tf_graphs/parts.data-00000-of-00001"));
  const auto write = [&](const std::string& table) {
    test::write_bytes(folder / "m.index", table);
    test::write_bytes(folder / "m.data-00000-of-00001", data);
    return folder / "m.index";
  };
  // A slice that is named twice, or missing: the second part of `rows` begins at 1 instead of 2.
  std::string overlapping = index;
  const std::string second("\x0a\4\x08\2\x10\2", 6);
  REQUIRE(overlapping.find(second) != std::string::npos);
  overlapping.replace(overlapping.find(second), second.size(),
                      std::string("\x0a\4\x08\1\x10\2", 6));
  CHECK_THROWS_WITH_AS(load_tensors(write(overlapping)),
                       doctest::Contains("one of its slices is missing"), Error);
  // The other byte order: said in place of the version, every element turned.
  const std::string version("\x1a\2\x08\1", 4);
  std::string turned = index;
  REQUIRE(turned.find(version) != std::string::npos);
  turned.replace(turned.find(version), version.size(), std::string("\x10\1\x10\1", 4));
  for (std::size_t i = 0; i + 4 <= data.size(); i += 4)
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + 4));
  check_parts(write(turned));
}
