// Padding is a zero that adds nothing to the real sum; under a weight that is not finite it makes
// NaN, which fails the test and goes to the definition.
#include "kernels/conv/exact.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact_cut.h"
#include "kernels/conv/exact_depthwise.h"
#include "kernels/conv/exact_met.h"
#include "kernels/conv/exact_settle.h"
#include "kernels/conv/exact_winograd.h"
#include "kernels/conv/plan.h"
#include "kernels/conv/residues.h"
#include "kernels/conv/rows.h"
#include "kernels/gemm/exact_narrow.h"
#include "kernels/gemm/exact_pairs.h"

namespace etalon {
namespace {

constexpr std::int64_t kBlockBytes = 768 << 10, kBlockTerms = 256;
constexpr int kMaxOutputs = 16;  // of a row of a tile
constexpr std::int64_t kSettledShare = 16;
constexpr int kTapOutputs = 32;  // of one call
// Of a vector's time, where it is a single pixel: a column of sums takes three cycles a term.
constexpr double kColumnSaves = 0.8;
// Groups of so few channels read their windows in place: packing a window for them costs more than
// the sums.
constexpr std::int64_t kDirectChannels = 2;

struct PackedWeights {
  // w as strips of output channels, group by group, and the norm of each channel.
  AlignedBuffer strips;
  std::vector<double> norms;
  // Of a layer much of which only padding meets: the rest, which all else here is of.
  std::optional<MetLayer> met;
  // Instead, where there is such a pass.
  std::optional<ConvResidues> residues;
  std::optional<WindowRows> windows;
  std::optional<WinogradLayer> layer;
  WinogradWeights winograd;
};
struct Layer {
  Isa isa;
  const ConvGeometry& g;
  const float* w;
  const ExactSteps& steps;
  bool wants_truth;
};

void pack_weights(Isa isa, const ConvGeometry& g, const float* w, int threads, PackedWeights& to) {
  const ExactProducts& set = *exact_products(isa);
  const std::int64_t k = g.k(), out = g.group_out();
  const RowStrips strips(out, set.rows);
  double* packed = to.strips.at_least<double>(g.out_channels * k);
  for (std::int64_t group = 0; group < g.groups; ++group)
    pack_broadcast(set, {w + group * out * k, k, 1}, strips, k, threads, packed + group * out * k);
  to.norms.resize(static_cast<std::size_t>(g.out_channels));
  parallel_for(g.out_channels, threads, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double s = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double x = static_cast<double>(w[o * k + i]);
        s += x * x;
      }
      to.norms[static_cast<std::size_t>(o)] = std::sqrt(s);
    }
  });
}

// Whether the f64 pass needs no packed weights.
bool reads_in_place(const ConvGeometry& g, bool wants_truth) {
  return g.group_out() <= kDirectChannels && !wants_truth;
}

const ResidueSet* residues_for(Isa isa, const ConvGeometry& g, const ExactSteps& steps = {}) {
  if (steps.residues != nullptr) return conv_residues_possible(g) ? steps.residues : nullptr;
  return refuse_conv_residues(g) ? nullptr : residue_set(isa);
}

// How a layer is summed, and what that needs of its weights.
void choose_pass(const Layer& layer, int threads, PackedWeights& to) {
  const auto& [isa, whole, weights, steps, wants_truth] = layer;
  if (!wants_truth && steps.residues == nullptr && !steps.winograd)
    to.met = met_layer(whole, weights);
  const ConvGeometry& g = to.met ? to.met->g : whole;
  const float* w = to.met ? to.met->w.data() : weights;
  if (g.window.out_points() == 0) return;
  if (const ResidueSet* residues = residues_for(isa, g, steps); residues != nullptr)
    return pack_conv_residues(*residues, g, w, threads, to.residues.emplace());
  if (!wants_truth) {
    to.windows = exact_depthwise_rows(isa, g);
    if (to.windows) return;
    to.layer = exact_winograd_layer(isa, g, steps.winograd);
    if (to.layer) return pack_exact_winograd(isa, g, *to.layer, w, threads, to.winograd);
  }
  if (!reads_in_place(g, wants_truth)) pack_weights(isa, g, w, threads, to);
}

Prepared pack_constant(const Problem& problem, Isa isa, int threads) {
  const Tensor* w = problem.inputs[1].value;
  if (w == nullptr) return nullptr;
  auto prepared = std::make_shared<PackedWeights>();
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  choose_pass({isa, g, w->data<float>().data(), {}, false}, threads, *prepared);
  return prepared;
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  return prepare_exact_pass(problem, threads,
                            [&](const Problem& wide) { return pack_constant(wide, isa, threads); });
}

// The first pass in f64. Appends what it leaves.
void f64_pass(const ExactConv& conv, Isa isa, const PackedWeights* prepared,
              std::vector<std::int64_t>& undecided) {
  const auto& [g, x, weights, bias, y, truth, steps, all_threads] = conv;
  const ExactProducts& products = *exact_products(isa);
  const ExactLanes& lane_functions = *exact_lanes(isa);
  const TileSet& set = *tile_set_f32(isa);
  const ConvPlan plan(g);
  const std::int64_t k = plan.k, out = g.group_out();
  const int lanes = products.lanes, width = 2 * lanes;  // of a vector, of a tile
  const RowStrips strips(out, products.rows);
  PackedWeights fresh;
  const bool direct = reads_in_place(g, truth != nullptr);
  if (prepared == nullptr && !direct) pack_weights(isa, g, weights, all_threads, fresh);
  const PackedWeights& w = prepared == nullptr ? fresh : *prepared;
  const double* packed_w = w.strips.data<double>();
  const std::int64_t vectors = vector_strips(plan.pixels, lanes),
                     tiles = vector_strips(plan.pixels, width);
  // Blocks of k, and blocks of pixels whose windows under one of them and whose sums fit the second
  // cache: weights pass by once for each block of pixels.
  const std::int64_t k_blocks = std::max<std::int64_t>(1, (k + kBlockTerms - 1) / kBlockTerms),
                     k_block = (k + k_blocks - 1) / k_blocks;
  const std::int64_t tile_bytes =
      std::max<std::int64_t>(1, width * (std::int64_t{sizeof(float)} * k_block +
                                         std::int64_t{sizeof(double)} * (k_blocks > 1 ? out : 0)));
  const std::int64_t most = std::max<std::int64_t>(1, kBlockBytes / tile_bytes);
  // Products, packing and rounding of a vector, in cycles.
  const auto cost = [&](std::int64_t parts) {
    const std::int64_t most_channels = (out + parts - 1) / parts;
    const auto channels = static_cast<double>(most_channels), terms = static_cast<double>(k);
    return channels * terms + 4 * terms + 12 * channels;
  };
  const bool last_is_column = plan.pixels % lanes == 1;
  // Blocks are joined: a term meets the roundings of its own and one for each block more.
  const double factor = exact_factor(k_block + k_blocks);
  const auto image_pass = [&](std::int64_t image, int threads, std::vector<std::int64_t>& found) {
    std::mutex joining;
    const float* source = x + image * g.in_channels * g.window.in_points();
    if (plan.copied) {
      float* copy = thread_scratch<float>(ScratchSlot::padded, plan.image_stride);
      parallel_for(g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          plan.copy_channel(source + c * g.window.in_points(), copy + c * plan.channel_stride,
                            split_pairs(isa));
      });
      source = copy;
    }
    if (direct) {
      parallel_for(g.out_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
        const auto& [d, h, columns] = g.window.axes;
        std::vector<std::int64_t> left;
        for (std::int64_t o = begin; o < end; ++o)
          for (std::int64_t row = 0; row < d.out * h.out; ++row)
            for (std::int64_t ox = 0; ox < columns.out; ox += kTapOutputs) {
              const std::int64_t at =
                  (image * g.out_channels + o) * plan.pixels + row * columns.out + ox;
              std::uint32_t open = lane_functions.taps(
                  {.x = source + o / out * g.group_in() * plan.channel_stride +
                        row / h.out * d.stride * plan.plane_stride +
                        row % h.out * h.stride * plan.row_stride + ox,
                   .offset = plan.offset.data(),
                   .w = weights + o * k,
                   .k = k,
                   .added = bias == nullptr ? 0.0 : static_cast<double>(bias[o]),
                   .cells = steps.cells},
                  static_cast<int>(std::min<std::int64_t>(kTapOutputs, columns.out - ox)), y + at);
              if (!steps.rounding_test) open = 0;
              for (; open != 0; open &= open - 1) left.push_back(at + __builtin_ctz(open));
            }
        const std::scoped_lock lock(joining);
        found.insert(found.end(), left.begin(), left.end());
      });
      return;
    }
    const ExactCut cut =
        cheapest_cut(g.groups, static_cast<double>(vectors) - (last_is_column ? kColumnSaves : 0.0),
                     tiles, (tiles + most - 1) / most, strips.count, threads, cost);
    const std::int64_t block = (tiles + cut.blocks - 1) / cut.blocks;
    const std::int64_t items = g.groups * cut.parts * cut.blocks;
    parallel_for(items, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      float* packed = thread_scratch<float>(ScratchSlot::vector, block * width * k_block);
      const std::int64_t c_row = k_blocks > 1 ? block * width : width;
      double* sums =
          thread_scratch<double>(ScratchSlot::tile, (k_blocks > 1 ? out : kMaxTileRows) * c_row);
      double added[kMaxTileRows * kMaxOutputs] = {};
      std::uint32_t open[kMaxTileRows];
      std::vector<double> x_norm(static_cast<std::size_t>(block * width));
      std::vector<std::int64_t> left;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t at_block = item % cut.blocks, part = item / cut.blocks % cut.parts,
                           group = item / cut.blocks / cut.parts;
        const std::int64_t first = at_block * tiles / cut.blocks,
                           count = (at_block + 1) * tiles / cut.blocks - first;
        const std::int64_t first_strip = part * strips.count / cut.parts,
                           last_strip = (part + 1) * strips.count / cut.parts;
        std::ranges::fill(x_norm, 0.0);
        for (std::int64_t kb = 0; kb < k_blocks; ++kb) {
          const std::int64_t from = kb * k_block, terms = std::min(k - from, k_block);
          const bool last = kb + 1 == k_blocks;
          for (std::int64_t v = 0; v < count; ++v) {
            const std::int64_t pixel = (first + v) * width;
            TapPiece pieces[kMaxPieces];
            bool touches = false;
            const int n =
                plan.pieces(source + group * g.group_in() * plan.channel_stride, pixel,
                            static_cast<int>(std::min<std::int64_t>(width, plan.pixels - pixel)),
                            pieces, touches);
            float* to = packed + v * width * k_block;
            set.pack_taps(pieces, n, plan.offset.data() + from, terms, width, to, width);
            double* norms = x_norm.data() + v * width;
            lane_functions.squares(to, width, terms, norms);
            for (int i = 0; last && i < width; ++i) norms[i] = std::sqrt(norms[i]);
          }
          for (std::int64_t s = first_strip; s < last_strip; ++s) {
            const int height = strips.height(s);
            const std::int64_t row = strips.first(s);
            double bounds[kMaxTileRows], row_added[kMaxTileRows];
            for (int r = 0; r < height; ++r) {
              const std::int64_t o = group * out + row + r;
              bounds[r] = factor * w.norms[static_cast<std::size_t>(o)];
              row_added[r] = bias == nullptr ? -0.0 : static_cast<double>(bias[o]);
              if (bias != nullptr) std::fill_n(added + r * kMaxOutputs, kMaxOutputs, row_added[r]);
            }
            // Weights of the strip to come, here or in the next block, a share by each tile.
            const double* next = packed_w;
            std::int64_t ahead = 0;
            if (s + 1 < last_strip) {
              ahead = strips.height(s + 1);
              next += (group * out + row + height) * k + from * ahead;
            } else if (!last) {
              ahead = strips.height(first_strip);
              next += (group * out + strips.first(first_strip)) * k + (from + terms) * ahead;
            }
            const std::int64_t share = exact_share(ahead, count);
            const double* strip_weights = packed_w + (group * out + row) * k + from * height;
            for (std::int64_t v = 0; v < count; ++v) {
              const std::int64_t pixel = (first + v) * width,
                                 at = (image * g.out_channels + group * out + row) * plan.pixels +
                                      pixel;
              const int outputs =
                  static_cast<int>(std::min<std::int64_t>(width, plan.pixels - pixel));
              if (last) lane_functions.ask(y + at, plan.pixels, height, outputs);
              double* c = k_blocks > 1 ? sums + row * c_row + v * width : sums;
              const float* b = packed + v * width * k_block;
              // A vector of one pixel is a column of sums instead.
              const bool alone = outputs % lanes == 1;
              const int whole = (outputs + lanes - 1) / lanes - (alone ? 1 : 0);
              if (alone)
                lane_functions.column({.a = strip_weights,
                                       .height = height,
                                       .b = b + whole * lanes,
                                       .b_step = width,
                                       .k = terms,
                                       .c = c + whole * lanes,
                                       .c_row = c_row,
                                       .join = kb > 0});
              const ExactEnd rounding{.bounds = bounds,
                                      .norms = x_norm.data() + v * width,
                                      .added = row_added,
                                      .y = y + at,
                                      .y_row = plan.pixels,
                                      .undecided = open,
                                      .cells = steps.cells};
              const bool ends = last && outputs == width && truth == nullptr;
              if (whole > 0) {
                const std::uint32_t any =
                    products.of[static_cast<std::size_t>(whole)][static_cast<std::size_t>(height)](
                        {.k = terms,
                         .a = strip_weights,
                         .b = b,
                         .b_step = width,
                         .sums = c,
                         .sums_row = c_row,
                         .join = kb > 0,
                         .end = ends ? &rounding : nullptr,
                         .next = reinterpret_cast<const char*>(next) + v * terms * share,
                         .next_step = share});
                if (any != 0) exact_ended(rounding, height, at, steps, left);
              }
              if (!last || ends) continue;
              exact_tile(lane_functions,
                         {.sums = c,
                          .sums_row = c_row,
                          .rows = height,
                          .count = outputs,
                          .bounds = bounds,
                          .norms = x_norm.data() + v * width,
                          .added = bias == nullptr ? nullptr : added,
                          .added_row = kMaxOutputs,
                          .y = y + at,
                          .y_row = plan.pixels},
                         truth == nullptr ? nullptr : truth + at, at, steps, left);
            }
          }
        }
      }
      const std::scoped_lock lock(joining);
      found.insert(found.end(), left.begin(), left.end());
    });
  };
  each_image(g.batch, all_threads, undecided, image_pass);
}

}  // namespace

namespace {

// Layers of one tap whose outputs lie as their inputs do: products of w and x.
bool is_product(const ConvGeometry& g) {
  const auto whole = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.out == a.in;
  };
  return std::ranges::all_of(g.window.axes, whole) &&
         !exact_is_thin(g.group_out(), g.window.out_points());
}

// In words of bf16 (kernels/gemm/exact_pairs.h).
void products_pass(const KernelCall& call, const KernelCall& halves, Isa isa, const ConvGeometry& g,
                   const ExactSteps& steps, std::vector<std::int64_t>& undecided) {
  const std::int64_t points = g.window.out_points(), in = g.group_in(), out = g.group_out();
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  std::vector<std::int64_t> left;
  for (std::int64_t i = 0; i < g.batch * g.groups; ++i) {
    const std::int64_t group = i % g.groups, from = i * in * points, weights = group * out * in,
                       to = i * out * points;
    left.clear();
    gemm_exact(isa,
               {.m = out,
                .n = points,
                .k = in,
                .a = {call.input(1).data<float>().data() + weights, in, 1},
                .b = {call.input(0).data<float>().data() + from, 1, points},
                .c = bias == nullptr ? nullptr : bias + group * out,
                .c_row = 1,
                .y = call.output(0).mutable_data<float>().data() + to,
                .steps = steps,
                .a_halves = bf16_bits(halves.input(1)) + weights,
                .b_halves = bf16_bits(halves.input(0)) + from},
               call.threads, left);
    for (const std::int64_t at : left) undecided.push_back(to + at);
  }
}

// The layer as it is, or what is left of it.
void layer_pass(const ExactConv& conv, Isa isa, const PackedWeights& p,
                std::vector<std::int64_t>& undecided) {
  const ConvGeometry& g = conv.g;
  const ExactSteps& steps = conv.steps;
  bool done = true;
  if (p.residues) {
    // Residues have no NaN and no infinity; the f64 pass leaves just the outputs that meet one.
    done = p.residues->finite && conv_residues(*residues_for(isa, g, steps), *exact_lanes(isa),
                                               *p.residues, conv, undecided);
  } else if (p.windows || p.layer) {
    if (p.windows)
      exact_depthwise(isa, *p.windows, conv, undecided);
    else
      exact_winograd(
          isa, g, *p.layer,
          {.x = conv.x, .w = &p.winograd, .bias = conv.bias, .y = conv.y, .steps = steps},
          conv.threads, undecided);
    // A few large inputs widen the bound of all that share a tile or a channel with them. Plain
    // sums, whose bounds are their own, are cheaper then than settling one in so many.
    done = static_cast<std::int64_t>(undecided.size()) * kSettledShare <=
           g.batch * g.out_channels * g.window.out_points();
  } else {
    f64_pass(conv, isa, &p, undecided);
  }
  if (!done) {
    undecided.clear();
    f64_pass(conv, isa, nullptr, undecided);
  }
  exact_counts().undecided += static_cast<std::int64_t>(undecided.size());
  if (steps.settle) settle_conv(isa, conv, undecided);
}

// `call` in f32; `halves`: the call as it was.
void conv_pass(const KernelCall& call, [[maybe_unused]] const KernelCall& halves, Isa isa,
               const ExactSteps& steps, std::vector<std::int64_t>& undecided) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
#if defined(__x86_64__)
  if (takes_words(isa, bf16_or_null(halves.input(0))) && is_product(g) &&
      steps.residues == nullptr && !steps.winograd && truth == nullptr)
    return products_pass(call, halves, isa, g, steps, undecided);
#endif
  ExactConv conv{.g = g,
                 .x = call.input(0).data<float>().data(),
                 .w = call.input(1).data<float>().data(),
                 .bias = call.has(2) ? call.input(2).data<float>().data() : nullptr,
                 .y = call.output(0).mutable_data<float>().data(),
                 .truth = truth,
                 .steps = steps,
                 .threads = call.threads};
  const auto* p = static_cast<const PackedWeights*>(call.prepared);
  PackedWeights fresh;
  // Beside a truth only residues and packed strips serve, of the layer as it is.
  const bool serves =
      p != nullptr && (truth == nullptr || (!p->met && (p->residues || !p->norms.empty())));
  if (!serves) {
    choose_pass({isa, g, conv.w, steps, truth != nullptr}, call.threads, fresh);
    p = &fresh;
  }
  if (!p->met) return layer_pass(conv, isa, *p, undecided);
  const MetLayer& met = *p->met;
  thread_local AlignedBuffer part;
  conv.y = part.at_least<float>(std::max<std::int64_t>(1, met.g.output_shape().numel()));
  if (met.g.window.out_points() > 0)
    layer_pass({.g = met.g,
                .x = conv.x,
                .w = met.w.data(),
                .bias = conv.bias,
                .y = conv.y,
                .steps = steps,
                .threads = call.threads},
               isa, *p, undecided);
  met.outputs.place(conv.y, call);
  for (std::int64_t& at : undecided) at = met.outputs.whole(at);
}

}  // namespace

void run_conv_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  run_exact_pass(
      call, steps,
      [&](const KernelCall& wide, const ExactSteps& all, std::vector<std::int64_t>& left) {
        conv_pass(wide, call, isa, all, left);
      },
      run_conv_definition);
}

namespace {

// What has no pass through residues belongs to the row below.
Refusal refuse_amx(const Problem& problem) {
  if (Refusal reason = refuse_unless_exact_narrow(problem)) return reason;
  return refuse_conv_residues(conv_geometry(problem.params->as<ConvParams>(),
                                            problem.input(0).shape, problem.input(1).shape));
}

}  // namespace

template <Isa isa>
KernelRow conv_exact_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = isa == Isa::amx ? refuse_amx : refuse_unless_exact_narrow,
          .run = [](const KernelCall& call) { run_conv_exact(call, isa, {}); },
          .prepare = prepare<isa>};
}
template KernelRow conv_exact_row<Isa::amx>(std::string_view name);
template KernelRow conv_exact_row<Isa::avx512>(std::string_view name);
template KernelRow conv_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
