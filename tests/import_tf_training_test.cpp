// Graphs of TensorFlow 1 with what training leaves in them, operators on images, matrices, segments
// and spectra (tests/fixtures/make_tf_training.py, make_tf_images.py): outputs are TensorFlow's.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture, test::notes, test::output;

namespace {

// Runs a graph on what is recorded as "name:input", and compares every "name.output".
std::size_t check_outputs(const Model& model, const NamedTensors& known, const std::string& name) {
  const NamedTensors in = test::recorded_inputs(known, name + ":");
  CHECK(in.size() == model.graph->inputs.size());
  const Trace trace = test::run(model, in);
  const std::size_t compared = test::check_recorded(trace, known, 2e-6F, name + ".");
  CHECK(trace.outputs.size() == compared);
  return compared;
}

std::string refusal(const std::string& text) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "m.pbtxt", text);
  try {
    open_model(folder / "m.pbtxt");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    const std::string what = e.what();
    CHECK(what.find("m.pbtxt") != std::string::npos);
    return what;
  }
  return "";
}

const char* const kImage =
    "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } "
    "attr { key: \"shape\" value { shape { dim { size: 2 } dim { size: 6 } dim { size: 6 } "
    "dim { size: 4 } } } } }\n";

std::string ints(const std::string& name, const std::string& values, const std::string& dims) {
  return "node { name: \"" + name +
         "\" op: \"Const\" attr { key: \"dtype\" value { type: DT_INT32 } } attr { key: "
         "\"value\" value { tensor { dtype: DT_INT32 tensor_shape { " +
         dims + " } " + values + " } } } }\n";
}

// A node "y" of x and further inputs, behind the nodes that make them.
std::string node(const std::string& before, const std::string& op, const std::string& rest) {
  return kImage + before + "node { name: \"y\" op: \"" + op + "\" input: \"x\" " + rest + " }\n";
}

}  // namespace

TEST_CASE("tensorflow: graphs that were trained open as they infer") {
  const NamedTensors known = arrays(fixture("tf_graphs/training.npz"));
  const Model switched = open_model(fixture("tf_graphs/training.pb"));
  CHECK(check_outputs(switched, known, "training") == 1);
  CHECK(notes(switched, "phase_train chooses between training and inference; it is false here"));

  const Model shapeless = open_model(fixture("tf_graphs/shapeless.pb"));
  CHECK(check_outputs(shapeless, known, "shapeless") == 1);
  CHECK(notes(shapeless, "the shape of input image is what its readers want"));
  CHECK(notes(shapeless, "dropout: its random numbers are read as 0"));

  for (const char* checkpoint : {"trained_v2", "trained_v1"}) {
    const std::vector<std::string> with{fixture(std::string("tf_graphs/") + checkpoint) +
                                        (checkpoint[9] == '2' ? ".index" : "")};
    const Model trained = open_model(fixture("tf_graphs/trained_v2.meta"), with);
    CHECK(check_outputs(trained, known, checkpoint) == 2);
    CHECK(notes(trained, "what training alone needs"));
  }
  // What a step counts with is an integer in either version.
  for (const NamedTensor& t : load_tensors(fixture("tf_graphs/trained_v1")))
    if (t.name == "global_step") CHECK(t.tensor.data<std::int32_t>()[0] == 1);
}

TEST_CASE("tensorflow: what decoders, queues and parsers bring is an input") {
  const NamedTensors known = arrays(fixture("tf_graphs/training.npz"));
  const Model picture = open_model(fixture("tf_graphs/picture.pb"));
  CHECK(check_outputs(picture, known, "picture") == 1);
  CHECK(notes(picture, "what DecodeJpeg (DecodeJpeg) brings is an input"));
  CHECK(check_outputs(open_model(fixture("tf_graphs/queue.pb")), known, "queue") == 1);
  // Its variables lie in parts, and its examples are parsed.
  CHECK(check_outputs(open_model(fixture("tf_graphs/estimator")), known, "estimator") == 1);
}

TEST_CASE("tensorflow: recurrent cells that are one operator") {
  const NamedTensors known = arrays(fixture("tf_graphs/training.npz"));
  CHECK(check_outputs(open_model(fixture("tf_graphs/cells.pb")), known, "cells") == 6);
}

TEST_CASE("tensorflow: operators on images, matrices, segments and spectra") {
  const NamedTensors known = arrays(fixture("tf_graphs/images.npz"));
  const Trace trace =
      test::run(open_model(fixture("tf_graphs/images.pb")), test::recorded_inputs(known, "in:"));
  const auto tolerance = [](std::string_view name) { return name == "out_mfcc" ? 2e-5F : 4e-6F; };
  CHECK(test::check_outputs(trace, known, tolerance) == 46);

  const Trace old =
      test::run(open_model(fixture("tf_graphs/old_norm.pbtxt")), known.at("old:x").share());
  test::check_near(output(old, "y"), known.at("old:y"), 2e-6F);
  test::check_near(output(old, "z"), known.at("old:z"), 2e-6F);
}

TEST_CASE("tensorflow: an einsum of two free axes takes every extent") {
  const std::string values =
      "float_val: 1 float_val: 2 float_val: 3 float_val: 4 float_val: 5 "
      "float_val: 6";
  const test::TemporaryFolder folder;
  test::write_bytes(
      folder / "m.pbtxt",
      "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } "
      "attr "
      "{ key: \"shape\" value { shape { dim { size: -1 } dim { size: -1 } dim { size: 2 } } } } }\n"
      "node { name: \"w\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { "
      "key: "
      "\"value\" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } "
      "} " +
          values +
          " } } } }\n"
          "node { name: \"y\" op: \"Einsum\" input: \"x\" input: \"w\" attr { key: \"equation\" "
          "value { s: \"bsd,de->esb\" } } }\n");
  const Model model = open_model(folder / "m.pbtxt");
  for (const std::int64_t steps : {1, 3}) {
    Tensor x = Tensor::uninitialized(DType::f32, {2, steps, 2});
    float next = 1;
    for (float& v : x.mutable_data<float>()) v = next++;
    const Trace trace = test::run(model, x.share());
    const Tensor& y = trace.outputs.at(0).second;
    REQUIRE(y.shape() == Shape{3, steps, 2});
    for (std::int64_t e = 0; e < 3; ++e)
      for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t b = 0; b < 2; ++b) {
          const float* at = x.data<float>().data() + (b * steps + s) * 2;
          const auto column = static_cast<float>(e + 1);
          CHECK(y.data<float>()[static_cast<std::size_t>((e * steps + s) * 2 + b)] ==
                at[0] * column + at[1] * (column + 3));
        }
  }
}

TEST_CASE("tensorflow: settings that mean nothing are refused by a sentence") {
  const std::string random =
      "node { name: \"s\" op: \"Shape\" input: \"x\" }\n"
      "node { name: \"u\" op: \"RandomUniform\" input: \"s\" attr { key: \"dtype\" value { type: "
      "DT_FLOAT } } }\n"
      "node { name: \"keep\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { "
      "key: \"value\" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0.5 } } } }\n";
  CHECK(refusal(node(random + "node { name: \"a\" op: \"Add\" input: \"keep\" input: \"u\" }\n"
                              "node { name: \"f\" op: \"Floor\" input: \"a\" }\n",
                     "Mul", "input: \"f\""))
            .find("node u: a dropout that always drops; export the network for inference") !=
        std::string::npos);
  CHECK(refusal(node(random, "Mul", "input: \"u\"")).find("RandomUniform is not supported") !=
        std::string::npos);
  const std::string two = ints("size", "int_val: 0 int_val: 4", "dim { size: 2 }");
  CHECK(refusal(node(two, "ResizeBicubic", "input: \"size\"")).find("to or from 0") !=
        std::string::npos);
  const auto patches = [&](const char* size) {
    return refusal(node("", "ExtractImagePatches",
                        std::string("attr { key: \"ksizes\" value { list { i: 1 i: ") + size +
                            " i: 2 i: 1 } } } attr { key: \"strides\" value { list { i: 1 i: 1 i: "
                            "1 i: 1 } } } attr { key: \"rates\" value { list { i: 1 i: 1 i: 1 i: 1 "
                            "} } }"));
  };
  CHECK(patches("0").find("patches of 0") != std::string::npos);
  CHECK(patches("7").find("reach over 7 of 6") != std::string::npos);
  CHECK(patches("3").empty());
  const std::string far = ints("k", "int_val: 9", "");
  CHECK(refusal(node(far, "MatrixDiagPartV3", "input: \"k\"")).find("diagonal 9 of 6 by 4") !=
        std::string::npos);
  const std::string length = ints("n", "int_val: 9", "dim { size: 1 }");
  CHECK(refusal(node(length, "RFFT", "input: \"n\"")).find("RFFT of 9 points over 4 elements") !=
        std::string::npos);
  const std::string whole = ints("n", "int_val: 4", "dim { size: 1 }");
  CHECK(refusal(node(whole, "RFFT", "input: \"n\"")).find("output y is complex") !=
        std::string::npos);
  CHECK(refusal(kImage + whole +
                "node { name: \"c\" op: \"RFFT\" input: \"x\" input: \"n\" }\n"
                "node { name: \"y\" op: \"Tanh\" input: \"c\" }\n")
            .find("Tanh of complex values is not supported") != std::string::npos);
  const std::string ids = ints("ids", "int_val: 1 int_val: 0", "dim { size: 2 }");
  CHECK(refusal(node(ids, "SegmentMean", "input: \"ids\"")).find("not sorted from 0 on") !=
        std::string::npos);
  CHECK(refusal(node("", "QuantizeAndDequantizeV2", "input: \"x\" input: \"x\"")).find("bits") !=
        std::string::npos);
  CHECK(refusal(node("", "ComplexAbs", "")).find("is no complex value") != std::string::npos);
}
