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
  return test::check_outputs(trace, known, 4e-6F, name + ".");
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

// What Torch7 does at inference, with old files, with sizes of -1 and with tables in tables; each
// was compared with Torch7 itself.
TEST_CASE("Torch7: what the modules' names do not say") {
  CHECK(check_outputs("meaning") == 26);
  CHECK(check_outputs("planes") == 9);
  CHECK(check_outputs("target") == 2);
  CHECK(test::notes(open_model(test::fixture("torch7/planes.t7")),
                    "SpatialDropout scales by 0.75 at inference"));
  CHECK(test::notes(open_model(test::fixture("torch7/planes.t7")), "sums of windows"));
}

// Each ConcatTable of two Identities doubles what the table holds; all of them are two objects.
TEST_CASE("Torch7: tables that unfold without end are bounded") {
  const auto object = [](int index, const std::string& name, const std::string& content) {
    return fmt::format("4\n{}\n3\nV 1\n{}\n{}\n", index, name.size(), name) + content;
  };
  const std::string weight = object(
      3, "torch.FloatTensor", "2\n2 1\n1 1\n1\n" + object(4, "torch.FloatStorage", "2\n1 2\n"));
  const std::string linear = object(2, "nn.Linear", "3\n5\n1\n" + text("weight") + weight);
  const std::string same = object(9, "nn.Identity", "3\n10\n0\n");
  const std::string twice =
      object(6, "nn.ConcatTable",
             "3\n7\n1\n" + text("modules") + "3\n8\n2\n1\n1\n" + same + "1\n2\n4\n9\n");
  std::string parts = "1\n1\n" + linear + "1\n2\n" + twice;
  for (int i = 3; i <= 60; ++i) parts += fmt::format("1\n{}\n4\n6\n", i);
  const test::TemporaryFolder folder;
  test::write_bytes(
      folder / "m.t7",
      object(1, "nn.Sequential", "3\n11\n1\n" + text("modules") + "3\n12\n60\n" + parts));
  const Model m = open_model(folder / "m.t7");
  REQUIRE(m.graph->outputs.empty());
  CHECK(m.notes.back().find("tables of more than 65536 elements") != std::string::npos);
}

// In the ascii form bytes are bytes, blanks and ends of lines among them; a function of before 2014
// has no index of its own.
TEST_CASE("Torch7: bytes, halves and old functions of the ascii form") {
  const auto tensor = [](int index, const std::string& kind, const std::string& content) {
    const std::string of = "torch." + kind;
    return fmt::format("4\n{}\n3\nV 1\n{}\n{}Tensor\n1\n4\n1\n1\n4\n{}\n3\nV 1\n{}\n{}Storage\n4\n",
                       index, of.size() + 6, of, index + 1, of.size() + 7, of) +
           content + "\n";
  };
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.t7", "3\n1\n5\n" + text("f") + "6\n3\na\nc\n3\n2\n0\n" +
                                         text("bytes") + tensor(3, "Byte", "\n 2\xff") +
                                         text("chars") + tensor(5, "CudaChar", "10\n ") +
                                         text("halves") + tensor(7, "Half", "1.5 -2 0 inf") +
                                         text("n") + "1\n4\n");
  const Model m = open_model(folder / "m.t7");
  const auto at = [&](const char* name) -> const Tensor& {
    return m.graph->initializers.at(m.graph->find_value(name));
  };
  REQUIRE(m.graph->initializers.size() == 3);
  CHECK(at("bytes").dtype() == DType::u8);
  CHECK(at("bytes").data<std::uint8_t>()[0] == 10);
  CHECK(at("bytes").data<std::uint8_t>()[3] == 255);
  CHECK(at("chars").dtype() == DType::i8);
  CHECK(at("chars").data<std::int8_t>()[2] == 10);
  CHECK(at("halves").dtype() == DType::f16);
  CHECK(at("halves").data<Float16>()[1].bits == 0xc000);
  CHECK(at("halves").data<Float16>()[3].bits == 0x7c00);
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
