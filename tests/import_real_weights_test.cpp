// Real files of the pickle, zip and HDF5 families (PyTorch, Keras, Neon, Theano, Lasagne, Chainer):
// every one below the folder that ETALON_FIXTURES names opens; networks with recorded outputs are
// run and judged.
//   ETALON_FIXTURES=FOLDER build/release/bin/etalon_tests -tc='real files: pickles*'
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "bench/compare/network.h"
#include "engine/core/hash.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

struct Recorded {
  std::string_view model, input, output;  // FILE or FILE:array
};

constexpr Recorded kRecorded[] = {
    {"generated/keras-tensorflow/lenet.h5", "generated/keras-tensorflow/lenet.io.npz:x",
     "generated/keras-tensorflow/lenet.io.npz:y"},
    {"generated/keras-theano/lenet.h5", "generated/keras-theano/lenet.io.npz:x",
     "generated/keras-theano/lenet.io.npz:y"},
    {"generated/keras-cntk/lenet.h5", "generated/keras-cntk/lenet.io.npz:x",
     "generated/keras-cntk/lenet.io.npz:y"},
    {"generated/tensorflow-2.21-keras-3.15/lenet.h5",
     "generated/tensorflow-2.21-keras-3.15/lenet.h5.io.npz:in_image",
     "generated/tensorflow-2.21-keras-3.15/lenet.h5.io.npz:out_output"},
    {"generated/tensorflow-2.21-keras-3.15/lenet.keras",
     "generated/tensorflow-2.21-keras-3.15/lenet.keras.io.npz:in_image",
     "generated/tensorflow-2.21-keras-3.15/lenet.keras.io.npz:out_output"},
    {"keras_h5/tiny_ic_resnet8/pretrainedResnet.h5", "keras_h5/tiny_ic_resnet8/input.npy",
     "keras_h5/tiny_ic_resnet8/output.npy"},
    {"keras_h5/face_classification/fer2013_big_XCEPTION.54-0.66.hdf5",
     "keras_h5/face_classification/big_XCEPTION_input.npy",
     "keras_h5/face_classification/big_XCEPTION_output.npy"},
    {"generated/torch-2.15/lenet.pt2", "generated/torch-2.15/lenet.pt2.io.npz:in_input",
     "generated/torch-2.15/lenet.pt2.io.npz:out_output"},
    {"generated/neon/lenet.prm", "generated/neon/lenet.io.npz:x", "generated/neon/lenet.io.npz:y"},
    {"neon/gen_neon26_mlp/model.prm", "neon/gen_neon26_mlp/input.npy",
     "neon/gen_neon26_mlp/output.npy"},
    {"neon/gen_neon26_lstm/model.prm", "neon/gen_neon26_lstm/input.npy",
     "neon/gen_neon26_lstm/output.npy"},
};

// Broken on purpose.
constexpr std::string_view kRefused[] = {"test_data__broken.pt"};

Tensor array(const fs::path& folder, std::string_view what) {
  const std::size_t colon = what.find(':');
  const std::string path = (folder / what.substr(0, colon)).string();
  for (NamedTensor& t : load_tensors(path))
    if (colon == std::string_view::npos || t.name == what.substr(colon + 1))
      return std::move(t.tensor);
  throw bad_input("{}: no such array", what);
}

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("real files: pickles, zips and HDF5 of frameworks open; recorded outputs hold") {
    const char* named = std::getenv("ETALON_FIXTURES");
    if (named == nullptr || !fs::exists(named)) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    const fs::path folder = named;
    std::string table = "\n| file | format | nodes | tensors |\n|---|---|---|---|\n";
    int opened = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string ending = entry.path().extension().string();
      const std::set<std::string> endings{".pt", ".pt2", ".pth",  ".pkl",  ".prm",
                                          ".p",  ".h5",  ".hdf5", ".keras"};
      if (!endings.contains(ending)) continue;
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      if (std::ranges::find(kRefused, name) != std::end(kRefused)) {
        CHECK_THROWS_AS(open_model(entry.path().string()), Error);
        continue;
      }
      try {
        const Model model = open_model(entry.path().string());
        CHECK_FALSE(model.graph->initializers.empty());
        table +=
            fmt::format("| {} | {} | {} | {} |\n", fs::relative(entry.path(), folder).string(),
                        model.format, model.graph->nodes.size(), model.graph->initializers.size());
        ++opened;
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
    table += "\n| network | output | verdict | largest error, ULP |\n|---|---|---|---|\n";
    int held = 0;
    for (const Recorded& r : kRecorded) {
      if (!fs::exists(folder / r.model)) continue;
      CAPTURE(r.model);
      try {
        const Model model = open_model((folder / r.model).string());
        REQUIRE(model.graph->inputs.size() == 1);
        REQUIRE(model.graph->outputs.size() == 1);
        std::map<std::string, Tensor, std::less<>> inputs, got;
        inputs.emplace(model.graph->value_name(model.graph->inputs[0].value),
                       array(folder, r.input));
        got.emplace(model.graph->value_name(model.graph->outputs[0].value),
                    array(folder, r.output));
        const auto judged = judge_network(
            *model.graph, inputs, got,
            {.registry = &all_kernels(), .threads = 2, .library = &library_accuracy("unknown")});
        REQUIRE_FALSE(judged.empty());
        for (const NetworkJudgement& n : judged) {
          CHECK_MESSAGE(n.judgement.verdict <= Verdict::explained, n.name, ": ",
                        etalon::name(n.judgement.verdict), ", ", n.judgement.cause);
          held += n.judgement.verdict <= Verdict::explained ? 1 : 0;
          table += fmt::format("| {} | {} | {} | {:.3g} |\n", r.model, n.name,
                               etalon::name(n.judgement.verdict), n.judgement.stats.max_ulp);
        }
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
    MESSAGE(table);
    CHECK(opened > 0);
    CHECK(held > 0);
  }
}
