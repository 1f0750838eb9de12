// Rows of ops whose bits no contract touches: copies, integers, comparisons.
//
// Such a row is called NAME.bits and accepts every contract. It honours `exact` too, so it owes the
// truth where one is asked for: the truth of a copied element is the element.
#pragma once

#include "engine/backend/kernel.h"
#include "engine/numerics/element.h"

namespace etalon {

// All inputs with their values: shape geometry at run time is the inference's own.
inline std::vector<InferInput> known_inputs(const KernelCall& call) {
  std::vector<InferInput> known(call.inputs.size());
  for (std::size_t i = 0; i < known.size(); ++i)
    if (call.has(i)) known[i] = {call.input(i).type(), &call.input(i), true};
  return known;
}

inline std::byte* output_bytes(const KernelCall& call, std::size_t i) {
  // The executor allocated it for this call; the span only hides that it may be written.
  return const_cast<std::byte*>(call.output(i).bytes().data());
}

inline void fill_truth_from_outputs(const KernelCall& call) {
  for (std::size_t o = 0; o < call.truth.size(); ++o) {
    if (!call.truth[o]) continue;
    const Tensor& t = call.output(o);
    auto* truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[o].bytes().data()));
    for (std::int64_t i = 0; i < t.numel(); ++i) truth[i] = load_as_double(t, i);
  }
}

// Of a conversion: the truth is the element that was converted.
inline void fill_truth_from_input(const KernelCall& call) {
  if (call.truth.empty() || !call.truth[0]) return;
  auto* truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[0].bytes().data()));
  for (std::int64_t i = 0; i < call.input(0).numel(); ++i)
    truth[i] = canonical(load_as_double(call.input(0), i));
}

template <void (*Run)(const KernelCall&)>
KernelRow bits_row(std::string_view op, std::string_view name,
                   Refusal (*refuse)(const Problem&) = nullptr) {
  return {.op = op,
          .name = name,
          .contracts = "all",
          .refuse = refuse,
          .run = [](const KernelCall& call) {
            Run(call);
            fill_truth_from_outputs(call);
          }};
}

}  // namespace etalon
