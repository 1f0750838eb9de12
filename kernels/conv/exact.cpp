// Padding is a zero that adds nothing to the real sum; under a weight that is not finite it makes
// NaN, which fails the test and goes to the definition.
#include "kernels/conv/exact.h"

#include <mutex>
#include <vector>

#include "kernels/conv/definition.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/exact.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

constexpr std::int64_t kBlockBytes = 512 << 10;

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet<double>& set = *tile_set_f64(isa);
  const ConvPlan plan(
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()));
  const ConvGeometry& g = plan.g;
  const std::int64_t k = plan.k, out = g.group_out();
  const int lanes = set.lanes;
  const float* x = call.input(0).data<float>().data();
  const float* w = call.input(1).data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  const RowStrips strips(out, set.rows);
  AlignedBuffer weights;
  double* packed_w = weights.at_least<double>(g.out_channels * k);
  std::vector<double> w_norm(static_cast<std::size_t>(g.out_channels));
  for (std::int64_t group = 0; group < g.groups; ++group)
    pack_broadcast(set, {w + group * out * k, k, 1}, strips, k, call.threads,
                   packed_w + group * out * k);
  for (std::int64_t o = 0; o < g.out_channels; ++o) {
    double s = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const double v = static_cast<double>(w[o * k + i]);
      s += v * v;
    }
    w_norm[static_cast<std::size_t>(o)] = std::sqrt(s);
  }
  const std::int64_t n_strips = vector_strips(plan.pixels, lanes);
  constexpr int kWide = 2;
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, k * lanes * std::int64_t{sizeof(double)});
  const std::int64_t block =
      std::min(n_strips, std::max<std::int64_t>(kWide, kBlockBytes / strip_bytes));
  const std::int64_t blocks = (n_strips + block - 1) / block;
  const double factor = exact_factor(k);
  std::vector<std::int64_t> undecided;
  std::mutex joining;
  AlignedBuffer padded;
  for (std::int64_t image = 0; image < g.batch; ++image) {
    const float* source = x + image * g.in_channels * g.window.in_points();
    if (plan.copied) {
      float* copy = padded.at_least<float>(plan.image_stride);
      parallel_for(g.in_channels, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          plan.copy_channel(source + c * g.window.in_points(), copy + c * plan.channel_stride);
      });
      source = copy;
    }
    parallel_for(g.groups * blocks, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      double* packed = thread_scratch<double>(ScratchSlot::vector, block * lanes * k);
      double* square = thread_scratch<double>(ScratchSlot::tile, kMaxTileRows * kWide * lanes);
      std::vector<double> x_norm(static_cast<std::size_t>(block * lanes));
      std::vector<std::int64_t> left;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t group = item / blocks, first = item % blocks * block;
        const std::int64_t count = std::min(block, n_strips - first);
        for (std::int64_t s = 0; s < count; ++s) {
          const std::int64_t pixel = (first + s) * lanes;
          TapPiece pieces[kMaxPieces];
          bool touches = false;
          const int n =
              plan.pieces(source + group * g.group_in() * plan.channel_stride, pixel,
                          static_cast<int>(std::min<std::int64_t>(lanes, plan.pixels - pixel)),
                          pieces, touches);
          double* to = packed + s * lanes * k;
          set.pack_taps(pieces, n, plan.offset.data(), k, lanes, to, lanes);
          for (int lane = 0; lane < lanes; ++lane) {
            double sum = 0;
            for (std::int64_t i = 0; i < k; ++i) sum += to[i * lanes + lane] * to[i * lanes + lane];
            x_norm[static_cast<std::size_t>(s * lanes + lane)] = std::sqrt(sum);
          }
        }
        for (std::int64_t s = 0; s < strips.count; ++s) {
          const int height = strips.height(s);
          const std::int64_t row = strips.first(s);
          for (std::int64_t v = 0; v < count; v += kWide) {
            const int wide = static_cast<int>(std::min<std::int64_t>(kWide, count - v));
            set.plain[static_cast<std::size_t>(wide)][static_cast<std::size_t>(height)](
                {.k = k,
                 .a = packed_w + (group * out + row) * k,
                 .a_step = height,
                 .b = packed + v * lanes * k,
                 .b_strip = k * lanes,
                 .b_step = lanes,
                 .c = square,
                 .c_row = kWide * lanes,
                 .last_lanes = lanes});
            const std::int64_t pixel = (first + v) * lanes;
            const std::int64_t n = std::min<std::int64_t>(wide * lanes, plan.pixels - pixel);
            for (int r = 0; r < height; ++r) {
              const std::int64_t o = group * out + row + r;
              const std::int64_t at = (image * g.out_channels + o) * plan.pixels + pixel;
              for (std::int64_t i = 0; i < n; ++i) {
                double t = square[r * kWide * lanes + i];
                if (bias != nullptr) t += static_cast<double>(bias[o]);
                const double e = factor * w_norm[static_cast<std::size_t>(o)] *
                                 x_norm[static_cast<std::size_t>(v * lanes + i)];
                if (!exact_decide(t, e, y[at + i], truth == nullptr ? nullptr : truth + at + i))
                  left.push_back(at + i);
              }
            }
          }
        }
      }
      const std::scoped_lock lock(joining);
      undecided.insert(undecided.end(), left.begin(), left.end());
    });
  }
  exact_counts().outputs += call.output(0).numel();
  exact_counts().undecided += static_cast<std::int64_t>(undecided.size());
  static const KernelRow definition = definition_row<ConvDefinition>("conv.definition");
  if (!undecided.empty()) definition.run_slices(call, undecided);
}

}  // namespace

template <Isa isa>
KernelRow conv_exact_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = refuse_unless_exact_f32,
          .run = run<isa>};
}
template KernelRow conv_exact_row<Isa::avx512>(std::string_view name);
template KernelRow conv_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
