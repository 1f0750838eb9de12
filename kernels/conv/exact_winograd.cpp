#include "kernels/conv/exact_winograd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "kernels/conv/exact_winograd_grid.h"

namespace etalon {

const WinogradLanes* winograd_lanes([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::winograd_lanes();
  if (isa == Isa::avx2) return &avx2::winograd_lanes();
#endif
  return nullptr;
}

namespace {

constexpr std::int64_t kBlockBytes = 512 << 10;  // of V under a block of channels
constexpr std::int64_t kLeastVectors = 4;        // of a block, if V is larger
constexpr std::int64_t kImageVectors = 32;       // of tiles, of the images at a time
constexpr int kWide = 2, kMostStride = 4;

// Rows of tiles of some images, side by side so that weights pass by once.
struct SpanTask {
  Isa isa;
  const ConvGeometry& g;
  const WinogradLayer& layer;
  const WinogradTask& task;
  std::int64_t first, count;  // images
  TileGrid grid;              // of one of them, or of all
  std::int64_t grids() const { return count / grid.images; }
  std::int64_t strips() const { return grids() * grid.vectors; }
};
// All images share vectors where that saves one in sixteen.
SpanTask span_task(Isa isa, const ConvGeometry& g, const WinogradLayer& layer,
                   const WinogradTask& task, std::int64_t first, std::int64_t count,
                   std::int64_t first_row, std::int64_t last_row) {
  const int lanes = winograd_lanes(isa)->lanes;
  const TileGrid one(g, layer.f(), lanes, 1, first_row, last_row),
      all(g, layer.f(), lanes, count, first_row, last_row);
  return {
      isa, g, layer, task, first, count, 16 * all.vectors <= 15 * count * one.vectors ? all : one};
}
std::int64_t tile_rows(const ConvGeometry& g, const WinogradForm& f) {
  return (g.window.axes[1].out + f.outputs - 1) / f.outputs;
}

// What is done at a time: strips [first, first + count) of a span's tiles, for a part of a group's
// output channels, in strips too.
struct Share {
  std::int64_t group, first, count, first_rows, last_rows;
};

// Lanes of a vector that are neighbouring tiles of a row, and where their outputs lie in y.
struct Run {
  std::int64_t lane, columns, rows, at;  // of the first channel
};
std::vector<std::vector<Run>> tile_runs(const SpanTask& t, const Share& share) {
  const WindowAxis &h = t.g.window.axes[1], &w = t.g.window.axes[2];
  const TileGrid& grid = t.grid;
  const std::int64_t lanes = winograd_lanes(t.isa)->lanes, size = grid.outputs;
  std::vector<std::vector<Run>> runs(static_cast<std::size_t>(share.count));
  for (std::int64_t s = 0; s < share.count; ++s)
    for (std::int64_t lane = 0; lane < lanes;) {
      const std::int64_t vector = share.first + s, tile = vector % grid.vectors * lanes + lane,
                         image = t.first + vector / grid.vectors * grid.images + tile / grid.image,
                         row = tile % grid.image / grid.apart, y = (grid.first_row + row) * size,
                         x = tile % grid.apart * size;
      if (tile >= grid.count) break;
      const std::int64_t tiles = std::min(lanes - lane, grid.columns - tile % grid.apart);
      if (tiles > 0 && row < grid.rows)
        runs[static_cast<std::size_t>(s)].push_back(
            {.lane = lane,
             .columns = std::min(size * tiles, w.out - x),
             .rows = std::min(size, h.out - y),
             .at = (image * t.g.out_channels * h.out + y) * w.out + x});
      lane += std::max<std::int64_t>(1, tiles);
    }
  return runs;
}

// Rounds the sums of output channels [begin, end) of a share's group, the first of them at m, and
// appends what is undecided.
void round_share(const SpanTask& t, const Share& share, const std::vector<std::vector<Run>>& runs,
                 std::int64_t begin, std::int64_t end, const double* m, std::int64_t m_stride,
                 const double* norms, std::vector<std::int64_t>& left) {
  const WinogradLanes& set = *winograd_lanes(t.isa);
  const std::int64_t lanes = set.lanes, size = t.grid.outputs, m_row = share.count * lanes,
                     places = size * size, y_row = t.g.window.axes[2].out,
                     pixels = t.g.window.out_points();
  const double factor = exact_factor(1);
  alignas(64) float y[kMostWinogradOutputs * kMostWinogradOutputs * kWinogradLanes];
  std::uint32_t open[kMostWinogradOutputs];
  double factors[2 * kMostWinogradOutputs * kMostWinogradOutputs];
  for (std::int64_t o = begin; o < end; ++o, m += m_row) {
    const std::int64_t channel = share.group * t.layer.out + o;
    const double bias = t.task.bias == nullptr ? 0.0 : static_cast<double>(t.task.bias[channel]);
    for (std::int64_t i = 0; i < 2 * places; ++i)
      factors[i] = factor * t.task.w->bounds[static_cast<std::size_t>(channel * 2 * places + i)];
    for (std::int64_t s = 0; s < share.count; ++s) {
      const std::vector<Run>& vector = runs[static_cast<std::size_t>(s)];
      // Tiles that all are there are stored where they belong.
      const bool whole =
          vector.size() == 1 && vector[0].columns == size * lanes && vector[0].rows == size;
      set.transforms[t.layer.form].output(m + s * lanes, m_stride, bias, factors,
                                          norms + 2 * s * lanes, t.task.steps.cells,
                                          whole ? t.task.y + vector[0].at + channel * pixels : y,
                                          whole ? y_row : size * lanes, open);
      for (const Run& run : vector)
        for (std::int64_t i = 0; i < run.rows; ++i) {
          const std::int64_t at = run.at + channel * pixels + i * y_row;
          if (!whole)
            std::memcpy(t.task.y + at, y + (i * lanes + run.lane) * size,
                        static_cast<std::size_t>(run.columns) * sizeof(float));
          if (!t.task.steps.rounding_test) continue;
          std::uint64_t bits =
              std::uint64_t{open[i]} >> (size * run.lane) & ((std::uint64_t{1} << run.columns) - 1);
          for (; bits != 0; bits &= bits - 1) left.push_back(at + __builtin_ctzll(bits));
        }
    }
  }
}

void run_share(const SpanTask& t, const Share& share, const float* split,
               std::vector<std::int64_t>& left) {
  const WinogradLanes& set = *winograd_lanes(t.isa);
  const WinogradForm& f = t.layer.f();
  const TileGrid& grid = t.grid;
  const auto [group, first, count, first_rows, last_rows] = share;
  const std::int64_t in = t.layer.in, out = t.layer.out, lanes = set.lanes,
                     positions = f.positions();
  const RowStrips strips(out, set.rows);
  const std::int64_t begin = strips.first(first_rows), end = strips.first(last_rows);
  const WinogradBlocks blocks(t.layer);
  // Sums that no other block joins are rounded strip by strip.
  const bool single = blocks.count == 1;
  const std::int64_t v_stride = count * blocks.largest() * lanes, m_row = count * lanes,
                     m_stride = (single ? set.rows : end - begin) * m_row,
                     pairs = (count + kWide - 1) / kWide;
  double* v = thread_scratch<double>(ScratchSlot::vector, positions * v_stride);
  double* m = thread_scratch<double>(ScratchSlot::tile, positions * m_stride);
  const std::int64_t u_stride = blocks.largest() * set.rows + kWinogradLanes;
  const WinogradWeights& weights = *t.task.w;
  double* made = weights.transformed
                     ? nullptr
                     : thread_scratch<double>(ScratchSlot::broadcast, positions * u_stride);
  const std::vector<std::vector<Run>> runs = tile_runs(t, share);
  std::vector<double> norms(static_cast<std::size_t>(2 * count * lanes));
  std::int64_t patch[kMostPatch * kMostPatch];
  for (int i = 0; i < f.patch; ++i)
    for (int j = 0; j < f.patch; ++j) patch[i * f.patch + j] = grid.at(i, j);
  const std::int64_t parts =  // of a kernel
      weights.transformed ? positions : std::int64_t{f.taps} * f.taps;
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    const std::int64_t from = blocks.first(block), terms = blocks.size(block);
    for (std::int64_t s = 0; s < count; ++s) {
      const float* x = split + ((first + s) / grid.vectors * in + from) * grid.channel() +
                       (first + s) % grid.vectors * lanes;
      for (std::int64_t c = 0; c < terms; ++c, x += grid.channel())
        set.transforms[t.layer.form].input(x, patch, v + (s * terms + c) * lanes, v_stride,
                                           norms.data() + 2 * s * lanes);
    }
    if (block + 1 == blocks.count)
      for (double& norm : norms) norm = std::sqrt(norm);
    for (std::int64_t s = first_rows; s < last_rows; ++s) {
      const int height = strips.height(s);
      const std::int64_t row = strips.first(s), kernels = terms * height;
      double* strip_m = single ? m : m + (row - begin) * m_row;
      const auto place = [&](std::int64_t strip) {
        return parts * ((group * out + strips.first(strip)) * in + from * strips.height(strip));
      };
      const double* u = made;
      std::int64_t apart = u_stride;
      if (weights.transformed) {
        u = weights.strips.data<double>() + place(s);
        apart = kernels;
      } else {
        set.transforms[t.layer.form].weights(weights.strips.data<float>() + place(s), kernels, made,
                                             u_stride);
      }
      // Weights of the strip to come, a share by each tile of this one: with few pixels they come
      // from memory as fast as they are wanted.
      const bool more = s + 1 < last_rows;
      const std::int64_t item_bytes = weights.transformed ? sizeof(double) : sizeof(float),
                         bytes = more ? parts * terms * strips.height(s + 1) * item_bytes : 0,
                         steps = std::max<std::int64_t>(1, terms / 2),
                         all_steps = positions * pairs * steps * std::int64_t{sizeof(double)},
                         ahead = (bytes + all_steps - 1) / all_steps;
      const auto* next = weights.strips.data<double>() +
                         (more ? place(s + 1) * item_bytes / std::int64_t{sizeof(double)} : 0);
      for (std::int64_t p = 0; p < positions; ++p)
        for (std::int64_t i = 0; i < count; i += kWide, next += steps * ahead) {
          const int wide = static_cast<int>(std::min<std::int64_t>(kWide, count - i));
          set.sums[static_cast<std::size_t>(wide)][static_cast<std::size_t>(height)](
              {.channels = terms,
               .u = u + p * apart,
               .v = v + p * v_stride + i * terms * lanes,
               .v_vector = terms * lanes,
               .m = strip_m + p * m_stride + i * lanes,
               .m_row = m_row,
               .join = block > 0,
               .next = next,
               .next_step = ahead});
        }
      if (single) round_share(t, share, runs, row, row + height, m, m_stride, norms.data(), left);
    }
  }
  if (!single) round_share(t, share, runs, begin, end, m, m_stride, norms.data(), left);
}

// Cycles for a vector of tiles and so many of a group's output channels, measured (Zen 4):
// products, what is done for each channel in and out, and kernels that are transformed once for
// kLeastVectors. In units of fused operations on half as many lanes the rest costs half as much
// again.
double tile_cost(const WinogradLayer& layer, std::int64_t groups, int lanes,
                 std::int64_t out_channels) {
  const WinogradForm& f = layer.f();
  const bool small = f.patch == 4, narrow = lanes < kWinogradLanes;
  const auto in = static_cast<double>(layer.in), out = static_cast<double>(out_channels);
  const double each_in = (small ? 230 : 820) * (narrow ? 1.6 : 1),
               each_out = (small ? 110 : 200 + 10 * f.outputs * f.outputs) * (narrow ? 1.4 : 1),
               made = layer.keeps_transformed(groups) ? 0 : (small ? 1 : 3) * (narrow ? 1.6 : 1);
  return ((small ? 17.5 : 40) + made) * in * out + each_in * in + each_out * out;
}
// As much for a vector of outputs of the plain sum.
double plain_cost(double k, double out) { return k * out + 4 * k + 12 * out; }

// So many images at a time that there are blocks enough.
std::int64_t images_together(const ConvGeometry& g, const WinogradForm& f, int lanes) {
  return std::clamp<std::int64_t>(
      kImageVectors / TileGrid(g, f, lanes, 1, 0, tile_rows(g, f)).vectors, 1,
      std::max<std::int64_t>(1, g.batch));
}

// A span of a group, for strips [first_rows, last_rows) of output channels, on one thread: what it
// reads it laid out itself, for lines that another one wrote come slowly.
void run_span(const SpanTask& t, std::int64_t group, std::int64_t first_rows,
              std::int64_t last_rows, std::vector<std::int64_t>& left) {
  const ConvGeometry& g = t.g;
  const WinogradLayer& layer = t.layer;
  const std::int64_t points = g.window.in_points(), remainders = layer.stride * layer.stride,
                     images = t.grid.images, strips = t.strips();
  float* split = thread_scratch<float>(ScratchSlot::padded,
                                       t.grids() * layer.in * t.grid.channel() + kWinogradLanes);
  ChannelSplit channel(t.isa, g, layer.stride, t.grid);
  for (std::int64_t i = 0; i < t.count; ++i) {
    const float* x = t.task.x + ((t.first + i) * g.in_channels + group * g.group_in()) * points;
    for (std::int64_t c = 0; c < layer.in; ++c)
      channel.run(
          x + c / remainders * points, c % remainders / layer.stride, c % layer.stride,
          split + (i / images * layer.in + c) * t.grid.channel() + i % images * t.grid.image);
  }
  const std::int64_t strip_bytes = layer.f().positions() * winograd_lanes(t.isa)->lanes *
                                   std::int64_t{sizeof(double)} * WinogradBlocks(layer).largest();
  const std::int64_t most = std::clamp<std::int64_t>(kBlockBytes / strip_bytes, kLeastVectors, 16),
                     tiles = (strips + kWide - 1) / kWide, blocks = (strips + most - 1) / most;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * tiles / blocks * kWide,
                       last = std::min(strips, (block + 1) * tiles / blocks * kWide);
    run_share(t,
              {.group = group,
               .first = first,
               .count = last - first,
               .first_rows = first_rows,
               .last_rows = last_rows},
              split, left);
  }
}

// How a layer is cut between threads: images in parts, rows of tiles in parts, output channels in
// parts, groups one by one.
struct WinogradCut {
  std::int64_t images = 1, rows = 1, channels = 1;
};
WinogradCut winograd_cut(Isa isa, const ConvGeometry& g, const WinogradLayer& layer,
                         std::int64_t threads) {
  const WinogradLanes& set = *winograd_lanes(isa);
  const WinogradForm& f = layer.f();
  const std::int64_t together = images_together(g, f, set.lanes), all_rows = tile_rows(g, f),
                     least_images = (g.batch + together - 1) / together,
                     strips = RowStrips(layer.out, set.rows).count;
  WinogradCut best{.images = least_images};
  if (threads == 1) return best;
  const WinogradTask none;
  double least = 0;
  // Some ranges a thread, so that a slow one does not keep the others waiting, if they cost
  // nothing.
  for (std::int64_t ranges = 1; ranges <= 4; ranges *= 2)
    for (std::int64_t channels = 1; channels <= std::min(threads, strips); ++channels) {
      const std::int64_t wanted =
                             (ranges * threads + g.groups * channels - 1) / (g.groups * channels),
                         images = std::max(least_images, std::min(g.batch, wanted)),
                         rows =
                             std::clamp<std::int64_t>((wanted + images - 1) / images, 1, all_rows),
                         items = g.groups * channels * images * rows,
                         out = (layer.out + channels - 1) / channels;
      const SpanTask largest = span_task(isa, g, layer, none, 0, (g.batch + images - 1) / images, 0,
                                         (all_rows + rows - 1) / rows);
      const std::int64_t rounds = (items + threads - 1) / threads;
      const double all = static_cast<double>(rounds * largest.strips()) *
                         tile_cost(layer, g.groups, set.lanes, out);
      if (least != 0 && all > least) continue;
      least = all;
      best = {.images = images, .rows = rows, .channels = channels};
    }
  return best;
}

}  // namespace

std::optional<WinogradLayer> exact_winograd_layer(Isa isa, const ConvGeometry& g,
                                                  std::optional<int> form) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t stride = h.stride;
  if (d.kernel != 1 || d.in != 1 || d.out != 1 || w.stride != stride || stride > kMostStride ||
      h.dilation != 1 || w.dilation != 1)
    return std::nullopt;
  const std::int64_t taps = (std::max(h.kernel, w.kernel) + stride - 1) / stride;
  WinogradLayer layer{.stride = stride, .in = g.group_in() * stride * stride, .out = g.group_out()};
  if (std::min(layer.in, layer.out) < kWinogradChannels) return std::nullopt;
  if (form) {
    layer.form = *form;
    return layer.f().taps == taps ? std::optional(layer) : std::nullopt;
  }
  const int lanes = winograd_lanes(isa)->lanes;
  double least = static_cast<double>(vector_strips(g.window.out_points(), lanes)) *
                 plain_cost(static_cast<double>(g.k()), static_cast<double>(layer.out));
  const WinogradTask none;
  std::optional<WinogradLayer> best;
  for (layer.form = 0; layer.form < kWinogradFormCount; ++layer.form) {
    const WinogradForm& f = layer.f();
    if (f.taps != taps) continue;
    const SpanTask some =
        span_task(isa, g, layer, none, 0, images_together(g, f, lanes), 0, tile_rows(g, f));
    layer.cycles = static_cast<double>(some.strips()) / static_cast<double>(some.count) *
                   tile_cost(layer, g.groups, lanes, layer.out);
    if (layer.cycles >= least) continue;
    least = layer.cycles;
    best = layer;
  }
  return best;
}

void exact_winograd(Isa isa, const ConvGeometry& g, const WinogradLayer& layer,
                    const WinogradTask& task, int threads, std::vector<std::int64_t>& undecided) {
  if (g.batch == 0) return;
  const WinogradCut cut = winograd_cut(isa, g, layer, threads);
  const std::int64_t all_rows = tile_rows(g, layer.f()),
                     strips = RowStrips(layer.out, winograd_lanes(isa)->rows).count;
  std::mutex joining;
  parallel_for(
      g.groups * cut.channels * cut.images * cut.rows, threads, 1,
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> mine;
        for (std::int64_t item = begin; item < end; ++item) {
          // Neighbours share weights.
          const std::int64_t row = item % cut.rows, image = item / cut.rows % cut.images,
                             part = item / cut.rows / cut.images % cut.channels,
                             group = item / cut.rows / cut.images / cut.channels,
                             first = image * g.batch / cut.images;
          run_span(span_task(isa, g, layer, task, first, (image + 1) * g.batch / cut.images - first,
                             row * all_rows / cut.rows, (row + 1) * all_rows / cut.rows),
                   group, part * strips / cut.channels, (part + 1) * strips / cut.channels, mine);
        }
        const std::scoped_lock lock(joining);
        undecided.insert(undecided.end(), mine.begin(), mine.end());
      });
}

}  // namespace etalon
