// reduce_sum, _mean, _l1, _l2, _sum_square, _max, _min on f32: order=seq and order=lanes:N.
//
// Same bits: every output has the chains the contract gives it (one, or N lanes), each advanced by
// one term at a time; what runs side by side are chains, of other outputs or of other lanes.
//   columns   the outputs are contiguous (reduction over outer axes): chains of a block of outputs
//             lie side by side, N of them below each other under lanes
//   chains    the terms are contiguous, seq: eight outputs at once, which hides an addition's
//             latency; sums and squares of one run of terms each as lanes of vectors, turned
//   lanes     the terms are contiguous, lanes:N: the lanes of one output lie side by side
// Limits: columns and lanes run at the speed of the first cache level, chains at eight terms each
// addition latency (four cycles), turned ones at as many as a vector has lanes, twice.
#include <array>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/strided.h"
#include "kernels/reduce/definition.h"
#include "kernels/reduce/f32_steps.h"
#include "kernels/reduce/row_steps.h"
#include "kernels/reduce/rows.h"
#include "kernels/simd/machine.h"

namespace etalon {

const StepFunctions& step_functions([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return step_functions_avx512();
  if (isa >= Isa::avx2) return step_functions_avx2();
#endif
  return step_functions_base();
}

namespace {

constexpr std::int64_t kChainsAtOnce = 2 * kRowsAtOnce;

struct Plan {
  Reduction kind;
  Step step;
  std::int64_t lanes = 1;
  std::int64_t count = 0;                // terms of an output
  std::vector<std::int64_t> segments;    // offsets of runs of terms
  std::int64_t segment = 1, stride = 1;  // terms of a run, and their distance
  StridedLoop<2> outputs;                // operand 0 the output, 1 the input
  const float* x = nullptr;
  float* y = nullptr;
  const StepFunctions* functions = nullptr;
  const RowSteps* turned = nullptr;  // where there are vectors, and one run of terms

  float start() const {
    return step == Step::max ? -__builtin_inff() : step == Step::min ? __builtin_inff() : 0.0F;
  }
  float finish(float s) const {
    if (kind == Reduction::mean) s = s / static_cast<float>(count);
    if (kind == Reduction::l2) s = __builtin_sqrtf(s);
    return canonical(s);
  }
};

Step step_of(Reduction kind) {
  switch (kind) {
    case Reduction::l1:
      return Step::magnitude;
    case Reduction::l2:
    case Reduction::sum_square:
      return Step::square;
    case Reduction::max:
      return Step::max;
    case Reduction::min:
      return Step::min;
    default:
      return Step::sum;
  }
}

bool is_extremum(Step step) { return step == Step::max || step == Step::min; }

const RowSteps* turned_steps([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &row_steps_avx512(is_amd());
  if (isa >= Isa::avx2) return &row_steps_avx2();
#endif
  return nullptr;
}

Plan make_plan(const KernelCall& call, Isa isa) {
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(call.params<ReduceParams>(), InferInputs(known));
  Plan p;
  p.kind = reduction_kind(call.problem->op->name);
  p.step = step_of(p.kind);
  // Which of equal zeros comes first is seq's to say: max and min have no order of their own.
  const Order& order = call.contract().order;
  if (order.kind == OrderKind::lanes && !is_extremum(p.step)) p.lanes = order.sizes[0];
  p.count = g.reduced.numel();
  p.functions = &step_functions(isa);
  p.x = call.input(0).data<float>().data();
  p.y = reinterpret_cast<float*>(output_bytes(call, 0));
  StridedLoop<1> terms;
  for (int i = 0; i < g.reduced.rank(); ++i)
    terms.add_axis(g.reduced[i], {g.reduced_strides[static_cast<std::size_t>(i)]});
  p.segment = terms.row();
  p.stride = terms.rank() == 0 ? 1 : terms.step()[0];
  if (p.count > 0)
    terms.run(1, [&](const std::array<std::int64_t, 1>& at, std::int64_t) {
      p.segments.push_back(at[0]);
    });
  if (p.stride == 1 && p.segments.size() == 1 && (p.step == Step::sum || p.step == Step::square))
    p.turned = turned_steps(isa);
  const auto strides = strides_of(g.kept);
  for (int i = 0; i < g.kept.rank(); ++i)
    p.outputs.add_axis(g.kept[i], {strides[static_cast<std::size_t>(i)],
                                   g.kept_strides[static_cast<std::size_t>(i)]});
  return p;
}

// Joins lanes of `width` chains each by halving distance, as the contract has it.
void join_lanes(const Plan& p, float* s, std::int64_t width) {
  for (std::int64_t n = p.lanes; n > 1;) {
    const std::int64_t h = (n + 1) / 2;
    p.functions->across(Step::sum, s, s + h * width, (n - h) * width);
    n = h;
  }
}

// n outputs, contiguous in x and y.
void columns(const Plan& p, const float* x, float* y, std::int64_t n, std::vector<float>& s) {
  const std::int64_t block = std::max<std::int64_t>(16, 1024 / p.lanes);
  for (std::int64_t j = 0; j < n; j += block) {
    const std::int64_t width = std::min(block, n - j);
    s.assign(static_cast<std::size_t>(p.lanes * width), p.start());
    std::int64_t lane = 0;
    for (const std::int64_t at : p.segments)
      for (std::int64_t k = 0; k < p.segment; ++k) {
        p.functions->across(p.step, s.data() + lane * width, x + at + k * p.stride + j, width);
        if (++lane == p.lanes) lane = 0;
      }
    join_lanes(p, s.data(), width);
    for (std::int64_t i = 0; i < width; ++i) y[j + i] = p.finish(s[static_cast<std::size_t>(i)]);
  }
}

// n outputs whose first terms lie `step` apart.
void chains(const Plan& p, const float* x, std::int64_t step, float* y, std::int64_t n) {
  if (p.turned != nullptr && n >= kChains) {
    std::array<float, kChainsAtOnce> sums;
    constexpr std::array<float, kChainsAtOnce> kNoMeans{};  // distances from 0 are squared
    for (std::int64_t j = 0; j < n; j += kChainsAtOnce) {
      const std::int64_t real = std::min(kChainsAtOnce, n - j);
      p.turned->chains(p.step == Step::square ? kNoMeans.data() : nullptr,
                       x + p.segments[0] + j * step, step, real, p.segment, sums.data());
      for (std::int64_t c = 0; c < real; ++c)
        y[j + c] = p.finish(sums[static_cast<std::size_t>(c)]);
    }
    return;
  }
  for (std::int64_t j = 0; j < n; j += kChains) {
    const std::int64_t real = std::min<std::int64_t>(kChains, n - j);
    std::array<float, kChains> s;
    s.fill(p.start());
    for (const std::int64_t at : p.segments) {
      std::array<const float*, kChains> from;
      for (std::int64_t c = 0; c < kChains; ++c)  // spare chains repeat the last one
        from[static_cast<std::size_t>(c)] = x + at + (j + std::min(c, real - 1)) * step;
      p.functions->along(p.step, s.data(), from.data(), p.segment, p.stride);
    }
    for (std::int64_t c = 0; c < real; ++c) y[j + c] = p.finish(s[static_cast<std::size_t>(c)]);
  }
}

void lanes(const Plan& p, const float* x, float* y, std::vector<float>& s) {
  s.assign(static_cast<std::size_t>(p.lanes), 0.0F);
  std::int64_t lane = 0;
  for (const std::int64_t at : p.segments)
    for (std::int64_t k = 0; k < p.segment;) {
      // Terms that are not contiguous come one by one.
      const std::int64_t n = p.stride == 1 ? std::min(p.lanes - lane, p.segment - k) : 1;
      p.functions->across(p.step, s.data() + lane, x + at + k * p.stride, n);
      lane = (lane + n) % p.lanes;
      k += n;
    }
  join_lanes(p, s.data(), 1);
  *y = p.finish(s[0]);
}

template <Isa kIsa>
void run(const KernelCall& call) {
  const Plan p = make_plan(call, kIsa);
  if (is_extremum(p.step) && !call.truth.empty()) return run_extremum_definition(call);
  const std::int64_t step = p.outputs.step()[1];
  // Work per output decides how many a thread takes; the loop's own grain does not know it.
  const bool contiguous = step == 1 && p.outputs.row() >= 8;
  const std::int64_t n = p.outputs.row(), rows = p.outputs.total() == 0 ? 0 : p.outputs.total() / n;
  const std::int64_t piece = contiguous ? 1024 : p.lanes == 1 ? kChains * 4 : 16;
  const std::int64_t pieces = (n + piece - 1) / piece;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, p.count * std::min(piece, n)));
  parallel_for(rows * pieces, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> s;
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = i / pieces, to = 0, from = 0;
      for (int axis = p.outputs.rank() - 2; axis >= 0; --axis) {
        const std::int64_t at = rest % p.outputs.dim(axis);
        rest /= p.outputs.dim(axis);
        to += at * p.outputs.strides(axis)[0];
        from += at * p.outputs.strides(axis)[1];
      }
      const std::int64_t first = i % pieces * piece, m = std::min(piece, n - first);
      const float* x = p.x + from + first * step;
      float* y = p.y + to + first;
      if (contiguous)
        columns(p, x, y, m, s);
      else if (p.lanes == 1)
        chains(p, x, step, y, m);
      else
        for (std::int64_t j = 0; j < m; ++j) lanes(p, x + j * step, y + j, s);
    }
  });
}

Refusal refuse(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  const Contract& c = *problem.contract;
  // A maximum is not rounded: exact is seq.
  if (is_extremum(step_of(reduction_kind(problem.op->name))) && c == Contract::exact_preset())
    return std::nullopt;
  if (!c.native_f32()) return "computes in plain f32, rounded to nearest and fused";
  if (c.order.kind != OrderKind::seq &&
      (c.order.kind != OrderKind::lanes || c.order.sizes[0] > 4096))
    return "promises order=seq and order=lanes:N, N up to 4096";
  return std::nullopt;
}
Refusal refuse_without_fma(const Problem& problem) {
  if (step_of(reduction_kind(problem.op->name)) == Step::square)
    return "has no fused multiply-add for squares";
  return refuse(problem);
}

struct Set {
  Isa isa;
  void (*run)(const KernelCall&);
  Refusal (*refuse)(const Problem&);
  std::string_view names[7];
};

}  // namespace

std::span<const KernelRow> reduce_f32_rows() {
  static const std::vector<KernelRow> rows = [] {
    constexpr std::string_view kOps[] = {"reduce_sum", "reduce_mean",       "reduce_l1",
                                         "reduce_l2",  "reduce_sum_square", "reduce_max",
                                         "reduce_min"};
    const Set sets[] = {
#if defined(__x86_64__)
        {Isa::avx512,
         run<Isa::avx512>,
         refuse,
         {"reduce_sum.f32.avx512", "reduce_mean.f32.avx512", "reduce_l1.f32.avx512",
          "reduce_l2.f32.avx512", "reduce_sum_square.f32.avx512", "reduce_max.f32.avx512",
          "reduce_min.f32.avx512"}},
        {Isa::avx2,
         run<Isa::avx2>,
         refuse,
         {"reduce_sum.f32.avx2", "reduce_mean.f32.avx2", "reduce_l1.f32.avx2", "reduce_l2.f32.avx2",
          "reduce_sum_square.f32.avx2", "reduce_max.f32.avx2", "reduce_min.f32.avx2"}},
#endif
        {Isa::sse2,
         run<Isa::sse2>,
         refuse_without_fma,
         {"reduce_sum.f32.sse2", "reduce_mean.f32.sse2", "reduce_l1.f32.sse2", "reduce_l2.f32.sse2",
          "reduce_sum_square.f32.sse2", "reduce_max.f32.sse2", "reduce_min.f32.sse2"}},
    };
    std::vector<KernelRow> all;
    for (const Set& set : sets)
      for (std::size_t i = 0; i < std::size(kOps); ++i)
        all.push_back({.op = kOps[i],
                       .name = set.names[i],
                       .isa = set.isa,
                       .contracts = is_extremum(step_of(reduction_kind(kOps[i])))
                                        ? "exact; seq, order=lanes:N"
                                        : "seq, order=lanes:N",
                       .refuse = set.refuse,
                       .run = set.run});
    return all;
  }();
  return rows;
}

}  // namespace etalon
