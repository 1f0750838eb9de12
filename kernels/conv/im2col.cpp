// conv, f32, algo=im2col: the matrix of inputs is written down, an image and group at a time, in
// the strips that gemm's tile reads; then W X. Loops: strips of pixels { k } (the matrix); strips
// of channels, groups of vectors, k (the product). Same bits: each output is one accumulator, k
// ascending; a tap in the padding is a zero of the copy that the plan reads, and a zero is a term
// here, as im2col_definition.h has it. Limit: the product's two fma a cycle; the matrix is R^2
// times the image, written and read once.
#include <algorithm>
#include <memory>

#include "kernels/conv/algorithms.h"
#include "kernels/conv/algorithms_fast.h"
#include "kernels/conv/fast.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

constexpr double kSerialFlops = 4e5;

struct PreparedMatrix {
  ConvPlan plan;
  bool packed = false;
  AlignedBuffer weights;  // [group][strip][k][height]
  explicit PreparedMatrix(const ConvGeometry& g) : plan(g) {}
};

std::shared_ptr<PreparedMatrix> make_plan(const Problem& problem) {
  return std::make_shared<PreparedMatrix>(conv_geometry(
      problem.params->as<ConvParams>(), problem.input(0).shape, problem.input(1).shape));
}

void pack_weights(PreparedMatrix& p, const TileSet& set, const float* w, int threads) {
  const ConvGeometry& g = p.plan.g;
  const std::int64_t k = p.plan.k, out = g.group_out();
  float* to = p.weights.at_least<float>(g.out_channels * k);
  for (std::int64_t group = 0; group < g.groups; ++group)
    pack_broadcast(set, {w + group * out * k, k, 1}, RowStrips(out, set.rows), k, threads,
                   to + group * out * k);
  p.packed = true;
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  auto p = make_plan(problem);
  if (const Tensor* w = problem.inputs[1].value)
    pack_weights(*p, *tile_set_f32(isa), w->data<float>().data(), threads);
  return p;
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet& set = *tile_set_f32(isa);
  const auto* p = static_cast<const PreparedMatrix*>(call.prepared);
  std::shared_ptr<PreparedMatrix> fresh;
  if (p == nullptr || !p->packed) {
    fresh = make_plan(*call.problem);
    pack_weights(*fresh, set, call.input(1).data<float>().data(), call.threads);
    p = fresh.get();
  }
  const ConvPlan& plan = p->plan;
  const ConvGeometry& g = plan.g;
  if (g.batch == 0 || g.out_channels == 0 || plan.pixels == 0) return;
  const std::int64_t k = plan.k, out = g.group_out(), lanes = set.lanes;
  const double flops = 2.0 * static_cast<double>(g.out_channels * plan.pixels) *
                       static_cast<double>(g.batch) * static_cast<double>(k);
  const int threads = flops < kSerialFlops ? 1 : call.threads;
  const std::int64_t vectors = vector_strips(plan.pixels, set.lanes);
  const RowStrips strips(out, set.rows);
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  const std::int64_t points = g.window.in_points();
  float* matrix = thread_scratch<float>(ScratchSlot::vector, (vectors * k + 1) * lanes);
  for (std::int64_t image = 0; image < g.batch; ++image) {
    const float* source = x + image * g.in_channels * points;
    if (plan.copied) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, plan.image_stride);
      parallel_for(g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          plan.copy_channel(source + c * points, copy + c * plan.channel_stride);
      });
      source = copy;
    }
    for (std::int64_t group = 0; group < g.groups; ++group) {
      const float* base = source + group * g.group_in() * plan.channel_stride;
      parallel_for(vectors, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t v = begin; v < end; ++v) {
          TapPiece pieces[kMaxPieces];
          bool border = false;
          const int count =
              static_cast<int>(std::min<std::int64_t>(lanes, plan.pixels - v * lanes));
          const int n = plan.pieces(base, v * lanes, count, pieces, border);
          set.pack_taps(pieces, n, plan.offset.data(), k, set.lanes, matrix + v * k * lanes, lanes);
        }
      });
      parallel_for(vectors, threads, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = 0; s < strips.count; ++s) {
          const int height = strips.height(s);
          const std::int64_t row = strips.first(s), o = group * out + row;
          const int most = widest_tile(set, height);
          for (std::int64_t v = begin; v < end;) {
            const int w = static_cast<int>(std::min<std::int64_t>(most, end - v));
            TileCall t{.k = k,
                       .a = p->weights.data<float>() + (group * out + row) * k,
                       .a_step = height,
                       .b = matrix + v * k * lanes,
                       .b_strip = k * lanes,
                       .b_step = lanes,
                       .c = y + (image * g.out_channels + o) * plan.pixels + v * lanes,
                       .c_row = plan.pixels,
                       .last_lanes = static_cast<int>(
                           std::min<std::int64_t>(lanes, plan.pixels - (v + w - 1) * lanes)),
                       .row_bias = bias == nullptr ? nullptr : bias + o};
            set.plain[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)](t);
            v += w;
          }
        }
      });
    }
  }
}

}  // namespace

template <Isa isa>
KernelRow im2col_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq with algo=im2col",
          .refuse = refuse_conv_seq_f32,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow im2col_f32_row<Isa::avx512>(std::string_view name);
template KernelRow im2col_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
