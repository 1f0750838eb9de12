// Contract exact for reduce_sum, _mean, _l1, _l2 and _sum_square, avg_pool and global_avg_pool on
// f32, without vectors: a sum in f64 whose error is bounded (exact_sum.h), one division or root of
// it (half an ulp more, and half of the relative error under a root), the test whether both ends of
// the interval round to the same f32 (exact_decide of kernels/gemm/exact_decide.h), the definition
// for what it leaves.
#pragma once

#include "engine/backend/kernel.h"
#include "kernels/gemm/exact.h"
#include "kernels/reduce/exact_sum.h"

namespace etalon {

enum class ExactFinish { sum, mean, root };

// Decides y = sum, sum / count or sqrt(sum); the root of a sum of squares, which is its own size.
inline bool decide_sum(const BoundedSum& s, ExactFinish finish, double count, float& y,
                       double* truth) {
  double t = s.sum, e = s.error();
  if (finish == ExactFinish::mean) {
    t /= count;
    e = e / count * (1 + 0x1p-40);
  }
  if (finish == ExactFinish::root) {
    t = std::sqrt(t);
    e = s.sum == 0 ? 0 : e / t;  // |sqrt(s + e) - sqrt(s)| <= e / sqrt(s)
  }
  return exact_decide(t, e, y, truth);
}

// As the rows do it, but for the steps left out.
void run_reduce_exact(const KernelCall& call, const ExactSteps& steps);

const std::vector<KernelRow>& reduce_exact_rows();

}  // namespace etalon
