// parallel_for: every index once, whoever computes it, however many threads there are or want in.
#include "engine/core/threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include "engine/core/processor.h"

using namespace etalon;

namespace {

// How often each index was visited.
std::vector<int> visits(std::int64_t count, int threads, std::int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
  parallel_for(count, threads, grain, [&](std::int64_t begin, std::int64_t end) {
    CHECK(begin % grain == 0);
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  return {seen.begin(), seen.end()};
}

}  // namespace

TEST_CASE("threads: every index once, at any number of threads") {
  for (int round = 0; round < 50; ++round)
    for (const int threads : {1, 2, 3, 7, 16})
      for (const std::int64_t count : {0, 1, 5, 64, 1000})
        CHECK(visits(count, threads, round % 2 == 0 ? 1 : 7) ==
              std::vector<int>(static_cast<std::size_t>(count), 1));
}

TEST_CASE("threads: a loop within a loop, and loops of two callers at once") {
  std::atomic<std::int64_t> sum{0};
  const auto nested = [&] {
    for (int round = 0; round < 200; ++round)
      parallel_for(8, 3, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          parallel_for(10, 3, 1, [&](std::int64_t b, std::int64_t e) {
            for (std::int64_t j = b; j < e; ++j) sum += i * 10 + j;
          });
      });
  };
  std::thread other(nested);
  nested();
  other.join();
  CHECK(sum == 2 * 200 * (80 * 79 / 2));
}

TEST_CASE("threads: the first exception comes out, and the next loop is whole") {
  for (const int threads : {1, 2, 7}) {
    CHECK_THROWS_AS(parallel_for(100, threads, 1,
                                 [](std::int64_t begin, std::int64_t end) {
                                   if (begin <= 50 && 50 < end) throw std::runtime_error("50");
                                 }),
                    std::runtime_error);
    CHECK(visits(100, threads, 1) == std::vector<int>(100, 1));
  }
}

#ifdef __linux__
TEST_CASE("threads: one leaves a processor where it may run on others, and may come back") {
  const auto allowed = [] {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return set;
  };
  // In a thread of its own: the others keep what they may run on.
  std::thread([&] {
    const cpu_set_t before = allowed();
    std::vector<int> processors;
    for (int p = 0; p < CPU_SETSIZE; ++p)
      if (CPU_ISSET(static_cast<unsigned>(p), &before)) processors.push_back(p);
    for (const int p : processors) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<unsigned>(p), &one);
      REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
      leave_processor(p);  // there is no other
      CHECK(current_processor() == p);
      cpu_set_t now = allowed();
      CHECK(CPU_EQUAL(&now, &one));

      REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
      leave_processor(p);
      now = allowed();
      CHECK(CPU_EQUAL(&now, &before));
    }
    // The system may move a thread at any time, but seldom does.
    if (processors.size() == 1) return;
    int left = 0;
    for (int i = 0; i < 20; ++i) {
      const int p = current_processor();
      leave_processor(p);
      left += current_processor() != p ? 1 : 0;
    }
    CHECK(left > 10);
  }).join();
}
#endif
