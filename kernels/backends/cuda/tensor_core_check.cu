// Tensor cores beside their software model: a warp takes a tile, each lane compares its four
// outputs. Fragments as the PTX manual lays out mma.m16n8k16 (f16, bf16), m16n8k8 (tf32) and
// m16n8k32 (f8): with g = lane / 4 and t = lane % 4, a register of A holds neighbouring k of row g
// or g + 8, one of B neighbouring k of column g, C and D rows g and g + 8, columns 2 t and 2 t + 1.
#include <cuda_runtime.h>

#include <string>

#include "kernels/backends/cuda/tensor_core_check.h"

namespace etalon::cuda {
namespace {

using Check = TensorCoreCheck;

// The four codes (or two, or one) of a 32-bit register, k ascending from `k`.
__device__ std::uint32_t packed(const Check& c, std::uint64_t tile, int which, int line, int k,
                                int width) {
  std::uint32_t word = 0;
  for (int i = 0; i < 32 / width; ++i) {
    const std::uint32_t code = c.code(tile, which, line, k + i);
    if (width == 32) return code;
    word |= code << (i * width);
  }
  return word;
}

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

template <TensorCoreFormat format, bool F16>
__global__ void compare(const __grid_constant__ Check check, std::uint64_t tiles,
                        TensorCoreCount* count) {
  constexpr int kWidth = format == TensorCoreFormat::tf32                                      ? 32
                         : format == TensorCoreFormat::f16 || format == TensorCoreFormat::bf16 ? 16
                                                                                               : 8;
  constexpr int kEach = 32 / kWidth;
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  const std::uint64_t warps = static_cast<std::uint64_t>(gridDim.x) * (blockDim.x / 32);
  for (std::uint64_t tile =
           static_cast<std::uint64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
       tile < tiles; tile += warps) {
    const std::uint32_t a[4] = {packed(check, tile, 0, g, t * kEach, kWidth),
                                packed(check, tile, 0, g + 8, t * kEach, kWidth),
                                packed(check, tile, 0, g, (t + 4) * kEach, kWidth),
                                packed(check, tile, 0, g + 8, (t + 4) * kEach, kWidth)};
    const std::uint32_t b[2] = {packed(check, tile, 1, g, t * kEach, kWidth),
                                packed(check, tile, 1, g, (t + 4) * kEach, kWidth)};
    std::uint32_t got[4];
    for (int i = 0; i < 4; ++i) got[i] = check.addend(tile, g + i / 2 * 8, 2 * t + i % 2);
    if constexpr (F16) {
      std::uint32_t d[2] = {got[0] | (got[1] << 16), got[2] | (got[3] << 16)};
      mma_f16(a, b, d);
      for (int i = 0; i < 4; ++i) got[i] = (d[i / 2] >> (i % 2 * 16)) & 0xffffU;
    } else {
      float d[4];
      for (int i = 0; i < 4; ++i) d[i] = __uint_as_float(got[i]);
      mma_f32<format>(a, b, d);
      for (int i = 0; i < 4; ++i) got[i] = __float_as_uint(d[i]);
    }
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8, col = 2 * t + i % 2;
      const std::uint32_t want = check.expected(tile, row, col);
      if (got[i] == want) continue;
      atomicAdd(reinterpret_cast<unsigned long long*>(&count->by_kind[tile % 8]), 1ULL);
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
}

using Kernel = void (*)(Check, std::uint64_t, TensorCoreCount*);
Kernel kernel_of(TensorCoreFormat format, bool f16) {
  switch (format) {
    case TensorCoreFormat::f16:
      return f16 ? compare<TensorCoreFormat::f16, true> : compare<TensorCoreFormat::f16, false>;
    case TensorCoreFormat::bf16:
      return compare<TensorCoreFormat::bf16, false>;
    case TensorCoreFormat::tf32:
      return compare<TensorCoreFormat::tf32, false>;
    case TensorCoreFormat::f8e4m3:
      return compare<TensorCoreFormat::f8e4m3, false>;
    default:
      return compare<TensorCoreFormat::f8e5m2, false>;
  }
}

}  // namespace

int check_tensor_cores(TensorCoreFormat format, DType acc, std::uint64_t tiles, std::uint64_t seed,
                       std::string& unit, TensorCoreCount& count) {
  unit.clear();
  count = {};
  cudaDeviceProp properties{};
  if (const int code = cudaGetDeviceProperties(&properties, 0); code != 0) return code;
  Check check{.format = format, .acc = acc, .seed = seed};
  const int sm = properties.major * 10 + properties.minor;
  check.arch = sm >= 90   ? TensorCoreArch::hopper
               : sm == 89 ? TensorCoreArch::ada
                          : TensorCoreArch::ampere;
  const bool f16 = acc == DType::f16;
  if (sm < 80 || sm >= 100 || (f16 && format != TensorCoreFormat::f16) ||
      TensorCoreModel::of(check.arch, format, acc).block == 0)
    return 0;
  TensorCoreCount* on_device = nullptr;
  if (const int code = cudaMalloc(&on_device, sizeof count); code != 0) return code;
  int code = cudaMemset(on_device, 0, sizeof count);
  if (code == 0) {
    kernel_of(format, f16)<<<static_cast<unsigned>(properties.multiProcessorCount) * 8, 256>>>(
        check, tiles, on_device);
    code = cudaGetLastError();
  }
  if (code == 0) code = cudaMemcpy(&count, on_device, sizeof count, cudaMemcpyDeviceToHost);
  cudaFree(on_device);
  count.cases = tiles * Check::kRows * Check::kCols;
  unit = std::string(sm >= 90   ? "hopper"
                     : sm == 89 ? "ada"
                                : "ampere") +
         ", acc=" + (f16 ? "f16" : "f32");
  return code;
}

}  // namespace etalon::cuda
