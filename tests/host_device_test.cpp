#include "tests/host_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/move.h"
#include "tests/host_device_kernels.h"

namespace etalon {
namespace host {

HostDevice* device = nullptr;

int step() {
  const std::int64_t call = device->calls++;
  return device->fail_at >= 0 && call >= device->fail_at ? device->fail_code : 0;
}
namespace {
bool on_device(const Tensor& t) {
  const std::byte* const p = t.bytes().data();
  const auto behind = device->live.upper_bound(const_cast<std::byte*>(p));
  if (behind == device->live.begin()) return false;
  const auto& [block, size] = *std::prev(behind);
  return p < static_cast<const std::byte*>(block) + size;
}
}  // namespace

KeptCall::KeptCall(const KernelCall& call)
    : params(*call.problem->params),
      contract(call.contract()),
      types(call.problem->inputs.begin(), call.problem->inputs.end()),
      output_types(call.problem->outputs.begin(), call.problem->outputs.end()),
      problem(*call.problem) {
  tensors.reserve(call.inputs.size());
  for (const Tensor* in : call.inputs) {
    if (in == nullptr) {
      inputs.push_back(nullptr);
      continue;
    }
    // Integers of the host are read while a kernel is planned, which is now.
    tensors.push_back(is_floating(in->dtype()) || on_device(*in) ? in->share() : in->clone());
    inputs.push_back(&tensors.back());
  }
  for (const Tensor& y : call.outputs)
    outputs.push_back(
        Tensor::owned(y.dtype(), y.shape(), const_cast<std::byte*>(y.bytes().data()), nullptr));
  problem.params = &params;
  problem.contract = &contract;
  problem.inputs = types;
  problem.outputs = output_types;
}
void KeptCall::forget_the_host() {
  for (Tensor& t : tensors)
    if (!is_floating(t.dtype()) && !on_device(t))
      std::ranges::fill(t.mutable_bytes(), std::byte{0});
}

int enqueue(void* s, Task task) {
  if (const int code = step(); code != 0) return code;
  stream_of(s).queue.push_back(std::move(task));
  return 0;
}
void put_on_list(const cuda::UndecidedList& list, std::int64_t i) {
  const std::int64_t place = (*list.count)++;
  if (place < list.capacity) list.places[place] = i;
}
namespace {

int copy(void* to, const void* from, std::size_t n, void* s) {
  return enqueue(s, [=] { std::memcpy(to, from, n); });
}
int definition(const KernelCall& call, const cuda::UndecidedList& list, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  const KernelCall own = kept->call();
  bool found = false;
  int code = 0;
  for_each_device_definition([&]<class D>() {
    if (found || !device_takes<D>(own)) return;
    found = true;
    const auto plan = DevicePlan<D>::of(own);
    kept->forget_the_host();
    code = enqueue(
        s, [kept, plan, contract = device_contract<D>(own), to = device_outputs(own), list] {
          // Backwards: no slice may lean on one before it.
          for (std::int64_t i = DevicePlan<D>::slices(plan); i-- > 0;)
            if (!device_slice<D>(contract, plan, i, to)) put_on_list(list, i);
        });
  });
  CHECK(found);
  return code;
}
template <class To, class From>
int convert(To* to, const From* from, std::int64_t count, void* s) {
  ++device->launches;
  return enqueue(s, [=] {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  });
}

int move(const cuda::MoveTask& task, void* s) {
  ++device->launches;
  return enqueue(s, [task] {
    for (std::int64_t i = 0; i < task.count; ++i) switch (task.element_bytes) {
        case 1:
          move_element<std::uint8_t>(task, i);
          break;
        case 2:
          move_element<std::uint16_t>(task, i);
          break;
        case 4:
          move_element<std::uint32_t>(task, i);
          break;
        default:
          move_element<std::uint64_t>(task, i);
      }
  });
}
int allocate(void** p, std::size_t size) {
  if (const int code = step(); code != 0) return code;
  if (device->used + size > device->room) return 2;
  *p = ::operator new(size);
  std::memset(*p, 0xA5, size);  // no kernel may count on zeros
  device->used += size;
  device->peak = std::max(device->peak, device->used);
  device->live[*p] = size;
  return 0;
}
int release(void* p) {
  const auto at = device->live.find(p);
  CHECK(at != device->live.end());
  device->used -= at->second;
  device->live.erase(at);
  ::operator delete(p);
  return 0;
}

int wait(void* s) {
  HostStream& stream = stream_of(s);
  CHECK(!stream.capturing);
  const Tasks tasks = std::exchange(stream.queue, {});
  if (const int code = step(); code != 0) return code;  // what was queued is lost
  ++device->waits;
  for (const Task& task : tasks) task();
  return 0;
}

int begin_capture(void* s) {
  if (const int code = step(); code != 0) return code;
  // What was queued before is no part of the graph.
  if (const int code = wait(s); code != 0) return code;
  stream_of(s).capturing = true;
  return 0;
}
int end_capture(void* s, void** graph) {
  HostStream& stream = stream_of(s);
  stream.capturing = false;
  Tasks tasks = std::exchange(stream.queue, {});
  if (const int code = step(); code != 0) return code;
  *graph = new Tasks(std::move(tasks));
  return 0;
}
int launch_graph(void* graph, void* s) {
  ++device->graph_launches;
  return enqueue(s, [graph] {
    for (const Task& task : *static_cast<Tasks*>(graph)) task();
  });
}

}  // namespace
}  // namespace host

using namespace host;

HostDevice::HostDevice()
    : api{.device_count =
              [](int* n) {
                *n = device->count;
                return device->count_code;
              },
          .describe =
              [](cuda::DeviceFacts* asked) {
                *asked = device->facts;
                return 0;
              },
          .text = [](int) { return "its own words"; },
          .allocate = allocate,
          .release = release,
          .make_stream =
              [](void** s) {
                *s = new HostStream;
                return 0;
              },
          .drop_stream =
              [](void* s) {
                delete static_cast<HostStream*>(s);
                return 0;
              },
          .wait_for_stream = wait,
          .to_device = copy,
          .to_host = copy,
          .on_device = copy,
          .clear = [](void* p, std::size_t n,
                      void* s) { return enqueue(s, [=] { std::memset(p, 0, n); }); },
          .make_event =
              [](void** e) {
                *e = new int;
                return step();
              },
          .drop_event =
              [](void* e) {
                delete static_cast<int*>(e);
                return 0;
              },
          .record = [](void*, void*) { return step(); },
          .wait_for_event = [](void*) { return step(); },
          .milliseconds =
              [](float* ms, void*, void*) {
                *ms = 1;
                return 0;
              },
          .begin_capture = begin_capture,
          .end_capture = end_capture,
          .launch_graph = launch_graph,
          .drop_graph =
              [](void* g) {
                delete static_cast<Tasks*>(g);
                return 0;
              },
          .definition = definition,
          .tiles = tiles,
          .move = move,
          .pairs = pairs,
          .depthwise = depthwise,
          .function = function,
          .rows = rows,
          .cells = cells,
          .digits = digits,
          .residue_facts =
              [](cuda::ResidueFacts* asked) {
                *asked = device->residue_facts;
                return 0;
              },
          .residues = residues,
          .conv_digits = conv_digits,
          .wide = wide,
          .conv_wide = conv_wide,
          .exact_winograd = exact_winograd,
          .most_winograd_share = 0,
          .fft = fft,
          .winograd = winograd,
          .widen = convert<double, float>,
          .narrow = convert<float, double>} {
  device = this;
}
HostDevice::~HostDevice() {
  CHECK(live.empty());
  device = nullptr;
}

}  // namespace etalon

using namespace etalon;

TEST_CASE("host device: work is done when the stream is waited for, not before") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const float x[] = {1, 2, 3};
  float y[] = {0, 0, 0};
  cuda::DeviceBuffer buffer(sizeof x);
  buffer.upload(std::as_bytes(std::span(x)));
  CHECK(std::memcmp(buffer.get(), x, sizeof x) != 0);
  buffer.download(std::as_writable_bytes(std::span(y)));
  CHECK(std::memcmp(x, y, sizeof x) == 0);
}
