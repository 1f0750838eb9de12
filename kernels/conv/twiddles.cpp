#include "kernels/conv/twiddles.h"

#include <map>
#include <mutex>

#include "engine/numerics/real.h"

namespace etalon {
namespace {

// cos or sin of 2 pi k / n, 0 < k <= n / 8. The angle is the sum of 2 pi / 2^j over bits of k/n.
double root(std::int64_t k, std::int64_t n, bool sine, DType format) {
  return correctly_rounded(
      [&](auto& a) {
        auto c = a.constant(1), s = a.constant(0);             // of the sum so far
        auto half_c = a.constant(-1), half_s = a.constant(0);  // of 2 pi / 2, halved in each step
        for (std::int64_t part = 2; part <= n; part *= 2) {
          if (part > 2) {
            const auto cosine_before = half_c;
            half_c = a.sqrt(a.mul(a.add(a.constant(1), cosine_before), a.constant(0.5)));
            half_s = a.sqrt(a.mul(a.sub(a.constant(1), cosine_before), a.constant(0.5)));
          }
          if ((k & (n / part)) == 0) continue;
          const auto next = a.sub(a.mul(c, half_c), a.mul(s, half_s));
          s = a.add(a.mul(s, half_c), a.mul(c, half_s));
          c = next;
        }
        return sine ? s : c;
      },
      format);
}

Twiddles make(std::int64_t n, DType format) {
  Twiddles t;
  t.n = n;
  // The first octant; the rest of the half circle by symmetry, which is exact.
  const std::int64_t eighth = n / 8;
  std::vector<double> c{1}, s{0};
  for (std::int64_t k = 1; k <= eighth; ++k) {
    c.push_back(root(k, n, false, format));
    s.push_back(root(k, n, true, format));
  }
  const auto at = [](const std::vector<double>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  };
  const std::int64_t quarter = n / 4;
  for (std::int64_t k = 0; k < n / 2; ++k) {
    const bool second = k > quarter;
    const std::int64_t q = second ? n / 2 - k : k;  // in the first quarter
    const bool swapped = q > eighth;
    const std::int64_t e = swapped ? quarter - q : q;
    const double x = at(c, e), y = at(s, e);
    t.cosine.push_back(second ? -(swapped ? y : x) : (swapped ? y : x));
    t.sine.push_back(swapped ? x : y);
  }
  return t;
}

}  // namespace

std::shared_ptr<const Twiddles> twiddles(std::int64_t n, DType format) {
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, DType>, std::shared_ptr<const Twiddles>> known;
  const std::scoped_lock lock(mutex);
  auto& entry = known[{n, format}];
  if (entry == nullptr) entry = std::make_shared<const Twiddles>(make(n, format));
  return entry;
}

}  // namespace etalon
