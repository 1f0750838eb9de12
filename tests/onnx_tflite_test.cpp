// TensorFlow Lite's networks of integers written as ONNX and read again: the graph of elementary
// operators gives the bits that the reference kernels gave (tests/fixtures/tflite_ops).
// tests/onnx_export_check.py runs the same files in ONNX Runtime, and the hybrid ones, whose zero
// points are made in f64.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/graph/executor.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

struct Net {
  const char *name, *values;
  int outputs;
};

int compared_outputs(const Net& net) {
  CAPTURE(net.name);
  const test::TemporaryFolder folder;
  const std::string path = folder / "net.onnx";
  save_model(open_model(test::fixture(std::string("tflite_ops/") + net.name + ".tflite")), path);
  const Model model = open_model(path);
  NamedTensors in;
  std::vector<NamedTensor> want;
  const std::string begin = std::string(net.name) + ".";
  for (NamedTensor& t : load_tensors(test::fixture(std::string("tflite_ops/") + net.values))) {
    if (t.name.starts_with(begin + "in."))
      in.emplace(t.name.substr(begin.size() + 3), std::move(t.tensor));
    else if (t.name.starts_with(begin + "out."))
      want.push_back({t.name.substr(begin.size() + 4), std::move(t.tensor)});
  }
  const Trace trace = test::run(model, in);
  REQUIRE(trace.outputs.size() == want.size());
  int compared = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(want[i].name);
    const Tensor& got = trace.outputs[i].second;
    REQUIRE(got.type() == want[i].tensor.type());
    CHECK(std::ranges::equal(got.bytes(), want[i].tensor.bytes()));
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("onnx: TensorFlow Lite's integers, written and read again, keep every bit") {
  constexpr Net kNets[] = {
      {"signed", "expected.npz", 20},
      {"unsigned", "expected.npz", 18},
      {"quantised_signed", "quantised.npz", 21},
      {"quantised_unsigned", "quantised.npz", 16},
      {"quantised_sums_signed", "quantised.npz", 4},
      {"quantised_sums_unsigned", "quantised.npz", 5},
      {"quantised_sixteen", "quantised.npz", 1},
      {"quantised_lstm", "quantised.npz", 6},
      {"quantised_connected", "quantised.npz", 5},
      {"quantised_declared", "quantised.npz", 1},
      {"quantised_products", "quantised.npz", 2},
      {"limited", "hybrid.npz", 9},
      {"sixteen", "hybrid.npz", 37},
      {"multiplied", "hybrid.npz", 6},
  };
  for (const Net& net : kNets) CHECK(compared_outputs(net) == net.outputs);
}
