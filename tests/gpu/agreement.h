// One case of an op on the device, beside the same case on the CPU.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/graph/executor.h"
#include "tests/op_cases.h"

namespace etalon {

// A case with all that a call of a kernel refers to.
struct Call {
  OpCase c;
  Contract contract;
  std::vector<Tensor> inputs;
  std::vector<const Tensor*> in;
  std::vector<InferInput> types;
  std::vector<TensorType> output_types;
  std::vector<Tensor> outputs;
  Problem problem;

  Call(const OpCase& of, const Contract& k);
  Call(const Call&) = delete;
  KernelCall call() { return {.problem = &problem, .inputs = in, .outputs = outputs}; }

  OpRun on_cpu(const char* text) const;
};

std::string hash_of(std::span<const Tensor> outputs);

struct Agreement {
  int compared = 0, equal = 0;
  std::string first_difference, hash;

  // Runs the case and compares; false where the row refuses it.
  bool compare(const OpCase& c, const KernelRow& row, const char* text);
};

// The named shapes of bench/shapes/OP.txt.
std::vector<OpCase> shapes_of(const char* op);

}  // namespace etalon
