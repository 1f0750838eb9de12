// conv, f32, contract seq, walk crs: each y[n,o,p] is one fma chain over the taps inside the input,
// k ascending (definition.h); the bias is added last.
// Loops, pixels in lanes: block of pixels (packed once), strip of channels, group of vectors, k.
// Loops, channels in lanes: strip of channels, strip of pixels, k; for images of few pixels, where
// whole vectors of channels waste nothing.
// Same bits: each accumulator walks all of k in a register; padding is a zero that changes nothing,
// and where it could (plan.h) the outputs are computed again without it.
// Limit: two 512-bit fma a cycle; share reached, and what was tried: README.md.
#include "kernels/conv/fast.h"

#include <cmath>

#include "kernels/conv/plan.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

constexpr double kSerialFlops = 4e5;
// Packed pixels that stay in the second cache while the weights pass by.
constexpr std::int64_t kBlockBytes = 768 << 10;
constexpr std::int64_t kPixelStripBytes = 1 << 20;
// Padded copies of images that are held at a time.
constexpr std::int64_t kCopyBytes = 16 << 20;

struct PreparedConv {
  ConvPlan plan;
  bool channels_in_lanes = false;
  bool packed = false;  // weights below are filled
  bool finite_weights = true;
  AlignedBuffer weights;
  explicit PreparedConv(const ConvGeometry& g) : plan(g) {}
};

// Vector instructions for one k, the two ways; a packed vector costs about two, a transposed store
// of a 16 x 16 square about six for each of its vectors.
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
      channel_vectors * pixels * 6 / k;
  return by_channels < by_pixels;
}

void pack_weights(PreparedConv& p, const TileSet<float>& set, const float* w, int threads) {
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

// One run of images that are computed together.
struct Chunk {
  const TileSet<float>& set;
  const PreparedConv& p;
  const float* x;  // first image, as the plan reads it
  std::int64_t images;
  const float* bias;
  float* y;  // first image
  int threads;
};

std::size_t index(int i) { return static_cast<std::size_t>(i); }

void by_pixels(const Chunk& c) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = plan.k, out = g.group_out();
  const RowStrips strips(out, set.rows);
  const std::int64_t n_strips = vector_strips(plan.pixels, lanes);
  const int widest = widest_tile(set, static_cast<int>(std::min<std::int64_t>(out, set.rows)));

  std::int64_t block = std::max<std::int64_t>(
      widest, kBlockBytes / std::max<std::int64_t>(1, k * lanes * std::int64_t{sizeof(float)}));
  const std::int64_t wanted = c.threads <= 1 ? 1 : c.threads * 4L;
  const std::int64_t outer = c.images * g.groups;
  if (outer * ((n_strips + block - 1) / block) < wanted)
    block = std::max<std::int64_t>(widest, (n_strips * outer + wanted - 1) / wanted);
  block = std::min((block + widest - 1) / widest * widest, n_strips);
  const std::int64_t blocks = (n_strips + block - 1) / block;
  const std::int64_t parts =
      outer * blocks >= c.threads ? 1 : std::min<std::int64_t>(strips.count, c.threads);

  parallel_for(outer * blocks * parts, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* packed = thread_scratch<float>(ScratchSlot::vector, block * lanes * k);
    std::int64_t packed_item = -1;
    std::vector<char> border(static_cast<std::size_t>(block));
    std::vector<std::uint16_t> mask;  // [strip][k], made when first needed
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t part = item % parts, b = item / parts % blocks;
      const std::int64_t group = item / parts / blocks % g.groups;
      const std::int64_t image = item / parts / blocks / g.groups;
      const std::int64_t first = b * block, count = std::min(block, n_strips - first);
      if (packed_item != item / parts) {
        packed_item = item / parts;
        mask.clear();
        const float* base =
            c.x + image * plan.image_stride + group * g.group_in() * plan.channel_stride;
        for (std::int64_t s = 0; s < count; ++s) {
          const std::int64_t pixel = (first + s) * lanes;
          TapPiece pieces[kMaxPieces];
          bool touches = false;
          const int n = plan.pieces(
              base, pixel, static_cast<int>(std::min<std::int64_t>(lanes, plan.pixels - pixel)),
              pieces, touches);
          border[static_cast<std::size_t>(s)] = touches;
          set.pack_taps(pieces, n, plan.offset.data(), k, lanes, packed + s * lanes * k, lanes);
        }
      }
      const auto make_masks = [&] {
        mask.resize(static_cast<std::size_t>(count * k));
        for (std::int64_t s = 0; s < count; ++s) {
          const std::int64_t pixel = (first + s) * lanes;
          plan.masks(pixel, static_cast<int>(std::min<std::int64_t>(lanes, plan.pixels - pixel)),
                     mask.data() + s * k);
        }
      };
      const float* weights = c.p.weights.data<float>() + group * out * k;
      for (std::int64_t s = part * strips.count / parts; s < (part + 1) * strips.count / parts;
           ++s) {
        const int height = strips.height(s);
        const std::int64_t row = strips.first(s);
        const std::int64_t o = group * out + row;
        float* y = c.y + (image * g.out_channels + o) * plan.pixels;
        TileCall<float> t{.k = k,
                          .a = weights + row * k,
                          .a_step = height,
                          .b_strip = k * lanes,
                          .b_step = lanes,
                          .c_row = plan.pixels,
                          .row_bias = c.bias == nullptr ? nullptr : c.bias + o};
        const int most = widest_tile(set, height);
        for (std::int64_t v = 0; v < count;) {
          const int w = static_cast<int>(std::min<std::int64_t>(most, count - v));
          const auto place = [&](std::int64_t at, int vectors) {
            t.b = packed + at * k * lanes;
            t.c = y + (first + at) * lanes;
            t.last_lanes = static_cast<int>(
                std::min<std::int64_t>(lanes, plan.pixels - (first + at + vectors - 1) * lanes));
          };
          bool touches = false;
          for (int i = 0; i < w; ++i) touches = touches || border[static_cast<std::size_t>(v + i)];
          bool again = touches && !c.p.finite_weights;
          if (!again) {
            place(v, w);
            t.report_zero = touches;
            again = set.plain[index(w)][index(height)](t) != 0;
          }
          if (again) {
            if (mask.empty()) make_masks();
            t.report_zero = false;
            t.mask_strip = k;
            for (int i = 0; i < w; i += 2) {
              const int vectors = std::min(2, w - i);
              place(v + i, vectors);
              t.mask = mask.data() + (v + i) * k;
              set.masked[index(vectors)][index(height)](t);
            }
          }
          v += w;
        }
      }
    }
  });
}

void by_channels(const Chunk& c) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = plan.k, out = g.group_out();
  const std::int64_t all_pixels = c.images * plan.pixels;
  const RowStrips pixels(all_pixels, set.rows);
  const std::int64_t o_strips = vector_strips(out, lanes);
  constexpr int kWide = 2;
  const std::int64_t panels = (o_strips + kWide - 1) / kWide;
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, k * set.rows * std::int64_t{sizeof(float)});
  const std::int64_t block =
      std::min(pixels.count, std::max<std::int64_t>(4, kPixelStripBytes / strip_bytes));

  std::vector<char> border(static_cast<std::size_t>(block));
  // A whole vector is written behind the last step of a strip.
  float* packed = thread_scratch<float>(ScratchSlot::broadcast, (block * set.rows * k) + lanes);
  for (std::int64_t group = 0; group < g.groups; ++group)
    for (std::int64_t first = 0; first < pixels.count; first += block) {
      const std::int64_t count = std::min(block, pixels.count - first);
      const std::int64_t origin = pixels.first(first);
      parallel_for(count, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t s = begin; s < end; ++s) {
          const std::int64_t pixel = pixels.first(first + s);
          const int height = pixels.height(first + s);
          TapPiece pieces[kMaxPieces];
          bool touches = false;
          const int n = plan.pieces(c.x + group * g.group_in() * plan.channel_stride, pixel, height,
                                    pieces, touches);
          border[static_cast<std::size_t>(s)] = touches;
          set.pack_taps(pieces, n, plan.offset.data(), k, height, packed + (pixel - origin) * k,
                        height);
        }
      });
      // With few panels the strips of pixels are cut as well, so that every thread has work.
      const std::int64_t wanted = c.threads <= 1 ? 1 : c.threads * 4L;
      const std::int64_t parts =
          std::min(count, std::max<std::int64_t>(1, (wanted + panels - 1) / panels));
      parallel_for(panels * parts, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        float* square = thread_scratch<float>(ScratchSlot::tile, kMaxTileRows * kWide * lanes);
        std::vector<std::uint16_t> mask;
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t panel = item / parts, part = item % parts;
          const std::int64_t strip = panel * kWide;
          const int w = static_cast<int>(std::min<std::int64_t>(kWide, o_strips - strip));
          const std::int64_t o = strip * lanes;
          const int last_lanes =
              static_cast<int>(std::min<std::int64_t>(lanes, out - o - (w - 1) * lanes));
          for (std::int64_t s = part * count / parts; s < (part + 1) * count / parts; ++s) {
            const std::int64_t pixel = pixels.first(first + s);
            const int height = pixels.height(first + s);
            TileCall<float> t{
                .k = k,
                .a = packed + (pixel - origin) * k,
                .a_step = height,
                .b = c.p.weights.data<float>() + (group * o_strips + strip) * lanes * k,
                .b_strip = k * lanes,
                .b_step = lanes,
                .c = square,
                .c_row = w * lanes,
                .last_lanes = last_lanes,
                .lane_bias = c.bias == nullptr ? nullptr : c.bias + group * out + o,
                .report_zero = border[static_cast<std::size_t>(s)] != 0};
            std::uint32_t again = set.plain[index(w)][index(height)](t);
            if (t.report_zero && !c.p.finite_weights) again = (1U << height) - 1U;
            t.report_zero = false;
            for (int r = 0; again >> r != 0; ++r) {
              if ((again >> r & 1U) == 0) continue;
              mask.resize(static_cast<std::size_t>(k));
              plan.masks(pixel + r, 1, mask.data());
              for (std::uint16_t& m : mask) m = m != 0 ? 0xffff : 0;
              TileCall<float> one = t;
              one.a = t.a + r;
              one.c = square + r * t.c_row;
              one.mask = mask.data();
              set.masked[index(w)][1](one);
            }
            // Rows of the tile are pixels: columns of y. A strip may cross images.
            for (int r = 0; r < height;) {
              const std::int64_t q = (pixel + r) % plan.pixels, image = (pixel + r) / plan.pixels;
              const int run = static_cast<int>(std::min<std::int64_t>(height - r, plan.pixels - q));
              for (int v = 0; v < w; ++v)
                for (int done = 0; done < run; done += lanes)
                  set.store_transposed(
                      square + (r + done) * t.c_row + v * lanes, t.c_row,
                      std::min(lanes, run - done), v == w - 1 ? last_lanes : lanes,
                      c.y + (image * g.out_channels + group * out + o + v * lanes) * plan.pixels +
                          q + done,
                      plan.pixels);
              r += run;
            }
          }
        }
      });
    }
}

template <Isa isa>
std::shared_ptr<PreparedConv> make_plan(const ConvGeometry& g) {
  const TileSet<float>& set = *tile_set_f32(isa);
  auto p = std::make_shared<PreparedConv>(g);
  p->channels_in_lanes =
      prefer_channels(p->plan, set.lanes, set.rows, std::max<std::int64_t>(1, g.batch));
  return p;
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  auto p = make_plan<isa>(conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                        problem.input(1).shape));
  if (const Tensor* w = problem.inputs[1].value)
    pack_weights(*p, *tile_set_f32(isa), w->data<float>().data(), threads);
  return p;
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet<float>& set = *tile_set_f32(isa);
  const auto* prepared = static_cast<const PreparedConv*>(call.prepared);
  std::shared_ptr<PreparedConv> fresh;
  if (prepared == nullptr || !prepared->packed) {
    fresh = make_plan<isa>(
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()));
    pack_weights(*fresh, set, call.input(1).data<float>().data(), call.threads);
    prepared = fresh.get();
  }
  const ConvPlan& plan = prepared->plan;
  const ConvGeometry& g = plan.g;
  if (g.batch == 0 || g.out_channels == 0 || plan.pixels == 0) return;
  const double flops = 2.0 * static_cast<double>(g.batch * g.out_channels * plan.pixels) *
                       static_cast<double>(plan.k);
  const int threads = flops < kSerialFlops ? 1 : call.threads;
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t in_size = g.in_channels * g.window.in_points();
  const std::int64_t images_at_once =
      plan.copied ? std::clamp<std::int64_t>(
                        kCopyBytes / std::max<std::int64_t>(
                                         1, plan.image_stride * std::int64_t{sizeof(float)}),
                        1, g.batch)
                  : g.batch;
  for (std::int64_t image = 0; image < g.batch; image += images_at_once) {
    const std::int64_t images = std::min(images_at_once, g.batch - image);
    const float* source = x + image * in_size;
    if (plan.copied) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, images * plan.image_stride);
      parallel_for(images * g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          plan.copy_channel(source + i * g.window.in_points(), copy + i * plan.channel_stride);
      });
      source = copy;
    }
    const Chunk chunk{set,
                      *prepared,
                      source,
                      images,
                      call.has(2) ? call.input(2).data<float>().data() : nullptr,
                      y + image * g.out_channels * plan.pixels,
                      threads};
    prepared->channels_in_lanes ? by_channels(chunk) : by_pixels(chunk);
  }
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  // With one channel or one tap every walk is the same.
  const Shape& w = problem.input(1).shape;
  if (w.rank() >= 3 && (w[1] == 1 || w.product(2, w.rank()) == 1)) c.walk = Walk{};
  if (!c.is_seq()) return "promises seq with walk=crs only";
  return refuse_unless_f32(problem);
}

}  // namespace

template <Isa isa>
KernelRow conv_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow conv_f32_row<Isa::avx512>(std::string_view name);
template KernelRow conv_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
