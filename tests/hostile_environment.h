// What a library built with fast-math does to the process that loads it, and more: round upward,
// flush subnormal results, read subnormal operands as zeros. Until the end of the scope.
#pragma once

#include <cfenv>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etalon::test {

class HostileEnvironment {
 public:
  HostileEnvironment() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    constexpr unsigned kFlush = 0x8000, kSubnormalsAreZeros = 0x0040;
    _mm_setcsr(_mm_getcsr() | kFlush | kSubnormalsAreZeros);
#endif
  }
  ~HostileEnvironment() { std::fesetenv(&before_); }
  HostileEnvironment(const HostileEnvironment&) = delete;
  HostileEnvironment& operator=(const HostileEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace etalon::test
