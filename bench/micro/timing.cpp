#include "bench/micro/timing.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <thread>

#include "bench/micro/machine_watch.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"

namespace etalon {
namespace {

// Writes a byte of every line of twice the last cache, each thread its own part: what lay in the
// caches of the processors is gone.
class Eviction {
 public:
  explicit Eviction(int threads) : threads_(threads) {
    const long last = sysconf(_SC_LEVEL3_CACHE_SIZE), second = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const long largest = std::max({last, second, 32L << 20});
    bytes_.resize(static_cast<std::size_t>(2 * largest));
  }
  void operator()() {
    const auto lines = static_cast<std::int64_t>(bytes_.size() / 64);
    parallel_for(lines, threads_, (lines + threads_ - 1) / threads_,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     ++bytes_[static_cast<std::size_t>(64 * i)];
                 });
  }

 private:
  int threads_;
  std::vector<unsigned char> bytes_;
};

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

void wake(int threads, const std::function<void()>& run) {
  if (threads <= 1) return;
  const auto end = std::chrono::steady_clock::now() + kWakeTime;
  do run();
  while (std::chrono::steady_clock::now() < end);
}

int repetitions_within(const TimingOptions& options, double run_s) {
  if (options.most_time_s <= 0) return options.repetitions;
  const double of_one = std::max(run_s, options.min_time_s);
  return static_cast<int>(
      std::clamp(options.most_time_s / of_one, 1.0, static_cast<double>(options.repetitions)));
}

Timing summarize(std::vector<double> seconds) {
  if (seconds.empty()) throw internal_error("no run was timed");
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  return {median, (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / median,
          static_cast<int>(seconds.size()), std::move(seconds)};
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
  Collector collector;
  std::map<std::string, std::vector<double>> trips;  // of each call below
  bool any = false;  // the library complains when it is given nothing to run
  benchmark::ClearRegisteredBenchmarks();
  const bool cold = options.cache == Cache::cold;
  std::optional<Eviction> evict;
  if (cold) evict.emplace(options.threads);
  for (const TimedCandidate& candidate : candidates) {
    if (options.most_time_s > 0 && candidate.first_run_s >= options.most_time_s) {
      collector.seconds[candidate.name] = {candidate.first_run_s};
      continue;
    }
    double warm_run_s = 0;
    for (int i = 0; i < options.warm_up; ++i) {
      const auto start = std::chrono::steady_clock::now();
      candidate.run();
      warm_run_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    any = true;
    auto* registered =
        benchmark::RegisterBenchmark(candidate.name.c_str(), [&](benchmark::State& state) {
          settle(options.threads, Watchers::library);
          if (options.threads > 1) trips[candidate.name].push_back(line_round_trip_s());
          try {
            if (!cold) wake(options.threads, candidate.run);
            for (auto _ : state) {
              if (!cold) {
                candidate.run();
                continue;
              }
              (*evict)();
              settle(options.threads, Watchers::library);
              const auto start = std::chrono::steady_clock::now();
              candidate.run();
              state.SetIterationTime(
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
            }
          } catch (...) {
            if (!failure) failure = std::current_exception();
            state.SkipWithError("failed");
          }
        });
    registered->Repetitions(repetitions_within(options, warm_run_s));
    if (cold)
      registered->UseManualTime()->Iterations(kColdRuns);
    else
      registered->UseRealTime()->MinTime(options.min_time_s);
  }
  if (any) benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  if (failure) std::rethrow_exception(failure);

  std::vector<Timing> timings;
  for (const TimedCandidate& candidate : candidates) {
    Timing& timing = timings.emplace_back(summarize(collector.seconds[candidate.name]));
    // The library calls several times before the first repetition, to find how many runs fill it.
    const std::vector<double>& before = trips[candidate.name];
    if (before.size() >= timing.samples.size())
      timing.line_round_trips.assign(before.end() - std::ssize(timing.samples), before.end());
  }
  return timings;
}

}  // namespace etalon
