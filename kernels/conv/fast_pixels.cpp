// conv, f32, contract seq, a vector of pixels at a time (fast.cpp): each block of pixels is packed
// once for all channels, by the first strip of channels where its tiles can gather for themselves.
#include "kernels/conv/depthwise.h"
#include "kernels/conv/fast_chunk.h"

namespace etalon {
namespace {

// Vectors of pixels that are announced together: of 14 channels 7 KiB, still in the first cache.
constexpr std::int64_t kAnnouncedVectors = 8;
constexpr double kPackedApart = 3;  // cycles: for a vector of inputs under one k

// Outputs of one vector of pixels that are computed again, with padding masked out of the sum.
void repair_pixels(const ConvRun& c, const float* x, std::int64_t image, std::int64_t group,
                   std::int64_t strip, const std::vector<std::int64_t>& row_strips) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t k = plan.k, out = plan.g.group_out(), pixel = strip * set.lanes;
  const int count = static_cast<int>(std::min<std::int64_t>(set.lanes, plan.pixels - pixel));
  const RowStrips& strips = c.p.strips;
  float* packed = thread_scratch<float>(ScratchSlot::tile, k * set.lanes);
  std::uint16_t* mask = thread_scratch<std::uint16_t>(ScratchSlot::masks, k);
  TapPiece pieces[kMaxPieces];
  bool touches = false;
  const int n = plan.pieces(x, pixel, count, pieces, touches);
  set.pack_taps(pieces, n, plan.offset.data(), k, set.lanes, packed, set.lanes);
  plan.masks(pixel, count, mask);
  for (const std::int64_t s : row_strips) {
    const int height = strips.height(s);
    const std::int64_t row = strips.first(s), o = group * out + row;
    set.masked[1][tile_index(height)](
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

// Packs terms (or words of them) [k0, k0 + terms) of `count` vectors of pixels; whole ones side by
// side go together.
void pack_pixels(const ConvRun& c, const float* base, std::int64_t first, std::int64_t count,
                 std::int64_t k0, std::int64_t terms, float* packed, char* border) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const std::int64_t* offset = plan.offset.data() + k0 * set.terms;
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

// Vectors of pixels that the tile gathers itself, [first, first + w): in how many runs each, or 0
// where that is more than it takes, and they were packed here.
int gather_pixels(const ConvRun& c, const float* base, std::int64_t first, int w, std::int64_t k0,
                  std::int64_t terms, float* packed, char* border, TileGather& gather) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  TapPiece pieces[kMaxTileVectors][kMaxPieces];
  int runs[kMaxTileVectors];
  bool few = true, whole = true;
  for (int i = 0; i < w; ++i) {
    const std::int64_t pixel = (first + i) * set.lanes;
    bool touches = false;
    runs[i] = plan.pieces(base, pixel,
                          static_cast<int>(std::min<std::int64_t>(set.lanes, plan.pixels - pixel)),
                          pieces[i], touches);
    border[i] = touches;
    few = few && runs[i] <= kGatherRuns;
    whole = whole && pieces[i][0].size == set.lanes;
  }
  const std::int64_t* offset = plan.offset.data() + k0 * set.terms;
  if (!few) {
    for (int i = 0; i < w; ++i)
      set.pack_taps(pieces[i], runs[i], offset, terms, set.lanes, packed + i * terms * set.lanes,
                    set.lanes);
    return 0;
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
  return whole ? 1 : kGatherRuns;
}

}  // namespace

// Threads that take neighbouring blocks take lines of y from each other where the blocks meet, in
// every channel: the one that both write, and those that the one's stores prefetch from the other's
// block. A line that changes hands costs more than a vector's whole sum where k is small, so images
// of few pixels are cut by channels instead. Each part packs its pixels again, in passing.
WorkGrid pixel_grid(const PreparedConv& p, const TileSet& set, int threads) {
  const auto cut = [](std::int64_t n, std::int64_t pieces) { return (n + pieces - 1) / pieces; };
  const ConvPlan& plan = p.plan;
  // Those that the weights are packed in, or, before they are, those that suit the parts.
  const auto strips_of = [&](std::int64_t parts) {
    return p.strips.count > 0 ? p.strips : RowStrips(plan.g.group_out(), set.rows, parts);
  };
  const std::int64_t n_strips = vector_strips(plan.pixels, set.lanes);
  const std::int64_t outer = plan.g.batch * plan.g.groups;
  const std::int64_t most_parts = std::min<std::int64_t>(strips_of(1).count, 2L * threads);
  const std::int64_t widest = widest_tile(set, strips_of(1).height(0));
  const std::int64_t strip_bytes = std::max<std::int64_t>(1, KBlocks(p.steps).longest()) *
                                   set.lanes * std::int64_t{sizeof(float)};
  const std::int64_t most = std::max(widest, kConvBlockBytes / strip_bytes);
  WorkGrid best;
  double best_cycles = -1;
  for (std::int64_t blocks = cut(n_strips, most); blocks <= cut(n_strips, widest); ++blocks) {
    WorkGrid g{.threads = threads};
    g.block = std::min(cut(cut(n_strips, blocks), widest) * widest, n_strips);
    g.blocks = cut(n_strips, g.block);
    for (g.parts = 1; g.parts <= most_parts; ++g.parts) {
      const RowStrips strips = strips_of(g.parts);
      const auto rounds = static_cast<double>(cut(outer * g.blocks * g.parts, threads));
      const double rows = static_cast<double>(cut(strips.count, g.parts) * strips.rows) /
                          static_cast<double>(strips.count);
      // A tile of few rows takes more vectors than one that packs in passing.
      const bool passes = widest_tile(set, strips.height(0)) <= kGatherVectors;
      const double pack = p.packing() + (passes ? 0 : kPackedApart);
      // Unless each thread has whole images of a part.
      const bool meet = g.blocks > 1 && outer * g.parts % threads != 0;
      const double cycles = rounds * (static_cast<double>(g.block * p.steps) * (rows * 0.5 + pack) +
                                      kItemCycles + (meet ? rows * kSharedLine : 0));
      if (best_cycles >= 0 && cycles >= best_cycles) continue;
      best_cycles = cycles;
      best = g;
    }
    if (threads <= 1 || outer * g.blocks > 16L * threads) break;
  }
  return best;
}

Ending ending_by_pixels(const PreparedConv& p, const UsualSteps& steps) {
  const ConvPlan& plan = p.plan;
  const RowStrips& strips = p.strips;
  // Tiles that read have no ending.
  if (plan.pixels == 0 || strips.count == 0 ||
      (strips.count == 1 && strips.height(0) <= kReadingRows))
    return Ending::announced;
  if (steps.affine != nullptr &&
      (steps.affine->inner != plan.pixels || steps.affine->channels != plan.g.out_channels))
    return Ending::announced;
  // Between two blocks of k the output holds their sums, and at a border those that are computed
  // again.
  return KBlocks(plan.k).count == 1 && !plan.padded ? Ending::in_place : Ending::applied;
}

void conv_by_pixels(const ConvRun& c) {
  const TileSet& set = c.set;
  const ConvPlan& plan = c.p.plan;
  const ConvGeometry& g = plan.g;
  const int lanes = set.lanes;
  const std::int64_t k = c.p.steps, out = g.group_out();
  const KBlocks k_blocks(k);
  const RowStrips& strips = c.p.strips;
  const std::int64_t n_strips = vector_strips(plan.pixels, lanes);
  const std::optional<UsualSteps> steps =
      c.call.steps.empty() ? std::nullopt : usual_steps(c.call.steps);

  const std::int64_t outer = g.batch * g.groups;
  const std::int64_t block = c.grid.block, blocks = c.grid.blocks, parts = c.grid.parts;
  const int threads = c.grid.threads;

  parallel_for(outer * blocks * parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* packed = thread_scratch<float>(ScratchSlot::vector, block * lanes * k_blocks.longest());
    std::vector<char> border(static_cast<std::size_t>(block));
    std::vector<std::vector<std::int64_t>> repairs;
    struct Later {
      std::int64_t strip, first, end;  // vectors that are finished when they are repaired
    };
    std::vector<Later> later;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t b = item % blocks, part = item / blocks % parts;
      const std::int64_t group = item / parts / blocks % g.groups;
      const std::int64_t image = item / parts / blocks / g.groups;
      const std::int64_t first = b * block, count = std::min(block, n_strips - first);
      const float* weights = c.p.weights.data<float>() + group * out * k;
      repairs.clear();
      later.clear();
      const std::int64_t pixel = first * lanes;
      const std::int64_t pixel_count = std::min(count * lanes, plan.pixels - pixel);
      const std::int64_t of_all = image * plan.pixels + pixel;
      const float* x = pixels_read(c, group, of_all, of_all + pixel_count).base;
      for (std::int64_t kb = 0; kb < k_blocks.count; ++kb) {
        const std::int64_t k0 = k_blocks.first(kb), terms = k_blocks.first(kb + 1) - k0;
        const bool last_block = kb + 1 == k_blocks.count;
        // The first strip of channels packs as it goes, if its tiles are made for it.
        const std::int64_t first_strip = part * strips.count / parts;
        const std::int64_t last_strip = (part + 1) * strips.count / parts;
        const bool reads = strips.count == 1 && strips.height(0) <= kReadingRows &&
                           set.reading[1][1][1] != nullptr;
        const bool gathers =
            reads || widest_tile(set, strips.height(first_strip)) <= kGatherVectors;
        if (!gathers) pack_pixels(c, x, first, count, k0, terms, packed, border.data());
        for (std::int64_t s = first_strip; s < last_strip; ++s) {
          const int height = strips.height(s);
          const std::int64_t row = strips.first(s), o = group * out + row;
          float* y = c.y + (image * g.out_channels + o) * plan.pixels;
          TileCall t{.k = terms,
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
          const bool another = s + 1 < last_strip;
          const float* ahead =
              another ? weights + strips.first(s + 1) * k + k0 * strips.height(s + 1) : weights;
          const std::int64_t ahead_size = another ? terms * strips.height(s + 1) : 0;
          std::int64_t share = 0;
          for (std::int64_t v = 0; v < count;) {
            const int w = static_cast<int>(std::min<std::int64_t>(most, count - v));
            TileGather gather;
            t.gather = nullptr;
            int runs = 0;
            if (gathers && s == first_strip)
              runs = gather_pixels(c, x, first + v, w, k0, terms, packed + v * terms * lanes,
                                   border.data() + v, gather);
            if (runs > 0) t.gather = &gather;
            bool touches = false;
            if (last_block && plan.padded && !c.p.words)
              for (int i = 0; i < w; ++i)
                touches = touches || border[static_cast<std::size_t>(v + i)] != 0;
            t.b = packed + v * terms * lanes;
            t.c = y + (first + v) * lanes;
            t.last_lanes = static_cast<int>(
                std::min<std::int64_t>(lanes, plan.pixels - (first + v + w - 1) * lanes));
            t.report_zero = touches;
            // Weights of the strip to come, a share by each tile of this one.
            t.next = ahead + share;
            t.next_step = share < ahead_size ? kLine : 0;
            share += terms * kLine;
            TileEnding ending;
            t.ending = nullptr;
            if (steps && last_block && (!touches || c.p.finite_weights)) {
              ending = c.ending(*steps, o, t.c);
              t.ending = &ending;
            }
            const TileFn tile =
                runs == 0 ? set.plain[tile_index(w)][tile_index(height)]
                : reads   ? set.reading[tile_index(runs)][tile_index(w)][tile_index(height)]
                          : set.gathering[tile_index(runs)][tile_index(w)][tile_index(height)];
            const bool zero = tile(t) != 0;
            const bool repairs_tile = touches && (zero || !c.p.finite_weights);
            if (steps && last_block && repairs_tile) later.push_back({s, v, v + w});
            if (repairs_tile) {
              repaired = true;
              repairs.resize(static_cast<std::size_t>(count));
              for (int i = 0; i < w; ++i)
                if (border[static_cast<std::size_t>(v + i)] != 0)
                  repairs[static_cast<std::size_t>(v + i)].push_back(s);
            }
            v += w;
            if (steps || !last_block || repaired ||
                (v < count && v - announced < kAnnouncedVectors))
              continue;
            c.finished(image, o, height, pixel + announced * lanes,
                       std::min(pixel_count, v * lanes) - announced * lanes);
            announced = v;
          }
          if (!steps && last_block && repaired) later.push_back({s, announced, count});
        }
      }
      for (std::size_t v = 0; v < repairs.size(); ++v)
        if (!repairs[v].empty())
          repair_pixels(c, x, image, group, first + static_cast<std::int64_t>(v), repairs[v]);
      for (const auto& [s, v, end_v] : later)
        c.finished(image, group * out + strips.first(s), strips.height(s), pixel + v * lanes,
                   std::min(pixel_count, end_v * lanes) - v * lanes);
    }
  });
}

}  // namespace etalon
