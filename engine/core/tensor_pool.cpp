#include "engine/core/tensor_pool.h"

#include <map>
#include <mutex>

namespace etalon {

struct TensorPool::State {
  std::mutex mutex;
  std::multimap<std::size_t, Tensor> free;  // by capacity in bytes; u8 tensors that only own memory
};

TensorPool::TensorPool() : state_(std::make_shared<State>()) {}

Tensor TensorPool::take(DType dtype, const Shape& shape) {
  const std::size_t wanted =
      static_cast<std::size_t>(checked_mul(shape.numel(), size_bytes(dtype)));
  Tensor block;
  {
    const std::lock_guard lock(state_->mutex);
    // A block up to half larger is close enough; beyond that, memory would be wasted on small
    // values.
    const auto at = state_->free.lower_bound(wanted);
    if (at != state_->free.end() && at->first <= wanted + wanted / 2 + 4096) {
      block = std::move(at->second);
      state_->free.erase(at);
    }
  }
  if (!block) block = Tensor::uninitialized(DType::u8, {static_cast<std::int64_t>(wanted)});
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
