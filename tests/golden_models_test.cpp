// The networks of engine/models have the weights and the logits on record, at every thread count
// and instruction set, and a row of a batch is the row computed alone.
//
// tests/golden/models.txt: name, batch, hash of all weights, hash of the logits under seq. To write
// it anew (a hash moves only with a decision on record, docs/adr):
//   etalon_tests -tc="golden: write the models*" --no-skip
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "kernels/kernels.h"
#include "tests/proven.h"

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

void check(std::string_view name, const std::vector<int>& thread_counts,
           const std::vector<Isa>& isas, Proven& proven) {
  const auto golden = recorded();
  const auto at = golden.find(std::string(name));
  REQUIRE_MESSAGE(at != golden.end(), name, " is not in ", std::string(kFile));
  const Model model = build_model(name);
  CHECK(proven.count(weights_hash(model) == at->second.weights));
  const InputMap in = random_inputs(model, kBatch, 1);
  for (const Isa isa : isas)
    for (const int threads : thread_counts) {
      const Tensor y = logits(model, in, threads, isa);
      CHECK_MESSAGE(proven.count(to_string(hash_tensor(y)) == at->second.logits), name,
                    " threads=", threads, " isa=", etalon::name(isa));
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

// `count` samples of a batch-major tensor.
Tensor samples(const Tensor& t, std::int64_t begin, std::int64_t count) {
  const std::size_t row = t.size_bytes() / static_cast<std::size_t>(t.shape()[0]);
  Tensor out = Tensor::uninitialized(t.dtype(), t.shape().with_dim(0, count));
  std::ranges::copy(t.bytes().subspan(static_cast<std::size_t>(begin) * row,
                                      static_cast<std::size_t>(count) * row),
                    out.mutable_bytes().begin());
  return out;
}

}  // namespace

TEST_CASE("golden: small networks have the hashes on record") {
  Proven proven;
  for (const char* name : {"lenet", "lstm"}) check(name, {1, 3}, {detect_isa()}, proven);
  proven.print("networks");
}

TEST_CASE("golden: a network's batch of 64 holds the batches of 1 and 3") {
  const Model model = build_model("lenet");
  const InputMap in = random_inputs(model, 64, 1);
  REQUIRE(in.size() == 1);
  const Tensor whole = logits(model, in, 2);
  Proven proven;
  for (const std::int64_t batch : {1, 3})
    for (std::int64_t at = 0; at + batch <= 64; at += 21) {
      InputMap part;
      part.emplace(in.begin()->first, samples(in.begin()->second, at, batch));
      CHECK_MESSAGE(proven.count(hash_tensor(logits(model, part, 1)) ==
                                 hash_tensor(samples(whole, at, batch))),
                    "batch ", batch, " at ", at);
    }
  proven.print("batches");
}

TEST_SUITE("long") {
  TEST_CASE("golden: small networks at every thread count and instruction set") {
    Proven proven;
    for (const char* name : {"lenet", "lstm"})
      check(name, {1, 2, 3, 7}, instruction_sets(), proven);
    proven.print("networks");
  }

  TEST_CASE("golden: every network has the hashes on record") {
    Proven proven;
    for (const ModelRow& row : models()) check(row.name, {1, 2, 3}, {detect_isa()}, proven);
    proven.print("networks");
  }
}

TEST_CASE("golden: write the models' hashes" * doctest::skip()) {
  std::ofstream out(kFile);
  REQUIRE(out.good());
  for (const ModelRow& row : models()) {
    const Model model = build_model(row.name);
    out << row.name << " " << kBatch << " " << weights_hash(model) << " "
        << to_string(hash_tensor(logits(model, random_inputs(model, kBatch, 1), 1))) << "\n";
  }
}
