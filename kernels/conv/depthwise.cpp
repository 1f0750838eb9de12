#include "kernels/conv/depthwise.h"

#include <algorithm>

#include "engine/core/threads.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

bool inside(const WindowAxis& a, std::int64_t o, std::int64_t r) {
  const std::int64_t i = a.at(o, r);
  return i >= 0 && i < a.in;
}

}  // namespace

WindowRows::WindowRows(const ConvGeometry& g, int lanes) : plan(g) {
  const auto& [d, h, w] = g.window.axes;
  first.push_back(0);
  for (std::int64_t oz = 0; oz < d.out; ++oz)
    for (std::int64_t oy = 0; oy < h.out; ++oy) {
      row_base.push_back(oz * d.stride * plan.plane_stride + oy * h.stride * plan.row_stride);
      for (std::int64_t t = 0; t < plan.k; ++t)
        if (inside(d, oz, t / (w.kernel * h.kernel)) && inside(h, oy, t / w.kernel % h.kernel))
          taps.push_back(static_cast<std::int32_t>(t));
      first.push_back(static_cast<std::int64_t>(taps.size()));
    }
  const std::uint32_t all = (1U << lanes) - 1U;
  for (std::int64_t ox = 0; ox < w.out; ox += lanes) {
    bool whole = true;
    for (std::int64_t t = 0; t < plan.k; ++t) {
      std::uint32_t bits = 0;
      for (int lane = 0; lane < lanes && ox + lane < w.out; ++lane)
        if (inside(w, ox + lane, t % w.kernel)) bits |= 1U << lane;
      lanes_inside.push_back(static_cast<std::uint16_t>(bits));
      whole = whole && bits == all;
    }
    inner.push_back(whole);
  }
}

DepthwiseCall WindowRows::call() const {
  return {.out_rows = static_cast<std::int64_t>(row_base.size()),
          .out_width = plan.g.window.axes[2].out,
          .row_base = row_base.data(),
          .first = first.data(),
          .taps = taps.data(),
          .offset = plan.offset.data(),
          .lanes_inside = lanes_inside.data(),
          .inner = inner.data(),
          .tap_count = plan.k};
}

const float* WindowRows::channel(const float* x) const {
  // Padding is masked, so a copy is made for strided columns only; it holds the padding too.
  if (!plan.copied) return x;
  float* copy = thread_scratch<float>(ScratchSlot::padded, plan.channel_stride);
  plan.copy_channel(x, copy);
  return copy;
}

namespace {

template <Isa isa>
constexpr int kLanes = isa >= Isa::avx512 ? 16 : 8;

template <Isa isa>
Prepared prepare(const Problem& problem, int) {
  return std::make_shared<WindowRows>(conv_geometry(problem.params->as<ConvParams>(),
                                                    problem.input(0).shape, problem.input(1).shape),
                                      kLanes<isa>);
}

template <Isa isa>
void run(const KernelCall& call) {
  const Prepared fresh =
      call.prepared == nullptr ? prepare<isa>(*call.problem, call.threads) : nullptr;
  const auto& p =
      *static_cast<const WindowRows*>(call.prepared == nullptr ? fresh.get() : call.prepared);
  const ConvPlan& plan = p.plan;
  const ConvGeometry& g = plan.g;
  const float* x = call.input(0).data<float>().data();
  const float* w = call.input(1).data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t in_points = g.window.in_points(), multiplier = g.group_out();
  // Input channels are shared out; each serves the `multiplier` output channels of its group.
  const std::int64_t grain =
      std::max<std::int64_t>(1, 100000 / std::max<std::int64_t>(1, plan.pixels * plan.k));
  parallel_for(g.batch * g.groups, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      DepthwiseCall c = p.call();
      c.x = p.channel(x + i * in_points);
      for (std::int64_t m = 0; m < multiplier; ++m) {
        const std::int64_t o = i % g.groups * multiplier + m;
        c.w = w + o * plan.k;
        c.bias = bias == nullptr ? nullptr : bias + o;
        c.y = y + (i * multiplier + m) * plan.pixels;
        if constexpr (isa >= Isa::avx512)
          avx512::depthwise(c);
        else
          avx2::depthwise(c);
        if (call.finished != nullptr)
          (*call.finished)((i * multiplier + m) * plan.pixels, plan.pixels);
      }
    }
  });
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};  // with one channel every walk is the same
  if (!c.is_seq()) return "promises seq only";
  const std::int64_t groups = problem.params->as<ConvParams>().groups;
  const Shape& w = problem.input(1).shape;
  if (w.rank() < 3 || w[1] != 1 || groups == 1 || w[0] / groups > 4)
    return "takes one input channel and at most 4 output channels a group";
  return refuse_unless_f32(problem);
}

}  // namespace

template <Isa isa>
KernelRow depthwise_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare<isa>,
          .announces = true};
}
template KernelRow depthwise_f32_row<Isa::avx512>(std::string_view name);
template KernelRow depthwise_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
