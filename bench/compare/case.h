// A replayable case: one layer, its inputs and what was computed, in a folder of two files.
//
//   DIR/case.json            {"etalon_case": 1, "op": "conv", "params": {...}, "contract": "seq",
//                             "framework": "PyTorch", "inputs": ["x", "w", ""], "outputs": ["y"],
//                             "origin": "...", "verdict": "wrong", "cause": "..."}
//   DIR/tensors.safetensors  input.x, input.w, output.y
//
// "" is an optional input that is not given. `etalon judge --case DIR` judges it again.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/layer.h"

namespace etalon {

struct Case {
  Layer layer;
  std::vector<Tensor> outputs;  // absent where none was kept
  std::string contract = "seq";
  std::string framework = "unknown";  // whose functions were used (library_accuracy.h)
  std::string origin;                 // "lenet.onnx, node conv1, onnxruntime 1.31.1"
  std::string verdict, cause;
};

// Writes both files, creating the folder. Fewer samples are kept where axis 0 of the first input is
// a batch of a per-sample op: those around `worst` (an index into output `output`), at most 2 rows.
void save_case(const std::string& folder, const Case& c);
Case load_case(const std::string& folder);

// The rows of axis 0 that show output element `worst`, if the op computes rows apart; otherwise the
// case unchanged.
Case smallest_case(const Case& c, std::size_t output, std::int64_t worst);

}  // namespace etalon
