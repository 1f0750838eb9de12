// Limit: the convolutions' own, and three passes over memory (turned input, a phase's outputs,
// their places) that a phase of few terms feels; README.md.
#include "kernels/conv/transpose_phases.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/fast.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

// One remainder of one axis.
struct AxisPhase {
  std::int64_t first_output = 0, stride = 1;  // output of j is first_output + stride j
  std::int64_t j_begin = 0, j_end = 0;        // those that some tap may meet
  std::int64_t first_tap = 0, tap_step = 1, taps = 0, dilation = 1;
  bool turned = false;
  std::int64_t input_begin = 0, input_end = 0;  // of the input as it lies
  std::int64_t pad_begin = 0, pad_end = 0;      // of the convolution
  std::int64_t outputs() const { return std::max<std::int64_t>(0, j_end - j_begin); }
  std::int64_t inputs() const { return input_end - input_begin; }
};

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

// A phase of all axes, and the convolution that it is.
struct Phase {
  std::array<AxisPhase, kMaxSpatial> axes;
  Params params;
  std::vector<InferInput> inputs;
  std::array<TensorType, 1> output;
  Tensor weights;
  const KernelRow* row = nullptr;
  Prepared prepared;

  std::int64_t outputs() const { return axes[0].outputs() * axes[1].outputs() * axes[2].outputs(); }
  std::int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  Problem problem(const Problem& whole) const {
    static const OpRow& conv = conv_op();
    return {.op = &conv,
            .params = &params,
            .inputs = inputs,
            .outputs = output,
            .contract = whole.contract,
            .device = whole.device,
            .isa = whole.isa};
  }
};

ConvTransposeGeometry geometry_of(const Problem& problem) {
  return conv_transpose_geometry(problem.params->as<ConvTransposeParams>(), problem.input(0).shape,
                                 problem.input(1).shape);
}

Shape with_spatial(std::int64_t n, std::int64_t c, const ConvTransposeGeometry& g,
                   const std::array<std::int64_t, kMaxSpatial>& extents) {
  Ints dims{n, c};
  for (int i = kMaxSpatial - g.window.spatial; i < kMaxSpatial; ++i)
    dims.push_back(extents[static_cast<std::size_t>(i)]);
  return Shape(std::span(dims));
}

std::vector<Phase> phases_of(const Problem& problem, const ConvTransposeGeometry& g) {
  std::vector<Phase> out;
  const auto& [d, h, w] = g.window.axes;
  for (std::int64_t fz = 0; fz < std::min(d.stride, d.out); ++fz)
    for (std::int64_t fy = 0; fy < std::min(h.stride, h.out); ++fy)
      for (std::int64_t fx = 0; fx < std::min(w.stride, w.out); ++fx) {
        Phase p;
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
        const DType type = problem.input(0).dtype;
        p.params = Params(params);
        p.inputs = {
            {.type = {type, with_spatial(g.batch, g.in_channels, g, in)}, .given = true},
            {.type = {type, with_spatial(g.out_channels, g.group_in(), g, taps)}, .given = true}};
        if (problem.has(2)) p.inputs.push_back(problem.inputs[2]);
        p.output = {TensorType{type, with_spatial(g.batch, g.out_channels, g, to)}};
        out.push_back(std::move(p));
      }
  return out;
}

// w [C, O/G, kernel] to [O, C/G, the phase's taps].
Tensor weights_of(const Phase& p, const ConvTransposeGeometry& g, const float* w) {
  Tensor out = Tensor::uninitialized(DType::f32, p.inputs[1].type.shape);
  float* to = out.mutable_data<float>().data();
  const auto& [d, h, x] = g.window.axes;
  const auto& [pd, ph, px] = p.axes;
  for (std::int64_t o = 0; o < g.out_channels; ++o)
    for (std::int64_t c = 0; c < g.group_in(); ++c) {
      const std::int64_t channel = o / g.group_out() * g.group_in() + c;
      const float* from = w + (channel * g.group_out() + o % g.group_out()) * g.window.taps();
      for (std::int64_t rz = 0; rz < pd.taps; ++rz)
        for (std::int64_t ry = 0; ry < ph.taps; ++ry)
          for (std::int64_t rx = 0; rx < px.taps; ++rx)
            *to++ = from[((pd.first_tap + rz * pd.tap_step) * h.kernel + ph.first_tap +
                          ry * ph.tap_step) *
                             x.kernel +
                         px.first_tap + rx * px.tap_step];
    }
  return out;
}

void prepare_weights(Phase& p, const ConvTransposeGeometry& g, const Problem& whole, const float* w,
                     int threads) {
  p.weights = weights_of(p, g, w);
  p.inputs[1].value = &p.weights;
  if (p.row->prepare != nullptr) p.prepared = p.row->prepare(p.problem(whole), threads);
}

// The part of x that a phase reads, its axes turned where the phase says so.
Tensor input_of(const Phase& p, const ConvTransposeGeometry& g, const Tensor& x, int threads) {
  const auto& [d, h, w] = g.window.axes;
  const auto& [pd, ph, pw] = p.axes;
  const bool whole = pd.inputs() == d.in && ph.inputs() == h.in && pw.inputs() == w.in;
  if (whole && !pd.turned && !ph.turned && !pw.turned) return x.share();
  Tensor out = Tensor::uninitialized(DType::f32, p.inputs[0].type.shape);
  const float* from = x.data<float>().data();
  float* to = out.mutable_data<float>().data();
  const auto at = [](const AxisPhase& a, std::int64_t i) {
    return a.turned ? a.input_end - 1 - i : a.input_begin + i;
  };
  const std::int64_t planes = pd.inputs(), rows = ph.inputs(), columns = pw.inputs();
  parallel_for(g.batch * g.in_channels * planes * rows, threads, 64,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i % rows, z = i / rows % planes, c = i / (rows * planes);
                   const float* row = from + ((c * d.in + at(pd, z)) * h.in + at(ph, y)) * w.in;
                   float* copy = to + i * columns;
                   if (pw.turned)
                     std::reverse_copy(row + pw.input_begin, row + pw.input_end, copy);
                   else
                     std::copy(row + pw.input_begin, row + pw.input_end, copy);
                 }
               });
  return out;
}

// A phase's outputs to their places among all.
template <class T>
void place(const Phase& p, const ConvTransposeGeometry& g, const Tensor& part, Tensor& all,
           int threads) {
  const auto& [d, h, w] = g.window.axes;
  const auto& [pd, ph, pw] = p.axes;
  const auto at = [](const AxisPhase& a, std::int64_t i) {
    return a.first_output + a.stride * (a.turned ? a.j_end - 1 - i : a.j_begin + i);
  };
  const T* from = part.data<T>().data();
  T* to = all.mutable_data<T>().data();
  const std::int64_t planes = pd.outputs(), rows = ph.outputs(), columns = pw.outputs();
  const std::int64_t first = at(pw, 0), step = pw.turned ? -pw.stride : pw.stride;
  parallel_for(g.batch * g.out_channels * planes * rows, threads, 64,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i % rows, z = i / rows % planes, c = i / (rows * planes);
                   const T* row = from + i * columns;
                   T* place = to + ((c * d.out + at(pd, z)) * h.out + at(ph, y)) * w.out + first;
                   for (std::int64_t k = 0; k < columns; ++k) place[k * step] = row[k];
                 }
               });
}

// Outputs that no tap meets: a sum of no terms, and the bias.
template <class T>
void fill_unmet(const ConvTransposeGeometry& g, const Tensor* bias, Tensor& y) {
  T* to = y.mutable_data<T>().data();
  const std::int64_t points = g.window.out_points();
  for (std::int64_t i = 0; i < g.batch * g.out_channels; ++i, to += points) {
    const float b =
        bias == nullptr ? 0.0F : bias->data<float>()[static_cast<std::size_t>(i % g.out_channels)];
    std::fill_n(to, points, static_cast<T>(canonical(0.0F + b)));
  }
}

struct PreparedPhases {
  explicit PreparedPhases(const ConvTransposeGeometry& geometry) : g(geometry) {}
  ConvTransposeGeometry g;
  std::vector<Phase> phases;
  std::int64_t met = 0;  // outputs of one channel that a phase computes
  bool packed = false;
};

using Rows = std::span<const KernelRow>;

// The first of the rows that takes it.
const KernelRow* row_of(Rows rows, const Problem& problem, Refusal& why) {
  for (const KernelRow& row : rows) {
    why = row.refuse(problem);
    if (!why) return &row;
  }
  return nullptr;
}

Refusal refuse(Rows rows, const Problem& problem) {
  const ConvTransposeGeometry g = geometry_of(problem);
  if (Refusal reason = refuse_unless_f32(problem)) return reason;
  if (g.k() == 0 || g.window.in_points() == 0) return "takes sums that have terms";
  // A phase of one tap would take every walk; of the op's taps the walk is asked.
  if (problem.contract->walk != Walk{} && g.group_in() != 1 && g.window.taps() != 1)
    return "promises walk=crs only";
  Refusal why;
  for (const Phase& p : phases_of(problem, g))
    if (row_of(rows, p.problem(problem), why) == nullptr) return why;
  return std::nullopt;
}

std::shared_ptr<PreparedPhases> make_phases(Rows rows, const Problem& problem) {
  auto out = std::make_shared<PreparedPhases>(geometry_of(problem));
  out->phases = phases_of(problem, out->g);
  Refusal why;
  for (Phase& p : out->phases) {
    p.row = row_of(rows, p.problem(problem), why);
    out->met += p.outputs();
  }
  return out;
}

void pack(PreparedPhases& all, const Problem& problem, const Tensor& w, int threads) {
  for (Phase& p : all.phases) prepare_weights(p, all.g, problem, w.data<float>().data(), threads);
  all.packed = true;
}

Prepared prepare(Rows rows, const Problem& problem, int threads) {
  auto out = make_phases(rows, problem);
  if (const Tensor* w = problem.inputs[1].value) pack(*out, problem, *w, threads);
  return out;
}

void run(Rows rows, const KernelCall& call) {
  const auto* prepared = static_cast<const PreparedPhases*>(call.prepared);
  std::shared_ptr<PreparedPhases> fresh;
  if (prepared == nullptr || !prepared->packed) {
    fresh = make_phases(rows, *call.problem);
    pack(*fresh, *call.problem, call.input(1), call.threads);
    prepared = fresh.get();
  }
  const ConvTransposeGeometry& g = prepared->g;
  Tensor& y = call.output(0);
  Tensor* truth = call.truth.empty() || !call.truth[0] ? nullptr : call.truth.data();
  const Tensor* bias = call.has(2) ? &call.input(2) : nullptr;
  if (prepared->met < g.window.out_points()) {
    fill_unmet<float>(g, bias, y);
    if (truth != nullptr) fill_unmet<double>(g, bias, *truth);
  }
  for (const Phase& p : prepared->phases) {
    const Tensor x = input_of(p, g, call.input(0), call.threads);
    const Problem problem = p.problem(*call.problem);
    const Tensor* inputs[] = {&x, &p.weights, bias};
    std::array<Tensor, 1> part{Tensor::uninitialized(DType::f32, p.output[0].shape)}, true_part;
    KernelCall conv{.problem = &problem,
                    .inputs = std::span(inputs).first(bias == nullptr ? 2 : 3),
                    .outputs = part,
                    .truth = {},
                    .threads = call.threads,
                    .prepared = p.prepared.get(),
                    .finished = nullptr};
    if (truth != nullptr) {
      true_part[0] = Tensor::uninitialized(DType::f64, p.output[0].shape);
      conv.truth = true_part;
    }
    p.row->run(conv);
    place<float>(p, g, part[0], y, call.threads);
    if (truth != nullptr) place<double>(p, g, true_part[0], *truth, call.threads);
  }
}

template <Isa isa>
Rows seq_rows() {
  static const KernelRow rows[] = {depthwise_f32_row<isa>("conv.f32.depthwise"),
                                   conv_f32_row<isa>("conv.f32")};
  return rows;
}
template <Isa isa>
Rows exact_rows() {
  static const KernelRow rows[] = {conv_exact_row<isa>("conv.exact")};
  return rows;
}

template <Rows (*rows)()>
KernelRow phases_row(std::string_view name, std::string_view contracts, Isa isa) {
  return {.op = "conv_transpose",
          .name = name,
          .isa = isa,
          .contracts = contracts,
          .refuse = [](const Problem& p) { return refuse(rows(), p); },
          .run = [](const KernelCall& call) { run(rows(), call); },
          .prepare = [](const Problem& p, int threads) { return prepare(rows(), p, threads); }};
}

}  // namespace

template <Isa isa>
KernelRow conv_transpose_seq_row(std::string_view name) {
  return phases_row<seq_rows<isa>>(name, "seq", isa);
}
template <Isa isa>
KernelRow conv_transpose_exact_row(std::string_view name) {
  return phases_row<exact_rows<isa>>(name, "exact", isa);
}
template KernelRow conv_transpose_seq_row<Isa::avx512>(std::string_view name);
template KernelRow conv_transpose_seq_row<Isa::avx2>(std::string_view name);
template KernelRow conv_transpose_exact_row<Isa::avx512>(std::string_view name);
template KernelRow conv_transpose_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
