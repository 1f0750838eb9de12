// consumer MODEL: runs a model file on noise under seq, with nothing but the installed package.
#include <cstdio>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const etalon::Model model = etalon::open_model(argv[1]);
    auto x = etalon::Tensor::uninitialized(etalon::DType::f32, {2, 1, 28, 28});
    const etalon::Philox random{1, 0};
    std::uint64_t i = 0;
    for (float& value : x.mutable_data<float>()) value = random.uniform(i++);
    etalon::NamedTensors inputs;
    inputs.emplace("image", std::move(x));
    etalon::Executor executor(model.graph, etalon::all_kernels(), {.contract = etalon::Contract::seq()});
    const etalon::Trace trace = executor.run(inputs);
    std::printf("%s\n", etalon::to_string(etalon::hash_tensor(trace.outputs.at(0).second)).c_str());
    return 0;
  } catch (const etalon::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.exit_code();
  }
}
