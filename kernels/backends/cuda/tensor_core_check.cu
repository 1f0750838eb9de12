// Tensor cores beside their software model: a warp takes a tile (wgmma: four warps), each lane
// compares its four outputs. Fragments: tensor_core_fragments.h.
#include <cuda_runtime.h>

#include <string>

#include "kernels/backends/cuda/tensor_core_fragments.h"

namespace etalon::cuda {
namespace {

using Check = TensorCoreCheck;

template <TensorCoreFormat format>
__device__ void mma_f32(const std::uint32_t* a, const std::uint32_t* b, float* d) {
#define ETALON_MMA(SHAPE, TYPE)                                             \
  asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE      \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (format == TensorCoreFormat::f16) ETALON_MMA("m16n8k16", "f16");
  if constexpr (format == TensorCoreFormat::bf16) ETALON_MMA("m16n8k16", "bf16");
  if constexpr (format == TensorCoreFormat::tf32) ETALON_MMA("m16n8k8", "tf32");
#if __CUDA_ARCH__ >= 890
  if constexpr (format == TensorCoreFormat::f8e4m3) ETALON_MMA("m16n8k32", "e4m3");
  if constexpr (format == TensorCoreFormat::f8e5m2) ETALON_MMA("m16n8k32", "e5m2");
#endif
#undef ETALON_MMA
}

__device__ void mma_f16(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The accumulator of a lane, before and after: f32, or two f16 to a register.
template <bool F16>
struct Accumulator {
  std::uint32_t bits[4];
  template <class Multiply>
  __device__ void pass(Multiply&& multiply) {
    if constexpr (F16) {
      std::uint32_t d[2] = {bits[0] | (bits[1] << 16), bits[2] | (bits[3] << 16)};
      multiply(d);
      for (int i = 0; i < 4; ++i) bits[i] = (d[i / 2] >> (i % 2 * 16)) & 0xffffU;
    } else {
      float d[4];
      for (int i = 0; i < 4; ++i) d[i] = __uint_as_float(bits[i]);
      multiply(d);
      for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(d[i]);
    }
  }
};
template <bool F16>
__device__ Accumulator<F16> addends(const Check& check, std::uint64_t tile, int row0, int lane) {
  Accumulator<F16> c;
  for (int i = 0; i < 4; ++i)
    c.bits[i] = check.addend(tile, tile_row(row0, lane, i), tile_col(lane, i));
  return c;
}

__device__ void add(std::uint64_t* to, std::uint64_t n) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(n));
}

__device__ void judge(const Check& check, std::uint64_t tile, int row0, int lane,
                      const std::uint32_t* got, TensorCoreCount* count) {
  for (int i = 0; i < 4; ++i) {
    const int row = tile_row(row0, lane, i), col = tile_col(lane, i);
    const std::uint32_t want = check.expected(tile, row, col);
    if (got[i] == want) continue;
    add(&count->by_kind[tile % 8], 1);
    // Any of those that differ may be the one that is kept.
    if (atomicAdd(reinterpret_cast<unsigned long long*>(&count->differ), 1ULL) == 0) {
      count->tile = tile;
      count->row = static_cast<std::uint32_t>(row);
      count->col = static_cast<std::uint32_t>(col);
      count->got = got[i];
      count->want = want;
    }
  }
}

template <TensorCoreFormat format, bool F16>
__global__ void compare_mma(const __grid_constant__ Check check, std::uint64_t tiles,
                            TensorCoreCount* count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint64_t warps = static_cast<std::uint64_t>(gridDim.x) * (blockDim.x / 32);
  std::uint64_t cases = 0;
  for (std::uint64_t tile =
           static_cast<std::uint64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
       tile < tiles; tile += warps) {
    std::uint32_t a[4], b[2];
    for (int r = 0; r < 4; ++r) a[r] = tile_a(check, tile, 0, lane, r);
    for (int r = 0; r < 2; ++r) b[r] = tile_b(check, tile, lane, r);
    auto sums = addends<F16>(check, tile, 0, lane);
    __syncwarp();
    sums.pass([&](auto* d) {
      if constexpr (F16)
        mma_f16(a, b, d);
      else
        mma_f32<format>(a, b, d);
    });
    judge(check, tile, 0, lane, sums.bits, count);
    cases += 4;
  }
  add(&count->cases, cases);
}

// ---- wgmma --------------------------------------------------------------------------------------

constexpr int kWgmmaThreads = 128;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// From the fence, behind which registers may be read, to the end of the product.
#define ETALON_WGMMA(SHAPE, TYPES, D, DESCRIPTOR, A0, TRANSPOSED)               \
  "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned; "             \
  "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " " D ", " A0 ", " DESCRIPTOR \
  ", p, 1, 1" TRANSPOSED "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"

template <TensorCoreFormat format>
__device__ void wgmma_f32(const std::uint32_t* a, std::uint64_t b, float* d) {
#define ETALON_WGMMA_F32(SHAPE, TYPE, TRANSPOSED)                                                \
  asm volatile(ETALON_WGMMA(SHAPE, "f32." TYPE "." TYPE, "{%0,%1,%2,%3}", "%8", "{%4,%5,%6,%7}", \
                            TRANSPOSED)                                                          \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                              \
               : "memory")
  if constexpr (format == TensorCoreFormat::f16) ETALON_WGMMA_F32("m64n8k16", "f16", ", 0");
  if constexpr (format == TensorCoreFormat::bf16) ETALON_WGMMA_F32("m64n8k16", "bf16", ", 0");
  if constexpr (format == TensorCoreFormat::tf32) ETALON_WGMMA_F32("m64n8k8", "tf32", "");
  if constexpr (format == TensorCoreFormat::f8e4m3) ETALON_WGMMA_F32("m64n8k32", "e4m3", "");
  if constexpr (format == TensorCoreFormat::f8e5m2) ETALON_WGMMA_F32("m64n8k32", "e5m2", "");
#undef ETALON_WGMMA_F32
}

__device__ void wgmma_f16(const std::uint32_t* a, std::uint64_t b, std::uint32_t* d) {
  asm volatile(ETALON_WGMMA("m64n8k16", "f16.f16.f16", "{%0,%1}", "%6", "{%2,%3,%4,%5}", ", 0")
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
}
#undef ETALON_WGMMA
#endif

// Code for other architectures is empty, and counts no case.
template <TensorCoreFormat format, bool F16>
__global__ void __launch_bounds__(kWgmmaThreads)
    compare_wgmma(const __grid_constant__ Check check, std::uint64_t tiles,
                  TensorCoreCount* count) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(128) std::uint32_t b[kWgmmaWords];
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32, row0 = tid / 32 * 16;
  const std::uint64_t descriptor =
      wgmma_descriptor(static_cast<std::uint32_t>(__cvta_generic_to_shared(b)));
  std::uint64_t cases = 0;
  for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (tid < kWgmmaWords) b[tid] = wgmma_b_word(check, tile, tid);
    std::uint32_t a[4];
    for (int r = 0; r < 4; ++r) a[r] = tile_a(check, tile, row0, lane, r);
    auto sums = addends<F16>(check, tile, row0, lane);
    // The unit reads shared memory by another way than threads write it.
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    __syncthreads();
    sums.pass([&](auto* d) {
      if constexpr (F16)
        wgmma_f16(a, descriptor, d);
      else
        wgmma_f32<format>(a, descriptor, d);
    });
    __syncthreads();  // nobody's product reads b any more
    judge(check, tile, row0, lane, sums.bits, count);
    cases += 4;
  }
  add(&count->cases, cases);
#endif
}

using Kernel = void (*)(Check, std::uint64_t, TensorCoreCount*);
template <bool Wgmma, TensorCoreFormat format, bool F16 = false>
Kernel compare() {
  if constexpr (Wgmma)
    return compare_wgmma<format, F16>;
  else
    return compare_mma<format, F16>;
}
template <bool Wgmma>
Kernel kernel_of(TensorCoreFormat format, bool f16) {
  switch (format) {
    case TensorCoreFormat::f16:
      return f16 ? compare<Wgmma, TensorCoreFormat::f16, true>()
                 : compare<Wgmma, TensorCoreFormat::f16>();
    case TensorCoreFormat::bf16:
      return compare<Wgmma, TensorCoreFormat::bf16>();
    case TensorCoreFormat::tf32:
      return compare<Wgmma, TensorCoreFormat::tf32>();
    case TensorCoreFormat::f8e4m3:
      return compare<Wgmma, TensorCoreFormat::f8e4m3>();
    default:
      return compare<Wgmma, TensorCoreFormat::f8e5m2>();
  }
}

}  // namespace

int check_tensor_cores(TensorCoreInstruction instruction, TensorCoreFormat format, DType acc,
                       std::uint64_t tiles, std::uint64_t seed, std::string& unit,
                       TensorCoreCount& count) {
  unit.clear();
  count = {};
  cudaDeviceProp properties{};
  if (const int code = cudaGetDeviceProperties(&properties, 0); code != 0) return code;
  Check check{.format = format, .acc = acc, .seed = seed};
  const int sm = properties.major * 10 + properties.minor;
  check.arch = sm >= 90   ? TensorCoreArch::hopper
               : sm == 89 ? TensorCoreArch::ada
                          : TensorCoreArch::ampere;
  const bool f16 = acc == DType::f16, wgmma = instruction == TensorCoreInstruction::wgmma;
  if (sm < 80 || sm >= 100 || (wgmma && sm != 90) || (f16 && format != TensorCoreFormat::f16) ||
      TensorCoreModel::of(check.arch, format, acc).block == 0)
    return 0;
  TensorCoreCount* on_device = nullptr;
  if (const int code = cudaMalloc(&on_device, sizeof count); code != 0) return code;
  int code = cudaMemset(on_device, 0, sizeof count);
  if (code == 0) {
    const auto blocks = static_cast<unsigned>(properties.multiProcessorCount) * 8;
    if (wgmma)
      kernel_of<true>(format, f16)<<<blocks, kWgmmaThreads>>>(check, tiles, on_device);
    else
      kernel_of<false>(format, f16)<<<blocks, 256>>>(check, tiles, on_device);
    code = cudaGetLastError();
  }
  if (code == 0) code = cudaMemcpy(&count, on_device, sizeof count, cudaMemcpyDeviceToHost);
  cudaFree(on_device);
  if (code != 0 || count.cases == 0) return code;
  unit = std::string(sm >= 90   ? "hopper"
                     : sm == 89 ? "ada"
                                : "ampere") +
         ", acc=" + (f16 ? "f16" : "f32");
  return code;
}

}  // namespace etalon::cuda
