// TensorFlow's functions as layers of tf.keras: TFOpLambda and SlicingOpLambda (from 2.4 on) name
// the function, a call has its arguments; TensorFlowOpLayer (before) holds the node.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace etalon::keras_format {

bool is_function(std::string_view type);  // TFOpLambda, SlicingOpLambda
// [layer, node, tensor], as calls name a value of the network.
bool is_tensor(const nlohmann::json& v);
// The tensors of a call, in the order in which its translation takes them.
std::vector<const nlohmann::json*> tensors_of_call(const nlohmann::json& node);

}  // namespace etalon::keras_format
