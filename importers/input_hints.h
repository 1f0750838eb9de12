// What a caller knows of a network's inputs and the file does not say: TorchScript and whole
// modules of PyTorch hold no shape of their input. A scope says it to the readers of such files.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
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
  // The one that names this input; nullptr where none does.
  static const HintedInput* of(std::string_view name);
  // Said by a reader that made use of the hint of this name.
  static void took(std::string_view name);

  // Whether a reader asked for what was given, or took the hint of a name.
  bool read() const { return read_; }
  bool taken(std::string_view name) const { return taken_.contains(name); }

 private:
  std::vector<HintedInput> inputs_;
  std::set<std::string, std::less<>> taken_;
  bool read_ = false;
  InputHints* outer_;
};

}  // namespace etalon
