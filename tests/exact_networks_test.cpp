// Claim: every network of the real ONNX files that runs under `seq` runs under `exact`: no op
// refuses, no output is left undecided. Both are rounded from one definition, so their outputs
// differ by few units where the network is shallow; that is judged elsewhere. The files are not
// part of the checkout: ETALON_FIXTURES names their folder. A line for each says how long it took.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

using namespace etalon;
namespace fs = std::filesystem;

TEST_SUITE("long") {
  TEST_CASE("exact networks: every real ONNX file that runs under seq") {
    const char* folder = std::getenv("ETALON_FIXTURES");
    if (folder == nullptr || !fs::exists(folder)) {
      MESSAGE("skipped: ETALON_FIXTURES names no folder of real files");
      return;
    }
    std::vector<fs::path> models;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".onnx") models.push_back(entry.path());
    std::ranges::sort(models);
    int ran = 0;
    for (const fs::path& path : models) {
      const std::string name = fs::relative(path, folder).string();
      CAPTURE(name);
      Model model;
      InputMap inputs;
      const auto run = [&](const Contract& contract) {
        return Executor(model.graph, all_kernels(), {.contract = contract, .threads = 2})
            .run(inputs);
      };
      try {
        model = open_model(path.string());
        inputs = random_inputs(model, 1, 1);
        run(Contract::seq());
      } catch (const Error& e) {
        std::cout << name << ": does not run under seq: " << e.what() << "\n";
        continue;
      }
      const auto begin = std::chrono::steady_clock::now();
      CHECK_NOTHROW(run(Contract::exact_preset()));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      std::cout << name << ": " << model.graph->nodes.size() << " nodes, " << taken.count()
                << " s\n";
      ++ran;
    }
    CHECK(ran >= 1);
  }
}
