#include "kernels/conv/depthwise.h"

#include <algorithm>

#include "engine/backend/announce.h"
#include "engine/backend/pointwise.h"
#include "engine/core/threads.h"
#include "kernels/conv/tap_rows.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {
namespace {

// Where a tap of one axis finds the input of output o: in the plane of remainder `phase`, at
// o + shift.
struct TapAt {
  std::int64_t phase, shift;
};
TapAt tap_at(const WindowAxis& a, std::int64_t r) {
  const std::int64_t at = a.at(0, r);
  const std::int64_t phase = (at % a.stride + a.stride) % a.stride;
  return {phase, (at - phase) / a.stride};
}

// Coordinates of the input with this remainder.
std::int64_t count_of(const WindowAxis& a, std::int64_t phase) {
  return std::max<std::int64_t>(0, (a.in - phase + a.stride - 1) / a.stride);
}

std::vector<std::int64_t> phases_of(const WindowAxis& a) {
  std::vector<std::int64_t> phases;
  for (std::int64_t r = 0; r < a.kernel; ++r) phases.push_back(tap_at(a, r).phase);
  std::ranges::sort(phases);
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  return phases;
}

bool inside(const WindowAxis& a, std::int64_t o, std::int64_t r) {
  const std::int64_t i = a.at(o, r);
  return i >= 0 && i < a.in;
}

}  // namespace

WindowRows::WindowRows(const ConvGeometry& geometry, int vector_lanes)
    : g(geometry), k(g.window.taps()), pixels(g.window.out_points()), lanes_(vector_lanes) {
  const auto& [d, h, w] = g.window.axes;
  rows_ = h.out;
  columns_ = w.out;
  std::int64_t depth = 0;
  for (const std::int64_t pd : phases_of(d))
    for (const std::int64_t ph : phases_of(h))
      for (const std::int64_t pw : phases_of(w)) {
        planes_.push_back({{pd, ph, pw}, {count_of(d, pd), count_of(h, ph), count_of(w, pw)}});
        depth = std::max(depth, planes_.back().count[0]);
        rows_ = std::max(rows_, planes_.back().count[1]);
        columns_ = std::max(columns_, planes_.back().count[2]);
      }
  plane_size_ = depth * rows_ * columns_;
  const bool flat = d.in == 1 && d.out == 1;
  in_place_ = d.stride == 1 && h.stride == 1 && w.stride == 1 && columns_ == w.in &&
              (flat || rows_ == h.in);
  direct_ = columns_ == w.out && (d.out == 1 || rows_ == h.out);
  if (pixels == 0) return;

  // Planes are in the order of phases, w innermost, so that an offset is a sum over the axes.
  const auto place = [](const std::vector<std::int64_t>& phases, std::int64_t phase) {
    return std::ranges::find(phases, phase) - phases.begin();
  };
  const auto pd = phases_of(d), ph = phases_of(h), pw = phases_of(w);
  for (std::int64_t rz = 0; rz < d.kernel; ++rz)
    for (std::int64_t ry = 0; ry < h.kernel; ++ry) {
      const TapAt z = tap_at(d, rz), y = tap_at(h, ry);
      const std::int64_t plane =
          (place(pd, z.phase) * std::ssize(ph) + place(ph, y.phase)) * std::ssize(pw);
      row_offset_.push_back(plane * plane_size_ + (z.shift * rows_ + y.shift) * columns_);
    }
  for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
    const TapAt x = tap_at(w, rx);
    column_offset_.push_back(place(pw, x.phase) * plane_size_ + x.shift);
  }
  for (std::int64_t oz = 0; oz < d.out; ++oz)
    for (std::int64_t oy = 0; oy < h.out; ++oy) row_at_.push_back((oz * rows_ + oy) * columns_);

  run_ = row_at_.back() + w.out;
  const auto all = static_cast<std::uint16_t>((1U << lanes_) - 1U);
  std::vector<std::uint16_t> masks(static_cast<std::size_t>(k));
  for (std::int64_t first = 0; first < run_; first += lanes_) {
    std::ranges::fill(masks, std::uint16_t{0});
    std::uint16_t outputs = 0;
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::int64_t q = first + lane;
      const std::int64_t ox = q % columns_, oy = q / columns_ % rows_, oz = q / columns_ / rows_;
      if (ox >= w.out || oy >= h.out || oz >= d.out) continue;  // no output
      outputs = static_cast<std::uint16_t>(outputs | 1U << lane);
      auto mask = masks.begin();
      for (std::int64_t rz = 0; rz < d.kernel; ++rz)
        for (std::int64_t ry = 0; ry < h.kernel; ++ry) {
          const bool row = inside(d, oz, rz) && inside(h, oy, ry);
          for (std::int64_t rx = 0; rx < w.kernel; ++rx, ++mask)
            if (row && inside(w, ox, rx)) *mask = static_cast<std::uint16_t>(*mask | 1U << lane);
        }
    }
    outputs_.push_back(outputs);
    const auto first_row = masks.begin() + w.kernel;
    bool rows_alike = true;
    for (auto m = first_row; m != masks.end(); ++m)
      rows_alike = rows_alike && *m == *(m - w.kernel);
    const bool whole = std::ranges::all_of(masks, [&](std::uint16_t m) { return m == all; });
    masks_.push_back({whole        ? VectorMasks::none
                      : rows_alike ? VectorMasks::by_column
                                   : VectorMasks::by_tap,
                      static_cast<std::int32_t>(inside_.size())});
    if (!whole) inside_.insert(inside_.end(), masks.begin(), rows_alike ? first_row : masks.end());
  }
}

DepthwiseCall WindowRows::call() const {
  const auto& [d, h, w] = g.window.axes;
  return {.run = run_,
          .pixels = pixels,
          .columns = columns_,
          .out_rows = d.out * h.out,
          .out_width = w.out,
          .sums = direct_ ? nullptr : thread_scratch<float>(ScratchSlot::tile, run_ + lanes_),
          .row_at = row_at_.data(),
          .tap_rows = d.kernel * h.kernel,
          .tap_columns = w.kernel,
          .row_offset = row_offset_.data(),
          .column_offset = column_offset_.data(),
          .masks = masks_.data(),
          .inside = inside_.data()};
}

std::int64_t WindowRows::output_at(std::int64_t position) const {
  const auto& [d, h, w] = g.window.axes;
  return (position / columns_ / rows_ * h.out + position / columns_ % rows_) * w.out +
         position % columns_;
}

const float* WindowRows::channel(const float* x) const {
  if (in_place_) return x;
  const auto& [d, h, w] = g.window.axes;
  const auto planes = static_cast<std::int64_t>(planes_.size());
  float* copy = thread_scratch<float>(ScratchSlot::padded, planes * plane_size_);
  // Of a stride of 2 both remainders, side by side: taps an even distance apart meet but one.
  const bool pairs =
      w.stride == 2 && planes > 1 && planes_[0].phase[2] == 0 && planes_[1].phase[2] == 1;
  for (std::int64_t i = 0; i < planes; i += pairs ? 2 : 1) {
    const Plane& p = planes_[static_cast<std::size_t>(i)];
    const std::int64_t from_row = h.stride * w.in;
    for (std::int64_t z = 0; z < p.count[0]; ++z) {
      const float* from = x + ((z * d.stride + p.phase[0]) * h.in + p.phase[1]) * w.in + p.phase[2];
      float* to = copy + i * plane_size_ + z * rows_ * columns_;
      if (pairs) {
        const PairRows rows{.from = from,
                            .from_row = from_row,
                            .rows = p.count[1],
                            .count = w.in,
                            .even = to,
                            .odd = to + plane_size_,
                            .to_row = columns_};
        lanes_ == 16 ? avx512::split_pairs(rows) : avx2::split_pairs(rows);
        continue;
      }
      for (std::int64_t y = 0; y < p.count[1]; ++y, from += from_row, to += columns_)
        for (std::int64_t c = 0; c < p.count[2]; ++c) to[c] = from[c * w.stride];
    }
  }
  return copy;
}

namespace {

template <Isa isa>
constexpr int kLanes = isa >= Isa::avx512 ? 16 : 8;

struct PreparedDepthwise {
  WindowRows runs;
  TapRows rows;
};

template <Isa isa>
Prepared prepare(const Problem& problem, int) {
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  return std::make_shared<PreparedDepthwise>(WindowRows(g, kLanes<isa>),
                                             TapRows(g.window, kLanes<isa>));
}

ChannelEnding ending_of(const UsualSteps& steps, std::int64_t channel) {
  ChannelEnding ending{.relu = steps.relu};
  if (const PointwiseStep* affine = steps.affine; affine != nullptr) {
    ending.affine = true;
    ending.mean = affine->mean[channel];
    ending.factor = affine->factor[channel];
    ending.bias = affine->bias[channel];
    ending.fused = affine->fused;
  }
  return ending;
}

Ending ending(const Problem& problem, const void* prepared, std::span<const PointwiseStep> steps) {
  const std::optional<UsualSteps> usual = usual_steps(steps);
  if (!usual || usual->add != nullptr || prepared == nullptr ||
      problem.outputs[0].shape.numel() == 0)
    return Ending::announced;
  const auto& p = *static_cast<const PreparedDepthwise*>(prepared);
  const PointwiseStep* affine = usual->affine;
  if (affine != nullptr &&
      (affine->inner != p.runs.pixels || affine->channels != p.runs.g.out_channels))
    return Ending::announced;
  return Ending::applied;
}

template <Isa isa>
void run(const KernelCall& call) {
  const Prepared fresh =
      call.prepared == nullptr ? prepare<isa>(*call.problem, call.threads) : nullptr;
  const auto& prepared = *static_cast<const PreparedDepthwise*>(
      call.prepared == nullptr ? fresh.get() : call.prepared);
  const WindowRows& p = prepared.runs;
  const ConvGeometry& g = p.g;
  const float* x = call.input(0).data<float>().data();
  const float* w = call.input(1).data<float>().data();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t in_points = g.window.in_points(), multiplier = g.group_out();
  // Input channels are shared out; each serves the `multiplier` output channels of its group.
  const std::int64_t grain =
      std::max<std::int64_t>(1, 100000 / std::max<std::int64_t>(1, p.pixels * p.k));
  const std::optional<UsualSteps> steps =
      call.steps.empty() ? std::nullopt : usual_steps(call.steps);
  parallel_for(g.batch * g.groups, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    DepthwiseCall c = p.call();
    TapRowsCall rows = prepared.rows.call();
    ChannelEnding ending;
    if (steps) c.ending = rows.ending = &ending;
    Announcer announcer(call);
    for (std::int64_t i = begin; i < end; ++i) {
      rows.x = x + i * in_points;
      if (!prepared.rows.serves()) c.x = p.channel(rows.x);
      for (std::int64_t m = 0; m < multiplier; ++m) {
        const std::int64_t o = i % g.groups * multiplier + m;
        c.w = rows.w = w + o * p.k;
        c.bias = rows.bias = bias == nullptr ? nullptr : bias + o;
        c.y = rows.y = y + (i * multiplier + m) * p.pixels;
        if (steps) ending = ending_of(*steps, o);
        if (prepared.rows.serves())
          isa >= Isa::avx512 ? avx512::tap_rows_sum(rows) : avx2::tap_rows_sum(rows);
        else
          isa >= Isa::avx512 ? avx512::depthwise(c) : avx2::depthwise(c);
        if (!steps) announcer.add((i * multiplier + m) * p.pixels, p.pixels);
      }
    }
    announcer.flush();
  });
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};  // with one channel every walk is the same
  if (!c.is_seq()) return "promises seq only";
  const std::int64_t groups = problem.params->as<ConvParams>().groups;
  const Shape& w = problem.input(1).shape;
  if (w.rank() < 3 || w[1] != 1 || groups == 1 || w[0] / groups > 4)
    return "takes one input channel and at most 4 output channels a group";
  return refuse_unless_f32(problem);
}

}  // namespace

template <Isa isa>
KernelRow depthwise_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare<isa>,
          .announces = true,
          .ending = ending};
}
template KernelRow depthwise_f32_row<Isa::avx512>(std::string_view name);
template KernelRow depthwise_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
