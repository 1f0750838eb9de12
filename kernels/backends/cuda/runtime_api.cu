// The machine's own table (api.h): the CUDA runtime, linked statically, which opens the driver when
// first called.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends/cuda/launches.h"

namespace etalon::cuda {
namespace {

cudaStream_t stream_of(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t event_of(void* e) { return static_cast<cudaEvent_t>(e); }

int describe(DeviceFacts* facts) {
  cudaDeviceProp properties{};
  if (const int code = cudaGetDeviceProperties(&properties, 0); code != 0) return code;
  facts->name = properties.name;
  facts->major = properties.major;
  facts->minor = properties.minor;
  facts->memory_bytes = properties.totalGlobalMem;
  return cudaDriverGetVersion(&facts->driver);
}

int allocate(void** p, std::size_t size) {
  const cudaError_t code = cudaMalloc(p, size);
  if (code == cudaErrorMemoryAllocation)
    cudaGetLastError();  // not sticky: the next call starts clean
  return code;
}

template <class To, class From>
__global__ void convert_elements(To* to, const From* from, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    to[i] = static_cast<To>(from[i]);
}
template <class To, class From>
int convert(To* to, const From* from, std::int64_t count, void* stream) {
  if (count == 0) return cudaSuccess;
  constexpr unsigned kThreads = 256, kMostBlocks = 1 << 16;
  const auto blocks =
      std::min<std::int64_t>((count + kThreads - 1) / kThreads, std::int64_t{kMostBlocks});
  convert_elements<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(stream)>>>(to, from,
                                                                                      count);
  return cudaGetLastError();
}

int end_capture(void* stream, void** graph) {
  cudaGraph_t captured = nullptr;
  if (const int code = cudaStreamEndCapture(stream_of(stream), &captured); code != 0) return code;
  cudaGraphExec_t ready = nullptr;
  const int code = cudaGraphInstantiate(&ready, captured, 0);
  cudaGraphDestroy(captured);
  *graph = ready;
  return code;
}

constexpr Api kRuntime = {
    .device_count = [](int* n) -> int { return cudaGetDeviceCount(n); },
    .describe = describe,
    .text = [](int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); },
    .allocate = allocate,
    .release = [](void* p) -> int { return cudaFree(p); },
    .make_stream = [](void** s) -> int {
      return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(s), cudaStreamNonBlocking);
    },
    .drop_stream = [](void* s) -> int { return cudaStreamDestroy(stream_of(s)); },
    .wait_for_stream = [](void* s) -> int { return cudaStreamSynchronize(stream_of(s)); },
    .to_device = [](void* to, const void* from, std::size_t n, void* s) -> int {
      return cudaMemcpyAsync(to, from, n, cudaMemcpyHostToDevice, stream_of(s));
    },
    .to_host = [](void* to, const void* from, std::size_t n, void* s) -> int {
      return cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, stream_of(s));
    },
    .on_device = [](void* to, const void* from, std::size_t n, void* s) -> int {
      return cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream_of(s));
    },
    .clear = [](void* p, std::size_t n, void* s) -> int {
      return cudaMemsetAsync(p, 0, n, stream_of(s));
    },
    .make_event = [](void** e) -> int {
      return cudaEventCreate(reinterpret_cast<cudaEvent_t*>(e));
    },
    .drop_event = [](void* e) -> int { return cudaEventDestroy(event_of(e)); },
    .record = [](void* e, void* s) -> int { return cudaEventRecord(event_of(e), stream_of(s)); },
    .wait_for_event = [](void* e) -> int { return cudaEventSynchronize(event_of(e)); },
    .milliseconds = [](float* ms, void* from, void* to) -> int {
      return cudaEventElapsedTime(ms, event_of(from), event_of(to));
    },
    .begin_capture = [](void* s) -> int {
      return cudaStreamBeginCapture(stream_of(s), cudaStreamCaptureModeThreadLocal);
    },
    .end_capture = end_capture,
    .launch_graph = [](void* g, void* s) -> int {
      return cudaGraphLaunch(static_cast<cudaGraphExec_t>(g), stream_of(s));
    },
    .drop_graph = [](void* g) -> int {
      return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(g));
    },
    .definition = launch_definition,
    .tiles = launch_tiles,
    .move = launch_move,
    .pairs = launch_pairs,
    .depthwise = launch_depthwise,
    .function = launch_function,
    .rows = launch_rows,
    .cells = launch_cells,
    .digits = launch_digits,
    .residue_facts = residue_facts,
    .residues = launch_residues,
    .conv_digits = launch_conv_digits,
    .wide = launch_wide,
    .conv_wide = launch_conv_wide,
    .exact_winograd = launch_exact_winograd,
    .most_winograd_share = 0.8,
    .fft = launch_fft,
    .winograd = launch_winograd,
    .widen = convert<double, float>,
    .narrow = convert<float, double>,
};

}  // namespace

const Api* runtime_api() { return &kRuntime; }

}  // namespace etalon::cuda
