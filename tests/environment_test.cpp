// Claim: what the calling thread has told its processor, to round upward and to flush subnormals
// (a library built with fast-math does that to the process that loads it), shows in no bit: of no
// op under any contract, of no network, nor of its weights.
#include <doctest/doctest.h>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "kernels/kernels.h"
#include "tests/hostile_environment.h"
#include "tests/op_cases.h"

using namespace etalon;
using test::HostileEnvironment;

namespace {

Hash128 hash_of(const OpCase& c, const std::vector<const Tensor*>& in, const RunOptions& options) {
  HashStream all;
  for (const Tensor& t : run_op(*c.op, c.params, in, all_kernels(), options).outputs) all.update(t);
  return all.digest();
}

}  // namespace

TEST_CASE("environment: an op's bits do not depend on the caller's") {
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> inputs = case_inputs(c);
    const std::vector<const Tensor*> in = pointers(inputs);
    for (const char* contract : {"seq", "exact", "order=lanes:8", "fma=off,round=rz"}) {
      const RunOptions options{.contract = Contract::parse(contract), .threads = 1};
      const auto want = hash_of(c, in, options);
      const auto got = [&] {
        const HostileEnvironment hostile;
        return hash_of(c, in, options);
      }();
      CHECK_MESSAGE(got == want, c.line, " [", std::string(contract), "]");
    }
  }
}

TEST_CASE("environment: a network's weights and bits do not depend on the caller's") {
  const auto hashes = [](std::string_view network) {
    const Model model = build_model(network);
    HashStream all;
    for (const auto& [id, tensor] : model.graph->initializers) all.update(tensor);
    Executor executor(model.graph, all_kernels(), {.contract = Contract::seq(), .threads = 2});
    for (const auto& [name, t] : executor.run(random_inputs(model, 2, 1)).outputs) all.update(t);
    return all.digest();
  };
  for (const std::string_view network : {"lenet", "lstm"}) {
    CAPTURE(std::string(network));
    const auto want = hashes(network);
    const auto got = [&] {
      const HostileEnvironment hostile;
      return hashes(network);
    }();
    CHECK(got == want);
  }
}
