// What a caller knows of a network's inputs and the file does not say: TorchScript and whole
// modules of PyTorch hold no shape of their input. A scope says it to the readers of such files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace etalon {

struct HintedInput {
  std::string name;  // "" where it is told by its place
  TensorType type;
};

// While it lives, given() on this thread is what it was made of; an inner one hides the outer.
class InputHints {
 public:
  explicit InputHints(std::vector<HintedInput> inputs);
  ~InputHints();
  InputHints(const InputHints&) = delete;
  InputHints& operator=(const InputHints&) = delete;

  static std::span<const HintedInput> given();

 private:
  std::vector<HintedInput> inputs_;
  const InputHints* outer_;
};

}  // namespace etalon
