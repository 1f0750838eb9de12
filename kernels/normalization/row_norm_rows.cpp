#include "kernels/normalization/row_norm_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/normalization.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"
#include "kernels/movement/fill_run.h"
#include "kernels/reduce/row_steps.h"
#include "kernels/simd/machine.h"

namespace etalon {
namespace {

struct Geometry {
  std::int64_t n;  // elements of a row
  float eps;
  bool centre, statistics;
  // Rows in a batch item whose scale and bias are numbers of their own, each for `repeats`
  // neighbours; 0: every row has the same n numbers.
  std::int64_t groups = 0, repeats = 1;
};
Geometry geometry(const Problem& problem) {
  const Shape& x = problem.input(0).shape;
  const std::string_view op = problem.op->name;
  // Elements of the axes from `axis` on.
  const auto from = [&](std::int64_t axis) {
    return x.product(static_cast<int>(axis < 0 ? axis + x.rank() : axis), x.rank());
  };
  if (op == "rms_norm") {
    const auto& p = problem.params->as<RmsNormParams>();
    return {from(p.axis), p.eps, false, false};
  }
  if (op == "layer_norm") {
    const auto& p = problem.params->as<LayerNormParams>();
    return {from(p.axis), p.eps, true, p.statistics};
  }
  if (op == "instance_norm")
    return {from(2), problem.params->as<InstanceNormParams>().eps, true, false, x[1], from(2)};
  const auto& p = problem.params->as<GroupNormParams>();
  const std::int64_t n = from(1) / p.groups;
  return {n, p.eps, true, false, p.groups, p.scale_per_group ? n : from(2)};
}

// RowAffine::quick of a centred row. Not below 2^-60: x and a mean of 2^-30 at least are multiples
// of 2^-54 both, or x is below half the mean and the distance above 2^-31; equal, they leave +0.
// Not above: every square is in the sum, which no NaN and no infinity leaves below 2^100.
bool in_range(float mean, float squares, float root) {
  return std::fabs(mean) >= 0x1p-30F && squares < 0x1p100F && root >= 0x1p-60F && root < 0x1p60F;
}

// One call: what a row is made of, and where its results go.
class RowNorm {
 public:
  RowNorm(const KernelCall& call, const RowSteps& steps)
      : g_(geometry(*call.problem)),
        order_(call.contract().order),
        steps_(steps),
        n_(g_.n),
        count_(static_cast<float>(n_)),
        x_(call.input(0).data<float>().data()),
        scale_(call.has(1) ? call.input(1).data<float>().data() : nullptr),
        bias_(call.has(2) ? call.input(2).data<float>().data() : nullptr),
        y_(call.output(0).mutable_data<float>().data()) {
    if (g_.statistics) {
      means_ = call.output(1).mutable_data<float>().data();
      inverses_ = call.output(2).mutable_data<float>().data();
    }
    const std::int64_t numbers = g_.groups == 0 ? n_ : g_.groups * (n_ / g_.repeats);
    finite_ = (scale_ == nullptr || steps.finite(scale_, numbers)) &&
              (bias_ == nullptr || steps.finite(bias_, numbers));
  }

  // Rows whose squares are summed beside the next rows' sums.
  bool in_pairs() const { return order_.kind == OrderKind::seq && g_.centre && n_ <= kMostTurned; }

  void in_groups(std::int64_t begin, std::int64_t end) const {
    // Under lanes a few rows are done in one go, while they are in the first cache: one row's sum,
    // root and division go on beside the next one's.
    const std::int64_t group = order_.kind == OrderKind::lanes
                                   ? std::clamp<std::int64_t>(2048 / n_, 1, kRowsAtOnce)
                                   : kRowsAtOnce;
    for (std::int64_t first = begin; first < end; first += group) {
      const std::int64_t rows = std::min(group, end - first);
      PerRow squares{}, mean{};
      if (g_.centre) {
        sum(nullptr, first, rows, mean.data());
        for (float& m : mean) m /= count_;
      }
      sum(mean.data(), first, rows, squares.data());
      finish(first, rows, mean, squares);
    }
  }

  void in_pairs(std::int64_t begin, std::int64_t end) const {
    auto* turned = thread_scratch<float>(ScratchSlot::turned, kRowsAtOnce * n_);
    PerRow sums{}, mean{}, squares{};
    for (std::int64_t first = begin; first < end + kRowsAtOnce; first += kRowsAtOnce) {
      const bool more = first < end;
      steps_.chains_and_squares({.x = more ? x_ + first * n_ : nullptr,
                                 .stride = n_,
                                 .n = n_,
                                 .rows = std::min(kRowsAtOnce, end - first),
                                 .sums = sums.data(),
                                 .means = first > begin ? mean.data() : nullptr,
                                 .squares = squares.data(),
                                 .turned = turned});
      if (first > begin)
        finish(first - kRowsAtOnce, std::min(kRowsAtOnce, end - first + kRowsAtOnce), mean,
               squares);
      for (std::size_t r = 0; r < mean.size(); ++r) mean[r] = sums[r] / count_;
    }
  }

 private:
  using PerRow = std::array<float, kRowsAtOnce>;
  // 1 MiB of turned rows, what a second cache holds.
  static constexpr std::int64_t kMostTurned = (1 << 18) / kRowsAtOnce;

  void sum(const float* means, std::int64_t first, std::int64_t rows, float* sums) const {
    const float* from = x_ + first * n_;
    if (order_.kind == OrderKind::lanes)
      for (std::int64_t r = 0; r < rows; ++r)
        sums[r] = steps_.lanes(means == nullptr ? nullptr : means + r, from + r * n_, n_,
                               order_.sizes[0]);
    else
      steps_.chains(means, from, n_, rows, n_, sums);
  }

  // What each element of a row is multiplied by, or gets added.
  const float* of_row(const float* numbers, std::int64_t row, float* to) const {
    if (numbers == nullptr || g_.groups == 0) return numbers;
    const std::int64_t count = n_ / g_.repeats;
    for (std::int64_t c = 0; c < count; ++c)
      fill_run(to + c * g_.repeats, g_.repeats, numbers[row % g_.groups * count + c]);
    return to;
  }

  void finish(std::int64_t first, std::int64_t rows, const PerRow& mean,
              const PerRow& squares) const {
    float* spread = g_.groups == 0 ? nullptr : thread_scratch<float>(ScratchSlot::norms, 2 * n_);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const float root = __builtin_sqrtf(squares[i] / count_ + g_.eps);
      if (g_.statistics) {
        means_[first + r] = canonical(mean[i]);
        inverses_[first + r] = canonical(1.0F / root);
      }
      steps_.affine({.x = x_ + (first + r) * n_,
                     .mean = mean[i],
                     .root = root,
                     .scale = of_row(scale_, first + r, spread),
                     .bias = of_row(bias_, first + r, spread == nullptr ? nullptr : spread + n_),
                     .finite = finite_,
                     .quick = g_.centre && in_range(mean[i], squares[i], root),
                     .y = y_ + (first + r) * n_,
                     .n = n_});
    }
  }

  Geometry g_;
  const Order& order_;
  const RowSteps& steps_;
  std::int64_t n_;
  float count_;
  const float *x_, *scale_, *bias_;
  float *y_, *means_ = nullptr, *inverses_ = nullptr;
  bool finite_ = false;
};

// Rows of a part in pairs of groups: enough of them that the first sum and the last squares, which
// have nobody beside them, are few.
constexpr std::int64_t kRowsOfPairs = 4 * kRowsAtOnce;

template <Isa isa>
void run(const KernelCall& call) {
  const Tensor& input = call.input(0);
  if (input.numel() == 0) return;
  const RowNorm norm(call, isa >= Isa::avx512 ? row_steps_avx512(is_amd()) : row_steps_avx2());
  const std::int64_t all = input.numel() / geometry(*call.problem).n;
  const std::int64_t share = (all + call.threads - 1) / call.threads;
  if (norm.in_pairs() && share > kRowsAtOnce)
    parallel_for(all, call.threads, std::min(share, kRowsOfPairs),
                 [&](std::int64_t begin, std::int64_t end) { norm.in_pairs(begin, end); });
  else
    parallel_for(all, call.threads, std::clamp<std::int64_t>(all / call.threads, 1, kRowsAtOnce),
                 [&](std::int64_t begin, std::int64_t end) { norm.in_groups(begin, end); });
}

// Fewer leave vectors empty, and rows side by side (order_rows.cpp) are faster.
constexpr std::int64_t kLeastLanes = 16;

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_f32(problem)) return r;
  const Contract& c = *problem.contract;
  if (!c.native_f32()) return "computes in plain f32, rounded to nearest and fused";
  if (c.order.kind != OrderKind::seq &&
      (c.order.kind != OrderKind::lanes || c.order.sizes[0] < kLeastLanes ||
       c.order.sizes[0] > kMostLanes))
    return "promises order=seq and order=lanes:N, N from 16 to 4096";
  const Geometry g = geometry(problem);
  if (g.groups > 0) return std::nullopt;
  const Shape& x = problem.input(0).shape;
  int axes = 0;
  for (std::int64_t n = 1; n < g.n; ++axes) n *= x.dim(-1 - axes);
  for (std::size_t i = 1; i < problem.inputs.size(); ++i) {
    if (!problem.has(i)) continue;
    const Shape& s = problem.input(i).shape;
    bool row = s.rank() >= axes && s.numel() == g.n;
    for (int axis = 1; row && axis <= axes; ++axis) row = s.dim(-axis) == x.dim(-axis);
    if (!row) return "takes a scale and a bias for each element of a row";
  }
  return std::nullopt;
}

enum class Norm { layer, rms, instance, group };
template <Norm kNorm, Isa isa>
KernelRow f32_row(std::string_view name) {
  constexpr std::string_view kOps[] = {"layer_norm", "rms_norm", "instance_norm", "group_norm"};
  return {.op = kOps[static_cast<int>(kNorm)],
          .name = name,
          .isa = isa,
          .contracts = "seq, order=lanes:N, N >= 16",
          .refuse = refuse,
          .run = run<isa>};
}

}  // namespace

std::span<const KernelRow> row_norm_f32_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      f32_row<Norm::layer, Isa::avx512>("layer_norm.f32.avx512"),
      halves_row<f32_row<Norm::layer, Isa::avx512>>("layer_norm.halves.avx512"),
      f32_row<Norm::layer, Isa::avx2>("layer_norm.f32.avx2"),
      halves_row<f32_row<Norm::layer, Isa::avx2>>("layer_norm.halves.avx2"),
      f32_row<Norm::rms, Isa::avx512>("rms_norm.f32.avx512"),
      halves_row<f32_row<Norm::rms, Isa::avx512>>("rms_norm.halves.avx512"),
      f32_row<Norm::rms, Isa::avx2>("rms_norm.f32.avx2"),
      halves_row<f32_row<Norm::rms, Isa::avx2>>("rms_norm.halves.avx2"),
      f32_row<Norm::instance, Isa::avx512>("instance_norm.f32.avx512"),
      halves_row<f32_row<Norm::instance, Isa::avx512>>("instance_norm.halves.avx512"),
      f32_row<Norm::instance, Isa::avx2>("instance_norm.f32.avx2"),
      halves_row<f32_row<Norm::instance, Isa::avx2>>("instance_norm.halves.avx2"),
      f32_row<Norm::group, Isa::avx512>("group_norm.f32.avx512"),
      halves_row<f32_row<Norm::group, Isa::avx512>>("group_norm.halves.avx512"),
      f32_row<Norm::group, Isa::avx2>("group_norm.f32.avx2"),
      halves_row<f32_row<Norm::group, Isa::avx2>>("group_norm.halves.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
