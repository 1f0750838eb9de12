// The device as kernels and executor use it; no CUDA header is needed. Each thread of the program
// has one stream, on which all its work runs in sequence; every copy is spelled out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"
#include "kernels/backends/cuda/api.h"

namespace etalon::cuda {

// nullopt when a device can be used; otherwise one sentence (no driver, no device, too old). Never
// crashes on a machine without a GPU: the runtime is linked statically and opens the driver when
// first called.
Refusal refuse_without_device();
// "NVIDIA H200, sm_90, driver 13.0"; empty without a device.
std::string device_name();

// The table in use. Throws a `missing` Error in a program without CUDA.
const Api& api();
// Throws a `missing` Error that names the call unless code is 0.
void check(int code, const char* call);
// Another table while it lives, and a fresh stream and pool, for tests of one thread.
class UseApi {
 public:
  explicit UseApi(const Api& other);
  ~UseApi();
  UseApi(const UseApi&) = delete;
  UseApi& operator=(const UseApi&) = delete;

 private:
  const Api* before_;
};

struct StreamState;  // a stream and the memory that waits to be used on it again

// Device memory with one owner, from the pool of the thread's stream; goes back to that pool at
// once, for what is put on the stream later runs later. Throws a `missing` Error when there is none
// left.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size_bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  void* get() const { return p_; }
  std::size_t size_bytes() const { return size_; }
  // `from` must live until the stream is waited for.
  void upload(std::span<const std::byte> from);
  // Waits for all work before it; a kernel that failed is reported here, `to` untouched.
  void download(std::span<std::byte> to) const;

 private:
  std::shared_ptr<StreamState> stream_;
  void* p_ = nullptr;
  std::size_t size_ = 0;
};

void* stream();      // cudaStream_t of this thread
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

// Memory that a kernel needs beside its tensors. A node of a network keeps its own from run to run,
// so that nothing is allocated while a run is captured; begin() before each run.
class Work {
 public:
  void begin() { next_ = kept_next_ = 0; }
  // Uninitialised, for this run.
  void* scratch(std::size_t size_bytes);
  // Bytes that are the same in every run of this call: made and uploaded once.
  const void* kept(const std::function<std::vector<std::byte>()>& make);
  // A list for `slices` slices: cleared where it is made, and when what it held was fetched, not by
  // each run. What is listed twice, or was listed by a run that nobody asked, the host computes
  // once more.
  UndecidedList undecided(std::int64_t slices);
  // A list of this run that no host reads, for a second kernel.
  UndecidedList open(std::int64_t places);
  // What the last run listed, ascending. Waits. All of 0 .. slices - 1 where there were more than
  // places.
  bool listed() const { return list_.count != nullptr; }
  std::vector<std::int64_t> fetch_undecided();
  // An empty list without waiting for each node: the executor looks at all counts at once.
  void count_at(std::int64_t* count) { count_ = count; }

 private:
  std::vector<DeviceBuffer> scratch_, kept_, places_;
  std::vector<std::vector<std::byte>>
      sources_;  // until the stream was waited for: as long as we live
  std::size_t next_ = 0, kept_next_ = 0;
  UndecidedList list_;
  std::int64_t slices_ = 0;
  std::int64_t* count_ = nullptr;
};

// A call whose floating tensors lie on the device. Integer inputs (axes, shapes) stay where they
// are: they are read while a kernel is planned.
class CallOnDevice {
 public:
  explicit CallOnDevice(const KernelCall& host);
  const KernelCall& call() const { return call_; }
  void fetch_outputs();  // into the outputs of the host's call

 private:
  const KernelCall& host_;
  std::vector<DeviceBuffer> buffers_, results_;
  std::vector<Tensor> views_, outputs_;
  std::vector<const Tensor*> inputs_;
  KernelCall call_;
  // Last, so that it goes first: no copy may be under way from memory that is given up.
  struct Settled {
    Settled() = default;
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;
    ~Settled();
  } settled_;
};

// The memory of an output that lies on the device.
inline float* device_floats(const Tensor& t) {
  return reinterpret_cast<float*>(const_cast<std::byte*>(t.bytes().data()));
}

}  // namespace etalon::cuda
