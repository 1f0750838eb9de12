// Runs a definition (engine/backend/definition.h) on a GPU: one thread a slice, `seq`, the very
// text that the CPU runs. No launch geometry enters a result: a thread computes whole outputs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "engine/backend/definition.h"
#include "engine/numerics/seq_f32.h"
#include "kernels/backends/cuda/device.h"

namespace etalon::cuda {

// The failing call in the error, as a missing device: host data are intact.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw missing("{} failed: {}; run with --device cpu", call, cudaGetErrorString(status));
}

// Device memory with one owner.
class Buffer {
 public:
  explicit Buffer(std::size_t size_bytes) {
    check(cudaMalloc(&p_, size_bytes == 0 ? 1 : size_bytes), "cudaMalloc");
  }
  ~Buffer() { cudaFree(p_); }
  Buffer(Buffer&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  void* get() const { return p_; }

 private:
  void* p_ = nullptr;
};

struct F32Out {
  float* y;
  __device__ void operator()(int, std::int64_t index, float value) const {
    y[index] = canonical(value);
  }
};

template <class D>
__global__ void definition_kernel(typename D::Plan plan, float* y) {
  const std::int64_t slices = D::slices(plan);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  F32Out out{y};
  SeqF32 arithmetic;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < slices; i += step)
    D::slice(arithmetic, plan, i, out);
}

inline Refusal refuse_definition(const Problem& problem) {
  if (!problem.contract->is_seq()) return "offers seq, not " + short_name(*problem.contract);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  return refuse_without_device();
}

// Copies the inputs to the device, runs the definition, copies the output back: explicit, and the
// price of a first form. The plan's Sources are pointed at the copies.
template <class D>
void run_definition(const KernelCall& call) {
  std::vector<Buffer> buffers;
  std::vector<Tensor> views;
  std::vector<const Tensor*> inputs;
  views.reserve(call.inputs.size());
  for (const Tensor* input : call.inputs) {
    if (input == nullptr) {
      inputs.push_back(nullptr);
      continue;
    }
    const Buffer& b = buffers.emplace_back(input->size_bytes());
    check(cudaMemcpy(b.get(), input->bytes().data(), input->size_bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
    views.push_back(Tensor::view(input->dtype(), input->shape(),
                                 {static_cast<const std::byte*>(b.get()), input->size_bytes()},
                                 nullptr));
    inputs.push_back(&views.back());
  }
  KernelCall on_device = call;
  on_device.inputs = inputs;
  const auto plan = D::plan(on_device);
  Tensor& y = call.output(0);
  const Buffer result(y.size_bytes());
  const std::int64_t slices = D::slices(plan);
  constexpr unsigned kThreads = 128;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((slices + kThreads - 1) / kThreads, std::int64_t{1} << 20));
  if (slices > 0)
    definition_kernel<D><<<blocks, kThreads>>>(plan, static_cast<float*>(result.get()));
  check(cudaGetLastError(), "the kernel's launch");
  check(cudaMemcpy(y.mutable_bytes().data(), result.get(), y.size_bytes(), cudaMemcpyDeviceToHost),
        "cudaMemcpy from the device");
}

template <class D>
KernelRow definition_row(std::string_view name) {
  return {.op = D::op,
          .name = name,
          .device = Device::cuda,
          .contracts = "seq",
          .refuse = refuse_definition,
          .run = run_definition<D>};
}

}  // namespace etalon::cuda
