// The networks of engine/models: their names, their page, their ONNX files. Their bits:
// golden_models_test.cpp.
#include "engine/models/models.h"

#include <doctest/doctest.h>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

Tensor logits(const Model& model, const InputMap& in, int threads) {
  Executor executor(model.graph, all_kernels(), {.contract = Contract::seq(), .threads = threads});
  return std::move(executor.run(in).outputs.at(0).second);
}

}  // namespace

TEST_CASE("models: under seq no layer of the networks falls to a definition") {
  if (detect_isa() < Isa::avx2) return;
  for (const char* name : {"lenet", "lstm", "mobilenet", "resnet50"}) {
    const Model model = build_model(name);
    Executor executor(model.graph, all_kernels(), {.contract = Contract::seq(), .threads = 2});
    for (const NodeRecord& node : executor.run(random_inputs(model, 1, 1)).nodes)
      // The lengths of the sentences as floats: one element a sentence.
      CHECK_MESSAGE((!node.kernel.ends_with(".definition") || node.op == "cast"), std::string(name),
                    " ", node.name, " ", std::string(node.kernel));
  }
}

TEST_CASE("models: a name that is none is refused with the names") {
  CHECK(find_model("resnet50") != nullptr);
  CHECK(find_model("resnet51") == nullptr);
  CHECK_THROWS_WITH_AS(open_model("model:transformer"), doctest::Contains("lenet, alexnet"), Error);
  CHECK_THROWS_WITH_AS(open_model("model:resnet51"), doctest::Contains("did you mean 'resnet50'?"),
                       Error);
}

TEST_CASE("models: the page lists the table") {
  const std::string page = test::read_bytes(ETALON_SOURCE_DIR "/docs/models.md");
  for (const ModelRow& row : models()) {
    const std::string line = fmt::format("| `{}` | {} | {} |", row.name, row.summary, row.source);
    CHECK_MESSAGE(page.find(line) != std::string::npos, "docs/models.md lacks: ", line);
  }
}

TEST_CASE("models: the ONNX file of a network is the same network") {
  for (const char* name : {"lenet", "lstm"}) {
    const Model model = open_model("model:" + std::string(name));
    const test::TemporaryFolder folder;
    save_model(model, folder / "model.onnx");
    const Model back = open_model(folder / "model.onnx");
    const InputMap in = random_inputs(model, 3, 2);
    CHECK(hash_tensor(logits(back, in, 2)) == hash_tensor(logits(model, in, 1)));
  }
}
