// conv by the engines of cuDNN 9's graph interface, each by its number: cudnn.conv.graph.engine28.
// The library counts the engines of a graph from 0 (81 for a convolution in 9.19, the same without
// a device); which of them take a problem on a device, and what they do to its numbers, it says
// when they are asked. So a row asks: an engine whose notes say tensor core, inputs in a narrower
// format or sums in one, runs under the name that ends in _tensor_core alone, and the other name
// refuses it. A library of more engines has some without a row.
//
// An engine runs in the first configuration of it that the library's heuristics name (mode A, then
// fallback), else in its own. Plans are made once for each problem and thread: some are compiled.
// The bias is added by cudnnAddTensor, as in cudnn.cpp.
#include "kernels/conv/cudnn_graph.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "engine/ops/conv.h"
#include "kernels/backends/cuda/cudnn_graph.h"

namespace etalon::cuda {
namespace {

using dnn::as_int;
using dnn::call;
using dnn::Described;
using dnn::GraphPart;
using dnn::handle;

constexpr int kEngines = 81;

enum Note : int { kTensorCore = 0, kNarrowInputs = 1, kNarrowSums = 2 };
constexpr std::string_view kNotes[] = {"tensor core",
                                       "inputs in a narrower format",
                                       "sums in a narrower format",
                                       "fft",
                                       "not deterministic",
                                       "winograd",
                                       "winograd 4x4",
                                       "winograd 6x6",
                                       "winograd 13x13",
                                       "strict NaN"};

// ---- the graph ----------------------------------------------------------------------------------

constexpr std::int64_t kX = 1, kW = 2, kY = 3;  // names of the tensors

GraphPart tensor(std::int64_t name, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * extents[i + 1];
  constexpr std::int64_t kAlignment = 16;  // bytes; memory of a pool begins at multiples of 256
  GraphPart t(dnn::kGraphTensor);
  t.set(dnn::kTensorAlignment, kAlignment);
  t.set(dnn::kTensorType, dnn::kOfDataType, 1, &dnn::kFloat);
  t.set(dnn::kTensorExtents, extents);
  t.set(dnn::kTensorStrides, strides);
  t.set(dnn::kTensorName, name);
  t.finish("cudnnBackendFinalize of a tensor");
  return t;
}

struct Engine {
  int status = 0;  // 0: it takes the graph
  std::vector<int> notes;
  bool compiles = false;  // a plan of it
};

struct Plan {
  GraphPart plan{dnn::kPlan};
  std::int64_t workspace = 0;
  bool suggested = false;  // by the heuristics
};

class ConvGraph {
 public:
  explicit ConvGraph(const CudnnConvShape& s)
      : x_(tensor(kX, s.x)), w_(tensor(kW, s.w)), y_(tensor(kY, s.y)) {
    constexpr int kCrossCorrelation = 1;
    constexpr float kOne = 1, kZero = 0;
    conv_.set(dnn::kConvolutionSums, dnn::kOfDataType, 1, &dnn::kFloat);
    conv_.set(dnn::kConvolutionMode, dnn::kOfConvolutionMode, 1, &kCrossCorrelation);
    conv_.set(dnn::kDilations, s.dilations);
    conv_.set(dnn::kStrides, s.strides);
    conv_.set(dnn::kPaddingBehind, s.behind);
    conv_.set(dnn::kPaddingBefore, s.before);
    conv_.set(dnn::kSpatialAxes, std::ssize(s.strides));
    conv_.finish("cudnnBackendFinalize of a convolution");
    forward_.set(dnn::kForwardAlpha, dnn::kOfFloat, 1, &kOne);
    forward_.set(dnn::kForwardBeta, dnn::kOfFloat, 1, &kZero);
    forward_.set(dnn::kForwardConvolution, conv_);
    forward_.set(dnn::kForwardW, w_);
    forward_.set(dnn::kForwardX, x_);
    forward_.set(dnn::kForwardY, y_);
    forward_.finish("cudnnBackendFinalize of a forward convolution");
    const dnn::Handle own = handle();
    graph_.set(dnn::kGraphHandle, dnn::kOfHandle, 1, &own);
    graph_.set(dnn::kGraphOperations, forward_);
    graph_.finish("cudnnBackendFinalize of a graph");
    count_ = graph_.number(dnn::kGraphEngines);
    for (int i = 0; i < std::min<std::int64_t>(count_, kEngines); ++i) {
      Engine& e = engines_.emplace_back();
      GraphPart part = engine(i);
      e.status = part.try_finish();
      if (e.status != 0) continue;
      GraphPart config(dnn::kEngineConfig);
      config.set(dnn::kConfigEngine, part);
      e.status = config.try_finish();
      constexpr int kCompiles = 0;
      e.notes = part.values(dnn::kEngineNumericalNotes, dnn::kOfNumericalNote, 32);
      e.compiles =
          std::ranges::count(part.values(dnn::kEngineBehaviourNotes, dnn::kOfBehaviourNote, 32),
                             kCompiles) > 0;
    }
  }

  std::int64_t count() const { return count_; }
  // Of a number below that of rows; nullptr beyond the library's.
  const Engine* find(int index) const {
    return index < std::ssize(engines_) ? &engines_[static_cast<std::size_t>(index)] : nullptr;
  }

  const Plan& plan(int index) {
    std::optional<Plan>& p = plans_[index];
    if (p) return *p;
    Plan made;
    const std::optional<GraphPart> named = suggested(index);
    made.suggested = named.has_value();
    if (named) {
      finish(made, *named);
    } else {
      GraphPart e = engine(index), own(dnn::kEngineConfig);
      e.finish("cudnnBackendFinalize of an engine");
      own.set(dnn::kConfigEngine, e);
      own.finish("cudnnBackendFinalize of an engine's configuration");
      finish(made, own);
    }
    return p.emplace(std::move(made));
  }

 private:
  GraphPart engine(std::int64_t index) const {
    GraphPart e(dnn::kEngine);
    e.set(dnn::kEngineGraph, graph_);
    e.set(dnn::kEngineIndex, index);
    return e;
  }
  static void finish(Plan& p, const GraphPart& config) {
    const dnn::Handle own = handle();
    p.plan.set(dnn::kPlanHandle, dnn::kOfHandle, 1, &own);
    p.plan.set(dnn::kPlanConfig, config);
    p.plan.finish("cudnnBackendFinalize of an engine's plan");
    p.workspace = p.plan.number(dnn::kPlanWorkspace);
  }
  // The heuristics' first configuration of an engine; none where they name it not at all, or have
  // nothing to say of the graph.
  std::optional<GraphPart> suggested(int index) const {
    constexpr int kModeA = 3, kFallback = 2;
    for (const int mode : {kModeA, kFallback}) {
      GraphPart heuristics(dnn::kHeuristics);
      heuristics.set(dnn::kHeuristicsMode, dnn::kOfHeuristicsMode, 1, &mode);
      heuristics.set(dnn::kHeuristicsGraph, graph_);
      if (heuristics.try_finish() != 0) continue;
      constexpr int kMost = 128;
      std::vector<GraphPart> configs;
      for (int i = 0; i < kMost; ++i) configs.emplace_back(dnn::kEngineConfig);
      const std::size_t came = heuristics.parts(dnn::kHeuristicsConfigs, configs);
      for (std::size_t i = 0; i < came; ++i) {
        const GraphPart of[] = {GraphPart(dnn::kEngine)};
        if (configs[i].parts(dnn::kConfigEngine, of) == 1 &&
            of[0].number(dnn::kEngineIndex) == index)
          return std::move(configs[i]);
      }
    }
    return std::nullopt;
  }

  GraphPart x_, w_, y_, conv_{dnn::kConvolution}, forward_{dnn::kConvolutionForward},
      graph_{dnn::kOperationGraph};
  std::int64_t count_ = 0;
  std::vector<Engine> engines_;
  std::map<int, std::optional<Plan>> plans_;
};

ConvGraph& graph_of(const ConvGeometry& g) {
  // Never given back: the library may be gone before the thread's own things are.
  thread_local auto& known = *new std::map<CudnnConvShape, std::unique_ptr<ConvGraph>>;
  const CudnnConvShape s = cudnn_conv_shape(g);
  std::unique_ptr<ConvGraph>& own = known[s];
  if (own == nullptr) own = std::make_unique<ConvGraph>(s);
  return *own;
}

ConvGeometry geometry_of(const Problem& p) {
  return conv_geometry(p.params->as<ConvParams>(), p.input(0).shape, p.input(1).shape);
}

// ---- rows ---------------------------------------------------------------------------------------

void run_engine(const KernelCall& host, Work& work, int index) {
  const ConvGeometry g = geometry_of(*host.problem);
  const Plan& plan = graph_of(g).plan(index);
  void* const workspace =
      work.scratch(static_cast<std::size_t>(std::max<std::int64_t>(1, plan.workspace)));
  const auto bytes = [&](std::size_t i) {
    return static_cast<const void*>(host.input(i).bytes().data());
  };
  void* const y = device_floats(host.output(0));
  const std::int64_t names[] = {kX, kW, kY};
  const void* const pointers[] = {bytes(0), bytes(1), y};
  GraphPart pack(dnn::kVariantPack);
  pack.set(dnn::kPackNames, names);
  pack.set(dnn::kPackPointers, dnn::kOfPointer, 3, pointers);
  pack.set(dnn::kPackWorkspace, dnn::kOfPointer, 1, &workspace);
  pack.finish("cudnnBackendFinalize of a variant pack");
  call("cudnnBackendExecute", handle(), plan.plan.get(), pack.get());
  if (!host.has(2)) return;
  const float one = 1;
  const void* const keep = &one;
  const Described bias("Tensor"), out("Tensor");
  dnn::set_4d(bias, 1, g.out_channels, 1, 1);
  dnn::set_4d(out, g.batch, g.out_channels, g.window.out_points(), 1);
  call("cudnnAddTensor", handle(), keep, bias.get(), bytes(2), keep, out.get(), y);
}

Refusal refuse_engine(const Problem& problem, int index, bool tensor_core) {
  if (Refusal r = dnn::refuse(problem)) return r;
  // Without it the library ends the program.
  if (cublas_lt().handle == nullptr) return cublas_lt().reason;
  const ConvGraph* found = nullptr;
  try {
    found = &graph_of(geometry_of(problem));
  } catch (const Error& e) {
    return e.what();
  }
  const ConvGraph& graph = *found;
  const Engine* const engine = graph.find(index);
  if (engine == nullptr)
    return fmt::format("cuDNN {} has {} engines for it", cudnn().version, graph.count());
  if (engine->status != 0)
    return fmt::format("cuDNN {} does not offer the engine here ({})", cudnn().version,
                       cudnn().function<const char*(int)>("cudnnGetErrorString")(engine->status));
  if (keeps_f32_products(engine->notes) == tensor_core)
    return fmt::format("the engine's notes are: {}; its name is cudnn.conv.graph.engine{}{}",
                       note_text(engine->notes), index, tensor_core ? "" : "_tensor_core");
  return std::nullopt;
}

std::string note_of(const Problem& problem, int index) {
  ConvGraph& graph = graph_of(geometry_of(problem));
  const Plan& plan = graph.plan(index);
  const Engine& engine = *graph.find(index);
  return fmt::format("engine {} of {}: {}; {}{}; {} bytes of workspace", index, graph.count(),
                     note_text(engine.notes), engine.compiles ? "compiled at run time; " : "",
                     plan.suggested ? "the heuristics' configuration" : "its own configuration",
                     plan.workspace);
}

template <int index>
void enqueue(const KernelCall& host, Work& work) {
  run_engine(host, work, index);
}
template <int index, bool tensor_core>
Refusal refuse(const Problem& problem) {
  return refuse_engine(problem, index, tensor_core);
}
template <int index>
std::string note(const Problem& problem) {
  return note_of(problem, index);
}
template <int index>
bool compiles(const Problem& problem) {
  return graph_of(geometry_of(problem)).find(index)->compiles;
}

template <int index, bool tensor_core>
void add(std::vector<DeviceRow>& rows) {
  static const std::string name =
      fmt::format("cudnn.conv.graph.engine{}{}", index, tensor_core ? "_tensor_core" : "");
  DeviceRow row = vendor_row<enqueue<index>>("conv", name, refuse<index, tensor_core>,
                                             [] { return cudnn().version; });
  row.note = note<index>;
  row.compiles = compiles<index>;
  rows.push_back(row);
}

template <bool tensor_core, int... index>
void add_all(std::vector<DeviceRow>& rows, std::integer_sequence<int, index...>) {
  (add<index, tensor_core>(rows), ...);
}

}  // namespace

CudnnConvShape cudnn_conv_shape(const ConvGeometry& g) {
  CudnnConvShape s;
  s.x = {g.batch, g.in_channels};
  s.w = {g.out_channels, g.group_in()};
  s.y = {g.batch, g.out_channels};
  for (std::size_t i = g.window.spatial == 3 ? 0 : 1; i < 3; ++i) {
    const WindowAxis& a = g.window.axes[i];
    s.x.push_back(a.in);
    s.w.push_back(a.kernel);
    s.y.push_back(a.out);
    s.strides.push_back(a.stride);
    s.dilations.push_back(a.dilation);
    s.before.push_back(a.pad_begin);
    s.behind.push_back(a.pad_end);
  }
  return s;
}

bool keeps_f32_products(std::span<const int> notes) {
  return std::ranges::none_of(
      notes, [](int n) { return n == kTensorCore || n == kNarrowInputs || n == kNarrowSums; });
}

std::string note_text(std::span<const int> notes) {
  std::string text;
  for (const int n : notes) {
    text += text.empty() ? "" : ", ";
    text += n >= 0 && n < std::ssize(kNotes) ? std::string(kNotes[n]) : fmt::format("note {}", n);
  }
  return text.empty() ? "no notes" : text;
}

std::span<const DeviceRow> cudnn_graph_rows() {
  static const std::vector<DeviceRow> rows = [] {
    std::vector<DeviceRow> list;
    add_all<false>(list, std::make_integer_sequence<int, kEngines>());
    add_all<true>(list, std::make_integer_sequence<int, kEngines>());
    return list;
  }();
  return rows;
}

}  // namespace etalon::cuda
