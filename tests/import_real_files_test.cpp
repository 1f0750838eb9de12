// Real model files with recorded inputs and outputs: import, run, compare. They are not part of the
// checkout: the environment variable ETALON_FIXTURES names the folder that holds them (folders
// onnx, pytorch, generated, safetensors). The peers that recorded the outputs sum in orders of
// their own, so the bar is a relative one; bits are the subject of other tests.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

struct RealFile {
  std::string model,
      input;  // "" input: 0/n, 1/n, ... as ONNX's backend test feeds its light models
  std::vector<std::string> outputs;
};

std::vector<RealFile> real_files() {
  std::vector<RealFile> files;
  for (const char* net : {"bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50",
                          "shufflenet", "squeezenet", "vgg19", "zfnet512"}) {
    const std::string stem = std::string("onnx/light/light_") + net;
    files.push_back({stem + ".onnx", "", {stem + "_output_0.pb"}});
  }
  for (const char* net :
       {"RFB-320", "RFB-320_without_postprocessing", "slim-320", "slim-320_simplified"}) {
    const std::string stem = std::string("onnx/ultraface/version-") + net;
    files.push_back({stem + ".onnx",
                     stem + ".io/input_input.npy",
                     {stem + ".io/output_scores.npy", stem + ".io/output_boxes.npy"}});
  }
  for (const char* net : {"lenet", "rnn"})
    for (const char* opset : {"9", "11", "13", "16"}) {
      const std::string folder = std::string("pytorch/gen_torch113_") + net + "/";
      files.push_back({folder + "export_opset" + opset + ".onnx",
                       folder + "input.npy",
                       {folder + "output.npy"}});
    }
  for (const char* model :
       {"generated/torch-2.15/lenet.ts.onnx", "generated/onnxruntime-1.31/lenet.int8-qdq.onnx"})
    files.push_back({model, std::string(model) + ".io.npz", {std::string(model) + ".io.npz"}});
  return files;
}

Tensor fractions(const Shape& shape) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  auto out = t.mutable_data<float>();
  const auto n = static_cast<double>(shape.numel());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(static_cast<double>(i) / n);
  return t;
}

Tensor find(TensorList list, std::string_view prefix) {
  for (NamedTensor& t : list)
    if (list.size() == 1 || t.name.starts_with(prefix)) return std::move(t.tensor);
  throw bad_input("no array '{}' among the recorded ones", prefix);
}

double relative_difference(const Tensor& got, const Tensor& want) {
  REQUIRE(got.numel() == want.numel());
  const auto g = got.data<float>(), w = want.data<float>();
  double scale = 0, most = 0;
  for (const float v : w) scale = std::max(scale, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < w.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(g[i]) - static_cast<double>(w[i])));
  return most / scale;
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("real files: ONNX models of five exporters against their recorded outputs") {
    const char* folder = std::getenv("ETALON_FIXTURES");
    if (folder == nullptr) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    int ran = 0;
    for (const RealFile& file : real_files()) {
      CAPTURE(file.model);
      const fs::path base(folder);
      try {
        const Model model = open_model((base / file.model).string());
        REQUIRE(model.graph->inputs.size() == 1);
        const Declaration& declared = model.graph->inputs[0];
        std::map<std::string, Tensor, std::less<>> inputs;
        inputs.emplace(model.graph->value_name(declared.value),
                       file.input.empty() ? fractions(Shape(declared.dims))
                                          : find(load_tensors((base / file.input).string()), "in"));
        Executor executor(model.graph, all_kernels(), {.contract = Contract::seq(), .threads = 2});
        const Trace trace = executor.run(inputs);
        for (std::size_t i = 0; i < file.outputs.size(); ++i) {
          const Tensor want = find(load_tensors((base / file.outputs[i]).string()), "out");
          // A value near a tie may fall to the next step of the quantised output, 1/82 of the
          // largest.
          const double bar = file.model.find("int8") == std::string::npos ? 1e-4 : 1.3e-2;
          const double d = relative_difference(trace.outputs[i].second, want);
          MESSAGE(file.model << ": largest difference " << d << " of the largest output");
          CHECK(d < bar);
        }
        ++ran;
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
    MESSAGE(ran << " of " << real_files().size() << " models ran");
  }

  TEST_CASE("real files: safetensors of two writers come back through every format of ours") {
    const char* folder = std::getenv("ETALON_FIXTURES");
    if (folder == nullptr) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    const test::TemporaryFolder own;
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / "safetensors")) {
      if (entry.path().extension() != ".safetensors") continue;
      const TensorList tensors = load_tensors(entry.path().string());
      CHECK_FALSE(tensors.empty());
      for (const char* ending : {"x.npz", "x.safetensors"}) {
        save_tensors(tensors, own / ending);
        CHECK(load_tensors(own / ending).size() == tensors.size());
      }
      ++files;
    }
    CHECK(files >= 1);
  }
}
