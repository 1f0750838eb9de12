// What digits_amx.cpp makes its DigitSet of; digit_tile.h says what each does.
#pragma once

#include "kernels/gemm/digit_tile.h"

namespace etalon::amx {

// digit_pack_amx.cpp
void pack(const float* const* rows, std::int64_t k, bool right, std::uint8_t* planes,
          DigitNorms& norms);
void pack_columns(const float* from, std::int64_t stride, int columns, std::int64_t k,
                  std::uint8_t* planes, DigitNorms* norms);

// residue_pack_amx.cpp
void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride);

}  // namespace etalon::amx
