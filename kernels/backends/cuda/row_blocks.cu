// The launches of kernels/softmax/cuda_rows.h and kernels/normalization/cuda_{rows,batch_norm}.h.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/block_warps.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/put_on_list.h"
#include "kernels/normalization/cuda_batch_norm.h"
#include "kernels/normalization/cuda_rows.h"
#include "kernels/softmax/cuda_rows.h"

namespace etalon::cuda {
namespace {

// 1024 threads a multiprocessor at least, in two blocks or in eight whose chains wait in turn: 64
// registers. What does not fit is the ball behind a function, which hardly ever runs.
constexpr int kBlocks = 2;
constexpr unsigned kLrnThreads = 256;

__global__ void __launch_bounds__(kMostRowThreads, kBlocks)
    run_softmax(const __grid_constant__ SoftmaxRowsTask t,
                const __grid_constant__ UndecidedList list) {
  __shared__ RowShared shared;
  softmax_rows(t, blockIdx.x, static_cast<int>(blockDim.x), shared, BlockThreads{},
               [&](std::int64_t row) { put_on_list(list, row); });
}
__global__ void __launch_bounds__(kMostSoftmaxWarps * 32, 1)
    run_softmax_block(const __grid_constant__ SoftmaxRowsTask t,
                      const __grid_constant__ UndecidedList list) {
  __shared__ SoftmaxShared shared;
  softmax_in_block(t, blockIdx.x, static_cast<int>(blockDim.x / 32), shared, BlockWarps{},
                   [&](std::int64_t row) { put_on_list(list, row); });
}
__global__ void __launch_bounds__(kRowsOfWarps * 32)
    run_softmax_warp(const __grid_constant__ SoftmaxRowsTask t,
                     const __grid_constant__ UndecidedList list) {
  __shared__ SoftmaxTermsOfWarp shared[kRowsOfWarps];
  const BlockWarp w{static_cast<int>(threadIdx.x / 32)};
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsOfWarps + w.index;
  if (row < t.g.rows)
    softmax_in_warp(t, row, shared[w.index], w, [&](std::int64_t i) { put_on_list(list, i); });
}

template <int kRows>
__global__ void __launch_bounds__(kMostRowThreads, kBlocks)
    run_norm(const __grid_constant__ NormRowsTask t) {
  __shared__ RowShared shared;
  norm_rows<kRows>(t, blockIdx.x, static_cast<int>(blockDim.x), shared, BlockThreads{});
}

__global__ void __launch_bounds__(kLrnThreads, 4)
    run_lrn(const __grid_constant__ LrnTask t, const __grid_constant__ UndecidedList list) {
  const std::uint32_t i = blockIdx.x * kLrnThreads + threadIdx.x;
  if (i < t.count && !lrn_element(t, i)) put_on_list(list, i);
}

__global__ void __launch_bounds__(kBatchNormThreads)
    run_batch_norm(const __grid_constant__ BatchNormTask t) {
  __shared__ BatchNormShared shared;
  batch_norm_block(t, blockIdx.x, shared, BlockThreads{});
}

// launch.operator()<rows of a block>(blocks, threads)
template <class Launch>
void by_rows(const RowShape& shape, Launch&& launch) {
  const auto blocks = static_cast<unsigned>(shape.blocks());
  const auto threads = static_cast<unsigned>(shape.width());
  if (blocks == 0) return;
  if (shape.many())
    launch.template operator()<kRowsOfBlock>(blocks, threads);
  else
    launch.template operator()<1>(blocks, threads);
}

}  // namespace

int launch_rows(const KernelCall& call, const UndecidedList& undecided, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  const std::string_view op = call.problem->op->name;
  if (op == LrnDefinition::op) {
    const LrnTask t = lrn_task(call);
    run_lrn<<<(t.count + kLrnThreads - 1) / kLrnThreads, kLrnThreads, 0, s>>>(t, undecided);
  } else if (op == BatchNormDefinition::op) {
    const BatchNormTask t = batch_norm_task(call);
    run_batch_norm<<<t.blocks(), kBatchNormThreads, 0, s>>>(t);
  } else if (op == SoftmaxDefinition<false>::op || op == SoftmaxDefinition<true>::op) {
    const SoftmaxRowsTask t = softmax_rows_task(call);
    const auto rows = static_cast<unsigned>(t.g.rows);
    const RowShape shape = t.shape();
    if (shape.blocks() == 0) return cudaSuccess;
    switch (softmax_form(t)) {
      case SoftmaxForm::warp:
        run_softmax_warp<<<(rows + kRowsOfWarps - 1) / kRowsOfWarps, kRowsOfWarps * 32, 0, s>>>(
            t, undecided);
        break;
      case SoftmaxForm::block:
        run_softmax_block<<<rows, static_cast<unsigned>(softmax_warps(t) * 32), 0, s>>>(t,
                                                                                        undecided);
        break;
      case SoftmaxForm::many:
        run_softmax<<<static_cast<unsigned>(shape.blocks()), static_cast<unsigned>(shape.width()),
                      0, s>>>(t, undecided);
        break;
    }
  } else {
    const NormRowsTask t = norm_rows_task(call);
    by_rows(t.row_shape(), [&]<int kRows>(unsigned blocks, unsigned threads) {
      run_norm<kRows><<<blocks, threads, 0, s>>>(t);
    });
  }
  return cudaGetLastError();
}

}  // namespace etalon::cuda
