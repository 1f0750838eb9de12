// The options of `etalon bench`: which there are, which of them what was asked for takes, and which
// values they may have. All of it is said before anything is timed.
#pragma once

#include <string>
#include <vector>

#include "bench/cli/bench_order.h"
#include "bench/cli/options.h"
#include "bench/micro/timing.h"
#include "bench/runners/target.h"
#include "engine/numerics/contract.h"

namespace etalon::cli {

struct BenchArgs {
  std::vector<std::string> words, shapes, vs, contracts, thread_counts, batches, compare;
  std::string kernels, data, cache = "warm", sort = "file", state, against;
  std::int64_t repetitions = 9, samples = 0, warm_up = 1, runs = 1;
  double min_time_ms = 30, most_time_s = 0;
  OrderOptions order;
  bool no_errors = false, import = false, wide = false, no_pin = false;
};

void declare_bench(Options& options, BenchArgs& args);

// What was asked for; several at once but for the last two.
struct BenchAsked {
  std::vector<std::string> files, words;  // of `words`: model files, and names of shapes
  bool shapes = false, functions = false, order = false, compare = false;
};
BenchAsked asked_of(const BenchArgs& args);

// The options' values as they are used.
struct BenchSettings {
  TimingOptions timing;
  std::vector<Contract> contracts;
  std::vector<int> thread_counts;
  std::vector<std::int64_t> batches;
  std::vector<RunnerTarget> frameworks;  // of --vs: what has a runner
  std::vector<std::string> libraries;    // of --vs: prefixes of kernels
};
// A usage Error for an option that nothing asked for takes, and for a value that cannot be.
BenchSettings check_bench(const Options& options, const BenchArgs& args, const BenchAsked& asked);

}  // namespace etalon::cli
