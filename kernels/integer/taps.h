// The taps of an integer convolution: what conv_integer and TensorFlow Lite's have in common.
#pragma once

#include "engine/core/threads.h"
#include "engine/ops/conv.h"

namespace etalon {

// An element of an integer tensor of 8, 16 or 32 bits.
class SmallIntegers {
 public:
  SmallIntegers() = default;
  explicit SmallIntegers(const Tensor& t) : bytes_(t.bytes().data()), dtype_(t.dtype()) {}
  std::int32_t operator[](std::int64_t i) const {
    switch (dtype_) {
      case DType::i8:
        return reinterpret_cast<const std::int8_t*>(bytes_)[i];
      case DType::u8:
        return reinterpret_cast<const std::uint8_t*>(bytes_)[i];
      case DType::i32:
        return reinterpret_cast<const std::int32_t*>(bytes_)[i];
      default:
        return reinterpret_cast<const std::int16_t*>(bytes_)[i];
    }
  }

 private:
  const std::byte* bytes_ = nullptr;
  DType dtype_ = DType::i8;
};

// For each output element i of channel o, visit(i, o, taps), where taps(f) calls f(xi, wi) with the
// indices of each tap inside the input; one channel's points go to one thread.
template <class Visit>
void for_each_output(const ConvGeometry& g, int threads, const Visit& visit) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t points = g.window.out_points();
  parallel_for(g.batch * g.out_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t o = row % g.out_channels, n = row / g.out_channels;
      const std::int64_t first = n * g.in_channels + o / g.group_out() * g.group_in();
      for (std::int64_t p = 0; p < points; ++p) {
        const std::int64_t ox = p % w.out, oy = p / w.out % h.out, oz = p / (w.out * h.out);
        visit(row * points + p, o, [&](const auto& tap) {
          for (std::int64_t c = 0; c < g.group_in(); ++c)
            for (std::int64_t rz = 0; rz < d.kernel; ++rz)
              for (std::int64_t ry = 0; ry < h.kernel; ++ry)
                for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
                  const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry), x = w.at(ox, rx);
                  if (z < 0 || z >= d.in || y < 0 || y >= h.in || x < 0 || x >= w.in) continue;
                  tap((((first + c) * d.in + z) * h.in + y) * w.in + x,
                      (((o * g.group_in() + c) * d.kernel + rz) * h.kernel + ry) * w.kernel + rx);
                }
        });
      }
    }
  });
}

}  // namespace etalon
