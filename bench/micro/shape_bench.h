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

#include "bench/micro/timing.h"
#include "bench/shapes.h"
#include "engine/backend/registry.h"
#include "engine/core/cpu.h"

namespace etalon {

struct BenchOptions {
  Contract contract = Contract::seq();
  std::string kernels;          // as --kernels: our row's name or prefix
  std::vector<std::string> vs;  // prefixes of rows: "onednn"
  std::vector<Contract> also;   // our kernels under these contracts, timed in turn with the first
  int threads = 1;
  Isa isa = detect_isa();
  TimingOptions timing;
  bool errors = true;
};

// Error of the first sample against the exact value, in ULP of the correctly rounded f32.
struct UlpError {
  double max = 0, mean = 0;
};

struct BenchEntry {
  std::string kernel, version;
  std::string contract;  // of `also`, as short_name() gives it; empty for the first and for vendors
  bool blocked = false;  // conversions to and from the library's layout are outside the clock
  Timing timing;
  double gflops = 0;   // 0 where the op does no sums of products
  double of_peak = 0;  // share of the machine's measured peak: of sums of products, else of bytes
  std::string hash;
  std::optional<UlpError> error;
};

struct BenchRow {
  NamedShape shape;
  std::string contract;
  BenchEntry ours;
  std::vector<BenchEntry> vs;
  std::vector<std::string> refused;  // "onednn.conv.winograd: reason"
  std::string no_error_because;      // set when errors were wanted and cannot be had
};

// usage Error when no kernel of ours promises the contract for the shape.
BenchRow bench_shape(const NamedShape& shape, const Registry& registry,
                     const BenchOptions& options);

}  // namespace etalon
