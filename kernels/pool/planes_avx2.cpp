// The loops of planes.h for avx2.
#include "kernels/pool/planes_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void max_planes(const PlanesCall& call) { simd::pool_planes<F32, simd::PlaneMaximum<F32>>(call); }
void average_planes(const PlanesCall& call) {
  simd::pool_planes<F32, simd::PlaneAverage<F32>>(call);
}

}  // namespace etalon::avx2
