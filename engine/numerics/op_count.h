// A number system that only counts: what an algorithm's text costs, from the text itself.
#pragma once

#include <cstdint>

#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct OpCount {
  struct V {};
  std::int64_t products = 0, additions = 0, fused = 0;

  ETALON_HD std::int64_t all() const { return products + additions + fused; }
  ETALON_HD V input(double) { return {}; }
  ETALON_HD V constant(double) { return {}; }
  ETALON_HD V ratio(std::int64_t, std::int64_t) { return {}; }
  ETALON_HD V add(V, V) {
    ++additions;
    return {};
  }
  ETALON_HD V sub(V, V) {
    ++additions;
    return {};
  }
  ETALON_HD V mul(V, V) {
    ++products;
    return {};
  }
  ETALON_HD V fma(V, V, V) {
    ++fused;
    return {};
  }
  ETALON_HD V neg(V) { return {}; }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
