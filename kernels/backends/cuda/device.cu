#include <cuda_runtime.h>

#include "kernels/backends/cuda/device.h"

namespace etalon::cuda {

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

}  // namespace etalon::cuda
