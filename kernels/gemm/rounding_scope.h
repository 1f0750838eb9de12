// The processor's rounding mode, and what it does with subnormal operands, for as long as the
// object lives. Vectors of orders (order.h) need it; everything else in the program computes to
// nearest and keeps subnormals (engine/numerics/fp.h). A compiler knows nothing of the mode: only
// calls through the tables of order_chain.h belong inside, whose files are compiled for any mode
// (cmake/EtalonFlags.cmake). A scope inside one of the same mode costs next to nothing; a change of
// it stops the processor.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernels/gemm/order_chain.h"

namespace etalon {

class RoundingScope {
 public:
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
#if defined(__x86_64__)
  explicit RoundingScope(OrderMode mode) : before_(_mm_getcsr()) {
    // Bits 13 and 14: nearest, down, up, toward zero. Bit 6: subnormal operands are zeros.
    const unsigned during = (before_ & ~0x6040U) | static_cast<unsigned>(mode.rounding) << 13 |
                            (mode.zeros ? 0x40U : 0U);
    changes_ = (during & 0x6040U) != (before_ & 0x6040U);
    if (changes_) _mm_setcsr(during);
  }
  ~RoundingScope() {
    if (changes_) _mm_setcsr(before_);
  }

 private:
  unsigned before_;
  bool changes_;
#else
  explicit RoundingScope(OrderMode) {}
#endif
};

}  // namespace etalon
