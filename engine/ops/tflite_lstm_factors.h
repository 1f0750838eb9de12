// The factors of TensorFlow Lite's LSTM of integers (tflite_recurrent.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/ops/tflite_fixed_point.h"
#include "engine/ops/tflite_recurrent.h"

namespace etalon::tflite {

struct LstmFactors {
  // Gates have three bits before the point.
  static constexpr int kGateBits = 3;
  // Of gates i, f, c, o the peepholes are i, f, o.
  static constexpr std::size_t kPeepholes[] = {0, 1, 3, 2};

  explicit LstmFactors(const TfliteLstmParams& p) {
    for (std::size_t g = 0; g < 4; ++g) {
      by_x[g] = Multiplier(static_cast<double>(p.w_scales[g] * p.x_scale / p.gate_scales[g]));
      by_state[g] = Multiplier(static_cast<double>(p.r_scales[g] * p.y_scale / p.gate_scales[g]));
    }
    const double cell = std::ldexp(1.0, static_cast<int>(p.cell_power));
    for (const std::size_t g : {0, 1, 3}) {
      const std::size_t i = kPeepholes[g];
      by_cell[i] = Multiplier(
          static_cast<double>(static_cast<float>(cell * static_cast<double>(p.peephole_scales[i]) /
                                                 static_cast<double>(p.gate_scales[g]))));
    }
    for (std::size_t g = 0; g < 4; ++g) {
      by_norm[g] = Multiplier(static_cast<double>(p.norm_scales[g]));
      by_norm[g].shift += 12;
      least_variance[g] =
          std::max(1, static_cast<std::int32_t>(std::min(10000 * p.norm_scales[g], 0x1p30F)));
    }
    by_hidden = Multiplier(static_cast<double>(
        static_cast<float>(0x1p-15 / static_cast<double>(p.hidden_scale) * 0x1p-15)));
    by_projection =
        Multiplier(static_cast<double>(p.projection_scale * p.hidden_scale / p.y_scale));
  }

  Multiplier by_x[4], by_state[4], by_cell[3], by_norm[4], by_hidden, by_projection;
  std::int32_t least_variance[4] = {};
};

}  // namespace etalon::tflite
