// Of windows, one image: rows of x are turned to channels last with their padding as zeros and cut
// in one unit for the whole image (residue_plan.h), then all channels of a group pass by. The unit,
// and the norm of a window in the bounds, are those of taps times the squares of the pixel that has
// most of them; what rounding left of x is measured, by rows of the padded image, for it is zero
// almost everywhere.
#include "kernels/conv/residues.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "kernels/conv/exact_winograd.h"
#include "kernels/conv/residue_plan.h"
#include "kernels/gemm/exact_residues.h"

namespace etalon {
namespace {

// Layers of one tap without padding: products of w and x, or of w and every so many pixels of it.
bool is_residue_product(const ConvGeometry& g) {
  return std::ranges::all_of(g.window.axes, [](const WindowAxis& a) {
    return a.kernel == 1 && a.pad_begin == 0 && (a.out - 1) * a.stride < a.in;
  });
}

constexpr std::int64_t kCutPixels = 64;  // of a row, cut by one thread at a time

struct ImageTask {
  const ResidueSet& set;
  const ExactLanes& lanes;
  const ConvGeometry& g;
  const ResiduePlan& plan;
  const ConvResidues& w;
  const ExactConv& task;
};

// Pixels [first, stop) of row `index` (group, z, y) of the planes, channels in blocks of 64.
// Returns the sum of the squares of what rounding left.
double cut_pixels(const ImageTask& t, const float* x, std::int64_t index, std::int64_t first,
                  std::int64_t stop, double unit, std::uint8_t* planes) {
  const ResidueAxis &d = t.plan.d, &h = t.plan.h, &w = t.plan.w;
  const std::int64_t channels = t.plan.channels, group = index / t.plan.group_rows,
                     pitch = t.plan.pitch, plane = t.plan.plane;
  const std::int64_t z = index / h.extent % d.extent * d.step - d.pad_begin,
                     y = index % h.extent * h.step - h.pad_begin;
  std::uint8_t* row = planes + index * t.plan.row;
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end)
      for (int p = 0; p < kResiduePlanes; ++p)
        std::fill_n(row + p * plane + begin * pitch, (end - begin) * pitch, std::uint8_t{0});
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
  alignas(64) float sample[kResidueTileStep * kResidueTileRows];
  double rest = 0;
  for (std::int64_t i = begin; i < end; i += kResidueTileRows, from += kResidueTileRows * w.step) {
    const int pixels = static_cast<int>(std::min<std::int64_t>(kResidueTileRows, end - i));
    for (std::int64_t c = 0; c < channels; c += kResidueTileStep) {
      ResidueTurn block{
          .from = from + c * points,
          .stride = points,
          .channels = static_cast<int>(std::min<std::int64_t>(kResidueTileStep, channels - c)),
          .pixels = pixels};
      if (w.step != 1) {
        for (std::int64_t j = 0; j < block.channels; ++j)
          for (std::int64_t p = 0; p < pixels; ++p)
            sample[j * kResidueTileRows + p] = block.from[j * points + p * w.step];
        block.from = sample;
        block.stride = kResidueTileRows;
      }
      rest += t.set.cut_turned(block, unit, row + i * pitch + c, pitch, plane);
    }
  }
  return rest;
}

// At least the squares of any window: taps times those of the pixel that has most.
double most_squares(const ImageTask& t, const float* x, int threads) {
  constexpr std::int64_t kPoints = 256;
  const std::int64_t points = t.g.window.in_points(), channels = t.plan.channels;
  double most = 0;
  std::mutex joining;
  parallel_for(
      (points + kPoints - 1) / kPoints * t.plan.groups, threads, 4,
      [&](std::int64_t begin, std::int64_t end) {
        double mine = 0;
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t group = item % t.plan.groups, first = item / t.plan.groups * kPoints,
                             count = std::min(kPoints, points - first);
          double sums[kPoints] = {};
          t.set.add_squares(x + group * channels * points + first, points, channels, count, sums);
          for (std::int64_t i = 0; i < count; ++i)
            mine = is_finite(sums[i]) ? std::max(mine, sums[i]) : kInfinity;
        }
        const std::scoped_lock lock(joining);
        most = std::max(most, mine);
      });
  return most * static_cast<double>(t.g.window.taps());
}

}  // namespace

bool conv_residues_possible(const ConvGeometry& g) {
  return is_residue_product(g)
             ? g.k() <= kResidueTileMostK
             : residue_window_steps(g).count * kResidueTileStep <= kResidueTileMostK;
}

Refusal refuse_conv_residues(const ConvGeometry& g) {
  if (!conv_residues_possible(g)) return "sums of more than 66048 terms overflow a tile";
  // A choice of speed alone, by models of both passes in cycles.
  const auto pixels = static_cast<double>(g.window.out_points()),
             out = static_cast<double>(g.group_out()), k = static_cast<double>(g.k());
  double residues = 0;
  if (is_residue_product(g)) {
    residues = residues_cycles(g.window.out_points(), g.group_out(), g.k()) +
               (g.window.out_points() == g.window.in_points() ? 0 : pixels * k);
  } else {
    const ResidueWindowSteps s = residue_window_steps(g);
    const double read = std::min(static_cast<double>(g.window.in_points()),
                                 pixels * static_cast<double>(g.window.taps()));
    // Besides a cut, an element of x is turned, and its bytes come back from the third cache.
    residues = (kResidueCutCycles + 2) * static_cast<double>(g.group_in()) * read +
               (s.gathered ? 2 * pixels * k : 0) +
               ResidueWindowBlocks(s.strips, vector_strips(g.group_out(), kResidueTileRows),
                                   s.count, !s.gathered && g.window.taps() > 1, 1)
                       .cycles() *
                   (!s.gathered && s.as_runs ? 1.2 : 1);  // rows that cross lines
  }
  // Three fused operations in two cycles, of two.
  const auto layer = exact_winograd_layer(Isa::avx512, g);
  const double f64 =
      layer ? layer->cycles / 1.5 : pixels * out * k / 12 + 0.5 * pixels * out + 0.2 * pixels * k;
  if (kResiduesGain * f64 <= residues) return "so few channels or terms are summed faster in f64";
  return std::nullopt;
}

void pack_conv_residues(const ResidueSet& set, const ConvGeometry& g, const float* w, int threads,
                        ConvResidues& to) {
  if (is_residue_product(g)) {
    to.groups.resize(static_cast<std::size_t>(g.groups));
    for (std::int64_t group = 0; group < g.groups; ++group)
      pack_residues(set, {w + group * g.group_out() * g.k(), g.k(), 1}, g.group_out(), g.k(), false,
                    threads, to.groups[static_cast<std::size_t>(group)]);
    return;
  }
  const std::int64_t out = g.group_out(), in = g.group_in(), taps = g.window.taps();
  to.finite = std::all_of(w, w + g.out_channels * g.k(), [](float v) { return is_finite(v); });
  if (!to.finite) return;
  const ResiduePlan plan(g);
  const std::int64_t k = plan.step_count * kResidueTileStep;
  std::vector<float> turned(static_cast<std::size_t>(out * k));
  to.groups.resize(static_cast<std::size_t>(g.groups));
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t c = 0; c < in; ++c)
        for (std::int64_t t = 0; t < taps; ++t)
          turned[static_cast<std::size_t>(o * k + plan.weight_at(c, t))] =
              w[((group * out + o) * in + c) * taps + t];
    pack_residues(set, {turned.data(), k, 1}, out, k, true, threads,
                  to.groups[static_cast<std::size_t>(group)]);
  }
}

namespace {

// What a strip's outputs share: bounds for the rows of a tile, the same for all of them.
void strip_norms(const ImageTask& t, const ResidueStrip& strip, std::int64_t group, double unit,
                 const double* row_rest, ResidueNorms& n) {
  constexpr double room = 1 + 0x1p-9;
  double rest = 0;
  const std::int64_t rows = t.plan.d.out * t.plan.h.out;
  for (std::int64_t r = strip.first_row; r <= strip.last_row; ++r)
    rest = std::max(rest, row_rest[group * rows + r]);
  rest = std::sqrt(rest) * unit * room;
  std::fill_n(n.unit, kResidueTileRows, unit);
  std::fill_n(n.rest, kResidueTileRows, rest + kResidueJoinRest * unit);
  std::fill_n(n.norm, kResidueTileRows, power_of_two(kResidueNormBits) * unit + rest);
}

// Windows of a strip's outputs, copied together.
void gather_strip(const ImageTask& t, const ResidueStrip& strip, const ResidueRun& run,
                  std::int64_t group, const std::uint8_t* planes, std::uint8_t* to,
                  std::int64_t to_plane) {
  const ResiduePlan& plan = t.plan;
  for (int r = 0; r < strip.rows; ++r) {
    const std::int64_t p = run.at + r, ox = p % plan.w.out, oy = p / plan.w.out % plan.h.out,
                       oz = p / (plan.w.out * plan.h.out);
    const std::int64_t row =
        group * plan.group_rows + oz * plan.d.stride * plan.h.extent + oy * plan.h.stride;
    t.set.gather(planes + row * plan.row + ox * plan.w.stride * plan.pitch, plan.plane,
                 plan.offset.data(), static_cast<int>(plan.offset.size()), plan.run,
                 to + r * kResidueTileStep, to_plane);
  }
}

// What the hooks of a block append to.
struct Opened {
  const ImageTask& t;
  std::int64_t pixels;
  std::vector<std::int64_t>& mine;
};
void append_open(void* caller, const ResidueBlock& block, int s, int c,
                 const std::uint16_t* undecided) {
  const auto& opened = *static_cast<Opened*>(caller);
  if (!opened.t.task.steps.rounding_test) return;
  const ResidueRows& rows = block.rows[s];
  for (int n = 0; n < rows.run_count; ++n) {
    const ResidueRun& run = rows.runs[n];
    for (int r = run.first; r < run.first + run.count; ++r)
      for (std::uint32_t u = undecided[r]; u != 0; u &= u - 1)
        opened.mine.push_back(block.columns[c].at + __builtin_ctz(u) * opened.pixels + run.at + r -
                              run.first);
  }
}
void round_wide(void* caller, const ResidueBlock& block, int s, int c, const ResidueSums& square) {
  const auto& opened = *static_cast<Opened*>(caller);
  const ExactConv& task = opened.t.task;
  const ResidueRows& rows = block.rows[s];
  const ResidueColumns& columns = block.columns[c];
  for (int n = 0; n < rows.run_count; ++n)
    for (int r = 0; r < rows.runs[n].count; ++r)
      for (int i = 0; i < columns.columns; ++i) {
        const int at = (rows.runs[n].first + r) * kResidueTileRows + i;
        const std::int64_t to = columns.at + i * opened.pixels + rows.runs[n].at + r;
        const double one = 1;
        exact_tile(opened.t.lanes,
                   {.sums = square.sums + at,
                    .count = 1,
                    .bounds = &one,
                    .norms = square.bounds + at,
                    .added = block.added == nullptr ? nullptr : block.added + columns.added + i,
                    .y = task.y + to},
                   task.truth + to, to, task.steps, opened.mine);
      }
}

// Strips [first, first + count) of a group against strips [column, column + columns) of channels.
void multiply_strips(const ImageTask& t, std::int64_t image, std::int64_t group, std::int64_t first,
                     std::int64_t count, std::int64_t column, std::int64_t columns, double unit,
                     const double* row_rest, const double* bias, const std::uint8_t* planes,
                     Opened& opened) {
  const ResiduePlan& plan = t.plan;
  const ExactConv& task = t.task;
  const std::int64_t pixels = t.g.window.out_points(), steps = plan.step_count;
  const ResidueOperand& weights = t.w.groups[static_cast<std::size_t>(group)];
  const std::int64_t strip_bytes = steps * kResidueTileBytes;
  auto* packed = plan.gathered ? thread_scratch<std::uint8_t>(ScratchSlot::broadcast,
                                                              kResiduePlanes * count * strip_bytes)
                               : nullptr;
  auto* sums = thread_scratch<std::int32_t>(ScratchSlot::tile, kResidueBlockSums);
  ResidueNorms norms[kResidueBlockRows];
  ResidueBlock block{.row_strips = static_cast<int>(count),
                     .column_strips = static_cast<int>(columns),
                     .a_steps = plan.steps.data(),
                     .a_plane = plan.gathered ? count * strip_bytes : plan.plane,
                     .a_row = plan.gathered ? kResidueTileStep : plan.w.stride * plan.pitch,
                     .b_plane = weights.plane(),
                     .steps = steps,
                     .added = bias,
                     .y = task.y,
                     .y_row = pixels,
                     .caller = &opened,
                     .open = append_open,
                     .wide = task.truth == nullptr ? nullptr : round_wide};
  for (std::int64_t s = 0; s < count; ++s) {
    const ResidueStrip& strip = plan.strips[static_cast<std::size_t>(first + s)];
    const ResidueRun* runs = plan.runs.data() + strip.first_run;
    strip_norms(t, strip, group, unit, row_rest, norms[s]);
    if (plan.gathered)
      gather_strip(t, strip, *runs, group, planes, packed + s * strip_bytes, block.a_plane);
    block.rows[s] = {.a = plan.gathered ? packed + s * strip_bytes
                                        : planes + group * plan.group_rows * plan.row + strip.base,
                     .norms = norms + s,
                     .rows = strip.rows,
                     .runs = runs,
                     .run_count = strip.runs};
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::int64_t at = column + c, o = group * plan.out + at * kResidueTileRows;
    block.columns[c] = {.b = weights.strip(at),
                        .norms = weights.norms_of(at),
                        .columns = static_cast<int>(std::min<std::int64_t>(
                            kResidueTileRows, plan.out - at * kResidueTileRows)),
                        .at = (image * t.g.out_channels + o) * pixels,
                        .added = o};
  }
  t.set.run(block, sums);
}

// Appends the undecided outputs of one image; false where it holds NaN or infinity.
bool run_image(const ImageTask& t, std::int64_t image, const double* bias, int threads,
               std::vector<std::int64_t>& undecided) {
  const ResiduePlan& plan = t.plan;
  const ResidueAxis &d = plan.d, &h = plan.h, &w = plan.w;
  const std::int64_t size = t.g.in_channels * t.g.window.in_points();
  const float* x = t.task.x + image * size;
  const double squares = most_squares(t, x, threads);
  if (!is_finite(squares)) return false;
  const double unit = residue_unit(squares);
  thread_local AlignedBuffer buffer;
  auto* planes = buffer.at_least<std::uint8_t>(kResiduePlanes * plan.plane);
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
  const ResidueWindowBlocks cut(strips, plan.columns, plan.step_count,
                                !plan.gathered && plan.offset.size() > 1, threads);
  std::mutex joining;
  parallel_for(plan.groups * cut.tall * cut.wide, threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<std::int64_t> mine;
                 Opened opened{t, t.g.window.out_points(), mine};
                 t.set.begin();
                 for (std::int64_t item = begin; item < end; ++item) {
                   const std::int64_t first = item % cut.tall * cut.rows,
                                      column = item / cut.tall % cut.wide * cut.columns;
                   multiply_strips(t, image, item / cut.tall / cut.wide, first,
                                   std::min(cut.rows, strips - first), column,
                                   std::min(cut.columns, plan.columns - column), unit,
                                   row_rest.data(), bias, planes, opened);
                 }
                 t.set.end();
                 const std::scoped_lock lock(joining);
                 undecided.insert(undecided.end(), mine.begin(), mine.end());
               });
  return true;
}

}  // namespace

namespace {

// The pixels of an image that outputs of one tap read, channel by channel.
const float* sampled(const ConvGeometry& g, const float* image, int threads) {
  const std::int64_t points = g.window.in_points(), out = g.window.out_points();
  if (points == out) return image;  // without padding
  const auto& [d, h, w] = g.window.axes;
  thread_local AlignedBuffer buffer;
  auto* copy = buffer.at_least<float>(std::max<std::int64_t>(1, g.in_channels * out));
  parallel_for(g.in_channels, threads, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t row = 0; row < d.out * h.out; ++row) {
        const float* from =
            image + c * points + (row / h.out * d.stride * h.in + row % h.out * h.stride) * w.in;
        float* to = copy + c * out + row * w.out;
        for (std::int64_t i = 0; i < w.out; ++i) to[i] = from[i * w.stride];
      }
  });
  return copy;
}

// Appends the undecided outputs of an image.
void image_products(const ResidueSet& set, const ExactLanes& lanes, const ConvResidues& w,
                    const ExactConv& conv, std::int64_t image, int threads,
                    std::vector<std::int64_t>& undecided) {
  const ConvGeometry& g = conv.g;
  const std::int64_t points = g.window.out_points(), in = g.group_in(), out = g.group_out();
  const float* x = sampled(g, conv.x + image * g.in_channels * g.window.in_points(), threads);
  std::vector<std::int64_t> left;
  for (std::int64_t group = 0; group < g.groups; ++group) {
    const std::int64_t to = (image * g.groups + group) * out * points;
    left.clear();
    residues_pass(set, lanes,
                  {.m = out,
                   .n = points,
                   .k = in,
                   .a = {conv.w + group * out * in, in, 1},
                   .b = {x + group * in * points, 1, points},
                   .c = conv.bias == nullptr ? nullptr : conv.bias + group * out,
                   .c_row = 1,
                   .y = conv.y + to,
                   .truth = conv.truth == nullptr ? nullptr : conv.truth + to,
                   .steps = conv.steps},
                  w.groups[static_cast<std::size_t>(group)], true, threads, left);
    for (const std::int64_t at : left) undecided.push_back(to + at);
  }
}

}  // namespace

bool conv_residues(const ResidueSet& set, const ExactLanes& lanes, const ConvResidues& w,
                   const ExactConv& conv, std::vector<std::int64_t>& undecided) {
  const ConvGeometry& g = conv.g;
  if (is_residue_product(g)) {
    each_image(g.batch, conv.threads, undecided,
               [&](std::int64_t image, int threads, std::vector<std::int64_t>& left) {
                 image_products(set, lanes, w, conv, image, threads, left);
               });
    return true;
  }
  const ResiduePlan plan(g);
  const ImageTask image_task{set, lanes, g, plan, w, conv};
  // In whole vectors.
  std::vector<double> bias;
  if (conv.bias != nullptr) {
    bias.assign(static_cast<std::size_t>(g.out_channels + kResidueTileRows), 0.0);
    for (std::int64_t o = 0; o < g.out_channels; ++o)
      bias[static_cast<std::size_t>(o)] = static_cast<double>(conv.bias[o]);
  }
  const double* added = conv.bias == nullptr ? nullptr : bias.data();
  std::atomic<bool> finite{true};
  each_image(g.batch, conv.threads, undecided,
             [&](std::int64_t image, int threads, std::vector<std::int64_t>& left) {
               if (finite && !run_image(image_task, image, added, threads, left)) finite = false;
             });
  return finite;
}

}  // namespace etalon
