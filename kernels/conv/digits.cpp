// One image: rows of x are turned to channels last with their padding as zeros and cut into digits
// in one unit for the whole image (digit_plan.h), then all channels of a group pass by. Bounds
// (digit_tile.h) take digits of x as 128 and |z| as 2^39 where they were not worth measuring (below
// the first two digits they are as good as uniform: rms 74); what rounding left of x is measured,
// by rows of the padded image, for it is zero almost everywhere.
#include "kernels/conv/digits.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "kernels/conv/digit_plan.h"

namespace etalon {
namespace {

constexpr std::int64_t kImageBytes = 768 << 10;  // of digits at a time, half of a second cache
constexpr std::int64_t kWeightBytes = 1 << 20;
constexpr std::int64_t kCutPixels = 64;  // of a row, cut by one thread at a time

struct ImageTask {
  const DigitSet& set;
  const ExactLanes& lanes;
  const ConvGeometry& g;
  const DigitPlan& plan;
  const ConvDigitsTask& task;
  DigitChoice& choice;
};

// Pixels [first, stop) of row `index` (group, z, y) of the planes, channels in blocks of 64.
// Returns the sum of the squares of what rounding left.
double cut_pixels(const ImageTask& t, const float* x, std::int64_t index, std::int64_t first,
                  std::int64_t stop, double unit, std::uint8_t* planes) {
  const DigitAxis &d = t.plan.d, &h = t.plan.h, &w = t.plan.w;
  const std::int64_t channels = t.plan.channels, group = index / t.plan.group_rows,
                     pitch = t.plan.pitch, plane = t.plan.plane;
  const std::int64_t z = index / h.extent % d.extent * d.step - d.pad_begin,
                     y = index % h.extent * h.step - h.pad_begin;
  std::uint8_t* row = planes + index * t.plan.row;
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end)
      for (int digit = 0; digit < kDigits; ++digit)
        std::fill_n(row + digit * plane + begin * pitch, (end - begin) * pitch, std::uint8_t{0});
  };
  if (z < 0 || z >= d.in || y < 0 || y >= h.in) {
    clear(first, stop);
    return 0;
  }
  // Pixel i is there where 0 <= i * step - pad < in.
  const std::int64_t begin = std::clamp((w.pad_begin + w.step - 1) / w.step, first, stop),
                     end = std::clamp((w.in + w.pad_begin - 1) / w.step + 1, begin, stop);
  clear(first, begin);
  clear(end, stop);
  const std::int64_t points = t.g.window.in_points();
  const float* from =
      x + group * channels * points + (z * h.in + y) * w.in + begin * w.step - w.pad_begin;
  alignas(64) float sample[kDigitStep * kDigitRows];
  double rest = 0;
  for (std::int64_t i = begin; i < end; i += kDigitRows, from += kDigitRows * w.step) {
    const int pixels = static_cast<int>(std::min<std::int64_t>(kDigitRows, end - i));
    for (std::int64_t c = 0; c < channels; c += kDigitStep) {
      DigitBlock block{
          .from = from + c * points,
          .stride = points,
          .channels = static_cast<int>(std::min<std::int64_t>(kDigitStep, channels - c)),
          .pixels = pixels};
      if (w.step != 1) {
        for (std::int64_t j = 0; j < block.channels; ++j)
          for (std::int64_t p = 0; p < pixels; ++p)
            sample[j * kDigitRows + p] = block.from[j * points + p * w.step];
        block.from = sample;
        block.stride = kDigitRows;
      }
      rest += t.set.cut_turned(block, unit, row + i * pitch + c, pitch, plane);
    }
  }
  return rest;
}

}  // namespace

Refusal refuse_conv_digits(const ConvGeometry& g) {
  if (g.group_out() < 8) return "a group has fewer than 8 output channels, half of a tile's";
  if (g.k() < 32) return "sums of fewer than 32 terms fill less than half of a tile";
  // Turning and cutting an element of x took as long as 100 f32 products of the f64 pass.
  if (g.group_out() * g.k() * g.window.out_points() < 96 * g.group_in() * g.window.in_points())
    return "each element of x meets fewer than 96 weights, cutting it into digits does not pay";
  return std::nullopt;
}

void pack_conv_digits(const DigitSet& set, const ConvGeometry& g, const float* w, int threads,
                      ConvDigits& to) {
  const std::int64_t out = g.group_out(), in = g.group_in(), taps = g.window.taps();
  to.finite = set.largest(w, g.out_channels * g.k()) < 0x7f800000;
  if (!to.finite) return;
  const DigitPlan plan(g);
  const std::int64_t k = plan.step_count * kDigitStep;
  std::vector<float> turned(static_cast<std::size_t>(out * k));
  to.groups.resize(static_cast<std::size_t>(g.groups));
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t c = 0; c < in; ++c)
        for (std::int64_t t = 0; t < taps; ++t)
          turned[static_cast<std::size_t>(o * k + plan.weight_at(c, t))] =
              w[((group * out + o) * in + c) * taps + t];
    pack_digits(set, {turned.data(), k, 1}, out, k, true, threads,
                to.groups[static_cast<std::size_t>(group)]);
  }
}

namespace {

// What a strip's outputs share: bounds for the rows of a tile, the same for all of them.
void strip_norms(const ImageTask& t, const DigitStrip& strip, std::int64_t group, double unit,
                 const double* row_rest, DigitNorms& n) {
  constexpr double room = 1 + 0x1p-10;
  const double root = std::sqrt(static_cast<double>(t.g.k())) * unit * room;
  double rest = 0;
  const std::int64_t rows = t.plan.d.out * t.plan.h.out;
  for (std::int64_t r = strip.first_row; r <= strip.last_row; ++r)
    rest = std::max(rest, row_rest[group * rows + r]);
  rest = std::sqrt(rest) * unit * room;
  std::fill_n(n.unit, kDigitRows, unit);
  std::fill_n(n.rest, kDigitRows, rest);
  std::fill_n(n.norm, kDigitRows, 0x1p39 * root + rest);
  std::fill_n(n.high[0], kDigitRows, 128 * std::sqrt(3.0) * root);
  std::fill_n(n.high[1], kDigitRows, 128 * std::sqrt(4.0) * root);
}

// Windows of a strip's outputs, copied together.
void gather_strip(const ImageTask& t, const DigitStrip& strip, const DigitRun& run,
                  std::int64_t group, const std::uint8_t* planes, std::uint8_t* to) {
  const DigitPlan& plan = t.plan;
  for (int r = 0; r < strip.rows; ++r) {
    const std::int64_t p = run.at + r, ox = p % plan.w.out, oy = p / plan.w.out % plan.h.out,
                       oz = p / (plan.w.out * plan.h.out);
    const std::int64_t row =
        group * plan.group_rows + oz * plan.d.stride * plan.h.extent + oy * plan.h.stride;
    t.set.gather(planes + row * plan.row + ox * plan.w.stride * plan.pitch, plan.plane,
                 plan.offset.data(), static_cast<int>(plan.offset.size()), plan.run,
                 to + r * kDigitStep);
  }
}

// Strips [first, first + count) of a group against all its channels.
void multiply_strips(const ImageTask& t, std::int64_t image, std::int64_t group, std::int64_t first,
                     std::int64_t count, double unit, const double* row_rest, const double* bias,
                     const std::uint8_t* planes, std::vector<std::int64_t>& mine) {
  const DigitPlan& plan = t.plan;
  const ConvDigitsTask& task = t.task;
  const std::int64_t pixels = t.g.window.out_points(), steps = plan.step_count;
  const DigitOperand& weights = task.w->groups[static_cast<std::size_t>(group)];
  auto* packed = plan.gathered ? thread_scratch<std::uint8_t>(ScratchSlot::broadcast,
                                                              count * steps * kStepBytes)
                               : nullptr;
  std::vector<DigitNorms> norms(static_cast<std::size_t>(count));
  const DigitStrip* strips = plan.strips.data() + first;
  for (std::int64_t s = 0; s < count; ++s) {
    strip_norms(t, strips[s], group, unit, row_rest, norms[static_cast<std::size_t>(s)]);
    if (plan.gathered)
      gather_strip(t, strips[s], plan.runs[static_cast<std::size_t>(strips[s].first_run)], group,
                   planes, packed + s * steps * kStepBytes);
  }
  DigitPipe pipe;
  DigitSums square;
  DigitChoice& choice = t.choice;
  int configured = 0;
  const auto configure = [&](int rows) {
    if (rows != configured) t.set.begin(configured = rows);
  };
  const auto next = [&](const DigitTile* tile) {
    DigitTile again;
    for (;;) {
      if (tile != nullptr) configure(tile->rows);
      t.set.next(pipe, tile);
      if (!pipe.ready) return;
      choice.saw(pipe.done.dropped, pipe.open);
      if (!DigitChoice::again(pipe.done.dropped, pipe.open)) break;
      again = pipe.done;
      again.dropped = 3;
      tile = &again;
    }
    const DigitTile& done = pipe.done;
    if (pipe.open != 0 && task.steps.rounding_test)
      for (int n = 0; n < done.run_count; ++n) {
        const DigitRun& run = done.runs[n];
        for (int r = run.first; r < run.first + run.count; ++r)
          for (std::uint32_t u = pipe.undecided[r]; u != 0; u &= u - 1)
            mine.push_back(done.at + __builtin_ctz(u) * pixels + run.at + r - run.first);
      }
  };
  // A strip's windows stay in the first cache while the weights of some channels pass by, one strip
  // after the other as they lie, from the second.
  const std::int64_t together =
      std::max<std::int64_t>(1, kWeightBytes / std::max<std::int64_t>(1, steps * kStepBytes));
  for (std::int64_t item = 0; item < (plan.columns + together - 1) / together * count; ++item) {
    const std::int64_t s = item % count, from = item / count * together;
    const DigitStrip& strip = strips[s];
    for (std::int64_t c = from; c < std::min(plan.columns, from + together); ++c) {
      const int channels =
          static_cast<int>(std::min<std::int64_t>(kDigitRows, plan.out - c * kDigitRows));
      const std::int64_t o = group * plan.out + c * kDigitRows;
      const std::int64_t corner = (image * t.g.out_channels + o) * pixels;
      DigitTile tile{.b = weights.strip(c),
                     .steps = steps,
                     .a_norms = &norms[static_cast<std::size_t>(s)],
                     .b_norms = &weights.norms_of(c),
                     .rows = strip.rows,
                     .columns = channels,
                     .dropped = choice.dropped(),
                     .added = bias == nullptr ? nullptr : bias + o,
                     .y = task.y + corner,
                     .y_row = pixels,
                     .runs = plan.runs.data() + strip.first_run,
                     .run_count = strip.runs,
                     .at = corner};
      if (plan.gathered) {
        tile.a = packed + s * steps * kStepBytes;
      } else {
        tile.a = planes + group * plan.group_rows * plan.row + strip.base;
        tile.a_steps = plan.steps.data();
        tile.a_plane = plan.plane;
        tile.a_row = plan.w.stride * plan.pitch;
      }
      if (task.truth == nullptr) {
        next(&tile);
        continue;
      }
      const std::size_t before = mine.size();
      configure(strip.rows);
      t.set.product(tile, square);
      for (int n = 0; n < tile.run_count; ++n)
        for (int r = 0; r < tile.runs[n].count; ++r)
          for (int i = 0; i < channels; ++i) {
            const int at = (tile.runs[n].first + r) * kDigitRows + i;
            const std::int64_t to = corner + i * pixels + tile.runs[n].at + r;
            const double one = 1;
            exact_tile(t.lanes,
                       {.sums = square.sums + at,
                        .count = 1,
                        .bounds = &one,
                        .norms = square.bounds + at,
                        .added = tile.added == nullptr ? nullptr : tile.added + i,
                        .y = task.y + to},
                       task.truth + to, to, task.steps, mine);
          }
      choice.saw(tile.dropped, static_cast<std::int64_t>(mine.size() - before));
    }
  }
  while (pipe.full) next(nullptr);
  t.set.end();
}

// Appends the undecided outputs of one image; false where it holds NaN or infinity.
bool run_image(const ImageTask& t, std::int64_t image, const double* bias, int threads,
               std::vector<std::int64_t>& undecided) {
  const DigitPlan& plan = t.plan;
  const DigitAxis &d = plan.d, &h = plan.h, &w = plan.w;
  const std::int64_t size = t.g.in_channels * t.g.window.in_points();
  const float* x = t.task.x + image * size;
  std::atomic<std::int32_t> top{0};
  parallel_for(size, threads, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    const std::int32_t mine = t.set.largest(x + begin, end - begin);
    std::int32_t seen = top.load();
    while (seen < mine && !top.compare_exchange_weak(seen, mine)) {
    }
  });
  if (top >= 0x7f800000) return false;
  const double unit = top == 0 ? 1.0 : t.set.unit_for(top);
  thread_local AlignedBuffer buffer;
  auto* planes = buffer.at_least<std::uint8_t>(kDigits * plan.plane);
  const std::int64_t parts = (w.extent + kCutPixels - 1) / kCutPixels;
  std::vector<double> rest(static_cast<std::size_t>(plan.rows * parts));
  parallel_for(plan.rows * parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * kCutPixels;
      rest[static_cast<std::size_t>(i)] =
          cut_pixels(t, x, row, first, std::min(w.extent, first + kCutPixels), unit, planes);
    }
  });
  // Of the windows of a row of outputs: all that rounding left in the rows they touch.
  std::vector<double> row_rest(static_cast<std::size_t>(plan.groups * d.out * h.out));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(row_rest.size()); ++i) {
    const std::int64_t oy = i % h.out, oz = i / h.out % d.out, group = i / (h.out * d.out);
    double sum = 0;
    for (std::int64_t rz = 0; rz < d.kernel; ++rz)
      for (std::int64_t ry = 0; ry < h.kernel; ++ry) {
        const std::int64_t row = group * plan.group_rows +
                                 (oz * d.stride + rz * d.dilation) * h.extent + oy * h.stride +
                                 ry * h.dilation;
        for (std::int64_t p = 0; p < parts; ++p)
          sum += rest[static_cast<std::size_t>(row * parts + p)];
      }
    row_rest[static_cast<std::size_t>(i)] = sum;
  }
  const auto strips = static_cast<std::int64_t>(plan.strips.size());
  const std::int64_t strip_bytes = plan.gathered
                                       ? plan.step_count * kStepBytes
                                       : kDigits * kDigitRows * w.stride * h.stride * plan.pitch;
  const std::int64_t block =
      std::clamp<std::int64_t>(kImageBytes / strip_bytes, 1, (strips + threads - 1) / threads);
  const std::int64_t blocks = (strips + block - 1) / block;
  std::mutex joining;
  parallel_for(plan.groups * blocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % blocks * block;
      multiply_strips(t, image, item / blocks, first, std::min(block, strips - first), unit,
                      row_rest.data(), bias, planes, mine);
    }
    const std::scoped_lock lock(joining);
    undecided.insert(undecided.end(), mine.begin(), mine.end());
  });
  return true;
}

}  // namespace

bool conv_digits(const DigitSet& set, const ExactLanes& lanes, const ConvGeometry& g,
                 const ConvDigitsTask& task, int threads, std::vector<std::int64_t>& undecided) {
  const DigitPlan plan(g);
  DigitChoice choice(g.k());
  const ImageTask image_task{set, lanes, g, plan, task, choice};
  // In whole vectors.
  std::vector<double> bias;
  if (task.bias != nullptr) {
    bias.assign(static_cast<std::size_t>(g.out_channels + kDigitRows), 0.0);
    for (std::int64_t o = 0; o < g.out_channels; ++o)
      bias[static_cast<std::size_t>(o)] = static_cast<double>(task.bias[o]);
  }
  const double* added = task.bias == nullptr ? nullptr : bias.data();
  if (g.batch < threads) {
    for (std::int64_t image = 0; image < g.batch; ++image)
      if (!run_image(image_task, image, added, threads, undecided)) return false;
    return true;
  }
  // A thread takes whole images; what is left over is shared.
  const std::int64_t whole = g.batch / threads * threads;
  std::atomic<bool> finite{true};
  std::mutex joining;
  parallel_for(whole, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    for (std::int64_t image = begin; image < end && finite; ++image)
      if (!run_image(image_task, image, added, 1, mine)) finite = false;
    const std::scoped_lock lock(joining);
    undecided.insert(undecided.end(), mine.begin(), mine.end());
  });
  for (std::int64_t image = whole; image < g.batch && finite; ++image)
    if (!run_image(image_task, image, added, threads, undecided)) finite = false;
  return finite;
}

}  // namespace etalon
