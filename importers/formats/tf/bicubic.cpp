#include "importers/formats/tf/bicubic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/composed.h"

namespace etalon::tf {
namespace {

constexpr std::int64_t kSteps = 1024, kMostOutputs = 1 << 16;

// Of the kernel at a distance of i steps, and one further away; in f32 as there.
std::pair<float, float> at_step(std::int64_t i, double a) {
  float x = static_cast<float>(static_cast<double>(i) / static_cast<double>(kSteps));
  const auto wide = [&] { return static_cast<double>(x); };
  const auto near = static_cast<float>(((a + 2) * wide() - (a + 3)) * wide() * wide() + 1);
  x += 1.0F;
  return {near, static_cast<float>(((a * wide() - 5 * a) * wide() + 8 * a) * wide() - 4 * a)};
}

struct Taps {
  std::array<Ints, 4> index;
  std::array<std::vector<float>, 4> weight;
};

Taps taps_of(std::int64_t in, std::int64_t out, const Bicubic& how) {
  Taps taps;
  const float scale = how.align_corners && out > 1
                          ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                          : static_cast<float>(in) / static_cast<float>(out);
  const bool keys = how.half_pixel_centers;
  for (std::int64_t o = 0; o < out; ++o) {
    const auto place = static_cast<float>(o);
    const float at = keys ? (place + 0.5F) * scale - 0.5F : place * scale;
    const float floor = std::floor(at);
    const auto first = static_cast<std::int64_t>(floor);
    const auto step =
        static_cast<std::int64_t>(std::nearbyint((at - floor) * static_cast<float>(kSteps)));
    const double a = keys ? -0.5 : -0.75;
    const auto [near, far] = at_step(step, a);
    const auto [next, last] = at_step(kSteps - step, a);
    std::array<float, 4> w{far, near, next, last};
    float sum = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int64_t i = first - 1 + static_cast<std::int64_t>(k);
      const std::int64_t held = std::clamp<std::int64_t>(i, 0, in - 1);
      if (keys && held != i) w[k] = 0;
      sum += w[k];
      taps.index[k].push_back(held);
    }
    if (keys && std::fabs(sum) >= 1000.0F * std::numeric_limits<float>::min())
      for (float& v : w) v *= 1.0F / sum;
    for (std::size_t k = 0; k < 4; ++k) taps.weight[k].push_back(w[k]);
  }
  return taps;
}

ValueId along(GraphBuilder& g, const std::string& name, ValueId x, int axis, std::int64_t out,
              const Bicubic& how) {
  const Taps taps = taps_of(known_extent(g, x, axis), out, how);
  ValueId sum = kAbsent;
  for (std::size_t k = 0; k < 4; ++k) {
    const ValueId pixels = g.op("gather", name + "/pixels",
                                {x, g.constant(name + "/places", ints_tensor(taps.index[k]))},
                                {{"axis", std::int64_t{axis}}});
    Ints shape(static_cast<std::size_t>(4 - axis), 1);
    shape[0] = out;
    Tensor weights = Tensor::uninitialized(DType::f32, Shape(shape));
    std::ranges::copy(taps.weight[k], weights.mutable_data<float>().begin());
    const ValueId part = g.op("mul", name + "/weighted",
                              {pixels, g.constant(name + "/weights", std::move(weights))});
    sum = sum == kAbsent ? part : g.op("add", name + "/sum", {sum, part});
  }
  return sum;
}

}  // namespace

ValueId bicubic(GraphBuilder& g, const std::string& name, ValueId x, const Bicubic& how) {
  if (g.rank(x) != 4) throw bad_input("a bicubic resize of {}", to_string(g.type(x)));
  for (const std::int64_t extent :
       {how.height, how.width, known_extent(g, x, 1), known_extent(g, x, 2)})
    if (extent < 1 || extent > kMostOutputs)
      throw bad_input("a bicubic resize to or from {}", extent);
  if (g.dtype(x) != DType::f32) x = g.op("cast", name + "/f32", {x}, {{"to", std::string("f32")}});
  g.note("bicubic resize: weights are those of TensorFlow's table of 1024 steps, in f32");
  return along(g, name, along(g, name, x, 1, how.height, how), 2, how.width, how);
}

}  // namespace etalon::tf
