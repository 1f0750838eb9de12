// Aligned working memory for packed operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace etalon {

inline constexpr std::size_t kScratchAlign = 64;

// Uninitialised, aligned to a cache line; grows and never shrinks.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;
  ~AlignedBuffer() { release(); }

  template <class T>
  T* at_least(std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t wanted = static_cast<std::size_t>(count) * sizeof(T);
    if (wanted > size_) {
      release();
      data_ = ::operator new(wanted, std::align_val_t{kScratchAlign});
      size_ = wanted;
    }
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }

 private:
  void release() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{kScratchAlign});
    data_ = nullptr;
    size_ = 0;
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// What one thread packs, kept from call to call: fresh pages from the system cost more than the
// packing. The slots are one list because a convolution and the product inside it run on one
// thread.
enum class ScratchSlot { broadcast, vector, padded, tile, masks, norms, count };

template <class T>
T* thread_scratch(ScratchSlot slot, std::int64_t count) {
  thread_local AlignedBuffer buffers[static_cast<std::size_t>(ScratchSlot::count)];
  return buffers[static_cast<std::size_t>(slot)].at_least<T>(count);
}

}  // namespace etalon
