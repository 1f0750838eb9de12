#include "kernels/conv/exact_depthwise.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/core/threads.h"

namespace etalon {
#if defined(__x86_64__)
namespace {

constexpr std::int64_t kMostOutputs = 4;  // of a group
constexpr std::int64_t kWorth = 1 << 16;  // terms that a thread is worth waking for

struct Lanes {
  int count = 0;
  void (*run)(const DepthwiseCall& call) = nullptr;
  float (*largest)(const float* x, std::int64_t count) = nullptr;
};
Lanes lanes_of(Isa isa) {
  if (isa >= Isa::avx512) return {16, avx512::depthwise_exact, avx512::largest};
  return {8, avx2::depthwise_exact, avx2::largest};
}

}  // namespace

std::optional<WindowRows> exact_depthwise_rows(Isa isa, const ConvGeometry& g) {
  if (g.group_in() != 1 || g.group_out() > kMostOutputs || g.window.out_points() == 0)
    return std::nullopt;
  return WindowRows(g, lanes_of(isa).count);
}

void exact_depthwise(Isa isa, const WindowRows& rows, const ExactConv& conv,
                     std::vector<std::int64_t>& undecided) {
  const Lanes lanes = lanes_of(isa);
  const ConvGeometry& g = conv.g;
  const std::int64_t in_points = g.window.in_points(), multiplier = g.group_out();
  const double factor = exact_factor(rows.k);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kWorth / std::max<std::int64_t>(1, rows.pixels * rows.k));
  std::mutex joining;
  parallel_for(g.batch * g.groups, conv.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    DepthwiseCall c = rows.call();
    const std::int64_t vectors = (c.run + lanes.count - 1) / lanes.count;
    std::vector<std::uint16_t> open(static_cast<std::size_t>(vectors));
    std::vector<std::int64_t> mine;
    c.open = open.data();
    c.cells = conv.steps.cells;
    for (std::int64_t i = begin; i < end; ++i) {
      const float* x = conv.x + i * in_points;
      const double largest = static_cast<double>(lanes.largest(x, in_points));
      c.x = rows.channel(x);
      for (std::int64_t m = 0; m < multiplier; ++m) {
        const std::int64_t o = i % g.groups * multiplier + m,
                           at = (i * multiplier + m) * rows.pixels;
        c.w = conv.w + o * rows.k;
        c.bias = conv.bias == nullptr ? nullptr : conv.bias + o;
        c.y = conv.y + at;
        double size = 0;
        for (std::int64_t t = 0; t < rows.k; ++t) size += std::abs(static_cast<double>(c.w[t]));
        c.bound = factor * size * largest;
        lanes.run(c);
        if (!conv.steps.rounding_test) continue;
        for (std::int64_t v = 0; v < vectors; ++v)
          for (std::uint32_t bits = open[static_cast<std::size_t>(v)] & rows.outputs_of(v);
               bits != 0; bits &= bits - 1)
            mine.push_back(at + rows.output_at(v * lanes.count + __builtin_ctz(bits)));
      }
    }
    const std::scoped_lock lock(joining);
    undecided.insert(undecided.end(), mine.begin(), mine.end());
  });
}
#else
std::optional<WindowRows> exact_depthwise_rows(Isa, const ConvGeometry&) { return std::nullopt; }
void exact_depthwise(Isa, const WindowRows&, const ExactConv&, std::vector<std::int64_t>&) {}
#endif

}  // namespace etalon
