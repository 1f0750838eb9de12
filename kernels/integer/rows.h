#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> integer_rows();
std::span<const KernelRow> tflite_rows();
std::span<const KernelRow> tflite_fixed_rows();
std::span<const KernelRow> tflite_lstm_rows();
std::span<const KernelRow> tflite_sixteen_rows();
std::span<const KernelRow> tflite_hybrid_rows();
std::span<const KernelRow> code_rows();

}  // namespace etalon
