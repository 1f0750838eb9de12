#include "importers/formats/roots.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

using namespace etalon;

// Most roots are mirrored from others. The angle in a long double has three roundings, together at
// most 2^-60, which is allowed beyond half a unit of the last place.
TEST_CASE("roots of unity: each is the f64 next to cos and sin of 2 pi k/n") {
  const auto is_next = [](double got, long double want) {
    const double above = std::nextafter(std::abs(got), 2.0) - std::abs(got);
    return std::abs(static_cast<long double>(got) - want) <= 0.5L * above + 0x1p-60L;
  };
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 20, 100, 255, 1024}) {
    CAPTURE(n);
    const std::vector<Root> roots = roots_of_unity(n);
    REQUIRE(roots.size() == static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k) {
      CAPTURE(k);
      const Root& r = roots[static_cast<std::size_t>(k)];
      if (4 * k % n == 0) {  // exact
        CHECK(std::abs(r.cosine) + std::abs(r.sine) == 1);
        continue;
      }
      const long double angle =
          2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / n;
      CHECK(is_next(r.cosine, std::cos(angle)));
      CHECK(is_next(r.sine, std::sin(angle)));
    }
  }
}
