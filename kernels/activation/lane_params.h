// An op's parameters as lanes take them (lanes.h): shared by the CPU's vectors and the GPU's
// threads.
#pragma once

#include <optional>

#include "engine/backend/kernel.h"
#include "engine/ops/activation.h"
#include "kernels/activation/lanes.h"

namespace etalon {

// What a lane function takes from an op's parameters, and which parameters it has no formula for.
template <class P>
LaneParams lane_params(const P& p) {
  LaneParams lanes;
  if constexpr (requires { p.alpha; }) lanes.alpha = static_cast<double>(p.alpha);
  if constexpr (requires { p.gamma; }) lanes.gamma = static_cast<double>(p.gamma);
  if constexpr (requires { p.beta; }) lanes.beta = static_cast<double>(p.beta);
  if constexpr (requires { p.threshold; }) lanes.threshold = static_cast<double>(p.threshold);
  if constexpr (requires { p.max; }) {
    lanes.low = static_cast<double>(p.min);
    lanes.high = static_cast<double>(p.max);
  }
  return lanes;
}
template <class P>
Refusal refuse_lane_params(const P&) {
  return std::nullopt;
}
template <>
inline Refusal refuse_lane_params(const SoftplusParams& p) {
  if (p.beta != 1) return "takes beta=1";
  return std::nullopt;
}
template <>
inline Refusal refuse_lane_params(const SiluParams& p) {
  if (p.alpha != 1) return "takes alpha=1";
  return std::nullopt;
}
template <>
inline Refusal refuse_lane_params(const CeluParams& p) {
  if (!(p.alpha > 0)) return "takes alpha > 0";
  return std::nullopt;
}

}  // namespace etalon
