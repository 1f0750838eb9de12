// Which rows a test of the CPU's kernels can run: a build with CUDA has the device's rows beside
// them, on a machine with a device and on one without.
#pragma once

#include "engine/backend/kernel.h"
#include "engine/core/cpu.h"

namespace etalon::test {

inline bool on_this_cpu(const KernelRow& row) {
  return row.device == Device::cpu && row.isa <= detect_isa();
}

// Rows over f16 and bf16 alone: tests/pairs_test.cpp and plain_rows_test.cpp have them.
inline bool takes_halves_only(const KernelRow& row) {
  for (const std::string_view part : {".halves.", ".half.", ".bf16."})
    if (row.name.find(part) != std::string_view::npos) return true;
  return false;
}

}  // namespace etalon::test
