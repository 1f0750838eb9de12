// Which rows a test of the CPU's kernels can run: a build with CUDA has the device's rows beside
// them, on a machine with a device and on one without.
#pragma once

#include "engine/backend/kernel.h"
#include "engine/core/cpu.h"

namespace etalon::test {

inline bool on_this_cpu(const KernelRow& row) {
  return row.device == Device::cpu && row.isa <= detect_isa();
}

// Rows over f16 and bf16 alone (kernels/gemm/halves_row.h, pairs.h): tests/pairs_test.cpp has them.
inline bool takes_halves_only(const KernelRow& row) {
  return row.name.find(".halves.") != std::string_view::npos ||
         row.name.find(".bf16.") != std::string_view::npos;
}

}  // namespace etalon::test
