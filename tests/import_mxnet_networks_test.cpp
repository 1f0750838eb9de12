// MXNet's symbols as people wrote them, Gluon's networks and detectors' boxes
// (fixtures/make_mxnet_networks.py), against what MXNet itself gave; settings that cannot be, by
// what is wrong with them.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

const NamedTensors& known() {
  static const NamedTensors all = test::arrays(test::fixture("frameworks/mxnet_more.npz"));
  return all;
}

Model opened(const std::string& name) {
  return open_model(test::fixture("frameworks/mxnet_" + name + "-symbol.json"));
}

// A network of one output whose arrays begin with its name.
Model compared(const std::string& name, const std::string& output) {
  CAPTURE(name);
  Model m = opened(name);
  const Trace trace = test::run(m, test::recorded_inputs(m, known(), name + "."));
  REQUIRE(trace.outputs.size() == 1);
  test::check_like(trace.outputs[0].second, known().at(output), 2e-6F);
  return m;
}

// Nodes behind x [1,4,6,6] (node 0) and rows [2,3,6] (node 1): what the refusal says.
std::string told(const std::string& nodes) {
  const test::TemporaryFolder folder;
  test::write_bytes(
      folder / "m-symbol.json",
      R"j({"nodes":[{"op":"null","name":"x","inputs":[],"attrs":{"__shape__":"(1, 4, 6, 6)"}},)j"
      R"j({"op":"null","name":"rows","inputs":[],"attrs":{"__shape__":"(2, 3, 6)"}},)j" +
          nodes + R"j(],"arg_nodes":[0,1],"heads":[[2,0,0]]})j");
  test::write_bytes(folder / "m-0000.params",
                    std::string("\x12\1\0\0\0\0\0\0", 8) + std::string(24, '\0'));
  try {
    open_model(folder / "m-symbol.json");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}
std::string node(const std::string& op, const std::string& inputs, const std::string& attributes) {
  return R"j({"op":")j" + op + R"j(","name":"l","inputs":[)j" + inputs + R"j(],"attrs":{)j" +
         attributes + "}}";
}

}  // namespace

TEST_CASE("MXNet: boxes, windows, ramps and new extents give what MXNet recorded") {
  const Model m = opened("more");
  const Trace trace = test::run(m, test::recorded_inputs(m, known()));
  CHECK(test::check_outputs(trace, known(), 4e-6F) == 47);
  CHECK(test::notes(m, "along the last one, as MXNet 1.9"));
}

TEST_CASE("MXNet: a symbol of 0.x with the user's own words, its input without a shape") {
  const Model m = compared("old", "old.softmax");
  CHECK(test::notes(m, "16 along each axis, which fits the weights after it"));
}

TEST_CASE("MXNet: cells step by step begin at zero for all of the batch") {
  const Model m = compared("cells", "cells.softmax");
  CHECK(test::notes(m, "is one row, for all of the batch"));
}

TEST_CASE("MXNet: inputs of Gluon's networks have the extents that their weights want") {
  compared("states", "states");
  const Model m = compared("images", "images");
  CHECK((m.graph->inputs.at(0).dims == Ints{-1, -1, -1, 3}));
}

TEST_CASE("MXNet: operators of the NumPy interface") { compared("numpy", "numpy"); }

TEST_CASE("MXNet: settings of boxes and extents that cannot be are refused") {
  const auto says = [](const std::string& nodes, const char* words) {
    const std::string got = told(nodes);
    CAPTURE(nodes);
    CHECK_MESSAGE(got.find(words) != std::string::npos, got);
    CHECK_MESSAGE(got.find("node l: ") != std::string::npos, got);
  };
  const std::string x = "[0,0,0]", rows = "[1,0,0]", both = "[0,0,0],[0,0,0]";
  says(node("_contrib_box_nms", rows, R"j("coord_start":"3")j"), "coord_start=3");
  says(node("_contrib_box_nms", rows, R"j("score_index":"-7")j"), "score_index=-7");
  says(node("_contrib_box_nms", rows, R"j("in_format":"edges")j"), "in_format=edges");
  says(node("_contrib_box_iou", "[0,0,0],[1,0,0]", ""), "box_iou of");
  says(node("_contrib_box_decode", both, ""), "box_decode of");
  says(node("_contrib_MultiBoxDetection", "[1,0,0],[1,0,0],[1,0,0]", ""), "and anchors [1,3,6]");
  says(node("Reshape", x, R"j("shape":"(0, -4, 3, -1, -2)")j"), "splits 4 into 3 and -1");
  says(node("Reshape", x, R"j("shape":"(-1, -1)")j"), "two extents that are left");
  says(node("Reshape", x, R"j("shape":"(5, -1)")j"), "144 elements to rows of 5");
  says(node("Reshape", x, R"j("shape":"(0, 0, 0, 0, 0)")j"), "beyond the 4 axes");
  says(node("_npx_reshape", x, R"j("newshape":"(-2, -3, -4)")j"), "drops an extent of 4");
  says(node("_np_reshape", x, R"j("newshape":"(-1, 4)","order":"F")j"), "order=F");
  says(node("UpSampling", x, R"j("scale":"0")j"), "UpSampling by 0");
  says(node("UpSampling", both, R"j("scale":"2","sample_type":"bilinear")j"), "with a kernel");
  says(node("Pooling", x, R"j("pool_type":"lp","kernel":"(2,2)","p_value":"9")j"), "p_value=9");
  says(node("Pooling", x,
            R"j("kernel":"(2,2)","stride":"(4,4)","pad":"(1,1)","pooling_convention":"full")j"),
       "lies in the padding alone");
  says(node("softmax", "[0,0,0],[0,0,0]", R"j("use_length":"True")j"), "lengths of rank 4");
  says(node("_contrib_AdaptiveAvgPooling2D", x, R"j("output_size":"(0, 2)")j"),
       "pooling to (0, 2)");
  says(node("_arange", "", R"j("start":"0","stop":"1e9")j"), "a ramp from 0");
  says(node("_arange", "", R"j("start":"0","stop":"4","step":"0")j"), "by 0");
  says(node("_eye", "", R"j("N":"99999999")j"), "a unit matrix");
  says(node("_split_v2", x, R"j("axis":"1","sections":"3")j"), "4 elements in 3 pieces");
  says(node("_split_v2", x, R"j("axis":"1","indices":"(0, 9)")j"), "before 9 of 4");
  says(node("_npi_einsum", both, R"j("subscripts":"ii,jk->ik")j"), "the equation does not fit");
  says(node("_npi_var", x, R"j("axis":"1","ddof":"4")j"), "ddof=4 of 4");
  says(node("_zeros", "", R"j("shape":"(99999999, 99999)")j"), "_zeros of");
  says(node("GroupNorm", "[0,0,0],[0,0,0],[0,0,0]", R"j("num_groups":"3")j"), "4 channels in 3");
  CHECK(told(node("Reshape", x, R"j("shape":"(-1, 0)","reverse":"True")j")).empty());
}

TEST_CASE("MXNet: many ways from an input to nowhere are each walked once") {
  // Level after level of two nodes, each of which reads both of the level before.
  std::string nodes = R"j({"op":"null","name":"in","inputs":[]})j";
  for (int level = 0; level < 30; ++level)
    for (int side = 0; side < 2; ++side) {
      // Node 2 is the input; a level's nodes are 3 + 2 level and the next.
      const int one = level == 0 ? 2 : 1 + 2 * level + side,
                other = level == 0 ? 2 : 2 + 2 * level - side;
      nodes += R"j(,{"op":"elemwise_add","name":"n","inputs":[[)j" + std::to_string(one) +
               ",0,0],[" + std::to_string(other) + ",0,0]]}";
    }
  CHECK(told(nodes).find("nothing tells the shape of the input") != std::string::npos);
}
