// The tensors of a job: one safetensors file per direction.
#pragma once

#include <string>

#include "bench/runners/runner.h"

namespace etalon {

void write_tensor_file(const std::string& path, const TensorMap& tensors);
TensorMap read_tensor_file(const std::string& path);

}  // namespace etalon
