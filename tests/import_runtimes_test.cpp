// Models of inference runtimes and of CNTK: one network in each format (tests/fixtures/
// make_runtimes.py), judged against what ONNX Runtime made of it; then damaged in every way.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "engine/core/error.h"
#include "importers/containers/xml.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

struct File {
  const char* name;    // what is opened
  const char* damage;  // the file of it that is damaged
  const char* format;
  std::vector<const char*> with;  // what has to lie beside it
};
const std::vector<File>& files() {
  static const std::vector<File> kFiles{
      {"small.model", "small.model", "cntk", {}},
      {"small.dnn", "small.dnn", "cntk-v1", {}},
      {"small.ort", "small.ort", "ort", {}},
      {"small.xml", "small.xml", "openvino", {"small.bin"}},
      {"ncnn.param", "ncnn.param", "ncnn", {"ncnn.bin"}},
      {"ncnn.param", "ncnn.bin", "ncnn", {"ncnn.bin"}},
      {"pipeline.mlmodel", "pipeline.mlmodel", "coreml", {}},
      {"small.mlpackage", "small.mlpackage/Data/com.apple.CoreML/model.mlmodel", "coreml", {}},
      {"small.mlpackage",
       "small.mlpackage/Data/com.apple.CoreML/weights/weight.bin",
       "coreml",
       {}}};
  return kFiles;
}

std::string at(const std::string& name) { return fixture("runtimes/" + name); }

// Copies all of a file's parts and opens it with `bytes` in place of the one that is damaged.
void open_damaged(const File& f, const test::TemporaryFolder& folder, const std::string& bytes) {
  namespace fs = std::filesystem;
  test::write_bytes(folder / f.damage, bytes);
  try {
    open_model(folder / f.name);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::bad_input) FAIL_CHECK(std::string(e.what()));
    CHECK_MESSAGE(std::string(e.what()).find('\n') == std::string::npos, std::string(e.what()));
  }
}

// Cut short at `cuts` places, one bit turned in `flips`, a count that no file can hold in `counts`.
void damage_all(std::size_t cuts, std::size_t flips, std::size_t counts) {
  for (const File& f : files()) {
    const test::TemporaryFolder folder;
    std::filesystem::copy(at(f.name), folder / f.name, std::filesystem::copy_options::recursive);
    for (const char* other : f.with) std::filesystem::copy(at(other), folder / other);
    std::filesystem::permissions(folder / f.damage, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
    const std::string file = test::read_bytes(at(f.damage));
    REQUIRE(!file.empty());
    for (std::size_t n = 1; n < file.size(); n += 1 + file.size() / cuts)
      open_damaged(f, folder, file.substr(0, n));
    for (std::size_t i = 0; i < flips; ++i) {
      std::string flipped = file;
      const std::size_t byte = i * 7919 % file.size();
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << i % 8));
      open_damaged(f, folder, flipped);
    }
    // Counts that a file cannot hold.
    for (std::size_t i = 0; i + 8 <= file.size(); i += 1 + file.size() / counts) {
      std::string huge = file;
      std::memset(huge.data() + i, 0x7f, 8);
      open_damaged(f, folder, huge);
    }
  }
}

}  // namespace

TEST_CASE("a network in each runtime's format is recognised by its bytes and means the same") {
  const TensorList expected = load_tensors(at("output.npy"));
  const auto want = expected.at(0).tensor.data<float>();
  for (const File& f : files()) {
    CAPTURE(f.name);
    const Model model = open_model(at(f.name));
    CHECK(model.format == f.format);
    CHECK(!model.version.empty());
    const std::vector<float> got =
        test::values(test::run(model, std::move(load_tensors(at("input.npy")).at(0).tensor)));
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-6F);
  }
}

TEST_CASE("the ending does not matter") {
  const test::TemporaryFolder folder;
  for (const char* name : {"small.model", "small.dnn", "small.ort"}) {
    test::write_bytes(folder / "model.bytes", test::read_bytes(at(name)));
    CHECK(open_model(folder / "model.bytes").graph->outputs.size() == 1);
  }
}

TEST_CASE("conventions are said in the notes") {
  CHECK(test::notes(open_model(at("small.model")), "axes are reversed"));
  CHECK(test::notes(open_model(at("small.model")), "CNTK's own rule"));
  CHECK(test::notes(open_model(at("small.dnn")), "nodes of training"));
}

TEST_CASE("damaged models of runtimes are read or refused, in one sentence") {
  damage_all(20, 100, 60);
}

TEST_SUITE("long") {
  TEST_CASE("damaged models of runtimes are read or refused, at many places") {
    damage_all(400, 8000, 2000);
  }
}

TEST_CASE("CNTK: a function without a meaning here leaves the weights, and a note says which") {
  std::string file = test::read_bytes(at("small.model"));
  // Softmax, number 10, becomes TopK, 87: the field's tag is 5, its value one byte.
  const std::size_t op = file.rfind("\x02op");
  REQUIRE(op != std::string::npos);
  const std::size_t number = file.find('\x0a', file.find('\x28', op));
  REQUIRE(number != std::string::npos);
  file[number] = '\x57';
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "top.model", file);
  const Model model = open_model(folder / "top.model");
  CHECK(model.graph->nodes.empty());
  CHECK(model.graph->initializers.size() == 4);
  REQUIRE(!model.notes.empty());
  CHECK(model.notes[0].find("TopK") != std::string::npos);
}

TEST_CASE("XML: what a model file needs, and nothing that grows") {
  const XmlElement e =
      parse_xml("<?xml version='1.0'?><!-- c --><a x='1 &lt; 2'><b/><b y=\"\"/></a>");
  CHECK(e.attribute("x") == "1 < 2");
  CHECK(e.children.size() == 2);
  CHECK_THROWS_WITH_AS(parse_xml("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"),
                       doctest::Contains("document type"), Error);
  CHECK_THROWS_WITH_AS(parse_xml("<a>\n<b></a>"), doctest::Contains("line 2"), Error);
  CHECK_THROWS_AS(parse_xml("<a x='1' x='2'/>"), Error);
  CHECK_THROWS_AS(parse_xml("<a x='&b;'/>"), Error);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "<a>";
  CHECK_THROWS_WITH_AS(parse_xml(deep), doctest::Contains("deeper"), Error);
}

TEST_CASE("OpenVINO: NonMaxSuppression gives the rows of its CPU plugin") {
  const NamedTensors known = test::arrays(at("selection.npz"));
  const Trace trace = test::run(open_model(at("selection.xml")), test::recorded_inputs(known));
  CHECK(test::check_recorded(trace, known, 0.0F) == 6);
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "selection.bin", test::read_bytes(at("selection.bin")));
  const auto told = [&](const std::string& from, const std::string& to, const char* words) {
    std::string text = test::read_bytes(at("selection.xml"));
    const std::size_t place = text.find(from);
    REQUIRE(place != std::string::npos);
    text.replace(place, from.size(), to);
    test::write_bytes(folder / "selection.xml", text);
    CHECK_THROWS_WITH_AS(open_model(folder / "selection.xml"), doctest::Contains(words), Error);
  };
  told("box_encoding=\"center\"", "box_encoding=\"polar\"", "the box encoding polar");
}
