// conv under exact, one input channel a group: f64 sums by the windows of depthwise.h, rounded
// where they are made.
//
// **Bound.** A sum of k taps is a chain of k fused multiply-adds, off by at most gamma(k) times the
// sum of |w x| (kernels/gemm/exact.h), and that is at most the sum of |w| times the channel's
// largest |x|: one pass over the channel instead of a second sum for each output. It is wide where
// a channel's numbers differ by far; where it leaves more than one output in sixteen undecided, the
// caller sums the layer with a bound to each output (ExactLanes::taps).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact_task.h"

namespace etalon {

// The windows of a layer that this pass takes: one input channel and few output channels a group.
std::optional<WindowRows> exact_depthwise_rows(Isa isa, const ConvGeometry& g);

// Appends what it leaves undecided. Knows no truth.
void exact_depthwise(Isa isa, const WindowRows& rows, const ExactConv& conv,
                     std::vector<std::int64_t>& undecided);

}  // namespace etalon
