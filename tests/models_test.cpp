// The networks of engine/models: their weights and outputs are the bits on record, whatever the
// number of threads, and an ONNX file of them is the same network.
//
// tests/golden/models.txt: name, batch, hash of all weights, hash of the logits under seq. To write
// it anew (a hash moves only with a decision on record, docs/adr):
//   etalon_tests -tc="models: write*" --no-skip
#include "engine/models/models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "bench/data.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

constexpr const char* kFile = ETALON_SOURCE_DIR "/tests/golden/models.txt";
constexpr std::int64_t kBatch = 2;

std::string weights_hash(const Model& model) {
  HashStream all;
  for (const auto& [id, tensor] : model.graph->initializers) all.update(tensor);
  return to_string(all.digest());
}

Tensor logits(const Model& model, const InputMap& in, int threads, Isa isa = detect_isa()) {
  Executor executor(model.graph, all_kernels(),
                    {.contract = Contract::seq(), .isa = isa, .threads = threads});
  return std::move(executor.run(in).outputs.at(0).second);
}

struct Golden {
  std::string weights, logits;
};

std::map<std::string, Golden> recorded() {
  std::map<std::string, Golden> all;
  std::ifstream in(kFile);
  std::int64_t batch = 0;
  for (std::string name, weights, out; in >> name >> batch >> weights >> out;)
    all[name] = {weights, out};
  return all;
}

void check(std::string_view name, const std::vector<int>& thread_counts) {
  const auto golden = recorded();
  const auto at = golden.find(std::string(name));
  REQUIRE_MESSAGE(at != golden.end(), name, " is not in ", kFile);
  const Model model = build_model(name);
  CHECK(weights_hash(model) == at->second.weights);
  const InputMap in = random_inputs(model, kBatch, 1);
  for (const int threads : thread_counts) {
    const Tensor y = logits(model, in, threads);
    CHECK_MESSAGE(to_string(hash_tensor(y)) == at->second.logits, name, " threads=", threads);
    // The data must be able to show an error: finite, spread, and not the same for each sample.
    const auto v = y.data<float>();
    REQUIRE(y.shape()[0] == kBatch);
    const std::size_t classes = v.size() / kBatch;
    float low = v[0], high = v[0], apart = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      REQUIRE(std::isfinite(v[i]));
      low = std::min(low, v[i]);
      high = std::max(high, v[i]);
      if (i < classes) apart = std::max(apart, std::abs(v[i] - v[i + classes]));
    }
    CHECK(high - low > 1e-3F);
    CHECK(high - low < 1e3F);
    CHECK(apart > 1e-4F);
  }
}

}  // namespace

TEST_CASE("models: small networks give the bits on record") {
  for (const char* name : {"lenet", "lstm"}) check(name, {1, 3});
}

TEST_CASE("models: a name that is none is refused with the names") {
  CHECK(find_model("resnet50") != nullptr);
  CHECK(find_model("resnet51") == nullptr);
  CHECK_THROWS_WITH_AS(open_model("model:resnet51"), doctest::Contains("lenet, alexnet"), Error);
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

TEST_SUITE("long") {
  TEST_CASE("models: every network gives the bits on record") {
    for (const ModelRow& row : models()) check(row.name, {1, 2, 3});
  }
}

TEST_CASE("models: write tests/golden/models.txt" * doctest::skip()) {
  std::ofstream out(kFile);
  REQUIRE(out.good());
  for (const ModelRow& row : models()) {
    const Model model = build_model(row.name);
    out << row.name << " " << kBatch << " " << weights_hash(model) << " "
        << to_string(hash_tensor(logits(model, random_inputs(model, kBatch, 1), 1))) << "\n";
  }
}
