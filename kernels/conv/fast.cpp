// conv, f32, contract seq, walk crs: each y[n,o,p] is one fma chain over the taps inside the input,
// k ascending (definition.h); the bias is added last.
// Loops, pixels in lanes: block of pixels, block of k (packed here), strip of channels, group of
// vectors, k. Channels in lanes: block of k, strip of channels, strip of pixels, k; for images of
// few pixels, where whole vectors of channels waste nothing.
// Same bits: each accumulator walks all of k in a register; padding is a zero that changes nothing,
// and where it could (plan.h) the outputs are computed again without it.
// Small images with much padding go side by side (images.h), long rows in place (in_place.h).
// Here: which way a convolution goes, and what it reads; the loops are in fast_pixels.cpp and
// fast_channels.cpp.
// Limit: two 512-bit fma a cycle; share reached, and what was tried: README.md.
#include "kernels/conv/fast.h"

#include <cmath>

#include "kernels/conv/depthwise.h"
#include "kernels/conv/fast_chunk.h"
#include "kernels/gemm/refuse.h"
#include "kernels/simd/machine.h"

namespace etalon {
namespace {

constexpr double kSerialFlops = 4e5;
// Weights of more bytes come from the third cache.
constexpr std::int64_t kSecondCache = 4 << 20;
// Padded copies of images that are held at a time.
constexpr std::int64_t kCopyBytes = 16 << 20;
// Bands of rows of a copy, so that threads come out even; where two of them meet in a small plane,
// threads write one cache line in turn: samples of 7x7 in bands took 1.4 times as long.
constexpr std::int64_t kBandsByThread = 4, kBandBytes = 4096;

// A single tap that steps over elements reads a sample of its input; of that sample it is a tap of
// stride 1, and an image of it one run of neighbours.
bool is_sampled(const ConvGeometry& g) {
  bool steps = false;
  for (const WindowAxis& a : g.window.axes) {
    if (a.kernel != 1 || a.out == 0 || a.at(0, 0) < 0 || a.at(a.out - 1, 0) >= a.in) return false;
    steps = steps || a.stride != 1;
  }
  return steps;
}
ConvGeometry of_sample(ConvGeometry g) {
  for (WindowAxis& a : g.window.axes) a = {.in = a.out, .out = a.out};
  return g;
}

std::int64_t copies_at_once(const ConvPlan& plan) {
  const std::int64_t bytes = plan.image_stride * std::int64_t{sizeof(float)};
  return std::clamp<std::int64_t>(kCopyBytes / std::max<std::int64_t>(1, bytes), 1,
                                  std::max<std::int64_t>(1, plan.g.batch));
}

// Threads of a call that may use `threads`.
int threads_for(const ConvPlan& plan, int threads) {
  const double flops = 2.0 * static_cast<double>(plan.g.batch * plan.g.out_channels * plan.pixels) *
                       static_cast<double>(plan.k);
  return flops < kSerialFlops ? 1 : threads;
}

}  // namespace

PreparedConv::PreparedConv(const ConvGeometry& g, const TileSet& set, bool last)
    : met(g),
      given(met.geometry()),
      sampled(is_sampled(given)),
      plan(sampled ? of_sample(given) : given),
      channels_last(last),
      images_at_once(plan.copied || sampled ? copies_at_once(plan) : plan.g.batch),
      in_place(plan.g, set, last) {
  if (in_place.worthwhile() || channels_last) return;
  images.emplace(plan.g, set);
  if (!images->worthwhile()) images.reset();
}

namespace {

// Vector instructions for one k, the two ways; a packed vector costs about two, a transposed store
// of a 16 x 16 square about six for each of its vectors. Beyond that channels in lanes measured a
// tenth slower on images of 12x12 to 28x28, unless the weights come from far: they are then read
// for more pixels at a time. That was on Sapphire Rapids; Zen 4 agrees with the count, with nine
// for a store: sums of 256 terms at 14x14 lose what they gain once something follows them.
bool prefer_channels(const ConvPlan& plan, int lanes, int rows, std::int64_t images) {
  const double k = static_cast<double>(std::max<std::int64_t>(1, plan.k));
  const auto o = static_cast<double>(plan.g.group_out());
  const auto pixels = static_cast<double>(plan.pixels);
  const double pixel_vectors = std::ceil(pixels / lanes);
  const double channel_vectors = std::ceil(o / lanes);
  const double by_pixels = pixel_vectors * (o * 0.5 + 2);
  const double by_channels =
      channel_vectors * pixels * 0.5 +
      std::ceil(pixels * static_cast<double>(images) / rows) / static_cast<double>(images) * 2 +
      channel_vectors * pixels * (is_amd() ? 9 : 6) / k;
  const bool far = plan.g.group_out() * plan.k * std::int64_t{sizeof(float)} > kSecondCache;
  return by_channels * (far || is_amd() ? 1.0 : 1.1) < by_pixels;
}

void pack_weights(PreparedConv& p, const TileSet& set, const float* w, int threads) {
  const ConvGeometry& g = p.plan.g;
  const std::int64_t k = p.plan.k, out = g.group_out();
  const std::int64_t group_size =
      p.channels_in_lanes ? vector_strips(out, set.lanes) * set.lanes * k : out * k;
  float* to = p.weights.at_least<float>(g.groups * group_size);
  const RowStrips strips(out, set.rows);
  for (std::int64_t group = 0; group < g.groups; ++group) {
    const MatrixView view{w + group * out * k, k, 1};
    if (p.channels_in_lanes)
      pack_vector(set, view, out, k, threads, to + group * group_size);
    else
      pack_broadcast(set, view, strips, k, threads, to + group * group_size);
  }
  p.finite_weights = true;
  for (std::int64_t i = 0; i < g.out_channels * k; ++i)
    if (!std::isfinite(w[i])) p.finite_weights = false;
  p.packed = true;
}

}  // namespace

std::shared_ptr<PreparedConv> prepare_conv(const ConvGeometry& g, const TileSet& set,
                                           bool channels_last, const float* w, int threads) {
  auto p = std::make_shared<PreparedConv>(g, set, channels_last);
  p->channels_in_lanes =
      channels_last || p->in_place.worthwhile() || p->images ||
      prefer_channels(p->plan, set.lanes, set.rows, std::max<std::int64_t>(1, g.batch));
  if (!p->channels_in_lanes && g.batch * g.out_channels * p->plan.pixels > 0)
    p->grid = pixel_grid(*p, set, p->images_at_once, threads_for(p->plan, threads));
  if (w != nullptr) pack_weights(*p, set, w, threads);
  return p;
}

namespace {

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor* w = problem.inputs[1].value;
  return prepare_conv(conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                    problem.input(1).shape),
                      *tile_set_f32(isa), false, w == nullptr ? nullptr : w->data<float>().data(),
                      threads);
}

// Channel of an image that one tap reads, [out], to `to`.
void copy_sample(const Window& window, const float* from, float* to, SplitPairs split) {
  const auto& [d, h, w] = window.axes;
  for (std::int64_t z = 0; z < d.out; ++z) {
    const float* row = from + (d.at(z, 0) * h.in + h.at(0, 0)) * w.in + w.at(0, 0);
    const std::int64_t from_row = h.stride * w.in;
    if (w.stride == 2) {
      split({.from = row,
             .from_row = from_row,
             .rows = h.out,
             .count = 2 * w.out - 1,
             .even = to,
             .to_row = w.out});
      to += h.out * w.out;
      continue;
    }
    for (std::int64_t y = 0; y < h.out; ++y, row += from_row, to += w.out)
      for (std::int64_t x = 0; x < w.out; ++x) to[x] = row[x * w.stride];
  }
}

// Whether threads take images instead of panels of channels, each of which meets the pixels that
// all threads have packed, half of them from another core. Each takes all weights then: not where
// those are more than its pixels, unless there are too few panels for the threads anyway.
bool by_images(const PreparedConv& p, int lanes, std::int64_t images, int threads) {
  const std::int64_t out = p.plan.g.out_channels;
  return p.channels_in_lanes && threads > 1 && images % threads == 0 &&
         (images / threads * p.plan.pixels >= out || out <= 2 * lanes);
}

}  // namespace

void run_prepared(const KernelCall& call, const PreparedConv& prepared, const TileSet& set,
                  const float* x, float* y) {
  const ConvPlan& plan = prepared.plan;
  const ConvGeometry& g = plan.g;
  if (g.batch == 0 || g.out_channels == 0 || plan.pixels == 0) return;
  const int threads = threads_for(plan, call.threads);
  if (prepared.images || prepared.in_place.worthwhile()) {
    const InPlaceConv::Call direct{
        .x = x,
        .weights = prepared.weights.data<float>(),
        .finite_weights = prepared.finite_weights,
        .bias = call.has(2) ? call.input(2).data<float>().data() : nullptr,
        .y = y,
        .threads = threads,
        .kernel = &call};
    return prepared.images ? prepared.images->run(direct) : prepared.in_place.run(direct);
  }
  const std::int64_t in_points = prepared.given.window.in_points();
  const std::int64_t in_size = g.in_channels * in_points;
  const bool copies = plan.copied || prepared.sampled;
  const std::int64_t images_at_once = prepared.images_at_once;
  for (std::int64_t image = 0; image < g.batch; image += images_at_once) {
    const std::int64_t images = std::min(images_at_once, g.batch - image);
    const float* source = x + image * in_size;
    PixelGrid grid;
    if (!prepared.channels_in_lanes)
      grid = prepared.grid.images == images && prepared.grid.threads == threads
                 ? prepared.grid
                 : pixel_grid(prepared, set, images, threads);
    // Elsewhere the copy of all rows comes first, in a loop of its own.
    const bool by_block = plan.copied && !prepared.sampled && !prepared.channels_in_lanes &&
                          grid.parts == 1 && plan.channel_stride == plan.plane_stride;
    if (copies && !by_block) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, images * plan.image_stride);
      // A thread copies the rows of all channels whose pixels it computes, if these are cut alike:
      // what one thread writes and another reads crosses between their caches, and back when it is
      // written again.
      const std::int64_t rows = prepared.sampled ? 1 : plan.copied_rows();
      const std::int64_t most = rows * plan.row_stride * std::int64_t{sizeof(float)} / kBandBytes;
      const std::int64_t bands = threads <= 1 || images >= threads || prepared.sampled
                                     ? 1
                                     : std::clamp<std::int64_t>(most, 1, kBandsByThread * threads);
      parallel_for(
          images * bands * g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
            const SplitPairs split = split_pairs(set.isa);
            for (std::int64_t item = begin; item < end; ++item) {
              const std::int64_t band = item / g.in_channels % bands;
              const std::int64_t i =
                  item / g.in_channels / bands * g.in_channels + item % g.in_channels;
              const float* from = source + i * in_points;
              float* to = copy + i * plan.channel_stride;
              if (prepared.sampled)
                copy_sample(prepared.given.window, from, to, split);
              else
                plan.copy_rows(from, to, band * rows / bands, (band + 1) * rows / bands, split);
            }
          });
      source = copy;
    }
    const std::int64_t of_image = g.out_channels * plan.pixels;
    const auto compute = [&](std::int64_t first, std::int64_t count, int threads_of) {
      const ConvChunk chunk{set,
                            prepared,
                            source + first * plan.image_stride,
                            count,
                            call.has(2) ? call.input(2).data<float>().data() : nullptr,
                            y + (image + first) * of_image,
                            threads_of,
                            call,
                            (image + first) * of_image,
                            grid,
                            by_block};
      prepared.channels_in_lanes ? conv_by_channels(chunk) : conv_by_pixels(chunk);
    };
    if (!by_images(prepared, set.lanes, images, threads)) {
      compute(0, images, threads);
      continue;
    }
    parallel_for(threads, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) compute(i * images / threads, images / threads, 1);
    });
  }
}

namespace {

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet& set = *tile_set_f32(isa);
  const auto* prepared = static_cast<const PreparedConv*>(call.prepared);
  std::shared_ptr<PreparedConv> fresh;
  if (prepared == nullptr || !prepared->packed) {
    fresh = prepare_conv(
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()), set,
        false, call.input(1).data<float>().data(), call.threads);
    prepared = fresh.get();
  }
  const float* x = call.input(0).data<float>().data();
  if (prepared->met.all())
    return run_prepared(call, *prepared, set, x, call.output(0).mutable_data<float>().data());
  const ConvGeometry& g = prepared->given;
  float* part =
      thread_scratch<float>(ScratchSlot::turned, g.batch * g.out_channels * g.window.out_points());
  KernelCall met = call;
  met.finished = nullptr;
  run_prepared(met, *prepared, set, x, part);
  prepared->met.place(part, call);
}

template <Isa isa>
Ending ending(const Problem& problem, const void* prepared, std::span<const PointwiseStep> steps) {
  const std::optional<UsualSteps> usual = usual_steps(steps);
  const auto* p = static_cast<const PreparedConv*>(prepared);
  if (!usual || p == nullptr || !p->packed || !p->met.all() || p->channels_in_lanes ||
      problem.input(0).shape.numel() == 0)
    return Ending::announced;
  return ending_by_pixels(*p, *tile_set_f32(isa), *usual);
}

}  // namespace

Refusal refuse_conv_seq_f32(const Problem& problem) {
  Contract c = *problem.contract;
  // With one channel or one tap every walk is the same.
  const Shape& w = problem.input(1).shape;
  if (w.rank() >= 3 && (w[1] == 1 || w.product(2, w.rank()) == 1)) c.walk = Walk{};
  if (!c.is_seq()) return "promises seq with walk=crs only";
  return refuse_unless_f32(problem);
}

template <Isa isa>
KernelRow conv_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse_conv_seq_f32,
          .run = run<isa>,
          .prepare = prepare<isa>,
          .announces = true,
          .ending = ending<isa>};
}
template KernelRow conv_f32_row<Isa::avx512>(std::string_view name);
template KernelRow conv_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
