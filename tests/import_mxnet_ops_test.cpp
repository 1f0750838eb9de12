// MXNet's plain operators: a network of a branch for each (fixtures/make_mxnet_ops.py), against
// what MXNet itself gave; and settings that cannot be, by what is wrong with them.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

// One operator on x [1,4,6,6], twice where it wants two: what the refusal says, nothing where it is
// read.
std::string told(const std::string& op, const std::string& attributes) {
  const test::TemporaryFolder folder;
  test::write_bytes(
      folder / "m-symbol.json",
      R"j({"nodes":[{"op":"null","name":"x","inputs":[],"attrs":{"__shape__":"(1, 4, 6, 6)"}},)j"
      R"j({"op":")j" +
          op + R"j(","name":"l","inputs":[[0,0,0],[0,0,0]],"attrs":{)j" + attributes +
          R"j(}}],"arg_nodes":[0],"heads":[[1,0,0]]})j");
  test::write_bytes(folder / "m-0000.params",
                    std::string("\x12\1\0\0\0\0\0\0", 8) + std::string(24, '\0'));
  try {
    open_model(folder / "m-symbol.json");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("MXNet: plain operators give what MXNet recorded") {
  const NamedTensors known = test::arrays(test::fixture("frameworks/mxnet_ops.npz"));
  const Model m = open_model(test::fixture("frameworks/mxnet_ops-symbol.json"));
  const NamedTensors in = test::recorded_inputs(m, known);
  const Trace trace = test::run(m, in);
  CHECK(test::check_outputs(trace, known, 4e-6F) == 146);
  CHECK(trace.outputs.size() + in.size() == known.size());
}

TEST_CASE("MXNet: settings of plain operators that cannot be are refused by what is wrong") {
  const auto says = [](const char* op, const char* attributes, const char* words) {
    const std::string got = told(op, attributes);
    CAPTURE(std::string(op));
    CHECK_MESSAGE(got.find(words) != std::string::npos, got);
  };
  says("topk", R"j("k":"9")j", "the first 9 of 6");
  says("topk", R"j("ret_typ":"some")j", "ret_typ=some");
  says("argsort", R"j("dtype":"uint8")j", "places as uint8");
  says("argmax", R"j("axis":"4")j", "axis 4");
  says("sum", R"j("axis":"(1, 1)")j", "axis 1 stands twice");
  says("norm", R"j("ord":"3")j", "ord=3");
  says("take", R"j("mode":"mirror")j", "mode=mirror");
  says("one_hot", R"j("depth":"99999999999")j", "depth=99999999999");
  says("scatter_nd", R"j("shape":"(9999999, 9999999)")j", "these extents");
  says("unravel_index", R"j("shape":"(0, 3)")j", "an extent of 0");
  says("tile", R"j("reps":"(2, 99999999999)")j", "99999999999 copies");
  says("repeat", R"j("repeats":"-1","axis":"1")j", "-1 copies");
  says("reverse", "", "reverse without an axis");
  says("diag", R"j("axis1":"2","axis2":"-2")j", "a diagonal of one axis");
  says("diag", R"j("axis1":"2","axis2":"3","k":"7")j", "k=7 of 6 x 6");
  says("depth_to_space", R"j("block_size":"0")j", "block_size=0");
  says("broadcast_to", R"j("shape":"(0, 2)")j", "2 extents for rank 4");
  says("broadcast_axis", R"j("axis":"0","size":"(1, 2)")j", "1 axes, 2 extents");
  says("reshape_like", R"j("lhs_begin":"3","lhs_end":"1")j", "an end before its begin");
  says("Crop", R"j("offset":"(1, 0)")j", "Crop to 6 from 1 of 6");
  says("SequenceMask", R"j("axis":"2")j", "axis=2");
  says("SequenceReverse", R"j("axis":"1")j", "axis=1");
  says("_contrib_interleaved_matmul_selfatt_qk", R"j("heads":"5")j", "rank 4");
  says("_linalg_gemm2", R"j("axis":"0")j", "along another axis");
  says("Cast", R"j("dtype":"complex64")j", "a cast to complex64");
  says("smooth_l1", R"j("scalar":"0")j", "scalar=0");
  says("_contrib_BilinearResize2D", R"j("height":"-1","width":"3")j", "a resize to -1 x 3");
  says("_contrib_BilinearResize2D", R"j("mode":"odd_scale")j", "mode=odd_scale");
  says("GridGenerator", R"j("target_shape":"(0, 3)")j", "target_shape of two extents");
  says("BilinearSampler", "", "[batch, 2, height, width]");
  says("_contrib_ROIAlign", R"j("pooled_size":"(2, 2)")j", "hangs on the region");
  says("ROIPooling", R"j("pooled_size":"(2, 2)")j", "regions that are not [n, 5]");
  says("_contrib_MultiBoxPrior", R"j("steps":"(1, 2, 3)")j", "steps of 3 numbers");
  CHECK(told("broadcast_hypot", "").empty());
}
