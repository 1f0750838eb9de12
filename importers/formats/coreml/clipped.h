// An LSTM whose cell is held in a range, which the op of that name does not do: a scan.
#pragma once

#include <string>
#include <vector>

#include "importers/formats/translate.h"

namespace etalon::coreml {

struct ClippedLstm {
  std::int64_t hidden = 0, directions = 1;
  bool backwards = false, coupled = false;
  float held = 0, limit = 0;  // of the functions' arguments, of the cell
  // Three of each direction: of the gates, the block, the output; numbers of those that have some.
  std::vector<std::string> functions;
  std::vector<float> alpha, beta;
};
// Inputs and outputs as the op lstm has them, gates i, f, c, o: y [S,D,B,H], states [D,B,H].
std::vector<ValueId> clipped_lstm(GraphBuilder& g, const std::string& name,
                                  const std::vector<ValueId>& in, const ClippedLstm& how);

}  // namespace etalon::coreml
