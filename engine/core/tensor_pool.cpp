#include "engine/core/tensor_pool.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <map>
#include <mutex>

namespace etalon {

struct TensorPool::State {
  std::mutex mutex;
  std::multimap<std::size_t, Tensor> free;  // by capacity in bytes; u8 tensors that only own memory
};

namespace {

Tensor fresh_block(std::size_t wanted) {
#ifdef __linux__
  // Blocks of so many bytes lie in huge pages, where the system gives them on request: a kernel
  // writes a tile of some channels whose planes are pages apart, and on a virtual machine each walk
  // of the page tables is two.
  constexpr std::size_t kHugePage = std::size_t{2} << 20, kHugeFrom = kHugePage / 4;
  constexpr std::size_t kPage = 4096;
  if (wanted >= kHugeFrom) {
    // A huge page more, so that a block of whole ones lies inside, and a page for the place in one
    // that each large tensor has of its own.
    const std::size_t size = (wanted + kPage + kHugePage - 1) / kHugePage * kHugePage;
    Tensor all = Tensor::uninitialized(DType::u8, {static_cast<std::int64_t>(size + kHugePage)});
    std::byte* bytes = all.mutable_bytes().data();
    const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes) % kHugePage;
    const std::size_t offset = past % kPage;
    if (past != 0) bytes += kHugePage - past;
    madvise(bytes, size, MADV_HUGEPAGE);  // a wish: refusal changes nothing
    return Tensor::owned(DType::u8, {static_cast<std::int64_t>(wanted)}, bytes + offset,
                         std::make_shared<Tensor>(std::move(all)));
  }
#endif
  return Tensor::uninitialized(DType::u8, {static_cast<std::int64_t>(wanted)});
}

}  // namespace

TensorPool::TensorPool() : state_(std::make_shared<State>()) {}

Tensor TensorPool::take(DType dtype, const Shape& shape) {
  const std::size_t wanted =
      static_cast<std::size_t>(checked_mul(shape.numel(), size_bytes(dtype)));
  Tensor block;
  {
    const std::lock_guard lock(state_->mutex);
    // A block up to four times as large: what one layer has left in the caches serves the next,
    // where a network's values shrink from layer to layer. Beyond that, memory would be wasted on
    // small values.
    const auto at = state_->free.lower_bound(wanted);
    if (at != state_->free.end() && at->first <= 4 * wanted + 4096) {
      block = std::move(at->second);
      state_->free.erase(at);
    }
  }
  if (!block) block = fresh_block(wanted);
  const std::byte* bytes = block.bytes().data();
  struct Holder {
    Tensor block;
    std::weak_ptr<State> pool;
    ~Holder() {
      const auto state = pool.lock();
      if (!state) return;
      try {
        const std::lock_guard lock(state->mutex);
        const std::size_t capacity = block.size_bytes();
        state->free.emplace(capacity, std::move(block));
      } catch (const std::exception&) {
        // No memory to remember the block by: it goes back to the system instead.
      }
    }
  };
  auto holder = std::make_shared<Holder>();
  holder->block = std::move(block);
  holder->pool = state_;
  return Tensor::owned(dtype, shape, const_cast<std::byte*>(bytes), std::move(holder));
}

}  // namespace etalon
