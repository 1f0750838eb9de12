#include "kernels/normalization/batch_norm.h"

#include <cmath>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/pointwise.h"
#include "engine/core/threads.h"
#include "engine/ops/normalization.h"
#include "kernels/elementwise/steps.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

// As the definition reads x: channel c of element i is i / inner % channels.
struct PreparedBatchNorm {
  std::int64_t channels = 0, inner = 1;
  std::vector<float> factor;  // by channel; empty where the statistics were not constant
};

PreparedBatchNorm make_geometry(const BatchNormParams& p, const Shape& x, std::int64_t channels) {
  PreparedBatchNorm g;
  g.channels = channels;
  if (p.spatial && !(x.rank() == 1 && p.axis == 1))
    g.inner = x.product(normalize_axis(p.axis, x.rank()) + 1, x.rank());
  return g;
}

std::vector<float> make_factor(const Tensor& scale, const Tensor& var, float eps) {
  const auto s = scale.data<float>(), v = var.data<float>();
  std::vector<float> factor(s.size());
  for (std::size_t c = 0; c < s.size(); ++c) factor[c] = s[c] / std::sqrt(v[c] + eps);
  return factor;
}

Prepared prepare(const Problem& problem, int) {
  const auto& params = problem.params->as<BatchNormParams>();
  auto p = std::make_shared<PreparedBatchNorm>(
      make_geometry(params, problem.input(0).shape, problem.input(1).shape.numel()));
  const Tensor *scale = problem.inputs[1].value, *var = problem.inputs[4].value;
  if (scale != nullptr && var != nullptr) p->factor = make_factor(*scale, *var, params.eps);
  return p;
}

constexpr std::int64_t kLeastRun = 16;  // elements of a channel that are worth a loop

// Numbers by channel, of runs of `inner` elements.
struct Numbers {
  std::int64_t channels = 0, inner = 1;
  const float *mean = nullptr, *factor = nullptr, *bias = nullptr;
};
Numbers numbers_of(const KernelCall& call, const PreparedBatchNorm& p) {
  return {p.channels, p.inner, call.input(3).data<float>().data(), p.factor.data(),
          call.input(2).data<float>().data()};
}

template <Isa isa>
void piece(const KernelCall& call, const Numbers& p, std::int64_t begin, std::int64_t count) {
  BatchNormCall b{.x = call.input(0).data<float>().data() + begin,
                  .y = reinterpret_cast<float*>(output_bytes(call, 0)) + begin,
                  .fused = call.contract().fma};
  // Runs of one channel; without inner extents, runs over all channels.
  b.varies = p.inner == 1;
  std::int64_t c = begin / p.inner, at = begin - c * p.inner;  // channel of all samples, element
  for (c %= p.channels; count > 0; at = 0) {
    b.n = std::min(count, b.varies ? p.channels - c : p.inner - at);
    b.mean = p.mean + c;
    b.factor = p.factor + c;
    b.bias = p.bias + c;
    if constexpr (isa >= Isa::avx512)
      avx512::batch_norm(b);
    else
      avx2::batch_norm(b);
    b.x += b.n;
    b.y += b.n;
    count -= b.n;
    c = b.varies || c + 1 == p.channels ? 0 : c + 1;
  }
}

template <Isa isa>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const auto& p = *static_cast<const PreparedBatchNorm*>(call.prepared);
  piece<isa>(call, numbers_of(call, p), begin, count);
}

bool step(const KernelCall& call, PointwiseStep& to) {
  const auto& p = *static_cast<const PreparedBatchNorm*>(call.prepared);
  to = {.kind = PointwiseStep::Kind::affine,
        .mean = call.input(3).data<float>().data(),
        .factor = p.factor.data(),
        .bias = call.input(2).data<float>().data(),
        .inner = p.inner,
        .channels = p.channels,
        .fused = call.contract().fma};
  return true;
}

template <Isa isa>
void run(const KernelCall& call) {
  const auto& params = call.params<BatchNormParams>();
  const auto* p = static_cast<const PreparedBatchNorm*>(call.prepared);
  PreparedBatchNorm fresh;
  if (p == nullptr || p->factor.empty()) {
    fresh = make_geometry(params, call.input(0).shape(), call.input(1).numel());
    fresh.factor = make_factor(call.input(1), call.input(4), params.eps);
    p = &fresh;
  }
  // Runs that do not fill a vector: their numbers are repeated for each element, where enough
  // samples share them.
  Numbers numbers = numbers_of(call, *p);
  std::vector<float> each;
  const std::int64_t n = call.input(0).numel(), sample = p->channels * p->inner;
  if (p->inner > 1 && p->inner < kLeastRun && n >= 4 * sample) {
    for (const float* part : {numbers.mean, numbers.factor, numbers.bias})
      for (std::int64_t c = 0; c < p->channels; ++c)
        each.insert(each.end(), static_cast<std::size_t>(p->inner), part[c]);
    numbers = {sample, 1, each.data(), each.data() + sample, each.data() + 2 * sample};
  }
  parallel_for(n, call.threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    piece<isa>(call, numbers, begin, end - begin);
  });
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.fma = true;
  if (c.exact() || !c.native_f32())
    return "promises store=f32,acc=f32,round=rn,subnormals=keep only";
  return refuse_unless_f32(problem);
}

Refusal refuse_piece(const Problem& problem, std::size_t carried) {
  if (carried != 0) return "by pieces it takes x";
  for (const std::size_t i : {std::size_t{1}, std::size_t{4}})
    if (problem.inputs[i].value == nullptr) return "by pieces it takes constant statistics";
  return std::nullopt;
}

}  // namespace

template <Isa isa>
KernelRow batch_norm_f32_row(std::string_view name) {
  return {.op = "batch_norm",
          .name = name,
          .isa = isa,
          .contracts = "seq, any order and fma of f32",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare,
          .run_piece = run_piece<isa>,
          .refuse_piece = refuse_piece,
          .step = step,
          .run_steps = run_steps_of(isa)};
}
template KernelRow batch_norm_f32_row<Isa::avx512>(std::string_view name);
template KernelRow batch_norm_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
