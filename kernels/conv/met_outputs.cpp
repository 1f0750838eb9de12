#include "kernels/conv/met_outputs.h"

#include <algorithm>

#include "engine/backend/announce.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"

namespace etalon {
namespace {

bool is_met(const WindowAxis& a, std::int64_t o) {
  for (std::int64_t r = 0; r < a.kernel; ++r)
    if (a.at(o, r) >= 0 && a.at(o, r) < a.in) return true;
  return false;
}

}  // namespace

MetOutputs::MetOutputs(const ConvGeometry& g, bool cuts_input) : met_(g), whole_(g.window) {
  const bool one_tap = cuts_input && g.window.taps() == 1;
  for (std::size_t i = 0; i < kMaxSpatial; ++i) {
    WindowAxis& a = met_.window.axes[i];
    std::int64_t first = 0, last = a.out;
    while (first < last && !is_met(a, first)) ++first;
    while (last > first && !is_met(a, last - 1)) --last;
    // Padding cut to less than none is an input cut short, which only a single tap's sample is
    // read from. Elsewhere the box keeps an output that meets nothing.
    if (!one_tap && first * a.stride > a.pad_begin)
      first = std::max<std::int64_t>(0, a.pad_begin / a.stride);
    all_ = all_ && first == 0 && last == a.out;
    first_[i] = first;
    a.pad_begin -= first * a.stride;
    a.out = std::max<std::int64_t>(0, last - first);
    if (a.out > 0) a.pad_end = std::max<std::int64_t>(0, a.at(a.out - 1, a.kernel - 1) - a.in + 1);
  }
}

std::int64_t MetOutputs::whole(std::int64_t at) const {
  const WindowAxis &h = whole_.axes[1], &w = whole_.axes[2];
  const auto& [box_d, box_h, box_w] = met_.window.axes;
  const std::int64_t x = at % box_w.out, y = at / box_w.out % box_h.out,
                     z = at / box_w.out / box_h.out % box_d.out,
                     channel = at / met_.window.out_points();
  return channel * whole_.out_points() + ((z + first_[0]) * h.out + y + first_[1]) * w.out + x +
         first_[2];
}

void MetOutputs::place(const float* part, const KernelCall& call) const {
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  const auto& [d, h, w] = whole_.axes;
  const auto& [box_d, box_h, box_w] = met_.window.axes;
  const std::int64_t points = whole_.out_points(), box_points = met_.window.out_points();
  const bool empty = box_points == 0;
  parallel_for(met_.batch * met_.out_channels, call.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 Announcer announcer(call);
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float unmet =
                       canonical(0.0F + (bias == nullptr ? 0.0F : bias[i % met_.out_channels]));
                   const float* from = part + i * box_points;
                   float* to = y + i * points;
                   for (std::int64_t z = 0; z < d.out; ++z)
                     for (std::int64_t row = 0; row < h.out; ++row, to += w.out) {
                       const bool in_box = !empty && z >= first_[0] && z < first_[0] + box_d.out &&
                                           row >= first_[1] && row < first_[1] + box_h.out;
                       if (!in_box) {
                         std::fill_n(to, w.out, unmet);
                         continue;
                       }
                       std::fill_n(to, first_[2], unmet);
                       std::copy_n(from, box_w.out, to + first_[2]);
                       std::fill(to + first_[2] + box_w.out, to + w.out, unmet);
                       from += box_w.out;
                     }
                   announcer.add(i * points, points);
                 }
                 announcer.flush();
               });
}

}  // namespace etalon
