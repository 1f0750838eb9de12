// A convolution under exact, on raw tensors.
#pragma once

#include <mutex>

#include "engine/core/threads.h"
#include "engine/ops/conv.h"
#include "kernels/gemm/exact.h"

namespace etalon {

struct ExactConv {
  const ConvGeometry& g;
  const float *x = nullptr, *w = nullptr, *bias = nullptr;
  float* y = nullptr;
  double* truth = nullptr;
  const ExactSteps& steps;
  int threads = 1;
};

// run(image, threads, undecided) for all images, what it appends together: a thread takes whole
// ones, and those that are left over are shared.
template <class F>
void each_image(std::int64_t batch, int threads, std::vector<std::int64_t>& undecided, F&& run) {
  const std::int64_t whole = threads > 1 ? batch / threads * threads : 0;
  std::mutex joining;
  if (whole > 0)
    parallel_for(whole, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> mine;
      for (std::int64_t image = begin; image < end; ++image) run(image, 1, mine);
      const std::scoped_lock lock(joining);
      undecided.insert(undecided.end(), mine.begin(), mine.end());
    });
  for (std::int64_t image = whole; image < batch; ++image) run(image, threads, undecided);
}

}  // namespace etalon
