#include "kernels/normalization/exact.h"

#include "engine/core/threads.h"
#include "kernels/gemm/exact_undecided.h"
#include "kernels/gemm/refuse.h"
#include "kernels/normalization/definition.h"
#include "kernels/normalization/exact_lanes.h"
#include "kernels/reduce/exact_sum.h"

namespace etalon {
namespace {

const float* floats(const KernelCall& call, std::size_t i) {
  return call.input(i).data<float>().data();
}

std::vector<double> widened(const KernelCall& call, std::size_t i) {
  const auto v = call.input(i).data<float>();
  return {v.begin(), v.end()};
}

}  // namespace

void run_batch_norm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  using D = BatchNormDefinition;
  if (!call.truth.empty()) return run_definition<D>(call);
  const D::Plan plan = D::plan(call);
  const std::vector<double> mean = widened(call, 3), bias = widened(call, 2);
  std::vector<double> factor = widened(call, 1);
  const auto var = call.input(4).data<float>();
  for (std::size_t c = 0; c < factor.size(); ++c)
    factor[c] /= std::sqrt(static_cast<double>(var[c]) + plan.eps);
  const float* x = floats(call, 0);
  float* y = call.output(0).mutable_data<float>().data();
  const bool varies = plan.inner == 1;
  parallel_for(plan.count, call.threads, kDecidedAtOnce, [&](std::int64_t begin, std::int64_t end) {
    UndecidedBits bits{};
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t c = i / plan.inner % plan.channels, in_channel = i % plan.inner;
      const std::int64_t run = varies ? plan.channels - c : plan.inner - in_channel;
      const auto channel = static_cast<std::size_t>(c);
      const std::int64_t n = std::min({run, end - i, kDecidedAtOnce});
      exact_norm_lanes(isa)->affine({.x = x + i,
                                     .y = y + i,
                                     .n = n,
                                     .mean = &mean[channel],
                                     .factor = &factor[channel],
                                     .bias = &bias[channel],
                                     .mean_varies = varies,
                                     .affine_varies = varies,
                                     .relative = 0x1p-50},
                                    bits.data());
      each_undecided(bits, n, steps,
                     [&](std::int64_t k) { correctly_rounded_slice<D>(call, plan, i + k); });
      i += n;
    }
  });
}

namespace {

// A row whose terms lie anywhere, packed.
void pack_row(const RowNormPlan& p, const float* x, std::int64_t row, std::vector<float>& to) {
  const float* from = x + p.rows.firsts[static_cast<std::size_t>(row)];
  for (std::size_t k = 0; k < to.size(); ++k) to[k] = from[p.rows.offsets[k]];
}

template <class F>
void run_row_norm(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  using D = RowNormDefinition<F>;
  if (!call.truth.empty()) return run_definition<D>(call);
  const RowNormPlan plan = D::plan(call);
  if (plan.rows.rows == 0) return;
  const std::int64_t n = plan.rows.length();
  if (n == 0) return run_definition<D>(call);  // statistics of no elements
  const float* x = floats(call, 0);
  float* y = call.output(0).mutable_data<float>().data();
  const bool contiguous = plan.rows.offsets.back() == n - 1;
  const auto count = static_cast<double>(n);
  const ExactNormLanes& lanes = *exact_norm_lanes(isa);
  // Index of scale and bias: that of the row's first element and that of the element's offset,
  // whose coordinates never carry into each other.
  const bool varies = plan.by_row == 0 && (plan.scale || plan.bias);
  std::vector<std::int64_t> scale_at, bias_at;
  for (std::int64_t k = 0; varies && k < n; ++k) {
    const std::int64_t offset = plan.rows.offsets[static_cast<std::size_t>(k)];
    scale_at.push_back(strided_offset(offset, plan.shape, plan.scale_strides));
    bias_at.push_back(strided_offset(offset, plan.shape, plan.bias_strides));
  }
  parallel_for(
      D::slices(plan), call.threads, std::max<std::int64_t>(1, kDecidedAtOnce / n),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> row_x(contiguous ? 0 : static_cast<std::size_t>(n)), row_y(row_x.size());
        // -0 added keeps the sign of a zero where there is no bias.
        std::vector<double> scale(static_cast<std::size_t>(std::min(n, kDecidedAtOnce)), 1.0),
            bias(scale.size(), -0.0);
        UndecidedBits bits{};
        RowNormPlan left = plan;
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t start = plan.rows.firsts[static_cast<std::size_t>(row)];
          if (!contiguous) pack_row(plan, x, row, row_x);
          const float* from = contiguous ? x + start : row_x.data();
          float* to = contiguous ? y + start : row_y.data();
          const auto term = [&](std::int64_t k) { return static_cast<double>(from[k]); };
          double mean = 0, delta = 0;
          if (plan.centre) {
            BoundedSum sum;
            add_terms(sum, n, term);
            mean = sum.sum / count;
            delta = (sum.error() / count + std::abs(mean) * 0x1p-53) * (1 + 0x1p-20);
          }
          double outer = 1, q = 0;
          if (plan.divide) {
            BoundedSum squares;
            add_terms(squares, n, [&](std::int64_t k) {
              const double d = term(k) - mean;
              return d * d;
            });
            const double v = squares.sum / count;
            const double error =
                delta * delta + (80 + static_cast<double>(squares.blocks)) * 0x1p-53 * v;
            q = error / (plan.eps_inside ? v + plan.eps : v) * (1 + 0x1p-20);
            outer = 1 / (plan.eps_inside ? std::sqrt(v + plan.eps) : std::sqrt(v) + plan.eps);
          }
          if (!(q < 0x1p-20) || plan.statistics) {  // statistics are outputs of the slice too
            correctly_rounded_slice<D>(call, plan, row);
            exact_counts().undecided.fetch_add(n, std::memory_order_relaxed);
            continue;
          }
          const auto base = [&](const std::array<std::int64_t, kMaxRank>& strides) {
            return plan.by_row > 0 ? row % plan.by_row : strided_offset(start, plan.shape, strides);
          };
          const std::int64_t scale_base = base(plan.scale_strides),
                             bias_base = base(plan.bias_strides);
          left.only.clear();
          for (std::int64_t first = 0; first < n; first += kDecidedAtOnce) {
            const std::int64_t m = std::min(kDecidedAtOnce, n - first);
            for (std::int64_t k = 0; k < (varies ? m : 1); ++k) {
              const auto to_affine = static_cast<std::size_t>(k);
              const auto at = static_cast<std::size_t>(first + k);
              if (plan.scale)
                scale[to_affine] = plan.scale[scale_base + (varies ? scale_at[at] : 0)];
              if (plan.bias) bias[to_affine] = plan.bias[bias_base + (varies ? bias_at[at] : 0)];
            }
            lanes.affine({.x = from + first,
                          .y = to + first,
                          .n = m,
                          .mean = &mean,
                          .factor = scale.data(),
                          .bias = bias.data(),
                          .affine_varies = varies,
                          .outer = outer,
                          .relative = q + 0x1p-50,
                          .spread = delta},
                         bits.data());
            each_undecided(bits, m, steps, [&](std::int64_t k) { left.only.push_back(first + k); });
          }
          if (!contiguous)
            for (std::size_t k = 0; k < row_y.size(); ++k)
              y[start + plan.rows.offsets[k]] = row_y[k];
          if (!left.only.empty()) correctly_rounded_slice<D>(call, left, row);
        }
      });
}

}  // namespace

void run_row_norm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  const std::string_view op = call.problem->op->name;
  if (op == LayerNorm::op) return run_row_norm<LayerNorm>(call, isa, steps);
  if (op == InstanceNorm::op) return run_row_norm<InstanceNorm>(call, isa, steps);
  if (op == GroupNorm::op) return run_row_norm<GroupNorm>(call, isa, steps);
  if (op == MeanVariance::op) return run_row_norm<MeanVariance>(call, isa, steps);
  return run_row_norm<RmsNorm>(call, isa, steps);
}

void run_lrn_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  using D = LrnDefinition;
  if (!call.truth.empty()) return run_definition<D>(call);
  const D::Plan plan = D::plan(call);
  if (plan.count == 0) return;
  const LrnParams& p = plan.params;
  const float* x = floats(call, 0);
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t planes = plan.count / plan.inner;
  const std::int64_t pieces = (plan.inner + 511) / 512;  // a window of channels stays in cache
  const auto size = static_cast<double>(p.size);
  parallel_for(
      planes / plan.channels * pieces, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        UndecidedBits bits{};
        for (std::int64_t item = begin; item < end; ++item)
          for (std::int64_t c = 0; c < plan.channels; ++c) {
            const std::int64_t first = item % pieces * 512;
            const std::int64_t at = (item / pieces * plan.channels + c) * plan.inner + first;
            const std::int64_t n = std::min<std::int64_t>(512, plan.inner - first);
            exact_norm_lanes(isa)->lrn(
                {.x = x + at,
                 .y = y + at,
                 .n = n,
                 .first = std::max(-plan.below, -c),
                 .last = std::min(plan.above, plan.channels - 1 - c),
                 .step = plan.inner,
                 .factor = static_cast<double>(p.alpha) / (p.alpha_divided ? size : 1.0),
                 .bias = static_cast<double>(p.bias),
                 .relative = (size + 8) * 0x1p-53,
                 .power = p.beta == 1      ? LrnPower::one
                          : p.beta == 0.5F ? LrnPower::half
                                           : LrnPower::three_quarters},
                bits.data());
            each_undecided(bits, n, steps,
                           [&](std::int64_t k) { correctly_rounded_slice<D>(call, plan, at + k); });
          }
      });
}

namespace {

Refusal refuse_lrn(const Problem& problem) {
  const auto& p = problem.params->as<LrnParams>();
  if (p.beta != 1 && p.beta != 0.5F && p.beta != 0.75F) return "takes beta 1/2, 3/4 and 1";
  if (!(p.alpha >= 0 && p.bias >= 0)) return "takes alpha and bias that are not negative";
  return refuse_unless_exact_f32(problem);
}

Refusal refuse_row_norm(const Problem& problem) {
  if (const Refusal why = refuse_unless_exact_f32(problem)) return why;
  return refuse_too_many_terms(problem);
}

template <Isa isa, void (*Run)(const KernelCall&, Isa, const ExactSteps&)>
void run_row(const KernelCall& call) {
  Run(call, isa, {});
}

template <Isa isa>
KernelRow row_norm_row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = refuse_row_norm,
          .run = run_row<isa, run_row_norm_exact>};
}

template <Isa isa>
void add_rows(std::vector<KernelRow>& rows, const std::array<std::string_view, 7>& names) {
  rows.push_back({.op = "batch_norm",
                  .name = names[0],
                  .isa = isa,
                  .contracts = "exact",
                  .refuse = refuse_unless_exact_f32,
                  .run = run_row<isa, run_batch_norm_exact>});
  rows.push_back({.op = "lrn",
                  .name = names[1],
                  .isa = isa,
                  .contracts = "exact",
                  .refuse = refuse_lrn,
                  .run = run_row<isa, run_lrn_exact>});
  const std::string_view ops[] = {LayerNorm::op, InstanceNorm::op, GroupNorm::op, MeanVariance::op,
                                  RmsNorm::op};
  for (std::size_t i = 0; i < std::size(ops); ++i)
    rows.push_back(row_norm_row<isa>(ops[i], names[2 + i]));
}

}  // namespace

const ExactNormLanes* exact_norm_lanes([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exact_norm_lanes();
  if (isa >= Isa::avx2) return &avx2::exact_norm_lanes();
#endif
  return nullptr;
}

const std::vector<KernelRow>& normalization_exact_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
#if defined(__x86_64__)
    add_rows<Isa::avx512>(all,
                          {"batch_norm.exact.avx512", "lrn.exact.avx512", "layer_norm.exact.avx512",
                           "instance_norm.exact.avx512", "group_norm.exact.avx512",
                           "mean_variance_normalization.exact.avx512", "rms_norm.exact.avx512"});
    add_rows<Isa::avx2>(all, {"batch_norm.exact.avx2", "lrn.exact.avx2", "layer_norm.exact.avx2",
                              "instance_norm.exact.avx2", "group_norm.exact.avx2",
                              "mean_variance_normalization.exact.avx2", "rms_norm.exact.avx2"});
#endif
    return all;
  }();
  return rows;
}

}  // namespace etalon
