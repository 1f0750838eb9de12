// Operators on quantised tensors, as the engine's tflite_* ops.
#pragma once

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
  const TensorInfo& output() const { return file.tensors[static_cast<std::size_t>(op.outputs[0])]; }
};

// A function of one 8-bit number as its table (functions.cpp).
bool has_table(std::string_view op);
ValueId looked_up(const Quantised& q);
// The value of the operator's output, kAbsent where its integers are only moved; a bad-input Error
// where it has no integer kernel here.
ValueId translate_quantised(const Quantised& q);
// Whether integers are scaled in it: its inputs or outputs have a scale and are no weights alone.
bool is_quantised(const File& file, const OperatorInfo& op);

}  // namespace etalon::tflite
