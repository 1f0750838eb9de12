// Copies from global to shared memory that pass no register: on a device they arrive some time
// after they are begun, on the host at once. What was begun since the last close_copies() is a
// group; a thread waits for its groups, a barrier makes them everyone's.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Both at multiples of 16 bytes.
ETALON_HD inline void copy_16(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(place), "l"(from) : "memory");
#else
  std::memcpy(to, from, 16);
#endif
}
// Where `on`: no branch.
ETALON_HD inline void copy_16_if(bool on, void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
      :
      : "r"(place), "l"(from), "r"(static_cast<int>(on))
      : "memory");
#else
  if (on) std::memcpy(to, from, 16);
#endif
}
ETALON_HD inline void copy_4_if(bool on, void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 4; }"
               :
               : "r"(place), "l"(from), "r"(static_cast<int>(on))
               : "memory");
#else
  if (on) std::memcpy(to, from, 4);
#endif
}
// The first `bytes` of 4; zeros behind them. `from` is not read where bytes is 0.
ETALON_HD inline void copy_4(void* to, const void* from, int bytes) {
#if defined(__CUDA_ARCH__)
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(place), "l"(from), "r"(bytes)
               : "memory");
#else
  std::memset(to, 0, 4);
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}
// Zeros, which are there for everyone behind the next barrier.
ETALON_HD inline void clear_16(void* to) {
#if defined(__CUDA_ARCH__)
  *static_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
#else
  std::memset(to, 0, 16);
#endif
}
ETALON_HD inline void close_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
// Until at most `left` groups of this thread are under way.
template <int left>
ETALON_HD void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
#endif
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
