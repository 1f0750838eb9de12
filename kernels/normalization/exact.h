// Contract exact for the normalisations on f32: a first pass in f64 whose error is bounded, a test
// whether both ends of the interval round to the same f32, the definition for the elements it
// leaves. u = 2^-53.
//
// batch_norm. var + eps, its root, the quotient scale / root and x - mean are each rounded once:
// 1 + (1/2 + 1) + 1 + 1 roundings, so the product d * f errs by less than 4.6 u of itself; 2^-50 is
// 8 u. The fused addition of bias is covered by 2^-51 of the result, which the test adds.
//
// layer, instance, group, mean-variance and RMS norm. The mean m' = fl(sum / n) is off by at most
// delta (exact_sum.h and one rounding). About any m', sum (x - m')^2 = n v + n (m' - m)^2: so with
// d = fl(x - m') the computed variance errs by at most delta^2 and (67 + b + 4) u of itself. That
// is a relative error of q = (delta^2 + (80 + b) u v') / (v' + eps) under the root; the root has
// half of it and the factor fl(1 / root) * scale three roundings more. Where q is not below 2^-20
// (a constant row), the row is left. An element's product then errs by (q + 8 u) of itself and by
// delta times the factor.
//
// lrn. N = bias + f s, f and bias not negative, s of `size` squares in one chain: less than
// (size + 3) u of N. The power 3/4 of that, two roots, a product and a quotient: below
// (size + 3) * 3/4 + 4 u; the row takes (size + 8) u. beta = 3/4, 1/2 and 1.
#pragma once

#include "engine/backend/kernel.h"
#include "kernels/gemm/exact.h"

namespace etalon {

// As the rows do it, but for the steps left out.
void run_batch_norm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);
void run_row_norm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);
void run_lrn_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);

const std::vector<KernelRow>& normalization_exact_rows();

}  // namespace etalon
