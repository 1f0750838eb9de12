// Copies elements between two strided views: operand 0 is the destination, operand 1 the source.
// Rows that are contiguous in both go by memcpy; a transposition goes in square tiles, so that a
// cache line that was fetched is used whole; everything else element by element.
#pragma once

#include "engine/backend/strided.h"

namespace etalon {

void copy_strided(const StridedLoop<2>& loop, int element_bytes, std::byte* to,
                  const std::byte* from, int threads);

// One long memcpy, in parallel.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, int threads);

// Sets `count` elements to the one at `value`.
void fill_elements(std::byte* to, std::int64_t count, const std::byte* value, int element_bytes);

}  // namespace etalon
