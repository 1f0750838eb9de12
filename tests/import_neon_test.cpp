// Neon's layers (fixtures/make_neon.py) against an evaluation in f64 of what neon does; what has no
// translation gives its weights, and damaged configurations end in a sentence.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "engine/core/error.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

TEST_CASE("neon: layers give what neon gives") {
  const NamedTensors known = test::arrays(fixture("neon/expected.npz"));
  std::size_t outputs = 0;
  for (const char* name : {"images", "reshaped", "single", "stacked", "sum", "steps", "mean"}) {
    CAPTURE(name);
    const Model m = open_model(fixture(fmt::format("neon/{}.prm", name)));
    REQUIRE_MESSAGE(!m.graph->outputs.empty(), m.notes.back());
    const Trace trace = test::run(m, known.at(name).share());
    for (std::size_t i = 0; i < trace.outputs.size(); ++i, ++outputs) {
      CAPTURE(i);
      const Tensor& want = known.at(fmt::format("{}.{}", name, i));
      REQUIRE(to_string(trace.outputs[i].second.shape()) == to_string(want.shape()));
      test::check_near(trace.outputs[i].second, want, 4e-6F);
    }
  }
  CHECK(outputs == 13 + 6);
  const Model images = open_model(fixture("neon/images.prm"));
  CHECK(test::notes(images, "count_include_pad is false"));
  CHECK(test::notes(images, "ascale is divided by the depth"));
}

namespace {

// A network of one layer of this kind, with these settings as lines of a pickle of protocol 0.
std::string one_layer(const std::string& kind, const std::string& config) {
  const auto text = [](const std::string& s) { return "S'" + s + "'\n"; };
  return "(d" + text("neon_version") + text("2.6.0") + "s" + text("train_input_shape") +
         "(I3\nI7\nI6\nts" + text("model") + "(d" + text("type") +
         text("neon.layers.container.Sequential") + "s" + text("config") + "(d" + text("layers") +
         "((d" + text("type") + text("neon.layers.layer." + kind) + "s" + text("config") + "(d" +
         config + "slsss.";
}

std::string told(const std::string& kind, const std::string& config) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.prm", one_layer(kind, config));
  try {
    const Model m = open_model(folder / "m.prm");
    return m.graph->outputs.empty() && !m.notes.empty() ? m.notes.back() : "a network";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("neon: what has no translation is told, what cannot be is refused") {
  const auto says = [](const std::string& kind, const std::string& config, const char* words) {
    const std::string got = told(kind, config);
    CHECK_MESSAGE(got.find(words) != std::string::npos, kind << ": " << got);
  };
  says("Pooling", "S'fshape'\nI2\ns", "a network");
  says("Pooling", "S'fshape'\nI2\nsS'op'\nS'median'\ns", "pooling by median has no translation");
  says("Pooling", "S'op'\nS'avg'\ns", "a window without fshape");
  says("Pooling", "S'fshape'\nI9\ns", "window");
  says("MergeBroadcast", "S'merge'\nS'depth'\ns", "a container without layers");
  says("RoiPooling", "S'name'\nS'roi'\ns", "layer RoiPooling has no translation");
  says("Deconvolution", "S'fshape'\n(ts", "a window of 0 extents");
}
