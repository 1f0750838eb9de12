#include "bench/micro/allocation_watch.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <unordered_map>

#include "engine/core/error.h"

namespace etalon {
namespace {

// What the watch itself allocates is not watched.
template <class T>
struct Unwatched {
  using value_type = T;
  Unwatched() = default;
  template <class U>
  explicit Unwatched(const Unwatched<U>&) {}
  T* allocate(std::size_t n) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): a table's buckets are pointers.
    if (void* p = std::malloc(n * sizeof(T))) return static_cast<T*>(p);
    throw std::bad_alloc();
  }
  void deallocate(T* p, std::size_t) { std::free(static_cast<void*>(p)); }
  bool operator==(const Unwatched&) const = default;
};

struct Watched {
  std::mutex mutex;
  std::unordered_map<void*, std::int64_t, std::hash<void*>, std::equal_to<>,
                     Unwatched<std::pair<void* const, std::int64_t>>>
      blocks;
  std::int64_t held = 0, most = 0;
};
Watched& watched() {
  static auto* const w = new Watched;  // outlives every allocation of the process
  return *w;
}
std::atomic<bool> g_watching = false;

void note_new(void* p, std::size_t bytes) {
  if (!g_watching.load(std::memory_order_relaxed)) return;
  Watched& w = watched();
  const std::lock_guard lock(w.mutex);
  w.blocks[p] = static_cast<std::int64_t>(bytes);
  w.held += static_cast<std::int64_t>(bytes);
  if (w.held > w.most) w.most = w.held;
}
void note_delete(void* p) {
  if (!g_watching.load(std::memory_order_relaxed)) return;
  Watched& w = watched();
  const std::lock_guard lock(w.mutex);
  const auto found = w.blocks.find(p);
  if (found == w.blocks.end()) return;  // older than the watch
  w.held -= found->second;
  w.blocks.erase(found);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t size = bytes == 0 ? 1 : bytes;
  for (;;) {
    void* const p = alignment == 0 ? std::malloc(size)
                                   : std::aligned_alloc(
                                         alignment, (size + alignment - 1) / alignment * alignment);
    if (p != nullptr) {
      note_new(p, bytes);
      return p;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  try {
    return allocate(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

AllocationWatch::AllocationWatch() {
  if (g_watching) throw internal_error("allocations are watched by somebody else");
  Watched& w = watched();
  const std::lock_guard lock(w.mutex);
  w.blocks.clear();
  w.held = w.most = 0;
  g_watching = true;
}
AllocationWatch::~AllocationWatch() { g_watching = false; }

std::int64_t AllocationWatch::held() const {
  const std::lock_guard lock(watched().mutex);
  return watched().held;
}
std::int64_t AllocationWatch::most() const {
  const std::lock_guard lock(watched().mutex);
  return watched().most;
}

}  // namespace etalon

// Every form is here: a sanitizer's runtime has forms of its own, and memory of one of theirs must
// not end in a delete of ours.
// NOLINTBEGIN(misc-new-delete-overloads): each form has its partner among these.
void* operator new(std::size_t bytes) { return etalon::allocate(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return etalon::allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return etalon::allocate_or_null(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return etalon::allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept {
  return operator new(bytes, none);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t& none) noexcept {
  return operator new(bytes, alignment, none);
}
void operator delete(void* p) noexcept {
  etalon::note_delete(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
void operator delete(void* p, std::align_val_t) noexcept { operator delete(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { operator delete(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { operator delete(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  operator delete(p);
}
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }
void operator delete[](void* p, std::align_val_t) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { operator delete(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { operator delete(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  operator delete(p);
}
// NOLINTEND(misc-new-delete-overloads)
