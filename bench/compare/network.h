// A whole network judged by its final outputs alone: what was recorded elsewhere, by a framework
// that is not here any more.
//
// Nothing is known of the layers, so there is no isolated view and no cause can be named. Three
// statements are tried, the strongest first, and each is marked as carried:
//   bits    equal to the contract's
//   bound   within the bound carried through every layer (carried.h), and within what draws leave.
//           Rigorous, and hopeless after a few layers: it grows by the sum of |w| with each
//   draws   the error of every element of every layer is drawn at random, with the size sigma that
//           the probabilistic bound of any_order.h takes for it (lambda sigma is that bound), and
//           the network itself carries the draws to its outputs, as Monte Carlo arithmetic does
//           (Parker, Pierce, Eggert, "Monte Carlo arithmetic", Comput. Sci. Eng. 2(4), 2000). The
//           output is explained if it lies within lambda = 6 times the root mean square of what n
//           draws leave there, over the tensor, and no element beyond lambda times the largest.
//           This is a statement about independent roundings, not a proof; sigma is that of the
//           worst order, so that it is generous too. A difference beyond it is undecided, inside
//           the carried bound or not: the draws assume a size of error, they do not prove it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/compare/verdict.h"
#include "engine/graph/graph.h"

namespace etalon {

struct NetworkJudgement {
  std::string name;
  Judgement judgement;
  std::string way;    // "bits", "bound", "draws"; "" where nothing could be said
  std::string bound;  // what the carried bound said
};

struct NetworkOptions {
  const Registry* registry = nullptr;
  int threads = 1;
  Isa isa = detect_isa();
  Contract contract = Contract::seq();
  const LibraryAccuracy* library = nullptr;
  double lambda = 6;
  int draws = 6;
};

// For each output of the graph that `got` has. Inputs as the executor takes them; a missing one is
// a bad-input Error.
std::vector<NetworkJudgement> judge_network(
    const Graph& graph, const std::map<std::string, Tensor, std::less<>>& inputs,
    const std::map<std::string, Tensor, std::less<>>& got, const NetworkOptions& options);

}  // namespace etalon
