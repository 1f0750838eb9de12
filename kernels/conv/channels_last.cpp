// Limit: as conv's and gemm's tiles have it; the turned copies are one more pass over x, in cache
// but for few terms. Share reached: README.md.
#include "kernels/conv/channels_last.h"

#include <array>
#include <cmath>

#include "engine/ops/conv_channels_last.h"
#include "kernels/conv/channels_last_depthwise.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/fast.h"
#include "kernels/conv/fast_chunk.h"
#include "kernels/conv/order_rows.h"
#include "kernels/gemm/fast.h"
#include "kernels/gemm/refuse.h"
#include "kernels/movement/copy.h"

namespace etalon {
namespace {

ConvGeometry geometry_of(const Problem& problem) {
  return conv_channels_last_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                     problem.input(1).shape);
}

// [outer][rows][columns] to [outer][columns][rows].
void turn(std::int64_t outer, std::int64_t rows, std::int64_t columns, int bytes,
          const std::byte* from, std::byte* to, int threads) {
  StridedLoop<2> loop;
  loop.add_axis(outer, {rows * columns, rows * columns});
  loop.add_axis(columns, {rows, 1});
  loop.add_axis(rows, {1, columns});
  copy_strided(loop, bytes, to, from, threads);
}
void turn(std::int64_t outer, std::int64_t rows, std::int64_t columns, const float* from, float* to,
          int threads) {
  turn(outer, rows, columns, sizeof(float), reinterpret_cast<const std::byte*>(from),
       reinterpret_cast<std::byte*>(to), threads);
}

enum class Way { product, depthwise, tiles };

struct PreparedLast {
  ConvGeometry g;
  Way way = Way::tiles;
  bool packed = false;
  AlignedBuffer weights;               // product, depthwise: vectors of channels, each [k][lanes]
  std::shared_ptr<PreparedConv> conv;  // tiles
};

bool is_product(const ConvGeometry& g) {
  if (g.groups != 1) return false;
  for (const WindowAxis& a : g.window.axes)
    if (a.kernel != 1 || a.out == 0 || a.at(0, 0) < 0 || a.at(a.out - 1, 0) >= a.in) return false;
  return true;
}

bool is_depthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.group_in() == 1 && g.group_out() == 1 && g.window.axes[0].in == 1 &&
         g.window.axes[0].kernel == 1 && g.window.axes[0].out == 1;
}

Way way_of(const ConvGeometry& g) {
  return is_product(g) ? Way::product : is_depthwise(g) ? Way::depthwise : Way::tiles;
}

void pack(PreparedLast& p, const TileSet& set, const float* w, int threads) {
  const ConvGeometry& g = p.g;
  const std::int64_t k = g.k(), out = g.out_channels;
  switch (p.way) {
    case Way::product:
    case Way::depthwise:
      pack_vector(set, {w, k, 1}, out, k, threads,
                  p.weights.at_least<float>(vector_strips(out, set.lanes) * set.lanes * k));
      break;
    case Way::tiles:
      p.conv = prepare_conv(g, set, true, w, threads);
      break;
  }
  p.packed = true;
}

std::shared_ptr<PreparedLast> make(const TileSet& set, const ConvGeometry& g, const float* w,
                                   int threads) {
  auto p = std::make_shared<PreparedLast>();
  p->g = g;
  p->way = way_of(g);
  if (w != nullptr) pack(*p, set, w, threads);
  return p;
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor* w = problem.inputs[1].value;
  return make(*tile_set_f32(isa), geometry_of(problem),
              w == nullptr ? nullptr : w->data<float>().data(), threads);
}

// The pixels that a tap of several strides meets, one after the other.
void sample(const ConvGeometry& g, const float* x, float* to, int threads) {
  const auto& [d, h, w] = g.window.axes;
  const std::int64_t channels = g.in_channels;
  parallel_for(g.batch * d.out * h.out, threads, std::max<std::int64_t>(1, 4096 / channels),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t n = i / (d.out * h.out), z = d.at(i / h.out % d.out, 0),
                                      y = h.at(i % h.out, 0);
                   const float* row = x + ((n * d.in + z) * h.in + y) * w.in * channels;
                   for (std::int64_t c = 0; c < w.out; ++c)
                     std::copy_n(row + w.at(c, 0) * channels, channels,
                                 to + (i * w.out + c) * channels);
                 }
               });
}

void run_product(const KernelCall& call, const PreparedLast& p, const TileSet& set,
                 const float* bias, float* y) {
  const ConvGeometry& g = p.g;
  const float* x = call.input(0).data<float>().data();
  const std::int64_t pixels = g.batch * g.window.out_points();
  if (g.window.out_points() != g.window.in_points()) {
    float* to = thread_scratch<float>(ScratchSlot::turned, pixels * g.in_channels);
    sample(g, x, to, call.threads);
    x = to;
  }
  const std::optional<UsualSteps> steps =
      call.steps.empty() ? std::nullopt : usual_steps(call.steps);
  gemm_f32(set,
           {.m = pixels,
            .n = g.out_channels,
            .k = g.in_channels,
            .a = {x, g.in_channels, 1},
            .packed_b = p.weights.data<float>(),
            .c = bias,
            .c_col = 1,
            .y = y,
            .finished = call.finished,
            .ending = steps ? &*steps : nullptr},
           call.threads);
}

template <Isa isa>
void run_depthwise(const KernelCall& call, const PreparedLast& p, const float* bias, float* y) {
  const ConvGeometry& g = p.g;
  const auto& [d, h, w] = g.window.axes;
  const float* x = call.input(0).data<float>().data();
  const std::int64_t channels = g.in_channels, row = w.out * channels;
  const int lanes = tile_set_f32(isa)->lanes;
  std::optional<LaneEnding> ending;
  if (const auto steps = usual_steps(call.steps); steps && !call.steps.empty()) {
    ending.emplace().relu = steps->relu;
    if (const PointwiseStep* affine = steps->affine)
      ending = {.mean = affine->mean,
                .factor = affine->factor,
                .bias = affine->bias,
                .fused = affine->fused,
                .relu = steps->relu};
  }
  // Bands of rows, for what walks down them; also parts of the channels, for threads.
  constexpr std::int64_t kBand = 14, kSerialTerms = 200000;
  const std::int64_t bands = (h.out + kBand - 1) / kBand, outer = g.batch * bands;
  const int threads = g.batch * h.out * row * g.k() < kSerialTerms ? 1 : call.threads;
  const std::int64_t vectors = vector_strips(channels, lanes);
  std::int64_t parts = 1;
  while (outer * parts % threads != 0 && parts < std::min<std::int64_t>(threads, vectors)) ++parts;
  parallel_for(outer * parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t image = i / parts / bands, band = i / parts % bands, part = i % parts;
      const std::int64_t first = band * h.out / bands;
      const DepthwiseRun run{
          .x = x + image * g.window.in_points() * channels,
          .w = p.weights.data<float>(),
          .bias = bias,
          .y = y + (image * h.out + first) * row,
          .channels = channels,
          .first_channel = part * vectors / parts * lanes,
          .last_channel = std::min(channels, (part + 1) * vectors / parts * lanes),
          .in_rows = h.in,
          .in_columns = w.in,
          .tap_rows = h.kernel,
          .tap_columns = w.kernel,
          .row = h.at(first, 0),
          .column = w.at(0, 0),
          .row_dilation = h.dilation,
          .column_dilation = w.dilation,
          .row_stride = h.stride,
          .stride = w.stride,
          .rows = (band + 1) * h.out / bands - first,
          .count = w.out,
          .ending = ending ? &*ending : nullptr};
      isa >= Isa::avx512 ? avx512::depthwise_run(run) : avx2::depthwise_run(run);
      if (call.finished != nullptr && !ending)
        (*call.finished)({.begin = (run.y - y) + run.first_channel,
                          .count = run.last_channel - run.first_channel,
                          .rows = run.rows * w.out,
                          .stride = channels});
    }
  });
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet& set = *tile_set_f32(isa);
  const auto* prepared = static_cast<const PreparedLast*>(call.prepared);
  std::shared_ptr<PreparedLast> fresh;
  if (prepared == nullptr || !prepared->packed) {
    fresh = make(set, geometry_of(*call.problem), call.input(1).data<float>().data(), call.threads);
    prepared = fresh.get();
  }
  const ConvGeometry& g = prepared->g;
  const float* bias = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  float* y = call.output(0).mutable_data<float>().data();
  if (prepared->way == Way::product) return run_product(call, *prepared, set, bias, y);
  if (prepared->way == Way::depthwise) return run_depthwise<isa>(call, *prepared, bias, y);
  const float* x = call.input(0).data<float>().data();
  if (!prepared->conv->in_place.worthwhile()) {
    const std::int64_t points = g.window.in_points();
    float* to = thread_scratch<float>(ScratchSlot::turned, g.batch * points * g.in_channels);
    turn(g.batch, points, g.in_channels, x, to, call.threads);
    x = to;
  }
  run_prepared(call, *prepared->conv, set, x, y);
}

// Products and depthwise sums end in registers; tiles announce theirs.
Ending ending(const Problem& problem, const void* prepared, std::span<const PointwiseStep> steps) {
  const auto* p = static_cast<const PreparedLast*>(prepared);
  const std::optional<UsualSteps> usual = usual_steps(steps);
  if (p == nullptr || !p->packed || !usual) return Ending::announced;
  if (usual->affine != nullptr &&
      (usual->affine->inner != 1 || usual->affine->channels != p->g.out_channels))
    return Ending::announced;
  if (p->way == Way::depthwise) return usual->add == nullptr ? Ending::applied : Ending::announced;
  // One pixel by itself is another tile.
  const bool tiles = problem.outputs[0].shape.numel() > p->g.out_channels;
  return p->way == Way::product && tiles ? Ending::in_place : Ending::announced;
}

Refusal refuse(const Problem& problem) {
  Contract c = *problem.contract;
  // With one channel or one tap every walk is the same.
  const Shape& w = problem.input(1).shape;
  if (w.rank() >= 3 && (w[1] == 1 || w.product(2, w.rank()) == 1)) c.walk = Walk{};
  if (!c.is_seq()) return "promises seq with walk=crs only";
  if (Refusal reason = refuse_unless_f32(problem)) return reason;
  const ConvGeometry g = geometry_of(problem);
  if (g.k() == 0) return "takes sums that have terms";
  if (!MetOutputs(g).all()) return "takes windows that meet the input";
  return std::nullopt;
}

// The convolution of the turned tensors, as a problem of its own.
struct Turned {
  std::array<InferInput, 3> inputs;
  std::array<TensorType, 1> output;
  const Problem* whole = nullptr;

  explicit Turned(const Problem& problem) : whole(&problem) {
    for (std::size_t i = 0; i < problem.inputs.size(); ++i) inputs[i] = problem.inputs[i];
    inputs[0].type.shape = channels_first(inputs[0].type.shape);
    inputs[0].value = nullptr;
    output[0] = problem.outputs[0];
    output[0].shape = channels_first(output[0].shape);
  }
  Problem problem() const {
    return {.op = &conv_op(),
            .params = whole->params,
            .inputs = std::span(inputs).first(whole->inputs.size()),
            .outputs = output,
            .contract = whole->contract,
            .device = whole->device,
            .isa = whole->isa};
  }
};

template <Isa isa>
const KernelRow* row_of(const Problem& conv, Refusal& why) {
  static const KernelRow rows[] = {conv_f32_row<isa>("conv.f32"), conv_exact_row<isa>("conv.exact"),
                                   conv_order_row<isa>("conv.order")};
  for (const KernelRow& row : rows) {
    why = row.refuse(conv);
    if (!why) return &row;
  }
  return nullptr;
}

struct PreparedTurned {
  const KernelRow* row = nullptr;
  Prepared inner;
};

template <Isa isa>
Prepared prepare_turned(const Problem& problem, int threads) {
  const Turned turned(problem);
  const Problem conv = turned.problem();
  Refusal why;
  auto p = std::make_shared<PreparedTurned>();
  p->row = row_of<isa>(conv, why);
  if (p->row->prepare != nullptr) p->inner = p->row->prepare(conv, threads);
  return p;
}

Tensor turned_input(const ConvGeometry& g, const Tensor& x, int threads) {
  Tensor to = Tensor::uninitialized(x.dtype(), channels_first(x.shape()));
  turn(g.batch, g.window.in_points(), g.in_channels, size_bytes(x.dtype()), x.bytes().data(),
       to.mutable_bytes().data(), threads);
  return to;
}

void turn_back(const ConvGeometry& g, const Tensor& from, Tensor& to, int threads) {
  turn(g.batch, g.out_channels, g.window.out_points(), size_bytes(from.dtype()),
       from.bytes().data(), to.mutable_bytes().data(), threads);
}

template <Isa isa>
void run_turned(const KernelCall& call) {
  const Prepared fresh =
      call.prepared == nullptr ? prepare_turned<isa>(*call.problem, call.threads) : nullptr;
  const auto& prepared =
      *static_cast<const PreparedTurned*>(call.prepared == nullptr ? fresh.get() : call.prepared);
  const ConvGeometry g = geometry_of(*call.problem);
  const Turned turned(*call.problem);
  const Problem problem = turned.problem();
  const Tensor x = turned_input(g, call.input(0), call.threads);
  const std::array<const Tensor*, 3> inputs{&x, &call.input(1),
                                            call.has(2) ? &call.input(2) : nullptr};
  Tensor* truth = call.truth.empty() || !call.truth[0] ? nullptr : call.truth.data();
  std::array<Tensor, 1> y{Tensor::uninitialized(call.output(0).dtype(), g.output_shape())};
  std::array<Tensor, 1> exact;
  KernelCall conv{.problem = &problem,
                  .inputs = std::span(inputs).first(call.inputs.size()),
                  .outputs = y,
                  .truth = {},
                  .threads = call.threads,
                  .prepared = prepared.inner.get(),
                  .finished = nullptr};
  if (truth != nullptr) {
    exact[0] = Tensor::uninitialized(DType::f64, g.output_shape());
    conv.truth = exact;
  }
  prepared.row->run(conv);
  turn_back(g, y[0], call.output(0), call.threads);
  if (truth != nullptr) turn_back(g, exact[0], *truth, call.threads);
}

template <Isa isa>
Refusal refuse_turned(const Problem& problem) {
  const Turned turned(problem);
  Refusal why;
  row_of<isa>(turned.problem(), why);
  return why;
}

}  // namespace

template <Isa isa>
KernelRow conv_channels_last_seq_row(std::string_view name) {
  return {.op = "conv_channels_last",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<isa>,
          .prepare = prepare<isa>,
          .announces = true,
          .ending = ending};
}
template <Isa isa>
KernelRow conv_channels_last_turned_row(std::string_view name) {
  return {.op = "conv_channels_last",
          .name = name,
          .isa = isa,
          .contracts = "what conv's rows of f32, exact and every order promise",
          .refuse = refuse_turned<isa>,
          .run = run_turned<isa>,
          .prepare = prepare_turned<isa>};
}
template KernelRow conv_channels_last_seq_row<Isa::avx512>(std::string_view name);
template KernelRow conv_channels_last_seq_row<Isa::avx2>(std::string_view name);
template KernelRow conv_channels_last_turned_row<Isa::avx512>(std::string_view name);
template KernelRow conv_channels_last_turned_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
