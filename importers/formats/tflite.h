// TensorFlow Lite: .tflite, schema version 3. Float, float16, hybrid and sparse weights; int8,
// uint8 and int16x8 through the engine's tflite_* ops, which are TensorFlow Lite's reference
// kernels bit for bit.
//
// Tensors are NHWC as the file has them; convolutions stand between transposes that the builder
// folds away. SAME pads the odd element at the end. Quantised tensors stay integers; their scales
// and zero points stand in the ops that read them and in the notes. A signature's names win over
// tensor names. Refused by name: custom ops, flex ops, control flow, strings, variables.
// Source: tensorflow/lite/schema/schema.fbs (field indices), the reference kernels for meaning.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& tflite_format();

}  // namespace etalon
