// Where a vector of neighbouring outputs finds each tap of a sliding window, and which taps lie in
// the padding: for the rows of order.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/ops/window.h"
#include "kernels/gemm/order_chain.h"

namespace etalon {

// Lanes are outputs [first, first + width) of a run of images, image_stride elements apart.
class WindowLanes {
 public:
  WindowLanes(const Window& window, std::int64_t images, std::int64_t image_stride,
              std::int64_t first, int width)
      : width_(width),
        offset_(static_cast<std::size_t>(window.taps() * width)),
        mask_(static_cast<std::size_t>(window.taps())),
        contiguous_(mask_.size()) {
    const auto& [d, h, w] = window.axes;
    const std::int64_t points = window.out_points();
    const int lanes = static_cast<int>(std::min<std::int64_t>(width, images * points - first));
    for (int lane = 0; lane < lanes; ++lane) {
      const std::int64_t q = first + lane, p = q % points;
      const std::int64_t ox = p % w.out, oy = p / w.out % h.out, oz = p / (w.out * h.out);
      std::size_t tap = 0;
      for (std::int64_t rz = 0; rz < d.kernel; ++rz)
        for (std::int64_t ry = 0; ry < h.kernel; ++ry)
          for (std::int64_t rx = 0; rx < w.kernel; ++rx, ++tap) {
            const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), x = w.at(ox, rx);
            if (z < 0 || z >= d.in || y < 0 || y >= h.in || x < 0 || x >= w.in) continue;
            offset_[tap * static_cast<std::size_t>(width) + static_cast<std::size_t>(lane)] =
                static_cast<std::int32_t>(q / points * image_stride + (z * h.in + y) * w.in + x);
            mask_[tap] |= 1U << lane;
          }
    }
    const std::uint32_t all = lanes >= 32 ? ~0U : (1U << lanes) - 1U;
    for (std::size_t tap = 0; tap < mask_.size(); ++tap) {
      whole_ = whole_ && mask_[tap] == all;
      const std::int32_t* o = offset(tap);
      bool run = mask_[tap] == all && lanes == width;
      for (int lane = 1; run && lane < lanes; ++lane) run = o[lane] == o[0] + lane;
      contiguous_[tap] = run;
    }
  }
  bool whole() const { return whole_; }  // no lane that is stored has a tap in the padding
  std::uint32_t mask(std::size_t tap) const { return mask_[tap]; }
  // to[lane] = plane[...] of the tap, 0 where it lies in the padding.
  template <class T>
  void gather(const OrderTiles<T>& tiles, const T* plane, std::size_t tap, T* to) const {
    if (contiguous_[tap])
      std::copy_n(plane + offset(tap)[0], width_, to);
    else
      tiles.gather(plane, offset(tap), mask_[tap], to);
  }

 private:
  const std::int32_t* offset(std::size_t tap) const {
    return offset_.data() + tap * static_cast<std::size_t>(width_);
  }

  int width_;
  std::vector<std::int32_t> offset_;
  std::vector<std::uint32_t> mask_;
  std::vector<char> contiguous_;
  bool whole_ = true;
};

}  // namespace etalon
