// Element-wise functions, rows, cells and transforms of a device made of host memory.
#include <cstring>
#include <memory>

#include "kernels/activation/device_lanes.h"
#include "kernels/conv/cuda_depthwise.h"
#include "kernels/conv/cuda_fft.h"
#include "kernels/elementwise/cuda_pairs.h"
#include "kernels/normalization/cuda_batch_norm.h"
#include "kernels/normalization/cuda_rows.h"
#include "kernels/recurrent/cuda_cells.h"
#include "kernels/recurrent/cuda_scan_launch.h"
#include "kernels/softmax/cuda_rows.h"
#include "tests/host_device_kernels.h"
#include "tests/host_warp.h"

namespace etalon::host {
namespace {

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

}  // namespace

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

}  // namespace etalon::host
