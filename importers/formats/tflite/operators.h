// Operators in TensorFlow Lite's own words: recurrent layers over a sequence, and what has no
// counterpart among TensorFlow's operators that this engine reads.
#pragma once

#include <optional>

#include "engine/graph/builder.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/tflite/file.h"

namespace etalon::tflite {

// One operator, named `n.name`, on the values `n.inputs` (kAbsent: a state, or not given).
struct Operator {
  GraphBuilder& g;
  tf::Ops& ops;
  const OperatorInfo& op;
  tf::OpNode& n;
};

// TensorFlow's name of an operator that means the same there; empty where none does (names.cpp).
std::string_view tensorflow_name(std::string_view type);
// The output, before a fused activation; nullopt where it is none of these.
std::optional<ValueId> translate_own(const Operator& o);
bool is_recurrent(std::string_view type);
std::vector<ValueId> translate_recurrent(const Operator& o);

}  // namespace etalon::tflite
