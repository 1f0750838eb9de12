// What `./etalon test --cuda` runs on the device of this machine, where there is one: the stages of
// gpu_evidence that compare bits. Without a device each says why it has nothing to run on; the same
// kernels then run on a device made of host code (device_definition_test.cpp).
#include "kernels/backends/cuda/device.h"

#include <doctest/doctest.h>

#include "tests/gpu/stages.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

template <class Stage>
void on_device(const char* list, Stage&& stage) {
  if (const Refusal none = cuda::refuse_without_device()) {
    MESSAGE("not run: " << *none);
    return;
  }
  const test::TemporaryFolder folder;
  Record record(folder / "record.json", 1e9, 600);
  stage(record);
  CHECK(!record.all[list].empty());
  for (const json& entry : record.all[list])
    if (entry.value("decides", true)) {
      CAPTURE(entry.dump());
      CHECK(entry.value("equal", false));
    }
}

}  // namespace

TEST_CASE("cuda: every row has the CPU's bits on this machine's device") {
  on_device("rows", run_rows);
}
TEST_CASE("cuda: every function has the CPU's bits on this machine's device") {
  on_device("functions", run_functions);
}
TEST_CASE("cuda: whole networks have the CPU's bits on this machine's device") {
  on_device("networks", run_networks);
}
TEST_CASE("cuda: this machine's tensor cores have their model's bits") {
  on_device("tensor_cores", [](Record& record) { run_tensor_cores(record, 1'000'000); });
}
