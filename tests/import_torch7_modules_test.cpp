// Torch7's plain modules: networks of a branch for each (fixtures/make_torch7_modules.py), against
// an evaluation of nn's description in f64; and fields that cannot be, by what is wrong with them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

std::size_t check_outputs(const std::string& name) {
  const NamedTensors known = test::arrays(test::fixture("torch7/modules.npz"));
  const Model m = open_model(test::fixture("torch7/" + name + ".t7"));
  REQUIRE_MESSAGE(!m.graph->outputs.empty(), m.notes.back());
  const Trace trace = test::run(m, known.at(name).share());
  for (const auto& [output, tensor] : trace.outputs) {
    CAPTURE(output);
    const Tensor& want = known.at(name + "." + output);
    REQUIRE(to_string(tensor.shape()) == to_string(want.shape()));
    test::check_near(tensor, want, 4e-6F);
  }
  return trace.outputs.size();
}

std::string text(std::string_view v) { return fmt::format("2\n{}\n{}\n", v.size(), v); }

// A Linear from 1 feature to 2, and this module with these numbers behind it: the note that says
// why it is no network.
std::string told(const std::string& type,
                 const std::vector<std::pair<std::string, double>>& fields) {
  int index = 0;
  const auto table = [&](const std::string& entries, std::size_t count) {
    return fmt::format("3\n{}\n{}\n", ++index, count) + entries;
  };
  const auto object = [&](const std::string& name, const std::string& content) {
    return fmt::format("4\n{}\n3\nV 1\n{}\n{}\n", ++index, name.size(), name) + content;
  };
  const std::string weight =
      object("torch.FloatTensor", "2\n2 1\n1 1\n1\n" + object("torch.FloatStorage", "2\n1 2\n"));
  std::string held;
  for (const auto& [key, value] : fields) held += text(key) + fmt::format("1\n{}\n", value);
  const std::string parts =
      table("1\n1\n" + object("nn.Linear", table(text("weight") + weight, 1)) + "1\n2\n" +
                object("nn." + type, table(held, fields.size())),
            2);
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.t7", object("nn.Sequential", table(text("modules") + parts, 1)));
  const Model m = open_model(folder / "m.t7");
  return m.graph->outputs.empty() && !m.notes.empty() ? m.notes.back() : "";
}

}  // namespace

TEST_CASE("Torch7: plain modules give what nn's description says") {
  CHECK(check_outputs("rows") == 62);
  CHECK(check_outputs("images") == 19);
  CHECK(check_outputs("steps") == 4);
  CHECK(check_outputs("volumes") == 6);
  CHECK(check_outputs("words") == 2);
  CHECK(test::notes(open_model(test::fixture("torch7/words.t7")), "counts words from 1"));
}

TEST_CASE("Torch7: fields of plain modules that cannot be are told by what is wrong") {
  const auto says = [](const char* type, const std::vector<std::pair<std::string, double>>& fields,
                       const char* words) {
    const std::string got = told(type, fields);
    CHECK_MESSAGE(got.find(words) != std::string::npos, (std::string(type) + ": " + got));
  };
  CHECK(told("HardTanh", {}).empty());
  says("HardTanh", {{"min_val", 2}}, "from 2 to 1");
  says("Select", {{"dimension", 3}}, "dimension 3 of 2");
  says("Select", {{"dimension", 2}, {"index", 0}}, "index 0, where they count from 1");
  says("Select", {{"dimension", 2}, {"index", 3}}, "index 3 of 2");
  says("Narrow", {{"dimension", 2}, {"length", 9}}, "9 elements from 1 of 2");
  says("NarrowTable", {{"offset", 2}}, "values 2 to 2 of 1");
  says("Replicate", {{"nfeatures", -1}}, "-1 copies");
  says("Padding", {{"dim", 2}, {"pad", 1e8}}, "100000000 elements of padding");
  says("Unsqueeze", {{"pos", 9}}, "dimension 9 of 3");
  says("Transpose", {}, "without its permutations");
  says("PixelShuffle", {{"upscaleFactor", 0}}, "PixelShuffle by 0");
  says("Normalize", {{"p", 0}}, "p=0");
  says("Mul", {}, "has no weight");
  says("OneHot", {{"outputSize", 1e9}}, "1000000000 classes");
  says("CSubTable", {}, "1 values for CSubTable");
  says("DotProduct", {}, "needs value 2");
  says("PairwiseDistance", {}, "needs value 2");
  says("Maxout", {}, "without its modules");
  says("Bottle", {{"nInputDim", 5}}, "Bottle from 5 to 2 of rank 2");
  says("SpatialAdaptiveMaxPooling", {{"W", 2}}, "of rank 2");
  says("SpatialSubSampling", {{"nInputPlane", -4}}, "-4 planes");
  says("SpatialDepthWiseConvolution", {{"nInputPlane", 1e8}}, "100000000 planes");
  says("VolumetricConvolution", {{"nInputPlane", 1}}, "1 planes to 0");
  says("TemporalMaxPooling", {}, "of rank 2");
}
