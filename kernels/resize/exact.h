// resize under exact by linear and cubic kernels, on f32: a first pass in f64 over one axis at a
// time (passes.h), a bound of its error, the test whether both ends of the interval round to the
// same f32, the definition for what it leaves. u = 2^-53; M is the largest finite |x| of a row, the
// elements from the last axis that moves inward, and of the rows that an outer axis joins.
//
// The error. Let every value v before a pass have |v| <= V and be known as v' with |v' - v| <= E;
// the real weights w of an output have a sum of magnitudes of at most W, and the computed ones w'
// differ from them by at most D in sum. A chain of n fused multiply-adds from +0 has n roundings:
//   |fl(sum w' v') - sum w v| <= gamma(n) W (V + E) + W E + D V,     gamma(n) = n u / (1 - n u),
// and the next pass begins with W V and that. It begins with V = M and E = 0, and all is
// proportional to M. Where a product underflows, 2^-1075 more is off, which n + 1 for n outweighs:
// u M is at least 2^-202.
//
// Ties. Doubling by a linear kernel has weights of 1/4 and 3/4, and one output in sixteen is a
// midpoint of two f32 or near one: no error but 0 decides those. So where all weights are known
// exactly and are multiples of 2^-k over all axes, and m is the least |x| > 0, every value on the
// way is a multiple of g = ulp(m) 2^-k and no larger than W M over all axes: while that is below
// 2^53 g, no addition rounds. (Of an inner pass g is larger and W less: W >= 1, as weights sum to
// 1.)
//
// NaN and infinities go on into sums, which are then not finite and left to the definition.
#pragma once

#include "engine/backend/kernel.h"
#include "kernels/gemm/exact.h"

namespace etalon {

// As the rows do it, but for the steps left out.
void run_resize_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);

std::span<const KernelRow> resize_exact_rows();

}  // namespace etalon
