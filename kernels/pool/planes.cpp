#include "kernels/pool/planes.h"

#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

// Points of a plane of which a vector each still stays in the second cache.
constexpr std::int64_t kMostPoints = 1024;

}  // namespace

PoolPlanes::PoolPlanes(const Window& window, int lanes, bool worthwhile)
    : lanes_(lanes), in_points_(window.in_points()), out_points_(window.out_points()) {
  if (!worthwhile || in_points_ == 0 || in_points_ > kMostPoints || out_points_ == 0 ||
      out_points_ > kMostPoints)
    return;
  serves_ = true;
  const auto& [d, h, w] = window.axes;
  const auto inside = [](const WindowAxis& a, std::int64_t i) { return i >= 0 && i < a.in; };
  first_.push_back(0);
  for (std::int64_t oz = 0; oz < d.out; ++oz)
    for (std::int64_t oy = 0; oy < h.out; ++oy)
      for (std::int64_t ox = 0; ox < w.out; ++ox) {
        for (std::int64_t rz = 0; rz < d.kernel; ++rz)
          for (std::int64_t ry = 0; ry < h.kernel; ++ry)
            for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
              const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), x = w.at(ox, rx);
              if (inside(d, z) && inside(h, y) && inside(w, x))
                taps_.push_back(static_cast<std::int32_t>((z * h.in + y) * w.in + x));
            }
        first_.push_back(static_cast<std::int32_t>(taps_.size()));
      }
}

PlanesCall PoolPlanes::call() const {
  if (!serves_) return {};
  const auto whole = [&](std::int64_t points) { return (points + lanes_ - 1) / lanes_ * lanes_; };
  return {.in_points = in_points_,
          .out_points = out_points_,
          .taps = taps_.data(),
          .first = first_.data(),
          .turned_in = thread_scratch<float>(ScratchSlot::padded, whole(in_points_) * lanes_),
          .turned_out = thread_scratch<float>(ScratchSlot::tile, whole(out_points_) * lanes_)};
}

}  // namespace etalon
