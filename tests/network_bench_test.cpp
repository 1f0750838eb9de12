// Networks beside live frameworks: one process for all of them, bits beside the CPU's.
#include "bench/micro/network_bench.h"

#include <doctest/doctest.h>

#include "bench/data.h"
#include "engine/models/models.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/host_device.h"

using namespace etalon;

namespace {

// The adapter of tests/runners/fake, alive under the target that options() names.
LiveRunners fake_runner(const std::string& fault = "") {
  RunnerTarget target = parse_target("fake");
  if (!fault.empty()) target.options["fault"] = fault;
  LiveRunners runners;
  runners["fake"] = start_runner(
      read_runner_folder(std::string(ETALON_SOURCE_DIR) + "/tests/runners/fake"), target);
  return runners;
}

NetworkBenchOptions options() {
  NetworkBenchOptions o;
  o.vs = {parse_target("fake")};
  o.rounds = 2;
  o.most_time_s = 0.2;
  return o;
}

std::vector<InputMap> batches(const Model& model) {
  std::vector<InputMap> inputs;
  for (const std::int64_t batch : {1, 2}) inputs.push_back(random_inputs(model, batch, 0));
  return inputs;
}

bool no_python() {
  const bool none =
      !framework_state(read_runner_folder(std::string(ETALON_SOURCE_DIR) + "/tests/runners/fake"))
           .ready;
  if (none) MESSAGE("skipped: no python3 on this machine");
  return none;
}

}  // namespace

TEST_CASE("network bench: a framework is started once, for all networks and batches") {
  if (no_python()) return;
  LiveRunners runners = fake_runner();
  const Runner* const started = runners["fake"].get();
  for (const char* name : {"lenet", "lstm"}) {
    const Model model = build_model(name);
    const auto rows = bench_network(model, batches(model), options(), runners);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].ours.hash != rows[1].ours.hash);
    for (const NetworkBenchRow& row : rows) {
      REQUIRE(row.vs.size() == 1);
      CHECK(row.vs[0].status == "ok");
      CHECK(row.vs[0].timing.repetitions >= 2);
      CHECK(row.ours.timing.repetitions >= 2);
      CHECK(row.ours.cpu_hash == "");  // it is the CPU
    }
  }
  CHECK(runners["fake"].get() == started);
  CHECK(started->alive());
}

TEST_CASE("network bench: a framework that dies costs its own rows") {
  if (no_python()) return;
  LiveRunners runners = fake_runner("crash@time");
  const Model model = build_model("lenet");
  for (const NetworkBenchRow& row : bench_network(model, batches(model), options(), runners)) {
    CHECK(row.vs[0].status == "failed");
    CHECK(row.vs[0].reason.find("the tensor fell over") != std::string::npos);
    CHECK(row.ours.timing.repetitions >= 2);
  }
}

TEST_CASE("network bench: on a device each batch has the CPU's bits beside its own") {
  const HostDevice host;
  const cuda::UseApi use(host.api);
  const Model model = build_model("lenet");
  NetworkBenchOptions on_device = options();
  on_device.vs.clear();
  on_device.device = Device::cuda;
  Registry kernels;
  kernels.add(cuda::rows());
  for (const KernelRow* row : all_kernels().all())
    if (row->device == Device::cpu) kernels.add({row, 1});
  on_device.kernels = &kernels;
  LiveRunners none;
  const auto on = bench_network(model, batches(model), on_device, none);
  on_device.device = Device::cpu;
  const auto off = bench_network(model, batches(model), on_device, none);
  REQUIRE(on.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(on[i].ours.hash == on[i].ours.cpu_hash);
    CHECK(on[i].ours.hash == off[i].ours.hash);
  }
  CHECK(host.graph_launches > 0);
}
