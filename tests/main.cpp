// The one test binary. Tests in the suite "long" run only when asked for: ./etalon test --long.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// Freed memory is kept back by 16 MiB, not 256, so that tests can bound what a read takes.
// libomp keeps a few blocks of its own until the process ends; leaks of this project are still
// found.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so\n"; }
#endif
#endif
