// One element of a MoveTask (api.h): a thread's work, host and device.
#pragma once

#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"
#include "kernels/backends/cuda/api.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class U>
ETALON_HD void move_element(const cuda::MoveTask& t, std::int64_t i) {
  const std::uint32_t name = t.map[i];
  U value = static_cast<U>(t.fill);
  if (name != 0) {
    // The last source that begins at or before the element.
    int low = 0, high = t.sources;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (t.first[static_cast<std::size_t>(middle)] <= name ? low : high) = middle;
    }
    const auto s = static_cast<std::size_t>(low);
    value = reinterpret_cast<const U*>(t.from[s])[name - t.first[s]];
  }
  reinterpret_cast<U*>(t.y)[i] = value;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
