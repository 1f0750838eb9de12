// The launch of cuda_held.h on a device.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/recurrent/cuda_scan_launch.h"

namespace etalon::cuda {
namespace {

template <class Block>
struct ClusterThread {
  const typename Block::Place& place;
  typename Block::Thread& r;
  typename Block::Shared& shared;

  template <class F>
  __device__ void phase(F&& f) const {
    f(place, r, shared, static_cast<int>(threadIdx.x));
  }
  __device__ void together() const { __syncthreads(); }
#if __CUDA_ARCH__ >= 900
  __device__ void all_together() const {
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
  }
  __device__ float* of(float* own, int rank) const {
    float* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return there;
  }
#endif
};

template <int Weights>
__global__ void __launch_bounds__(kHeldThreads, 1)
    run_held(const __grid_constant__ HeldTask t, const __grid_constant__ ScanStep step) {
#if __CUDA_ARCH__ >= 900
  using Block = HeldBlock<Weights>;
  __shared__ typename Block::Shared shared;
  typename Block::Thread r;
  const typename Block::Place place = Block::place(t, blockIdx.x);
  Block::run(t, step, ClusterThread<Block>{place, r, shared});
#endif
}

}  // namespace

// Clusters of blocks: code of sm_90 and newer has them.
bool can_hold() {
  static const bool can = [] {
    cudaFuncAttributes of{};
    return cudaFuncGetAttributes(&of, run_held<kHeldWeights[0]>) == cudaSuccess &&
           of.ptxVersion >= 90;
  }();
  return can;
}

int launch_held(const HeldTask& t, const ScanStep& step, void* stream) {
  int failed = cudaSuccess;
  with_held_form(t, [&]<int Weights>() {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(t.ranks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = static_cast<unsigned>(t.blocks());
    config.blockDim = static_cast<unsigned>(t.threads());
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &cluster;
    config.numAttrs = 1;
    failed = cudaLaunchKernelEx(&config, run_held<Weights>, t, step);
  });
  return failed;
}

}  // namespace etalon::cuda
