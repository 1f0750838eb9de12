// Memory of a kernel: every operator new counted, to the byte, on every thread; and that scratch
// which an earlier run left is counted again for the next kernel.
#include "bench/micro/allocation_watch.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>

#include "bench/cli/bench.h"
#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "kernels/gemm/scratch.h"
#include "kernels/kernels.h"

using namespace etalon;

TEST_CASE("allocation watch: what is held, the most that was, and nothing older") {
  auto older = std::make_unique<std::byte[]>(1000);
  const AllocationWatch watch;
  CHECK(watch.held() == 0);
  older.reset();
  CHECK(watch.held() == 0);
  {
    const auto one = std::make_unique<std::byte[]>(1 << 20);
    CHECK(watch.held() == 1 << 20);
    // A direct call, which no compiler may leave out, on another thread.
    std::thread([] { ::operator delete(::operator new(1 << 21)); }).join();
    CHECK(watch.most() >= 3 << 20);
    CHECK(watch.most() < (3 << 20) + 4096);  // a thread's own record
    CHECK(watch.held() < (1 << 20) + 4096);
    const Tensor t = Tensor::zeros(DType::f32, {256, 256});
    CHECK(watch.held() >= (1 << 20) + (1 << 18));
    CHECK(watch.held() < (1 << 20) + (1 << 18) + 4096);
  }
  CHECK(watch.held() < 4096);
  CHECK_THROWS_AS(AllocationWatch(), Error);
}

TEST_CASE("allocation watch: a forgotten scratch is taken anew") {
  thread_scratch<float>(ScratchSlot::tile, 10000);
  {
    const AllocationWatch watch;
    thread_scratch<float>(ScratchSlot::tile, 5000);
    CHECK(watch.most() == 0);
  }
  forget_scratch();
  const AllocationWatch watch;
  thread_scratch<float>(ScratchSlot::tile, 5000);
  CHECK(watch.most() == 20000);
}

TEST_CASE("bench: the memory of a row is the same whoever ran before") {
  BenchOptions options;
  options.timing = {.repetitions = 1, .min_time_s = 1e-5};
  options.errors = false;
  const NamedShape shape =
      cli::typed_shape("conv f32[1,8,20,20] f32[16,8,3,3] pads_begin=1x1 pads_end=1x1");
  bench_shape(shape, all_kernels(), options);  // tables that are made once
  const BenchRow first = bench_shape(shape, all_kernels(), options);
  bench_shape(cli::typed_shape("conv f32[1,32,24,24] f32[48,32,3,3]"), all_kernels(), options);
  const BenchRow second = bench_shape(shape, all_kernels(), options);
  CHECK(first.ours.memory_by == MemoryBy::counted);
  CHECK(second.ours.set_up_bytes == first.ours.set_up_bytes);
  CHECK(second.ours.workspace_bytes == first.ours.workspace_bytes);
}
