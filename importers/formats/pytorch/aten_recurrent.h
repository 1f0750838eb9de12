// torch.lstm, gru, rnn_tanh, rnn_relu: several layers in one or both directions, weights as a flat
// list (for each layer and direction w_ih, w_hh and the biases of both), states that begin at zero.
// Gives y, h_n and for lstm c_n.
#pragma once

#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

std::vector<ValueId> recurrent_aten(GraphBuilder& graph, const std::string& op,
                                    const std::string& name, const AtenCall& call);

}  // namespace etalon::pytorch_format
