#include "kernels/normalization/row_norm_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/normalization.h"
#include "kernels/gemm/refuse.h"
#include "kernels/reduce/row_steps.h"
#include "kernels/simd/machine.h"

namespace etalon {
namespace {

struct Geometry {
  std::int64_t axis;
  float eps;
  bool centre, statistics;
};
Geometry geometry(const Problem& problem) {
  if (problem.op->name == "rms_norm") {
    const auto& p = problem.params->as<RmsNormParams>();
    return {p.axis, p.eps, false, false};
  }
  const auto& p = problem.params->as<LayerNormParams>();
  return {p.axis, p.eps, true, p.statistics};
}

// Elements of a row: of the axes from `axis` on.
std::int64_t row_length(const Shape& x, std::int64_t axis) {
  return x.product(static_cast<int>(axis < 0 ? axis + x.rank() : axis), x.rank());
}

// RowAffine::quick of a centred row. Not below 2^-60: x and a mean of 2^-30 at least are multiples
// of 2^-54 both, or x is below half the mean and the distance above 2^-31; equal, they leave +0.
// Not above: every square is in the sum, which no NaN and no infinity leaves below 2^100.
bool in_range(float mean, float squares, float root) {
  return std::fabs(mean) >= 0x1p-30F && squares < 0x1p100F && root >= 0x1p-60F && root < 0x1p60F;
}

template <Isa isa>
void run(const KernelCall& call) {
  const Geometry g = geometry(*call.problem);
  const Tensor& input = call.input(0);
  const std::int64_t n = row_length(input.shape(), g.axis);
  if (input.numel() == 0) return;
  const std::int64_t all = input.numel() / n;
  const Order& order = call.contract().order;
  const RowSteps& steps = isa >= Isa::avx512 ? row_steps_avx512(is_amd()) : row_steps_avx2();
  // Under lanes a few rows are done in one go, while they are in the first cache: one row's sum,
  // root and division go on beside the next one's.
  const bool lanes = order.kind == OrderKind::lanes;
  const std::int64_t group =
      lanes ? std::clamp<std::int64_t>(2048 / n, 1, kRowsAtOnce) : kRowsAtOnce;
  const float* x = input.data<float>().data();
  const float* scale = call.has(1) ? call.input(1).data<float>().data() : nullptr;
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  float* means = g.statistics ? call.output(1).mutable_data<float>().data() : nullptr;
  float* inverses = g.statistics ? call.output(2).mutable_data<float>().data() : nullptr;
  const bool finite =
      (scale == nullptr || steps.finite(scale, n)) && (bias == nullptr || steps.finite(bias, n));
  const auto count = static_cast<float>(n);
  const auto sum = [&](const float* row_means, const float* from, std::int64_t rows, float* sums) {
    if (lanes)
      for (std::int64_t r = 0; r < rows; ++r)
        sums[r] = steps.lanes(row_means == nullptr ? nullptr : row_means + r, from + r * n, n,
                              order.sizes[0]);
    else
      steps.chains(row_means, from, n, rows, n, sums);
  };
  const std::int64_t grain = std::clamp<std::int64_t>(all / call.threads, 1, kRowsAtOnce);
  parallel_for(all, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += group) {
      const std::int64_t rows = std::min(group, end - first);
      const float* from = x + first * n;
      float* to = y + first * n;
      std::array<float, kRowsAtOnce> sums{}, mean{};
      if (g.centre) {
        sum(nullptr, from, rows, mean.data());
        for (float& m : mean) m /= count;
      }
      sum(mean.data(), from, rows, sums.data());
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto i = static_cast<std::size_t>(r);
        const float root = __builtin_sqrtf(sums[i] / count + g.eps);
        if (g.statistics) {
          means[first + r] = canonical(mean[i]);
          inverses[first + r] = canonical(1.0F / root);
        }
        steps.affine({.x = from + r * n,
                      .mean = mean[i],
                      .root = root,
                      .scale = scale,
                      .bias = bias,
                      .finite = finite,
                      .quick = g.centre && in_range(mean[i], sums[i], root),
                      .y = to + r * n,
                      .n = n});
      }
    }
  });
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_f32(problem)) return r;
  const Contract& c = *problem.contract;
  if (!c.native_f32()) return "computes in plain f32, rounded to nearest and fused";
  if (c.order.kind != OrderKind::seq &&
      (c.order.kind != OrderKind::lanes || c.order.sizes[0] > kMostLanes))
    return "promises order=seq and order=lanes:N, N up to 4096";
  const Geometry g = geometry(problem);
  const Shape& x = problem.input(0).shape;
  const int axes = x.rank() - static_cast<int>(g.axis < 0 ? g.axis + x.rank() : g.axis);
  for (std::size_t i = 1; i < problem.inputs.size(); ++i) {
    if (!problem.has(i)) continue;
    const Shape& s = problem.input(i).shape;
    bool row = s.rank() >= axes && s.numel() == row_length(x, g.axis);
    for (int axis = 1; row && axis <= axes; ++axis) row = s.dim(-axis) == x.dim(-axis);
    if (!row) return "takes a scale and a bias for each element of a row";
  }
  return std::nullopt;
}

template <Isa isa>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = "seq, order=lanes:N",
          .refuse = refuse,
          .run = run<isa>};
}

}  // namespace

std::span<const KernelRow> row_norm_f32_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<Isa::avx512>("layer_norm", "layer_norm.f32.avx512"),
      row<Isa::avx2>("layer_norm", "layer_norm.f32.avx2"),
      row<Isa::avx512>("rms_norm", "rms_norm.f32.avx512"),
      row<Isa::avx2>("rms_norm", "rms_norm.f32.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
