// The device as the rest of the build sees it; no CUDA header is needed. All work of a thread of
// the program goes to one stream, in sequence; every copy is spelled out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

// nullopt when a device can be used; otherwise one sentence (no driver, no device, too old). Never
// crashes on a machine without a GPU: the runtime is linked statically and opens the driver when
// first called.
Refusal refuse_without_device();
// "NVIDIA H200, sm_90, driver 13.0"; empty without a device.
std::string device_name();

// Device memory with one owner, from the pool. Throws a `missing` Error when there is none left.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size_bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  void* get() const { return p_; }
  std::size_t size_bytes() const { return size_; }
  void upload(std::span<const std::byte> from);
  // Waits for all work before it; a kernel that failed is reported here, `to` untouched.
  void download(std::span<std::byte> to) const;

 private:
  void* p_ = nullptr;
  std::size_t size_ = 0;
};

void* stream();      // cudaStream_t
void synchronize();  // throws what the work before it failed with

// Time on the device between two points of the stream.
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  void start();
  double stop_s();  // waits

 private:
  void* events_[2] = {};
};

// A call whose floating inputs lie on the device. Integer inputs (axes, shapes) stay where they
// are: they are read while a kernel is planned. The output's memory there is y().
class CallOnDevice {
 public:
  explicit CallOnDevice(const KernelCall& host);
  const KernelCall& call() const { return call_; }
  float* y() const { return static_cast<float*>(y_.get()); }
  void fetch_output();  // into output 0 of the host's call

 private:
  const KernelCall& host_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Tensor> views_;
  std::vector<const Tensor*> inputs_;
  KernelCall call_;
  DeviceBuffer y_;
};

// The definition of `op` (device_definition.h), all slices; those left undecided, ascending.
std::vector<std::int64_t> launch_definition(std::string_view op, const CallOnDevice& call);
// kernels/gemm/cuda_tile.h.
void launch_tiles(const CallOnDevice& call);

}  // namespace etalon::cuda
