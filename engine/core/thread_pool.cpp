#include "engine/core/thread_pool.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/processor.h"
#include "engine/core/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etalon {
namespace {

// How long a helper watches for the next loop before it sleeps, and a caller for a helper's last
// piece. Waking a sleeper takes tens of microseconds at best; on a virtual machine, where a
// processor that sleeps is handed back to the host, it took a millisecond and more: ResNet-50 on
// two threads went from 70 ms to 46 when helpers stopped sleeping between two layers. A network's
// layers come closer together than this; programs that share the machine lose a helper's time for
// no longer. Helpers beyond the number of processors would watch in the way of those that work.
constexpr std::chrono::microseconds kWatch{3000}, kWatchCrowded{100};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Watches until done() holds; false when the time is up first.
template <class F>
bool watch(std::chrono::microseconds time, const F& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// Set while this thread is inside a loop: a loop within a loop runs on one thread.
thread_local bool inside_loop = false;

}  // namespace

struct ThreadPool::State {
  // The gate of the loop under way: kOpen while helpers may enter, and how many are inside. What a
  // helper reads of the loop it reads while inside, so the caller may reuse it once the gate is
  // shut and everyone has left.
  static constexpr std::uint32_t kOpen = 1U << 31;

  std::mutex one_loop;  // held by the thread whose loop is under way
  std::atomic<std::uint32_t> gate{0};
  std::atomic<std::uint32_t> loops{0};  // counts loops; helpers wait for it to change
  std::atomic<bool> ending{false};
  const std::function<void(int)>* work = nullptr;
  int helpers_wanted = 0;
  int processor = -1;  // the caller's
  std::atomic<int> came{0};
  std::vector<std::thread> helpers;

  void help(int index) {
    inside_loop = true;
    const auto time = index + 2 > hardware_threads() ? kWatchCrowded : kWatch;
    std::uint32_t seen = 0;
    while (true) {
      const auto changed = [&] { return loops.load(std::memory_order_acquire) != seen; };
      if (!watch(time, changed)) loops.wait(seen, std::memory_order_acquire);
      seen = loops.load(std::memory_order_acquire);
      if (ending.load(std::memory_order_relaxed)) return;
      std::uint32_t g = gate.load(std::memory_order_acquire);
      while ((g & kOpen) != 0 && !gate.compare_exchange_weak(g, g + 1, std::memory_order_acq_rel,
                                                             std::memory_order_acquire)) {
      }
      if ((g & kOpen) == 0) continue;
      if (index < helpers_wanted) {
        came.fetch_add(1, std::memory_order_relaxed);
        if (processor >= 0 && current_processor() == processor) leave_processor(processor);
        (*work)(index + 1);
      }
      if (gate.fetch_sub(1, std::memory_order_acq_rel) == 1) gate.notify_one();
    }
  }
};

ThreadPool& ThreadPool::instance() {
  static ThreadPool pool;
  return pool;
}

ThreadPool::ThreadPool() : state_(new State) {}

ThreadPool::~ThreadPool() {
  state_->ending.store(true);
  state_->loops.fetch_add(1);
  state_->loops.notify_all();
  for (std::thread& t : state_->helpers) t.join();
  delete state_;
}

void ThreadPool::run(int threads, const std::function<void(int)>& work) {
  State& s = *state_;
  std::unique_lock<std::mutex> mine(s.one_loop, std::defer_lock);
  if (threads <= 1 || inside_loop || !mine.try_lock()) return work(0);
  while (static_cast<int>(s.helpers.size()) < threads - 1)
    s.helpers.emplace_back([&s, index = static_cast<int>(s.helpers.size())] { s.help(index); });
  s.work = &work;
  s.helpers_wanted = threads - 1;
  s.processor = current_processor();
  s.came.store(0, std::memory_order_relaxed);
  s.gate.store(State::kOpen, std::memory_order_release);
  s.loops.fetch_add(1, std::memory_order_acq_rel);
  s.loops.notify_all();
  inside_loop = true;
  work(0);
  inside_loop = false;
  if (kEveryHelperComes)
    while (s.came.load(std::memory_order_relaxed) < threads - 1) std::this_thread::yield();
  if (s.came.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
  s.gate.fetch_and(~State::kOpen, std::memory_order_acq_rel);
  const auto left = [&] { return s.gate.load(std::memory_order_acquire) == 0; };
  while (!watch(threads > hardware_threads() ? kWatchCrowded : kWatch, left))
    if (const std::uint32_t g = s.gate.load(std::memory_order_acquire); g != 0)
      s.gate.wait(g, std::memory_order_acquire);
}

}  // namespace etalon
