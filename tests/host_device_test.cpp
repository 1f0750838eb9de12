#include "tests/host_device.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/move.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/conv/cuda_depthwise.h"
#include "kernels/conv/cuda_digits.h"
#include "kernels/conv/cuda_fft.h"
#include "kernels/conv/cuda_winograd.h"
#include "kernels/elementwise/cuda_pairs.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_residue_forecast.h"
#include "kernels/gemm/cuda_residues.h"
#include "kernels/gemm/cuda_tile_choice.h"
#include "kernels/gemm/cuda_wide_choice.h"
#include "kernels/normalization/cuda_batch_norm.h"
#include "kernels/normalization/cuda_rows.h"
#include "kernels/recurrent/cuda_cells.h"
#include "kernels/recurrent/cuda_scan_launch.h"
#include "kernels/softmax/cuda_rows.h"
#include "tests/host_warp.h"

namespace etalon {
namespace {

using Task = std::function<void()>;
using Tasks = std::vector<Task>;

HostDevice* device = nullptr;  // the one in use

struct HostStream {
  Tasks queue;
  bool capturing = false;
};
HostStream& stream_of(void* s) { return *static_cast<HostStream*>(s); }

int step() {
  const std::int64_t call = device->calls++;
  return device->fail_at >= 0 && call >= device->fail_at ? device->fail_code : 0;
}

bool on_device(const Tensor& t) {
  const std::byte* const p = t.bytes().data();
  const auto behind = device->live.upper_bound(const_cast<std::byte*>(p));
  if (behind == device->live.begin()) return false;
  const auto& [block, size] = *std::prev(behind);
  return p < static_cast<const std::byte*>(block) + size;
}

// The contents of a call, for a kernel that runs when the caller's own have gone.
struct KeptCall {
  Params params;
  Contract contract;
  std::vector<InferInput> types;
  std::vector<TensorType> output_types;
  std::vector<Tensor> tensors, outputs;
  std::vector<const Tensor*> inputs;
  Problem problem;

  explicit KeptCall(const KernelCall& call)
      : params(*call.problem->params),
        contract(call.contract()),
        types(call.problem->inputs.begin(), call.problem->inputs.end()),
        output_types(call.problem->outputs.begin(), call.problem->outputs.end()),
        problem(*call.problem) {
    tensors.reserve(call.inputs.size());
    for (const Tensor* in : call.inputs) {
      if (in == nullptr) {
        inputs.push_back(nullptr);
        continue;
      }
      // Integers of the host are read while a kernel is planned, which is now.
      tensors.push_back(is_floating(in->dtype()) || on_device(*in) ? in->share() : in->clone());
      inputs.push_back(&tensors.back());
    }
    for (const Tensor& y : call.outputs)
      outputs.push_back(
          Tensor::owned(y.dtype(), y.shape(), const_cast<std::byte*>(y.bytes().data()), nullptr));
    problem.params = &params;
    problem.contract = &contract;
    problem.inputs = types;
    problem.outputs = output_types;
  }
  // A kernel is planned: on a device it reads nothing of the host's any more. Zeros, not garbage:
  // an absurd exponent would be left undecided, and the host would settle it rightly.
  void forget_the_host() {
    for (Tensor& t : tensors)
      if (!is_floating(t.dtype()) && !on_device(t))
        std::ranges::fill(t.mutable_bytes(), std::byte{0});
  }
  KernelCall call() { return {.problem = &problem, .inputs = inputs, .outputs = outputs}; }
};

int enqueue(void* s, Task task) {
  if (const int code = step(); code != 0) return code;
  stream_of(s).queue.push_back(std::move(task));
  return 0;
}

int copy(void* to, const void* from, std::size_t n, void* s) {
  return enqueue(s, [=] { std::memcpy(to, from, n); });
}

void put_on_list(const cuda::UndecidedList& list, std::int64_t i) {
  const std::int64_t place = (*list.count)++;
  if (place < list.capacity) list.places[place] = i;
}

int definition(const KernelCall& call, const cuda::UndecidedList& list, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  const KernelCall own = kept->call();
  bool found = false;
  int code = 0;
  for_each_device_definition([&]<class D>() {
    if (found || !device_takes<D>(own)) return;
    found = true;
    const auto plan = DevicePlan<D>::of(own);
    kept->forget_the_host();
    code = enqueue(
        s, [kept, plan, contract = device_contract<D>(own), to = device_outputs(own), list] {
          // Backwards: no slice may lean on one before it.
          for (std::int64_t i = DevicePlan<D>::slices(plan); i-- > 0;)
            if (!device_slice<D>(contract, plan, i, to)) put_on_list(list, i);
        });
  });
  CHECK(found);
  return code;
}

int tiles(const KernelCall& call, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, shape = device->tile_shape] {
    const KernelCall own = kept->call();
    const TileChoice c =
        tile_choice(tile_task(own, cuda::device_floats(own.output(0))),
                    own.problem->op->name == "conv", own.contract().fma, 132, shape);
    run_tiles_on_host(c);
  });
}

template <class To, class From>
int convert(To* to, const From* from, std::int64_t count, void* s) {
  ++device->launches;
  return enqueue(s, [=] {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  });
}

int move(const cuda::MoveTask& task, void* s) {
  ++device->launches;
  return enqueue(s, [task] {
    for (std::int64_t i = 0; i < task.count; ++i) switch (task.element_bytes) {
        case 1:
          move_element<std::uint8_t>(task, i);
          break;
        case 2:
          move_element<std::uint16_t>(task, i);
          break;
        case 4:
          move_element<std::uint32_t>(task, i);
          break;
        default:
          move_element<std::uint64_t>(task, i);
      }
  });
}

int pairs(const KernelCall& call, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept] {
    const PairTask t = pair_task(kept->call());
    with_pair_operation(t.op, [&]<F32Op Op>() {
      for (std::uint32_t thread = t.threads(); thread-- > 0;) run_pairs<Op>(t, thread);
    });
  });
}

int depthwise(const KernelCall& call, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept] {
    const DepthwiseTask t = depthwise_task(kept->call());
    with_depthwise_kernel(t, [&]<int Kernel>() {
      for (std::uint32_t block = t.planes * t.parts(); block-- > 0;)
        for (int tid = static_cast<int>(t.threads()); tid-- > 0;)
          run_depthwise<Kernel>(t, block, tid);
    });
  });
}

int function(const KernelCall& call, const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, undecided] {
    const DeviceFunctionTask t = device_function_task(kept->call());
    with_device_function(t.code, [&]<int Code>() {
      for (std::int64_t i = t.count; i-- > 0;)
        if (!device_function<Code>(t.params, t.x[i], t.to.y[0][i]) &&
            !device_slice<ActivationDefinition>(t.contract, t.plan, i, t.to))
          put_on_list(undecided, i);
    });
  });
}

// Threads backwards: a phase may lean on no thread before it.
template <int count>
struct HostThreads {
  template <class F>
  void operator()(F&& phase) const {
    for (int tid = count; tid-- > 0;) phase(tid);
  }
};

struct HostRowWarps {
  int count;
  template <class F>
  void operator()(F&& phase) const {
    for (int i = count; i-- > 0;) phase(HostRowWarp{i});
  }
};
void run_softmax(const SoftmaxRowsTask& t, const cuda::UndecidedList& list) {
  const auto undecided = [&](std::int64_t row) { put_on_list(list, row); };
  if (t.g.length == 0) return;
  if (softmax_form(t) == SoftmaxForm::warp) {
    SoftmaxTermsOfWarp shared;
    for (std::int64_t row = t.g.rows; row-- > 0;)
      softmax_in_warp(t, row, shared, HostRowWarp{0}, undecided);
  } else {
    for (std::int64_t row = t.g.rows; row-- > 0;) {
      auto shared = std::make_unique<SoftmaxShared>();
      std::memset(shared.get(), 0xA5, sizeof *shared);
      const int warps = softmax_warps(t);
      softmax_in_block(t, row, warps, *shared, HostRowWarps{warps}, undecided);
    }
  }
}

template <int kRows>
void run_rows(const KernelCall& call, const cuda::UndecidedList& list) {
  const auto blocks = [](const RowShape& shape, auto&& f) {
    if (shape.many() != (kRows > 1)) return;
    for (std::int64_t block = shape.blocks(); block-- > 0;) {
      auto shared = std::make_unique<RowShared>();
      std::memset(shared.get(), 0xA5, sizeof *shared);
      if (shape.width() == kRowThreads)
        f(block, kRowThreads, *shared, HostThreads<kRowThreads>{});
      else
        f(block, kMostRowThreads, *shared, HostThreads<kMostRowThreads>{});
    }
  };
  if (call.problem->op->name.ends_with("softmax")) {
    const SoftmaxRowsTask t = softmax_rows_task(call);
    if (kRows == 1 && softmax_form(t) != SoftmaxForm::many) run_softmax(t, list);
    if (softmax_form(t) != SoftmaxForm::many) return;
    blocks(t.shape(), [&](std::int64_t block, int width, RowShared& shared, const auto& threads) {
      softmax_rows(t, block, width, shared, threads,
                   [&](std::int64_t row) { put_on_list(list, row); });
    });
  } else {
    const NormRowsTask t = norm_rows_task(call);
    blocks(t.row_shape(),
           [&](std::int64_t block, int width, RowShared& shared, const auto& threads) {
             norm_rows<kRows>(t, block, width, shared, threads);
           });
  }
}

int rows(const KernelCall& call, const cuda::UndecidedList& list, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, list] {
    const KernelCall own = kept->call();
    if (own.problem->op->name == "lrn") {
      const LrnTask t = lrn_task(own);
      for (std::uint32_t i = t.count; i-- > 0;)
        if (!lrn_element(t, i)) put_on_list(list, i);
      return;
    }
    if (own.problem->op->name == "batch_norm") {
      const BatchNormTask t = batch_norm_task(own);
      for (std::uint32_t block = t.blocks(); block-- > 0;) {
        auto shared = std::make_unique<BatchNormShared>();
        std::memset(shared.get(), 0xA5, sizeof *shared);
        batch_norm_block(t, block, *shared, HostThreads<kBatchNormThreads>{});
      }
      return;
    }
    run_rows<1>(own, list);
    run_rows<kRowsOfBlock>(own, list);
  });
}

int cells(const KernelCall& call, const cuda::CellMemory& memory, const cuda::UndecidedList& list,
          void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, list] {
    const KernelCall own = kept->call();
    if (!own.contract().exact()) {
      run_scan_on_host(
          scan_task(own, memory, device->scan_tile, device->scan_steps), own,
          [&](std::int64_t slice) { put_on_list(list, slice); },
          device->scan_hold ? &device->held : nullptr);
      return;
    }
    const CellTask t = cell_task(own, memory);
    for (std::int64_t block = recurrent_slices(t.p); block-- > 0;)
      if (run_cells_on_host(t, block)) put_on_list(list, block);
  });
}

int digits(const KernelCall& call, const cuda::DigitMemory& memory, const cuda::UndecidedList& open,
           const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, open, undecided] {
    const DigitTask t = digit_task(kept->call(), memory);
    for (const DigitSide* side : {&t.a, &t.b}) {
      auto shared = std::make_unique<DigitPackShared>();
      for (std::int64_t block = t.pack_blocks(*side); block-- > 0;)
        digit_pack(t, *side, block, *shared, HostThreads<kDigitPackThreads>{});
    }
    multiply_digits_on_host<MatrixProducts>(
        t, open, [&](std::int64_t at) { put_on_list(open, at); },
        [&](std::int64_t at) { put_on_list(undecided, at); });
    device->open += *open.count;
  });
}

template <class Products, bool conv>
int wide(const KernelCall& call, const cuda::WideMemory& memory,
         const cuda::UndecidedList& undecided, void* s);

int residues(const KernelCall& call, const cuda::ResidueMemory& memory,
             const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  const int code = enqueue(s, [kept, memory, open, undecided] {
    ResidueTask all = residue_task(kept->call());
    if (memory.forecast != nullptr) {
      *memory.forecast = 0;
      const auto shared = std::make_unique<ForecastShared>();
      for (int i = kForecastOutputs; i-- > 0;)
        residue_forecast(all, i, *shared, HostThreads<kResidueThreads>{},
                         [&](std::uint32_t share) { *memory.forecast += share; });
      all.forecast = memory.forecast;
      all.most_foreseen = memory.most_foreseen;
      device->foreseen = *memory.forecast;
      if (all.left_to_f64()) return;
    }
    for_each_residue_panel(all, residue_panels(all, memory.panel_bytes), memory.all,
                           [&](const ResidueTask& task) {
                             run_residues_on_host(
                                 task, HostThreads<kResidueThreads>{}, open,
                                 [&](std::int64_t i) { put_on_list(open, i); },
                                 [&](std::int64_t at) { put_on_list(undecided, at); });
                             device->open += *open.count;
                           });
  });
  if (code != 0 || memory.forecast == nullptr) return code;
  return wide<MatrixProducts, false>(call, memory.wide, undecided, s);
}

int conv_digits(const KernelCall& call, const cuda::ConvDigitMemory& memory,
                const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, open, undecided] {
    run_conv_digits_on_host(
        conv_digit_task(kept->call(), memory), HostThreads<kDigitPackThreads>{}, open,
        [&](std::int64_t at) { put_on_list(open, at); },
        [&](std::int64_t at) { put_on_list(undecided, at); });
    device->open += *open.count;
  });
}

template <class Products, bool conv>
int wide(const KernelCall& call, const cuda::WideMemory& memory,
         const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, undecided, shape = device->tile_shape] {
    const WideTask task = wide_task(kept->call(), memory, shape);
    if (task.left_to_residues()) return;
    CHECK((task.splits == 1 || memory.sums != nullptr));
    device->wide_blocks.insert(
        task.thin > 0
            ? fmt::format("thin {}{}", task.thin, task.a.fours && task.b.fours ? " fours" : "")
            : fmt::format("{}{}x{} {}{}{}{}", conv ? "conv " : "", task.rows, task.cols,
                          task.a_k_major ? "k" : "m", task.b_k_major ? "k" : "n",
                          task.a.fours && task.b.fours ? " fours"
                          : task.a.fours               ? " a fours"
                                                       : "",
                          task.splits > 1 ? " split" : ""));
    run_wide_on_host<Products, conv>(
        task, [](std::int64_t) { ++device->open; },
        [&](std::int64_t at) { put_on_list(undecided, at); });
  });
}

int fft(const KernelCall& call, const cuda::FftMemory& memory, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory] {
    const FftTask t = fft_task(kept->call(), memory);
    const auto pass = [&]<FftPass which>() {
      auto shared = std::make_unique<FftShared>();
      for (std::int64_t block = fft_lines(t, which).blocks(); block-- > 0;) {
        std::memset(shared.get(), 0xA5, sizeof *shared);
        FftBlock<which>::run(t, block, *shared, HostThreads<kFftThreads>{});
      }
    };
    pass.operator()<FftPass::kernel_rows>();
    pass.operator()<FftPass::image_rows>();
    if (t.t.y.size > 1) {
      pass.operator()<FftPass::kernel_columns>();
      pass.operator()<FftPass::image_columns>();
    }
    for (std::int64_t i = fft_products(t); i-- > 0;) fft_product(t, i);
    if (t.t.y.size > 1) pass.operator()<FftPass::sum_columns>();
    pass.operator()<FftPass::output>();
  });
}

int winograd(const KernelCall& call, float* memory, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, shape = device->tile_shape] {
    const Algorithm algorithm = Algorithm::parse(kept->contract.algo);
    const WinogradTask t = winograd_task(kept->call(), memory);
    CHECK(with_winograd(algorithm, [&]<class W>() {
      const auto f = winograd_factors<typename W::Number>(algorithm);
      for (std::int64_t i = t.inputs(); i-- > 0;) W::input(t, f, i);
      auto kernels = std::make_unique<typename W::Kernels>();
      for (std::int64_t block = t.weight_blocks(); block-- > 0;) {
        std::memset(kernels.get(), 0xA5, sizeof *kernels);
        const HostThreads<kWinogradThreads> threads;
        threads([&](int tid) { W::bring_weights(t, block, *kernels, tid); });
        threads([&](int tid) { W::weight(t, f, block, *kernels, tid); });
      }
      run_tiles_on_host(tile_choice(winograd_products(t, W::kCells), false, true, 132, shape));
      for (std::int64_t i = t.outputs(); i-- > 0;) W::output(t, f, i);
    }));
  });
}

int allocate(void** p, std::size_t size) {
  if (const int code = step(); code != 0) return code;
  if (device->used + size > device->room) return 2;
  *p = ::operator new(size);
  std::memset(*p, 0xA5, size);  // no kernel may count on zeros
  device->used += size;
  device->peak = std::max(device->peak, device->used);
  device->live[*p] = size;
  return 0;
}
int release(void* p) {
  const auto at = device->live.find(p);
  CHECK(at != device->live.end());
  device->used -= at->second;
  device->live.erase(at);
  ::operator delete(p);
  return 0;
}

int wait(void* s) {
  HostStream& stream = stream_of(s);
  CHECK(!stream.capturing);
  const Tasks tasks = std::exchange(stream.queue, {});
  if (const int code = step(); code != 0) return code;  // what was queued is lost
  ++device->waits;
  for (const Task& task : tasks) task();
  return 0;
}

int begin_capture(void* s) {
  if (const int code = step(); code != 0) return code;
  // What was queued before is no part of the graph.
  if (const int code = wait(s); code != 0) return code;
  stream_of(s).capturing = true;
  return 0;
}
int end_capture(void* s, void** graph) {
  HostStream& stream = stream_of(s);
  stream.capturing = false;
  Tasks tasks = std::exchange(stream.queue, {});
  if (const int code = step(); code != 0) return code;
  *graph = new Tasks(std::move(tasks));
  return 0;
}
int launch_graph(void* graph, void* s) {
  ++device->graph_launches;
  return enqueue(s, [graph] {
    for (const Task& task : *static_cast<Tasks*>(graph)) task();
  });
}

}  // namespace

HostDevice::HostDevice()
    : api{.device_count =
              [](int* n) {
                *n = device->count;
                return device->count_code;
              },
          .describe =
              [](cuda::DeviceFacts* asked) {
                *asked = device->facts;
                return 0;
              },
          .text = [](int) { return "its own words"; },
          .allocate = allocate,
          .release = release,
          .make_stream =
              [](void** s) {
                *s = new HostStream;
                return 0;
              },
          .drop_stream =
              [](void* s) {
                delete static_cast<HostStream*>(s);
                return 0;
              },
          .wait_for_stream = wait,
          .to_device = copy,
          .to_host = copy,
          .on_device = copy,
          .clear = [](void* p, std::size_t n,
                      void* s) { return enqueue(s, [=] { std::memset(p, 0, n); }); },
          .make_event =
              [](void** e) {
                *e = new int;
                return step();
              },
          .drop_event =
              [](void* e) {
                delete static_cast<int*>(e);
                return 0;
              },
          .record = [](void*, void*) { return step(); },
          .wait_for_event = [](void*) { return step(); },
          .milliseconds =
              [](float* ms, void*, void*) {
                *ms = 1;
                return 0;
              },
          .begin_capture = begin_capture,
          .end_capture = end_capture,
          .launch_graph = launch_graph,
          .drop_graph =
              [](void* g) {
                delete static_cast<Tasks*>(g);
                return 0;
              },
          .definition = definition,
          .tiles = tiles,
          .move = move,
          .pairs = pairs,
          .depthwise = depthwise,
          .function = function,
          .rows = rows,
          .cells = cells,
          .digits = digits,
          .residue_facts =
              [](cuda::ResidueFacts* asked) {
                *asked = device->residue_facts;
                return 0;
              },
          .residues = residues,
          .conv_digits = conv_digits,
          .wide = wide<MatrixProducts, false>,
          .conv_wide = wide<WindowProducts, true>,
          .fft = fft,
          .winograd = winograd,
          .widen = convert<double, float>,
          .narrow = convert<float, double>} {
  device = this;
}
HostDevice::~HostDevice() {
  CHECK(live.empty());
  device = nullptr;
}

}  // namespace etalon

using namespace etalon;

TEST_CASE("host device: work is done when the stream is waited for, not before") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const float x[] = {1, 2, 3};
  float y[] = {0, 0, 0};
  cuda::DeviceBuffer buffer(sizeof x);
  buffer.upload(std::as_bytes(std::span(x)));
  CHECK(std::memcmp(buffer.get(), x, sizeof x) != 0);
  buffer.download(std::as_writable_bytes(std::span(y)));
  CHECK(std::memcmp(x, y, sizeof x) == 0);
}
