#include "kernels/conv/images.h"

#include <algorithm>

#include "engine/core/threads.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

constexpr int kPanel = 2;  // vectors of channels of a tile
// Of what the other ways compute, lanes without a channel counted, at most so much.
constexpr double kMostShare = 0.75;
constexpr std::size_t kMostTerms = std::size_t{1} << 18;  // of all places, 3 MiB
// Inputs that are copied at a time.
constexpr std::int64_t kCopyBytes = 1 << 20;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

// A panel of channels of a strip of images.
struct ImagesConv::Item {
  std::int64_t group = 0, strip = 0;  // of channels
  int vectors = 0, last_lanes = 0;
  const float* copy = nullptr;
  std::int64_t image = 0;  // the first one
  int images = 0;
};

ImagesConv::ImagesConv(const ConvGeometry& geometry, const TileSet& set) : g_(geometry), set_(set) {
  const auto& [d, h, w] = g_.window.axes;
#if defined(__x86_64__)
  tiles_ = set.isa >= Isa::avx512 ? &avx512::in_place_tiles() : &avx2::in_place_tiles();
#endif
  const bool flat = d.in == 1 && d.out == 1 && d.kernel == 1;
  if (tiles_ == nullptr || !flat || h.out == 0 || h.kernel * w.kernel == 1) return;
  most_ = tiles_->rows[kPanel];
  const std::int64_t out = g_.group_out(), places = h.out * w.out, points = h.in * w.in;
  const std::int64_t strips = vector_strips(out, set.lanes);
  if (2 * g_.batch < most_ || strips < kPanel ||
      points > (std::int64_t{1} << 31) / (most_ * std::max<std::int64_t>(1, g_.group_in())))
    return;
  const auto inside = [](const WindowAxis& a, std::int64_t o) {
    std::int64_t taps = 0;
    for (std::int64_t k = 0; k < a.kernel; ++k)
      taps += a.at(o, k) >= 0 && a.at(o, k) < a.in ? 1 : 0;
    return taps;
  };
  std::int64_t high = 0, wide = 0;
  for (std::int64_t o = 0; o < h.out; ++o) high += inside(h, o);
  for (std::int64_t o = 0; o < w.out; ++o) wide += inside(w, o);
  const double share = static_cast<double>(high * wide * strips * set.lanes) /
                       static_cast<double>(places * h.kernel * w.kernel * out);
  if (share > kMostShare || index(high * wide * g_.group_in()) > kMostTerms) return;
  for (std::int64_t place = 0; place < places; ++place) {
    std::vector<TapGroup>& terms = terms_.emplace_back();
    for (std::int64_t c = 0; c < g_.group_in(); ++c)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
          const std::int64_t y = h.at(place / w.out, ry), x = w.at(place % w.out, rx);
          if (y < 0 || y >= h.in || x < 0 || x >= w.in) continue;
          terms.push_back(
              {.x = static_cast<std::int32_t>((c * points + y * w.in + x) * most_),
               .w = static_cast<std::int32_t>(((c * h.kernel + ry) * w.kernel + rx) * set.lanes)});
        }
    terms.resize(terms.size() + index(kGroupsAhead), terms.empty() ? TapGroup{} : terms.back());
  }
  worthwhile_ = true;
}

// x[image][point] to to[point][most_].
void ImagesConv::copy_strip(const float* x, int images, float* to) const {
  const std::int64_t size = g_.in_channels * g_.window.in_points();
  constexpr std::int64_t kRun = 16;  // points: lines of x and of the copy stay while they fill
  for (std::int64_t first = 0; first < size; first += kRun) {
    const std::int64_t last = std::min(size, first + kRun);
    for (int image = 0; image < images; ++image)
      for (std::int64_t i = first; i < last; ++i) to[i * most_ + image] = x[image * size + i];
  }
}

void ImagesConv::run_item(const Call& call, const Item& item) const {
  const std::int64_t k = g_.k(), out = g_.group_out(), places = g_.window.out_points();
  const std::int64_t width = std::int64_t{kPanel} * set_.lanes, apart = item.images * width;
  const std::int64_t o = item.group * out + item.strip * set_.lanes;
  float* sums = thread_scratch<float>(ScratchSlot::tile, places * apart);
  const InPlaceTile tile = tiles_->of[1][index(item.vectors)][index(item.images)];
  for (std::int64_t place = 0; place < places; ++place) {
    const std::vector<TapGroup>& terms = terms_[index(place)];
    tile({.count = static_cast<std::int64_t>(terms.size()) - kGroupsAhead,
          .groups = terms.data(),
          .x = item.copy + item.group * g_.group_in() * g_.window.in_points() * most_,
          .w = call.weights +
               (item.group * vector_strips(out, set_.lanes) + item.strip) * set_.lanes * k,
          .w_vector = k * set_.lanes,
          .bias = call.bias == nullptr ? nullptr : call.bias + o,
          .y = sums + place * apart,
          .y_row = width,
          .last_lanes = item.last_lanes});
  }
  const std::int64_t channels = (item.vectors - 1) * set_.lanes + item.last_lanes;
  for (int image = 0; image < item.images; ++image) {
    const std::int64_t begin = ((item.image + image) * g_.out_channels + o) * places;
    for (std::int64_t at = 0; at < places; at += set_.lanes)
      for (int v = 0; v < item.vectors; ++v)
        set_.store_transposed(sums + at * apart + image * width + v * set_.lanes, apart,
                              static_cast<int>(std::min<std::int64_t>(set_.lanes, places - at)),
                              v == item.vectors - 1 ? item.last_lanes : set_.lanes,
                              call.y + begin + v * set_.lanes * places + at, places);
    if (call.kernel->finished != nullptr)
      (*call.kernel->finished)(
          {.begin = begin, .count = places, .rows = channels, .stride = places});
  }
}

void ImagesConv::run(const Call& call) const {
  const std::int64_t out = g_.group_out(), size = g_.in_channels * g_.window.in_points();
  const RowStrips panels(vector_strips(out, set_.lanes), kPanel);
  const RowStrips all(g_.batch, most_);
  const std::int64_t bytes = std::max<std::int64_t>(1, size * most_ * std::int64_t{sizeof(float)});
  const std::int64_t at_once = std::clamp<std::int64_t>(kCopyBytes / bytes, 1, all.count);
  for (std::int64_t first = 0; first < all.count; first += at_once) {
    const std::int64_t strips = std::min(at_once, all.count - first);
    float* copy = thread_scratch<float>(ScratchSlot::padded, strips * size * most_);
    parallel_for(strips, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s)
        copy_strip(call.x + all.first(first + s) * size, all.height(first + s),
                   copy + s * size * most_);
    });
    const std::int64_t of_group = panels.count * strips;
    parallel_for(g_.groups * of_group, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t panel = i % of_group / strips, s = i % strips;
        const std::int64_t strip = panels.first(panel);
        const int vectors = panels.height(panel);
        const std::int64_t lane = (strip + vectors - 1) * set_.lanes;
        run_item(call,
                 {.group = i / of_group,
                  .strip = strip,
                  .vectors = vectors,
                  .last_lanes = static_cast<int>(std::min<std::int64_t>(set_.lanes, out - lane)),
                  .copy = copy + s * size * most_,
                  .image = all.first(first + s),
                  .images = all.height(first + s)});
      }
    });
  }
}

}  // namespace etalon
