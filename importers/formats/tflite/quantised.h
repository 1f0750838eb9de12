// Operators on quantised tensors, as the engine's tflite_* ops.
#pragma once

#include <optional>

#include "engine/graph/builder.h"
#include "importers/formats/tflite/file.h"

namespace etalon::tflite {

// One operator: its tensors and their values so far.
struct Quantised {
  GraphBuilder& g;
  const File& file;
  const OperatorInfo& op;
  std::string name;
  std::vector<ValueId> in;

  const TensorInfo& input(std::size_t i) const;
  const TensorInfo& output() const { return file.first_output(op); }
};

// A function of one 8-bit number as its table (functions.cpp), which a gather reads.
bool has_table(std::string_view op);
ValueId looked_up(const Quantised& q);
// Input i of 8 bits through a table of 256 elements, that of v at v modulo 256.
ValueId looked_up_in(const Quantised& q, std::size_t i, Tensor table, const std::string& role);
// y_scale, y_zero and what a fused activation holds the result to.
void limited_output(Fields& f, const TensorInfo& y, int activation);
// arithmetic.cpp; nullopt where the operator is none of its own.
bool is_comparison(std::string_view op);
std::optional<ValueId> translate_arithmetic(const Quantised& q);
// TFLite_Detection_PostProcess: boxes, classes, scores, their number.
std::vector<ValueId> detection(const Quantised& q);
// hybrid.cpp: before a fused activation of its own; nullopt where the operator is none of them.
std::optional<ValueId> hybrid(const Quantised& q);
// quantised_recurrent.cpp
// Constants of one shape below each other, zeros where one is absent; kAbsent where all are.
ValueId stacked(const Quantised& q, const char* role, const std::vector<std::size_t>& inputs,
                DType dtype);
// Their scales, 1 where one is absent.
std::vector<float> scales(const Quantised& q, const std::vector<std::size_t>& inputs);
ValueId quantised_lstm(const Quantised& q);
ValueId quantised_svdf(const Quantised& q);
// The value of the operator's output, kAbsent where its integers are only moved; a bad-input Error
// where it has no integer kernel here.
ValueId translate_quantised(const Quantised& q);
// Whether integers are scaled in it: its inputs or outputs have a scale and are no weights alone.
bool is_quantised(const File& file, const OperatorInfo& op);

}  // namespace etalon::tflite
