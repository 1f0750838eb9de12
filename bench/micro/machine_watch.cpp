#include "bench/micro/machine_watch.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace etalon {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "VmHWM:   1234 kB" of /proc/self/status, in bytes.
std::int64_t status_bytes(const char* field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field)) return 1024 * std::stoll(line.substr(std::strlen(field)));
  return 0;
}

// Processors that share a core with `processor`, as the system writes them: "0,2" or "0-1".
std::string core_of(int processor) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                     "/topology/thread_siblings_list");
  std::string text;
  return std::getline(file, text) ? text : std::to_string(processor);
}

}  // namespace

void MachineLoad::add(const MachineLoad& more) {
  const double whole = seconds + more.seconds;
  if (whole <= 0) return;
  others = (others * seconds + more.others * more.seconds) / whole;
  stolen = (stolen * seconds + more.stolen * more.seconds) / whole;
  seconds = whole;
}

std::string noise_text(const MachineLoad& load) {
  if (!load.noisy()) return "";
  return fmt::format(
      "the machine was noisy: other programs took {:.0f} % of its processor time, the hypervisor "
      "{:.0f} %; ratios hold better than times, and a quiet machine gives both",
      100 * load.others, 100 * load.stolen);
}

MachineWatch::Counts MachineWatch::counts() {
  Counts c;
  std::ifstream file("/proc/stat");
  std::string word;
  // user, nice, system, idle, iowait, irq, softirq, steal
  double t[8] = {};
  if (!(file >> word) || word != "cpu") return c;
  for (double& x : t) file >> x;
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  c.busy = (t[0] + t[1] + t[2] + t[5] + t[6]) / tick;
  c.stolen = t[7] / tick;
  c.all = c.busy + c.stolen + (t[3] + t[4]) / tick;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& v) {
    return static_cast<double>(v.tv_sec) + 1e-6 * static_cast<double>(v.tv_usec);
  };
  c.own = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return c;
}

MachineWatch::MachineWatch() : start_(counts()), started_s_(now_s()) {}

MachineLoad MachineWatch::load() const {
  const Counts end = counts();
  const double all = end.all - start_.all;
  if (all <= 0) return {};
  const double others = (end.busy - start_.busy) - (end.own - start_.own);
  return {std::clamp(others / all, 0.0, 1.0), (end.stolen - start_.stolen) / all,
          now_s() - started_s_};
}

Pinned::Pinned(int threads) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> order, second;
  std::set<std::string> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) (cores.insert(core_of(i)).second ? order : second).push_back(i);
  order.insert(order.end(), second.begin(), second.end());
  if (static_cast<std::size_t>(threads) > order.size()) return;  // more threads than processors
  order.resize(static_cast<std::size_t>(threads));
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (const int i : order) CPU_SET(i, &chosen);
  before_.resize(sizeof allowed);
  std::memcpy(before_.data(), &allowed, sizeof allowed);
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0)
    before_.clear();
  else
    processors_ = std::move(order);
}

Pinned::~Pinned() {
  if (!before_.empty())
    sched_setaffinity(0, before_.size(), reinterpret_cast<const cpu_set_t*>(before_.data()));
}

double line_round_trip_s() {
  constexpr int kRuns = 4, kTrips = 250;
  constexpr std::int64_t kMostSpins = 1 << 22;  // some milliseconds: the other one does not run
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  int first = -1, last = -1;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) (first < 0 ? first : last) = i;
  if (last < 0) return 0;
  const auto hold = [](int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  };
  alignas(64) std::atomic<int> turn{0};  // odd: the other's; negative: the end
  std::atomic<bool> there{false};
  std::thread other([&] {
    hold(last);
    there.store(true, std::memory_order_release);
    for (int now; (now = turn.load(std::memory_order_acquire)) >= 0;)
      if (now % 2 == 1) turn.compare_exchange_strong(now, now + 1, std::memory_order_acq_rel);
  });
  // It may begin on this thread's processor, and moves when it runs.
  while (!there.load(std::memory_order_acquire)) std::this_thread::yield();
  double best = 0;
  std::int64_t spins = 0;
  if (hold(first))
    for (int run = 0; run < kRuns; ++run) {
      const double start = now_s();
      for (int i = 0; i < kTrips; ++i) {
        const int now = turn.load(std::memory_order_relaxed);
        turn.store(now + 1, std::memory_order_release);
        while (turn.load(std::memory_order_acquire) == now + 1 && spins < kMostSpins) ++spins;
      }
      const double trip = (now_s() - start) / kTrips;
      best = run == 0 ? trip : std::min(best, trip);
    }
  for (int now = turn.load(); now >= 0 && !turn.compare_exchange_weak(now, -1);) {
  }
  other.join();
  sched_setaffinity(0, sizeof allowed, &allowed);
  return spins < kMostSpins ? best : 0;
}

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }
void reset_peak_resident_bytes() {
#if defined(__GLIBC__)
  malloc_trim(0);  // what was freed must not hide what is taken next
#endif
  std::ofstream("/proc/self/clear_refs") << 5;
}

}  // namespace etalon
