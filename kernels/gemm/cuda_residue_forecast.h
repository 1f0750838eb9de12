// Whether a product by residues would leave few outputs open, foretold from some of them before
// anything is spent (cuda_residues.h). Units come from norms: where exponents spread widely, sums
// are far smaller than their norms' product, most bounds reach a midpoint, and settling those takes
// longer than the whole product in f64 (on an H200 at 4096 cubed 50 ns each: 35 ms for 4 %, f64
// units 3). The f64 tiles (cuda_wide.h) then take the call. Same bits either way.
//
// A block computes one output: its sum in f64, its lines' norms and rests, so the bound that the
// join would have; twice that, over the gap between the floats at the sum, is how likely a midpoint
// lies in it. These shares are added as integers, so the verdict follows from the data alone.
//
// Host and device, in phases of a block.
#pragma once

#include "kernels/gemm/cuda_residue_planes.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kForecastOutputs = 256;
inline constexpr std::uint32_t kForecastWhole = 1U << 16;  // an output that is open surely

struct ForecastShared {
  struct Part {  // no initialisers
    double a, b, sum;
  };
  Part parts[kResidueThreads];
};

// Output i of them: rows, columns and products each spread over all there are.
ETALON_HD inline DigitOutput forecast_output(const ResidueTask& task, int i) {
  static_assert(kForecastOutputs == 256);
  const auto part = [](std::int64_t of, int place) { return of * place / kForecastOutputs; };
  return {part(task.t.batch.numel(), i * 89 % 256), part(task.t.m, i),
          part(task.t.n, i * 157 % 256)};
}
// Of 2^16, how likely an output that is off by `bound` stays open.
ETALON_HD inline std::uint32_t forecast_share(double y, double bound) {
  const auto size = static_cast<float>(abs_of(y));
  if (!(bound > 0) || !is_finite(bound) || !is_finite(static_cast<double>(size))) return 0;
  const double gap = static_cast<double>(float_of(bits_of(size) + 1)) - static_cast<double>(size);
  const double share = 2 * bound / gap;
  return share < 1 ? static_cast<std::uint32_t>(share * kForecastWhole) : kForecastWhole;
}

// add(share) is called once.
template <class Threads, class Add>
ETALON_HD void residue_forecast(const ResidueTask& task, int i, ForecastShared& s,
                                const Threads& threads, Add&& add) {
  const TileTask& t = task.t;
  const DigitOutput o = forecast_output(task, i);
  const float *a = task.a.from + strided_offset(o.product, t.batch, task.a.batch) +
                   o.m * task.a.line_stride,
              *b = task.b.from + strided_offset(o.product, t.batch, task.b.batch) +
                   o.n * task.b.line_stride;
  // All parts' sum is the first one's.
  const auto sum_up = [&](auto&& of) {
    threads([&](int tid) {
      ForecastShared::Part own = {0, 0, 0};
      for (std::int64_t k = tid; k < t.k; k += kResidueThreads)
        of(static_cast<double>(a[k * task.a.k_stride]), static_cast<double>(b[k * task.b.k_stride]),
           own);
      s.parts[tid] = own;
    });
    for (int step = kResidueThreads / 2; step > 0; step /= 2)
      threads([&](int tid) {
        if (tid >= step) return;
        ForecastShared::Part &to = s.parts[tid], &from = s.parts[tid + step];
        to = {to.a + from.a, to.b + from.b, to.sum + from.sum};
      });
    const ForecastShared::Part all = s.parts[0];
    threads([](int) {});  // all have read it
    return all;
  };
  const ForecastShared::Part squares = sum_up([](double x, double z, ForecastShared::Part& own) {
    own.a = fma_f64(x, x, own.a);
    own.b = fma_f64(z, z, own.b);
    own.sum = fma_f64(x, z, own.sum);
  });
  const double over_a = residue_inverse(residue_unit(squares.a)),
               over_b = residue_inverse(residue_unit(squares.b));
  const ForecastShared::Part rests = sum_up([&](double x, double z, ForecastShared::Part& own) {
    const double r = residue_cut(x * over_a).rest, e = residue_cut(z * over_b).rest;
    own.a = fma_f64(r, r, own.a);
    own.b = fma_f64(e, e, own.b);
  });
  threads([&](int tid) {
    if (tid != 0) return;
    const double bound = residue_bound(task.form, residue_norm(squares.a, rests.a, 0),
                                       residue_norm(squares.b, rests.b, 0), squares.sum);
    const auto alpha = static_cast<double>(t.alpha);
    const double added = MatrixProducts::adds(t) ? MatrixProducts::added(t, o) : 0;
    add(forecast_share(fma_f64(alpha, squares.sum, added), abs_of(alpha) * bound));
  });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
