// The refusals that fast rows share, each one sentence.
#pragma once

#include <string>

#include "engine/backend/kernel.h"

namespace etalon {

inline Refusal refuse_unless_f32(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", this kernel takes f32";
  return std::nullopt;
}

// For ops whose sum has one axis, where a walk has no meaning.
inline Refusal refuse_unless_seq_f32(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};
  if (!c.is_seq()) return "promises seq only";
  return refuse_unless_f32(problem);
}

inline Refusal refuse_unless_exact_f32(const Problem& problem) {
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  return refuse_unless_f32(problem);
}

}  // namespace etalon
