#include "kernels/activation/lanes.h"

namespace etalon {

LaneKernel lane_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_lanes;
  if (isa >= Isa::avx2) return avx2::run_lanes;
#endif
  (void)isa;
  return nullptr;
}

LaneValues lane_values(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_values;
  if (isa >= Isa::avx2) return avx2::run_values;
#endif
  (void)isa;
  return nullptr;
}

LaneEnds lane_ends(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_ends;
  if (isa >= Isa::avx2) return avx2::run_ends;
#endif
  (void)isa;
  return nullptr;
}

PowValues pow_values(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_pow_values;
  if (isa >= Isa::avx2) return avx2::run_pow_values;
#endif
  (void)isa;
  return nullptr;
}

PowKernel pow_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_pow;
  if (isa >= Isa::avx2) return avx2::run_pow;
#endif
  (void)isa;
  return nullptr;
}

const ExpLanes* exp_lanes(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exp_lanes;
  if (isa >= Isa::avx2) return &avx2::exp_lanes;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace etalon
