// Aligned working memory for packed operands.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace etalon {

inline constexpr std::size_t kScratchAlign = 64;

// From here on memory is asked for in huge pages, where the system gives them on request: packed
// operands are walked in strides, and the walks of page tables cost 2 to 6 % of a convolution.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20, kHugeFrom = kHugePage / 4;

// Uninitialised, aligned to a cache line; grows and never shrinks.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)),
        size_(std::exchange(o.size_, 0)),
        align_(o.align_) {}
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;
  ~AlignedBuffer() { release(); }

  template <class T>
  T* at_least(std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t wanted = static_cast<std::size_t>(count) * sizeof(T);
    if (wanted > size_) {
      release();
      const bool huge = wanted >= kHugeFrom;
      align_ = huge ? kHugePage : kScratchAlign;
      const std::size_t size = huge ? (wanted + kHugePage - 1) / kHugePage * kHugePage : wanted;
      data_ = ::operator new(size, std::align_val_t{align_});
      size_ = size;
#ifdef __linux__
      if (huge) madvise(data_, size, MADV_HUGEPAGE);  // a wish: refusal changes nothing
#endif
    }
    fence(wanted);
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  void release() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{align_});
    data_ = nullptr;
    size_ = 0;
  }

 private:
  // AddressSanitizer knows what was allocated, which an earlier and larger call may have grown.
  // What lies next behind the bytes asked for is out of bounds all the same.
  void fence([[maybe_unused]] std::size_t wanted) const {
#ifdef ASAN_POISON_MEMORY_REGION
    constexpr std::size_t kFence = 4096;
    ASAN_UNPOISON_MEMORY_REGION(data_, wanted);
    ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(data_) + wanted,
                              std::min(size_ - wanted, kFence));
#endif
  }

  void* data_ = nullptr;
  std::size_t size_ = 0, align_ = kScratchAlign;
};

// What one thread packs, kept from call to call: fresh pages from the system cost more than the
// packing. The slots are one list because a convolution and the product inside it run on one
// thread.
enum class ScratchSlot { broadcast, vector, padded, tile, masks, norms, turned, halves, count };

inline std::atomic<int> g_scratch_age = 0;

// Each thread lets go of what it keeps when it next asks: who measures what one kernel needs begins
// with this. Not while a kernel runs.
inline void forget_scratch() { ++g_scratch_age; }

// What this thread left there when it last asked for as much.
template <class T>
T* kept_scratch(ScratchSlot slot, std::int64_t count) {
  thread_local AlignedBuffer buffers[static_cast<std::size_t>(ScratchSlot::count)];
  thread_local int age = 0;
  if (const int now = g_scratch_age.load(std::memory_order_relaxed); age != now) {
    for (AlignedBuffer& buffer : buffers) buffer.release();
    age = now;
  }
  return buffers[static_cast<std::size_t>(slot)].at_least<T>(count);
}
// Uninitialised: under AddressSanitizer it begins with NaN, so that tests see who counts on what
// lay there.
template <class T>
T* thread_scratch(ScratchSlot slot, std::int64_t count) {
  T* p = kept_scratch<T>(slot, count);
#ifdef ASAN_POISON_MEMORY_REGION
  constexpr std::size_t kSeen = 4096;
  if (count > 0) std::memset(p, 0xff, std::min(kSeen, static_cast<std::size_t>(count) * sizeof(T)));
#endif
  return p;
}

}  // namespace etalon
