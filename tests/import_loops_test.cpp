// Loops, branches and recurrent layers that frameworks write with control flow of their own:
// Caffe's markers (fixtures/make_caffe_recurrent.py), TensorFlow 1's frames over TensorArrays
// (make_tf_loops.py), TensorFlow Lite's subgraphs (make_tflite_control.py). Outputs are those of
// the frameworks.
#include <doctest/doctest.h>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::arrays, test::fixture, test::output;

namespace {

// A run of what is recorded under names that begin so.
void check_run(const Model& model, const NamedTensors& known, const std::string& inputs,
               const std::string& outputs) {
  const Trace trace = test::run(model, test::recorded_inputs(known, inputs));
  CHECK(test::check_recorded(trace, known, 2e-6F, outputs) > 0);
}

int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node& node : graph.nodes) n += node.op->name == op ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("Caffe: LSTM and RNN begin anew where a marker says so") {
  const NamedTensors known = arrays(fixture("frameworks/caffe_recurrent.npz"));
  const Model model = open_model(fixture("frameworks/caffe_recurrent.prototxt"));
  CHECK(test::notes(model, "a marker of 0 begins a sequence anew"));
  NamedTensors in;
  for (const char* name : {"x", "cont", "still", "h", "c"})
    in.emplace(name, known.at(name).share());
  const Trace trace = test::run(model, in);
  for (const char* name : {"h_out", "c_out", "rnn"}) {
    CAPTURE(name);
    test::check_near(output(trace, name), known.at(std::string(name) + ".y"), 1e-6F);
  }
  // Other markers, another answer: they are read as data.
  Tensor on = Tensor::zeros(DType::f32, {5, 2});
  for (float& v : on.mutable_data<float>()) v = 1;
  in.erase("cont");
  in.emplace("cont", std::move(on));
  const Trace other = test::run(model, in);
  CHECK_FALSE(std::ranges::equal(output(other, "rnn").bytes(), output(trace, "rnn").bytes()));
}

TEST_CASE("Caffe: the largest elements, pyramids of pooling, chosen samples") {
  const NamedTensors known = test::arrays(fixture("frameworks/caffe_choices.npz"));
  const Model model = open_model(fixture("frameworks/caffe_choices.prototxt"));
  NamedTensors in;
  for (const char* name : {"x", "which"}) in.emplace(name, known.at(name).share());
  const Trace trace = test::run(model, in);
  for (const char* name : {"all", "one", "channel", "largest", "pyramid", "mean", "chosen"}) {
    CAPTURE(name);
    test::check_near(output(trace, name), known.at(name), 1e-6F);
  }
}

TEST_CASE("Caffe: SSD's detections of each image of a batch, as OpenCV finds them") {
  const NamedTensors known = test::arrays(fixture("frameworks/caffe_ssd.npz"));
  const Model model = open_model(fixture("frameworks/caffe_ssd.prototxt"));
  const Trace trace = test::run(model, known.at("image").share());
  test::check_near(output(trace, "out"), known.at("out"), 1e-6F);
}

TEST_CASE("Caffe: SSD's layers that lie are refused") {
  const test::TemporaryFolder folder;
  const std::string from = "input: \"x\" input_shape { dim: 1 dim: 8 dim: 3 dim: 4 }\n";
  const auto told = [&](const std::string& layer, const char* words) {
    CAPTURE(words);
    test::write_bytes(
        folder / "m.prototxt",
        from + "layer { name: \"l\" bottom: \"x\" bottom: \"x\" top: \"y\" " + layer + " }");
    CHECK_THROWS_WITH_AS(open_model(folder / "m.prototxt"), doctest::Contains(words), Error);
  };
  const std::string prior = "type: \"PriorBox\" prior_box_param { ";
  told(prior + "}", "0 min_size and 0 max_size");
  told(prior + "min_size: 3 min_size: 4 max_size: 5 }", "2 min_size and 1 max_size");
  told(prior + "min_size: 0.5 }", "boxes of 0.5 pixels");
  told(prior + "min_size: 3 aspect_ratio: -1 }", "an aspect_ratio of -1");
  told(prior + "min_size: 3 variance: 1 variance: 2 }", "2 variances");
  told(
      "bottom: \"x\" type: \"DetectionOutput\" detection_output_param { num_classes: 2 code_type: "
      "CORNER }",
      "code_type CORNER; only CENTER_SIZE is read");
  told(
      "bottom: \"x\" type: \"DetectionOutput\" detection_output_param { num_classes: 2 code_type: "
      "CENTER_SIZE }",
      "priors of [1,8,3,4]");
}

TEST_CASE("Caffe: stochastic pooling at test time weighs a window by itself") {
  const NamedTensors known = arrays(fixture("frameworks/caffe_recurrent.npz"));
  const Model model = open_model(fixture("frameworks/caffe_stochastic.prototxt"));
  test::check_near(output(test::run(model, known.at("pool.x").share()), "y"), known.at("pool.y"),
                   1e-6F);
}

TEST_CASE("Caffe: recurrent layers that lie about their extents are refused") {
  const test::TemporaryFolder folder;
  const auto told = [&](const std::string& inputs, const std::string& layer, const char* words) {
    test::write_bytes(folder / "m.prototxt",
                      inputs + "layer { name: \"l\" type: \"LSTM\" " + layer + " top: \"y\" }");
    CHECK_THROWS_WITH_AS(open_model(folder / "m.prototxt"), doctest::Contains(words), Error);
  };
  const std::string two = R"(bottom: "x" bottom: "cont" recurrent_param { num_output: 4 })";
  const auto inputs = [](const char* x, const char* cont) {
    return fmt::format(R"(input: "x" input_shape {{ {} }} input: "cont" input_shape {{ {} }} )", x,
                       cont);
  };
  told(inputs("dim: 1000000000 dim: 1 dim: 3", "dim: 1000000000 dim: 1"), two, "1000000000 steps");
  told(inputs("dim: 5 dim: 1 dim: 3", "dim: 4 dim: 1"), two, "markers beside a sequence");
  told(inputs("dim: 5 dim: 1 dim: 3", "dim: 5 dim: 1"), R"(bottom: "x")", "num_output is 0");
  told(inputs("dim: 5 dim: 1 dim: 3", "dim: 5 dim: 1"),
       R"(bottom: "x" recurrent_param { num_output: 4 })", "LSTM of 1 bottoms");
}

TEST_CASE("tensorflow: dynamic_rnn's frame over TensorArrays, and a loop on data") {
  const NamedTensors known = arrays(fixture("tf_graphs/loops.npz"));
  for (const std::string name : {"lstm", "halved", "lengths"}) {
    CAPTURE(name);
    const Model model = open_model(fixture("tf_graphs/loops_" + name + ".pb"));
    check_run(model, known, name + ":", name + ".");
    CHECK(count(*model.graph, "loop") == (name == "halved" ? 1 : 0));
    CHECK(test::notes(model, "as far as the lists reach") == (name == "lengths"));
  }
}

TEST_CASE("tensorflow: loops over lists end where the data say") {
  const NamedTensors known = arrays(fixture("tf_graphs/branches.npz"));
  for (const std::string name : {"ragged", "ragged_v1"}) {
    const Model model = open_model(fixture("tf_graphs/" + name + ".pb"));
    for (const std::string run : {"0", "1", "2"}) {
      CAPTURE(name + run);
      check_run(model, known, name + "." + run + ":", name + "." + run + ".");
    }
  }
}

TEST_CASE("tensorflow: a branch on data takes the side that its predicate names") {
  const NamedTensors known = arrays(fixture("tf_graphs/branches.npz"));
  const Model model = open_model(fixture("tf_graphs/branches.pb"));
  CHECK(test::notes(model, "both sides are computed"));
  for (const std::string run : {"0", "1", "2"}) {
    CAPTURE(run);
    check_run(model, known, "branches." + run + ":", "branches." + run + ".");
  }
  // A side that asks for a predicate that is not there.
  std::string bytes = test::read_bytes(fixture("tf_graphs/branches.pb"));
  const std::size_t side = bytes.find(
      "\n\x0f"
      "cond/mul/Switch");
  REQUIRE(side != std::string::npos);
  const std::size_t predicate = bytes.find("cond/pred_id", side);
  REQUIRE(predicate != std::string::npos);
  bytes.replace(predicate, 12, "cond/pred_if");
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "side.pb", bytes);
  CHECK_THROWS_WITH_AS(open_model(folder / "side.pb"),
                       doctest::Contains("nothing makes the tensor cond/pred_if"), Error);
}

TEST_CASE("tensorflow: shapes that a run computes, of two batches") {
  const NamedTensors known = arrays(fixture("tf_graphs/shapes.npz"));
  const Model model = open_model(fixture("tf_graphs/shapes.pb"));
  for (const std::string batch : {"2", "3"}) {
    CAPTURE(batch);
    check_run(model, known, "shapes." + batch + ":", "shapes." + batch + ".");
  }
}

TEST_CASE("TensorFlow: elements in other places, functions of a few steps") {
  const NamedTensors known = test::arrays(fixture("tf_graphs/places.npz"));
  const Model model = open_model(fixture("tf_graphs/places.pb"));
  const Trace trace = test::run(model, test::recorded_inputs(known, "in:"));
  // A logarithm has other bits there; fake quantisation and all else has the same.
  const auto tolerance = [](std::string_view name) {
    return name.starts_with("out_xlog") || name == "out_l2" || name == "out_product" ? 2e-6F : 0.0F;
  };
  CHECK(test::check_outputs(trace, known, tolerance) == 35);
}

TEST_CASE("tensorflow: what chooses some of many, and what follows from the choice") {
  const NamedTensors known = arrays(fixture("tf_graphs/selection.npz"));
  const Model model = open_model(fixture("tf_graphs/selection.pb"));
  CHECK(count(*model.graph, "non_max_suppression") == 5);
  check_run(model, known, "selection:", "selection.");
  // A sigma below 0 would raise them.
  std::string bytes = test::read_bytes(fixture("tf_graphs/selection.pb"));
  const std::string name = "NonMaxSuppressionV5/soft_nms_sigma";
  const std::size_t at = bytes.find(name);
  REQUIRE(at != std::string::npos);
  const std::size_t value = bytes.find(std::string("*\4\0\0\0\0", 6), at);
  REQUIRE(value != std::string::npos);
  bytes.replace(value + 2, 4, std::string("\0\0\0\xbf", 4));
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "soft.pb", bytes);
  CHECK_THROWS_WITH_AS(open_model(folder / "soft.pb"), doctest::Contains("no constant from 0 up"),
                       Error);
}

TEST_CASE("tflite: WHILE and IF run what their condition says, CALL_ONCE sets variables") {
  const NamedTensors known = arrays(fixture("tflite_ops/control.npz"));
  const Model model = open_model(fixture("tflite_ops/control.tflite"));
  // A branch is a loop of at most one iteration for each of its sides.
  CHECK(count(*model.graph, "loop") == 3);
  for (const std::string run : {"0", "1", "2"}) {
    CAPTURE(run);
    check_run(model, known, "control." + run + ".in.", "control." + run + ".out.");
  }
}

// As ONNX wants it, to which such a graph is written.
TEST_CASE("tflite: no name of a body stands for a value around it") {
  const Model model = open_model(fixture("tflite_ops/control.tflite"));
  int bodies = 0;
  for (const Node& node : model.graph->nodes)
    for (const auto& body : node.subgraphs) {
      ++bodies;
      for (const std::string& name : body->value_names) {
        CAPTURE(name);
        CHECK(model.graph->find_value(name) == kAbsent);
      }
    }
  CHECK(bodies == 3);
}

TEST_CASE("tflite: recurrent layers of two directions") {
  const NamedTensors known = arrays(fixture("tflite_ops/control.npz"));
  const Model model = open_model(fixture("tflite_ops/bidirectional.tflite"));
  check_run(model, known, "bidirectional.0.in.", "bidirectional.0.out.");
}

TEST_CASE("tflite: subgraphs that call each other without end, or that are not there") {
  const test::TemporaryFolder folder;
  std::string file = test::read_bytes(fixture("tflite_ops/control.tflite"));
  const std::string path = folder / "m.tflite";
  // Where the options of WHILE keep the indices 1 and 2 of its condition and its body.
  const std::string indices("\x01\x00\x00\x00\x02\x00\x00\x00", 8),
      turned("\x02\x00\x00\x00\x01\x00\x00\x00", 8);
  int refused = 0;
  for (const std::string& of : {indices, turned})
    for (std::size_t at = file.find(of); at != std::string::npos; at = file.find(of, at + 1))
      for (const char index : {'\x00', '\x7f'}) {
        std::string bad = file;
        bad[at] = bad[at + 4] = index;
        test::write_bytes(path, bad);
        try {
          open_model(path);
        } catch (const Error& e) {
          CHECK(e.exit_code() == 3);
          refused += std::string(e.what()).find(" of 6") != std::string::npos ? 1 : 0;
        }
      }
  CHECK(refused >= 2);
}
