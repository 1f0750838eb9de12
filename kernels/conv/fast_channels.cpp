// conv, f32, contract seq, a vector of channels at a time (fast.cpp), for images of few pixels;
// what a tile leaves, a row for each pixel, is transposed into y.
#include "kernels/conv/fast_chunk.h"

namespace etalon {
namespace {

// The outputs of one pixel in a panel of channels, with padding masked out of the sum.
void repair_channels(const ConvChunk& c, std::int64_t group, std::int64_t pixel, std::int64_t strip,
                     int w, TileCall t, float* to) {
  const TileSet& set = c.set;
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
  set.masked[tile_index(w)][1](t);
}

}  // namespace

void conv_by_channels(const ConvChunk& c) {
  const TileSet& set = c.set;
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
      std::min(pixels.count, std::max<std::int64_t>(4, kConvBlockBytes / strip_bytes));

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
        // Cut by terms first: the channels that a thread packs are those that it computed in the
        // layer before, if that was cut by channels as this one is.
        const std::int64_t term_parts = std::min<std::int64_t>(std::max(1, c.threads), terms);
        parallel_for(term_parts * count, c.threads, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t s = i % count, part = i / count;
            const std::int64_t pixel = pixels.first(first + s);
            const int height = pixels.height(first + s);
            const std::int64_t from = part * terms / term_parts;
            TapPiece pieces[kMaxPieces];
            bool touches = false;
            const int n = plan.pieces(x, pixel, height, pieces, touches);
            if (part == 0) border[static_cast<std::size_t>(s)] = touches;
            set.pack_taps(pieces, n, plan.offset.data() + k0 + from,
                          (part + 1) * terms / term_parts - from, height,
                          packed + (pixel - origin) * terms + from * height, height);
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
              // Whole vectors of the last axis go where they belong.
              const bool direct = c.p.channels_last && carried == nullptr && last_lanes == lanes;
              const std::int64_t square_row = direct ? g.out_channels : row;
              if (direct) square = c.y + pixel * g.out_channels + group * out + o;
              TileCall t{.k = terms,
                         .a = packed + (pixel - origin) * terms,
                         .a_step = height,
                         .b = c.p.weights.data<float>() + (group * o_strips + strip) * lanes * k +
                              k0 * lanes,
                         .b_strip = k * lanes,
                         .b_step = lanes,
                         .c = square,
                         .c_row = square_row,
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
              std::uint32_t again = set.plain[tile_index(w)][tile_index(height)](t);
              if (!last_block) continue;
              if (t.report_zero && !c.p.finite_weights) again = (1U << height) - 1U;
              for (int r = 0; again >> r != 0; ++r)
                if ((again >> r & 1U) != 0)
                  repair_channels(c, group, pixel + r, strip, w, t, square + r * square_row);
              if (direct) continue;
              if (c.p.channels_last) {
                const std::int64_t valid = (w - 1) * lanes + last_lanes;
                for (int r = 0; r < height; ++r)
                  std::copy_n(square + r * row, valid,
                              c.y + (pixel + r) * g.out_channels + group * out + o);
                continue;
              }
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
            const std::int64_t start = pixels.first(first + part * count / parts);
            const std::int64_t stop = pixels.first(first + (part + 1) * count / parts);
            if (c.p.channels_last) {
              c.finished_last(group * out + o, (w - 1) * lanes + last_lanes, start, stop - start);
              continue;
            }
            for (std::int64_t q = start; q < stop;) {
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

}  // namespace etalon
