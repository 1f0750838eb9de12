#include "bench/micro/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/gemm/tile.h"

namespace etalon {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The rate of `threads` threads that each do `rounds` times work(thread), which counts `units`.
template <class Work>
double rate(int threads, int rounds, double units, const Work& work) {
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto start = Clock::now();
    std::vector<std::thread> others;
    const auto run = [&](int thread) {
      for (int i = 0; i < rounds; ++i) work(thread);
    };
    for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
    run(0);
    for (std::thread& t : others) t.join();
    best = std::max(best, units * rounds * threads / since(start));
  }
  return best;
}

double flops(int threads, Isa isa) {
  const TileSet* set = tile_set_f32(isa);
  if (set == nullptr) return 0;
  constexpr std::int64_t kTerms = 192;
  const int rows = set->rows, width = 2 * set->lanes;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  struct Operands {
    std::vector<float> a, b, c;
  };
  std::vector<Operands> own(size(threads));
  for (Operands& o : own) {
    o.a.assign(size(kTerms * rows), 0.5F);
    o.b.assign(size(kTerms * width), 0.25F);
    o.c.assign(size(std::int64_t{rows} * width), 0.0F);
  }
  const auto work = [&](int thread) {
    Operands& o = own[size(thread)];
    TileCall t;
    t.k = kTerms;
    t.a = o.a.data();
    t.a_step = rows;
    t.b = o.b.data();
    t.b_strip = kTerms * set->lanes;
    t.b_step = set->lanes;
    t.c = o.c.data();
    t.c_row = width;
    t.last_lanes = set->lanes;
    set->plain[2][size(rows)](t);
  };
  return 1e-9 * rate(threads, 4000, 2.0 * kTerms * rows * width, work);
}

// Two thirds of a first, a second and a third cache of today, and what fits none.
constexpr double kLevels[] = {2e4, 6e5, 8e6, 1e8};

Peak::Level bytes(int threads, double of_a_thread) {
  // Beyond the caches the threads share them: the whole is as large for any number of threads.
  const double own = of_a_thread == kLevels[3] ? of_a_thread / threads : of_a_thread;
  const auto half = static_cast<std::size_t>(own / 2);
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads)), to(from.size());
  for (std::size_t t = 0; t < from.size(); ++t) {
    from[t].assign(half, 1);
    to[t].assign(half, 0);
  }
  const double moved = 2.0 * static_cast<double>(half);
  const int rounds = std::max(1, static_cast<int>(1e8 / threads / moved));
  return {of_a_thread, 1e-9 * rate(threads, rounds, moved, [&](int thread) {
                         const auto t = static_cast<std::size_t>(thread);
                         std::memcpy(to[t].data(), from[t].data(), half);
                       })};
}

}  // namespace

const Peak& measured_peak(int threads, Isa isa) {
  static std::mutex mutex;
  static std::map<std::pair<int, Isa>, Peak> known;
  const std::scoped_lock lock(mutex);
  const auto [at, fresh] = known.try_emplace({threads, isa});
  if (fresh) {
    at->second.gflops = flops(threads, isa);
    for (const double size : kLevels) at->second.levels.push_back(bytes(threads, size));
  }
  return at->second;
}

}  // namespace etalon
