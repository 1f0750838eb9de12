// What training leaves in a graph of TensorFlow 1, which a checkpoint's .meta and many a frozen
// graph still hold.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "importers/formats/tf/body.h"

namespace etalon::tf {

struct Training {
  // What is no part of the network: optimisers, gradients, assignments and what they alone read,
  // savers, summaries, losses of labels and what hangs on labels.
  std::set<std::string> nodes;
  std::vector<std::string> scores;  // what the losses are taken of: outputs of the network
};
Training training_of(const Body& main);

// Placeholders that choose between training and inference, with the value of inference: one side of
// their branches draws random numbers, takes a batch's own statistics or assigns. Adds how many
// nodes were looked at to `seen`.
std::map<std::string, bool> inference_switches(const Body& main, std::size_t& seen);

// Of a node that draws uniform numbers u: whether they decide what a dropout keeps, floor(keep + u)
// or u >= rate. `never`: a constant says that nothing is dropped; `given`: an input says how much;
// `always`: a constant drops.
enum class Dropout { none, never, given, always };
Dropout dropout_of(const Body& body, std::size_t node);

}  // namespace etalon::tf
