#include "importers/formats/keras/masks.h"

#include <nlohmann/json.hpp>

#include "importers/formats/keras/layers.h"

namespace etalon::keras_format {

bool starts_mask(std::string_view type, const nlohmann::json& config) {
  const auto at = config.find("mask_zero");
  return type == "Embedding" && at != config.end() && !at->is_null() && *at != false;
}

MaskUse mask_use(std::string_view type, const nlohmann::json& config, int version) {
  if (is_identity(type)) return MaskUse::passes;
  // Not of the merging layers: Maximum, Minimum and Multiply leave masked elements out.
  for (const std::string_view t : {"Dense",
                                   "ReLU",
                                   "LeakyReLU",
                                   "ELU",
                                   "PReLU",
                                   "ThresholdedReLU",
                                   "BatchNormalization",
                                   "LayerNormalization",
                                   "GroupNormalization",
                                   "UnitNormalization",
                                   "Normalization",
                                   "Rescaling",
                                   "Flatten",
                                   "Reshape",
                                   "Permute",
                                   "RepeatVector",
                                   "Add",
                                   "Average",
                                   "Subtract",
                                   "Concatenate"})
    if (type == t) return MaskUse::passes;
  if (type == "Activation")  // a function is not given the mask, a layer of its own may be
    return config.contains("activation") && config["activation"].is_string() ? MaskUse::passes
                                                                             : MaskUse::computes;
  if (type == "TimeDistributed" && config.contains("layer") && config["layer"].is_object()) {
    const auto inner = config["layer"].find("class_name");
    return inner != config["layer"].end() && *inner == "Dense" ? MaskUse::passes
                                                               : MaskUse::computes;
  }
  if (version < 3) return MaskUse::computes;  // which refused what Keras 3 warns of
  if (type == "GlobalAveragePooling1D") return MaskUse::mean;
  for (const std::string_view t :
       {"Conv1D", "SeparableConv1D", "DepthwiseConv1D", "Conv1DTranspose", "MaxPooling1D",
        "AveragePooling1D", "GlobalMaxPooling1D", "Dot"})
    if (type == t) return MaskUse::ends;
  return MaskUse::computes;
}

}  // namespace etalon::keras_format
