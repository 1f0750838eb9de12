#include "engine/core/threads.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <thread>

#include "engine/core/error.h"
#include "engine/core/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etalon {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");

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
  std::atomic<std::int64_t> next{0};
  ThreadPool::instance().run(static_cast<int>(std::min<std::int64_t>(threads, ranges)), [&] {
    const DefaultFpEnvironment fp;
    for (std::int64_t r; !failed.load(std::memory_order_relaxed) &&
                         (r = next.fetch_add(1, std::memory_order_relaxed)) < ranges;) {
      try {
        check_interrupt();
        body(r * grains / ranges * grain, std::min(count, (r + 1) * grains / ranges * grain));
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  });
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
  if (interrupted()) throw Error(ErrorKind::interrupted, "stopped by Ctrl-C; nothing was written");
}

}  // namespace etalon
