#include "kernels/conv/in_place.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "engine/core/threads.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"
#include "kernels/simd/machine.h"

namespace etalon {
namespace {

constexpr int kTwo = 2, kThree = 3;  // vectors of channels in a panel
// A panel of weights of more bytes leaves no room in the second cache: it is walked in blocks of
// channels, each over all rows whose sums are kept, which are the accumulators between two blocks.
constexpr std::int64_t kPanelBytes = 512 << 10, kBlockBytes = 320 << 10;
// Of the work, how much more than its part a thread may be given before rows are cut instead.
constexpr double kUneven = 1.15;
// Of its part of the rows, how much more for the sake of whole lines.
constexpr double kUnevenRows = 1.06;
constexpr std::int64_t kLine = 64 / sizeof(float);  // a cache line
constexpr std::int64_t kFewestRows = 7;  // of a thread that takes rows although panels are equal
// Bytes of input that stay there while all panels pass: few where all weights stay too, so that the
// copy is in cache when it is read and leaves room for what is computed; else more, because each
// further chunk reads the weights again, from the third cache.
constexpr std::int64_t kChunkBytes = 256 << 10, kFarChunkBytes = 768 << 10;
constexpr std::int64_t kNearWeights = 768 << 10;
// Rows of outputs from which this way is the faster one. Rows of 7 with 512 channels, three taps a
// row: 0.82 of the packed way's time on Zen 4; on Sapphire Rapids 1.03 to 1.07, before padding was
// left out there.
std::int64_t least_row() { return is_amd() ? 6 : 12; }

bool touches_padding(const WindowAxis& a, std::int64_t o) {
  return a.at(o, 0) < 0 || a.at(o, a.kernel - 1) >= a.in;
}

// Cycles of one term over a row of outputs for each vector of channels, in tiles of `most` outputs
// by `vectors`: two fma a cycle, but an accumulator waits four cycles for its next one, and of so
// few as eight some come late.
double row_cycles(std::int64_t outputs, int most, int vectors) {
  constexpr double kLeast = 4.5;
  const RowStrips strips(outputs, most);
  double cycles = 0;
  for (std::int64_t s = 0; s < strips.count; ++s)
    cycles += std::max(kLeast, 0.5 * strips.height(s) * vectors);
  return cycles / vectors;
}

bool is_grouped(const WindowAxis& w) { return w.dilation == 1 && w.stride <= kInPlaceSteps; }

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Rows are short: a call of memcpy for each took a third of the copy's time.
void copy_row(const float* from, std::int64_t count, float* to) {
  constexpr std::int64_t kStep = 16;
  if (count < kStep) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (std::int64_t i = 0; i + kStep < count; i += kStep)
    std::memcpy(to + i, from + i, kStep * sizeof(float));
  std::memcpy(to + count - kStep, from + count - kStep, kStep * sizeof(float));
}

// The sequence in which panels of channels and chunks of rows are computed. Threads begin with
// equal parts of it (parallel_for): of images where there are enough, else of panels, so that each
// reads its own weights and all have as many rows, and what a thread computes is what it reads
// first in the next layer.
class WorkOrder {
 public:
  // outer: groups of all images. by_rows: threads take chunks.
  WorkOrder(std::int64_t outer, std::int64_t chunks, std::int64_t panels, int threads, bool by_rows)
      : outer_(outer),
        chunks_(chunks),
        panels_(panels),
        parts_(by_rows || outer >= threads ? 1 : std::min<std::int64_t>(threads, panels)) {}

  struct Place {
    std::int64_t outer, chunk, panel;
  };
  std::int64_t count() const { return outer_ * chunks_ * panels_; }
  // Parts of the panels, chunks, panels of the part.
  Place place(std::int64_t i) const {
    const std::int64_t outer = i / (chunks_ * panels_), at = i % (chunks_ * panels_);
    std::int64_t part = 0;
    while (at >= first(part + 1) * chunks_) ++part;
    const std::int64_t within = at - first(part) * chunks_, width = first(part + 1) - first(part);
    return {outer, within / width, first(part) + within % width};
  }

 private:
  std::int64_t first(std::int64_t part) const { return part * panels_ / parts_; }
  std::int64_t outer_, chunks_, panels_, parts_;
};

}  // namespace

// Rows [first_row, last_row) of the outputs of a panel of channels.
struct InPlaceConv::Item {
  std::int64_t image = 0, group = 0, strip = 0, first_row = 0, last_row = 0;
  int vectors = 0, last_lanes = 0;
  const float* x = nullptr;     // the group's first channel in the call's input
  const float* copy = nullptr;  // the same from row first_input on, as it is read
  std::int64_t first_input = 0;
  // The next panel's weights, asked for while this one is computed.
  const float* next = nullptr;
  std::int64_t next_count = 0;
};

InPlaceConv::InPlaceConv(const ConvGeometry& geometry, const TileSet& set, bool channels_last)
    : g_(geometry), set_(set), channels_last_(channels_last) {
  const auto& [d, h, w] = g_.window.axes;
  const std::int64_t k = g_.k(), out = g_.group_out();
  const bool flat = d.in == 1 && d.out == 1 && d.kernel == 1;
  const InPlaceTiles* tiles = nullptr;
#if defined(__x86_64__)
  tiles = set.isa >= Isa::avx512 ? &avx512::in_place_tiles() : &avx2::in_place_tiles();
#endif
  const bool served = flat && h.out > 0 && tiles != nullptr;
  // Fewer terms do not pay for turning the sums, shorter rows leave the tile's rows idle, and one
  // tap is read better packed (README.md: the measurements).
  const std::int64_t strips = vector_strips(out, set.lanes);
  // Where channels are last sums are not turned, and channels in lanes are the only way.
  const bool pays = channels_last || (k >= 256 && 10 * out >= 9 * strips * set.lanes);
  if (!served || !pays || h.kernel * w.kernel == 1 || w.out < least_row() || strips < kTwo) return;
  const int most = tiles->rows[kTwo], narrow = tiles->rows[kThree];
  // One tile of one vector reads the weights half as often as two tiles of two vectors. But an
  // accumulator waits four fma for its next one, which is all that Zen 4 needs: two tiles take 0.90
  // of the time there.
  single_ = !is_amd() && w.out > most && w.out <= tiles->rows[1];
  const bool three = narrow > 0 && strips >= kThree &&
                     1.05 * row_cycles(w.out, narrow, kThree) < row_cycles(w.out, most, kTwo);
  panel_ = three ? kThree : kTwo;
  tile_rows_ = single_ ? tiles->rows[1] : three ? narrow : most;
  const std::int64_t panel_bytes = k * panel_ * set.lanes * std::int64_t{sizeof(float)};
  if (panel_bytes > kPanelBytes)
    blocks_ = std::min(g_.group_in(), (panel_bytes + kBlockBytes - 1) / kBlockBytes);
  padded_ = touches_padding(w, 0) || touches_padding(w, w.out - 1);
  row_stride_ = (w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
  const std::int64_t unit = store_rows(h.out), units = (h.out + unit - 1) / unit;
  const std::int64_t unit_bytes =
      unit * h.stride * g_.group_in() * row_stride_ * std::int64_t{sizeof(float)};
  const std::int64_t chunk_bytes =
      out * k * std::int64_t{sizeof(float)} > kNearWeights ? kFarChunkBytes : kChunkBytes;
  const std::int64_t chunks = (units + std::max<std::int64_t>(1, chunk_bytes / unit_bytes) - 1) /
                              std::max<std::int64_t>(1, chunk_bytes / unit_bytes);
  chunk_rows_ = (units + chunks - 1) / chunks * unit;
  const std::int64_t tall = (chunk_rows_ - 1) * h.stride + (h.kernel - 1) * h.dilation + 1;
  channel_stride_ = std::min(h.in, tall) * row_stride_;
  if (channel_stride_ > (std::int64_t{1} << 31) / g_.group_in()) return;
  for (std::int64_t row = 0; row < h.out; ++row) terms_of_.push_back(add_terms(row));
  window_ = !single_ && is_grouped(w) && (w.kernel == 3 || (w.kernel == 5 && w.stride == 1));
  tiles_ = tiles;
  worthwhile_ = true;
}

// What a tile for outputs [column, column + height) of a row leaves out; whether zeros of its
// padding still count as terms.
bool InPlaceConv::leave_out(std::int64_t column, std::int64_t height, InPlaceTileCall& t) const {
  const WindowAxis& w = g_.window.axes[2];
  const bool at_left = touches_padding(w, column),
             at_right = touches_padding(w, column + height - 1);
  if (!window_) return padded_ && (at_left || at_right);
  const std::int64_t half = w.kernel / 2;
  t.columns = static_cast<int>(w.kernel);
  t.left = w.at(column, 0) == -half;
  t.right = w.stride == 1 && w.at(column + height - 1, w.kernel - 1) == w.in - 1 + half;
  // Unless what touches on either side lies in the columns that are left out.
  return padded_ && ((at_left && !t.left) || (at_right && !t.right));
}

std::int64_t InPlaceConv::add_terms(std::int64_t row) {
  const auto& [d, h, w] = g_.window.axes;
  std::int64_t begin = 0;
  while (begin < h.kernel && h.at(row, begin) < 0) ++begin;
  std::int64_t end = begin;
  while (end < h.kernel && h.at(row, end) < h.in) ++end;
  for (std::size_t i = 0; i < terms_.size(); ++i)
    if (terms_[i].begin == begin && terms_[i].end == end) return static_cast<std::int64_t>(i);
  Terms t{begin, end, {}};
  const std::int64_t most = is_grouped(w) ? kGroupTaps : 1;
  for (std::int64_t c = 0; c < g_.group_in(); ++c)
    for (std::int64_t ry = begin; ry < end; ++ry)
      for (std::int64_t rx = 0; rx < w.kernel; rx += most)
        t.groups.push_back(
            {static_cast<std::int32_t>(c * channel_stride_ +
                                       (ry - begin) * h.dilation * row_stride_ + rx * w.dilation),
             static_cast<std::int32_t>(((c * h.kernel + ry) * w.kernel + rx) * set_.lanes),
             static_cast<std::int32_t>(std::min(most, w.kernel - rx))});
  t.groups.resize(t.groups.size() + index(kGroupsAhead),
                  t.groups.empty() ? TapGroup{} : t.groups.back());
  terms_.push_back(std::move(t));
  return static_cast<std::int64_t>(terms_.size()) - 1;
}

// One pixel of a panel, with padding masked out of the sum.
void InPlaceConv::repair(const Call& call, const Item& item, std::int64_t pixel, float* to) const {
  const auto& [d, h, w] = g_.window.axes;
  const std::int64_t k = g_.k();
  float* taps = thread_scratch<float>(ScratchSlot::norms, k);
  std::uint16_t* mask = thread_scratch<std::uint16_t>(ScratchSlot::masks, k);
  const std::int64_t channel = channels_last_ ? 1 : h.in * w.in;
  const std::int64_t point = channels_last_ ? g_.in_channels : 1;
  std::int64_t i = 0;
  for (std::int64_t c = 0; c < g_.group_in(); ++c)
    for (std::int64_t ry = 0; ry < h.kernel; ++ry)
      for (std::int64_t rx = 0; rx < w.kernel; ++rx, ++i) {
        const std::int64_t y = h.at(pixel / w.out, ry), x = w.at(pixel % w.out, rx);
        const bool inside = y >= 0 && y < h.in && x >= 0 && x < w.in;
        taps[i] = inside ? item.x[c * channel + (y * w.in + x) * point] : 0.0F;
        mask[i] = inside ? 0xffff : 0;
      }
  const std::int64_t o = item.group * g_.group_out() + item.strip * set_.lanes;
  set_.masked[index(item.vectors)][1](
      {.k = k,
       .a = taps,
       .a_step = 1,
       .b = call.weights +
            (item.group * vector_strips(g_.group_out(), set_.lanes) + item.strip) * set_.lanes * k,
       .b_strip = k * set_.lanes,
       .b_step = set_.lanes,
       .c = to,
       .c_row = 0,
       .last_lanes = item.last_lanes,
       .lane_bias = call.bias == nullptr ? nullptr : call.bias + o,
       .mask = mask});
}

// Lines of the next panel's weights, a share by each tile of this one.
void InPlaceConv::ask_panel(const Item& item, std::int64_t tile, InPlaceTileCall& t) const {
  const std::int64_t share = t.count * kLine;
  if (tile * share >= item.next_count) return;
  t.next = item.next + tile * share;
  t.next_step = kLine;
}

// Likewise of the next block of channels, which lies apart in each of a panel's vectors; after the
// last block of some rows comes the first of the next ones, or of the next panel.
void InPlaceConv::ask_block(const float* panel, const float* then, std::int64_t block,
                            std::int64_t tile, int vectors, InPlaceTileCall& t) const {
  const auto& [d, h, w] = g_.window.axes;
  const bool ends = block + 1 == blocks_;
  const std::int64_t first = ends ? 0 : (block + 1) * g_.group_in() / blocks_;
  const std::int64_t last = (ends ? 1 : block + 2) * g_.group_in() / blocks_;
  const std::int64_t of_channel = h.kernel * w.kernel * set_.lanes, share = t.count * kLine;
  if (share == 0) return;
  const std::int64_t shares = ((last - first) * of_channel + share - 1) / share;  // of a vector
  if (tile >= shares * vectors) return;
  t.next = (ends ? then : panel) + tile / shares * g_.k() * set_.lanes + first * of_channel +
           tile % shares * share;
  t.next_step = kLine;
}

// Sums of rows [first, last) of outputs, [pixel][channel] at `sums`, pixels sums_row apart.
void InPlaceConv::add_rows(const Call& call, const Item& item, std::int64_t first,
                           std::int64_t last, float* sums, std::int64_t sums_row) const {
  const auto& [d, h, w] = g_.window.axes;
  const std::int64_t k = g_.k(), out = g_.group_out();
  const std::int64_t o = item.group * out + item.strip * set_.lanes;
  const RowStrips strips(w.out, tile_rows_);
  const InPlaceTiles::Rows& tiles = tiles_->of[is_grouped(w) ? index(w.stride) : 0];
  const std::int64_t channels = g_.group_in(), rows = last - first;
  const float* panel =
      call.weights + (item.group * vector_strips(out, set_.lanes) + item.strip) * set_.lanes * k;
  for (std::int64_t i = 0; i < blocks_ * rows; ++i) {
    const std::int64_t block = i / rows, row = first + i % rows;
    const bool ends = block + 1 == blocks_;
    const Terms& terms = terms_[index(terms_of_[index(row)])];
    const std::int64_t of_channel =
        (static_cast<std::int64_t>(terms.groups.size()) - kGroupsAhead) /
        std::max<std::int64_t>(1, channels);
    const std::int64_t begin = block * channels / blocks_ * of_channel;
    const std::int64_t count = (block + 1) * channels / blocks_ * of_channel - begin;
    const std::int64_t input = (h.at(row, terms.begin) - item.first_input) * row_stride_;
    for (std::int64_t s = 0; s < strips.count; ++s) {
      const std::int64_t column = strips.first(s);
      const int height = strips.height(s);
      float* to = sums + ((row - first) * w.out + column) * sums_row;
      InPlaceTileCall t{.count = count,
                        .groups = terms.groups.data() + begin,
                        .x = item.copy + input + column * w.stride,
                        .x_step = w.stride,
                        .w = panel,
                        .w_vector = k * set_.lanes,
                        .bias = call.bias == nullptr || !ends ? nullptr : call.bias + o,
                        .resume = block > 0,
                        .y = to,
                        .y_row = sums_row,
                        .last_lanes = item.last_lanes,
                        .ask_outputs = channels_last_ && call.kernel->finished != nullptr};
      const bool touches = leave_out(column, height, t) && ends;
      t.report_zero = touches;
      if (blocks_ == 1)
        ask_panel(item, (row - item.first_row) * strips.count + s, t);
      else
        ask_block(panel, last == item.last_row ? item.next : panel, block,
                  i % rows * strips.count + s, item.vectors, t);
      std::uint32_t again = 0;
      if (single_) {
        for (int v = 0; v < item.vectors; ++v) {
          InPlaceTileCall one = t;
          one.w += v * t.w_vector;
          one.y += v * set_.lanes;
          if (one.bias != nullptr) one.bias += v * set_.lanes;
          if (v + 1 < item.vectors) one.last_lanes = set_.lanes;
          if (v > 0) one.next_step = 0;
          again |= tiles[1][index(height)](one);
        }
      } else {
        again = tiles[index(item.vectors)][index(height)](t);
      }
      if (touches && !call.finite_weights) again = (1U << height) - 1U;
      for (int r = 0; again >> r != 0; ++r)
        if ((again >> r & 1U) != 0 && touches_padding(w, column + r))
          repair(call, item, row * w.out + column + r, to + r * sums_row);
    }
  }
}

void InPlaceConv::run_item(const Call& call, const Item& item) const {
  if (channels_last_) return run_item_last(call, item);
  const std::int64_t pixels = g_.window.out_points(), out_width = g_.window.axes[2].out;
  const std::int64_t width = panel_ * set_.lanes;
  const std::int64_t channel =
      item.image * g_.out_channels + item.group * g_.group_out() + item.strip * set_.lanes;
  const std::int64_t channels = (item.vectors - 1) * set_.lanes + item.last_lanes;
  float* y = call.y + channel * pixels;
  const std::int64_t rows_at_once = store_rows(item.last_row - item.first_row);
  float* sums = thread_scratch<float>(ScratchSlot::tile, rows_at_once * out_width * width);
  for (std::int64_t row = item.first_row; row < item.last_row; row += rows_at_once) {
    const std::int64_t last = std::min(item.last_row, row + rows_at_once);
    add_rows(call, item, row, last, sums, width);
    const std::int64_t first = row * out_width, count = (last - row) * out_width;
    for (std::int64_t at = 0; at < count; at += set_.lanes)
      for (int v = 0; v < item.vectors; ++v) {
        const float* from = sums + at * width + v * set_.lanes;
        float* to = y + v * set_.lanes * pixels + first + at;
        const int valid = v == item.vectors - 1 ? item.last_lanes : set_.lanes;
        const int tall = static_cast<int>(std::min<std::int64_t>(set_.lanes, count - at));
        if (tall == set_.lanes && valid == set_.lanes)
          tiles_->square(from, width, to, pixels);
        else
          set_.store_transposed(from, width, tall, valid, to, pixels);
      }
    if (call.kernel->finished != nullptr)
      (*call.kernel->finished)(
          {.begin = channel * pixels + first, .count = count, .rows = channels, .stride = pixels});
  }
}

// The same into [pixel][channel]: whole vectors of channels are stored by the tiles themselves, a
// line once.
void InPlaceConv::run_item_last(const Call& call, const Item& item) const {
  const std::int64_t out_width = g_.window.axes[2].out, width = panel_ * set_.lanes;
  const std::int64_t channel = item.group * g_.group_out() + item.strip * set_.lanes;
  const std::int64_t channels = (item.vectors - 1) * set_.lanes + item.last_lanes;
  const std::int64_t image = item.image * g_.window.out_points();
  // Whoever follows finds a row of outputs in the first cache.
  const std::int64_t rows_at_once = blocks_ == 1 ? 1 : store_rows(item.last_row - item.first_row);
  for (std::int64_t row = item.first_row; row < item.last_row; row += rows_at_once) {
    const std::int64_t last = std::min(item.last_row, row + rows_at_once);
    const std::int64_t count = (last - row) * out_width;
    const std::int64_t begin = (image + row * out_width) * g_.out_channels + channel;
    float* y = call.y + begin;
    if (item.last_lanes == set_.lanes) {
      add_rows(call, item, row, last, y, g_.out_channels);
    } else {
      float* sums = thread_scratch<float>(ScratchSlot::tile, count * width);
      add_rows(call, item, row, last, sums, width);
      for (std::int64_t i = 0; i < count; ++i)
        std::copy_n(sums + i * width, channels, y + i * g_.out_channels);
    }
    if (call.kernel->finished != nullptr)
      (*call.kernel->finished)(
          {.begin = begin, .count = channels, .rows = count, .stride = g_.out_channels});
  }
}

// Rows of outputs whose sums are turned and stored together: whole vectors of pixels where rows
// allow it. Stores of a row's pieces as the tiles leave them wait for each other: a line is
// then written twice, and the next tile's loads are held up by stores that share their lowest bits.
std::int64_t InPlaceConv::store_rows(std::int64_t rows) const {
  constexpr std::int64_t kPixels = 96;
  const std::int64_t width = g_.window.axes[2].out;
  const std::int64_t whole = set_.lanes / std::gcd<std::int64_t>(set_.lanes, width);
  const std::int64_t unit = std::max<std::int64_t>(1, whole * width);
  return std::min(rows, (kPixels + unit - 1) / unit * whole);
}

// `count` pixels of all channels to a row of each channel.
void InPlaceConv::turn_row(const float* from, std::int64_t count, float* to) const {
  const std::int64_t lanes = set_.lanes, channels = g_.group_in();
  if (channels == 3 && g_.in_channels == 3) return tiles_->three(from, count, to, channel_stride_);
  if (channels < lanes) {  // a vector of channels would end behind the image
    for (std::int64_t p = 0; p < count; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        to[c * channel_stride_ + p] = from[p * g_.in_channels + c];
    return;
  }
  const auto tall = static_cast<int>(std::min(lanes, count));
  // The last square takes some of those before once more, so that it is whole.
  for (std::int64_t p = 0; p < count; p += lanes)
    for (std::int64_t c = 0; c < channels; c += lanes) {
      const std::int64_t pixel = std::max<std::int64_t>(0, std::min(p, count - lanes));
      const std::int64_t channel = std::min(c, channels - lanes);
      const float* square = from + pixel * g_.in_channels + channel;
      float* rows = to + channel * channel_stride_ + pixel;
      if (tall == lanes)
        tiles_->square(square, g_.in_channels, rows, channel_stride_);
      else
        set_.store_transposed(square, g_.in_channels, tall, set_.lanes, rows, channel_stride_);
    }
}

// Rows of the input that outputs [first_row, last_row) read, with padding to the left and right, to
// `to`; returns the first of them.
std::int64_t InPlaceConv::copy_rows(const float* x, std::int64_t first_row, std::int64_t last_row,
                                    float* to) const {
  const auto& [d, h, w] = g_.window.axes;
  const std::int64_t first = std::clamp<std::int64_t>(h.at(first_row, 0), 0, h.in);
  const std::int64_t last =
      std::clamp<std::int64_t>(h.at(last_row - 1, h.kernel - 1) + 1, first, h.in);
  const std::int64_t begin = std::min(w.pad_begin, row_stride_);
  const std::int64_t count = std::clamp<std::int64_t>(row_stride_ - begin, 0, w.in);
  for (std::int64_t c = 0; c < g_.group_in(); ++c)
    for (std::int64_t row = first; row < last; ++row) {
      float* at = to + c * channel_stride_ + (row - first) * row_stride_;
      std::fill_n(at, begin, 0.0F);
      if (!channels_last_) copy_row(x + (c * h.in + row) * w.in, count, at + begin);
      std::fill_n(at + begin + count, row_stride_ - begin - count, 0.0F);
    }
  if (channels_last_)
    for (std::int64_t row = first; row < last; ++row)
      turn_row(x + row * w.in * g_.in_channels, count, to + (row - first) * row_stride_ + begin);
  return first;
}

// Rows of a chunk, so that there are as many chunks for each thread: whole runs of rows that are
// stored together, unless a thread would have more than its part of those. Where two threads meet
// they then write one line of each channel in turn.
std::int64_t InPlaceConv::even_rows(std::int64_t threads) const {
  const std::int64_t rows = g_.window.axes[1].out, unit = channels_last_ ? 1 : store_rows(rows);
  const auto up = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
  const std::int64_t even = up(up(rows, chunk_rows_), threads) * threads;
  const std::int64_t whole = std::min(chunk_rows_, up(up(rows, unit), even) * unit);
  const std::int64_t most = std::min(rows, up(up(rows, whole), threads) * whole);
  return static_cast<double>(most * threads) > kUnevenRows * static_cast<double>(rows)
             ? up(rows, even)
             : whole;
}

void InPlaceConv::run(const Call& call) const {
  // The rows that this thread has copied: it keeps them from one range of the loop to the next.
  struct Held {
    std::uint64_t run = 0;
    std::int64_t chunk = -1, first_input = 0;
  };
  static std::atomic<std::uint64_t> runs{0};
  const std::uint64_t run = runs.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::int64_t out = g_.group_out(), strips = vector_strips(out, set_.lanes);
  const RowStrips panels(strips, panel_);
  const std::int64_t rows = g_.window.axes[1].out;
  const std::int64_t outer = g_.batch * g_.groups;
  // Threads take images, else panels, or chunks of rows where those give them more equal parts.
  const std::int64_t threads = call.threads, even = even_rows(threads);
  std::int64_t chunk_rows = chunk_rows_;
  bool by_rows = rows % (threads * chunk_rows) == 0;
  if (outer >= threads) {
    if (outer * panels.count % threads != 0) chunk_rows = even;
  } else if (!by_rows) {
    const auto share = [&](std::int64_t of_one, std::int64_t of_all) {
      return static_cast<double>(of_one * threads) / static_cast<double>(of_all);
    };
    const auto up = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
    const double of_panels = share(up(panels.count, threads) * panel_, strips);
    const std::int64_t most_rows = up(up(rows, even), threads) * even;
    by_rows = of_panels > kUneven && share(std::min(most_rows, rows), rows) < of_panels;
    if (by_rows) chunk_rows = even;
    // Rows that a thread computed in the layer before lie in its own caches, those of the other
    // one come from there; a copy of all its rows is walked by all panels.
    const std::int64_t part = rows / threads;
    if (!by_rows && threads > 1 && rows % threads == 0 && part >= kFewestRows &&
        part <= chunk_rows_) {
      by_rows = true;
      chunk_rows = part;
    }
  }
  const std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  const WorkOrder order(outer, chunks, panels.count, call.threads, by_rows);
  parallel_for(order.count(), call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* copy = kept_scratch<float>(ScratchSlot::padded, g_.group_in() * channel_stride_);
    thread_local Held held;
    for (std::int64_t i = begin; i < end; ++i) {
      const WorkOrder::Place at = order.place(i);
      const std::int64_t group = at.outer % g_.groups, image = at.outer / g_.groups;
      const std::int64_t first_row = at.chunk * chunk_rows;
      const std::int64_t last_row = std::min(rows, first_row + chunk_rows);
      const float* x = call.x + image * g_.in_channels * g_.window.in_points() +
                       group * g_.group_in() * (channels_last_ ? 1 : g_.window.in_points());
      const std::int64_t wanted = at.outer * chunks + at.chunk;
      if (held.run != run || held.chunk != wanted)
        held = {run, wanted, copy_rows(x, first_row, last_row, copy)};
      const std::int64_t strip = panels.first(at.panel);
      const int vectors = panels.height(at.panel);
      const std::int64_t lane = (strip + vectors - 1) * set_.lanes;
      // The next panel's weights, if it is one of this group.
      const WorkOrder::Place then = i + 1 < end ? order.place(i + 1) : at;
      const std::int64_t next = panels.first(then.panel);
      const bool more = i + 1 < end && then.outer % g_.groups == group;
      run_item(call,
               {.image = image,
                .group = group,
                .strip = strip,
                .first_row = first_row,
                .last_row = last_row,
                .vectors = vectors,
                .last_lanes = static_cast<int>(std::min<std::int64_t>(set_.lanes, out - lane)),
                .x = x,
                .copy = copy,
                .first_input = held.first_input,
                .next = call.weights + (group * strips + next) * set_.lanes * g_.k(),
                .next_count = more ? panels.height(then.panel) * set_.lanes * g_.k() : 0});
    }
  });
}

}  // namespace etalon
