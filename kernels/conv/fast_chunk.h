// What the two ways of conv's f32 row (fast.cpp) share: the prepared convolution, how its work is
// cut, and what a call reads and writes.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "engine/backend/pointwise.h"
#include "kernels/conv/images.h"
#include "kernels/conv/in_place.h"
#include "kernels/conv/met_outputs.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

// Packed pixels that stay in the second cache while the weights pass by.
inline constexpr std::int64_t kConvBlockBytes = 768 << 10;
inline constexpr std::int64_t kLine = 64 / sizeof(float);  // a cache line
// Of a set's lists of tiles.
inline std::size_t tile_index(int n) { return static_cast<std::size_t>(n); }

// How the work is cut for so many threads: pixels in blocks (by pixels: `block` vectors of one
// image; by channels: strips of all images, as even as can be), channels in parts. Whoever takes a
// block and a part reads, copies and packs for itself: what another thread wrote comes from that
// core's cache, and is lost again to the next run's writes.
struct WorkGrid {
  int threads = 0;
  std::int64_t block = 1, blocks = 1, parts = 1;
};
// What its choice weighs, in cycles of two fma each: a line of y that two threads write in turn, an
// item by itself.
inline constexpr double kSharedLine = 200, kItemCycles = 5000;

struct PreparedConv {
  MetOutputs met;
  ConvGeometry given;  // of those
  bool sampled = false;
  ConvPlan plan;           // of the sample, where there is one
  std::int64_t steps = 0;  // of a tile: k, or as many words of it as the set's elements hold
  bool words = false;      // those of two bf16: pixels in lanes, and zeros in padding change no sum
  bool channels_in_lanes = false;
  bool channels_last = false;  // of y, and of x where in_place serves
  WorkGrid grid;               // unless in_place or images serves
  RowStrips strips;            // of a group's channels, where pixels are in lanes
  bool packed = false;         // weights below are filled
  bool finite_weights = true;
  AlignedBuffer weights;
  InPlaceConv in_place;
  std::optional<ImagesConv> images;  // where it is worthwhile, and the other is not
  PreparedConv(const ConvGeometry& g, const TileSet& set, bool channels_last = false);
  bool copies() const { return plan.copied || sampled; }
  bool goes_in_place() const { return !words && in_place.worthwhile(); }
  // Cycles for a vector of inputs under one k, before any sum.
  double packing() const {
    constexpr double kPacked = 2, kCopied = 2;
    return kPacked + (copies() ? kCopied / static_cast<double>(plan.g.window.taps()) : 0);
  }
};

struct ConvRun {
  const TileSet& set;
  const PreparedConv& p;
  const float* x;
  const float* bias;
  float* y;
  WorkGrid grid;
  const KernelCall& call;

  // What a tile that begins with channel o at `to` ends its sums with.
  TileEnding ending(const UsualSteps& steps, std::int64_t o, const float* to) const {
    TileEnding e{.relu = steps.relu};
    if (steps.affine != nullptr) {
      e.mean = steps.affine->mean + o;
      e.factor = steps.affine->factor + o;
      e.bias = steps.affine->bias + o;
      e.fused = steps.affine->fused;
    }
    if (steps.add != nullptr) e.other = steps.add->other + (to - y);
    return e;
  }

  // `rows` outputs of channel o on (of all groups) of an image, each at pixels [first, first +
  // count).
  void finished(std::int64_t image, std::int64_t o, std::int64_t rows, std::int64_t first,
                std::int64_t count) const {
    if (call.finished == nullptr || count == 0) return;
    const std::int64_t pixels = p.plan.pixels;
    const std::int64_t at = (image * p.plan.g.out_channels + o) * pixels + first;
    (*call.finished)({.begin = at, .count = count, .rows = rows, .stride = pixels});
  }
  // The same where channels are last: `count` of them from o on, of pixels [first, first + rows) of
  // all images.
  void finished_last(std::int64_t o, std::int64_t count, std::int64_t first,
                     std::int64_t rows) const {
    if (call.finished == nullptr || rows == 0) return;
    const std::int64_t channels = p.plan.g.out_channels;
    (*call.finished)(
        {.begin = first * channels + o, .count = count, .rows = rows, .stride = channels});
  }
};

// Blocks of k, of equal length but for one: a strip of weights and the vectors it meets then stay
// in the first caches. Accumulators pass from block to block in f32, as they are.
struct KBlocks {
  static constexpr std::int64_t kTerms = 640;  // of one block: 14 rows of weights are then 36 KiB
  std::int64_t k, count;
  explicit KBlocks(std::int64_t terms)
      : k(terms), count(std::max<std::int64_t>(1, (terms + kTerms - 1) / kTerms)) {}
  std::int64_t first(std::int64_t block) const { return k * block / count; }
  std::int64_t longest() const { return (k + count - 1) / count; }
};

// w, where given, is packed: [out_channels][steps], of words where the set's elements hold them.
std::shared_ptr<PreparedConv> prepare_conv(const ConvGeometry& g, const TileSet& set,
                                           bool channels_last, const float* w, int threads);
// Outputs of a row of conv from x on: those that meet the input by run_prepared, the others their
// bias.
void run_conv(const KernelCall& call, const PreparedConv& prepared, const TileSet& set);
// The outputs that meet the input, to y. Channels of x come first, but where prepared.in_place
// serves a convolution whose channels are last.
void run_prepared(const KernelCall& call, const PreparedConv& prepared, const TileSet& set,
                  const float* x, float* y);

// What pixels [first, end) of a group read, counted through all images: the first channel of the
// group in the first of their images, in x or in this thread's own copy of the rows they need.
struct PixelsRead {
  const float* base;
  std::int64_t image;
};
PixelsRead pixels_read(const ConvRun& c, std::int64_t group, std::int64_t first, std::int64_t end);

// Pixels in lanes (fast_pixels.cpp), channels in lanes (fast_channels.cpp).
void conv_by_pixels(const ConvRun& c);
WorkGrid pixel_grid(const PreparedConv& p, const TileSet& set, int threads);
// Of conv_by_pixels, as KernelRow::ending.
Ending ending_by_pixels(const PreparedConv& p, const UsualSteps& steps);
void conv_by_channels(const ConvRun& c);
WorkGrid channel_grid(const PreparedConv& p, const TileSet& set, int threads);

}  // namespace etalon
