// What C++ code of this process allocates while it is watched: every operator new of every thread,
// to the byte. The program's own operators (allocation_watch.cpp) do nothing more than the
// library's as long as nobody watches. malloc is not seen: libraries in C, and oneDNN's buffers.
#pragma once

#include <cstdint>

namespace etalon {

// One at a time.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  std::int64_t held() const;  // allocated since the beginning, and not freed
  std::int64_t most() const;  // the largest that held() was
};

}  // namespace etalon
