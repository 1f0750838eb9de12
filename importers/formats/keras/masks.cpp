#include "importers/formats/keras/masks.h"

#include <nlohmann/json.hpp>

#include "importers/formats/keras/layers.h"

namespace etalon::keras_format {

bool starts_mask(std::string_view type, const nlohmann::json& config) {
  const auto at = config.find("mask_zero");
  return type == "Masking" ||
         (type == "Embedding" && at != config.end() && !at->is_null() && *at != false);
}

namespace {

bool has(const nlohmann::json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && *at == true;
}

bool gives_sequences(std::string_view type, const nlohmann::json& config) {
  if (type != "Bidirectional") return has(config, "return_sequences");
  const auto layer = config.find("layer");
  return layer != config.end() && layer->is_object() && layer->contains("config") &&
         has((*layer)["config"], "return_sequences");
}

bool is_recurrent(std::string_view type) {
  return type == "LSTM" || type == "GRU" || type == "SimpleRNN" || type == "RNN" ||
         type == "Bidirectional";
}

bool is_attention(std::string_view type) {
  return type == "Attention" || type == "AdditiveAttention" || type == "MultiHeadAttention" ||
         type == "GroupQueryAttention";
}

}  // namespace

bool keeps_mask(std::string_view type, const nlohmann::json& config) {
  return is_recurrent(type) ? gives_sequences(type, config) : is_attention(type);
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
                                   "RMSNormalization",
                                   "Identity",
                                   "Flatten",
                                   "Reshape",
                                   "Permute",
                                   "RepeatVector",
                                   "Add",
                                   "Average",
                                   "Subtract",
                                   "Concatenate"})
    if (type == t) return MaskUse::passes;
  // From Keras 3 on these leave masked elements out.
  if (version < 3 && (type == "Maximum" || type == "Minimum" || type == "Multiply"))
    return MaskUse::passes;
  if (type == "Activation")  // a function is not given the mask, a layer of its own may be
    return config.contains("activation") && config["activation"].is_string() ? MaskUse::passes
                                                                             : MaskUse::computes;
  if (type == "TimeDistributed" && config.contains("layer") && config["layer"].is_object()) {
    const auto inner = config["layer"].find("class_name");
    return inner != config["layer"].end() && *inner == "Dense" ? MaskUse::passes
                                                               : MaskUse::computes;
  }
  // Of Keras 1 and 2 only what every backend and version did alike: the state is kept over a masked
  // step, whose output is the one before; Bidirectional gave zeros for it in some.
  if (is_recurrent(type) &&
      (version >= 3 || type != "Bidirectional" || !gives_sequences(type, config)))
    return MaskUse::takes;
  if (version < 3) return MaskUse::computes;  // which refused what Keras 3 warns of
  if (type == "GlobalAveragePooling1D" || is_attention(type)) return MaskUse::takes;
  for (const std::string_view t :
       {"Conv1D", "SeparableConv1D", "DepthwiseConv1D", "Conv1DTranspose", "MaxPooling1D",
        "AveragePooling1D", "GlobalMaxPooling1D", "Dot"})
    if (type == t) return MaskUse::ends;
  return MaskUse::computes;
}

}  // namespace etalon::keras_format
