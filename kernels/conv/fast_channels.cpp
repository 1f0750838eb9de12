// conv, f32, contract seq, a vector of channels at a time (fast.cpp), for images of few pixels;
// what a tile leaves, a row for each pixel, is transposed into y.
#include "kernels/conv/fast_chunk.h"

namespace etalon {
namespace {

// The outputs of one pixel in a panel of channels, with padding masked out of the sum.
void repair_channels(const ConvRun& c, const PixelsRead& x, std::int64_t group, std::int64_t pixel,
                     std::int64_t strip, int w, TileCall t, float* to) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t k = plan.k;
  float* taps = thread_scratch<float>(ScratchSlot::norms, k + set.lanes);
  std::uint16_t* mask = thread_scratch<std::uint16_t>(ScratchSlot::masks, k);
  TapPiece piece[kMaxPieces];
  bool touches = false;
  const int n = plan.pieces(x.base, pixel - x.image * plan.pixels, 1, piece, touches);
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
  set.masked[tile_index(w)][1](t);
}

constexpr int kWide = 2;  // vectors of channels of a panel

// What one item of the work computes: panels of channels over strips of pixels that stay packed in
// the second cache, as many of each as there are.
struct Item {
  std::int64_t group, first_panel, panels, first_strip, strips;
};

// A tile's sums, a row for each pixel, into columns of y. They may cross images.
void turn_to_columns(const ConvRun& c, const float* sums, std::int64_t pixel, int height,
                     std::int64_t channel, int vectors, int last_lanes) {
  const TileSet& set = c.set;
  const std::int64_t pixels = c.p.plan.pixels;
  for (int r = 0; r < height;) {
    const std::int64_t q = (pixel + r) % pixels, image = (pixel + r) / pixels;
    const int run = static_cast<int>(std::min<std::int64_t>(height - r, pixels - q));
    const std::int64_t at = (image * c.p.plan.g.out_channels + channel) * pixels + q;
    for (int v = 0; v < vectors; ++v)
      set.store_transposed(sums + (r * kWide + v) * set.lanes, kWide * set.lanes, run,
                           v == vectors - 1 ? last_lanes : set.lanes,
                           c.y + at + v * set.lanes * pixels, pixels);
    r += run;
  }
}

void announce(const ConvRun& c, std::int64_t channel, std::int64_t count, std::int64_t first,
              std::int64_t end) {
  if (c.p.channels_last) return c.finished_last(channel, count, first, end - first);
  const std::int64_t pixels = c.p.plan.pixels;
  for (std::int64_t q = first; q < end;) {
    const std::int64_t run = std::min(end - q, pixels - q % pixels);
    c.finished(q / pixels, channel, count, q % pixels, run);
    q += run;
  }
}

void run_item(const ConvRun& c, const RowStrips& pixels, const Item& item) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = plan.k, out = g.group_out(), row = kWide * lanes;
  const KBlocks k_blocks(k);
  const std::int64_t o_strips = vector_strips(out, lanes);
  const std::int64_t origin = pixels.first(item.first_strip);
  const std::int64_t all = pixels.first(item.first_strip + item.strips) - origin;
  const PixelsRead x = pixels_read(c, item.group, origin, origin + all);

  std::vector<char> border(static_cast<std::size_t>(item.strips));
  float* packed = thread_scratch<float>(ScratchSlot::broadcast, all * k_blocks.longest());
  // Running sums of every panel, [panel][pixel][row], where k is cut; else of one tile.
  const bool carries = k_blocks.count > 1;
  float* sums = thread_scratch<float>(carries ? ScratchSlot::vector : ScratchSlot::tile,
                                      carries ? item.panels * all * row : set.rows * row);
  for (std::int64_t kb = 0; kb < k_blocks.count; ++kb) {
    const std::int64_t k0 = k_blocks.first(kb), terms = k_blocks.first(kb + 1) - k0;
    const bool last_block = kb + 1 == k_blocks.count;
    for (std::int64_t s = 0; s < item.strips; ++s) {
      const std::int64_t pixel = pixels.first(item.first_strip + s);
      const int height = pixels.height(item.first_strip + s);
      TapPiece pieces[kMaxPieces];
      bool touches = false;
      const int n = plan.pieces(x.base, pixel - x.image * plan.pixels, height, pieces, touches);
      border[static_cast<std::size_t>(s)] = touches;
      set.pack_taps(pieces, n, plan.offset.data() + k0, terms, height,
                    packed + (pixel - origin) * terms, height);
    }
    for (std::int64_t panel = 0; panel < item.panels; ++panel) {
      const std::int64_t strip = (item.first_panel + panel) * kWide;
      const int w = static_cast<int>(std::min<std::int64_t>(kWide, o_strips - strip));
      const std::int64_t o = strip * lanes, channel = item.group * out + o;
      const int last_lanes =
          static_cast<int>(std::min<std::int64_t>(lanes, out - o - (w - 1) * lanes));
      // Whole vectors of the last axis go where they belong.
      const bool direct = c.p.channels_last && !carries && last_lanes == lanes;
      for (std::int64_t s = 0; s < item.strips; ++s) {
        const std::int64_t pixel = pixels.first(item.first_strip + s);
        const int height = pixels.height(item.first_strip + s);
        float* square = direct    ? c.y + pixel * g.out_channels + channel
                        : carries ? sums + (panel * all + pixel - origin) * row
                                  : sums;
        const std::int64_t square_row = direct ? g.out_channels : row;
        TileCall t{.k = terms,
                   .a = packed + (pixel - origin) * terms,
                   .a_step = height,
                   .b = c.p.weights.data<float>() + (item.group * o_strips + strip) * lanes * k +
                        k0 * lanes,
                   .b_strip = k * lanes,
                   .b_step = lanes,
                   .c = square,
                   .c_row = square_row,
                   .last_lanes = last_lanes,
                   .resume = kb > 0,
                   .lane_bias = c.bias == nullptr || !last_block ? nullptr : c.bias + channel,
                   .report_zero = last_block && border[static_cast<std::size_t>(s)] != 0};
        // The panel to come, a vector by each of the first tiles of this one.
        if (s < kWide && strip + kWide + s < o_strips) {
          t.next = t.b + (kWide + s) * t.b_strip;
          t.next_step = kLine;
        }
        std::uint32_t again = set.plain[tile_index(w)][tile_index(height)](t);
        if (!last_block) continue;
        if (t.report_zero && !c.p.finite_weights) again = (1U << height) - 1U;
        for (int r = 0; again >> r != 0; ++r)
          if ((again >> r & 1U) != 0)
            repair_channels(c, x, item.group, pixel + r, strip, w, t, square + r * square_row);
        if (direct) continue;
        if (!c.p.channels_last) {
          turn_to_columns(c, square, pixel, height, channel, w, last_lanes);
          continue;
        }
        for (int r = 0; r < height; ++r)
          std::copy_n(square + r * row, (w - 1) * lanes + last_lanes,
                      c.y + (pixel + r) * g.out_channels + channel);
      }
      if (last_block) announce(c, channel, (w - 1) * lanes + last_lanes, origin, origin + all);
    }
  }
}

}  // namespace

// Parts of the channels pack the same pixels each, blocks of pixels read the same weights each.
WorkGrid channel_grid(const PreparedConv& p, const TileSet& set, int threads) {
  constexpr double kFarVector = 2;  // cycles: of weights, from the third cache
  const auto cut = [](std::int64_t n, std::int64_t pieces) { return (n + pieces - 1) / pieces; };
  const ConvGeometry& g = p.plan.g;
  const RowStrips pixels(g.batch * p.plan.pixels, set.rows);
  const std::int64_t panels = cut(vector_strips(g.group_out(), set.lanes), kWide);
  const double rows = static_cast<double>(pixels.rows) / static_cast<double>(pixels.count);
  const double pack = p.packing();
  const std::int64_t most = threads <= 1 ? 1 : 2L * threads;
  WorkGrid best;
  double best_cycles = -1;
  for (std::int64_t blocks = 1; blocks <= std::min(pixels.count, most); ++blocks)
    for (std::int64_t parts = 1; parts <= std::min(panels, most); ++parts) {
      const auto rounds = static_cast<double>(cut(g.groups * blocks * parts, threads));
      const auto strips = static_cast<double>(cut(pixels.count, blocks));
      const auto vectors = static_cast<double>(cut(panels, parts) * kWide);
      const bool meet = blocks > 1 && g.batch % blocks != 0 && !p.channels_last;
      const double cycles =
          rounds * (static_cast<double>(p.plan.k) *
                        (strips * rows * vectors * 0.5 + strips * pack + vectors * kFarVector) +
                    kItemCycles + (meet ? vectors * set.lanes * kSharedLine : 0));
      if (best_cycles >= 0 && cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = {.threads = threads, .blocks = blocks, .parts = parts};
    }
  return best;
}

void conv_by_channels(const ConvRun& c) {
  const TileSet& set = c.set;
  const ConvGeometry& g = c.p.plan.g;
  const RowStrips pixels(g.batch * c.p.plan.pixels, set.rows);
  const std::int64_t panels = (vector_strips(g.group_out(), set.lanes) + kWide - 1) / kWide;
  const std::int64_t strip_bytes = std::max<std::int64_t>(1, KBlocks(c.p.plan.k).longest()) *
                                   set.rows * std::int64_t{sizeof(float)};
  const std::int64_t most = std::max<std::int64_t>(4, kConvBlockBytes / strip_bytes);
  const std::int64_t blocks = c.grid.blocks, parts = c.grid.parts;
  parallel_for(g.groups * blocks * parts, c.grid.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t part = i % parts, block = i / parts % blocks;
                   const std::int64_t first_panel = part * panels / parts;
                   const std::int64_t first = block * pixels.count / blocks;
                   const std::int64_t strips = (block + 1) * pixels.count / blocks - first;
                   const std::int64_t turns = (strips + most - 1) / most;
                   for (std::int64_t turn = 0; turn < turns; ++turn) {
                     const std::int64_t from = first + turn * strips / turns;
                     run_item(c, pixels,
                              {.group = i / parts / blocks,
                               .first_panel = first_panel,
                               .panels = (part + 1) * panels / parts - first_panel,
                               .first_strip = from,
                               .strips = first + (turn + 1) * strips / turns - from});
                   }
                 }
               });
}

}  // namespace etalon
