#include "bench/micro/timing.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <thread>

#include "engine/core/error.h"

namespace etalon {
namespace {

// Keeps every repetition's time; prints nothing.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  std::map<std::string, std::vector<double>> seconds;
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration && run.iterations > 0)
        seconds[run.run_name.function_name].push_back(run.real_accumulated_time /
                                                      static_cast<double>(run.iterations));
  }
};

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

void settle(int threads, Watchers of) {
  if (threads > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(of == Watchers::library ? 20 : 150));
}

Timing summarize(std::vector<double> seconds) {
  if (seconds.empty()) throw internal_error("no run was timed");
  std::sort(seconds.begin(), seconds.end());
  const double median = quantile(seconds, 0.5);
  return {median, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median,
          static_cast<int>(seconds.size())};
}

std::vector<Timing> time_interleaved(const std::vector<TimedCandidate>& candidates,
                                     const TimingOptions& options) {
  static const bool initialized = [] {
    char program[] = "etalon", interleave[] = "--benchmark_enable_random_interleaving=true";
    char* argv[] = {program, interleave, nullptr};
    int argc = 2;
    benchmark::Initialize(&argc, argv);
    return true;
  }();
  static_cast<void>(initialized);

  std::exception_ptr failure;
  benchmark::ClearRegisteredBenchmarks();
  for (const TimedCandidate& candidate : candidates)
    benchmark::RegisterBenchmark(candidate.name.c_str(),
                                 [&](benchmark::State& state) {
                                   settle(options.threads, Watchers::library);
                                   try {
                                     for (auto _ : state) candidate.run();
                                   } catch (...) {
                                     if (!failure) failure = std::current_exception();
                                     state.SkipWithError("failed");
                                   }
                                 })
        ->UseRealTime()
        ->Repetitions(options.repetitions)
        ->MinTime(options.min_time_s);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  if (failure) std::rethrow_exception(failure);

  std::vector<Timing> timings;
  for (const TimedCandidate& candidate : candidates)
    timings.push_back(summarize(collector.seconds[candidate.name]));
  return timings;
}

}  // namespace etalon
