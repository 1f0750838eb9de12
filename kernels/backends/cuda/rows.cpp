#include "kernels/backends/cuda/rows.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/cudnn_rows.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/movement.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/conv/cuda_depthwise.h"
#include "kernels/conv/cuda_digits.h"
#include "kernels/conv/cuda_exact_winograd_choice.h"
#include "kernels/conv/cuda_fft.h"
#include "kernels/conv/cuda_winograd.h"
#include "kernels/conv/cudnn.h"
#include "kernels/conv/cudnn_graph.h"
#include "kernels/conv/twiddles.h"
#include "kernels/elementwise/cuda_pairs.h"
#include "kernels/gemm/cublas.h"
#include "kernels/gemm/cublas_lt.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_residues.h"
#include "kernels/gemm/cuda_wide_choice.h"
#include "kernels/kernels.h"
#include "kernels/recurrent/cuda_scan_launch.h"
#include "kernels/recurrent/cudnn.h"

namespace etalon::cuda {
namespace {

// Integers lie on the host and are read while a kernel is planned: axes, shapes. An elementwise op
// reads them by elements (pow's exponents), on the device, so that it needs them there.
class ElementsOnDevice {
 public:
  ElementsOnDevice(const KernelCall& call, Work& work)
      : inputs_(call.inputs.begin(), call.inputs.end()), call_(call) {
    views_.reserve(inputs_.size());
    for (const Tensor*& input : inputs_) {
      if (input == nullptr || is_floating(input->dtype())) continue;
      const auto* const bytes = static_cast<const std::byte*>(work.kept(
          [&] { return std::vector<std::byte>(input->bytes().begin(), input->bytes().end()); }));
      input = &views_.emplace_back(
          Tensor::view(input->dtype(), input->shape(), {bytes, input->size_bytes()}, nullptr));
    }
    call_.inputs = inputs_;
  }
  const KernelCall& call() const { return call_; }

 private:
  std::vector<const Tensor*> inputs_;
  std::vector<Tensor> views_;
  KernelCall call_;
};

template <class D>
void enqueue_definition(const KernelCall& call, Work& work) {
  const std::int64_t most = call.output(0).numel();  // a slice has at least one output
  if (most == 0) return;
  const UndecidedList list = work.undecided(most);
  if constexpr (std::is_same_v<D, ElementwiseDefinition<true>>)
    check(api().definition(ElementsOnDevice(call, work).call(), list, stream()),
          "the kernel's launch");
  else
    check(api().definition(call, list, stream()), "the kernel's launch");
}

void enqueue_tiles(const KernelCall& call, Work&) {
  if (call.output(0).numel() != 0) check(api().tiles(call, stream()), "the kernel's launch");
}

Refusal refuse_pairs_here(const Problem& problem) {
  if (Refusal r = refuse_pairs(problem)) return r;
  return refuse_without_device();
}
void enqueue_pairs(const KernelCall& call, Work&) {
  if (call.output(0).numel() != 0) check(api().pairs(call, stream()), "the kernel's launch");
}

Refusal refuse_depthwise_here(const Problem& problem) {
  if (Refusal r = refuse_depthwise(problem)) return r;
  return refuse_without_device();
}
void enqueue_depthwise(const KernelCall& call, Work&) {
  if (call.output(0).numel() != 0) check(api().depthwise(call, stream()), "the kernel's launch");
}

// Definitions whose rows a block of threads takes, and those that call exp, log or pow.
template <class F>
void for_each_row_definition(F&& f) {
  f.template operator()<SoftmaxDefinition<false>>();
  f.template operator()<SoftmaxDefinition<true>>();
  f.template operator()<RowNormDefinition<LayerNorm>>();
  f.template operator()<RowNormDefinition<InstanceNorm>>();
  f.template operator()<RowNormDefinition<GroupNorm>>();
  f.template operator()<RowNormDefinition<MeanVariance>>();
  f.template operator()<RowNormDefinition<RmsNorm>>();
  f.template operator()<LrnDefinition>();
  f.template operator()<BatchNormDefinition>();
}
template <class D>
inline constexpr bool kHasFunctions = false;
template <bool Log>
inline constexpr bool kHasFunctions<SoftmaxDefinition<Log>> = true;
template <>
inline constexpr bool kHasFunctions<LrnDefinition> = true;

// ".winograd", in the name of a row that computes one algorithm.
template <class D>
std::string algorithm() {
  if constexpr (std::is_same_v<D, Im2colDefinition>) return ".im2col";
  if constexpr (std::is_same_v<D, WinogradDefinition>) return ".winograd";
  return "";
}

Refusal refuse_tiles_here(const Problem& problem) {
  if (Refusal r = refuse_tiles(problem)) return r;
  return refuse_without_device();
}

template <class D>
Refusal refuse_definition_here(const Problem& problem) {
  if (Refusal r = refuse_device_definition<D>(problem)) return r;
  return refuse_without_device();
}

Refusal refuse_function_here(const Problem& problem) {
  if (Refusal r = refuse_device_function(problem)) return r;
  return refuse_without_device();
}

void enqueue_function(const KernelCall& call, Work& work) {
  const std::int64_t count = call.output(0).numel();
  if (count == 0) return;
  UndecidedList undecided;
  if (!device_function_decides(device_function_code(call.problem->op->name)))
    undecided = work.undecided(count);
  check(api().function(call, undecided, stream()), "the kernel's launch");
}

template <class D>
Refusal refuse_rows_here(const Problem& problem) {
  if (Refusal r = refuse_device_definition<D>(problem)) return r;
  if (problem.contract->exact()) return "offers seq";
  // 32-bit numbers of elements and of blocks.
  if (problem.outputs[0].shape.numel() > std::numeric_limits<std::int32_t>::max())
    return "takes tensors of fewer than 2^31 elements";
  return refuse_without_device();
}

// Only functions may be left undecided.
template <class D>
void enqueue_rows(const KernelCall& call, Work& work) {
  const std::int64_t most = call.output(0).numel();
  if (most == 0) return;
  UndecidedList list;
  if constexpr (kHasFunctions<D>) list = work.undecided(most);
  check(api().rows(call, list, stream()), "the kernel's launch");
}

Refusal refuse_cells_here(const Problem& problem) {
  const Contract& c = *problem.contract;
  Contract sums = c;
  sums.walk = Walk{};
  sums.algo = "direct";
  if (!(sums == Contract::seq()) && !(c == Contract::exact_preset()))
    return "offers seq and exact, not " + short_name(c);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && is_floating(problem.input(i).dtype) &&
        problem.input(i).dtype != DType::f32)
      return fmt::format("input {} is {}, not f32", i, name(problem.input(i).dtype));
  return refuse_without_device();
}

void enqueue_cells(const KernelCall& call, Work& work) {
  const RecurrentPlan plan = cell_plan(call);
  const std::int64_t blocks = recurrent_slices(plan);
  if (blocks * plan.g.hidden == 0) return;
  CellMemory memory;
  memory.scratch = work.scratch(
      static_cast<std::size_t>(call.contract().exact() ? cell_bytes(plan) : scan_bytes(plan)));
  if (plan.lengths != nullptr)
    memory.lengths = static_cast<const std::int64_t*>(work.kept([&] {
      std::vector<std::int64_t> lengths;
      for (std::int64_t b = 0; b < plan.g.batch; ++b) lengths.push_back(plan.length_of(b));
      const auto bytes = std::as_bytes(std::span(lengths));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }));
  check(api().cells(call, memory, work.undecided(blocks), stream()), "the kernel's launch");
}

Refusal refuse_wide_here(const Problem& problem) {
  if (Refusal r = refuse_wide(problem)) return r;
  return refuse_without_device();
}

WideMemory wide_memory(const KernelCall& call, Work& work) {
  WideMemory memory;
  if (const std::int64_t bytes = wide_sum_bytes(wide_task(call, {})); bytes > 0)
    memory.sums = work.scratch(static_cast<std::size_t>(bytes));
  return memory;
}

template <bool conv>
void enqueue_wide(const KernelCall& call, Work& work) {
  const std::int64_t outputs = call.output(0).numel();
  if (outputs == 0) return;
  const WideMemory memory = wide_memory(call, work);
  const auto launch = conv ? api().conv_wide : api().wide;
  check(launch(call, memory, work.undecided(outputs), stream()), "the kernel's launch");
}

Refusal refuse_digits_here(const Problem& problem) {
  if (Refusal r = refuse_digits(problem)) return r;
  return refuse_without_device();
}

void enqueue_digits(const KernelCall& call, Work& work) {
  const std::int64_t outputs = call.output(0).numel();
  if (outputs == 0) return;
  const DigitTask t = digit_task(call, {});
  const auto memory = [&](std::int64_t bytes) {
    return work.scratch(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes)));
  };
  DigitMemory own;
  own.planes = memory(digit_plane_bytes(t));
  own.norms = memory(digit_norm_bytes(t));
  const UndecidedList open = work.open(digit_open_places(outputs));
  check(api().digits(call, own, open, work.undecided(outputs), stream()), "the kernel's launch");
}

ResidueFacts residue_facts() {
  ResidueFacts facts;
  check(api().residue_facts(&facts), "cudaFuncGetAttributes");
  return facts;
}

Refusal refuse_residues_here(const Problem& problem) {
  if (Refusal r = refuse_residues(problem, 1)) return r;
  if (Refusal r = refuse_without_device()) return r;
  const ResidueFacts facts = residue_facts();
  if (!facts.units) return "needs wgmma of int8, which a device of sm_90 has";
  if (!facts.code)
    return "this program has no code for sm_90a; build it with 90a among its architectures";
  return refuse_residues(problem, facts.least);
}

void enqueue_residues(const KernelCall& call, Work& work) {
  const std::int64_t outputs = call.output(0).numel();
  if (outputs == 0) return;
  ResidueMemory memory;
  const ResidueFacts facts = residue_facts();
  memory.panel_bytes = facts.panel_bytes;
  memory.all = work.scratch(
      static_cast<std::size_t>(residue_panels(residue_task(call), memory.panel_bytes).bytes()));
  if (!refuse_wide(*call.problem)) {
    memory.forecast = static_cast<std::uint32_t*>(work.scratch(sizeof(std::uint32_t)));
    memory.most_foreseen = facts.most_foreseen;
    memory.wide = wide_memory(call, work);
    memory.wide.forecast = memory.forecast;
    memory.wide.most_foreseen = memory.most_foreseen;
  }
  const UndecidedList open = work.open(digit_open_places(outputs));
  check(api().residues(call, memory, open, work.undecided(outputs), stream()),
        "the kernel's launch");
}

Refusal refuse_conv_digits_here(const Problem& problem) {
  if (Refusal r = refuse_conv_digits_on_device(problem)) return r;
  return refuse_without_device();
}

void enqueue_conv_digits(const KernelCall& call, Work& work) {
  const std::int64_t outputs = call.output(0).numel();
  if (outputs == 0) return;
  const ConvDigitTask t = conv_digit_task(call, {});
  const auto memory = [&](std::int64_t bytes) {
    return work.scratch(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes)));
  };
  ConvDigitMemory own;
  own.weights = memory(conv_digit_weight_bytes(t));
  own.planes = memory(conv_digit_plane_bytes(t));
  own.norms = memory(conv_digit_norm_bytes(t));
  own.squares = memory(conv_digit_square_bytes(t));
  own.tops = memory(conv_digit_top_bytes(t));
  const UndecidedList open = work.open(digit_open_places(outputs));
  check(api().conv_digits(call, own, open, work.undecided(outputs), stream()),
        "the kernel's launch");
}

Refusal refuse_exact_winograd_here(const Problem& problem) {
  if (Refusal r = refuse_without_device()) return r;
  return refuse_exact_winograd(problem, api().most_winograd_share);
}

void enqueue_exact_winograd(const KernelCall& call, Work& work) {
  const std::int64_t bytes = exact_winograd_bytes(exact_winograd_task(call, nullptr)),
                     outputs = call.output(0).numel();
  auto* memory = static_cast<double*>(work.scratch(static_cast<std::size_t>(bytes)));
  const UndecidedList open = work.open(digit_open_places(outputs));
  check(api().exact_winograd(call, memory, open, work.undecided(outputs), stream()),
        "the kernel's launch");
}

Refusal refuse_fft_here(const Problem& problem) {
  if (Refusal r = refuse_fft(problem)) return r;
  return refuse_without_device();
}

void enqueue_fft(const KernelCall& call, Work& work) {
  if (call.output(0).numel() == 0) return;
  const FftTask t = fft_task(call, {});
  FftMemory memory;
  memory.spectra =
      work.scratch(static_cast<std::size_t>((t.kernels() + t.images() + t.sums()) * t.spectrum()) *
                   sizeof(FftNumber));
  memory.roots_n = std::max({t.t.y.size, t.t.x.size, std::int64_t{4}});
  memory.roots = static_cast<const double*>(work.kept([&] {
    const std::shared_ptr<const Twiddles> table = twiddles(memory.roots_n, DType::f32);
    std::vector<std::byte> bytes;
    for (const std::vector<double>* part : {&table->cosine, &table->sine}) {
      const auto own = std::as_bytes(std::span(*part));
      bytes.insert(bytes.end(), own.begin(), own.end());
    }
    return bytes;
  }));
  check(api().fft(call, memory, stream()), "the kernel's launch");
}

Refusal refuse_winograd_here(const Problem& problem) {
  if (Refusal r = refuse_winograd_tiles(problem)) return r;
  return refuse_without_device();
}

void enqueue_winograd(const KernelCall& call, Work& work) {
  if (call.output(0).numel() == 0) return;
  const std::int64_t bytes =
      winograd_bytes(winograd_task(call, nullptr), Algorithm::parse(call.contract().algo));
  check(api().winograd(call, static_cast<float*>(work.scratch(static_cast<std::size_t>(bytes))),
                       stream()),
        "the kernel's launch");
}

Refusal refuse_movement_here(const Problem& problem) {
  if (Refusal r = refuse_movement(problem)) return r;
  return refuse_without_device();
}

// Ours, then each vendor's.
std::array<std::span<const DeviceRow>, 7> tables() {
  return {device_rows(),      cublas_device_rows(), cublas_lt_device_rows(), cudnn_conv_rows(),
          cudnn_graph_rows(), cudnn_layer_rows(),   cudnn_recurrent_rows()};
}

// The CPU's definition of a problem.
const KernelRow& definition_on_cpu(const Problem& problem) {
  for (const KernelRow* row : all_kernels().rows_of(problem.op->name))
    if (row->run_slices != nullptr && row->device == Device::cpu &&
        (row->refuse == nullptr || !row->refuse(problem)))
      return *row;
  throw internal_error("no definition of {} on the CPU", problem.op->name);
}

}  // namespace

void settle_on_host(const KernelCall& call, std::span<const std::int64_t> undecided) {
  if (undecided.empty()) return;
  const KernelRow& row = definition_on_cpu(*call.problem);
  // The list may say "all" of a number that is only an upper bound.
  const auto end = std::ranges::lower_bound(undecided, row.slices(call));
  row.run_slices(call, undecided.first(static_cast<std::size_t>(end - undecided.begin())));
}

void run_with_copies(const KernelCall& host, Enqueue f) {
  if (!host.truth.empty()) throw usage_error("a truth is computed on the CPU: use --device cpu");
  Work work;
  CallOnDevice on_device(host);
  f(on_device.call(), work);
  on_device.fetch_outputs();
  if (work.listed()) settle_on_host(host, work.fetch_undecided());
}

std::span<const DeviceRow> device_rows() {
  static const std::vector<DeviceRow> all = [] {
    static std::deque<std::string> names;
    std::vector<DeviceRow> list;
    for (const char* op : {"gemm", "matmul", "conv"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".f32.cuda.tile"),
                              .device = Device::cuda,
                              .contracts = "seq, fused or with fma=off",
                              .refuse = refuse_tiles_here,
                              .run = run_enqueued<enqueue_tiles>},
                      .enqueue = enqueue_tiles});
    for (const char* op : {"gemm", "matmul"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".exact.cuda.residues"),
                              .device = Device::cuda,
                              .contracts = "exact",
                              .refuse = refuse_residues_here,
                              .run = run_enqueued<enqueue_residues>},
                      .enqueue = enqueue_residues});
    for (const char* op : {"gemm", "matmul"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".exact.cuda.f64"),
                              .device = Device::cuda,
                              .contracts = "exact",
                              .refuse = refuse_wide_here,
                              .run = run_enqueued<enqueue_wide<false>>},
                      .enqueue = enqueue_wide<false>});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.exact.cuda.winograd",
                            .device = Device::cuda,
                            .contracts = "exact",
                            .refuse = refuse_exact_winograd_here,
                            .run = run_enqueued<enqueue_exact_winograd>},
                    .enqueue = enqueue_exact_winograd});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.exact.cuda.f64",
                            .device = Device::cuda,
                            .contracts = "exact",
                            .refuse = refuse_wide_here,
                            .run = run_enqueued<enqueue_wide<true>>},
                    .enqueue = enqueue_wide<true>});
    // Behind those in f64, which took half the time of these on an H100.
    for (const char* op : {"gemm", "matmul"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".exact.cuda.int8"),
                              .device = Device::cuda,
                              .contracts = "exact",
                              .refuse = refuse_digits_here,
                              .run = run_enqueued<enqueue_digits>},
                      .enqueue = enqueue_digits});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.exact.cuda.int8",
                            .device = Device::cuda,
                            .contracts = "exact",
                            .refuse = refuse_conv_digits_here,
                            .run = run_enqueued<enqueue_conv_digits>},
                    .enqueue = enqueue_conv_digits});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.fft.f32.cuda",
                            .device = Device::cuda,
                            .contracts = "seq with algo=fft",
                            .refuse = refuse_fft_here,
                            .run = run_enqueued<enqueue_fft>},
                    .enqueue = enqueue_fft});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.depthwise.f32.cuda",
                            .device = Device::cuda,
                            .contracts = "seq",
                            .refuse = refuse_depthwise_here,
                            .run = run_enqueued<enqueue_depthwise>},
                    .enqueue = enqueue_depthwise});
    list.push_back({.row = {.op = "conv",
                            .name = "conv.winograd.f32.cuda",
                            .device = Device::cuda,
                            .contracts = "seq with algo=winograd",
                            .refuse = refuse_winograd_here,
                            .run = run_enqueued<enqueue_winograd>},
                    .enqueue = enqueue_winograd});
    // Before the definitions: selection takes the first that offers the contract.
    for (const std::string_view op : kF32Ops)
      list.push_back(
          {.row = {.op = op,
                   .name = names.emplace_back(std::string(op) + ".f32.cuda"),
                   .device = Device::cuda,
                   .contracts = op == "sum" ? "seq and exact, of two terms"
                                            : "all of store=f32,round=rn,subnormals=keep",
                   .refuse = refuse_pairs_here,
                   .run = run_enqueued<enqueue_pairs>},
           .enqueue = enqueue_pairs});
    for (const std::string_view op : AllActivations::ops())
      if (device_function_code(op) >= 0)
        list.push_back({.row = {.op = op,
                                .name = names.emplace_back(std::string(op) + ".f32.cuda"),
                                .device = Device::cuda,
                                .contracts = "all of store=f32,round=rn,subnormals=keep",
                                .refuse = refuse_function_here,
                                .run = run_enqueued<enqueue_function>},
                        .enqueue = enqueue_function});
    for_each_row_definition([&]<class D>() {
      list.push_back({.row = {.op = D::op,
                              .name = names.emplace_back(std::string(D::op) + ".f32.cuda"),
                              .device = Device::cuda,
                              .contracts = "seq",
                              .refuse = refuse_rows_here<D>,
                              .run = run_enqueued<enqueue_rows<D>>},
                      .enqueue = enqueue_rows<D>});
    });
    for_each_device_definition([&]<class D>() {
      for (const std::string_view op : device_ops<D>())
        list.push_back({.row = {.op = op,
                                .name = names.emplace_back(std::string(op) + algorithm<D>() +
                                                           ".cuda.definition"),
                                .device = Device::cuda,
                                .contracts = D::rounded_once     ? "all"
                                             : kConvAlgorithm<D> ? "seq of this algo"
                                                                 : "seq, exact",
                                .refuse = refuse_definition_here<D>,
                                .run = run_enqueued<enqueue_definition<D>>},
                        .enqueue = enqueue_definition<D>});
    });
    for (const char* op : {"rnn", "gru", "lstm"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".cuda.definition"),
                              .device = Device::cuda,
                              .contracts = "seq, exact",
                              .refuse = refuse_cells_here,
                              .run = run_enqueued<enqueue_cells>},
                      .enqueue = enqueue_cells});
    for (const MovementOp& op : movement_ops())
      list.push_back({.row = {.op = op.name,
                              .name = names.emplace_back(std::string(op.name) + ".cuda.bits"),
                              .device = Device::cuda,
                              .contracts = "all",
                              .refuse = refuse_movement_here,
                              .run = run_enqueued<enqueue_movement>},
                      .enqueue = enqueue_movement,
                      .alias = op.alias});
    return list;
  }();
  return all;
}

const DeviceRow* find_device_row(const KernelRow& row) {
  for (const std::span<const DeviceRow> table : tables())
    for (const DeviceRow& d : table)
      if (d.row.name == row.name && d.row.op == row.op) return &d;
  return nullptr;
}

std::span<const KernelRow> rows() {
  static const std::vector<KernelRow> all = [] {
    std::vector<KernelRow> list;
    for (const std::span<const DeviceRow> table : tables())
      for (const DeviceRow& d : table) list.push_back(d.row);
    return list;
  }();
  return all;
}

}  // namespace etalon::cuda
