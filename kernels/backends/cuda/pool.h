// Device memory that is kept between calls: cudaMalloc waits for the device and costs as much as a
// small kernel. Blocks have sizes of 2^n or 3 * 2^(n-1) bytes, so at most a third is unused, and go
// back to a list of their size. When the device has no more, all lists are emptied once before the
// call fails. Plain C++ over two functions, so that it is tested without a device.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace etalon::cuda {

class BlockPool {
 public:
  // allocate returns nullptr where there is no memory left.
  BlockPool(void* (*allocate)(std::size_t), void (*release)(void*))
      : allocate_(allocate), release_(release) {}
  ~BlockPool() { empty(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  static std::size_t block_size(std::size_t wanted) {
    std::size_t size = 512;
    while (size < wanted) {
      if (size + size / 2 >= wanted) return size + size / 2;
      size *= 2;
    }
    return size;
  }

  // nullptr when even an emptied pool leaves no room.
  void* take(std::size_t wanted) {
    const std::size_t size = block_size(wanted);
    const std::scoped_lock lock(mutex_);
    if (auto& list = free_[size]; !list.empty()) {
      void* const block = list.back();
      list.pop_back();
      return block;
    }
    void* block = allocate_(size);
    if (block == nullptr) {
      release_all();
      block = allocate_(size);
    }
    return block;
  }
  void give(void* block, std::size_t wanted) {
    const std::scoped_lock lock(mutex_);
    free_[block_size(wanted)].push_back(block);
  }
  void empty() {
    const std::scoped_lock lock(mutex_);
    release_all();
  }

 private:
  void release_all() {
    for (auto& [size, list] : free_) {
      for (void* block : list) release_(block);
      list.clear();
    }
  }
  void* (*allocate_)(std::size_t);
  void (*release_)(void*);
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
};

}  // namespace etalon::cuda
