#include "kernels/conv/exact_winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact_cut.h"

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
constexpr std::int64_t kKeptBytes = 16 << 20;    // of U that is made once
constexpr int kWide = 2, kMaxLanes = 8, kTaps = 9;
constexpr std::int64_t kBlockChannels = 128;

// The blocks of a group's input channels; sums under each are joined.
struct ChannelBlocks {
  std::int64_t in, count;
  explicit ChannelBlocks(std::int64_t channels)
      : in(channels), count((channels + kBlockChannels - 1) / kBlockChannels) {}
  std::int64_t first(std::int64_t block) const { return block * in / count; }
  std::int64_t size(std::int64_t block) const { return first(block + 1) - first(block); }
  std::int64_t largest() const { return (in + count - 1) / count; }
};

// Tiles of one image in lanes, row by row. A patch's columns are read from arrays of the image's:
// of even and odd columns, two of a patch to each and one idle lane behind a row of tiles; or,
// where that saves vectors, one array for each of its columns and no idle lane.
struct TileGrid {
  std::int64_t rows, columns, apart, count;
  int arrays;
  TileGrid(const ConvGeometry& g, int lanes)
      : rows((g.window.axes[1].out + 1) / 2), columns((g.window.axes[2].out + 1) / 2) {
    // A vector in sixteen pays for arrays of twice the size.
    const bool dense = 16 * vector_strips(rows * columns, lanes) <=
                       15 * vector_strips(rows * (columns + 1) - 1, lanes);
    arrays = dense ? kPatch : 2;
    apart = dense ? columns : columns + 1;
    count = rows * apart - (apart - columns);
  }
  std::int64_t phase() const { return (rows + 1) * apart; }  // elements of an array, of one parity
  std::int64_t channel() const { return 2 * arrays * phase(); }
  std::int64_t patched() const { return 2 * columns + 2; }  // columns of all patches
  std::int64_t at(int i, int j) const {                     // row i, column j of the first patch
    return (i % 2 * arrays + j % arrays) * phase() + i / 2 * apart + j / arrays;
  }
};

using Square = std::array<std::array<double, kPatch>, kPatch>;

// G g G^T, or with `size` |G| |g| |G^T|.
Square transformed(const float* g, bool size) {
  const auto pass = [size](double a, double b, double c, double* to, std::size_t step) {
    to[0] = a;
    to[step] = (a + b + c) / 2;
    to[2 * step] = size ? (a + b + c) / 2 : (a - b + c) / 2;
    to[3 * step] = c;
  };
  std::array<std::array<double, 3>, kPatch> half;
  for (std::size_t j = 0; j < 3; ++j) {
    double column[3];
    for (std::size_t i = 0; i < 3; ++i) {
      const auto x = static_cast<double>(g[i * 3 + j]);
      column[i] = size ? std::abs(x) : x;
    }
    pass(column[0], column[1], column[2], &half[0][j], 3);
  }
  Square u;
  for (std::size_t i = 0; i < kPatch; ++i) pass(half[i][0], half[i][1], half[i][2], &u[i][0], 1);
  return u;
}
double square_sum(const Square& u) {
  double sum = 0;
  for (const auto& row : u)
    for (const double z : row) sum += z * z;
  return sum;
}

struct ImageTask {
  Isa isa;
  const ConvGeometry& g;
  const WinogradTask& task;
  TileGrid grid;
};

// The arrays of a channel, even rows before odd ones, zeros in the padding. `padded` has room for a
// row.
void split_channel(const ImageTask& t, const float* from, float* padded, float* to) {
  const WindowAxis &h = t.g.window.axes[1], &w = t.g.window.axes[2];
  const TileGrid& grid = t.grid;
  const std::int64_t width = grid.patched(),
                     first = std::clamp<std::int64_t>(w.pad_begin, 0, width),
                     last = std::clamp(w.in + w.pad_begin, first, width);
  const SplitPairs split = split_pairs(t.isa);
  std::fill_n(padded, width, 0.0F);
  for (std::int64_t y = 0; y < 2 * (grid.rows + 1); ++y) {
    const std::int64_t iy = y - h.pad_begin;
    const bool inside = iy >= 0 && iy < h.in;
    if (inside) std::copy_n(from + iy * w.in + first - w.pad_begin, last - first, padded + first);
    float* rows = to + y % 2 * grid.arrays * grid.phase() + y / 2 * grid.apart;
    if (inside && grid.arrays == 2 && split != nullptr) {
      split({.from = padded, .rows = 1, .count = width, .even = rows, .odd = rows + grid.phase()});
      continue;
    }
    for (int j = 0; j < grid.arrays; ++j) {
      float* row = rows + j * grid.phase();
      for (std::int64_t i = 0; i < grid.apart; ++i) row[i] = inside ? padded[2 * i + j] : 0.0F;
    }
  }
}

// What one thread does at a time: strips [first, first + count) of an image's tiles, for a part of
// a group's output channels, in strips too.
struct Share {
  std::int64_t image, group, first, count, first_rows, last_rows;
};

void run_share(const ImageTask& t, const Share& share, const float* split,
               std::vector<std::int64_t>& left) {
  const WinogradLanes& set = *winograd_lanes(t.isa);
  const WindowAxis &h = t.g.window.axes[1], &w = t.g.window.axes[2];
  const TileGrid& grid = t.grid;
  const auto [image, group, first, count, first_rows, last_rows] = share;
  const std::int64_t in = t.g.group_in(), out = t.g.group_out(), lanes = set.lanes;
  const RowStrips strips(out, set.rows);
  const std::int64_t begin = strips.first(first_rows), end = strips.first(last_rows);
  const ChannelBlocks blocks(in);
  const std::int64_t v_stride = count * blocks.largest() * lanes, m_row = count * lanes,
                     m_stride = (end - begin) * m_row, pairs = (count + kWide - 1) / kWide;
  double* v = thread_scratch<double>(ScratchSlot::vector, kPositions * v_stride);
  double* m = thread_scratch<double>(ScratchSlot::tile, kPositions * m_stride);
  const std::int64_t u_stride = blocks.largest() * set.rows + kMaxLanes;
  double* made = thread_scratch<double>(ScratchSlot::broadcast, kPositions * u_stride);
  std::vector<double> norms(static_cast<std::size_t>(count * lanes));
  const WinogradWeights& weights = *t.task.w;
  const std::int64_t parts = weights.transformed ? kPositions : kTaps;  // of a kernel
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    const std::int64_t from = blocks.first(block), terms = blocks.size(block);
    for (std::int64_t s = 0; s < count; ++s)
      for (std::int64_t c = 0; c < terms; ++c) {
        const float* image_at =
            split + (group * in + from + c) * grid.channel() + (first + s) * lanes;
        const float* patch[kPatch][kPatch];
        for (int i = 0; i < kPatch; ++i)
          for (int j = 0; j < kPatch; ++j) patch[i][j] = image_at + grid.at(i, j);
        set.input(patch, v + (s * terms + c) * lanes, v_stride, norms.data() + s * lanes);
      }
    for (std::int64_t s = first_rows; s < last_rows; ++s) {
      const int height = strips.height(s);
      const std::int64_t row = strips.first(s), kernels = terms * height;
      const auto place = [&](std::int64_t strip) {
        return parts * ((group * out + strips.first(strip)) * in + from * strips.height(strip));
      };
      const double* u = made;
      std::int64_t apart = u_stride;
      if (weights.transformed) {
        u = weights.strips.data<double>() + place(s);
        apart = kernels;
      } else {
        set.weights(weights.strips.data<float>() + place(s), kernels, made, u_stride);
      }
      // Weights of the strip to come, a share by each tile of this one: with few pixels they come
      // from memory as fast as they are wanted.
      const bool more = s + 1 < last_rows;
      const std::int64_t item_bytes = weights.transformed ? sizeof(double) : sizeof(float),
                         bytes = more ? parts * terms * strips.height(s + 1) * item_bytes : 0,
                         steps = std::max<std::int64_t>(1, terms / 2),
                         all_steps = kPositions * pairs * steps * std::int64_t{sizeof(double)},
                         ahead = (bytes + all_steps - 1) / all_steps;
      const auto* next = weights.strips.data<double>() +
                         (more ? place(s + 1) * item_bytes / std::int64_t{sizeof(double)} : 0);
      for (int p = 0; p < kPositions; ++p)
        for (std::int64_t i = 0; i < count; i += kWide, next += steps * ahead) {
          const int wide = static_cast<int>(std::min<std::int64_t>(kWide, count - i));
          set.sums[static_cast<std::size_t>(wide)][static_cast<std::size_t>(height)](
              {.channels = terms,
               .u = u + p * apart,
               .v = v + p * v_stride + i * terms * lanes,
               .v_vector = terms * lanes,
               .m = m + p * m_stride + (row - begin) * m_row + i * lanes,
               .m_row = m_row,
               .join = block > 0,
               .next = next,
               .next_step = ahead});
        }
    }
  }
  for (double& norm : norms) norm = 2 * std::sqrt(norm);
  // Lanes that are tiles, in runs of neighbours.
  struct Run {
    int lane, columns;
    std::int64_t y, x;
  };
  std::vector<std::vector<Run>> runs(static_cast<std::size_t>(count));
  for (std::int64_t s = 0; s < count; ++s)
    for (int lane = 0; lane < lanes;) {
      const std::int64_t tile = (first + s) * lanes + lane, x = tile % grid.apart;
      if (tile >= grid.count) break;
      const std::int64_t size = std::min(lanes - lane, grid.columns - x);
      if (size > 0)
        runs[static_cast<std::size_t>(s)].push_back(
            {.lane = lane,
             .columns = static_cast<int>(std::min(2 * size, w.out - 2 * x)),
             .y = tile / grid.apart * 2,
             .x = 2 * x});
      lane += static_cast<int>(std::max<std::int64_t>(1, size));
    }
  const double factor = exact_factor(1);
  alignas(64) float y[2 * 2 * kMaxLanes];
  std::uint32_t open[2];
  for (std::int64_t o = begin; o < end; ++o) {
    const std::int64_t channel = group * out + o,
                       base = (image * t.g.out_channels + channel) * h.out * w.out;
    const double bias = t.task.bias == nullptr ? 0.0 : static_cast<double>(t.task.bias[channel]),
                 bound = factor * weights.bounds[static_cast<std::size_t>(channel)];
    for (std::int64_t s = 0; s < count; ++s) {
      set.output(m + (o - begin) * m_row + s * lanes, m_stride, bias, bound,
                 norms.data() + s * lanes, y, open);
      if (!t.task.steps.rounding_test) open[0] = open[1] = 0;
      for (const Run& run : runs[static_cast<std::size_t>(s)])
        for (int i = 0; i < 2 && run.y + i < h.out; ++i) {
          const std::int64_t at = base + (run.y + i) * w.out + run.x;
          std::memcpy(t.task.y + at, y + i * 2 * lanes + 2 * run.lane,
                      static_cast<std::size_t>(run.columns) * sizeof(float));
          std::uint32_t bits = open[i] >> (2 * run.lane) & ((1U << run.columns) - 1);
          for (; bits != 0; bits &= bits - 1) left.push_back(at + __builtin_ctz(bits));
        }
    }
  }
}

// Cycles of products, and of what is done around them, for a vector of tiles.
double tile_cost(std::int64_t group_in, std::int64_t group_out) {
  const auto in = static_cast<double>(group_in), out = static_cast<double>(group_out);
  return 8 * in * out + 45 * in + 80 * out;
}

void run_image(const ImageTask& t, std::int64_t image, int threads,
               std::vector<std::int64_t>& undecided) {
  const ConvGeometry& g = t.g;
  const WinogradLanes& set = *winograd_lanes(t.isa);
  const std::int64_t lanes = set.lanes, points = g.window.in_points(), channel = t.grid.channel();
  float* split = thread_scratch<float>(ScratchSlot::padded, g.in_channels * channel + kMaxLanes);
  const float* x = t.task.x + image * g.in_channels * points;
  parallel_for(g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(t.grid.patched()));
    for (std::int64_t c = begin; c < end; ++c)
      split_channel(t, x + c * points, row.data(), split + c * channel);
  });
  const std::int64_t strips = vector_strips(t.grid.count, set.lanes),
                     tiles = (strips + kWide - 1) / kWide,
                     row_strips = RowStrips(g.group_out(), set.rows).count;
  const std::int64_t strip_bytes =
      kPositions * lanes * std::int64_t{sizeof(double)} * ChannelBlocks(g.group_in()).largest();
  const std::int64_t most = std::clamp<std::int64_t>(kBlockBytes / strip_bytes, 4, 16);
  const ExactCut cut =
      cheapest_cut(g.groups, static_cast<double>(strips), tiles, (strips + most - 1) / most,
                   row_strips, threads, [&](std::int64_t parts) {
                     return tile_cost(g.group_in(), (g.group_out() + parts - 1) / parts);
                   });
  std::mutex joining;
  parallel_for(
      g.groups * cut.parts * cut.blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> mine;
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t block = item % cut.blocks, part = item / cut.blocks % cut.parts,
                             first = block * tiles / cut.blocks * kWide,
                             last = std::min(strips, (block + 1) * tiles / cut.blocks * kWide);
          run_share(t,
                    {.image = image,
                     .group = item / cut.blocks / cut.parts,
                     .first = first,
                     .count = last - first,
                     .first_rows = part * row_strips / cut.parts,
                     .last_rows = (part + 1) * row_strips / cut.parts},
                    split, mine);
        }
        const std::scoped_lock lock(joining);
        undecided.insert(undecided.end(), mine.begin(), mine.end());
      });
}

}  // namespace

bool fits_exact_winograd(Isa isa, const ConvGeometry& g) {
  const auto& [d, h, w] = g.window.axes;
  if (d.kernel != 1 || d.in != 1 || d.out != 1 || h.kernel != 3 || w.kernel != 3) return false;
  if (h.stride != 1 || w.stride != 1 || h.dilation != 1 || w.dilation != 1) return false;
  if (std::min(g.group_in(), g.group_out()) < kWinogradChannels) return false;
  const WinogradLanes& set = *winograd_lanes(isa);
  const auto vectors = [&](std::int64_t n) {
    return static_cast<double>(vector_strips(n, set.lanes));
  };
  const auto in = static_cast<double>(g.group_in()), out = static_cast<double>(g.group_out());
  return vectors(TileGrid(g, set.lanes).count) * tile_cost(g.group_in(), g.group_out()) <
         vectors(g.window.out_points()) * (4.5 * in * out + 10 * (in + out));
}

void pack_exact_winograd(Isa isa, const ConvGeometry& g, const float* w, int threads,
                         WinogradWeights& to) {
  const WinogradLanes& set = *winograd_lanes(isa);
  const std::int64_t in = g.group_in(), out = g.group_out();
  const RowStrips strips(out, set.rows);
  const ChannelBlocks blocks(in);
  const std::int64_t kernels = g.out_channels * in;
  to.transformed = kPositions * kernels * std::int64_t{sizeof(double)} <= kKeptBytes;
  double* all_u = to.transformed ? to.strips.at_least<double>(kPositions * kernels) : nullptr;
  float* all_g = to.transformed ? nullptr : to.strips.at_least<float>(kTaps * kernels + kMaxLanes);
  to.bounds.resize(static_cast<std::size_t>(g.out_channels));
  parallel_for(g.groups * strips.count, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    AlignedBuffer taps, made;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t s = item % strips.count, height = strips.height(s),
                         first = item / strips.count * out + strips.first(s);
      for (std::int64_t block = 0; block < blocks.count; ++block) {
        const std::int64_t from = blocks.first(block), count = blocks.size(block) * height,
                           at = first * in + from * height;
        float* g_taps =
            to.transformed ? taps.at_least<float>(kTaps * count + kMaxLanes) : all_g + kTaps * at;
        for (std::int64_t r = 0; r < height; ++r)
          for (std::int64_t c = 0; c < blocks.size(block); ++c)
            for (int tap = 0; tap < kTaps; ++tap)
              g_taps[tap * count + c * height + r] = w[((first + r) * in + from + c) * kTaps + tap];
        if (!to.transformed) continue;
        const std::int64_t stride = count + kMaxLanes;
        double* u = made.at_least<double>(kPositions * stride);
        set.weights(g_taps, count, u, stride);
        for (std::int64_t p = 0; p < kPositions; ++p)
          std::copy_n(u + p * stride, count, all_u + kPositions * at + p * count);
      }
    }
  });
  // A term meets the roundings of its own block and one for each block more.
  const auto roundings = static_cast<double>(blocks.largest() + blocks.count);
  parallel_for(g.out_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double u = 0, size = 0;
      for (std::int64_t c = 0; c < in; ++c) {
        u += square_sum(transformed(w + (o * in + c) * kTaps, false));
        size += square_sum(transformed(w + (o * in + c) * kTaps, true));
      }
      to.bounds[static_cast<std::size_t>(o)] =
          roundings * std::sqrt(u) + kPositions * std::sqrt(size);
    }
  });
}

void exact_winograd(Isa isa, const ConvGeometry& g, const WinogradTask& task, int threads,
                    std::vector<std::int64_t>& undecided) {
  const ImageTask t{isa, g, task, TileGrid(g, winograd_lanes(isa)->lanes)};
  const std::int64_t whole = g.batch / threads * threads;
  std::mutex joining;
  parallel_for(whole, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    for (std::int64_t image = begin; image < end; ++image) run_image(t, image, 1, mine);
    const std::scoped_lock lock(joining);
    undecided.insert(undecided.end(), mine.begin(), mine.end());
  });
  for (std::int64_t image = whole; image < g.batch; ++image)
    run_image(t, image, threads, undecided);
}

}  // namespace etalon
