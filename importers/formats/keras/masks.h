// Which steps of a sequence count: Keras' masks, which Embedding(mask_zero) starts and which then
// go along with the values, unseen in the file, to every layer behind.
//
// What a layer does with a mask depends on its class; a class that is not known to leave values
// alone, or to be translated with its mask, is refused, because a mask that is overlooked gives
// another result silently.
// Source: keras/src/layers (3.15), `supports_masking`, `compute_mask` and calls with `mask`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace etalon::keras_format {

enum class MaskUse {
  passes,   // the values do not depend on it, the output has it too
  ends,     // the values do not depend on it, the output has none
  takes,    // computed with the mask here: recurrent layers, attention, GlobalAveragePooling1D
  computes  // anything else
};

MaskUse mask_use(std::string_view type, const nlohmann::json& config, int version);
bool starts_mask(std::string_view type, const nlohmann::json& config);
// Of those that take one: whether the output has the first input's.
bool keeps_mask(std::string_view type, const nlohmann::json& config);

}  // namespace etalon::keras_format
