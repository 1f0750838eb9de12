#include "importers/formats/roots.h"

#include <array>

#include "engine/numerics/element.h"
#include "engine/numerics/real.h"

namespace etalon {
namespace {

// 0 and +-1 are exact and known: no interval ever tells a 0 from what lies beside it.
Root root(std::int64_t k, std::int64_t n) {
  const std::int64_t quarters = 4 * k;
  if (quarters % n == 0) {
    static constexpr std::array<Root, 4> kExact{{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}};
    return kExact[static_cast<std::size_t>(quarters / n % 4)];
  }
  const auto of = [&](Function f) {
    return correctly_rounded(
        [&](auto& a) {
          const auto eighth = a.call(Function::atan, a.constant(1));
          return a.call(f, a.mul(eighth, a.ratio(8 * k, n)));
        },
        DType::f64);
  };
  return {of(Function::cos), of(Function::sin)};
}

}  // namespace

// Only an eighth is computed where n is divided by 4: the others are the same numbers, turned or
// mirrored, and rounding to nearest keeps that.
std::vector<Root> roots_of_unity(std::int64_t n) {
  std::vector<Root> out;
  const auto at = [&](std::int64_t k) { return out[static_cast<std::size_t>(k)]; };
  for (std::int64_t k = 0; k < n; ++k) {
    if (4 * k % n == 0)
      out.push_back(root(k, n));
    else if (2 * k > n)
      out.push_back({at(n - k).cosine, -at(n - k).sine});
    else if (n % 2 == 0 && 4 * k > n)
      out.push_back({-at(n / 2 - k).cosine, at(n / 2 - k).sine});
    else if (n % 4 == 0 && 8 * k > n)
      out.push_back({at(n / 4 - k).sine, at(n / 4 - k).cosine});
    else
      out.push_back(root(k, n));
  }
  return out;
}

}  // namespace etalon
