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
  const TileSet<float>* set = tile_set_f32(isa);
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
    TileCall<float> t;
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

double bytes(int threads) {
  constexpr std::size_t kBytes = std::size_t{48} << 20;
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads)), to(from.size());
  const std::size_t of_a_thread = kBytes / from.size();
  for (std::size_t t = 0; t < from.size(); ++t) {
    from[t].assign(of_a_thread, 1);
    to[t].assign(of_a_thread, 0);
  }
  const double moved = 2.0 * static_cast<double>(of_a_thread);
  return 1e-9 * rate(threads, 1, moved, [&](int thread) {
           const auto t = static_cast<std::size_t>(thread);
           std::memcpy(to[t].data(), from[t].data(), from[t].size());
         });
}

}  // namespace

const Peak& measured_peak(int threads, Isa isa) {
  static std::mutex mutex;
  static std::map<std::pair<int, Isa>, Peak> known;
  const std::scoped_lock lock(mutex);
  const auto [at, fresh] = known.try_emplace({threads, isa});
  if (fresh) at->second = {flops(threads, isa), bytes(threads)};
  return at->second;
}

}  // namespace etalon
