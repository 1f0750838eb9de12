#include "importers/input_hints.h"

#include <algorithm>

namespace etalon {
namespace {

thread_local InputHints* innermost = nullptr;

}  // namespace

InputHints::InputHints(std::vector<HintedInput> inputs)
    : inputs_(std::move(inputs)), outer_(innermost) {
  innermost = this;
}

InputHints::~InputHints() { innermost = outer_; }

std::span<const HintedInput> InputHints::given() {
  if (innermost == nullptr) return {};
  innermost->read_ = true;
  return innermost->inputs_;
}

const HintedInput* InputHints::of(std::string_view name) {
  if (innermost == nullptr) return nullptr;
  const auto at = std::ranges::find(innermost->inputs_, name, &HintedInput::name);
  return at == innermost->inputs_.end() ? nullptr : &*at;
}

void InputHints::took(std::string_view name) {
  if (innermost != nullptr) innermost->taken_.emplace(name);
}

}  // namespace etalon
