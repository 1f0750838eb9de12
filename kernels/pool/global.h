// global_avg_pool and global_max_pool on f32, contract seq: a plane's elements are one chain, in
// sequence; eight planes advance side by side, which hides the latency of an addition.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> global_pool_f32_rows();

}  // namespace etalon
