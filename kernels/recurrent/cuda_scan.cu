// The launches of cuda_scan_launch.h on a device.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/recurrent/cuda_scan_launch.h"

namespace etalon::cuda {
namespace {

constexpr int kStateThreads = 256;

template <ScanPhase phase>
__global__ void __launch_bounds__(kScanPackThreads)
    pack_weights(const __grid_constant__ ScanTask t, ScanTile tile) {
  scan_pack<phase>(t, tile, blockIdx.x, static_cast<int>(threadIdx.x));
}

__device__ std::int64_t own_state() {
  return static_cast<std::int64_t>(blockIdx.x) * kStateThreads + threadIdx.x;
}
__global__ void __launch_bounds__(kStateThreads) begin_states(const __grid_constant__ ScanTask t) {
  if (const std::int64_t i = own_state(); i < t.states()) scan_begin(t, i);
}
__global__ void __launch_bounds__(kStateThreads)
    finish_states(const __grid_constant__ ScanTask t, const __grid_constant__ UndecidedList list) {
  const std::int64_t i = own_state();
  if (i >= t.states() || !scan_finish(t, i)) return;
  const auto place =
      static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(list.count), 1ULL));
  if (place < list.capacity) list.places[place] = scan_slice(t, i);
}

template <class Thread>
struct BlockThreads {
  Thread& r;
  template <class F>
  __device__ void phase(F&& f) const {
    f(r, static_cast<int>(threadIdx.x));
  }
  // The launch behind this one may begin when all blocks of this one are here.
  __device__ void before_there() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
  }
  template <int left>
  __device__ void arrived() const {
    wait_for_copies<left>();
    __syncthreads();
  }
};

template <ScanPhase phase, int Across, int Rows>
__global__ void __launch_bounds__(kScanThreads, 4)
    run_step(const __grid_constant__ ScanTask t, const __grid_constant__ ScanStep step) {
  using Block = ScanBlock<phase, Across, Rows>;
  __shared__ typename Block::Shared shared;
  typename Block::Thread r;
  Block::run(t, step, blockIdx.x, shared, BlockThreads<typename Block::Thread>{r});
}

// Code of sm_90 and newer waits for the launch before it by itself (before_there); older code, and
// what was compiled from older code's PTX, does not.
template <ScanPhase phase, int Across, int Rows>
bool waits_by_itself() {
  static const bool waits = [] {
    cudaFuncAttributes of{};
    return cudaFuncGetAttributes(&of, run_step<phase, Across, Rows>) == cudaSuccess &&
           of.ptxVersion >= 90;
  }();
  return waits;
}

struct Launches {
  const ScanTask& t;
  const UndecidedList& undecided;
  void* handle;
  int failed = cudaSuccess;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(handle); }
  void done(int code) {
    if (failed == cudaSuccess) failed = code;
  }
  unsigned state_blocks() const {
    return static_cast<unsigned>((t.states() + kStateThreads - 1) / kStateThreads);
  }
  static bool holds() { return can_hold(); }
  void held(const HeldTask& task, const ScanStep& step) { done(launch_held(task, step, handle)); }
  template <ScanPhase phase>
  void pack() {
    pack_weights<phase>
        <<<static_cast<unsigned>(scan_pack_blocks(t, phase)), kScanPackThreads, 0, stream()>>>(
            t, kScanTiles[t.tile]);
    done(cudaGetLastError());
  }
  void begin() {
    begin_states<<<state_blocks(), kStateThreads, 0, stream()>>>(t);
    done(cudaGetLastError());
  }
  void products(const TileTask& x) { done(launch_products(x, handle)); }
  template <ScanPhase phase>
  void step(const ScanStep& step) {
    with_scan_tile(t.tile, [&]<int Across, int Rows>() {
      cudaLaunchAttribute early{};
      early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      early.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = static_cast<unsigned>(t.blocks(phase));
      config.blockDim = kScanThreads;
      config.stream = stream();
      config.attrs = &early;
      config.numAttrs = waits_by_itself<phase, Across, Rows>() ? 1 : 0;
      done(cudaLaunchKernelEx(&config, run_step<phase, Across, Rows>, t, step));
    });
  }
  void finish() {
    finish_states<<<state_blocks(), kStateThreads, 0, stream()>>>(t, undecided);
    done(cudaGetLastError());
  }
};

}  // namespace

int launch_scan(const KernelCall& call, const CellMemory& memory, const UndecidedList& undecided,
                void* stream) {
  const ScanTask t = scan_task(call, memory);
  Launches launches{t, undecided, stream};
  etalon::launch_scan(t, call, launches);
  return launches.failed;
}

}  // namespace etalon::cuda
