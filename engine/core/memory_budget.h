// What reading a file may allocate: a constant factor of the file's size, whatever the file claims.
//
// While a MemoryBudget lives, every tensor made on its thread and every value and node put into a
// graph is charged to it, and every mapped file adds kFactor times its size, once. What goes beyond
// is a bad-input Error. So a reader need not know how small parts of a file add up: many tensors
// that share one misaligned storage (a copy each), functions that call one another twice on each
// of forty levels, one packed member under a thousand names.
//
// Charges are not given back when a tensor dies: the sum is what was asked for, at most a few times
// what was alive at once.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace etalon {

class MemoryBudget {
 public:
  static constexpr std::size_t kFactor = 64;
  static constexpr std::size_t kFree = std::size_t{32} << 20;  // whatever the file's size

  // The outermost of a thread counts; one inside another changes nothing.
  MemoryBudget();
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Without a budget on this thread these do nothing.
  static void charge(std::size_t bytes);
  static void add_file(const std::string& path, std::size_t bytes);
  // A reader that has its own bound on what a file's bytes expand to (deflate: 1032) says so.
  static void add(std::size_t bytes);

 private:
  MemoryBudget* outer_;
  std::set<std::string> files_;
  std::size_t left_ = kFree;
};

}  // namespace etalon
