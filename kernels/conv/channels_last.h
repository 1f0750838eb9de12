// conv_channels_last: rows of its own for f32 under seq, and every other contract by the rows of
// conv on turned copies of x and y.
//
// seq goes one of three ways. One tap: pixels are the rows of a matrix as they lie, so it is a
// product. One channel a group: vectors of channels read the image in place
// (channels_last_depthwise.h). Else the tiles of conv (in_place.h; few terms: fast_channels.cpp),
// whose inputs are turned while they are copied with their padding, and whose sums, channels in
// lanes, are runs of y.
//
// Same bits: each sum walks the same terms in the same sequence as conv's, from other places.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow conv_channels_last_seq_row(std::string_view name);
// By conv's rows: exact, and every order.
template <Isa isa>
KernelRow conv_channels_last_turned_row(std::string_view name);

}  // namespace etalon
