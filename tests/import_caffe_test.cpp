// Caffe: what a training's network and the layers of well-known branches become
// (fixtures/make_caffe_training.py), against Caffe itself; settings that cannot be, by what is
// wrong with them.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

// Every output that the array file knows, under `prefix`; how many they were.
std::size_t compared(const Model& m, const NamedTensors& known, const std::string& prefix = "") {
  const Trace trace = test::run(m, test::recorded_inputs(m, known, prefix));
  return test::check_outputs(trace, known, 2e-6F, prefix);
}

// A layer on x [1,4,6,6], y alike and rows r [2,5], written as prototxt: what the refusal says.
std::string told(const std::string& layer) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "net.prototxt",
                    "input: 'x' input_shape { dim: 1 dim: 4 dim: 6 dim: 6 }\n"
                    "input: 'y' input_shape { dim: 1 dim: 4 dim: 6 dim: 6 }\n"
                    "input: 'r' input_shape { dim: 2 dim: 5 }\n"
                    "layer { name: 'l' bottom: 'x' top: 'l' " +
                        layer + " }\n");
  try {
    open_model(folder / "net.prototxt");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find("net.prototxt: node l: ") != std::string::npos);
    return e.what();
  }
  return "";
}

// A message's field of bytes, of a length below 128.
std::string field(char number_low, char number_high, const std::string& payload) {
  return std::string{number_low, number_high} + static_cast<char>(payload.size()) + payload;
}

}  // namespace

TEST_CASE("Caffe: a training's network is read as it runs at test time") {
  const NamedTensors known = test::arrays(test::fixture("frameworks/caffe_training.npz"));
  const std::string net = test::fixture("frameworks/caffe_training.prototxt");
  const Model m = open_model(net);
  CHECK(compared(m, known) == 4);
  CHECK(test::notes(m, "28 along each axis, which fits the weights"));
  CHECK(test::notes(m, "statistics are those of the batch it is given"));
  CHECK(test::notes(m, "Power halved reads labels and is left out"));
  // The .caffemodel alone holds the same network; HDF5 holds a shared weight once.
  CHECK(compared(open_model(test::fixture("frameworks/caffe_training.caffemodel")), known) == 4);
  const std::vector<std::string> with{test::fixture("frameworks/caffe_training.caffemodel.h5")};
  CHECK(compared(open_model(net, with), known) == 4);
}

TEST_CASE("Caffe: a padding layer of V0 belongs to what follows it") {
  const NamedTensors known = test::arrays(test::fixture("frameworks/caffe_training.npz"));
  CHECK(compared(open_model(test::fixture("frameworks/caffe_v0.prototxt")), known, "v0.") == 1);
}

TEST_CASE("Caffe: layers of well-known branches") {
  const NamedTensors known = test::arrays(test::fixture("frameworks/caffe_branches.npz"));
  CHECK(compared(open_model(test::fixture("frameworks/caffe_branches.prototxt")), known) == 8);
}

TEST_CASE("Caffe: of a training that cannot be run the weights are left") {
  const test::TemporaryFolder folder;
  // layer { name: "d" type: "Data" top: "x" } layer { name: "w" type: "Lost" bottom: "x" top: "y"
  // blobs { data: 1 } }, whose blob has one element.
  const auto layer = [](const std::string& fields) { return field('\xa2', '\6', fields); };
  const std::string names = "\x0a\1d\x12\4Data\x22\1x";
  test::write_bytes(
      folder / "net.caffemodel",
      layer(names) + layer(std::string("\x0a\1w\x12\4Lost\x1a\1x\x22\1y") + "\x3a\x0a" + "\x2a\4" +
                           std::string("\0\0\x80\x3f", 4) + "\x3a\2\x08\1"));
  const Model m = open_model(folder / "net.caffemodel");
  CHECK(m.graph->nodes.empty());
  CHECK(m.graph->initializers.size() == 1);
  CHECK(test::notes(m, "give the deploy prototxt"));
}

TEST_CASE("Caffe: settings that cannot be are refused by what is wrong with them") {
  const auto says = [](const char* layer, const char* words) {
    const std::string got = told(layer);
    CAPTURE(std::string(layer));
    CHECK_MESSAGE(got.find(words) != std::string::npos, got);
  };
  says("type: 'Python' python_param { module: 'rpn' layer: 'Proposal' }",
       "Proposal of module rpn is code, which is not run");
  says("type: 'Axpy' bottom: 'y'", "cannot take the shape [1,4,1,1]");
  says("type: 'ShuffleChannel' shuffle_channel_param { group: 3 }", "4 channels in 3 groups");
  says("type: 'ShuffleChannel' shuffle_channel_param { group: 0 }", "4 channels in 0 groups");
  says("type: 'Interp'", "an extent of 0");
  says("type: 'Interp' interp_param { zoom_factor: 99999999 }", "zoom_factor 99999999");
  says("type: 'Interp' interp_param { shrink_factor: 0 }", "shrink_factor 0");
  says("type: 'Interp' interp_param { pad_beg: 2 height: 3 width: 3 }", "which only cut");
  says("type: 'Interp' interp_param { pad_end: -6 height: 3 width: 3 }", "an extent of 0");
  says("type: 'Upsample'", "Upsample by 0");
  says("type: 'Upsample' bottom: 'y' upsample_param { scale: 2 }", "places of a pooling");
  says("type: 'BN'", "BN of 0 weights");
  says("type: 'ROIPooling' bottom: 'y' roi_pooling_param { pooled_h: 2 pooled_w: 2 }",
       "expected rows of 5 numbers");
  says("type: 'ROIPooling' bottom: 'r'", "a region in 0 x 0 bins");
  says("type: 'LSTMUnit' bottom: 'y' bottom: 'r'", "LSTMUnit of a cell");
  says("type: 'Filter'", "Filter of 1 bottoms");
  says("type: 'Exp' exp_param { base: 0 }", "Exp to the base 0");
  says("type: 'Log' log_param { base: 1 }", "Log to the base 1");
  says("type: 'Unheard'", "Unheard is not supported");
  CHECK(told("type: 'Log' log_param { base: 2 }").empty());
  CHECK(
      told("type: 'ROIPooling' bottom: 'r' roi_pooling_param { pooled_h: 2 pooled_w: 2 }").empty());
}

TEST_CASE("Caffe: many ways from the data to nowhere are each walked once") {
  std::string net = "layer { name: 'd' type: 'Data' top: 'b0' }\n";
  for (int i = 0; i < 40; ++i) {
    const std::string from = std::to_string(i), to = std::to_string(i + 1);
    net += "layer { name: 'p' type: 'Power' bottom: 'b" + from + "' top: 'p" + from + "' }\n" +
           "layer { name: 'q' type: 'ReLU' bottom: 'b" + from + "' top: 'q" + from + "' }\n" +
           "layer { name: 'e' type: 'Eltwise' bottom: 'p" + from + "' bottom: 'q" + from +
           "' top: 'b" + to + "' }\n";
  }
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "net.prototxt", net);
  CHECK_THROWS_WITH_AS(open_model(folder / "net.prototxt"),
                       doctest::Contains("does not say how large its data are"), Error);
}
