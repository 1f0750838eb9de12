// The outputs of a convolution whose windows meet the input, as a convolution of its own.
//
// Where there is more padding than a window needs, the outermost outputs see padding alone: a sum
// of no terms, and the bias. The tiles would add zeros there, find a zero sum at the border and
// compute it again without them (plan.h): right, and 65 to 405 times oneDNN's time for a 1x1
// window in padding of 3. So they get the box of the other outputs only, and this one is put into
// its place among biases.
#pragma once

#include <array>
#include <cstdint>

#include "engine/backend/kernel.h"
#include "engine/ops/conv.h"

namespace etalon {

class MetOutputs {
 public:
  // cuts_input: a single tap's padding may become less than none, an input cut short.
  explicit MetOutputs(const ConvGeometry& g, bool cuts_input = true);

  // The convolution that gives the box alone, [batch, channels, box].
  const ConvGeometry& geometry() const { return met_; }
  // Whether the box is all outputs.
  bool all() const { return all_; }
  // Output `at` of the box among all, both [batch, channels, points].
  std::int64_t whole(std::int64_t at) const;
  // The box from `part`, and biases around it, to output 0 of the call, which is announced.
  void place(const float* part, const KernelCall& call) const;

 private:
  ConvGeometry met_;
  Window whole_;
  std::array<std::int64_t, kMaxSpatial> first_{};  // of the box
  bool all_ = true;
};

}  // namespace etalon
