// Ops that only move elements, on a device. Their text is the CPU's: the CPU's row runs once, when
// a call is planned, over the *positions* of its inputs' elements instead of their values, and what
// comes out is the map by which the device gathers (MoveTask, api.h). So an index means the same on
// both sides by construction. The price is 4 bytes of map beside the 8 that an f32 element takes to
// be read and written; where an op only changes the shape nothing is moved at all.
#pragma once

#include <span>
#include <string_view>

#include "kernels/backends/cuda/device.h"

namespace etalon::cuda {

struct MovementOp {
  std::string_view name;
  bool alias = false;
};
std::span<const MovementOp> movement_ops();

Refusal refuse_movement(const Problem& problem);
void enqueue_movement(const KernelCall& call, Work& work);

}  // namespace etalon::cuda
