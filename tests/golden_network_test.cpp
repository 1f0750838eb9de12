// The demo's network on real images has the hashes on record under four contracts, at every thread
// count and instruction set, and a row of a batch is the row computed alone.
//
// To write tests/golden/networks.txt anew (with a decision record):
//   etalon_tests -tc="golden: write the network*" --no-skip
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "bench/data.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/proven.h"

using namespace etalon;

namespace {

constexpr const char* kFile = ETALON_SOURCE_DIR "/tests/golden/networks.txt";
constexpr const char* kContracts[] = {"seq", "exact", "order=lanes:8", "fma=off,round=rz"};

Tensor rows(const Tensor& t, std::int64_t begin, std::int64_t count) {
  Ints dims(t.shape().dims().begin(), t.shape().dims().end());
  const std::size_t row = t.size_bytes() / static_cast<std::size_t>(dims[0]);
  dims[0] = count;
  Tensor out = Tensor::uninitialized(t.dtype(), Shape(std::span<const std::int64_t>(dims)));
  std::ranges::copy(t.bytes().subspan(static_cast<std::size_t>(begin) * row,
                                      static_cast<std::size_t>(count) * row),
                    out.mutable_bytes().begin());
  return out;
}

struct Lenet {
  Model model = open_model(ETALON_SOURCE_DIR "/bench/demo/lenet.onnx");
  Tensor images = load_dataset("mnist", 64).images;

  Tensor run(const char* contract, std::int64_t begin, std::int64_t count, int threads, Isa isa) {
    Executor executor(model.graph, all_kernels(),
                      {.contract = Contract::parse(contract), .isa = isa, .threads = threads});
    NamedTensors inputs;
    inputs.emplace(model.graph->value_name(model.graph->inputs[0].value),
                   rows(images, begin, count));
    return executor.run(inputs).outputs.at(0).second.share();
  }
};

std::map<std::string, std::string> on_record() {
  std::map<std::string, std::string> hashes;
  std::ifstream in(kFile);
  for (std::string network, contract, hash; in >> network >> contract >> hash;)
    hashes[contract] = hash;
  return hashes;
}

void compare(const std::vector<int>& threads, const std::vector<Isa>& isas,
             std::initializer_list<const char*> batched) {
  Lenet lenet;
  const auto recorded = on_record();
  Proven networks, batches;
  for (const char* contract : kContracts) {
    CAPTURE(std::string(contract));
    REQUIRE(recorded.contains(contract));
    for (const Isa isa : isas)
      for (const int t : threads) {
        CAPTURE(t);
        CAPTURE(name(isa));
        const bool same =
            to_string(hash_tensor(lenet.run(contract, 0, 3, t, isa))) == recorded.at(contract);
        CHECK(networks.count(same));
      }
  }
  // Two contracts that gave the same bits would prove nothing about order.
  CHECK(recorded.at("seq") != recorded.at("order=lanes:8"));
  CHECK(recorded.at("seq") != recorded.at("exact"));
  for (const char* contract : batched) {
    CAPTURE(std::string(contract));
    const Tensor whole = lenet.run(contract, 0, 64, 2, detect_isa());
    for (const std::int64_t batch : {1, 3})
      for (std::int64_t at = 0; at + batch <= 64; at += 21) {
        CHECK(batches.count(hash_tensor(lenet.run(contract, at, batch, 1, detect_isa())) ==
                            hash_tensor(rows(whole, at, batch))));
      }
  }
  networks.print("networks");
  batches.print("batches");
}

}  // namespace

TEST_CASE("golden: the demo network has the hashes on record, rows of batches too") {
  compare({3}, {detect_isa()}, {"seq"});
}

TEST_SUITE("long") {
  TEST_CASE("golden: the demo network at every thread count and instruction set") {
    compare({1, 2, 3, 7}, instruction_sets(), {"seq", "exact", "order=lanes:8"});
  }
}

TEST_CASE("golden: write the network's hashes" * doctest::skip()) {
  Lenet lenet;
  std::ofstream out(kFile);
  REQUIRE(out.good());
  for (const char* contract : kContracts)
    out << "lenet " << contract << " "
        << to_string(hash_tensor(lenet.run(contract, 0, 3, 1, detect_isa()))) << "\n";
}
