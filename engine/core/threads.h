// Parallel loops that never show in the bits.
//
// Work is cut into ranges of whole outputs, so a sum never crosses a range: the number of threads
// decides who computes an output, not how. Each thread enters with the default floating-point
// environment (nearest even, subnormals kept), because other libraries switch flush-to-zero on
// behind one's back; the caller's environment is put back afterwards.
#pragma once

#include <cstdint>

#include "engine/core/function_ref.h"

namespace etalon {

// Sets the calling thread to IEEE defaults (MXCSR on x86) and restores the former state at the end.
class DefaultFpEnvironment {
 public:
  DefaultFpEnvironment();
  ~DefaultFpEnvironment();
  DefaultFpEnvironment(const DefaultFpEnvironment&) = delete;
  DefaultFpEnvironment& operator=(const DefaultFpEnvironment&) = delete;

 private:
  unsigned saved_;
};

int hardware_threads();

// Calls body(begin, end) over a partition of [0, count) on at most `threads` threads; ranges are
// multiples of `grain` but for the last. The first exception thrown is rethrown here. When Ctrl-C
// was pressed, throws an interrupted Error between ranges.
void parallel_for(std::int64_t count, int threads, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body);

// Ctrl-C: the handler sets a flag; long loops call check_interrupt(), which throws.
void install_interrupt_handler();
bool interrupted();
void check_interrupt();

}  // namespace etalon
