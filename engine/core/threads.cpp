#include "engine/core/threads.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etalon {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");

// The ranges of one loop, [first, last) of them for each thread to begin with: it takes its own
// upwards, then those that others have left, from behind. Loops over the same extent so give a
// thread the same part time after time, and what it wrote in one layer of a network lies in its
// own cache when it reads it in the next: MobileNet's depthwise layers of 14x14, whose whole input
// fits there, took 145 us on two threads and 64 on one when ranges went to who came first.
class Shares {
 public:
  Shares(std::int64_t ranges, int threads) : shares_(static_cast<std::size_t>(threads)) {
    for (std::int64_t i = 0; i < threads; ++i)
      shares_[static_cast<std::size_t>(i)].left.store(
          joined(i * ranges / threads, (i + 1) * ranges / threads), std::memory_order_relaxed);
  }

  // A range for thread `own`, or -1 when none is left, or none of its own.
  std::int64_t take(std::size_t own, bool others) {
    if (const std::int64_t r = take_of(own, false); r >= 0 || !others) return r;
    for (std::size_t i = 1; i < shares_.size(); ++i)
      if (const std::int64_t r = take_of((own + i) % shares_.size(), true); r >= 0) return r;
    return -1;
  }

 private:
  struct alignas(64) Share {  // a cache line each
    std::atomic<std::uint64_t> left;
  };
  static std::uint64_t joined(std::int64_t first, std::int64_t last) {
    return static_cast<std::uint64_t>(first) << 32U | static_cast<std::uint64_t>(last);
  }
  std::int64_t take_of(std::size_t of, bool behind) {
    std::atomic<std::uint64_t>& left = shares_[of].left;
    std::uint64_t now = left.load(std::memory_order_relaxed);
    while (true) {
      const auto first = static_cast<std::int64_t>(now >> 32U);
      const auto last = static_cast<std::int64_t>(now & 0xffffffffU);
      if (first == last) return -1;
      const std::uint64_t rest = behind ? joined(first, last - 1) : joined(first + 1, last);
      if (left.compare_exchange_weak(now, rest, std::memory_order_relaxed))
        return behind ? last - 1 : first;
    }
  }
  std::vector<Share> shares_;
};

}  // namespace

#if defined(__x86_64__)
constexpr unsigned kDefaultMxcsr = 0x1f80;  // all exceptions masked, nearest even, no FTZ, no DAZ
DefaultFpEnvironment::DefaultFpEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultMxcsr); }
DefaultFpEnvironment::~DefaultFpEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
DefaultFpEnvironment::DefaultFpEnvironment() {
  std::uint64_t fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  saved_ = static_cast<unsigned>(fpcr);
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
}
DefaultFpEnvironment::~DefaultFpEnvironment() {
  asm volatile("msr fpcr, %0" : : "r"(static_cast<std::uint64_t>(saved_)));
}
#elif defined(__wasm__)
// WebAssembly has one environment, and it is the default.
DefaultFpEnvironment::DefaultFpEnvironment() : saved_(0) {}
DefaultFpEnvironment::~DefaultFpEnvironment() { static_cast<void>(saved_); }
#else
#error "say how this machine's floating-point environment is set to IEEE defaults"
#endif

int hardware_threads() {
  static const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return threads;
}

void parallel_for(std::int64_t count, int threads, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (count + grain - 1) / grain;
  // A few ranges a thread, so that one slow range does not keep the others waiting.
  const std::int64_t ranges = threads <= 1 ? 1 : std::min<std::int64_t>(grains, threads * 4L);
  if (threads <= 1 || ranges == 1) {
    const DefaultFpEnvironment fp;
    check_interrupt();
    body(0, count);
    return;
  }
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  const auto workers = static_cast<int>(std::min<std::int64_t>(threads, ranges));
  Shares shares(ranges, workers);
  const auto work = [&](int worker, bool others) {
    const DefaultFpEnvironment fp;
    for (std::int64_t r; !failed.load(std::memory_order_relaxed) &&
                         (r = shares.take(static_cast<std::size_t>(worker), others)) >= 0;) {
      try {
        check_interrupt();
        body(r * grains / ranges * grain, std::min(count, (r + 1) * grains / ranges * grain));
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  };
  ThreadPool::instance().run(workers, [&](int worker) { work(worker, !kEveryHelperComes); });
  if (kEveryHelperComes) work(0, true);  // a loop within a loop has no helpers
  if (failure) std::rethrow_exception(failure);
}

void install_interrupt_handler() {
  std::signal(SIGINT, [](int) {
    // A second Ctrl-C ends the process at once: the first may be stuck in another library.
    if (g_interrupted.exchange(true)) std::_Exit(130);
  });
}
bool interrupted() { return g_interrupted.load(std::memory_order_relaxed); }
void check_interrupt() {
  if (interrupted())
    throw Error(ErrorKind::interrupted, "stopped by Ctrl-C; no file is left half written");
}

}  // namespace etalon
