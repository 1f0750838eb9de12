// The refusals that fast rows share, each one sentence.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/backend/definition.h"

namespace etalon {

inline Refusal refuse_unless(const Problem& problem, std::initializer_list<DType> types,
                             std::string_view said) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) &&
        std::find(types.begin(), types.end(), problem.input(i).dtype) == types.end())
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", this kernel takes " + std::string(said);
  return std::nullopt;
}
inline Refusal refuse_unless_f32(const Problem& problem) {
  return refuse_unless(problem, {DType::f32}, "f32");
}

// For rows that round to the format of input 0 once, to nearest, whatever else the contract says.
inline Refusal refuse_unless_nearest(const Problem& problem) {
  const Contract& c = *problem.contract;
  const DType dtype = problem.input(0).dtype;
  if (c.round != Round::nearest_even || c.subnormals != Subnormals::keep ||
      stored_format(dtype, c) != dtype)
    return "promises store=" + std::string(name(dtype)) + " or wider, round=rn, subnormals=keep";
  return std::nullopt;
}
inline Refusal refuse_unless_nearest_f32(const Problem& problem) {
  if (Refusal r = refuse_unless_f32(problem)) return r;
  return refuse_unless_nearest(problem);
}
inline Refusal refuse_unless_nearest_halves(const Problem& problem) {
  if (Refusal r = refuse_unless(problem, {DType::f16, DType::bf16}, "f16 and bf16")) return r;
  return refuse_unless_nearest(problem);
}

// For ops whose sum has one axis, where a walk has no meaning.
inline Refusal refuse_unless_seq(const Problem& problem) {
  Contract c = *problem.contract;
  c.walk = Walk{};
  if (!c.is_seq()) return "promises seq only";
  return std::nullopt;
}
inline Refusal refuse_unless_seq_f32(const Problem& problem) {
  if (Refusal r = refuse_unless_seq(problem)) return r;
  return refuse_unless_f32(problem);
}

inline Refusal refuse_unless_exact(const Problem& problem) {
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  return std::nullopt;
}
inline Refusal refuse_unless_exact_f32(const Problem& problem) {
  if (Refusal r = refuse_unless_exact(problem)) return r;
  return refuse_unless_f32(problem);
}

}  // namespace etalon
