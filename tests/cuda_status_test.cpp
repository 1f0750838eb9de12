// What of the GPU backend needs no GPU: the sentence of each failure, the pool's blocks, libraries
// that are not there.
#include <doctest/doctest.h>

#include <map>
#include <new>
#include <string>

#include "engine/core/error.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/backends/cuda/pool.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/backends/cuda/status.h"
#include "kernels/kernels.h"

using namespace etalon;

TEST_CASE("cuda: a failure is one sentence with the call, and exit code 4") {
  struct Row {
    int code;
    const char* says;
  };
  for (const Row& row : {Row{2, "out of memory"}, Row{35, "driver is older"}, Row{803, "driver is"},
                         Row{100, "no CUDA device"}, Row{209, "no code for the device's"},
                         Row{222, "no code for the device's"}, Row{700, "device is lost"},
                         Row{715, "device is lost"}, Row{716, "device is lost"},
                         Row{719, "device is lost"}, Row{12345, "failed with 12345"}}) {
    CAPTURE(row.code);
    const std::string text = cuda::failure_sentence(row.code, "cudaMalloc", "its own words");
    CHECK(text.starts_with("cudaMalloc"));
    CHECK(text.find(row.says) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
    try {
      cuda::require_success(row.code, "cudaMalloc", "its own words");
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::missing);
      CHECK(std::string(e.what()) == text);
    }
  }
  cuda::require_success(0, "cudaMalloc", "no error");
}

namespace {

struct FakeDevice {
  static inline std::size_t room = 0, used = 0;
  static inline std::map<void*, std::size_t> live;
  static void* allocate(std::size_t size) {
    if (used + size > room) return nullptr;
    used += size;
    void* const p = ::operator new(size);
    live[p] = size;
    return p;
  }
  static void release(void* p) {
    used -= live.at(p);
    live.erase(p);
    ::operator delete(p);
  }
};

}  // namespace

TEST_CASE("cuda: the pool keeps blocks, and empties itself before memory runs out") {
  for (std::size_t wanted : {1U, 512U, 513U, 768U, 769U, 1000U, 1U << 20, (1U << 20) + 1}) {
    const std::size_t size = cuda::BlockPool::block_size(wanted);
    CHECK(size >= wanted);
    CHECK((wanted <= 512 || 2 * size <= 3 * wanted));
    CHECK(cuda::BlockPool::block_size(size) == size);
  }
  FakeDevice::room = 4096;
  {
    cuda::BlockPool pool(FakeDevice::allocate, FakeDevice::release);
    void* const a = pool.take(1000);
    pool.give(a, 1000);
    CHECK(pool.take(900) == a);  // the same class, 1024
    pool.give(a, 900);
    void* const b = pool.take(4096);  // only fits once a is gone
    REQUIRE(b != nullptr);
    CHECK(FakeDevice::live.size() == 1);
    CHECK(pool.take(1) == nullptr);
    pool.give(b, 4096);
  }
  CHECK(FakeDevice::live.empty());
}

TEST_CASE("cuda: a vendor's library is there with its version, or says in a sentence why not") {
  for (const cuda::VendorLibrary* library : {&cuda::cublas(), &cuda::cublas_lt(), &cuda::cudnn()}) {
    CHECK((library->handle == nullptr) == library->version.empty());
    CHECK((library->handle == nullptr) == !library->reason.empty());
    if (library->handle == nullptr)
      CHECK_THROWS_AS(library->function<void()>("cublasCreate_v2"), Error);
    else
      CHECK_THROWS_WITH_AS(library->function<void()>("no_such_function"),
                           doctest::Contains("no_such_function"), Error);
  }
}

TEST_CASE("cuda: rows say which hardware has run them, or that none has") {
  for (const KernelRow* row : all_kernels().all())
    if (row->device == Device::cuda) CHECK(!cuda::seen_on(row->name).empty());
  CHECK(cuda::seen_on("gemm.f32.cuda.tile").starts_with("H200"));
  CHECK(cuda::seen_on("erf.f32.cuda").ends_with("changed since"));
  CHECK(cuda::seen_on("no.such.row") == "never");
}
