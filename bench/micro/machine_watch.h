// What else the machine did while something was timed, and holding our threads in place.
//
// A time is disturbed by other programs on the same processors and by a hypervisor that gives them
// away. Both are counted by the system (/proc/stat), so that a noisy machine is said, not guessed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace etalon {

// Shares of the machine's processor time over a span.
struct MachineLoad {
  double others = 0;   // busy with other programs
  double stolen = 0;   // wanted by this machine, given to another by the hypervisor
  double seconds = 0;  // the span; the system counts in hundredths of a second
  // One processor in twenty taken, or one part in a hundred stolen. A run on all processors loses
  // at least as large a share, which is what the spread of a quiet machine amounts to (1 to 3 %).
  bool noisy() const { return others > 0.05 || stolen > 0.01; }
  void add(const MachineLoad& more);
};
// What a reader of times is told, without a full stop; empty where the machine was quiet.
std::string noise_text(const MachineLoad& load);

class MachineWatch {
 public:
  MachineWatch();
  MachineLoad load() const;  // since the beginning; zeros where the system does not tell

 private:
  struct Counts {
    double busy = 0, stolen = 0, all = 0, own = 0;  // seconds of processor time
  };
  static Counts counts();
  Counts start_;
  double started_s_;
};

// Binds the calling thread, and all that it starts from here on, to `threads` processors of those
// it may use: one of each core first. Returns their numbers; empty where the system refuses. The
// former set comes back with the destructor.
class Pinned {
 public:
  explicit Pinned(int threads);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  const std::vector<int>& processors() const { return processors_; }

 private:
  std::vector<int> processors_;
  std::vector<unsigned char> before_;
};

// Seconds in which a cache line goes from the first of the processors that the calling thread may
// use to the last and back: the fastest of a few short runs, 0.1 to 0.4 ms in all. Two that share a
// cache need some 50 ns; the processors of a virtual machine may come to lie under two caches for
// minutes, 320 ns on a Zen 4, and whatever threads exchange then takes that much longer. The system
// does not tell. 0 for one processor, or where the system does not let threads be held.
double line_round_trip_s();

// Bytes of this process in memory now, and the most since the last reset. Zeros where the system
// does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
void reset_peak_resident_bytes();

}  // namespace etalon
