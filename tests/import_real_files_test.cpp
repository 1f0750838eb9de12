// Real files of every framework, below the folder that ETALON_FIXTURES names: each of them opens,
// or stands on a list with the reason why not; networks with recorded outputs are run and judged,
// weights without a graph in the network they belong to (--arch). ONNX models are judged by
// import_real_weights_test.cpp.
//   ETALON_FIXTURES=FOLDER build/release/bin/etalon_tests -tc='real files*'
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "bench/compare/network.h"
#include "engine/ops/fields.h"
#include "importers/arch.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

struct Recorded {
  std::string_view model, input;
  std::vector<std::string_view> outputs;  // FILE or FILE:array, in the order of the network's
  std::string_view weights_of = {};       // "" with `lenet`: the format says
  bool lenet = false;                     // weights alone: of model:lenet and a softmax
  std::string_view differs = {};          // why the framework's own answer is another
};

const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> rows{
      {"caffe/ultraface_slim320/slim-320.prototxt",
       "caffe/ultraface_slim320/slim-320.io_opencv46/input_input.npy",
       {"caffe/ultraface_slim320/slim-320.io_opencv46/output_boxes.npy",
        "caffe/ultraface_slim320/slim-320.io_opencv46/output_scores.npy"}},
      {"darknet/gen_zoo/zoo.cfg", "darknet/gen_zoo/input.npy", {"darknet/gen_zoo/output.npy"}},
      {"keras_h5/tiny_ic_resnet8/pretrainedResnet.h5",
       "keras_h5/tiny_ic_resnet8/input.npy",
       {"keras_h5/tiny_ic_resnet8/output.npy"}},
      {"keras_h5/face_classification/fer2013_big_XCEPTION.54-0.66.hdf5",
       "keras_h5/face_classification/big_XCEPTION_input.npy",
       {"keras_h5/face_classification/big_XCEPTION_output.npy"}},
      {"neon/gen_neon26_mlp/model.prm",
       "neon/gen_neon26_mlp/input.npy",
       {"neon/gen_neon26_mlp/output.npy"}},
      {"neon/gen_neon26_lstm/model.prm",
       "neon/gen_neon26_lstm/input.npy",
       {"neon/gen_neon26_lstm/output.npy"}},
      {"tfjs/human_antispoof/antispoof.json",
       "tfjs/human_antispoof/io_input_conv2d_input.npy",
       {"tfjs/human_antispoof/io_output_Identity.npy"}},
      {"tfjs/human_emotion/emotion.json",
       "tfjs/human_emotion/io_input_input_1.npy",
       {"tfjs/human_emotion/io_output_Identity.npy"}},
      {"tfjs/layers_lenet/model.json",
       "tfjs/layers_lenet/io_input.npy",
       {"tfjs/layers_lenet/io_output.npy"}},
      {"tfjs/layers_convzoo/model.json",
       "tfjs/layers_convzoo/io_input.npy",
       {"tfjs/layers_convzoo/io_output.npy", "tfjs/layers_convzoo/io_output1.npy"}},
      {"tflite/half_plus_two/model.tflite",
       "tflite/half_plus_two/model.io/input0.npy",
       {"tflite/half_plus_two/model.io/output0.npy"}},
      {"tflite/tiny_ic_resnet8/pretrainedResnet.tflite",
       "tflite/tiny_ic_resnet8/pretrainedResnet.io/input0.npy",
       {"tflite/tiny_ic_resnet8/pretrainedResnet.io/output0.npy"}},
      {"tflite/tiny_ic_resnet8/pretrainedResnet_quant.tflite",
       "tflite/tiny_ic_resnet8/pretrainedResnet_quant.io/input0.npy",
       {"tflite/tiny_ic_resnet8/pretrainedResnet_quant.io/output0.npy"},
       "",
       false,
       "recorded with XNNPACK; TensorFlow Lite's reference kernels (tflite-runtime 2.14, "
       "BUILTIN_REF) give our bits"},
      {"tflite/tiny_vww_mobilenet/vww_96_float.tflite",
       "tflite/tiny_vww_mobilenet/vww_96_float.io/input0.npy",
       {"tflite/tiny_vww_mobilenet/vww_96_float.io/output0.npy"}},
      {"tflite/tiny_vww_mobilenet/vww_96_int8.tflite",
       "tflite/tiny_vww_mobilenet/vww_96_int8.io/input0.npy",
       {"tflite/tiny_vww_mobilenet/vww_96_int8.io/output0.npy"}},
      {"tflite/ultraface/version-slim-320_without_postprocessing.tflite",
       "tflite/ultraface/version-slim-320_without_postprocessing.io/input0.npy",
       {"tflite/ultraface/version-slim-320_without_postprocessing.io/output0.npy",
        "tflite/ultraface/version-slim-320_without_postprocessing.io/output1.npy"}},
      {"tflite/ultraface/version-RFB-320_without_postprocessing.tflite",
       "tflite/ultraface/version-RFB-320_without_postprocessing.io/input0.npy",
       {"tflite/ultraface/version-RFB-320_without_postprocessing.io/output0.npy",
        "tflite/ultraface/version-RFB-320_without_postprocessing.io/output1.npy"}},
      {"generated/theano/lenet_pkl_utils.zip",
       "generated/theano/lenet.io.npz:x",
       {"generated/theano/lenet.io.npz:y"},
       "",
       true},
      {"generated/theano/lenet_layers_best_model.pkl",
       "generated/theano/lenet.io.npz:x",
       {"generated/theano/lenet.io.npz:y"},
       "",
       true},
      {"generated/theano/lenet_values_proto2.pkl",
       "generated/theano/lenet.io.npz:x",
       {"generated/theano/lenet.io.npz:y"},
       "theano",
       true},
      {"generated/lasagne/lenet_model.npz",
       "generated/lasagne/lenet.io.npz:x",
       {"generated/lasagne/lenet.io.npz:y"},
       "lasagne",
       true},
      {"generated/chainer/lenet.npz",
       "generated/chainer/lenet.io.npz:x",
       {"generated/chainer/lenet.io.npz:y"},
       "",
       true},
      {"generated/chainer/lenet.h5",
       "generated/chainer/lenet.io.npz:x",
       {"generated/chainer/lenet.io.npz:y"},
       "",
       true},
      {"generated/torch-2.15/lenet.state_dict.pt",
       "generated/torch-2.15/lenet.state_dict.pt.io.npz:in_input",
       {"generated/torch-2.15/lenet.state_dict.pt.io.npz:out_output"},
       "",
       true},
      {"generated/torch-2.15/lenet.state_dict.legacy.pth",
       "generated/torch-2.15/lenet.state_dict.legacy.pth.io.npz:in_input",
       {"generated/torch-2.15/lenet.state_dict.legacy.pth.io.npz:out_output"},
       "",
       true},
      {"generated/mxnet-1.9.1/lenet.gluon.params",
       "generated/mxnet-1.9.1/lenet.gluon.params.io.npz:in_data",
       {"generated/mxnet-1.9.1/lenet.gluon.params.io.npz:out_output"},
       "",
       true},
      {"generated/tensorflow-2.21-keras-3.15/lenet.ckpt",
       "generated/tensorflow-2.21-keras-3.15/lenet.ckpt.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.ckpt.io.npz:out_output"},
       "",
       true},
      {"generated/caffe/lenet.caffemodel",
       "generated/caffe/lenet.io.npz:x",
       {"generated/caffe/lenet.io.npz:y"}},
      {"generated/caffe/lenet.caffemodel.h5",
       "generated/caffe/lenet.io.npz:x",
       {"generated/caffe/lenet.io.npz:y"}},
      {"generated/darknet/lenet.cfg",
       "generated/darknet/lenet.io.npz:x",
       {"generated/darknet/lenet.io.npz:y"}},
      {"generated/mxnet-1.9.1/lenet-symbol.json",
       "generated/mxnet-1.9.1/lenet-0000.params.io.npz:in_data",
       {"generated/mxnet-1.9.1/lenet-0000.params.io.npz:out_output"}},
      {"generated/neon/lenet.prm",
       "generated/neon/lenet.io.npz:x",
       {"generated/neon/lenet.io.npz:y"}},
      {"generated/torch7/lenet.t7",
       "generated/torch7/lenet.io.npz:x",
       {"generated/torch7/lenet.io.npz:y"}},
      {"generated/tensorflow1/lenet.frozen.pb",
       "generated/tensorflow1/lenet.io.npz:x",
       {"generated/tensorflow1/lenet.io.npz:y"}},
      {"generated/tensorflow1/lenet.ckpt.meta",
       "generated/tensorflow1/lenet.io.npz:x",
       {"generated/tensorflow1/lenet.io.npz:y"}},
      {"generated/tfjs/lenet/model.json",
       "generated/tfjs/lenet.io.npz:x",
       {"generated/tfjs/lenet.io.npz:y"}},
      {"generated/tfjs/graph_lenet/model.json",
       "generated/tfjs/graph_lenet.io.npz:x",
       {"generated/tfjs/graph_lenet.io.npz:y"}},
      {"generated/keras-tensorflow/lenet.h5",
       "generated/keras-tensorflow/lenet.io.npz:x",
       {"generated/keras-tensorflow/lenet.io.npz:y"}},
      {"generated/keras-theano/lenet.h5",
       "generated/keras-theano/lenet.io.npz:x",
       {"generated/keras-theano/lenet.io.npz:y"}},
      {"generated/keras-cntk/lenet.h5",
       "generated/keras-cntk/lenet.io.npz:x",
       {"generated/keras-cntk/lenet.io.npz:y"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.h5",
       "generated/tensorflow-2.21-keras-3.15/lenet.h5.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.h5.io.npz:out_output"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.keras",
       "generated/tensorflow-2.21-keras-3.15/lenet.keras.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.keras.io.npz:out_output"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.savedmodel",
       "generated/tensorflow-2.21-keras-3.15/lenet.savedmodel.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.savedmodel.io.npz:out_output"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.frozen.pb",
       "generated/tensorflow-2.21-keras-3.15/lenet.frozen.pb.io.npz:in_image_0",
       {"generated/tensorflow-2.21-keras-3.15/lenet.frozen.pb.io.npz:out_Identity_0"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.float32.tflite",
       "generated/tensorflow-2.21-keras-3.15/lenet.float32.tflite.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.float32.tflite.io.npz:out_output"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.float16.tflite",
       "generated/tensorflow-2.21-keras-3.15/lenet.float16.tflite.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.float16.tflite.io.npz:out_output"}},
      {"generated/tensorflow-2.21-keras-3.15/lenet.int8.tflite",
       "generated/tensorflow-2.21-keras-3.15/lenet.int8.tflite.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.int8.tflite.io.npz:out_output"},
       "",
       false,
       "recorded with XNNPACK; TensorFlow Lite's reference kernels (tflite-runtime 2.14, "
       "BUILTIN_REF) give our bits"},
      {"generated/tensorflow-2.21-keras-3.15/lenet.dynamic.tflite",
       "generated/tensorflow-2.21-keras-3.15/lenet.dynamic.tflite.io.npz:in_image",
       {"generated/tensorflow-2.21-keras-3.15/lenet.dynamic.tflite.io.npz:out_output"}},
      {"generated/torch-2.15/lenet.torchscript.pt",
       "generated/torch-2.15/lenet.torchscript.pt.io.npz:in_input",
       {"generated/torch-2.15/lenet.torchscript.pt.io.npz:out_output"}},
      {"pytorch/gen_torch113_lenet/scripted.torchscript.pt",
       "pytorch/gen_torch113_lenet/input.npy",
       {"pytorch/gen_torch113_lenet/output.npy"}},
      {"pytorch/gen_torch113_lenet/traced.torchscript.pt",
       "pytorch/gen_torch113_lenet/input.npy",
       {"pytorch/gen_torch113_lenet/output.npy"}},
      {"pytorch/gen_torch113_rnn/scripted.torchscript.pt",
       "pytorch/gen_torch113_rnn/input.npy",
       {"pytorch/gen_torch113_rnn/output.npy"}},
      {"pytorch/gen_torch113_rnn/traced.torchscript.pt",
       "pytorch/gen_torch113_rnn/input.npy",
       {"pytorch/gen_torch113_rnn/output.npy"}},
      {"pytorch/coremltools_torchscript/DemoNet.pt",
       "pytorch/coremltools_torchscript/DemoNet.io_input.npy",
       {"pytorch/coremltools_torchscript/DemoNet.io_output.npy"}},
      {"generated/torch-2.15/lenet.pt2",
       "generated/torch-2.15/lenet.pt2.io.npz:in_input",
       {"generated/torch-2.15/lenet.pt2.io.npz:out_output"}},
      {"generated/cntk/lenet.model",
       "generated/cntk/lenet.io.npz:x",
       {"generated/cntk/lenet.io.npz:y"}},
      {"generated/openvino-2026.4/lenet.xml",
       "generated/openvino-2026.4/lenet.xml.io.npz:in_input",
       {"generated/openvino-2026.4/lenet.xml.io.npz:out_output"}},
      {"generated/onnxruntime-1.31/lenet.ort",
       "generated/onnxruntime-1.31/lenet.ort.io.npz:in_input",
       {"generated/onnxruntime-1.31/lenet.ort.io.npz:out_output"}},
      {"generated/coremltools-9.0/lenet.mlmodel",
       "generated/coremltools-9.0/lenet.mlmodel.io.npz:in_input",
       {"generated/coremltools-9.0/lenet.mlmodel.io.npz:out_output_expected_from_torch"}},
      {"generated/coremltools-9.0/lenet.int8linear.mlmodel",
       "generated/coremltools-9.0/lenet.int8linear.mlmodel.io.npz:in_input",
       {"generated/coremltools-9.0/lenet.int8linear.mlmodel.io.npz:out_output_expected_float_"
        "torch"},
       "",
       false,
       "what was recorded is the network before its weights were quantised"},
  };
  return rows;
}

struct Reason {
  std::string_view path, reason;
};

// No model, by the end of the path: a part of one that is named by another file, or no model's.
constexpr Reason kParts[] = {
    {".md", "text"},
    {".py.txt", "text"},
    {".bmp", "an image"},
    {"fingerprint.pb", "a SavedModel's checksum"},
    {".arch.json", "a Keras configuration without its weights, which lie beside it as .h5"},
    {"keras_v3/art_mnist/config.json", "a member of the .keras beside it"},
    {"keras_v3/art_mnist/metadata.json", "a member of the .keras beside it"},
    {"tensorflow1/checkpoint", "the name of the newest checkpoint, as text"},
    {"assets/foo.txt", "text"},
    {".bin", "weights of the .json, .param or .xml beside it, or of a package"},
};

// Refused, and the Error says why.
constexpr Reason kRefused[] = {
    {"pytorch/burn_pytorch_tests/test_data__broken.pt", "broken on purpose"},
    {"pytorch/gen_torch113_tensors/expected.npz", "complex"},
    {"tflite/parse_example/model.tflite", "strings"},
};

// Opens, but holds no tensor: a serialiser's corner case.
constexpr std::string_view kEmpty[] = {".t7", "test_data__empty.pt", "test_tiny.mlmodel"};

template <class List>
const Reason* find_reason(const List& list, const std::string& path) {
  for (const Reason& r : list)
    if (path.ends_with(r.path)) return &r;
  return nullptr;
}

Tensor array(const fs::path& folder, std::string_view what) {
  const std::size_t colon = what.find(':');
  const std::string path = (folder / what.substr(0, colon)).string();
  for (NamedTensor& t : load_tensors(path))
    if (colon == std::string_view::npos || t.name == what.substr(colon + 1))
      return std::move(t.tensor);
  throw bad_input("{}: no such array", what);
}

// As the network declares it: frameworks record the same bytes with and without axes of one.
Tensor as_declared(Tensor t, const Declaration& d) {
  if (!d.ranked || t.shape().rank() == 0) return t;
  Ints dims = d.dims;
  std::int64_t fixed = 1, open = 0;
  for (const std::int64_t extent : dims) extent < 0 ? ++open : fixed *= extent;
  if (open != 1 || fixed == 0 || t.numel() % fixed != 0) return t;
  for (std::int64_t& extent : dims)
    if (extent < 0) extent = t.numel() / fixed;
  return t.reshaped(Shape(dims));
}

std::optional<fs::path> fixtures() {
  const char* named = std::getenv("ETALON_FIXTURES");
  if (named != nullptr && fs::exists(named)) return named;
  MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
  return std::nullopt;
}

// The built LeNet, with the softmax that every framework's ends in.
std::string lenet_graph(const test::TemporaryFolder& folder) {
  Model model = open_model("model:lenet");
  Graph& g = *model.graph;
  Node softmax;
  softmax.name = "prob";
  softmax.op = find_op("softmax");
  softmax.params = make_params(*softmax.op, {{"axis", std::int64_t{1}}});
  softmax.inputs = {g.outputs[0].value};
  softmax.outputs = {g.add_value("prob")};
  g.outputs[0].value = softmax.outputs[0];
  g.nodes.push_back(std::move(softmax));
  g.finish();
  save_model(model, folder / "lenet.json");
  return folder / "lenet.json";
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("real files: every file of every framework opens, or is refused for a reason") {
    const auto folder = fixtures();
    if (!folder) return;
    std::string table = "\n| file | format | nodes | tensors |\n|---|---|---|---|\n";
    std::string refused = "\n| refused | because |\n|---|---|\n";
    int opened = 0;
    const auto open = [&](const fs::path& path) {
      const std::string name = fs::relative(path, *folder).string();
      CAPTURE(name);
      const Reason* reason = find_reason(kRefused, name);
      try {
        const Model model = open_model(path.string());
        CHECK_MESSAGE(reason == nullptr, name, " opens: take it off the list");
        const bool empty =
            std::ranges::any_of(kEmpty, [&](std::string_view end) { return name.ends_with(end); });
        CHECK((empty || !model.graph->initializers.empty()));
        table += fmt::format("| {} | {} | {} | {} |\n", name, model.format,
                             model.graph->nodes.size(), model.graph->initializers.size());
        ++opened;
      } catch (const Error& e) {
        CHECK_MESSAGE(reason != nullptr, e.what());
        CHECK(e.kind() == ErrorKind::bad_input);
        if (reason != nullptr && reason->reason != "broken on purpose")
          CHECK_MESSAGE(std::string_view(e.what()).find(reason->reason) != std::string_view::npos,
                        e.what());
        refused += fmt::format("| {} | {} |\n", name, e.what());
      }
    };
    for (const auto& entry : fs::recursive_directory_iterator(*folder)) {
      const std::string name = entry.path().string();
      if (entry.is_directory()) {
        if (name.ends_with(".savedmodel") || name.ends_with(".ckpt") ||
            name.ends_with(".mlpackage"))
          open(entry.path());
        continue;
      }
      if (name.find(".mlpackage/") != std::string::npos || find_reason(kParts, name) != nullptr)
        continue;
      open(entry.path());
    }
    MESSAGE(table, refused);
    CHECK(opened > 0);
  }

  TEST_CASE("real files: recorded outputs of every framework hold") {
    const auto folder = fixtures();
    if (!folder) return;
    const test::TemporaryFolder own;
    const std::string lenet = lenet_graph(own);
    const char* only = std::getenv("ETALON_MODEL");
    std::string table =
        "\n| network | output | verdict | by | largest error, ULP |\n|---|---|---|---|---|\n";
    int held = 0;
    for (const Recorded& r : recorded()) {
      if (!fs::exists(*folder / r.model)) continue;
      if (only != nullptr && r.model.find(only) == std::string_view::npos) continue;
      CAPTURE(r.model);
      try {
        const std::string path = (*folder / r.model).string();
        std::vector<Placement> placed;
        const Model model =
            r.lenet
                ? open_with_arch(
                      path, {}, {.network = lenet, .weights_of = std::string(r.weights_of)}, placed)
                : open_model(path);
        const Graph& graph = *model.graph;
        REQUIRE(graph.inputs.size() == 1);
        REQUIRE(graph.outputs.size() == r.outputs.size());
        std::map<std::string, Tensor, std::less<>> inputs, got;
        inputs.emplace(graph.value_name(graph.inputs[0].value),
                       as_declared(array(*folder, r.input), graph.inputs[0]));
        for (std::size_t i = 0; i < r.outputs.size(); ++i)
          got.emplace(graph.value_name(graph.outputs[i].value),
                      as_declared(array(*folder, r.outputs[i]), graph.outputs[i]));
        const auto judged = judge_network(
            graph, inputs, got,
            {.registry = &all_kernels(), .threads = 2, .library = &library_accuracy("unknown")});
        CHECK(judged.size() == r.outputs.size());
        for (const NetworkJudgement& n : judged) {
          const bool holds = n.judgement.verdict <= Verdict::explained;
          if (r.differs.empty())
            CHECK_MESSAGE(holds, n.name, ": ", etalon::name(n.judgement.verdict), ", ",
                          n.judgement.cause);
          else
            CHECK_MESSAGE(!holds, n.name, " holds: its reason is no longer one");
          held += holds ? 1 : 0;
          table += fmt::format("| {} | {} | {} | {} | {:.3g} |{}\n", r.model, n.name,
                               etalon::name(n.judgement.verdict), n.way, n.judgement.stats.max_ulp,
                               r.differs.empty() ? "" : fmt::format(" {}", r.differs));
        }
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
    MESSAGE(table);
    CHECK(held > 0);
  }

  TEST_CASE("real files: weights whose layout nobody says are refused") {
    const auto folder = fixtures();
    if (!folder) return;
    const test::TemporaryFolder own;
    const std::string lenet = lenet_graph(own);
    for (const char* file :
         {"generated/theano/lenet_values_proto2.pkl", "generated/lasagne/lenet_model.npz"}) {
      CAPTURE(file);
      std::vector<Placement> placed;
      try {
        open_with_arch((*folder / file).string(), {}, {.network = lenet}, placed);
        FAIL_CHECK("not refused");
      } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        CHECK(std::string_view(e.what()).find("--weights-of") != std::string_view::npos);
      }
    }
  }

  TEST_CASE("real files: pages of kernels that were turned are given back") {
    const auto folder = fixtures();
    if (!folder) return;
    const std::string path = (*folder / "keras_h5/tiny_ic_resnet8/pretrainedResnet.h5").string();
    const Model model = open_model(path);
    std::int64_t kernels = 0;
    for (const auto& [id, tensor] : model.graph->initializers)
      if (tensor.shape().rank() == 4) kernels += static_cast<std::int64_t>(tensor.size_bytes());
    CHECK(kernels > 200'000);
    // What of the file is in this process's memory now.
    std::ifstream maps("/proc/self/smaps");
    bool ours = false;
    int found = 0;
    std::int64_t resident = 0;
    for (std::string line; std::getline(maps, line);) {
      const bool head = line.find('-') < line.find(' ');
      if (head) found += (ours = line.ends_with(path)) ? 1 : 0;
      if (ours && line.starts_with("Rss:")) resident += std::stol(line.substr(4)) * 1024;
    }
    CHECK(found > 0);
    CHECK(resident < kernels / 4);
  }
}
