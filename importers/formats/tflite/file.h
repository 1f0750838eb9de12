// The parts of a .tflite file, read and checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "importers/containers/flatbuffers.h"

namespace etalon::tflite {

struct Quantisation {
  std::vector<float> scales;
  std::vector<std::int64_t> zeros;
  int axis = 0;
  bool given() const { return !scales.empty(); }
  float scale() const {
    if (scales.empty()) throw bad_input("a quantised tensor without a scale");
    return scales[0];
  }
  std::int64_t zero() const { return zeros.empty() ? 0 : zeros[0]; }
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims, signature;  // signature: -1 where free
  Quantisation quantisation;
  Tensor value;  // of a constant
  bool variable = false;
  bool resource = false;  // names a variable, and has no elements
  bool is_complex = false;
};

struct OperatorInfo {
  int code = 0;
  std::string custom;
  std::vector<std::int32_t> inputs, outputs;
  std::vector<std::int32_t> intermediates;  // tensors that tell scales alone
  FlatTable options;
  Blob custom_options;  // of a custom operator, in its own form
};

// A subgraph; the first one is the network, the others are what it calls.
struct File {
  std::string description;
  std::vector<TensorInfo> tensors;
  std::vector<OperatorInfo> operators;
  std::vector<std::int32_t> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> notes;
  std::vector<File> called;  // subgraphs 1 and on

  // A bad-input Error where the operator leaves its first output away.
  const TensorInfo& first_output(const OperatorInfo& op) const;
};

File read_file(const Blob& blob);
std::string_view operator_name(int code);  // "CONV_2D"

}  // namespace etalon::tflite
