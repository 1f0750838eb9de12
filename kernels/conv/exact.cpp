// Padding is a zero that adds nothing to the real sum; under a weight that is not finite it makes
// NaN, which fails the test and goes to the definition.
#include "kernels/conv/exact.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/conv/digits.h"
#include "kernels/conv/plan.h"
#include "kernels/conv/rows.h"
#include "kernels/gemm/exact_narrow.h"

namespace etalon {
namespace {

constexpr std::int64_t kBlockBytes = 512 << 10;
constexpr int kWide = 2;         // vectors of a tile
constexpr int kMaxOutputs = 16;  // of a row of a tile
constexpr int kTapOutputs = 32;  // of one call
// Groups of so few channels read their windows in place: packing a window for them costs more than
// the sums.
constexpr std::int64_t kDirectChannels = 2;

// w as strips of output channels, group by group, and the norm of each channel.
struct PackedWeights {
  AlignedBuffer strips;
  std::vector<double> norms;
  ConvDigits digits;  // instead, where there is such a pass
};

void pack_weights(Isa isa, const ConvGeometry& g, const float* w, int threads, PackedWeights& to) {
  const TileSet<double>& set = *tile_set_f64(isa);
  const std::int64_t k = g.k(), out = g.group_out();
  const RowStrips strips(out, set.rows);
  double* packed = to.strips.at_least<double>(g.out_channels * k);
  for (std::int64_t group = 0; group < g.groups; ++group)
    pack_broadcast(set, {w + group * out * k, k, 1}, strips, k, threads, packed + group * out * k);
  to.norms.resize(static_cast<std::size_t>(g.out_channels));
  parallel_for(g.out_channels, threads, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double s = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double x = static_cast<double>(w[o * k + i]);
        s += x * x;
      }
      to.norms[static_cast<std::size_t>(o)] = std::sqrt(s);
    }
  });
}

const DigitSet* digits_for(Isa isa, const ConvGeometry& g) {
  return refuse_conv_digits(g) ? nullptr : digit_set(isa);
}

// The inputs under one output, in the order of w; zeros in the padding.
void window(const ConvGeometry& g, const float* x, std::int64_t group, std::int64_t pixel,
            float* to) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t ox = pixel % w.out, oy = pixel / w.out % h.out, oz = pixel / (w.out * h.out);
  const std::int64_t first = w.at(ox, 0);
  const bool inside = w.dilation == 1 && first >= 0 && first + w.kernel <= w.in;
  for (std::int64_t c = 0; c < g.group_in(); ++c) {
    const float* channel = x + (group * g.group_in() + c) * g.window.in_points();
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry, to += w.kernel) {
        const std::int64_t z = d.at(oz, rz), y = h.at(oy, ry);
        if (z < 0 || z >= d.in || y < 0 || y >= h.in) {
          std::fill_n(to, w.kernel, 0.0F);
          continue;
        }
        const float* row = channel + (z * h.in + y) * w.in;
        for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
          const std::int64_t at = inside ? first + rx : w.at(ox, rx);
          to[rx] = at >= 0 && at < w.in ? row[at] : 0.0F;
        }
      }
  }
}

// Settles what the first pass left, all channels of a pixel in turn; keeps the rest.
void settle(Isa isa, const KernelCall& call, const ConvGeometry& g,
            std::vector<std::int64_t>& left) {
  const std::int64_t points = g.window.out_points(), k = g.k(), image = g.out_channels * points;
  const float* x = call.input(0).data<float>().data();
  const float* w = call.input(1).data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  // Image, group, pixel: what has one window.
  const auto key = [&](std::int64_t i) {
    return (i / image * g.groups + i / points % g.out_channels / g.group_out()) * points +
           i % points;
  };
  std::ranges::sort(left, {}, key);
  std::vector<std::int64_t> rest;
  std::mutex joining;
  parallel_for(static_cast<std::int64_t>(left.size()), call.threads, 64,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<float> taps(static_cast<std::size_t>(k));
                 std::vector<std::int64_t> mine;
                 std::int64_t in_taps = -1;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t at = left[static_cast<std::size_t>(i)];
                   const std::int64_t o = at / points % g.out_channels;
                   if (key(at) != in_taps) {
                     in_taps = key(at);
                     window(g, x + at / image * g.in_channels * g.window.in_points(),
                            o / g.group_out(), at % points, taps.data());
                   }
                   if (!exact_settle(*exact_lanes(isa),
                                     {.a = taps.data(),
                                      .b = w + o * k,
                                      .k = k,
                                      .added = bias == nullptr ? 0.0 : static_cast<double>(bias[o]),
                                      .adds = bias != nullptr},
                                     y[at], truth == nullptr ? nullptr : truth + at))
                     mine.push_back(at);
                 }
                 const std::scoped_lock lock(joining);
                 rest.insert(rest.end(), mine.begin(), mine.end());
               });
  left = std::move(rest);
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor* w = problem.inputs[1].value;
  if (w == nullptr) return nullptr;
  Tensor copy;
  w = &widened(*w, threads, copy);
  auto prepared = std::make_shared<PackedWeights>();
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (const DigitSet* digits = digits_for(isa, g))
    pack_conv_digits(*digits, g, w->data<float>().data(), threads, prepared->digits);
  else
    pack_weights(isa, g, w->data<float>().data(), threads, *prepared);
  return prepared;
}

// The first pass in f64. Appends what it leaves.
void f64_pass(const KernelCall& call, Isa isa, const PackedWeights* prepared,
              const ExactSteps& steps, std::vector<std::int64_t>& undecided) {
  const TileSet<double>& set = *tile_set_f64(isa);
  const ExactLanes& lane_functions = *exact_lanes(isa);
  const ConvPlan plan(
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()));
  const ConvGeometry& g = plan.g;
  const std::int64_t k = plan.k, out = g.group_out();
  const int lanes = set.lanes;
  const float* x = call.input(0).data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  const RowStrips strips(out, set.rows);
  PackedWeights fresh;
  const bool direct = out <= kDirectChannels && truth == nullptr;
  if (prepared == nullptr && !direct)
    pack_weights(isa, g, call.input(1).data<float>().data(), call.threads, fresh);
  const PackedWeights& w = prepared == nullptr ? fresh : *prepared;
  const double* packed_w = w.strips.data<double>();
  const std::int64_t n_strips = vector_strips(plan.pixels, lanes);
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, k * lanes * std::int64_t{sizeof(double)});
  const std::int64_t block =
      std::min(n_strips, std::max<std::int64_t>(kWide, kBlockBytes / strip_bytes));
  const std::int64_t blocks = (n_strips + block - 1) / block;
  const double factor = exact_factor(k);
  std::mutex joining;
  for (std::int64_t image = 0; image < g.batch; ++image) {
    const float* source = x + image * g.in_channels * g.window.in_points();
    if (plan.copied) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, plan.image_stride);
      parallel_for(g.in_channels, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          plan.copy_channel(source + c * g.window.in_points(), copy + c * plan.channel_stride);
      });
      source = copy;
    }
    if (direct) {
      parallel_for(g.out_channels, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        const auto& [d, h, columns] = g.window.axes;
        std::vector<std::int64_t> left;
        for (std::int64_t o = begin; o < end; ++o)
          for (std::int64_t row = 0; row < d.out * h.out; ++row)
            for (std::int64_t ox = 0; ox < columns.out; ox += kTapOutputs) {
              const std::int64_t at =
                  (image * g.out_channels + o) * plan.pixels + row * columns.out + ox;
              std::uint32_t open = lane_functions.taps(
                  {.x = source + o / out * g.group_in() * plan.channel_stride +
                        row / h.out * d.stride * plan.plane_stride +
                        row % h.out * h.stride * plan.row_stride + ox,
                   .offset = plan.offset.data(),
                   .w = call.input(1).data<float>().data() + o * k,
                   .k = k,
                   .added = bias == nullptr ? 0.0 : static_cast<double>(bias[o])},
                  static_cast<int>(std::min<std::int64_t>(kTapOutputs, columns.out - ox)), y + at);
              if (!steps.rounding_test) open = 0;
              for (; open != 0; open &= open - 1) left.push_back(at + __builtin_ctz(open));
            }
        const std::scoped_lock lock(joining);
        undecided.insert(undecided.end(), left.begin(), left.end());
      });
      continue;
    }
    parallel_for(g.groups * blocks, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      double* packed = thread_scratch<double>(ScratchSlot::vector, block * lanes * k);
      double* square = thread_scratch<double>(ScratchSlot::tile, kMaxTileRows * kWide * lanes);
      double added[kMaxOutputs] = {};
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
          lane_functions.norms(to, k, x_norm.data() + s * lanes);
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
            for (int r = 0; r < height; ++r) {
              const std::int64_t o = group * out + row + r;
              const std::int64_t at = (image * g.out_channels + o) * plan.pixels + pixel;
              if (bias != nullptr)
                std::fill(std::begin(added), std::end(added), static_cast<double>(bias[o]));
              exact_row(lane_functions, square + r * kWide * lanes,
                        {.bound = factor * w.norms[static_cast<std::size_t>(o)],
                         .norms = x_norm.data() + v * lanes,
                         .added = bias == nullptr ? nullptr : added},
                        {.y = y + at,
                         .truth = truth == nullptr ? nullptr : truth + at,
                         .at = at,
                         .count = static_cast<int>(
                             std::min<std::int64_t>(wide * lanes, plan.pixels - pixel))},
                        steps, left);
            }
          }
        }
      }
      const std::scoped_lock lock(joining);
      undecided.insert(undecided.end(), left.begin(), left.end());
    });
  }
}

}  // namespace

namespace {

void conv_pass(const KernelCall& call, Isa isa, const ExactSteps& steps,
               std::vector<std::int64_t>& undecided) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const auto* prepared = static_cast<const PackedWeights*>(call.prepared);
  const DigitSet* digits = digits_for(isa, g);
  bool done = false;
  if (digits != nullptr) {
    ConvDigits fresh;
    if (prepared == nullptr)
      pack_conv_digits(*digits, g, call.input(1).data<float>().data(), call.threads, fresh);
    const ConvDigits& w = prepared == nullptr ? fresh : prepared->digits;
    done =
        w.finite && conv_digits(*digits, *exact_lanes(isa), g,
                                {.x = call.input(0).data<float>().data(),
                                 .w = &w,
                                 .bias = call.has(2) ? call.input(2).data<float>().data() : nullptr,
                                 .y = call.output(0).mutable_data<float>().data(),
                                 .truth = call.truth.empty() || !call.truth[0]
                                              ? nullptr
                                              : call.truth[0].mutable_data<double>().data(),
                                 .steps = steps},
                                call.threads, undecided);
  }
  if (!done) {
    // Digits have no NaN and no infinity; the f64 pass leaves just the outputs that meet one.
    undecided.clear();
    f64_pass(call, isa, digits == nullptr ? prepared : nullptr, steps, undecided);
  }
  exact_counts().undecided += static_cast<std::int64_t>(undecided.size());
  if (steps.settle) settle(isa, call, g, undecided);
}

}  // namespace

void run_conv_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  std::vector<std::int64_t> left;
  run_exact_pass(call, left, [&](const KernelCall& wide, std::vector<std::int64_t>& open) {
    conv_pass(wide, isa, steps, open);
  });
  exact_counts().outputs += call.output(0).numel();
  exact_counts().defined += static_cast<std::int64_t>(left.size());
  if (!left.empty() && steps.definition) run_conv_definition(call, left);
}

namespace {

// What has no pass in digits belongs to the row below.
Refusal refuse_amx(const Problem& problem) {
  if (Refusal reason = refuse_unless_exact_narrow(problem)) return reason;
  return refuse_conv_digits(conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                          problem.input(1).shape));
}

}  // namespace

template <Isa isa>
KernelRow conv_exact_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = isa == Isa::amx ? refuse_amx : refuse_unless_exact_narrow,
          .run = [](const KernelCall& call) { run_conv_exact(call, isa, {}); },
          .prepare = prepare<isa>};
}
template KernelRow conv_exact_row<Isa::amx>(std::string_view name);
template KernelRow conv_exact_row<Isa::avx512>(std::string_view name);
template KernelRow conv_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
