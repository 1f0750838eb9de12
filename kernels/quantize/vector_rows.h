// Quantisation and its reverse between f32 and integers of 8 and 16 bits, on rows of neighbours:
// the same text, compiled for 4, 8 and 16 floats, gives the same bits.
#pragma once

#include <cstdint>

namespace etalon {

enum class QuantizedType { i8, u8, i16, u16 };

// Scales and zero points: one for all, or one for each element. Zero points are integers of the
// type, in f32.
struct QuantizedRow {
  QuantizedType type = QuantizedType::i8;
  const float* scale = nullptr;
  const float* zero = nullptr;  // nullptr: 0
  bool varies = false;
};

// y = x / scale, halves to even, + zero, held to the type; NaN counts as 0. Returns whether a
// rounded quotient was half an odd number, whose side the quotient itself may not share.
using QuantizeRow = bool (*)(const QuantizedRow& row, const float* x, void* y, std::int64_t n);
// y = (x - zero) * scale, NaN canonical.
using DequantizeRow = void (*)(const QuantizedRow& row, const void* x, float* y, std::int64_t n);
// y = x cut toward zero and held to the type; NaN is 0.
using CutRow = void (*)(QuantizedType type, const float* x, void* y, std::int64_t n);

#define ETALON_QUANTIZE_ROWS(set)                                                              \
  bool quantize_row_##set(const QuantizedRow& row, const float* x, void* y, std::int64_t n);   \
  void dequantize_row_##set(const QuantizedRow& row, const void* x, float* y, std::int64_t n); \
  void cut_row_##set(QuantizedType type, const float* x, void* y, std::int64_t n);
ETALON_QUANTIZE_ROWS(base)
ETALON_QUANTIZE_ROWS(avx2)
ETALON_QUANTIZE_ROWS(avx512)
#undef ETALON_QUANTIZE_ROWS

}  // namespace etalon
