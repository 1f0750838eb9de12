// The one test binary. Tests in the suite "long" run only when asked for: ./etalon test --long.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
