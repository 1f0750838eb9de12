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
      steps((plan.k + set.terms - 1) / set.terms),
      words(set.terms > 1),
      channels_last(last),
      in_place(plan.g, set, last) {
  if (words) {
    // An odd k ends on a word whose other term is zero times what is there.
    if (plan.k % 2 != 0)
      plan.offset[static_cast<std::size_t>(plan.k)] =
          plan.offset[static_cast<std::size_t>(plan.k - 1)];
    return;
  }
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
bool prefer_channels(const ConvPlan& plan, int lanes, int rows) {
  const double k = static_cast<double>(std::max<std::int64_t>(1, plan.k));
  const auto images = static_cast<double>(std::max<std::int64_t>(1, plan.g.batch));
  const auto o = static_cast<double>(plan.g.group_out());
  const auto pixels = static_cast<double>(plan.pixels);
  const double pixel_vectors = std::ceil(pixels / lanes);
  const double channel_vectors = std::ceil(o / lanes);
  const double by_pixels = pixel_vectors * (o * 0.5 + 2);
  const double by_channels = channel_vectors * pixels * 0.5 +
                             std::ceil(pixels * images / rows) / images * 2 +
                             channel_vectors * pixels * (is_amd() ? 9 : 6) / k;
  const bool far = plan.g.group_out() * plan.k * std::int64_t{sizeof(float)} > kSecondCache;
  return by_channels * (far || is_amd() ? 1.0 : 1.1) < by_pixels;
}

void pack_weights(PreparedConv& p, const TileSet& set, const float* w, int threads) {
  const ConvGeometry& g = p.plan.g;
  const std::int64_t k = p.steps, out = g.group_out();
  const std::int64_t group_size =
      p.channels_in_lanes ? vector_strips(out, set.lanes) * set.lanes * k : out * k;
  float* to = p.weights.at_least<float>(g.groups * group_size);
  for (std::int64_t group = 0; group < g.groups; ++group) {
    const MatrixView view{w + group * out * k, k, 1};
    if (p.channels_in_lanes)
      pack_vector(set, view, out, k, threads, to + group * group_size);
    else
      pack_broadcast(set, view, p.strips, k, threads, to + group * group_size);
  }
  p.finite_weights = true;  // words are
  for (std::int64_t i = 0; !p.words && i < g.out_channels * k; ++i)
    if (!std::isfinite(w[i])) p.finite_weights = false;
  p.packed = true;
}

WorkGrid work_grid(const PreparedConv& p, const TileSet& set, int threads) {
  return p.channels_in_lanes ? channel_grid(p, set, threads) : pixel_grid(p, set, threads);
}

}  // namespace

std::shared_ptr<PreparedConv> prepare_conv(const ConvGeometry& g, const TileSet& set,
                                           bool channels_last, const float* w, int threads) {
  auto p = std::make_shared<PreparedConv>(g, set, channels_last);
  p->channels_in_lanes = !p->words && (channels_last || p->in_place.worthwhile() || p->images ||
                                       prefer_channels(p->plan, set.lanes, set.rows));
  if (!p->goes_in_place() && !p->images && g.batch * g.out_channels * p->plan.pixels > 0)
    p->grid = work_grid(*p, set, threads_for(p->plan, threads));
  if (!p->channels_in_lanes) p->strips = RowStrips(g.group_out(), set.rows, p->grid.parts);
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

// Of a channel of an image that one tap reads, [out] at `to`: the rows of pixels [first, end).
void copy_sample(const Window& window, const float* from, float* to, std::int64_t first,
                 std::int64_t end, SplitPairs split) {
  const auto& [d, h, w] = window.axes;
  const std::int64_t end_row = (end - 1) / w.out + 1, from_row = h.stride * w.in;
  for (std::int64_t row = first / w.out, rows; row < end_row; row += rows) {
    rows = std::min(end_row, (row / h.out + 1) * h.out) - row;  // of one plane
    const float* source =
        from + (d.at(row / h.out, 0) * h.in + h.at(row % h.out, 0)) * w.in + w.at(0, 0);
    float* at = to + row * w.out;
    if (w.stride == 2) {
      split({.from = source,
             .from_row = from_row,
             .rows = rows,
             .count = 2 * w.out - 1,
             .even = at,
             .to_row = w.out});
      continue;
    }
    for (std::int64_t y = 0; y < rows; ++y, source += from_row, at += w.out)
      for (std::int64_t x = 0; x < w.out; ++x) at[x] = source[x * w.stride];
  }
}

}  // namespace

PixelsRead pixels_read(const ConvRun& c, std::int64_t group, std::int64_t first, std::int64_t end) {
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const std::int64_t image = first / plan.pixels, last_image = (end - 1) / plan.pixels;
  const std::int64_t channel = group * g.group_in();
  if (!c.p.copies())
    return {c.x + image * plan.image_stride + channel * plan.channel_stride, image};
  float* copy =
      thread_scratch<float>(ScratchSlot::padded, (last_image - image) * plan.image_stride +
                                                     g.group_in() * plan.channel_stride);
  const std::int64_t points = c.p.given.window.in_points();
  const SplitPairs split = split_pairs(c.set.isa);
  for (std::int64_t i = image; i <= last_image; ++i) {
    const std::int64_t from = i == image ? first % plan.pixels : 0;
    const std::int64_t to = i == last_image ? (end - 1) % plan.pixels + 1 : plan.pixels;
    const ConvPlan::Rows rows = plan.rows_of(from, to);
    const float* x = c.x + (i * g.in_channels + channel) * points;
    float* at = copy + (i - image) * plan.image_stride;
    for (std::int64_t n = 0; n < g.group_in(); ++n, x += points, at += plan.channel_stride)
      if (c.p.sampled)
        copy_sample(c.p.given.window, x, at, from, to, split);
      else
        plan.copy_rows(x, at, rows, split);
  }
  return {copy, image};
}

void run_prepared(const KernelCall& call, const PreparedConv& prepared, const TileSet& set,
                  const float* x, float* y) {
  const ConvPlan& plan = prepared.plan;
  const ConvGeometry& g = plan.g;
  if (g.batch == 0 || g.out_channels == 0 || plan.pixels == 0) return;
  const int threads = threads_for(plan, call.threads);
  if (prepared.images || prepared.goes_in_place()) {
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
  const ConvRun run{
      set, prepared,
      x,   call.has(2) ? call.input(2).data<float>().data() : nullptr,
      y,   prepared.grid.threads == threads ? prepared.grid : work_grid(prepared, set, threads),
      call};
  prepared.channels_in_lanes ? conv_by_channels(run) : conv_by_pixels(run);
}

void run_conv(const KernelCall& call, const PreparedConv& prepared, const TileSet& set) {
  const float* x = call.input(0).data<float>().data();
  if (prepared.met.all())
    return run_prepared(call, prepared, set, x, call.output(0).mutable_data<float>().data());
  const ConvGeometry& g = prepared.given;
  float* part =
      thread_scratch<float>(ScratchSlot::turned, g.batch * g.out_channels * g.window.out_points());
  KernelCall met = call;
  met.finished = nullptr;
  run_prepared(met, prepared, set, x, part);
  prepared.met.place(part, call);
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
  run_conv(call, *prepared, set);
}

template <Isa isa>
Ending ending(const Problem& problem, const void* prepared, std::span<const PointwiseStep> steps) {
  const std::optional<UsualSteps> usual = usual_steps(steps);
  const auto* p = static_cast<const PreparedConv*>(prepared);
  if (!usual || p == nullptr || !p->packed || !p->met.all() || p->channels_in_lanes ||
      problem.input(0).shape.numel() == 0)
    return Ending::announced;
  return ending_by_pixels(*p, *usual);
}

}  // namespace

Refusal refuse_conv_seq(const Problem& problem) {
  Contract c = *problem.contract;
  // With one channel or one tap every walk is the same.
  const Shape& w = problem.input(1).shape;
  if (w.rank() >= 3 && (w[1] == 1 || w.product(2, w.rank()) == 1)) c.walk = Walk{};
  if (!c.is_seq()) return "promises seq with walk=crs only";
  return std::nullopt;
}
Refusal refuse_conv_seq_f32(const Problem& problem) {
  if (Refusal r = refuse_conv_seq(problem)) return r;
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
