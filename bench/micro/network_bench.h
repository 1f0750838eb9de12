// Times a whole network, or how its file is opened: the engine beside live frameworks, in turn.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/data.h"
#include "bench/micro/timing.h"
#include "bench/runners/runner.h"
#include "bench/runners/target.h"
#include "engine/backend/registry.h"
#include "engine/core/cpu.h"
#include "engine/graph/graph.h"
#include "engine/numerics/contract.h"

namespace etalon {

struct NetworkBenchOptions {
  Contract contract = Contract::seq();
  std::vector<RunnerTarget> vs;
  int threads = 1;
  Isa isa = detect_isa();
  // On a GPU ours is one graph, timed from its launch until the device is done: a framework there
  // is given inputs that lie on the device, too.
  Device device = Device::cpu;
  int rounds = 15;        // each: one burst of ours, one of each target
  double burst_s = 0.01;  // of a burst, 2 to 50 runs: what the other side left in caches fades
  const Registry* kernels = nullptr;  // all_kernels(), but in tests
  double most_time_s = 0;  // of all rounds of one network; 0: 20, and never fewer than `rounds`
};

struct NetworkTime {
  std::string name, version, status = "ok", reason;  // status as in records of validate
  std::map<std::string, std::string> versions;       // of a framework's libraries
  Timing timing;
  std::string hash;      // of all outputs
  std::string cpu_hash;  // on a GPU: of what the CPU's kernels answer
  // Of an import: how much resident memory grew at its highest, mapped pages of the file included;
  // -1 where nothing tells.
  std::int64_t peak_bytes = -1;
};

struct NetworkBenchRow {
  NetworkTime ours;
  std::vector<NetworkTime> vs;  // one that fails costs its own row
};

// Frameworks that live on from one network to the next, by their targets' texts: one takes seconds
// to start, PyTorch with a GPU from a cold disk half a minute.
using LiveRunners = std::map<std::string, std::unique_ptr<Runner>, std::less<>>;

// A row for each of `inputs` (of several batches); the network is handed to each framework once.
std::vector<NetworkBenchRow> bench_network(const Model& model, std::span<const InputMap> inputs,
                                           const NetworkBenchOptions& options,
                                           LiveRunners& runners);

// From the file's path to every tensor in memory and hashed (a file that is only mapped has not
// been read), against the opening of the same file by each target: to a network that could run. The
// file is in the system's cache for all. `ours.hash` is the hash of all tensors: for each, its
// type, a newline and the hashes of its pieces of 4 MiB, so that all threads can share the work.
NetworkBenchRow bench_import(const std::string& path, const NetworkBenchOptions& options);

}  // namespace etalon
