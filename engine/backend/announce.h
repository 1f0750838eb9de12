// Joins the ranges of KernelCall::finished that one thread makes one after the other, so that
// followers are called for some thousand elements and not for each small plane.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

class Announcer {
 public:
  explicit Announcer(const KernelCall& call) : finished_(call.finished) {}

  void add(std::int64_t begin, std::int64_t count) {
    if (finished_ == nullptr) return;
    if (begin != end_) flush();
    if (begin_ == end_) begin_ = begin;
    end_ = begin + count;
    if (end_ - begin_ >= kJoined) flush();
  }
  // Owed before the thread is done with its part.
  void flush() {
    if (begin_ != end_) (*finished_)({.begin = begin_, .count = end_ - begin_});
    begin_ = end_ = 0;
  }

 private:
  static constexpr std::int64_t kJoined = 2048;  // 8 KiB of f32: still in the first cache
  const Finished* finished_;
  std::int64_t begin_ = 0, end_ = 0;
};

}  // namespace etalon
