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

// The value of the operator's output; a bad-input Error where it has no integer kernel here.
ValueId translate_quantised(const Quantised& q);
// Whether integers are scaled in it: its inputs or outputs have a scale and are no weights alone.
bool is_quantised(const File& file, const OperatorInfo& op);

}  // namespace etalon::tflite
