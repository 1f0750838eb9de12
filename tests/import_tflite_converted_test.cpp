// Networks that TensorFlow's converter quantised, whose batch is free
// (tests/fixtures/make_tflite_converted.py): integers are the reference kernels' bit for bit.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

TEST_CASE("tflite: converted networks of a free batch give the reference kernels' integers") {
  const NamedTensors known = arrays(fixture("tflite_ops/converted.npz"));
  int networks = 0, integers = 0;
  for (const auto& [key, x] : known) {
    if (!key.ends_with(":0")) continue;
    const std::string name = key.substr(0, key.size() - 2);
    CAPTURE(name);
    const Model model = open_model(fixture("tflite_ops/converted_" + name + ".tflite"));
    const auto outputs = test::run(model, x.share()).outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CAPTURE(i);
      const Tensor& want = known.at(name + "." + std::to_string(i));
      test::check_like(outputs[i].second, want, 2e-6F);
      if (want.dtype() != DType::f32) ++integers;
    }
    ++networks;
  }
  CHECK(networks >= 12);
  CHECK(integers >= 12);
}
