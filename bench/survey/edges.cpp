#include "bench/survey/edges.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"

namespace etalon {
namespace {

// The midpoint nearest to v, a double that is no float's neighbour's business: v lies between two
// floats a unit apart.
double nearest_midpoint(double v) {
  const double ulp = ulp_of(v, DType::f32);
  return (std::floor(v / ulp) + 0.5) * ulp;  // powers of two and integers below 2^25: exact
}

bool nearer(const Edge& a, const Edge& b) {
  const double x = std::fabs(a.distance), y = std::fabs(b.distance);
  return x != y ? x < y : a.x < b.x;
}

}  // namespace

Edges find_edges(const SurveyedFunction& f, double within, std::size_t most, Isa isa, int threads,
                 const std::function<void(int done, int of)>& progress) {
  if (!(within > 0 && within < 0.25))
    throw usage_error("--within {}: give a distance in ULP above 0 and below 1/4", within);
  const LaneValues lanes = f.lane < LaneFunction::leaky_relu ? lane_values(isa) : nullptr;
  Edges all;
  std::mutex mutex;
  int done = 0;
  parallel_for(kRangeBlocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kPiece = 1 << 12;
    std::vector<float> x(kPiece);
    std::vector<double> v(kPiece);
    for (std::int64_t block = begin; block < end; ++block) {
      Edges found;
      for (std::int64_t at = 0; at < kRangeBlock; at += kPiece) {
        const auto first = static_cast<std::uint32_t>(block * kRangeBlock + at);
        fill_inputs(first, x);
        double error = 0;
        if (lanes != nullptr) {
          error = lanes(f.lane, f.params, x.data(), v.data(), kPiece);
        } else {
          for (std::size_t i = 0; i < x.size(); ++i)
            v[i] = f.value(static_cast<double>(x[i]), DType::f64, Round::nearest_even);
          error = 0x1p-53;
        }
        for (std::size_t i = 0; i < x.size(); ++i) {
          double y = v[i];
          if (y != y || x[i] != x[i]) continue;
          if (std::isinf(y)) {  // refused by the vectors' formula
            y = f.value(static_cast<double>(x[i]), DType::f64, Round::nearest_even);
            if (!std::isfinite(y)) continue;
          }
          // Where floats end; half the smallest subnormal is the last boundary on the other side.
          if (std::fabs(y) >= 0x1p128 || std::fabs(y) < 0x1p-151) continue;
          const double ulp = ulp_of(y, DType::f32), middle = nearest_midpoint(y);
          if (std::fabs(y - middle) > within * ulp + 2 * error * std::fabs(y)) continue;
          const double distance = f.difference(static_cast<double>(x[i]), middle) / ulp;
          if (!(std::fabs(distance) <= within)) continue;
          ++found.count;
          found.nearest.push_back({first + static_cast<std::uint32_t>(i), middle, distance,
                                   static_cast<float>(f.value(static_cast<double>(x[i]), DType::f32,
                                                              Round::nearest_even))});
          if (found.nearest.size() > 2 * most + 64) {
            std::ranges::nth_element(
                found.nearest, found.nearest.begin() + static_cast<std::ptrdiff_t>(most), nearer);
            found.nearest.resize(most);
          }
        }
      }
      check_interrupt();
      const std::scoped_lock lock(mutex);
      all.count += found.count;
      all.nearest.insert(all.nearest.end(), found.nearest.begin(), found.nearest.end());
      std::ranges::sort(all.nearest, nearer);
      if (all.nearest.size() > most) all.nearest.resize(most);
      if (progress) progress(++done, kRangeBlocks);
    }
  });
  return all;
}

}  // namespace etalon
