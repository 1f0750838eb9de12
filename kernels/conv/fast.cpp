// conv, f32, contract seq, walk crs: each y[n,o,p] is one fma chain over the taps inside the input,
// k ascending (definition.h); the bias is added last.
// Loops, pixels in lanes: block of pixels, block of k (packed here), strip of channels, group of
// vectors, k. Channels in lanes: block of k, strip of channels, strip of pixels, k; for images of
// few pixels, where whole vectors of channels waste nothing.
// Same bits: each accumulator walks all of k in a register; padding is a zero that changes nothing,
// and where it could (plan.h) the outputs are computed again without it.
// Limit: two 512-bit fma a cycle; share reached, and what was tried: README.md.
#include "kernels/conv/fast.h"

#include <cmath>

#include "kernels/conv/depthwise.h"
#include "kernels/conv/in_place.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

constexpr double kSerialFlops = 4e5;
// Packed pixels that stay in the second cache while the weights pass by.
constexpr std::int64_t kBlockBytes = 768 << 10;
// Terms of the sum in one block of k: 14 rows of weights are then 36 KiB.
constexpr std::int64_t kBlockTerms = 640;
// Vectors of pixels that are announced together: of 14 channels 7 KiB, still in the first cache.
constexpr std::int64_t kAnnouncedVectors = 8;
constexpr std::int64_t kLine = 64 / sizeof(float);  // a cache line
// Weights of more bytes come from the third cache.
constexpr std::int64_t kSecondCache = 4 << 20;
// Padded copies of images that are held at a time.
constexpr std::int64_t kCopyBytes = 16 << 20;

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

struct PreparedConv {
  ConvGeometry given;
  bool sampled = false;
  ConvPlan plan;  // of the sample, where there is one
  bool channels_in_lanes = false;
  bool packed = false;  // weights below are filled
  bool finite_weights = true;
  AlignedBuffer weights;
  InPlaceConv in_place;
  PreparedConv(const ConvGeometry& g, const TileSet<float>& set)
      : given(g), sampled(is_sampled(g)), plan(sampled ? of_sample(g) : g), in_place(plan.g, set) {}
};

// Vector instructions for one k, the two ways; a packed vector costs about two, a transposed store
// of a 16 x 16 square about six for each of its vectors. Beyond that channels in lanes measured a
// tenth slower on images of 12x12 to 28x28, unless the weights come from far: they are then read
// for more pixels at a time.
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
  const bool far = plan.g.group_out() * plan.k * std::int64_t{sizeof(float)} > kSecondCache;
  return by_channels * (far ? 1.0 : 1.1) < by_pixels;
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
  const KernelCall& call;
  std::int64_t y_first;  // where y stands in the output

  // `rows` outputs of channel o on (of all groups) of an image, each at pixels [first, first +
  // count).
  void finished(std::int64_t image, std::int64_t o, std::int64_t rows, std::int64_t first,
                std::int64_t count) const {
    if (call.finished == nullptr || count == 0) return;
    const std::int64_t pixels = p.plan.pixels;
    const std::int64_t at = y_first + (image * p.plan.g.out_channels + o) * pixels + first;
    (*call.finished)({.begin = at, .count = count, .rows = rows, .stride = pixels});
  }
};

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Blocks of k, of equal length but for one: a strip of weights and the vectors it meets then stay
// in the first caches. Accumulators pass from block to block in f32, as they are.
struct KBlocks {
  std::int64_t k, count;
  explicit KBlocks(std::int64_t terms)
      : k(terms), count(std::max<std::int64_t>(1, (terms + kBlockTerms - 1) / kBlockTerms)) {}
  std::int64_t first(std::int64_t block) const { return k * block / count; }
  std::int64_t longest() const { return (k + count - 1) / count; }
};

// Outputs of one vector of pixels that are computed again, with padding masked out of the sum.
void repair_pixels(const Chunk& c, std::int64_t image, std::int64_t group, std::int64_t strip,
                   const std::vector<std::int64_t>& row_strips) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t k = plan.k, out = plan.g.group_out(), pixel = strip * set.lanes;
  const int count = static_cast<int>(std::min<std::int64_t>(set.lanes, plan.pixels - pixel));
  const RowStrips strips(out, set.rows);
  float* packed = thread_scratch<float>(ScratchSlot::tile, k * set.lanes);
  std::uint16_t* mask = thread_scratch<std::uint16_t>(ScratchSlot::masks, k);
  TapPiece pieces[kMaxPieces];
  bool touches = false;
  const int n =
      plan.pieces(c.x + image * plan.image_stride + group * plan.g.group_in() * plan.channel_stride,
                  pixel, count, pieces, touches);
  set.pack_taps(pieces, n, plan.offset.data(), k, set.lanes, packed, set.lanes);
  plan.masks(pixel, count, mask);
  for (const std::int64_t s : row_strips) {
    const int height = strips.height(s);
    const std::int64_t row = strips.first(s), o = group * out + row;
    set.masked[1][index(height)](
        {.k = k,
         .a = c.p.weights.data<float>() + (group * out + row) * k,
         .a_step = height,
         .b = packed,
         .b_step = set.lanes,
         .c = c.y + (image * plan.g.out_channels + o) * plan.pixels + pixel,
         .c_row = plan.pixels,
         .last_lanes = count,
         .row_bias = c.bias == nullptr ? nullptr : c.bias + o,
         .mask = mask});
  }
}

// Packs terms [k0, k0 + terms) of `count` vectors of pixels; whole ones side by side go together.
void pack_pixels(const Chunk& c, const float* base, std::int64_t first, std::int64_t count,
                 std::int64_t k0, std::int64_t terms, float* packed, char* border) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t* offset = plan.offset.data() + k0;
  const std::int64_t size = terms * set.lanes;
  const float* whole[kWideStrips];
  int wide = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t pixel = (first + s) * set.lanes;
    TapPiece pieces[kMaxPieces];
    bool touches = false;
    const int n = plan.pieces(
        base, pixel, static_cast<int>(std::min<std::int64_t>(set.lanes, plan.pixels - pixel)),
        pieces, touches);
    border[s] = touches;
    const bool is_whole = n == 1 && pieces[0].size == set.lanes;
    if (is_whole) whole[wide++] = pieces[0].source;
    if (wide > 0 && (!is_whole || wide == kWideStrips || s + 1 == count)) {
      const std::int64_t start = is_whole ? s + 1 - wide : s - wide;
      set.pack_taps_wide(whole, wide, offset, terms, packed + start * size, size);
      wide = 0;
    }
    if (!is_whole) set.pack_taps(pieces, n, offset, terms, set.lanes, packed + s * size, set.lanes);
  }
}

// Vectors of pixels that the tile gathers itself, [first, first + w); false where their pixels lie
// in more runs than it takes, and they were packed here.
bool gather_pixels(const Chunk& c, const float* base, std::int64_t first, int w, std::int64_t k0,
                   std::int64_t terms, float* packed, char* border, TileGather& gather) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  TapPiece pieces[kGatherVectors][kMaxPieces];
  int runs[kGatherVectors];
  bool few = true;
  for (int i = 0; i < w; ++i) {
    const std::int64_t pixel = (first + i) * set.lanes;
    bool touches = false;
    runs[i] = plan.pieces(base, pixel,
                          static_cast<int>(std::min<std::int64_t>(set.lanes, plan.pixels - pixel)),
                          pieces[i], touches);
    border[i] = touches;
    few = few && runs[i] <= kGatherRuns;
  }
  const std::int64_t* offset = plan.offset.data() + k0;
  if (!few) {
    for (int i = 0; i < w; ++i)
      set.pack_taps(pieces[i], runs[i], offset, terms, set.lanes, packed + i * terms * set.lanes,
                    set.lanes);
    return false;
  }
  for (int i = 0; i < w; ++i)
    for (int r = 0; r < kGatherRuns; ++r) {
      const TapPiece& piece = pieces[i][std::min(r, runs[i] - 1)];
      gather.source[i][r] = piece.source - piece.lane;
      gather.lanes[i][r] =
          r < runs[i] ? static_cast<std::uint16_t>(((1U << piece.size) - 1U) << piece.lane) : 0;
    }
  gather.offset = offset;
  gather.to = packed;
  return true;
}

// How the work of by_pixels is cut: blocks of pixels, and parts of the channels' strips. Threads
// that take neighbouring blocks both write the cache line where the blocks meet, in every channel:
// a line that changes hands costs more than a vector's whole sum where k is small, so images of few
// pixels are cut by channels instead. Each part packs its pixels again, in passing.
struct PixelGrid {
  std::int64_t block = 1, blocks = 1, parts = 1;
};

PixelGrid make_pixel_grid(std::int64_t outer, std::int64_t n_strips, std::int64_t most,
                          std::int64_t widest, std::int64_t k, const RowStrips& strips,
                          std::int64_t threads) {
  constexpr double kSharedLine = 200, kItem = 5000;  // cycles
  const auto cut = [](std::int64_t n, std::int64_t pieces) { return (n + pieces - 1) / pieces; };
  PixelGrid best;
  double best_cycles = -1;
  for (std::int64_t blocks = cut(n_strips, most); blocks <= cut(n_strips, widest); ++blocks) {
    PixelGrid g;
    g.block = std::min(cut(cut(n_strips, blocks), widest) * widest, n_strips);
    g.blocks = cut(n_strips, g.block);
    for (g.parts = 1; g.parts <= std::min(strips.count, 2 * threads); ++g.parts) {
      const auto rounds = static_cast<double>(cut(outer * g.blocks * g.parts, threads));
      const double rows = static_cast<double>(cut(strips.count, g.parts) * strips.rows) /
                          static_cast<double>(strips.count);
      const double cycles = rounds * (static_cast<double>(g.block * k) * (rows * 0.5 + 2) + kItem +
                                      (g.blocks > 1 && threads > 1 ? rows * kSharedLine : 0));
      if (best_cycles >= 0 && cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = g;
    }
    if (threads <= 1 || outer * g.blocks > 16 * threads) break;
  }
  return best;
}

void by_pixels(const Chunk& c) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = plan.k, out = g.group_out();
  const KBlocks k_blocks(k);
  const RowStrips strips(out, set.rows);
  const std::int64_t n_strips = vector_strips(plan.pixels, lanes);
  const int widest = widest_tile(set, strips.height(0));

  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, k_blocks.longest()) * lanes * std::int64_t{sizeof(float)};
  const std::int64_t outer = c.images * g.groups;
  const auto [block, blocks, parts] =
      make_pixel_grid(outer, n_strips, std::max<std::int64_t>(widest, kBlockBytes / strip_bytes),
                      widest, k, strips, c.threads);

  parallel_for(outer * blocks * parts, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* packed = thread_scratch<float>(ScratchSlot::vector, block * lanes * k_blocks.longest());
    std::vector<char> border(static_cast<std::size_t>(block));
    std::vector<std::vector<std::int64_t>> repairs;
    std::vector<std::pair<std::int64_t, std::int64_t>> later;  // strip, vector from which on it is
                                                               // finished when it is repaired
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t part = item % parts, b = item / parts % blocks;
      const std::int64_t group = item / parts / blocks % g.groups;
      const std::int64_t image = item / parts / blocks / g.groups;
      const std::int64_t first = b * block, count = std::min(block, n_strips - first);
      const float* x = c.x + image * plan.image_stride + group * g.group_in() * plan.channel_stride;
      const float* weights = c.p.weights.data<float>() + group * out * k;
      repairs.clear();
      later.clear();
      const std::int64_t pixel = first * lanes;
      const std::int64_t pixel_count = std::min(count * lanes, plan.pixels - pixel);
      for (std::int64_t kb = 0; kb < k_blocks.count; ++kb) {
        const std::int64_t k0 = k_blocks.first(kb), terms = k_blocks.first(kb + 1) - k0;
        const bool last_block = kb + 1 == k_blocks.count;
        // The first strip of channels packs as it goes, if its tiles are made for it.
        const std::int64_t first_strip = part * strips.count / parts;
        const std::int64_t last_strip = (part + 1) * strips.count / parts;
        const bool gathers = widest_tile(set, strips.height(first_strip)) <= kGatherVectors;
        if (!gathers) pack_pixels(c, x, first, count, k0, terms, packed, border.data());
        for (std::int64_t s = first_strip; s < last_strip; ++s) {
          const int height = strips.height(s);
          const std::int64_t row = strips.first(s), o = group * out + row;
          float* y = c.y + (image * g.out_channels + o) * plan.pixels;
          TileCall<float> t{.k = terms,
                            .a = weights + row * k + k0 * height,
                            .a_step = height,
                            .b_strip = terms * lanes,
                            .b_step = lanes,
                            .c_row = plan.pixels,
                            .resume = kb > 0,
                            .row_bias = c.bias == nullptr || !last_block ? nullptr : c.bias + o};
          const int most = widest_tile(set, height);
          bool repaired = false;
          std::int64_t announced = 0;  // vectors
          for (std::int64_t v = 0; v < count;) {
            const int w = static_cast<int>(std::min<std::int64_t>(most, count - v));
            TileGather gather;
            t.gather = nullptr;
            if (gathers && s == first_strip &&
                gather_pixels(c, x, first + v, w, k0, terms, packed + v * terms * lanes,
                              border.data() + v, gather))
              t.gather = &gather;
            bool touches = false;
            if (last_block && plan.padded)
              for (int i = 0; i < w; ++i)
                touches = touches || border[static_cast<std::size_t>(v + i)] != 0;
            t.b = packed + v * terms * lanes;
            t.c = y + (first + v) * lanes;
            t.last_lanes = static_cast<int>(
                std::min<std::int64_t>(lanes, plan.pixels - (first + v + w - 1) * lanes));
            t.report_zero = touches;
            // Weights of the strip to come, a share by each tile of this one.
            t.next_step = 0;
            if (s + 1 < last_strip) {
              const std::int64_t share = v / most * terms * kLine;
              t.next = weights + strips.first(s + 1) * k + k0 * strips.height(s + 1) + share;
              if (share < terms * strips.height(s + 1)) t.next_step = kLine;
            }
            const TileFn<float> tile = t.gather != nullptr ? set.gathering[index(w)][index(height)]
                                                           : set.plain[index(w)][index(height)];
            const bool zero = tile(t) != 0;
            if (touches && (zero || !c.p.finite_weights)) {
              repaired = true;
              repairs.resize(static_cast<std::size_t>(count));
              for (int i = 0; i < w; ++i)
                if (border[static_cast<std::size_t>(v + i)] != 0)
                  repairs[static_cast<std::size_t>(v + i)].push_back(s);
            }
            v += w;
            if (!last_block || repaired || (v < count && v - announced < kAnnouncedVectors))
              continue;
            c.finished(image, o, height, pixel + announced * lanes,
                       std::min(pixel_count, v * lanes) - announced * lanes);
            announced = v;
          }
          if (last_block && repaired) later.emplace_back(s, announced);
        }
      }
      for (std::size_t v = 0; v < repairs.size(); ++v)
        if (!repairs[v].empty())
          repair_pixels(c, image, group, first + static_cast<std::int64_t>(v), repairs[v]);
      for (const auto& [s, v] : later)
        c.finished(image, group * out + strips.first(s), strips.height(s), pixel + v * lanes,
                   pixel_count - v * lanes);
    }
  });
}

// The outputs of one pixel in a panel of channels, with padding masked out of the sum.
void repair_channels(const Chunk& c, std::int64_t group, std::int64_t pixel, std::int64_t strip,
                     int w, TileCall<float> t, float* to) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t k = plan.k;
  float* taps = thread_scratch<float>(ScratchSlot::norms, k + set.lanes);
  std::uint16_t* mask = thread_scratch<std::uint16_t>(ScratchSlot::masks, k);
  TapPiece piece[kMaxPieces];
  bool touches = false;
  const int n =
      plan.pieces(c.x + group * plan.g.group_in() * plan.channel_stride, pixel, 1, piece, touches);
  set.pack_taps(piece, n, plan.offset.data(), k, 1, taps, 1);
  plan.masks(pixel, 1, mask);
  for (std::int64_t i = 0; i < k; ++i) mask[i] = mask[i] != 0 ? 0xffff : 0;
  t.k = k;
  t.a = taps;
  t.a_step = 1;
  t.b = c.p.weights.data<float>() +
        (group * vector_strips(plan.g.group_out(), set.lanes) + strip) * set.lanes * k;
  t.c = to;
  t.resume = false;
  t.report_zero = false;
  t.mask = mask;
  set.masked[index(w)][1](t);
}

void by_channels(const Chunk& c) {
  const TileSet<float>& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = plan.k, out = g.group_out();
  const KBlocks k_blocks(k);
  const RowStrips pixels(c.images * plan.pixels, set.rows);
  const std::int64_t o_strips = vector_strips(out, lanes);
  constexpr int kWide = 2;
  const std::int64_t panels = (o_strips + kWide - 1) / kWide;
  const std::int64_t row = kWide * lanes;  // elements of a tile's row
  const std::int64_t strip_bytes =
      std::max<std::int64_t>(1, k_blocks.longest()) * set.rows * std::int64_t{sizeof(float)};
  const std::int64_t block =
      std::min(pixels.count, std::max<std::int64_t>(4, kBlockBytes / strip_bytes));

  std::vector<char> border(static_cast<std::size_t>(block));
  float* packed =
      thread_scratch<float>(ScratchSlot::broadcast, block * set.rows * k_blocks.longest());
  // Running sums of every panel, [panel][pixel][row], where k is cut.
  float* carried = k_blocks.count == 1 ? nullptr
                                       : thread_scratch<float>(ScratchSlot::vector,
                                                               panels * block * set.rows * row);
  for (std::int64_t group = 0; group < g.groups; ++group)
    for (std::int64_t first = 0; first < pixels.count; first += block) {
      const std::int64_t count = std::min(block, pixels.count - first);
      const std::int64_t origin = pixels.first(first);
      const float* x = c.x + group * g.group_in() * plan.channel_stride;
      for (std::int64_t kb = 0; kb < k_blocks.count; ++kb) {
        const std::int64_t k0 = k_blocks.first(kb), terms = k_blocks.first(kb + 1) - k0;
        const bool last_block = kb + 1 == k_blocks.count;
        parallel_for(count, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t s = begin; s < end; ++s) {
            const std::int64_t pixel = pixels.first(first + s);
            const int height = pixels.height(first + s);
            TapPiece pieces[kMaxPieces];
            bool touches = false;
            const int n = plan.pieces(x, pixel, height, pieces, touches);
            border[static_cast<std::size_t>(s)] = touches;
            set.pack_taps(pieces, n, plan.offset.data() + k0, terms, height,
                          packed + (pixel - origin) * terms, height);
          }
        });
        // With few panels the strips of pixels are cut as well, so that every thread has work.
        const std::int64_t wanted = c.threads <= 1 ? 1 : c.threads * 4L;
        const std::int64_t parts =
            std::min(count, std::max<std::int64_t>(1, (wanted + panels - 1) / panels));
        parallel_for(panels * parts, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
          float* own = thread_scratch<float>(ScratchSlot::tile, set.rows * row);
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
              float* square = carried == nullptr
                                  ? own
                                  : carried + (panel * block * set.rows + pixel - origin) * row;
              TileCall<float> t{
                  .k = terms,
                  .a = packed + (pixel - origin) * terms,
                  .a_step = height,
                  .b = c.p.weights.data<float>() + (group * o_strips + strip) * lanes * k +
                       k0 * lanes,
                  .b_strip = k * lanes,
                  .b_step = lanes,
                  .c = square,
                  .c_row = row,
                  .last_lanes = last_lanes,
                  .resume = kb > 0,
                  .lane_bias =
                      c.bias == nullptr || !last_block ? nullptr : c.bias + group * out + o,
                  .report_zero = last_block && border[static_cast<std::size_t>(s)] != 0};
              // The panel to come, a vector by each of the first tiles of this one.
              if (const std::int64_t turn = s - part * count / parts;
                  turn < kWide && strip + kWide + turn < o_strips) {
                t.next = t.b + (kWide + turn) * t.b_strip;
                t.next_step = kLine;
              }
              std::uint32_t again = set.plain[index(w)][index(height)](t);
              if (!last_block) continue;
              if (t.report_zero && !c.p.finite_weights) again = (1U << height) - 1U;
              for (int r = 0; again >> r != 0; ++r)
                if ((again >> r & 1U) != 0)
                  repair_channels(c, group, pixel + r, strip, w, t, square + r * row);
              // Rows of the tile are pixels: columns of y. A strip may cross images.
              for (int r = 0; r < height;) {
                const std::int64_t q = (pixel + r) % plan.pixels, image = (pixel + r) / plan.pixels;
                const int run =
                    static_cast<int>(std::min<std::int64_t>(height - r, plan.pixels - q));
                const std::int64_t at =
                    (image * g.out_channels + group * out + o) * plan.pixels + q;
                for (int v = 0; v < w; ++v)
                  set.store_transposed(square + r * row + v * lanes, row, run,
                                       v == w - 1 ? last_lanes : lanes,
                                       c.y + at + v * lanes * plan.pixels, plan.pixels);
                r += run;
              }
            }
            if (!last_block) continue;
            const std::int64_t stop = pixels.first(first + (part + 1) * count / parts);
            for (std::int64_t q = pixels.first(first + part * count / parts); q < stop;) {
              const std::int64_t image = q / plan.pixels, at = q % plan.pixels;
              const std::int64_t run = std::min(stop - q, plan.pixels - at);
              c.finished(image, group * out + o, (w - 1) * lanes + last_lanes, at, run);
              q += run;
            }
          }
        });
      }
    }
}

template <Isa isa>
std::shared_ptr<PreparedConv> make_plan(const ConvGeometry& g) {
  const TileSet<float>& set = *tile_set_f32(isa);
  auto p = std::make_shared<PreparedConv>(g, set);
  p->channels_in_lanes =
      p->in_place.worthwhile() ||
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

using Split = void (*)(const PairRows&);

// Channel of an image that one tap reads, [out], to `to`.
void copy_sample(const Window& window, const float* from, float* to, Split split) {
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
  if (prepared->in_place.worthwhile())
    return prepared->in_place.run(
        {.x = x,
         .weights = prepared->weights.data<float>(),
         .finite_weights = prepared->finite_weights,
         .bias = call.has(2) ? call.input(2).data<float>().data() : nullptr,
         .y = y,
         .threads = threads,
         .kernel = &call});
  const std::int64_t in_points = prepared->given.window.in_points();
  const std::int64_t in_size = g.in_channels * in_points;
  const bool copies = plan.copied || prepared->sampled;
  const std::int64_t images_at_once =
      copies ? std::clamp<std::int64_t>(
                   kCopyBytes /
                       std::max<std::int64_t>(1, plan.image_stride * std::int64_t{sizeof(float)}),
                   1, g.batch)
             : g.batch;
  for (std::int64_t image = 0; image < g.batch; image += images_at_once) {
    const std::int64_t images = std::min(images_at_once, g.batch - image);
    const float* source = x + image * in_size;
    if (copies) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, images * plan.image_stride);
      parallel_for(images * g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        constexpr Split kSplit = isa >= Isa::avx512 ? avx512::split_pairs : avx2::split_pairs;
        for (std::int64_t i = begin; i < end; ++i)
          if (prepared->sampled)
            copy_sample(prepared->given.window, source + i * in_points,
                        copy + i * plan.channel_stride, kSplit);
          else
            plan.copy_channel(source + i * in_points, copy + i * plan.channel_stride, kSplit);
      });
      source = copy;
    }
    const Chunk chunk{set,
                      *prepared,
                      source,
                      images,
                      call.has(2) ? call.input(2).data<float>().data() : nullptr,
                      y + image * g.out_channels * plan.pixels,
                      threads,
                      call,
                      image * g.out_channels * plan.pixels};
    prepared->channels_in_lanes ? by_channels(chunk) : by_pixels(chunk);
  }
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
          .announces = true};
}
template KernelRow conv_f32_row<Isa::avx512>(std::string_view name);
template KernelRow conv_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
