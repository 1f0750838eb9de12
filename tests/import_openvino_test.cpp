// OpenVINO's operators that choose, look up, put in place and cut images, against the outputs of
// its CPU plugin (fixtures/make_openvino_operators.py), and what of their settings is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "importers/input_hints.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

std::string at(const std::string& name) { return test::fixture("runtimes/" + name); }

// Sums of several terms, whose sequence is the plugin's own; all others move or compare.
bool rounds(std::string_view name) {
  constexpr std::string_view kSums[] = {"scatter_elements_sum",
                                        "scatter_elements_prod",
                                        "scatter_elements_mean",
                                        "scatter_nd",
                                        "bag",
                                        "einsum",
                                        "average",
                                        "region",
                                        "attention",
                                        "col2im",
                                        "group_norm"};
  return std::ranges::any_of(kSums, [&](std::string_view s) { return name.starts_with(s); });
}

}  // namespace

TEST_CASE("OpenVINO: operators that choose, look up and cut give its CPU plugin's outputs") {
  const NamedTensors known = test::arrays(at("operators.npz"));
  const Trace trace = test::run(open_model(at("operators.xml")), test::recorded_inputs(known));
  const auto tolerance = [](std::string_view name) { return rounds(name) ? 1e-6F : 0.0F; };
  CHECK(test::check_recorded(trace, known, tolerance) == 73);
}

// make_openvino_dynamic.py: nothing of the image's extents is in the file.
TEST_CASE("OpenVINO: poolings round and count as its CPU plugin does") {
  const NamedTensors known = test::arrays(at("pools.npz"));
  const Model model = open_model(at("pools.xml"));
  const Trace trace = test::run(model, test::recorded_inputs(known));
  CHECK(test::check_recorded(trace, known, 1e-6F) == 25);
  CHECK(test::notes(model, "average pooling divides by all places of a window"));
}

TEST_CASE("OpenVINO: bounds that hang on free extents, and grids, give its CPU plugin's outputs") {
  const NamedTensors known = test::arrays(at("dynamic.npz")), in = test::recorded_inputs(known);
  std::vector<HintedInput> hints;
  for (const auto& [name, value] : in) hints.push_back({name, value.type()});
  const auto tolerance = [](std::string_view name) {
    return name.starts_with("grid") ? 2e-6F : 0.0F;
  };
  for (const bool told : {true, false}) {
    CAPTURE(told);
    const InputHints scope(told ? hints : std::vector<HintedInput>{});
    const Trace trace = test::run(open_model(at("dynamic.xml")), in);
    CHECK(test::check_recorded(trace, known, tolerance) == 24);
  }
}

// make_openvino_parts.py.
TEST_CASE("OpenVINO: rules, parts, boxes, regions and spectra give its CPU plugin's outputs") {
  const NamedTensors known = test::arrays(at("parts.npz"));
  const Model model = open_model(at("parts.xml"));
  const Trace trace = test::run(model, test::recorded_inputs(known));
  CHECK(test::check_recorded(trace, known, 1e-5F) == 75);
  CHECK(test::notes(model, "the state s begins every run"));
}

TEST_CASE("OpenVINO: settings that no operator can have are refused in one sentence") {
  const std::string whole = test::read_bytes(at("operators.xml"));
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.bin", test::read_bytes(at("operators.bin")));
  std::string older = whole;
  older.replace(older.find("version=\"11\""), 12, "version=\"7\"");
  test::write_bytes(folder / "old.xml", older);
  CHECK_THROWS_WITH_AS(open_model(folder / "old.xml"), doctest::Contains("it is of IR version 7"),
                       Error);
  const auto told = [&](const std::string& layer, const std::string& from, const std::string& to,
                        const char* words) {
    std::string text = whole;
    const std::size_t place = text.find(from, text.find("type=\"" + layer + "\""));
    REQUIRE(place != std::string::npos);
    text.replace(place, from.size(), to);
    test::write_bytes(folder / "m.xml", text);
    CAPTURE(layer);
    CHECK_THROWS_WITH_AS(open_model(folder / "m.xml"), doctest::Contains(words), Error);
  };
  told("OneHot", "ignore_negative", "mirror", "negative indices by mirror");
  told("TopK", "mode=\"max\"", "mode=\"most\"", "TopK by most");
  told("TopK", "sort=\"value\"", "sort=\"name\"", "TopK sorted by name");
  told("ScatterElementsUpdate", "reduction=\"sum\"", "reduction=\"xor\"", "folded by xor");
  told("Einsum", "bqc,bkc->bkq", "bqc,bkc->bkz", "Einsum 'bqc,bkc->bkz' is not supported");
  told("Einsum", "bqc,bkc->bkq", "bq,bkc->bkq", "does not fit");
  told("ShuffleChannels", "group=\"2\"", "group=\"3\"", "4 channels in 3 groups");
  told("ShuffleChannels", "group=\"2\"", "group=\"0\"", "4 channels in 0 groups");
  told("ExtractImagePatches", "strides=\"2, 1\"", "strides=\"0, 1\"", "every 0");
  told("ReorgYolo", "stride=\"2\"", "stride=\"4\"", "in blocks of 4");
  told("RegionYolo", "classes=\"2\"", "classes=\"1099511627776\"", "channels of 3 regions");
  told("RegionYolo", "axis=\"1\"", "axis=\"9\"", "axis 9");
  told("ReverseSequence", "batch_axis=\"0\"", "batch_axis=\"2\"", "both 2");
  told("Parameter", "shape=\"5\" element_type=\"i64\"", "shape=\"\" element_type=\"i64\"",
       "axis 0 is outside");
  told("GroupNormalization", "num_groups=\"2\"", "num_groups=\"3\"", "3");
}
