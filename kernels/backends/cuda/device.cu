#include <cuda_runtime.h>

#include <utility>

#include "kernels/backends/cuda/check.cuh"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/pool.h"

namespace etalon::cuda {
namespace {

void* allocate(std::size_t size) {
  void* p = nullptr;
  const cudaError_t status = cudaMalloc(&p, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: the next call starts clean
    return nullptr;
  }
  check(status, "cudaMalloc");
  return p;
}
void release(void* p) { cudaFree(p); }

// Lives as long as the program: a static object would be taken down after the driver.
BlockPool& pool() {
  static auto* const pool = new BlockPool(allocate, release);
  return *pool;
}

cudaStream_t own_stream() {
  thread_local const cudaStream_t s = [] {
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return created;
  }();
  return s;
}

}  // namespace

Refusal refuse_without_device() {
  static const Refusal refusal = []() -> Refusal {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver)
      return "no NVIDIA driver here, or one older than CUDA 13 needs";
    if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
    if (count == 0) return "no CUDA device in this machine";
    return std::nullopt;
  }();
  return refusal;
}

std::string device_name() {
  cudaDeviceProp properties{};
  int driver = 0;
  if (refuse_without_device() || cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess)
    return {};
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major) +
         std::to_string(properties.minor) + ", driver " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

DeviceBuffer::DeviceBuffer(std::size_t size_bytes)
    : p_(pool().take(size_bytes)), size_(size_bytes) {
  if (p_ == nullptr) check(cudaErrorMemoryAllocation, "cudaMalloc");
}
DeviceBuffer::~DeviceBuffer() {
  if (p_ != nullptr) pool().give(p_, size_);
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : p_(std::exchange(other.p_, nullptr)), size_(other.size_) {}

void DeviceBuffer::upload(std::span<const std::byte> from) {
  check(cudaMemcpyAsync(p_, from.data(), from.size(), cudaMemcpyHostToDevice, own_stream()),
        "cudaMemcpyAsync to the device");
}
void DeviceBuffer::download(std::span<std::byte> to) const {
  synchronize();
  check(cudaMemcpyAsync(to.data(), p_, to.size(), cudaMemcpyDeviceToHost, own_stream()),
        "cudaMemcpyAsync from the device");
  synchronize();
}

void* stream() { return own_stream(); }
void synchronize() { check(cudaStreamSynchronize(own_stream()), "cudaStreamSynchronize"); }

DeviceTimer::DeviceTimer() {
  for (void*& e : events_) {
    cudaEvent_t created = nullptr;
    check(cudaEventCreate(&created), "cudaEventCreate");
    e = created;
  }
}
DeviceTimer::~DeviceTimer() {
  for (void* e : events_) cudaEventDestroy(static_cast<cudaEvent_t>(e));
}
void DeviceTimer::start() {
  check(cudaEventRecord(static_cast<cudaEvent_t>(events_[0]), own_stream()), "cudaEventRecord");
}
double DeviceTimer::stop_s() {
  const auto begin = static_cast<cudaEvent_t>(events_[0]),
             end = static_cast<cudaEvent_t>(events_[1]);
  check(cudaEventRecord(end, own_stream()), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e-3;
}

CallOnDevice::CallOnDevice(const KernelCall& host)
    : host_(host), call_(host), y_(host.output(0).size_bytes()) {
  buffers_.reserve(host.inputs.size());
  views_.reserve(host.inputs.size());
  for (const Tensor* input : host.inputs) {
    if (input == nullptr || !is_floating(input->dtype())) {
      inputs_.push_back(input);
      continue;
    }
    DeviceBuffer& b = buffers_.emplace_back(input->size_bytes());
    b.upload(input->bytes());
    views_.push_back(Tensor::view(input->dtype(), input->shape(),
                                  {static_cast<const std::byte*>(b.get()), input->size_bytes()},
                                  nullptr));
    inputs_.push_back(&views_.back());
  }
  call_.inputs = inputs_;
}
void CallOnDevice::fetch_output() { y_.download(host_.output(0).mutable_bytes()); }

}  // namespace etalon::cuda
