#include "kernels/normalization/row_norm_rows.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/normalization.h"
#include "kernels/gemm/refuse.h"
#include "kernels/normalization/row_norm.h"
#include "kernels/reduce/f32_steps.h"

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

// Sums of `rows` rows of n elements, as the contract's chains give them.
void sum_rows(const StepFunctions& steps, Step step, std::int64_t lanes, const float* x,
              std::int64_t rows, std::int64_t n, std::array<float, kChains>& sums,
              std::vector<float>& partial) {
  if (lanes == 1) {
    std::array<const float*, kChains> from;  // spare chains repeat the last row
    for (std::int64_t r = 0; r < kChains; ++r)
      from[static_cast<std::size_t>(r)] = x + std::min(r, rows - 1) * n;
    sums.fill(0);
    return steps.along(step, sums.data(), from.data(), n, 1);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    partial.assign(static_cast<std::size_t>(lanes), 0.0F);
    for (std::int64_t k = 0; k < n; k += lanes)
      steps.across(step, partial.data(), x + r * n + k, std::min(lanes, n - k));
    for (std::int64_t m = lanes; m > 1;) {
      const std::int64_t h = (m + 1) / 2;
      steps.across(Step::sum, partial.data(), partial.data() + h, m - h);
      m = h;
    }
    sums[static_cast<std::size_t>(r)] = partial[0];
  }
}

template <Isa isa>
void run(const KernelCall& call) {
  const Geometry g = geometry(*call.problem);
  const Tensor& input = call.input(0);
  const std::int64_t n = row_length(input.shape(), g.axis);
  if (input.numel() == 0) return;
  const std::int64_t all = input.numel() / n;
  const Order& order = call.contract().order;
  const std::int64_t lanes = order.kind == OrderKind::lanes ? order.sizes[0] : 1;
  const StepFunctions& steps = isa >= Isa::avx512 ? step_functions_avx512() : step_functions_avx2();
  const float* x = input.data<float>().data();
  const float* scale = call.has(1) ? call.input(1).data<float>().data() : nullptr;
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  float* means = g.statistics ? call.output(1).mutable_data<float>().data() : nullptr;
  float* inverses = g.statistics ? call.output(2).mutable_data<float>().data() : nullptr;
  const auto count = static_cast<float>(n);
  const std::int64_t grain = std::clamp<std::int64_t>(all / call.threads, 1, kChains);
  parallel_for(all, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> partial;
    std::array<float, kChains> sums{};
    for (std::int64_t first = begin; first < end; first += kChains) {
      const std::int64_t rows = std::min<std::int64_t>(kChains, end - first);
      const float* from = x + first * n;
      float* to = y + first * n;
      std::array<float, kChains> mean{};
      if (g.centre) {
        sum_rows(steps, Step::sum, lanes, from, rows, n, sums, partial);
        for (std::int64_t r = 0; r < rows; ++r) {
          const float m = sums[static_cast<std::size_t>(r)] / count;
          mean[static_cast<std::size_t>(r)] = m;
          const float* row = from + r * n;
          float* d = to + r * n;
#pragma omp simd
          for (std::int64_t k = 0; k < n; ++k) d[k] = row[k] - m;
        }
        from = to;
      }
      sum_rows(steps, Step::square, lanes, from, rows, n, sums, partial);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto i = static_cast<std::size_t>(r);
        const float root = __builtin_sqrtf(sums[i] / count + g.eps);
        if (g.statistics) {
          means[first + r] = canonical(mean[i]);
          inverses[first + r] = canonical(1.0F / root);
        }
        const RowAffine row{from + r * n, root, scale, bias, to + r * n, n};
        isa >= Isa::avx512 ? avx512::row_affine(row) : avx2::row_affine(row);
      }
    }
  });
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_f32(problem)) return r;
  const Contract& c = *problem.contract;
  if (!c.native_f32()) return "computes in plain f32, rounded to nearest and fused";
  if (c.order.kind != OrderKind::seq &&
      (c.order.kind != OrderKind::lanes || c.order.sizes[0] > 4096))
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
