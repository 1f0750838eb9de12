// Neon's models: a pickle of one dict with the layers' types, configurations and parameters.
//
// The graph is built from "model", a Sequential of layers or a Tree of them. Conventions, each a
// note: kernels are stored (C*R*S, K) and are correlated, not flipped; FC weights are (out, in); a
// flatten is channels first; without strides the windows of a pooling lie beside one another, and
// its means count what lies inside the image alone; gates
// of LSTM are i, f, o, g in blocks of columns of one matrix with input, state and bias rows; GRU's
// are r, z, h with h' = z*h + (1 - z)*n after the state before it. A layer that is not known gives
// the weights alone, and a note names it. Source: neon 2.6, neon/layers/layer.py and recurrent.py.
#pragma once

#include <memory>
#include <string>

#include "importers/containers/pickle.h"
#include "importers/importers.h"

namespace etalon {

bool is_neon(const Pickle& pickle);
Model open_neon(const std::shared_ptr<const Pickle>& pickle, const std::string& path);

}  // namespace etalon
