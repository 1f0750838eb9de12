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

std::vector<Root> roots_of_unity(std::int64_t n) {
  std::vector<Root> out;
  for (std::int64_t k = 0; k < n; ++k) out.push_back(root(k, n));
  return out;
}

}  // namespace etalon
