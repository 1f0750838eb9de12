// A function of 16-bit integers as TensorFlow Lite tabulates it: 513 values, 128 integers apart,
// and lines between them. Each is lowered by half of what the line to the next lies above the
// function in its middle, all rounded to nearest, halves away from zero; the last one is the
// function's.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace etalon::tflite {

inline std::int16_t interpolated(std::span<const std::int16_t> table, std::int16_t x) {
  const auto at = static_cast<std::size_t>(256 + (x >> 7));
  const std::int32_t slope = static_cast<std::int16_t>(table[at + 1] - table[at]);
  return static_cast<std::int16_t>(table[at] + ((slope * (x & 127) + 64) >> 7));
}

// What the integers on either side stand for; computed with in F throughout.
template <class F>
struct TableScales {
  F x_scale = 1;
  std::int32_t x_zero = 0;
  F y_scale = 1;
  std::int32_t y_zero = 0;
};

template <class F>
class InterpolatedTable {
 public:
  template <class Function>
  InterpolatedTable(const TableScales<F>& s, const Function& f) {
    const F from = s.x_scale * static_cast<F>(-32768 - s.x_zero),
            to = s.x_scale * static_cast<F>(32767 - s.x_zero),
            low = s.y_scale * static_cast<F>(-32768 - s.y_zero),
            high = s.y_scale * static_cast<F>(32767 - s.y_zero);
    const F step = (to - from) / 512, half = step / 2, finer = F{65536} / (high - low);
    // NaN, as a logarithm gives below 0: the reference's conversion leaves it open, x86's gives 0.
    const auto held = [](F v) {
      return v == v ? static_cast<std::int16_t>(std::clamp<F>(v, -32768, 32767)) : std::int16_t{0};
    };
    for (int i = 0; i < 512; ++i) {
      const F here = from + static_cast<F>(i) * step, next = from + static_cast<F>(i + 1) * step;
      const F value = std::round(f(here) * finer);
      const F middle = std::round((f(next) * finer + value) / 2);
      const F above = middle - std::round(f(here + half) * finer);
      values_[static_cast<std::size_t>(i)] = held(value - std::round(above / 2));
    }
    values_[512] = held(std::round(f(to) * finer));
  }
  std::int16_t operator()(std::int16_t x) const { return interpolated(values_, x); }
  std::span<const std::int16_t> values() const { return values_; }

 private:
  std::array<std::int16_t, 513> values_{};
};

}  // namespace etalon::tflite
