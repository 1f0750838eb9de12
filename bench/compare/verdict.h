// Verdicts: what can be said of a layer's outputs, given the layer's very inputs.
//
//   identical        bit for bit a named contract
//   explained        inside the bound that holds for any order of summation
//   lower precision  a replay names the narrower format: TF32, bf16, f16, flushed subnormals
//   undecided        the bound says nothing here, or the error is possible but not plausible
//   wrong            outside the bound, or a replayed fault explains it
//
// The bound says what is possible, replays say what happened (docs/verdicts.md). The rigorous bound
// grows as K while a fault's share of a sum shrinks as 1/sqrt(K), so from K of a few thousand TF32
// inputs lie inside it. Therefore every output that is not identical to a contract is also held
// against the hypotheses of hypotheses.h: the op is replayed with its parameters, inputs or format
// changed as the hypothesis says. With r the residual against the truth of the layer as it should
// be, r_H that against the replay, P and P_H the probabilistic f32 bounds (lambda = 6) of each
// output, a hypothesis is named when
//   - r_H lies within P_H in every output looked at (above K = 10^4: its RMS within that of P_H /
//     lambda), and
//   - r does not lie within P, or the replay removes the residual: with e = sum (r/P)^2 and
//     e_H = sum (r_H/P)^2 over N outputs, e_H <= rho e, rho = min(1/4, 10^(-18/N)).
// or, however large r_H, when the replay removes all but min(10^-4, rho) of e: the rest may be a
// second, far smaller difference.
// The conditions on energies need no size at all. If the roundings of a different order made r, r
// is independent of what the fault changes; for e_H <= rho e their correlation must reach
// sqrt(1 - rho), which independent noise does with a probability below rho^((N-1)/2): about 1e-9
// for each hypothesis by the choice of rho. Of several the one with the smallest e_H is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/compare/layer.h"
#include "bench/compare/library_accuracy.h"
#include "bench/compare/ulp.h"

namespace etalon {

enum class Verdict { identical, explained, lower_precision, undecided, wrong };
std::string_view name(Verdict verdict);
Verdict parse_verdict(std::string_view name);  // usage Error that lists them
// identical < explained < lower precision < undecided < wrong
inline Verdict worse(Verdict a, Verdict b) { return a < b ? b : a; }

struct Judgement {
  Verdict verdict = Verdict::undecided;
  std::string cause;              // what explains it, in words; empty when there is nothing to say
  std::string sentence;           // one plain sentence for a person who has never seen ULP
  std::string contract;           // the contract whose bits were compared
  ErrorStats stats;               // over the elements looked at
  std::int64_t elements = 0;      // of the tensor
  std::int64_t terms = 1;         // largest K of an output
  double bits_equal = 0;          // share of the elements with the bits of `contract`
  double bound_ulp = 0;           // largest bound, in ULP of the exact value
  double bound_used = 0;          // largest |error| / bound
  double likely_used = 0;         // largest |error| / probabilistic bound
  std::int64_t no_statement = 0;  // elements without a finite bound
  bool carried = false;
};

struct JudgeOptions {
  const Registry* registry = nullptr;
  int threads = 1;
  Isa isa = detect_isa();
  Contract contract = Contract::seq();
  double lambda = 6;
  // Accuracy of the elementary functions of the library in use; nullptr: correctly rounded.
  const LibraryAccuracy* library = nullptr;
  // Multiplications and additions that each evaluation of a layer may cost; beyond it outputs are
  // sampled.
  std::int64_t term_budget = 40'000'000;
  bool conventions = true;  // try the table of conventions.h
  // What is already known to differ: "parameter conv1.weight: element 17 has bit 0 flipped".
  std::string known_cause;
};

// One judgement for each output; an absent tensor in `got` is not judged (verdict undecided).
std::vector<Judgement> judge_layer(const Layer& layer, const std::vector<Tensor>& got,
                                   const JudgeOptions& options);

// Contracts whose bits are looked for, most usual first.
std::vector<Contract> usual_contracts(const Layer& layer, std::int64_t terms);

}  // namespace etalon
