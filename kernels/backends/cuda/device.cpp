#include "kernels/backends/cuda/device.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "kernels/backends/cuda/pool.h"
#include "kernels/backends/cuda/status.h"

namespace etalon::cuda {

#ifndef ETALON_CUDA
const Api* runtime_api() { return nullptr; }
#endif

namespace {

const Api* replaced = nullptr;

const Api* api_or_null() { return replaced != nullptr ? replaced : runtime_api(); }

void* allocate(std::size_t size) {
  void* p = nullptr;
  const int code = api().allocate(&p, size);
  if (code == 2) return nullptr;  // cudaErrorMemoryAllocation
  check(code, "cudaMalloc");
  return p;
}
// A release that fails says what an earlier failure said.
void release(void* p) { static_cast<void>(api().release(p)); }

// Oldest device that the kernels are compiled for.
constexpr int kOldestMajor = 8;

Refusal look_for_device(const Api* table) {
  if (table == nullptr) return "this program was built without CUDA";
  int count = 0;
  const int code = table->device_count(&count);
  if (code == 35 || code == 803) return "no NVIDIA driver here, or one older than CUDA 13 needs";
  if (code != 0) return std::string("no CUDA device: ") + table->text(code);
  if (count == 0) return "no CUDA device in this machine";
  DeviceFacts facts;
  if (const int failed = table->describe(&facts); failed != 0)
    return std::string("the CUDA device does not answer: ") + table->text(failed);
  if (facts.major < kOldestMajor)
    return fmt::format("{} is sm_{}{}, this program has code for sm_80 and newer", facts.name,
                       facts.major, facts.minor);
  return std::nullopt;
}

}  // namespace

struct StreamState {
  void* handle = nullptr;
  BlockPool pool{allocate, release};
  StreamState() { check(api().make_stream(&handle), "cudaStreamCreateWithFlags"); }
  ~StreamState() {
    pool.empty();
    static_cast<void>(api().drop_stream(handle));
  }
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;
};

namespace {

// The pointer itself is never taken down: at the end of the program the driver may be gone before.
std::shared_ptr<StreamState>& own_stream_or_null() {
  thread_local auto* const own = new std::shared_ptr<StreamState>();
  return *own;
}
const std::shared_ptr<StreamState>& own_stream() {
  auto& own = own_stream_or_null();
  if (own == nullptr) own = std::make_shared<StreamState>();
  return own;
}

}  // namespace

const Api& api() {
  const Api* const table = api_or_null();
  if (table == nullptr)
    throw missing("this program was built without CUDA; build with cmake --preset cuda");
  return *table;
}

void check(int code, const char* call) {
  if (code != 0) require_success(code, call, api().text(code));
}

UseApi::UseApi(const Api& other) : before_(replaced) {
  own_stream_or_null().reset();
  replaced = &other;
}
UseApi::~UseApi() {
  own_stream_or_null().reset();
  replaced = before_;
}

Refusal refuse_without_device() {
  if (replaced != nullptr) return look_for_device(replaced);
  static const Refusal refusal = look_for_device(runtime_api());
  return refusal;
}

std::string device_name() {
  DeviceFacts facts;
  if (refuse_without_device() || api().describe(&facts) != 0) return {};
  return fmt::format("{}, sm_{}{}, driver {}.{}", facts.name, facts.major, facts.minor,
                     facts.driver / 1000, facts.driver % 1000 / 10);
}

DeviceBuffer::DeviceBuffer(std::size_t size_bytes)
    : stream_(own_stream()), p_(stream_->pool.take(size_bytes)), size_(size_bytes) {
  if (p_ == nullptr) check(2, "cudaMalloc");
}
DeviceBuffer::~DeviceBuffer() {
  if (p_ != nullptr) stream_->pool.give(p_, size_);
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : stream_(std::move(other.stream_)), p_(std::exchange(other.p_, nullptr)), size_(other.size_) {}

void DeviceBuffer::upload(std::span<const std::byte> from) {
  if (from.empty()) return;
  check(api().to_device(p_, from.data(), from.size(), stream()), "cudaMemcpyAsync to the device");
}
void DeviceBuffer::download(std::span<std::byte> to) const {
  synchronize();
  if (to.empty()) return;
  check(api().to_host(to.data(), p_, to.size(), stream()), "cudaMemcpyAsync from the device");
  synchronize();
}

void* stream() { return own_stream()->handle; }
void synchronize() { check(api().wait_for_stream(stream()), "cudaStreamSynchronize"); }

DeviceTimer::DeviceTimer() {
  for (void*& e : events_) check(api().make_event(&e), "cudaEventCreate");
}
DeviceTimer::~DeviceTimer() {
  for (void* e : events_)
    if (e != nullptr) static_cast<void>(api().drop_event(e));
}
void DeviceTimer::start() { check(api().record(events_[0], stream()), "cudaEventRecord"); }
double DeviceTimer::stop_s() {
  check(api().record(events_[1], stream()), "cudaEventRecord");
  check(api().wait_for_event(events_[1]), "cudaEventSynchronize");
  float ms = 0;
  check(api().milliseconds(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e-3;
}

void* Work::scratch(std::size_t size_bytes) {
  if (next_ == scratch_.size()) scratch_.emplace_back(size_bytes);
  const DeviceBuffer& b = scratch_[next_++];
  if (b.size_bytes() < size_bytes) throw internal_error("a kernel's scratch grew between runs");
  return b.get();
}

const void* Work::kept(const std::function<std::vector<std::byte>()>& make) {
  if (kept_next_ == kept_.size()) {
    sources_.push_back(make());
    kept_.emplace_back(std::max<std::size_t>(1, sources_.back().size())).upload(sources_.back());
  }
  return kept_[kept_next_++].get();
}

UndecidedList Work::undecided(std::int64_t slices) {
  constexpr std::int64_t kMostPlaces = 1 << 16;
  slices_ = slices;
  const std::int64_t places = std::min(slices, kMostPlaces);
  const bool made = places_.empty();
  if (made) places_.emplace_back((static_cast<std::size_t>(places) + 1) * 8);
  auto* const memory = static_cast<std::int64_t*>(places_[0].get());
  list_ = {.count = count_ != nullptr ? count_ : memory, .places = memory + 1, .capacity = places};
  if (made) check(api().clear(list_.count, sizeof *list_.count, stream()), "cudaMemsetAsync");
  return list_;
}

UndecidedList Work::open(std::int64_t places) {
  auto* const memory =
      static_cast<std::int64_t*>(scratch((static_cast<std::size_t>(places) + 1) * 8));
  check(api().clear(memory, sizeof *memory, stream()), "cudaMemsetAsync");
  return {.count = memory, .places = memory + 1, .capacity = places};
}

std::vector<std::int64_t> Work::fetch_undecided() {
  const auto fetch = [](const std::int64_t* from, std::span<std::int64_t> to) {
    check(api().to_host(to.data(), from, to.size_bytes(), stream()),
          "cudaMemcpyAsync from the device");
    synchronize();
  };
  std::int64_t count = 0;
  fetch(list_.count, {&count, 1});
  const bool all = count > list_.capacity;
  std::vector<std::int64_t> slices(static_cast<std::size_t>(all ? slices_ : count));
  if (all) {
    std::iota(slices.begin(), slices.end(), std::int64_t{0});
  } else if (count > 0) {
    fetch(list_.places, slices);
    std::ranges::sort(slices);
    const auto twice = std::ranges::unique(slices);
    slices.erase(twice.begin(), twice.end());
  }
  if (count > 0) check(api().clear(list_.count, sizeof *list_.count, stream()), "cudaMemsetAsync");
  return slices;
}

CallOnDevice::CallOnDevice(const KernelCall& host) : host_(host), call_(host) {
  buffers_.reserve(host.inputs.size());
  views_.reserve(host.inputs.size());
  for (const Tensor* input : host.inputs) {
    if (input == nullptr || !is_floating(input->dtype())) {
      inputs_.push_back(input);
      continue;
    }
    DeviceBuffer& b = buffers_.emplace_back(std::max<std::size_t>(1, input->size_bytes()));
    b.upload(input->bytes());
    views_.push_back(Tensor::view(input->dtype(), input->shape(),
                                  {static_cast<const std::byte*>(b.get()), input->size_bytes()},
                                  nullptr));
    inputs_.push_back(&views_.back());
  }
  for (const Tensor& y : host.outputs) {
    const DeviceBuffer& b = results_.emplace_back(std::max<std::size_t>(1, y.size_bytes()));
    outputs_.push_back(
        Tensor::owned(y.dtype(), y.shape(), static_cast<std::byte*>(b.get()), nullptr));
  }
  call_.inputs = inputs_;
  call_.outputs = outputs_;
}
CallOnDevice::Settled::~Settled() { static_cast<void>(api().wait_for_stream(stream())); }
void CallOnDevice::fetch_outputs() {
  for (std::size_t i = 0; i < results_.size(); ++i)
    results_[i].download(host_.outputs[i].mutable_bytes());
}

}  // namespace etalon::cuda
