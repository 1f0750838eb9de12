// What digits_amx.cpp makes its DigitSet of; digit_tile.h says what each does.
#pragma once

#include "kernels/gemm/digit_tile.h"

namespace etalon::amx {

// digit_pack_amx.cpp
void pack(const float* const* rows, std::int64_t k, bool right, std::uint8_t* planes,
          DigitNorms& norms);
void pack_columns(const float* from, std::int64_t stride, int columns, std::int64_t k,
                  std::uint8_t* planes, DigitNorms* norms);
std::int32_t largest(const float* x, std::int64_t k);
double unit_for(std::int32_t top);

// digit_planes_amx.cpp
double cut_turned(const DigitBlock& block, double unit, std::uint8_t* to, std::int64_t pitch,
                  std::int64_t plane);
void gather(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset, int runs,
            std::int64_t bytes, std::uint8_t* to);
void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride);

}  // namespace etalon::amx
