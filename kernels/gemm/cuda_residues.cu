// The launches of cuda_residues.h, and its products of planes by wgmma, which is Hopper's alone: of
// other architectures the kernel is empty, and the row refuses them (residue_facts).
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/gemm/cuda_digits_device.h"
#include "kernels/gemm/cuda_residue_forecast.h"
#include "kernels/gemm/cuda_residues.h"

namespace etalon::cuda {
namespace {

// ---- 0: whether -------------------------------------------------------------------------------

__global__ void __launch_bounds__(kResidueThreads)
    foretell_open(const __grid_constant__ ResidueTask task, std::uint32_t* const forecast) {
  __shared__ ForecastShared shared;
  residue_forecast(task, static_cast<int>(blockIdx.x), shared, BlockThreads{},
                   [&](std::uint32_t share) { atomicAdd(forecast, share); });
}

// ---- 1: planes ----------------------------------------------------------------------------------

template <bool right>
__global__ void __launch_bounds__(kResidueThreads)
    cut_line(const __grid_constant__ ResidueTask task) {
  __shared__ ResidueLineShared shared;
  if (task.left_to_f64()) return;
  residue_cut_line<right>(task, blockIdx.x, shared, BlockThreads{});
}
template <bool right>
__device__ const ResidueSide& side_of(const ResidueTask& task) {
  return right ? task.b : task.a;
}
template <bool right>
__global__ void __launch_bounds__(kResidueThreads)
    stat_lines(const __grid_constant__ ResidueTask task) {
  __shared__ ResidueLineShared shared;
  if (task.left_to_f64()) return;
  residue_stat_lines(task, side_of<right>(task), blockIdx.x, shared, BlockThreads{});
}
__device__ std::int64_t thread_of_all() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <bool right>
__global__ void __launch_bounds__(kResidueThreads, 4)
    cut_lines(const __grid_constant__ ResidueTask task) {
  __shared__ ResidueTileShared shared;
  if (task.left_to_f64()) return;
  residue_cut_lines<right>(task, blockIdx.x, shared, BlockThreads{});
}

template <bool right>
cudaError_t cut(const ResidueTask& task, cudaStream_t stream) {
  const ResidueSide& s = right ? task.b : task.a;
  const auto blocks = [](std::int64_t n) { return static_cast<unsigned>(n); };
  const std::int64_t lines = task.products * s.padded;
  if (s.along_k()) {
    cut_line<right><<<blocks(lines), kResidueThreads, 0, stream>>>(task);
    return cudaGetLastError();
  }
  stat_lines<right><<<blocks(residue_stat_blocks(task, s)), kResidueThreads, 0, stream>>>(task);
  cut_lines<right><<<blocks(residue_cut_blocks(task, s)), kResidueThreads, 0, stream>>>(task);
  return cudaGetLastError();
}

// ---- 2: products --------------------------------------------------------------------------------

// A block: a warpgroup of which one thread fetches, two that multiply. Slices of 128 bytes of k lie
// under TMA's swizzle of 128 bytes, rows 128 bytes apart, as wgmma's descriptors have it.
constexpr int kStages = 4, kProductThreads = 3 * 128;
constexpr int kBytesA = kResidueRows * kResidueSlice, kBytesB = kResidueColumns * kResidueSlice;
constexpr int kProductBytes = kStages * (kBytesA + kBytesB) + 1024;  // and where 1024 divides

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ std::uint32_t shared_place(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void barrier_begin(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "W_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra D_%=;\nbra W_%=;\nD_%=:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void fetch(std::uint32_t to, const CUtensorMap* map, int k, int row, int plane,
                      std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(k), "r"(row), "r"(plane), "r"(barrier)
      : "memory");
}
// Swizzled by 128 bytes, eight rows 1024 bytes from the next eight.
__device__ std::uint64_t descriptor(std::uint32_t place) {
  return ((place & 0x3FFFFU) >> 4) | (std::uint64_t{1} << 16) | (std::uint64_t{1024 >> 4} << 32) |
         (std::uint64_t{1} << 62);
}
#define ETALON_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define ETALON_16(i) ETALON_4(i), ETALON_4(i + 4), ETALON_4(i + 8), ETALON_4(i + 12)
// d = (keeps ? d : 0) + the product of 64 x 32 and 32 x 256 bytes.
__device__ void multiply(int (&d)[128], std::uint64_t a, std::uint64_t b, int keeps) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %130, 0; "
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
      "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,"
      "%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
      "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,"
      "%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,"
      "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,"
      "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
      "}, %128, %129, p;}"
      : ETALON_16(0), ETALON_16(16), ETALON_16(32), ETALON_16(48), ETALON_16(64), ETALON_16(80),
        ETALON_16(96), ETALON_16(112)
      : "l"(a), "l"(b), "r"(keeps));
}
#undef ETALON_16
#undef ETALON_4
#endif

__global__ void __launch_bounds__(kProductThreads, 1)
    multiply_planes(const __grid_constant__ CUtensorMap map_a,
                    const __grid_constant__ CUtensorMap map_b,
                    const __grid_constant__ ResidueTask task) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (task.left_to_f64()) return;
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ std::uint64_t barriers[2 * kStages];
  const std::uint32_t a0 = (shared_place(memory) + 1023) & ~1023U, b0 = a0 + kStages * kBytesA,
                      full = shared_place(barriers), empty = full + 8 * kStages;
  const int tid = static_cast<int>(threadIdx.x), group = tid / 128;
  if (tid == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_begin(full + 8 * s, 1);
      barrier_begin(empty + 8 * s, 8);  // a lane of each warp that multiplies
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int tiles = static_cast<int>(task.tiles()), step = static_cast<int>(gridDim.x);
  const int slices = static_cast<int>((task.t.k + kResidueSlice - 1) / kResidueSlice);
  int stage = 0;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (tid == 0) {
      int phase = 1;
      for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += step) {
        const ResiduePlace p = residue_tile(task, tile);
        const int row = static_cast<int>(p.row) * kResidueRows,
                  col = static_cast<int>(p.col) * kResidueColumns,
                  plane = static_cast<int>(p.plane);
        for (int k = 0; k < slices; ++k) {
          barrier_wait(empty + 8 * stage, phase);
          barrier_expect(full + 8 * stage, kBytesA + kBytesB);
          fetch(a0 + stage * kBytesA, &map_a, k * kResidueSlice, row, plane, full + 8 * stage);
          fetch(b0 + stage * kBytesB, &map_b, k * kResidueSlice, col, plane, full + 8 * stage);
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const auto release = [&](int s) {
    if (tid % 32 == 0) barrier_arrive(empty + 8 * s);
  };
  int phase = 0;
  int d[128];
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += step) {
    int before = -1;
    for (int k = 0; k < slices; ++k) {
      barrier_wait(full + 8 * stage, phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      const std::uint64_t a = descriptor(a0 + stage * kBytesA + (group - 1) * 64 * kResidueSlice),
                          b = descriptor(b0 + stage * kBytesB);
#pragma unroll
      for (int i = 0; i < kResidueSlice / 32; ++i)
        multiply(d, a + i * 2, b + i * 2, i > 0 || k > 0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // The products of the slice before are done: its place may be filled again.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (before >= 0) release(before);
      before = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(before);
#pragma unroll
    for (int i = 0; i < 128; ++i) asm volatile("" : "+r"(d[i])::"memory");
    residue_store(task, residue_tile(task, tile), group - 1, tid % 128,
                  [&](int i) { return d[i]; });
  }
#endif
}

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
// The driver's, which the runtime has opened.
EncodeTiled encode_tiled() {
  void* at = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &at, 12000, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<EncodeTiled>(at);
}
// Planes as a tensor of three axes, fetched `rows` of 128 bytes at a time; zeros beyond its edges.
bool map_planes(const ResidueTask& task, const ResidueSide& s, int rows, CUtensorMap* map) {
  static const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return false;
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t extents[3] = {size(task.t.k), size(s.padded), size(task.products * kResidues)};
  const cuuint64_t strides[2] = {size(task.k_bytes), size(s.padded * task.k_bytes)};
  const cuuint32_t box[3] = {kResidueSlice, static_cast<cuuint32_t>(rows), 1}, ones[3] = {1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, s.planes, extents, strides, box, ones,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
cudaError_t multiply_panel(const ResidueTask& task, int processors, cudaStream_t stream) {
  CUtensorMap a, b;
  if (!map_planes(task, task.a, kResidueRows, &a) || !map_planes(task, task.b, kResidueColumns, &b))
    return cudaErrorNotSupported;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(processors, task.tiles()));
  multiply_planes<<<blocks, kProductThreads, kProductBytes, stream>>>(a, b, task);
  return cudaGetLastError();
}

// ---- 3, 4: outputs ------------------------------------------------------------------------------

__global__ void __launch_bounds__(kResidueThreads, 2)
    join_residues(const __grid_constant__ ResidueTask task,
                  const __grid_constant__ UndecidedList open) {
  if (task.left_to_f64()) return;
  residue_join_block(task, blockIdx.x, static_cast<int>(threadIdx.x),
                     [&](std::int64_t i) { put_on_list(open, i); });
}

__global__ void __launch_bounds__(kResidueThreads)
    settle_residues(const __grid_constant__ ResidueTask task,
                    const __grid_constant__ UndecidedList open,
                    const __grid_constant__ UndecidedList undecided) {
  constexpr unsigned kAll = 0xffffffffU;
  if (task.left_to_f64()) return;
  const std::int64_t count = digit_open_count(task.outputs(), open),
                     warps = static_cast<std::int64_t>(gridDim.x) * (kResidueThreads / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t i = thread_of_all() / 32; i < count; i += warps) {
    const ResidueOpen one(task, digit_open_at(open, i));
    ResidueFix fix = one.fix(lane);
    for (int step = 16; step > 0; step /= 2) {
      ResidueFix other;
      other.sum = __shfl_down_sync(kAll, fix.sum, step);
      other.size = __shfl_down_sync(kAll, fix.size, step);
      fix.merge(other);
    }
    const bool settled = lane == 0 && one.settle(fix);
    if (__shfl_sync(kAll, settled ? 1 : 0, 0) != 0) continue;
    const DigitDot dot = joined_by_warp(one.dot(lane));
    if (lane == 0 && !one.settle(dot.result(task.t.k)))
      put_on_list(undecided, MatrixProducts::place(task.t, one.o));
  }
}

}  // namespace

int residue_facts(ResidueFacts* facts) {
  int major = 0;
  if (const cudaError_t code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
      code != cudaSuccess)
    return code;
  *facts = {};
  facts->units = major == 9;
  if (!facts->units) return cudaSuccess;
  // Only Hopper's own code has barriers in shared memory.
  cudaFuncAttributes attributes{};
  const cudaError_t code = cudaFuncGetAttributes(&attributes, multiply_planes);
  facts->code = attributes.sharedSizeBytes > 0;
  return code;
}

int launch_residues(const KernelCall& call, const ResidueMemory& memory, const UndecidedList& open,
                    const UndecidedList& undecided, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  int processors = 0;
  cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  if (code != cudaSuccess) return code;
  code = cudaFuncSetAttribute(multiply_planes, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kProductBytes);
  if (code != cudaSuccess) return code;
  ResidueTask all = residue_task(call);
  const auto done = [&code](cudaError_t result) {
    if (code == cudaSuccess) code = result;
    return code == cudaSuccess;
  };
  if (memory.forecast != nullptr) {
    if (!done(cudaMemsetAsync(memory.forecast, 0, sizeof *memory.forecast, s))) return code;
    foretell_open<<<kForecastOutputs, kResidueThreads, 0, s>>>(all, memory.forecast);
    if (!done(cudaGetLastError())) return code;
    all.forecast = memory.forecast;
    all.most_foreseen = memory.most_foreseen;
  }
  const ResiduePanels panels = residue_panels(all, memory.panel_bytes);
  bool counts = false;  // which each panel leaves 0
  for_each_residue_panel(all, panels, memory.all, [&](const ResidueTask& task) {
    if (code != cudaSuccess) return;
    if (!counts &&
        !done(cudaMemsetAsync(task.a.arrived, 0,
                              static_cast<std::size_t>(panels.counts) * sizeof *task.a.arrived, s)))
      return;
    counts = true;
    if (task.cuts_b && !done(cut<true>(task, s))) return;
    if (!done(cut<false>(task, s))) return;
    if (!done(cudaMemsetAsync(open.count, 0, sizeof *open.count, s))) return;
    if (!done(multiply_panel(task, processors, s))) return;
    join_residues<<<static_cast<unsigned>(residue_join_blocks(task)), kResidueThreads, 0, s>>>(
        task, open);
    if (!done(cudaGetLastError())) return;
    // Of usual data one output in a thousand is open.
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(8 * processors, (task.outputs() + 63) / 64));
    settle_residues<<<blocks, kResidueThreads, 0, s>>>(task, open, undecided);
    done(cudaGetLastError());
  });
  if (code != cudaSuccess || memory.forecast == nullptr) return code;
  return launch_wide(call, memory.wide, undecided, stream);
}

}  // namespace etalon::cuda
