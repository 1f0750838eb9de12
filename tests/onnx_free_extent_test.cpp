// A quantised network whose batch is free, written as ONNX: its forms do not need that extent, and
// constants have the type of the integers they belong to. tests/onnx_export_check.py and
// onnx.checker judge whole files.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/graph/builder.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

template <class T>
Tensor three_rows() {
  std::vector<T> values;
  for (int i = 0; i < 24; ++i) values.push_back(static_cast<T>(11 * i - 100));
  return Tensor::of<T>({3, 8}, std::span<const T>(values));
}

}  // namespace

TEST_CASE("onnx: integers of a free batch keep their bits when written and read again") {
  for (const DType dtype : {DType::i8, DType::u8}) {
    CAPTURE(name(dtype));
    GraphBuilder b("free");
    ValueId x = b.input("x", dtype, {-1, 8});
    for (const char* node : {"first", "second"})
      x = b.op("tflite_requantize", node, {x},
               {{"x_scale", 0.5F},
                {"x_zero", std::int64_t{3}},
                {"y_scale", 0.375F},
                {"y_zero", std::int64_t{1}}});
    b.output(b.op("tflite_mean", "mean", {x},
                  {{"axes", Ints{1}}, {"x_scale", 0.375F}, {"y_scale", 0.125F}}));
    Model model;
    *model.graph = b.finish();
    const test::TemporaryFolder folder;
    save_model(model, folder / "free.onnx");
    const Model back = open_model(folder / "free.onnx");
    CHECK(back.graph->outputs.at(0).dtype == dtype);
    const Tensor in = dtype == DType::i8 ? three_rows<std::int8_t>() : three_rows<std::uint8_t>();
    const Trace want = test::run(model, in.share()), got = test::run(back, in.share());
    const Tensor &a = want.outputs.at(0).second, &c = got.outputs.at(0).second;
    REQUIRE(a.type() == c.type());
    CHECK(a.numel() == 3);
    CHECK(std::ranges::equal(a.bytes(), c.bytes()));
  }
}

// onnx.checker wants the element type and the rank of every output, also behind a body
// (TensorFlow's soft NMS is a scan) and behind shapes that a run computes.
TEST_CASE("onnx: outputs whose extents only a run tells are written with type and rank") {
  const test::TemporaryFolder folder;
  for (const auto& [file, output, dtype, rank] :
       {std::tuple{"tf_graphs/combined.pb", "soft_few_indices", DType::i32, 1},
        {"tf_graphs/combined.pb", "soft_few_scores", DType::f32, 1},
        {"onnxruntime/operators_integer.onnx", "qlinearadd1.y0", DType::u8, 3}}) {
    CAPTURE(std::string(output));
    save_model(open_model(test::fixture(file)), folder / "out.onnx");
    const Model back = open_model(folder / "out.onnx");
    bool found = false;
    for (const Declaration& d : back.graph->outputs) {
      CHECK(d.ranked);
      if (back.graph->value_name(d.value) != output) continue;
      found = true;
      CHECK(d.dtype == dtype);
      CHECK(static_cast<int>(d.dims.size()) == rank);
    }
    CHECK(found);
  }
}

TEST_CASE("onnx: an empty list of extents is written as one") {
  GraphBuilder b("scalar");
  ValueId x = b.input("x", DType::f32, {});
  x = b.op("expand", "wide", {x}, {{"shape", Ints{}}});
  b.output(b.op("tile", "tiled", {x}, {{"repeats", Ints{}}}));
  Model model;
  *model.graph = b.finish();
  const test::TemporaryFolder folder;
  save_model(model, folder / "scalar.onnx");
  const Trace got = test::run(open_model(folder / "scalar.onnx"), Tensor::of<float>({}, {2.5F}));
  CHECK(got.outputs.at(0).second.shape() == Shape{});
  CHECK(got.outputs.at(0).second.data<float>()[0] == 2.5F);
}
