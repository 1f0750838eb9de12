// Core ML's regions and choices of boxes, its deconvolution of volumes, LSTMs that hold their
// cells, operations of programs: fixtures/make_coreml_boxes.py and make_coreml_program.py write
// them with coremltools and evaluate what NeuralNetwork.proto and MIL's documentation say.
#include <doctest/doctest.h>

#include "importers/containers/protobuf.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture;

namespace {

// Every recorded output of a network or a program; how many there are.
std::size_t check_outputs(const std::string& name, const std::string& records = "boxes.npz",
                          const std::string& ending = ".mlmodel") {
  const NamedTensors known = arrays(fixture("coreml/" + records));
  const Model model = open_model(fixture("coreml/" + name + ending));
  const Trace trace = test::run(model, test::recorded_inputs(model, known));
  return test::check_recorded(trace, known, 1e-6F, name + ".");
}

// One layer of this kind over boxes [1,3,4] and scores [1,3,1], or an image and its regions.
std::string told(std::uint32_t kind, const std::string& params, const std::string& first,
                 const std::string& second) {
  const auto field = [](std::uint32_t number, const std::string& payload) {
    std::string out;
    put_length(out, number, payload.size());
    return out + payload;
  };
  const auto array = [&](const char* name, const std::string& extents) {
    return field(1, name) + field(3, field(5, field(1, extents)));
  };
  const std::string layer =
      field(1, "l") + field(2, "a") + field(2, "b") + field(3, "y") + field(kind, params);
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.mlmodel",
                    "\x08\x04" +
                        field(2, field(1, array("a", first)) + field(1, array("b", second)) +
                                     field(10, array("y", "\1"))) +
                        field(500, field(1, layer) + "\x28\x01"));
  try {
    open_model(folder / "m.mlmodel");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Core ML: regions by every sampling, boxes that stay, a volume's deconvolution") {
  CHECK(check_outputs("boxes") == 23);
}

TEST_CASE("Core ML: an LSTM that may clip its cell is a scan") {
  CHECK(check_outputs("clipped") == 11);
  CHECK(test::notes(open_model(fixture("coreml/clipped.mlmodel")), "held in [-0.35, 0.35]"));
}

TEST_CASE("Core ML: operations of programs that choose, place and resize") {
  CHECK(check_outputs("program", "program.npz", ".mlpackage") == 23);
  CHECK(check_outputs("program18", "program.npz", ".mlpackage") == 4);
}

TEST_CASE("Core ML: regions and boxes of extents that cannot be are refused") {
  const std::string boxes("\1\3\4", 3), scores("\1\3\1", 3), image("\1\2\3\5\6", 5),
      regions("\3\1\4\1\1", 5);
  CHECK(told(1400, "\x18\x02", boxes, scores).empty());
  CHECK(told(1400, "", boxes, scores).find("at most 0 boxes") != std::string::npos);
  CHECK(told(1400, "\x18\xff\xff\xff\xff\x7f", boxes, scores).find("at most 34359738367 boxes") !=
        std::string::npos);
  const std::string many("\1\x80\x80\x80\x80\x01\1", 7);  // [1,2^28,1]
  CHECK(told(1400, "\x18\x02", boxes, many).find("268435456 boxes of 1 classes") !=
        std::string::npos);
  CHECK(told(1400, "\x18\x02", boxes, "\3").find("scores of rank 1") != std::string::npos);
  const std::string scale("\x2d\0\0\x80\x3f", 5);  // 1.0
  CHECK(told(212, scale, image, regions).empty());
  CHECK(told(212, std::string("\x0a\6\1\xff\xff\xff\xff\x7f", 8) + scale, image, regions)
            .find("a region of 34359738367 points") != std::string::npos);
  CHECK(told(212, std::string("\x1a\2\x08\x09", 4) + scale, image, regions)
            .find("the sampling method 9") != std::string::npos);
  CHECK(told(212, scale, image, std::string("\3\1\7\1\1", 5)).find("regions of rank 5") !=
        std::string::npos);
}
