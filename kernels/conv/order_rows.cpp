// Rows are the channels of a group, lanes are pixels, of all images of the batch in one run. A walk
// is a permutation of the terms: weights and pixels are packed in its sequence, and the program
// that adds them up (../gemm/order.h) knows nothing of it. Pixels are gathered from the image as it
// lies; a tap in the padding is masked, and so is no term.
#include "kernels/conv/order_rows.h"

#include <algorithm>
#include <limits>

#include "engine/core/threads.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_channels_last.h"
#include "kernels/gemm/order_windows.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/gemm/window_lanes.h"

namespace etalon {
namespace {

// The k-th term of the walk is weight crs[k] of the channel's row: channel crs / taps, tap crs %
// taps.
std::vector<std::int64_t> walk_terms(const ConvGeometry& g, const Walk& walk) {
  const std::int64_t channels = g.group_in(), taps = g.window.taps();
  const std::int64_t block = walk.kind == Walk::Kind::crs   ? 1
                             : walk.kind == Walk::Kind::rsc ? std::max<std::int64_t>(1, channels)
                                                            : walk.channels;
  std::vector<std::int64_t> crs;
  crs.reserve(static_cast<std::size_t>(g.k()));
  for (std::int64_t c0 = 0; c0 < channels; c0 += std::min(block, channels - c0))
    for (std::int64_t tap = 0; tap < taps; ++tap)
      for (std::int64_t c = c0; c < c0 + std::min(block, channels - c0); ++c)
        crs.push_back(c * taps + tap);
  return crs;
}

// One channel a group, and few outputs of each: lanes are planes (../gemm/order_windows.h).
template <class T>
void convolve_planes(const KernelCall& call, const OrderTiles<T>& tiles,
                     const OrderProgram& program, const ConvGeometry& g, bool channels_last) {
  const Contract& contract = call.contract();
  const OrderOperand<T> w(call.input(1), tiles, contract, call.threads);
  const std::int64_t planes = g.batch * g.out_channels, taps = g.window.taps();
  std::vector<T> bias;
  if (call.has(2)) {
    const OrderOperand<T> b(call.input(2), tiles, contract, 1);
    bias.resize(static_cast<std::size_t>(planes + std::int64_t{kOrderRows} * tiles.width));
    for (std::int64_t i = 0; i < planes; ++i)
      bias[static_cast<std::size_t>(i)] = b.data()[i % g.out_channels];
  }
  const auto plane = [&](std::int64_t i) {
    return i / g.out_channels * g.in_channels + i % g.out_channels / g.group_out();
  };
  const auto weights = [&](std::int64_t first, std::int64_t lanes, T* to) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const T* row = w.data() + std::min(first + lane, planes - 1) % g.out_channels * taps;
      for (std::int64_t tap = 0; tap < taps; ++tap) to[tap * lanes + lane] = row[tap];
    }
  };
  const auto finish = [&](std::int64_t first, std::int64_t, std::int64_t lanes, T* sums) {
    if (bias.empty()) return;
    const RoundingScope scope(tiles.chains);
    tiles.add(sums, bias.data() + first, lanes);
  };
  run_order_windows<T>(call, {.tiles = tiles,
                              .program = program,
                              .window = g.window,
                              .planes = planes,
                              .channels_last = channels_last ? g.out_channels : 0,
                              .plane = plane,
                              .of = OrderTerm::product,
                              .weights = weights,
                              .finish = finish});
}

bool few_outputs(const ConvGeometry& g, int width) {
  return g.group_in() == 1 && g.group_out() < kOrderRows && g.groups * g.batch >= width &&
         !refuse_order_windows(g.window);
}

// Weights as OrderTask::a has them, in the sequence of `terms`.
struct PackedWeights {
  AlignedBuffer strips;
};

template <class T>
const T* pack_weights(const Tensor& weights, const ConvGeometry& g, const OrderTiles<T>& tiles,
                      const Contract& contract, const std::vector<std::int64_t>& terms, int threads,
                      PackedWeights& packed) {
  const OrderOperand<T> w(weights, tiles, contract, threads);
  const std::int64_t rows = g.group_out(), k = g.k();
  T* to = packed.strips.at_least<T>(std::max<std::int64_t>(1, g.out_channels * k));
  parallel_for(g.groups, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group)
      pack_order_rows(w.data() + group * rows * k, rows, k, k, 1, terms.data(),
                      to + group * rows * k);
  });
  return to;
}

template <class T>
Prepared prepare_weights(const Problem& problem, const OrderTiles<T>& tiles, int threads) {
  const Tensor* w = problem.inputs[1].value;
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (w == nullptr || few_outputs(g, tiles.width)) return nullptr;
  const Contract& contract = *problem.contract;
  auto packed = std::make_shared<PackedWeights>();
  pack_weights(*w, g, tiles, contract, walk_terms(g, contract.walk), threads, *packed);
  return packed;
}

template <class T>
void convolve(const KernelCall& call, const OrderTiles<T>& tiles, const OrderProgram& program) {
  const Contract& contract = call.contract();
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const std::int64_t pixels = g.window.out_points(), k = g.k(), taps = g.window.taps();
  const std::int64_t rows = g.group_out(), in_points = g.window.in_points();
  if (g.batch * g.out_channels * pixels == 0) return;
  if (few_outputs(g, tiles.width)) return convolve_planes(call, tiles, program, g, false);
  const OrderOperand<T> x(call.input(0), tiles, contract, call.threads);
  std::optional<OrderOperand<T>> bias;
  if (call.has(2)) bias.emplace(call.input(2), tiles, contract, 1);

  const std::vector<std::int64_t> terms = walk_terms(g, contract.walk);
  PackedWeights fresh;
  const auto* constant = static_cast<const PackedWeights*>(call.prepared);
  const T* packed_w = constant != nullptr ? constant->strips.data<T>()
                                          : pack_weights(call.input(1), g, tiles, contract, terms,
                                                         call.threads, fresh);

  const int width = tiles.width;
  const auto pack = [&](std::int64_t group, std::int64_t panel, T* to, std::uint32_t* mask) {
    const WindowLanes lanes(g.window, g.batch, g.in_channels * in_points, panel * width, width);
    const T* from = x.data() + group * g.group_in() * in_points;
    for (const std::int64_t term : terms) {
      const std::int64_t c = term / taps;
      const auto tap = static_cast<std::size_t>(term % taps);
      lanes.gather(tiles, from + c * in_points, tap, to);
      to += width;
      *mask++ = lanes.mask(tap);
    }
    return !lanes.whole();
  };
  const auto finish = [&](std::int64_t group, std::int64_t panel, std::int64_t row, int height,
                          T* tile) {
    if (bias) {
      T added[kOrderRows * 64];
      for (int r = 0; r < height; ++r)
        std::fill_n(added + r * width, width, bias->data()[group * rows + row + r]);
      const RoundingScope scope(tiles.chains);
      tiles.add(tile, added, std::int64_t{height} * width);
    }
    const std::int64_t stop = std::min<std::int64_t>((panel + 1) * width, g.batch * pixels);
    for (std::int64_t q = panel * width; q < stop;) {
      const std::int64_t image = q / pixels, at = q % pixels;
      const std::int64_t count = std::min(stop - q, pixels - at);
      for (int r = 0; r < height; ++r)
        store_order(call, tiles, (image * g.out_channels + group * rows + row + r) * pixels + at,
                    tile + r * width + (q - panel * width), count);
      q += count;
    }
  };
  run_order(OrderTask<T>{.tiles = tiles,
                         .program = program,
                         .groups = g.groups,
                         .columns = g.batch * pixels,
                         .rows = rows,
                         .k = k,
                         .a = packed_w,
                         .pack = pack,
                         .finish = finish,
                         .threads = call.threads});
}

template <Isa isa>
void run(const KernelCall& call) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  run_conv_order<isa>(call, compile_order(call.contract().order, g.k()));
}

template <Isa isa>
Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  if (problem.input(0).shape.numel() > std::numeric_limits<std::int32_t>::max())
    return "reaches 2^31 elements of the input";
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  return refuse_order(problem.contract->order, g.k());
}

// One channel a group, one output of each, channels last.
template <Isa isa>
void run_last(const KernelCall& call) {
  const ConvGeometry g = conv_channels_last_geometry(call.params<ConvParams>(),
                                                     call.input(0).shape(), call.input(1).shape());
  if (g.batch * g.out_channels * g.window.out_points() == 0) return;
  const Contract& c = call.contract();
  const OrderProgram program = compile_order(c.order, g.k());
  if (c.acc == DType::f64)
    convolve_planes<double>(call, order_tiles_f64(isa, c), program, g, true);
  else
    convolve_planes<float>(call, order_tiles_f32(isa, c), program, g, true);
}

Refusal refuse_last(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  const ConvGeometry g = conv_channels_last_geometry(
      problem.params->as<ConvParams>(), problem.input(0).shape, problem.input(1).shape);
  if (g.group_in() != 1 || g.group_out() != 1) return "takes one channel a group, one output of it";
  if (Refusal r = refuse_order_windows(g.window)) return r;
  return refuse_order(problem.contract->order, g.k());
}

}  // namespace

template <Isa isa>
KernelRow conv_channels_last_order_row(std::string_view name) {
  return {.op = "conv_channels_last",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse_last,
          .run = run_last<isa>};
}
template KernelRow conv_channels_last_order_row<Isa::avx512>(std::string_view name);
template KernelRow conv_channels_last_order_row<Isa::avx2>(std::string_view name);

template <Isa isa>
void run_conv_order(const KernelCall& call, const OrderProgram& program) {
  const Contract& c = call.contract();
  if (c.acc == DType::f64)
    convolve<double>(call, order_tiles_f64(isa, c), program);
  else
    convolve<float>(call, order_tiles_f32(isa, c), program);
}
template void run_conv_order<Isa::avx512>(const KernelCall&, const OrderProgram&);
template void run_conv_order<Isa::avx2>(const KernelCall&, const OrderProgram&);

template <Isa isa>
Prepared prepare_conv_order(const Problem& problem, int threads) {
  const Contract& c = *problem.contract;
  if (c.acc == DType::f64) return prepare_weights(problem, order_tiles_f64(isa, c), threads);
  return prepare_weights(problem, order_tiles_f32(isa, c), threads);
}
template Prepared prepare_conv_order<Isa::avx512>(const Problem&, int);
template Prepared prepare_conv_order<Isa::avx2>(const Problem&, int);

template <Isa isa>
KernelRow conv_order_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse<isa>,
          .run = run<isa>,
          .prepare = prepare_conv_order<isa>};
}
template KernelRow conv_order_row<Isa::avx512>(std::string_view name);
template KernelRow conv_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
