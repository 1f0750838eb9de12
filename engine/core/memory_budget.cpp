#include "engine/core/memory_budget.h"

#include <limits>

#include "engine/core/error.h"

namespace etalon {
namespace {

thread_local MemoryBudget* in_force = nullptr;

}  // namespace

MemoryBudget::MemoryBudget() : outer_(in_force) {
  if (outer_ == nullptr) in_force = this;
}

MemoryBudget::~MemoryBudget() { in_force = outer_; }

void MemoryBudget::charge(std::size_t bytes) {
  if (in_force == nullptr) return;
  if (bytes > in_force->left_)
    throw bad_input(
        "what it holds unfolds to more memory than its size can justify ({} bytes left, {} more "
        "asked for); the file is damaged or made to do harm",
        in_force->left_, bytes);
  in_force->left_ -= bytes;
}

void MemoryBudget::add(std::size_t bytes) {
  if (in_force == nullptr) return;
  const std::size_t room = std::numeric_limits<std::size_t>::max() - in_force->left_;
  in_force->left_ += bytes < room ? bytes : room;
}

void MemoryBudget::add_file(const std::string& path, std::size_t bytes) {
  if (in_force != nullptr && in_force->files_.insert(path).second) add(bytes * kFactor);
}

}  // namespace etalon
