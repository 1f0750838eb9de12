// A place in a list of undecided slices (api.h), taken by an integer atomic: in which sequence they
// stand there, no result depends on. Only nvcc includes this.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backends/cuda/api.h"

namespace etalon::cuda {

__device__ inline void put_on_list(const UndecidedList& list, std::int64_t i) {
  const auto place =
      static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(list.count), 1ULL));
  if (place < list.capacity) list.places[place] = i;
}

}  // namespace etalon::cuda
