#include "importers/input_hints.h"

namespace etalon {
namespace {

thread_local const InputHints* innermost = nullptr;

}  // namespace

InputHints::InputHints(std::vector<HintedInput> inputs)
    : inputs_(std::move(inputs)), outer_(innermost) {
  innermost = this;
}

InputHints::~InputHints() { innermost = outer_; }

std::span<const HintedInput> InputHints::given() {
  return innermost == nullptr ? std::span<const HintedInput>() : innermost->inputs_;
}

}  // namespace etalon
