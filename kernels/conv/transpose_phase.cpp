#include "kernels/conv/transpose_phase.h"

#include <algorithm>
#include <numeric>

#include "engine/core/threads.h"
#include "engine/ops/conv.h"

namespace etalon {
namespace {

AxisPhase axis_phase(const WindowAxis& a, std::int64_t f) {
  const std::int64_t g = std::gcd(a.stride, a.dilation);
  AxisPhase p{.first_output = f, .stride = a.stride, .tap_step = a.stride / g};
  std::int64_t r = 0;
  while (r < std::min(p.tap_step, a.kernel) && (f + a.pad_begin - r * a.dilation) % a.stride != 0)
    ++r;
  if (r >= std::min(p.tap_step, a.kernel)) return p;
  p.first_tap = r;
  p.taps = (a.kernel - 1 - r) / p.tap_step + 1;
  p.dilation = a.dilation / g;
  const std::int64_t b = (f + a.pad_begin - r * a.dilation) / a.stride;
  const std::int64_t reach = (p.taps - 1) * p.dilation;
  p.j_begin = std::max<std::int64_t>(0, -b);
  p.j_end = std::min((a.out - f + a.stride - 1) / a.stride, a.in - b + reach);
  if (p.outputs() == 0) return p;
  p.turned = p.taps > 1;
  const std::int64_t behind = p.turned ? p.j_end + b - a.in : 0,
                     before = p.turned ? reach - p.j_begin - b : 0;
  p.pad_begin = std::max<std::int64_t>(0, behind);
  p.pad_end = std::max<std::int64_t>(0, before);
  p.input_begin = p.turned ? std::max<std::int64_t>(0, -before) : p.j_begin + b;
  p.input_end = p.turned ? a.in - std::max<std::int64_t>(0, -behind) : p.j_end + b;
  return p;
}

Shape with_spatial(std::int64_t n, std::int64_t c, const ConvTransposeGeometry& g,
                   const std::array<std::int64_t, kMaxSpatial>& extents) {
  Ints dims{n, c};
  for (int i = kMaxSpatial - g.window.spatial; i < kMaxSpatial; ++i)
    dims.push_back(extents[static_cast<std::size_t>(i)]);
  return Shape(std::span(dims));
}

}  // namespace

std::vector<TransposePhase> transpose_phases(const Problem& problem,
                                             const ConvTransposeGeometry& g) {
  std::vector<TransposePhase> out;
  const auto& [d, h, w] = g.window.axes;
  for (std::int64_t fz = 0; fz < std::min(d.stride, d.out); ++fz)
    for (std::int64_t fy = 0; fy < std::min(h.stride, h.out); ++fy)
      for (std::int64_t fx = 0; fx < std::min(w.stride, w.out); ++fx) {
        TransposePhase p;
        p.axes = {axis_phase(d, fz), axis_phase(h, fy), axis_phase(w, fx)};
        if (p.outputs() == 0) continue;
        ConvParams params;
        params.groups = g.groups;
        std::array<std::int64_t, kMaxSpatial> in{}, taps{}, to{};
        for (std::size_t i = 0; i < kMaxSpatial; ++i) {
          const AxisPhase& a = p.axes[i];
          in[i] = a.inputs();
          taps[i] = a.taps;
          to[i] = a.outputs();
          if (static_cast<int>(i) < kMaxSpatial - g.window.spatial) continue;
          params.strides.push_back(1);
          params.dilations.push_back(a.dilation);
          params.pads_begin.push_back(a.pad_begin);
          params.pads_end.push_back(a.pad_end);
        }
        p.params = Params(params);
        p.inputs = {
            {.type = {problem.input(0).dtype, with_spatial(g.batch, g.in_channels, g, in)},
             .given = true},
            {.type = {problem.input(1).dtype, with_spatial(g.out_channels, g.group_in(), g, taps)},
             .given = true}};
        if (problem.has(2)) p.inputs.push_back(problem.inputs[2]);
        p.output = {
            TensorType{problem.outputs[0].dtype, with_spatial(g.batch, g.out_channels, g, to)}};
        out.push_back(std::move(p));
      }
  return out;
}

namespace {

// Elements are moved as they are: calls f with an unsigned type of their width.
template <class F>
void with_width(DType type, const F& f) {
  switch (size_bytes(type)) {
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}
template <class T>
const T* elements(const Tensor& t) {
  return reinterpret_cast<const T*>(t.bytes().data());
}
template <class T>
T* mutable_elements(Tensor& t) {
  return reinterpret_cast<T*>(t.mutable_bytes().data());
}

}  // namespace

std::vector<std::int64_t> present_terms(const TransposePhase& p, const ConvTransposeGeometry& g,
                                        const Walk& walk) {
  const auto& [d, h, w] = g.window.axes;
  const auto is_there = [](const AxisPhase& a, std::int64_t r) {
    return r >= a.first_tap && (r - a.first_tap) % a.tap_step == 0 &&
           (r - a.first_tap) / a.tap_step < a.taps;
  };
  const std::int64_t channels = g.group_in();
  const std::int64_t block = walk.kind == Walk::Kind::crs   ? 1
                             : walk.kind == Walk::Kind::rsc ? std::max<std::int64_t>(1, channels)
                                                            : walk.channels;
  std::vector<std::int64_t> index;
  std::int64_t there = 0;
  for (std::int64_t c0 = 0; c0 < channels; c0 += std::min(block, channels - c0))
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry)
        for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
          const bool is =
              is_there(p.axes[0], rz) && is_there(p.axes[1], ry) && is_there(p.axes[2], rx);
          for (std::int64_t c = c0; c < c0 + std::min(block, channels - c0); ++c)
            index.push_back(is ? there++ : -1);
        }
  return index;
}

Tensor phase_weights(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& w) {
  Tensor out = Tensor::uninitialized(w.dtype(), p.inputs[1].type.shape);
  with_width(w.dtype(), [&](auto width) {
    using T = decltype(width);
    const T* source = elements<T>(w);
    T* to = mutable_elements<T>(out);
    const auto& [d, h, x] = g.window.axes;
    const auto& [pd, ph, px] = p.axes;
    for (std::int64_t o = 0; o < g.out_channels; ++o)
      for (std::int64_t c = 0; c < g.group_in(); ++c) {
        const std::int64_t channel = o / g.group_out() * g.group_in() + c;
        const T* from = source + (channel * g.group_out() + o % g.group_out()) * g.window.taps();
        for (std::int64_t rz = 0; rz < pd.taps; ++rz)
          for (std::int64_t ry = 0; ry < ph.taps; ++ry)
            for (std::int64_t rx = 0; rx < px.taps; ++rx)
              *to++ = from[((pd.first_tap + rz * pd.tap_step) * h.kernel + ph.first_tap +
                            ry * ph.tap_step) *
                               x.kernel +
                           px.first_tap + rx * px.tap_step];
      }
  });
  return out;
}

Tensor phase_input(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& x,
                   int threads) {
  const auto& [d, h, w] = g.window.axes;
  const auto& [pd, ph, pw] = p.axes;
  const bool whole = pd.inputs() == d.in && ph.inputs() == h.in && pw.inputs() == w.in;
  if (whole && !pd.turned && !ph.turned && !pw.turned) return x.share();
  Tensor out = Tensor::uninitialized(x.dtype(), p.inputs[0].type.shape);
  const auto at = [](const AxisPhase& a, std::int64_t i) {
    return a.turned ? a.input_end - 1 - i : a.input_begin + i;
  };
  const std::int64_t planes = pd.inputs(), rows = ph.inputs(), columns = pw.inputs();
  with_width(x.dtype(), [&](auto width) {
    using T = decltype(width);
    const T* from = elements<T>(x);
    T* to = mutable_elements<T>(out);
    parallel_for(g.batch * g.in_channels * planes * rows, threads, 64,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t y = i % rows, z = i / rows % planes,
                                        c = i / (rows * planes);
                     const T* row = from + ((c * d.in + at(pd, z)) * h.in + at(ph, y)) * w.in;
                     T* copy = to + i * columns;
                     if (pw.turned)
                       std::reverse_copy(row + pw.input_begin, row + pw.input_end, copy);
                     else
                       std::copy(row + pw.input_begin, row + pw.input_end, copy);
                   }
                 });
  });
  return out;
}

void place_phase(const TransposePhase& p, const ConvTransposeGeometry& g, const Tensor& part,
                 Tensor& all, int threads) {
  const auto& [d, h, w] = g.window.axes;
  const auto& [pd, ph, pw] = p.axes;
  const auto at = [](const AxisPhase& a, std::int64_t i) {
    return a.first_output + a.stride * (a.turned ? a.j_end - 1 - i : a.j_begin + i);
  };
  const std::int64_t planes = pd.outputs(), rows = ph.outputs(), columns = pw.outputs();
  const std::int64_t first = at(pw, 0), step = pw.turned ? -pw.stride : pw.stride;
  with_width(part.dtype(), [&](auto width) {
    using T = decltype(width);
    const T* from = elements<T>(part);
    T* to = mutable_elements<T>(all);
    parallel_for(g.batch * g.out_channels * planes * rows, threads, 64,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t y = i % rows, z = i / rows % planes,
                                        c = i / (rows * planes);
                     const T* row = from + i * columns;
                     T* place = to + ((c * d.out + at(pd, z)) * h.out + at(ph, y)) * w.out + first;
                     for (std::int64_t k = 0; k < columns; ++k) place[k * step] = row[k];
                   }
                 });
  });
}

}  // namespace etalon
