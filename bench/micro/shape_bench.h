// Times one named shape: our kernel for a contract beside vendors' rows, and what each costs in
// error.
//
// Both sides get the same problem and the same liberties: weights of a layer are constant, so each
// may pack them once, outside the clock; a product of two fresh operands packs inside it. Outputs
// and primitives are made before the clock starts.
//
// Tensors are row-major. A library's row that converts x or y to a layout of its own appears twice:
// "onednn.conv.direct" converts inside the clock, as it would between our ops;
// "onednn.conv.direct.blocked" before and after it, as it would in a network of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/micro/first_sample.h"
#include "bench/micro/machine_watch.h"
#include "bench/micro/timing.h"
#include "bench/shapes.h"
#include "engine/backend/registry.h"
#include "engine/core/cpu.h"

namespace etalon {

class FrameworkPeers;  // bench/micro/framework_peers.h

struct BenchOptions {
  Contract contract = Contract::seq();
  std::string kernels;                   // as --kernels: our row's name or prefix
  std::vector<std::string> vs;           // prefixes of rows: "onednn"
  FrameworkPeers* frameworks = nullptr;  // live ones, timed after the rows of this process
  std::vector<Contract> also;  // our kernels under these contracts, timed in turn with the first
  int threads = 1;
  Isa isa = detect_isa();
  TimingOptions timing;
  bool errors = true;
};

// How a memory figure came about: every allocation counted; told by the library; or the growth of a
// process's resident size, which misses what earlier calls left behind.
enum class MemoryBy { counted, library, resident };

struct BenchEntry {
  std::string kernel, version;
  std::string contract;  // of `also`, as short_name() gives it; empty for the first and for vendors
  bool blocked = false;  // conversions to and from the library's layout are outside the clock
  Timing timing;
  double gflops = 0;  // 0 where the op does no sums of products
  double gbytes = 0;  // a second: every input read and every output written once
  // Packing, transforms, primitives: what is done once before the first run, outside the clock.
  double set_up_s = 0;
  // What is kept from set-up to the last run, and what a run needs beside it and its operands.
  std::int64_t set_up_bytes = 0, workspace_bytes = 0;
  MemoryBy memory_by = MemoryBy::counted;
  std::string hash;
  std::optional<UlpError> error;
  std::string status = "ok", reason;  // of frameworks, as in records of validate
  // Frameworks are timed beside a second measurement of ours, in another process: its median.
  double ours_beside_s = 0;
  std::vector<std::string> dispatched;  // kernels that a framework says it ran
};

struct BenchRow {
  NamedShape shape;
  std::string contract;
  BenchEntry ours;
  std::vector<BenchEntry> vs;
  std::vector<std::string> refused;  // "onednn.conv.winograd: reason"
  std::string no_error_because;      // set when errors were wanted and cannot be had
  double flops = 0, bytes = 0;       // of one run, at least: what the roofline is drawn from
  MachineLoad load;                  // while it was timed
};

// usage Error when no kernel of ours promises the contract for the shape.
BenchRow bench_shape(const NamedShape& shape, const Registry& registry,
                     const BenchOptions& options);

}  // namespace etalon
