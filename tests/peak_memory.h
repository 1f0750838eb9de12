// What the process held at most, and how much more a test of readers lets it hold.
#pragma once

#include <sys/resource.h>

namespace etalon::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kKeepsFreed = true;
#elif defined(__has_feature)
inline constexpr bool kKeepsFreed = __has_feature(address_sanitizer);
#else
inline constexpr bool kKeepsFreed = false;
#endif
// AddressSanitizer keeps what was freed for a while and puts a margin around each block.
inline constexpr long kMostKib = (kKeepsFreed ? 320 : 64) * 1024;

inline long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace etalon::test
