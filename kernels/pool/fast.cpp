// Pools on f32, contract seq. A window is walked as that of a depthwise convolution (conv/
// depthwise.h): row-major, taps in the padding masked out, each output in its own lane, so sums
// have the definition's order and maxima its ties and NaNs.
#include "kernels/pool/fast.h"

#include <algorithm>

#include "engine/backend/announce.h"
#include "engine/core/threads.h"
#include "engine/ops/pool.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/tap_rows.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"
#include "kernels/pool/axis_taps.h"
#include "kernels/pool/max_rows.h"
#include "kernels/pool/planes.h"

namespace etalon {
namespace {

struct PreparedPool {
  WindowRows rows;
  TapRows tap_rows;             // of average pooling, where it serves
  MaxRows max_rows;             // of max pooling, where it serves
  PoolPlanes planes;            // of both
  std::vector<float> divisors;  // of average pooling
};

ConvGeometry as_depthwise(const PoolGeometry& g) {
  return {.batch = g.batch,
          .in_channels = g.channels,
          .out_channels = g.channels,
          .groups = g.channels,
          .window = g.window};
}

template <Isa isa>
constexpr int kLanes = isa >= Isa::avx512 ? 16 : 8;

// Where turning planes pays: rows of outputs that leave most of a vector idle, and strides for
// which rows would be split by remainder first.
bool small_planes(const Window& window, int lanes) {
  const WindowAxis& w = window.axes[2];
  return 4 * w.out <= lanes || (w.stride > 2 && w.out <= lanes);
}

template <bool kAverage>
PoolGeometry geometry_of(const Params& params, const Shape& x) {
  if constexpr (kAverage)
    return pool_geometry(params.as<AvgPoolParams>(), x);
  else
    return pool_geometry(params.as<MaxPoolParams>(), x);
}

// Windows of which the padding has most: vectors walk all taps and leave those out by masks, where
// one output after another walks only what is inside.
constexpr std::int64_t kFewTaps = 64, kMostlyPadding = 8;
bool mostly_padding(const Window& window) {
  const auto& [d, h, w] = window.axes;
  if (window.taps() <= kFewTaps) return false;
  const auto share = [](const WindowAxis& a) {
    return static_cast<double>(AxisTaps(a).inside()) /
           (static_cast<double>(a.out) * static_cast<double>(a.kernel));
  };
  return share(d) * share(h) * share(w) * kMostlyPadding < 1;
}

// nullptr: nothing to compute, or mostly padding.
template <Isa isa, bool kAverage>
Prepared prepare(const Problem& problem, int) {
  const PoolGeometry g = geometry_of<kAverage>(*problem.params, problem.input(0).shape);
  if (g.points() == 0 || mostly_padding(g.window)) return nullptr;
  if constexpr (kAverage) {
    return std::make_shared<PreparedPool>(
        WindowRows(as_depthwise(g), kLanes<isa>), TapRows(g.window, kLanes<isa>),
        MaxRows(Window{}, kLanes<isa>),
        PoolPlanes(g.window, kLanes<isa>, small_planes(g.window, kLanes<isa>)),
        average_divisors(g, problem.params->as<AvgPoolParams>()));
  } else {
    const MaxRows rows(g.window, kLanes<isa>);
    return std::make_shared<PreparedPool>(
        WindowRows(as_depthwise(g), kLanes<isa>), TapRows(Window{}, kLanes<isa>), rows,
        PoolPlanes(g.window, kLanes<isa>, !rows.serves() && small_planes(g.window, kLanes<isa>)),
        std::vector<float>{});
  }
}

// Channels from i on, two where they fit one vector; returns how many, 0 where the general loop
// must take this one.
template <Isa isa>
int max_rows(const MaxRows& rows, const MaxRowsCall& call, bool another) {
  constexpr bool kWide = isa >= Isa::avx512;
  if (!rows.serves()) return 0;
  if (another && rows.pairs() && (kWide ? avx512::max_rows_pair(call) : avx2::max_rows_pair(call)))
    return 2;
  return (kWide ? avx512::max_rows(call) : avx2::max_rows(call)) ? 1 : 0;
}

// Planes by vectors of them.
template <Isa isa, bool kAverage>
void run_planes(const KernelCall& call, const PreparedPool& p) {
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t count = p.rows.g.batch * p.rows.g.in_channels, lanes = p.planes.lanes();
  const std::int64_t pixels = p.rows.pixels, in_points = p.rows.g.window.in_points();
  parallel_for(
      (count + lanes - 1) / lanes, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        PlanesCall c = p.planes.call();
        c.divisor = kAverage ? p.divisors.data() : nullptr;
        Announcer announcer(call);
        for (std::int64_t i = begin * lanes; i < std::min(count, end * lanes); i += lanes) {
          c.planes = static_cast<int>(std::min(lanes, count - i));
          c.x = x + i * in_points;
          c.y = y + i * pixels;
          if constexpr (isa >= Isa::avx512)
            kAverage ? avx512::average_planes(c) : avx512::max_planes(c);
          else
            kAverage ? avx2::average_planes(c) : avx2::max_planes(c);
          announcer.add(i * pixels, c.planes * pixels);
        }
        announcer.flush();
      });
}

template <Isa isa, bool kAverage>
void run(const KernelCall& call) {
  if (!kAverage && !call.truth.empty()) return run_max_pool_definition(call);
  const Prepared fresh =
      call.prepared == nullptr ? prepare<isa, kAverage>(*call.problem, call.threads) : nullptr;
  const auto* prepared =
      static_cast<const PreparedPool*>(call.prepared == nullptr ? fresh.get() : call.prepared);
  if (prepared == nullptr) {
    const std::int64_t all = call.output(0).numel();
    if (all == 0) return;
    kAverage ? run_average_pool_scalar(call) : run_max_pool_scalar(call);
    if (call.finished != nullptr) (*call.finished)({.begin = 0, .count = all});
    return;
  }
  const PreparedPool& p = *prepared;
  if (p.planes.serves()) return run_planes<isa, kAverage>(call, p);
  const WindowRows& plan = p.rows;
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t in_points = plan.g.window.in_points();
  const std::int64_t grain =
      std::max<std::int64_t>(1, 100000 / std::max<std::int64_t>(1, plan.pixels * plan.k));
  parallel_for(plan.g.batch * plan.g.in_channels, call.threads, grain,
               [&](std::int64_t begin, std::int64_t end) {
                 DepthwiseCall c = p.rows.call();
                 Announcer announcer(call);
                 c.divisor = kAverage ? p.divisors.data() : nullptr;
                 MaxRowsCall rows = p.max_rows.call();
                 TapRowsCall taps = p.tap_rows.call();
                 taps.divisor = c.divisor;
                 if (p.max_rows.serves())
                   rows.kept = thread_scratch<float>(ScratchSlot::norms, p.max_rows.kept_size());
                 rows.other_x = in_points;
                 rows.other_y = plan.pixels;
                 for (std::int64_t i = begin; i < end; ++i) {
                   c.y = rows.y = taps.y = y + i * plan.pixels;
                   rows.x = taps.x = x + i * in_points;
                   if (p.tap_rows.serves()) {
                     isa >= Isa::avx512 ? avx512::tap_rows_average(taps)
                                        : avx2::tap_rows_average(taps);
                     announcer.add(i * plan.pixels, plan.pixels);
                     continue;
                   }
                   if (const int done = max_rows<isa>(p.max_rows, rows, i + 1 < end); done > 0) {
                     announcer.add(i * plan.pixels, done * plan.pixels);
                     i += done - 1;
                     continue;
                   }
                   c.x = p.rows.channel(x + i * in_points);
                   if constexpr (isa >= Isa::avx512)
                     kAverage ? avx512::average_pool(c) : avx512::max_pool(c);
                   else
                     kAverage ? avx2::average_pool(c) : avx2::max_pool(c);
                   announcer.add(i * plan.pixels, plan.pixels);
                 }
                 announcer.flush();
               });
}

}  // namespace

template <Isa isa>
KernelRow max_pool_f32_row(std::string_view name) {
  return {.op = "max_pool",
          .name = name,
          .isa = isa,
          .contracts = "seq, exact",
          .refuse = refuse_max_pool,
          .run = run<isa, false>,
          .prepare = prepare<isa, false>,
          .announces = true};
}
template <Isa isa>
KernelRow average_pool_f32_row(std::string_view name) {
  return {.op = "avg_pool",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse_unless_seq_f32,
          .run = run<isa, true>,
          .prepare = prepare<isa, true>,
          .announces = true};
}
template KernelRow max_pool_f32_row<Isa::avx512>(std::string_view name);
template KernelRow max_pool_f32_row<Isa::avx2>(std::string_view name);
template KernelRow average_pool_f32_row<Isa::avx512>(std::string_view name);
template KernelRow average_pool_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
