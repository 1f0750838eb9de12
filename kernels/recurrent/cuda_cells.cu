// The launch of cuda_cells.h: a block's phases with barriers between them.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/put_on_list.h"
#include "kernels/recurrent/cuda_cells.h"

namespace etalon::cuda {
namespace {

__global__ void __launch_bounds__(kCellThreads)
    run_cells(const __grid_constant__ CellTask t, const __grid_constant__ UndecidedList list) {
  const int tid = static_cast<int>(threadIdx.x);
  CellThread thread;
  thread.begin(t, blockIdx.x, tid);
  __syncthreads();
  for (std::int64_t s = 0; s < thread.length; ++s) {
    if (CellThread::two_phases(t)) {
      thread.gates(t, tid, s);
      __syncthreads();
    }
    thread.state(t, tid, s);
    thread.advance();
    __syncthreads();
  }
  thread.finish(t, tid);
  if (__syncthreads_or(thread.steps.undecided ? 1 : 0) != 0 && tid == 0)
    put_on_list(list, blockIdx.x);
}

}  // namespace

int launch_cells(const KernelCall& call, const CellMemory& memory, const UndecidedList& undecided,
                 void* stream) {
  if (!call.contract().exact()) return launch_scan(call, memory, undecided, stream);
  const CellTask t = cell_task(call, memory);
  run_cells<<<static_cast<unsigned>(recurrent_slices(t.p)), kCellThreads, 0,
              static_cast<cudaStream_t>(stream)>>>(t, undecided);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
