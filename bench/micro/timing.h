// Times candidates against each other, with Google Benchmark.
//
// Repetitions of all candidates are interleaved at random, so that a machine that slows down or
// heats up slows all of them: a ratio within one call means something, a time across calls less.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace etalon {

struct TimedCandidate {
  std::string name;
  std::function<void()> run;
  double first_run_s = 0;  // of a run that was made before; 0: there was none
};

// What a run finds in the caches: what the run before left there, or nothing of its own. A cold run
// is timed alone, after every thread has written through twice the last cache.
enum class Cache { warm, cold };

struct TimingOptions {
  int repetitions = 9;
  double min_time_s = 0.03;  // of one repetition: as many runs as fill it; cold: kColdRuns
  int threads = 1;           // of a run; beyond one, `settle` stands before each repetition
  Cache cache = Cache::warm;
  int warm_up = 1;  // runs of each candidate before the first repetition
  // Of all repetitions of one candidate together; 0: no limit. There is always one. A candidate
  // whose first run took as long is not run again: that run is its only repetition.
  double most_time_s = 0;
};
inline constexpr int kColdRuns = 4;

// Waits until the worker threads of whoever ran last have gone to sleep: they watch for more work
// for some time, on the processors of the next to run. libgomp's do so for some 14 ms, ours for 3;
// ONNX Runtime's burnt 55 ms after a run of ResNet-50. Nothing to wait for on one thread.
enum class Watchers { library, framework };
void settle(int threads, Watchers of);

// Runs a candidate until its own threads are awake: they too slept through `settle`, and waking
// takes up to a millisecond, a fifth of a repetition of 5 ms and more. oneDNN's first product of
// 256 x 256 x 256 after 20 ms took 0.7 to 0.9 ms instead of 0.16: a barrier waits for the sleeper;
// ours computes alone until it comes. At least one run; none on one thread.
void wake(int threads, const std::function<void()>& run);
inline constexpr std::chrono::milliseconds kWakeTime{3};

// How often a candidate is repeated whose run took so long.
int repetitions_within(const TimingOptions& options, double run_s);

struct Timing {
  double median_s = 0;
  double spread = 0;  // (third quartile - first quartile) / median
  int repetitions = 0;
  std::vector<double> samples;  // a repetition each, in the sequence they were taken
  // What line_round_trip_s() was before each of them; empty on one thread, or where nobody asked.
  std::vector<double> line_round_trips;
};

// In the sequence of the candidates. What a candidate throws is thrown here.
std::vector<Timing> time_interleaved(const std::vector<TimedCandidate>& candidates,
                                     const TimingOptions& options = {});

// From times of single runs in seconds; at least one.
Timing summarize(std::vector<double> seconds);

}  // namespace etalon
