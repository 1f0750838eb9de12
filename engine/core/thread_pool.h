// The threads that parallel_for shares.
//
// The caller computes too, and never waits for a helper that has not begun: whatever the scheduler
// does with the helpers, the work gets done at the speed of one thread at least. (A barrier of fork
// and join does wait: on a machine with other work it costs a time slice for every loop, which for
// a small network was a thousand times the work itself.) Helpers watch for the next loop for a
// short while, since an operation takes less time than waking a thread, and then sleep.
//
// A helper that finds itself on the caller's processor moves to another. The kernel often wakes a
// sleeper beside its waker, and where no other thread asks for a processor it stays there for
// milliseconds: on a virtual machine of two processors both threads shared one for a third of the
// time, and a small convolution's mean was twice its minimum. A helper there must run before it can
// move, so a caller that no helper came to in a whole loop yields once.
#pragma once

#include <cstdint>
#include <functional>

namespace etalon {

// Under the thread sanitizer every helper comes to every loop and does its own share, which
// elsewhere a quick one may do for a slow one: a race is seen only where two threads have run.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kEveryHelperComes = true;
#elif defined(__has_feature)
inline constexpr bool kEveryHelperComes = __has_feature(thread_sanitizer);
#else
inline constexpr bool kEveryHelperComes = false;
#endif

class ThreadPool {
 public:
  static ThreadPool& instance();

  // Calls work(0) on this thread and work(1), ... on up to threads - 1 others at once, the same
  // number on the same thread in every run; each call takes what pieces it can get until none is
  // left. Returns when every call that began has ended. Inside a call, and while another thread's
  // run is under way, work(0) runs on this thread alone.
  void run(int threads, const std::function<void(int)>& work);

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  ThreadPool();
  ~ThreadPool();
  struct State;
  State* state_;
};

}  // namespace etalon
