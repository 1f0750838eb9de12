// The launches of cuda_exact_winograd.h.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_exact_winograd_choice.h"
#include "kernels/gemm/cuda_wide_device.h"

namespace etalon::cuda {
namespace {

template <class W>
__global__ void __launch_bounds__(kExactThreads)
    transform_inputs(const __grid_constant__ ExactWinogradTask t,
                     const __grid_constant__ ExactWinogradFactors f) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kExactThreads + threadIdx.x;
  if (thread < t.inputs()) W::input(t, f, thread);
}

template <class W>
__global__ void __launch_bounds__(kExactThreads)
    transform_weights(const __grid_constant__ ExactWinogradTask t,
                      const __grid_constant__ ExactWinogradFactors f) {
  __shared__ typename W::Kernels kernels;
  typename W::Sums sums;
  W::weights(t, f, blockIdx.x, kernels, WideThreads<typename W::Sums, kExactThreads>{sums});
}

// The first `norm_blocks` blocks sum squares of tiles, the others those of kernels.
template <class W>
__global__ void __launch_bounds__(kExactNormThreads)
    sum_exact(const __grid_constant__ ExactWinogradTask t,
              const __grid_constant__ ExactWinogradFactors f, unsigned norm_blocks) {
  __shared__ typename W::Norms shared;
  NoThread none;
  if (blockIdx.x < norm_blocks) {
    W::norms(t, blockIdx.x, shared, WideThreads<NoThread, kExactNormThreads>{none});
  } else {
    const std::int64_t i =
        static_cast<std::int64_t>(blockIdx.x - norm_blocks) * kExactNormThreads + threadIdx.x;
    if (i < t.factor_count()) W::factor(t, f, i);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    multiply_f64(const __grid_constant__ F64Task task) {
  extern __shared__ __align__(16) unsigned char memory[];
  typename Tile::Thread r;
  Tile::run(task, blockIdx.x, *reinterpret_cast<typename Tile::Shared*>(memory),
            WideThreads<typename Tile::Thread, Tile::kThreads>{r});
}

template <class W>
__global__ void __launch_bounds__(kExactThreads)
    finish_exact(const __grid_constant__ ExactWinogradTask t,
                 const __grid_constant__ ExactWinogradFactors f,
                 const __grid_constant__ UndecidedList open) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kExactThreads + threadIdx.x;
  if (thread < t.outputs())
    W::output(t, f, thread, [&](std::int64_t at) { put_on_list(open, at); });
}

unsigned blocks_of(std::int64_t threads, int each) {
  return static_cast<unsigned>((threads + each - 1) / each);
}

int launch_f64(const F64Task& task, cudaStream_t s) {
  return with_f64_tile(task, [&]<class Tile>() {
    constexpr int kBytes = static_cast<int>(sizeof(typename Tile::Shared));
    static_assert(kBytes <= 99 << 10);  // what the smallest of these devices lends
    const auto kernel = multiply_f64<Tile>;
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (set != cudaSuccess) return set;
    kernel<<<static_cast<unsigned>(task.blocks()), Tile::kThreads, kBytes, s>>>(task);
    return cudaGetLastError();
  });
}

}  // namespace

int launch_exact_winograd(const KernelCall& call, double* memory, const UndecidedList& open,
                          const UndecidedList& undecided, void* stream) {
  const ExactWinogradTask t = exact_winograd_task(call, memory);
  const ExactWinogradFactors f = exact_winograd_factors(t);
  const auto s = static_cast<cudaStream_t>(stream);
  const int code = with_exact_winograd(t, [&]<class W>() {
    const auto norms = static_cast<unsigned>(t.norm_blocks());
    transform_inputs<W><<<blocks_of(t.inputs(), kExactThreads), kExactThreads, 0, s>>>(t, f);
    int done = cudaGetLastError();
    if (done != 0) return done;
    transform_weights<W><<<static_cast<unsigned>(t.weight_blocks()), kExactThreads, 0, s>>>(t, f);
    if (done = cudaGetLastError(); done != 0) return done;
    sum_exact<W>
        <<<norms + blocks_of(t.factor_count(), kExactNormThreads), kExactNormThreads, 0, s>>>(
            t, f, norms);
    if (done = cudaGetLastError(); done != 0) return done;
    if (done = launch_f64(exact_winograd_products(t), s); done != 0) return done;
    finish_exact<W><<<blocks_of(t.outputs(), kExactThreads), kExactThreads, 0, s>>>(t, f, open);
    return static_cast<int>(cudaGetLastError());
  });
  return code != 0 ? code
                   : launch_settle<WindowProducts>(exact_winograd_open(t), open, undecided, s);
}

}  // namespace etalon::cuda
