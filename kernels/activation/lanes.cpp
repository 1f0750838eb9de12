#include "kernels/activation/lanes.h"

namespace etalon {

#if defined(__x86_64__)
namespace {

template <class T>
T of_isa(Isa isa, T of_avx512, T of_avx2) {
  return isa >= Isa::avx512 ? of_avx512 : isa >= Isa::avx2 ? of_avx2 : nullptr;
}

}  // namespace

LaneKernel lane_kernel(Isa isa) { return of_isa(isa, avx512::run_lanes, avx2::run_lanes); }
LaneValues lane_values(Isa isa) { return of_isa(isa, avx512::run_values, avx2::run_values); }
LaneEnds lane_ends(Isa isa) { return of_isa(isa, avx512::run_ends, avx2::run_ends); }
PowKernel pow_kernel(Isa isa) { return of_isa(isa, avx512::run_pow, avx2::run_pow); }
PowValues pow_values(Isa isa) { return of_isa(isa, avx512::run_pow_values, avx2::run_pow_values); }
const ExpLanes* exp_lanes(Isa isa) { return of_isa(isa, &avx512::exp_lanes, &avx2::exp_lanes); }
#else
LaneKernel lane_kernel(Isa /*isa*/) { return nullptr; }
LaneValues lane_values(Isa /*isa*/) { return nullptr; }
LaneEnds lane_ends(Isa /*isa*/) { return nullptr; }
PowKernel pow_kernel(Isa /*isa*/) { return nullptr; }
PowValues pow_values(Isa /*isa*/) { return nullptr; }
const ExpLanes* exp_lanes(Isa /*isa*/) { return nullptr; }
#endif

}  // namespace etalon
