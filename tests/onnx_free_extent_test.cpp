// A quantised network whose batch is free, written as ONNX: zero points have the type of the
// integers they belong to, although no shape is known. tests/onnx_export_check.py and onnx.checker
// judge whole files.
#include <doctest/doctest.h>

#include "engine/graph/builder.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;

TEST_CASE("onnx: zero points of a free batch are integers of their own type") {
  for (const DType dtype : {DType::i8, DType::u8}) {
    CAPTURE(name(dtype));
    GraphBuilder b("free");
    ValueId x = b.input("x", dtype, {-1, 4});
    for (const char* node : {"first", "second"})
      x = b.op("tflite_requantize", node, {x},
               {{"x_scale", 0.5F},
                {"x_zero", std::int64_t{3}},
                {"y_scale", 0.25F},
                {"y_zero", std::int64_t{1}}});
    b.output(x);
    Model model;
    *model.graph = b.finish();
    const test::TemporaryFolder folder;
    save_model(model, folder / "free.onnx");
    const Model back = open_model(folder / "free.onnx");
    int zeros = 0;
    for (const auto& [id, tensor] : back.graph->initializers) {
      if (tensor.dtype() == DType::f32) continue;
      CHECK(tensor.dtype() == dtype);
      ++zeros;
    }
    CHECK(zeros == 4);
    CHECK(back.graph->outputs.at(0).dtype == dtype);
  }
}
