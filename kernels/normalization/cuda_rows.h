// Layer, instance, group, mean-variance and RMS normalisation by blocks of threads
// (kernels/backends/cuda/row_block.h), and local response normalisation, a thread an element, on a
// GPU; contract seq.
//
// Same bits as the definitions (definition.h): each element is the same steps, the sums are chains,
// k ascending. The power of local response is rounded correctly (kernels/activation/device_fine.h).
// Limit: row_block.h; local response has two functions in f64 for each element, 40 operations and a
// division.
#pragma once

#include <algorithm>

#include "kernels/activation/device_fine.h"
#include "kernels/backends/cuda/device_plans.h"
#include "kernels/backends/cuda/row_block.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct NormRowsTask {
  // Scale or bias: of which element of its own.
  struct Affine {
    const float* of = nullptr;
    bool by_k = false;  // element k of the row has number k
    std::array<std::int64_t, kMaxRank> strides{};
  };
  const float* x = nullptr;
  DeviceOutputs to;
  DeviceRows rows;
  Shape shape;
  Affine scale, bias;
  std::int64_t by_row = 0;
  float eps = 0;
  bool centre = true, divide = true, eps_inside = true, statistics = false;
  bool dense = false;  // the elements of a row lie side by side

  RowShape row_shape() const { return {rows.kept.numel(), rows.reduced.numel()}; }
  ETALON_HD float affine(const Affine& a, std::int64_t row, std::int64_t k, std::int64_t i) const {
    return a.of[by_row > 0 ? row % by_row : a.by_k ? k : strided_offset(i, shape, a.strides)];
  }
};

template <class F>
NormRowsTask norm_rows_task_of(const KernelCall& call) {
  const auto p = DevicePlan<RowNormDefinition<F>>::of(call);
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  NormRowsTask t;
  t.x = floats(0);
  t.to = device_outputs(call);
  t.rows = p.rows;
  t.shape = p.shape;
  t.by_row = p.by_row;
  t.eps = static_cast<float>(p.eps);
  t.centre = p.centre;
  t.divide = p.divide;
  t.eps_inside = p.eps_inside;
  t.statistics = p.statistics;
  // Places of a row's first elements and of its last say that all lie side by side: strides of a
  // dense tensor descend.
  const std::int64_t n = p.length();
  t.dense = n > 0 && p.offset(n - 1) == n - 1;
  const auto affine = [&](std::size_t i, const std::array<std::int64_t, kMaxRank>& strides) {
    NormRowsTask::Affine a{floats(i), false, strides};
    if (a.of == nullptr || !t.dense || p.by_row > 0) return a;
    // By k: its own strides are those of x, within the row, and it is the same for all rows.
    const auto own = strides_of(p.shape);
    a.by_k = true;
    for (int axis = 0; axis < p.shape.rank(); ++axis) {
      const auto s = static_cast<std::size_t>(axis);
      if (p.shape[axis] > 1) a.by_k = a.by_k && strides[s] == (own[s] < n ? own[s] : 0);
    }
    return a;
  };
  t.scale = affine(1, p.scale_strides);
  t.bias = affine(2, p.bias_strides);
  return t;
}

inline NormRowsTask norm_rows_task(const KernelCall& call) {
  const std::string_view op = call.problem->op->name;
  return op == LayerNorm::op      ? norm_rows_task_of<LayerNorm>(call)
         : op == InstanceNorm::op ? norm_rows_task_of<InstanceNorm>(call)
         : op == GroupNorm::op    ? norm_rows_task_of<GroupNorm>(call)
         : op == RmsNorm::op      ? norm_rows_task_of<RmsNorm>(call)
                                  : norm_rows_task_of<MeanVariance>(call);
}

template <int kRows, class Threads>
ETALON_HD void norm_rows(const NormRowsTask& t, std::int64_t block, int width, RowShared& s,
                         const Threads& threads) {
  const SeqF32 a;
  const std::int64_t row = block * kRows, left = t.rows.kept.numel() - row;
  const RowBlock<kRows> b{s, static_cast<int>(left < kRows ? left : kRows), t.rows.reduced.numel(),
                          width, true};
  const float count = static_cast<float>(b.n);
  const auto at = [&](int r, std::int64_t k) {
    return s.first[r] + (t.dense ? k : strided_offset(k, t.rows.reduced, t.rows.reduced_strides));
  };
  b.rows_each(threads, [&](int r) {
    s.first[r] = strided_offset(row + r, t.rows.kept, t.rows.kept_strides);
    s.a[r] = 0;
    s.b[r] = 1;
  });
  if (t.centre) {
    b.chains(
        threads, [&](int r, std::int64_t k) { return t.x[at(r, k)]; },
        [](float chain, float x) { return chain + x; });
    b.rows_each(threads, [&](int r) { s.a[r] = s.chain[r] / count; });
  }
  const auto distance = [&](int r, std::int64_t k) {
    const float x = t.x[at(r, k)];
    return t.centre ? x - s.a[r] : x;
  };
  if (t.divide) {
    b.chains(threads, distance, [](float chain, float d) { return fma_f32(d, d, chain); });
    b.rows_each(threads, [&](int r) {
      const float v = s.chain[r] / count;
      s.b[r] = t.eps_inside ? a.sqrt(v + t.eps) : a.sqrt(v) + t.eps;
    });
  }
  const bool kept = t.divide && b.chunks() == 1;  // the distances, in the first buffer
  for (std::int64_t chunk = 0; chunk < b.chunks(); ++chunk)
    threads([&](int tid) {
      b.each(chunk, tid, width, [&](int r, std::int64_t k, int place) {
        const std::int64_t i = at(r, k);
        float y = kept ? s.buffer[0][place] : distance(r, k);
        if (t.divide) y = y / s.b[r];
        const float scale = t.scale.of != nullptr ? t.affine(t.scale, row + r, k, i) : 1.0F;
        if (t.bias.of != nullptr)
          y = fma_f32(y, scale, t.affine(t.bias, row + r, k, i));
        else if (t.scale.of != nullptr)
          y = y * scale;
        t.to.y[0][i] = canonical(y);
      });
    });
  if (t.statistics)
    b.rows_each(threads, [&](int r) {
      t.to.y[1][row + r] = canonical(s.a[r]);
      t.to.y[2][row + r] = canonical(1.0F / s.b[r]);
    });
}

struct LrnTask {
  const float* x = nullptr;
  float* y = nullptr;
  std::uint32_t count = 0, channels = 1, inner = 1;
  std::uint32_t over_channels = 0, over_inner = 0;  // 2^32 less one over each, rounded down
  int below = 0, above = 0;
  float alpha = 0, bias = 0, beta = 0;
};

inline LrnTask lrn_task(const KernelCall& call) {
  const LrnDefinition::Plan p = LrnDefinition::plan(call);
  LrnTask t;
  t.x = reinterpret_cast<const float*>(call.input(0).bytes().data());
  t.y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data()));
  t.count = static_cast<std::uint32_t>(p.count);
  t.channels = static_cast<std::uint32_t>(p.channels);
  t.inner = static_cast<std::uint32_t>(p.inner);
  t.over_channels = ~std::uint32_t{0} / std::max(t.channels, 1U);
  t.over_inner = ~std::uint32_t{0} / std::max(t.inner, 1U);
  t.below = static_cast<int>(p.below);
  t.above = static_cast<int>(p.above);
  t.alpha = static_cast<float>(p.params.alpha);
  if (p.params.alpha_divided) t.alpha = t.alpha / static_cast<float>(p.params.size);
  t.bias = static_cast<float>(p.params.bias);
  t.beta = static_cast<float>(p.params.beta);
  return t;
}

// x / by, over = 2^32 / by nearly: the product's upper word is the quotient or one less.
ETALON_HD inline std::uint32_t quotient(std::uint32_t x, std::uint32_t by, std::uint32_t over) {
  const auto q = static_cast<std::uint32_t>((std::uint64_t{x} * over) >> 32);
  return q + (x - q * by >= by ? 1 : 0);
}
// False: it is not decided.
ETALON_HD inline bool lrn_element(const LrnTask& t, std::uint32_t i) {
  const std::uint32_t plane = quotient(i, t.inner, t.over_inner);
  const int c = static_cast<int>(plane - quotient(plane, t.channels, t.over_channels) * t.channels),
            channels = static_cast<int>(t.channels);
  const int first = c < t.below ? -c : -t.below,
            last = channels - 1 - c < t.above ? channels - 1 - c : t.above;
  const float* from = t.x + i + std::int64_t{first} * t.inner;
  float sum = 0;
  constexpr int kTogether = 5;  // reads on their way
  for (int d = first; d <= last; d += kTogether, from += std::int64_t{kTogether} * t.inner) {
    float x[kTogether] = {};
    ETALON_UNROLL
    for (int j = 0; j < kTogether; ++j)
      if (d + j <= last) x[j] = from[std::int64_t{j} * t.inner];
    ETALON_UNROLL
    for (int j = 0; j < kTogether; ++j)
      if (d + j <= last) sum = fma_f32(x[j], x[j], sum);
  }
  FineFunctions f;
  const float power = f.pow(fma_f32(t.alpha, sum, t.bias), t.beta);
  t.y[i] = canonical(t.x[i] / power);
  return f.undecided == 0;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
